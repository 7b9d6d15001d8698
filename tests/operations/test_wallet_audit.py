"""The audit finds each kind of error in wallets, and nothing in those that were used as they should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest
from tests.builders import add_wallet
from tests.scenarios import Scenario, charge_on

from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.wallet_audit import audited_strays
from usagebill.core.wallet_transactions import (
    TransactionKind,
    TransactionType,
    WalletConsumption,
    WalletTransaction,
    WalletTransactionStatus,
)
from usagebill.core.wallets import Wallet
from usagebill.operations.audit import audit
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, eq, more

pytestmark = pytest.mark.now("2024-03-01T00:00:00Z")

Plant = Callable[[Work], None]


class Undone(Exception):
    """Raised to undo what a test planted."""


@pytest.fixture
def box(box: Scenario) -> Scenario:
    """Two wallets that paid two invoices, the later of which was voided."""
    box.customer()
    box.plan(charge_on(box.metric("gb"), amount="1"), amount_cents=100)
    box.subscribe()
    add_wallet(box, 1500, code="first", priority=1)
    add_wallet(box, 900, code="second", priority=2)
    for month in (4, 5):
        box.event("gb", value=14)
        box.travel_to(f"2024-{month:02d}-01T01:00:00Z")
    invoice = box.invoices()[-1]
    assert invoice["total_amount_cents"] == 600
    box.post(f"/invoices/{invoice['svc_id']}/void")
    return box


def transactions(work: Reader, kind: TransactionType) -> list[WalletTransaction]:
    return work.tx.find(WalletTransaction, eq("transaction_type", kind), order=[asc("created_at"), asc("id")])


def wallet(work: Reader) -> Wallet:
    return work.tx.find(Wallet, order=[asc("priority")])[0]


def consumption(work: Reader) -> WalletConsumption:
    return work.tx.find(WalletConsumption, order=[asc("created_at"), asc("id")])[0]


def paid_invoice(work: Reader) -> Invoice:
    return work.tx.find(Invoice, more("prepaid_credit_amount_cents", 0), order=[asc("created_at")])[0]


def a_cent_that_came_from_nowhere(work: Work) -> None:
    known = wallet(work)
    work.tx.replace(replace(known, balance_cents=known.balance_cents + 1))


def a_credit_that_went_nowhere(work: Work) -> None:
    known = wallet(work)
    work.tx.replace(replace(known, credits_balance=known.credits_balance - Decimal("0.00001")))


def credits_that_nobody_consumed(work: Work) -> None:
    known = wallet(work)
    work.tx.replace(replace(known, consumed_credits=known.consumed_credits + 1))


def a_grant_of_more_credits_than_it_is_worth(work: Work) -> None:
    grant = transactions(work, TransactionType.INBOUND)[0]
    work.tx.replace(replace(grant, credit_amount=grant.credit_amount + 1))


def a_grant_that_has_more_left(work: Work) -> None:
    grant = transactions(work, TransactionType.INBOUND)[0]
    work.tx.replace(replace(grant, remaining_amount_cents=(grant.remaining_amount_cents or 0) + 1))


def a_grant_that_takes_credits_out(work: Work) -> None:
    grant = transactions(work, TransactionType.INBOUND)[0]
    work.tx.replace(replace(grant, transaction_status=TransactionKind.VOIDED))


def a_grant_that_waits(work: Work) -> None:
    grant = transactions(work, TransactionType.INBOUND)[0]
    work.tx.replace(replace(grant, status=WalletTransactionStatus.PENDING))


def a_grant_below_nothing(work: Work) -> None:
    grant = transactions(work, TransactionType.INBOUND)[0]
    work.tx.replace(replace(grant, amount_cents=-grant.amount_cents))


def a_top_up_for_another_amount(work: Work) -> None:
    grant = transactions(work, TransactionType.INBOUND)[0]
    work.tx.replace(replace(grant, invoice_id=paid_invoice(work).id))


def a_use_without_funding(work: Work) -> None:
    work.tx.delete(consumption(work))


def a_use_funded_by_a_cent_less(work: Work) -> None:
    row = consumption(work)
    work.tx.replace(replace(row, amount_cents=row.amount_cents - 1))


def a_use_funded_by_another_wallet(work: Work) -> None:
    row = consumption(work)
    other = next(
        transaction
        for transaction in transactions(work, TransactionType.INBOUND)
        if transaction.wallet_id != row.wallet_id
    )
    work.tx.replace(replace(row, inbound_id=other.id))


def a_funding_that_nothing_used(work: Work) -> None:
    row = consumption(work)
    grants = [transaction.id for transaction in transactions(work, TransactionType.INBOUND)]
    used = {
        transaction.outbound_id for transaction in work.tx.find(WalletConsumption, eq("inbound_id", row.inbound_id))
    }
    work.tx.replace(replace(row, outbound_id=next(id for id in grants if id not in used)))


def an_invoice_that_says_more_was_prepaid(work: Work) -> None:
    invoice = paid_invoice(work)
    work.tx.replace(replace(invoice, prepaid_credit_amount_cents=invoice.prepaid_credit_amount_cents + 1))


def a_split_that_is_not_that_of_the_grants(work: Work) -> None:
    work.tx.replace(replace(paid_invoice(work), prepaid_purchased_credit_amount_cents=1))


def a_payment_of_no_fee(work: Work) -> None:
    paying = transactions(work, TransactionType.OUTBOUND)[0]
    work.tx.replace(replace(paying, paid_fees=paying.paid_fees[1:]))


def a_payment_of_a_fee_of_another_invoice(work: Work) -> None:
    paying = transactions(work, TransactionType.OUTBOUND)[0]
    first, *others = paying.paid_fees
    fees = work.tx.find(Fee)
    other = next(fee for fee in fees if fee.invoice_id != paying.invoice_id)
    work.tx.replace(replace(paying, paid_fees=(replace(first, fee_id=other.id), *others)))


def a_void_that_gave_back_twice(work: Work) -> None:
    returned = next(
        transaction
        for transaction in transactions(work, TransactionType.INBOUND)
        if transaction.voided_invoice_id is not None
    )
    work.tx.insert(replace(returned, id=work.new_id()))


def a_funding_of_no_wallet(work: Work) -> None:
    work.tx.replace(replace(consumption(work), wallet_id=work.new_id()))


def a_payment_of_no_invoice(work: Work) -> None:
    work.tx.replace(replace(transactions(work, TransactionType.OUTBOUND)[0], invoice_id=None))


def a_purchase_that_nobody_was_invoiced_for(work: Work) -> None:
    grant = transactions(work, TransactionType.INBOUND)[0]
    work.tx.replace(replace(grant, transaction_status=TransactionKind.PURCHASED))


PLANTS: tuple[tuple[Plant, str], ...] = (
    (a_cent_that_came_from_nowhere, "wallet"),
    (a_credit_that_went_nowhere, "wallet"),
    (credits_that_nobody_consumed, "wallet"),
    (a_grant_of_more_credits_than_it_is_worth, "wallet_transaction"),
    (a_grant_that_has_more_left, "wallet_transaction"),
    (a_grant_that_takes_credits_out, "wallet_transaction"),
    (a_grant_that_waits, "wallet_transaction"),
    (a_grant_below_nothing, "wallet_transaction"),
    (a_top_up_for_another_amount, "wallet_transaction"),
    (a_use_without_funding, "wallet_funding"),
    (a_use_funded_by_a_cent_less, "wallet_funding"),
    (a_use_funded_by_another_wallet, "wallet_funding"),
    (a_funding_that_nothing_used, "wallet_funding"),
    (a_funding_of_no_wallet, "wallet_funding"),
    (a_payment_of_no_invoice, "wallet_transaction"),
    (a_purchase_that_nobody_was_invoiced_for, "wallet_transaction"),
    (an_invoice_that_says_more_was_prepaid, "prepaid"),
    (a_split_that_is_not_that_of_the_grants, "prepaid"),
    (a_payment_of_no_fee, "prepaid"),
    (a_payment_of_a_fee_of_another_invoice, "prepaid"),
    (a_void_that_gave_back_twice, "prepaid"),
)


def test_wallets_that_were_used_as_they_should_be_give_no_finding(box: Scenario) -> None:
    report = box.billing.audit()
    assert report.findings == ()
    assert report.wallets == 2


def test_each_planted_error_is_found(box: Scenario) -> None:
    for plant, check in PLANTS:
        seen: set[str] = set()

        def planted(work: Work, plant: Plant = plant, seen: set[str] = seen) -> None:
            plant(work)
            seen |= {finding.check for finding in audit(work).findings}
            raise Undone

        with pytest.raises(Undone):
            box.billing.writing(planted)
        assert check in seen, plant.__name__


def test_what_nothing_leads_to_is_found_too(box: Scenario) -> None:
    """A store that checks references would not take these."""

    def strays(reader: Reader) -> list[tuple[str, str]]:
        other, inbound = replace(wallet(reader), id="other"), transactions(reader, TransactionType.INBOUND)
        stray, row = replace(inbound[0], wallet_id="none"), replace(consumption(reader), wallet_id="none")
        known = {other.customer_id}
        assert list(audited_strays(known, reader.tx.find(Wallet), inbound, [consumption(reader)])) == []
        findings = audited_strays(known, [replace(other, customer_id="none")], [stray], [row])
        return [(finding.check, finding.detail) for finding in findings]

    assert box.billing.reading(strays) == [
        ("wallet", "customer"),
        ("wallet_transaction", "wallet"),
        ("wallet_funding", "wallet"),
    ]
