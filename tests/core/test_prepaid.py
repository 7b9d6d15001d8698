"""Prepaid credits on invoices: which wallet pays which fee, and out of which grants."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import NOW, fee, fees, inbound, note, settle, tax, wallet
from tests.money import gross

from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.totals import InvoiceInProgress
from usagebill.core.prepaid import AvailableWallet, WalletShare, allocated, fee_fundings, payable
from usagebill.core.wallet_transactions import TransactionKind, drawn
from usagebill.core.wallets import Wallet, may_pay


def usage(cents: int, metric: str = "m", taxes: str = "0", **fields: Any) -> Fee:
    """A usage fee that is taxed already."""
    id = fields.pop("id", f"usage of {metric}")
    return fee(cents, id=id, billable_metric_id=metric, taxes_precise_amount_cents=Decimal(taxes), **fields)


def base(cents: int, taxes: str = "0") -> Fee:
    return fee(cents, id="base", fee_type=FeeType.SUBSCRIPTION, taxes_precise_amount_cents=Decimal(taxes))


def holding(id: str, cents: int, **fields: Any) -> Wallet:
    return wallet(id, balance_cents=cents, credits_balance=Decimal(cents) / 100, **fields)


def paid(shares: list[WalletShare]) -> dict[str, int]:
    return {share.wallet.id: share.amount_cents for share in shares}


def six_wallets() -> list[Wallet]:
    limits: dict[str, dict[str, Any]] = {
        "": {},
        "-charge": {"fee_types": ("charge",)},
        "-sub": {"fee_types": ("subscription",)},
    }
    wallets = [
        holding(f"{name}{suffix}", 1000, priority=priority, **limit)
        for suffix, limit in limits.items()
        for name, priority in (("N", 50), ("P", 49))
    ]
    return [replace(wallet, created_at=NOW + timedelta(minutes=at)) for at, wallet in enumerate(wallets)]


def test_wallets_pay_by_priority_then_age() -> None:
    assert paid(allocated([usage(1500)], 1500, six_wallets())) == {"P": 1000, "P-charge": 500}


def test_each_wallet_pays_the_largest_bucket_that_it_may() -> None:
    shares = allocated([base(3500, "100"), usage(1500, taxes="50")], 5150, six_wallets())
    expected = {"P": 1000, "P-charge": 1000, "P-sub": 1000, "N": 1000, "N-charge": 550, "N-sub": 600}
    assert paid(shares) == expected


@pytest.mark.parametrize(("charge_taxes", "total", "metric_pays"), [("4", 110, 44), ("8.4", 114, 48)])
def test_limits_keep_wallets_to_their_fees(charge_taxes: str, total: int, metric_pays: int) -> None:
    wallets = [
        holding("sub", 1000, fee_types=("subscription",), priority=1),
        holding("metric", 1000, billable_metric_ids=("m",), priority=2),
        holding("charge", 1000, fee_types=("charge",), priority=3),
        holding("free", 1000, priority=4),
    ]
    shares = allocated([base(60, "6"), usage(40, taxes=charge_taxes)], total, wallets)
    assert paid(shares) == {"sub": 66, "metric": metric_pays}


@pytest.mark.parametrize(("balance", "taken"), [(6600, 68), (66, 66)])
def test_a_wallet_of_one_metric_pays_its_fee_and_its_taxes(balance: int, taken: int) -> None:
    lines = [usage(60, f"m{n}", "8.456") for n in range(10)]
    assert paid(allocated(lines, 680, [holding("w", balance, billable_metric_ids=("m9",))])) == {"w": taken}


def test_what_rounding_leaves_is_paid_with_the_largest_bucket() -> None:
    lines = [usage(50000, "a", "3412.7"), usage(50000, "b", "3412.7")]
    total_cents = 2 * (50000 + 3413)  # each fee with its own tax, rounded
    (share,) = allocated(lines, total_cents, [holding("w", 200000)])
    assert share.amount_cents == total_cents
    assert sum(part.amount_cents for part in share.fees) == total_cents


def test_micro_fees_are_paid_to_the_cent() -> None:
    lines = [fee(0, precise="0.4", id=f"z{n}") for n in range(6)] + [fee(1, id=f"o{n}") for n in range(2)]
    draft = settle(lines, [tax("40")], wallets=[funds("w", 10000)])
    assert totals(draft) == (2, 1, 3, 0)
    many = [fee(1, precise="1.4", id=f"f{n}") for n in range(8)]
    draft = settle(many, [tax("40")], wallets=[funds("w", 10000)])
    assert totals(draft) == (8, 3, 11, 0)


def totals(draft: InvoiceInProgress) -> tuple[int, int, int, int]:
    """Fees, taxes, what was prepaid of them, and what is left."""
    invoice = draft.invoice
    prepaid = invoice.prepaid_credit_amount_cents
    return invoice.fees_amount_cents, invoice.taxes_amount_cents, prepaid, invoice.total_amount_cents


def funds(id: str, cents: int, kind: TransactionKind = TransactionKind.GRANTED, **fields: Any) -> AvailableWallet:
    grants = (inbound(f"grant of {id}", cents, wallet_id=id, transaction_status=kind),) if cents else ()
    return AvailableWallet(wallet=holding(id, cents, **fields), inbound=grants)


def test_what_is_granted_and_what_was_purchased_is_told_apart() -> None:
    granted = funds("a", 300, priority=1)
    purchased = funds("b", 400, TransactionKind.PURCHASED, priority=2)
    draft = settle([usage(500)], wallets=[purchased, granted])
    invoice = draft.invoice
    assert (invoice.prepaid_granted_credit_amount_cents, invoice.prepaid_purchased_credit_amount_cents) == (300, 200)
    only = settle([usage(100)], wallets=[granted]).invoice
    assert (only.prepaid_granted_credit_amount_cents, only.prepaid_purchased_credit_amount_cents) == (100, None)


def test_wallets_pay_after_credit_notes_and_pay_the_invoice_in_full() -> None:
    draft = settle([usage(1000)], [tax("10")], notes=[note("n", 300)], wallets=[funds("w", 5000)])
    assert (draft.invoice.credit_notes_amount_cents, draft.invoice.prepaid_credit_amount_cents) == (
        300,
        gross(1000, 10) - 300,
    )
    assert (draft.invoice.total_amount_cents, draft.invoice.payment_status) == (0, "succeeded")


def test_wallets_pay_once_taxes_are_known() -> None:
    draft = settle([usage(1000)], [tax("10")], wallets=[funds("w", 5000)], waiting=True)
    assert [transaction.amount_cents for transaction in draft.prepaid] == [gross(1000, 10)]


def test_two_halves_of_a_cent_are_not_both_rounded_up() -> None:
    lines = [usage(10, "a", "0.5"), usage(10, "b", "0.5")]
    wallets = [
        holding("a", 100, billable_metric_ids=("a",), priority=1),
        holding("b", 100, billable_metric_ids=("b",), priority=2),
    ]
    assert paid(allocated(lines, 21, wallets)) == {"a": 11, "b": 10}


METRICS = st.sampled_from(["a", "b", "c"])
LINES = st.lists(
    st.tuples(
        st.integers(0, 5000),
        st.sampled_from([FeeType.CHARGE, FeeType.SUBSCRIPTION, FeeType.FIXED_CHARGE]),
        METRICS,
        st.decimals(0, 500, places=4),
    ),
    max_size=6,
)
WALLETS = st.lists(
    st.tuples(
        st.integers(0, 4000),
        st.integers(1, 3),
        st.lists(st.sampled_from(["charge", "subscription"]), max_size=1),
        st.lists(METRICS, max_size=2, unique=True),
    ),
    max_size=5,
)


def drawn_case(lines: list[Any], wallets: list[Any]) -> tuple[list[Fee], int, list[Wallet]]:
    fee_list = [
        fee(
            cents,
            id=f"f{n}",
            fee_type=kind,
            billable_metric_id=metric if kind == FeeType.CHARGE else None,
            taxes_precise_amount_cents=taxes,
        )
        for n, (cents, kind, metric, taxes) in enumerate(lines)
    ]
    total = round(sum((payable(line) for line in fee_list), Decimal(0)))
    wallet_list = [
        holding(f"w{n}", cents, priority=priority, fee_types=tuple(types), billable_metric_ids=tuple(metrics))
        for n, (cents, priority, types, metrics) in enumerate(wallets)
    ]
    return fee_list, total, wallet_list


@given(LINES, WALLETS)
def test_no_wallet_pays_more_than_it_holds_and_all_together_no_more_than_is_due(
    lines: list[Any], wallets: list[Any]
) -> None:
    fee_list, total, wallet_list = drawn_case(lines, wallets)
    shares = allocated(fee_list, total, wallet_list)
    by_id = {line.id: line for line in fee_list}
    assert sum(share.amount_cents for share in shares) <= total
    for share in shares:
        assert 0 < share.amount_cents <= share.wallet.balance_cents
        assert sum(part.amount_cents for part in share.fees) == share.amount_cents
        assert all(may_pay(share.wallet, by_id[part.fee_id]) for part in share.fees)
    order = [(share.wallet.priority, share.wallet.created_at, share.wallet.id) for share in shares]
    assert order == sorted(order)


@given(LINES, WALLETS)
def test_a_fee_stays_unpaid_only_if_every_wallet_that_may_pay_it_is_empty(lines: list[Any], wallets: list[Any]) -> None:
    fee_list, total, wallet_list = drawn_case(lines, wallets)
    shares = allocated(fee_list, total, wallet_list)
    left = {line.id: payable(line) for line in fee_list}
    for share in shares:
        for part in share.fees:
            left[part.fee_id] -= part.amount_cents
    if sum(share.amount_cents for share in shares) == total:
        return
    for line in fee_list:
        # Whole cents and the cent of rounding of the largest bucket lie between a fee and what was paid of it.
        if left[line.id] > len(fee_list) + len(wallet_list):
            for payer in wallet_list:
                used = paid(shares).get(payer.id, 0)
                assert used == payer.balance_cents or not may_pay(payer, line)


@given(LINES, WALLETS, st.lists(st.integers(1, 900), min_size=1, max_size=4))
def test_money_on_invoices_is_money_out_of_wallets(lines: list[Any], wallets: list[Any], grants: list[int]) -> None:
    fee_list, _, wallet_list = drawn_case(lines, wallets)
    available = []
    for payer in wallet_list:
        inbounds = tuple(
            inbound(f"{payer.id} {n}", cents, wallet_id=payer.id, transaction_status=list(TransactionKind)[n % 2])
            for n, cents in enumerate(grants)
        )
        funded = replace(payer, balance_cents=sum(grants), credits_balance=Decimal(sum(grants)) / 100)
        available.append(AvailableWallet(wallet=funded, inbound=inbounds))
    draft = settle(fee_list, [tax("19.6")], wallets=available)
    spent = sum(transaction.amount_cents for transaction in draft.prepaid)
    invoice = draft.invoice
    assert invoice.prepaid_credit_amount_cents == spent
    assert invoice.total_amount_cents == invoice.sub_total_including_taxes_amount_cents - spent >= 0
    granted = invoice.prepaid_granted_credit_amount_cents or 0
    assert granted + (invoice.prepaid_purchased_credit_amount_cents or 0) == spent
    by_id = {prepaid.wallet.id: prepaid for prepaid in available}
    for transaction in draft.prepaid:
        held = by_id[transaction.wallet_id]
        assert transaction.credit_amount <= held.wallet.credits_balance
        fundings = fee_fundings(transaction.paid_fees, drawn(held.inbound, transaction.amount_cents))
        assert sum(funding.amount_cents for funding in fundings) == transaction.amount_cents


def test_fees_are_funded_in_the_order_in_which_grants_are_drawn() -> None:
    held = (inbound("g", 30), inbound("p", 70, transaction_status=TransactionKind.PURCHASED))
    (share,) = allocated(fees(50, 40), 90, [holding("w", 100)])
    fundings = fee_fundings(share.fees, drawn(held, share.amount_cents))
    first, second = (part.fee_id for part in share.fees)
    assert [(funding.fee_id, funding.inbound_id, funding.amount_cents) for funding in fundings] == [
        (first, "g", 30),
        (first, "p", 20),
        (second, "p", 40),
    ]
