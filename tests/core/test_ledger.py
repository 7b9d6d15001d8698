"""What each document says in the books: a table of facts and entries."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from tests.core.builders import NOW, fee, inbound, invoice, note, wallet

from usagebill.core.fees import AppliedTax
from usagebill.core.invoices.records import Credit, Invoice
from usagebill.core.ledger import (
    Account,
    Entries,
    Place,
    RatedPart,
    Rates,
    allocation_entries,
    credit_note_entries,
    credit_use_entries,
    differences,
    ended_wallet_entries,
    invoice_entries,
    open_day,
    payment_entries,
    rates_of,
    refund_entries,
    stages_of_invoice,
    stages_of_note,
    top_up_entries,
)
from usagebill.core.payment_requests import RequestedInvoice
from usagebill.core.payments import Payment, RefundAttempt
from usagebill.core.wallet_transactions import WalletConsumption


def vat(cents: int, code: str = "vat", rate: str = "19", base: int = 0) -> AppliedTax:
    return AppliedTax(
        id=code,
        tax_id=code,
        name=code,
        code=code,
        rate=Decimal(rate),
        description=None,
        amount_cents=cents,
        amount_currency="EUR",
        created_at=NOW,
        base_amount_cents=base,
    )


def sold(**fields: Any) -> Invoice:
    """An invoice over 100.00 less 10.00 of coupons plus 19 % VAT, for a customer in Germany."""
    values: dict[str, Any] = {
        "status": "finalized",
        "fees_amount_cents": 10000,
        "coupons_amount_cents": 1000,
        "sub_total_excluding_taxes_amount_cents": 9000,
        "taxes_amount_cents": 1710,
        "sub_total_including_taxes_amount_cents": 10710,
        "total_amount_cents": 10710,
        "applied_taxes": (vat(1710, base=9000),),
        "customer_snapshot": {"country": "DE"},
        **fields,
    }
    return invoice(**values)


def used_note(cents: int, returned: int = 0) -> Credit:
    return Credit(
        id="line",
        amount_cents=cents,
        amount_currency="EUR",
        before_taxes=False,
        item_id="note",
        item_type="credit_note",  # type: ignore[arg-type]
        item_code="CN",
        item_name="CN",
        created_at=NOW,
        source_id="note",
        returned_cents=returned,
    )


def shown(entries: Entries) -> dict[str, int]:
    """The entries by account and what it is kept apart by, which all sum to zero."""
    assert sum(entries.values()) == 0

    def name(place: Place) -> str:
        rate = None if place.tax_rate is None else str(place.tax_rate)
        apart = (place.invoice_id, place.tax_code or rate, place.country, place.provider)
        return " ".join((place.account, *(part for part in apart if part is not None)))

    return {name(place): cents for place, cents in entries.items()}


# 30.00 of the invoice's items, less their 3.00 of coupons, plus 19 %.
CREDITED: dict[str, Any] = {
    "invoice_id": "invoice",
    "coupons_adjustment_amount_cents": 300,
    "sub_total_excluding_taxes_amount_cents": 2700,
    "taxes_amount_cents": 513,
    "total_amount_cents": 3213,
    "applied_taxes": (vat(513, base=2700),),
    "customer_snapshot": {"country": "DE"},
}
TAKEN_BACK = {"revenue 19 DE": 3000, "discount 19 DE": -300, "tax vat DE": 513}
SOLD = {"receivable invoice": 10710, "revenue 19 DE": -10000, "discount 19 DE": 1000, "tax vat DE": -1710}


@pytest.mark.parametrize("status", ["draft", "open", "pending", "failed", "generating", "closed", "deleted"])
def test_nothing_is_sold_before_an_invoice_is_finalized(status: str) -> None:
    assert invoice_entries(sold(status=status)) == {}


@pytest.mark.parametrize(
    ("facts", "entries"),
    [
        (sold(), SOLD),
        (
            sold(self_billed=True),
            {"payable invoice": -10710, "purchases 19 DE": 9000, "input_tax vat DE": 1710},
        ),
        # Credits are sold when they are used.
        (
            invoice(
                invoice_type="credit",
                status="finalized",
                sub_total_excluding_taxes_amount_cents=500,
                sub_total_including_taxes_amount_cents=500,
            ),
            {"receivable invoice": 500, "prepaid_ordered": -500},
        ),
        # 2.61 in all, 1.90 and 0.70 by rate.
        (
            invoice(
                status="finalized",
                sub_total_excluding_taxes_amount_cents=2004,
                sub_total_including_taxes_amount_cents=2265,
                applied_taxes=(vat(190), vat(70, "reduced", "7")),
            ),
            {"receivable invoice": 2265, "revenue": -2004, "tax vat": -190, "tax reduced": -70, "rounding": -1},
        ),
        # A credit note paid 20.00 of it.
        (
            sold(credits=(used_note(2000),), credit_notes_amount_cents=2000),
            {**SOLD, "receivable invoice": 8710, "customer_credit": 2000},
        ),
        (invoice(status="open", credits=(used_note(2000),)), {"customer_credit": 2000, "receivable invoice": -2000}),
        (sold(status="voided"), {}),
        (sold(status="voided", credits=(used_note(2000, returned=2000),)), {}),
    ],
)
def test_an_invoice(facts: Invoice, entries: dict[str, int]) -> None:
    assert shown(invoice_entries(facts)) == entries


def rated(**parts: tuple[str, str]) -> Rates:
    """Parts by rate: gross, and net of coupons."""
    return {
        None if name == "untaxed" else Decimal(name.removeprefix("at_")): RatedPart(Decimal(gross), Decimal(net))
        for name, (gross, net) in parts.items()
    }


TWO_RATES = (vat(1216, base=6400), vat(182, "reduced", "7", base=2600))


@pytest.mark.parametrize(
    ("parts", "revenue"),
    [
        # 70.00 less 6.00 at 19 %, 30.00 less 4.00 at 7 %.
        (
            rated(at_19=("7000", "6400"), at_7=("3000", "2600")),
            {"revenue 19 DE": -7000, "discount 19 DE": 600, "revenue 7 DE": -3000, "discount 7 DE": 400},
        ),
        (
            rated(at_19=("7000", "6400"), untaxed=("3000", "2600")),
            {"revenue 19 DE": -7000, "discount 19 DE": 600, "revenue DE": -3000, "discount DE": 400},
        ),
        # Coupons of thirds of a cent: the parts come to the totals.
        (
            rated(at_19=("5000", "4500.33333"), at_7=("5000", "4499.66667")),
            {"revenue 19 DE": -5000, "discount 19 DE": 500, "revenue 7 DE": -5000, "discount 7 DE": 500},
        ),
        # Of shares that progressive billing took as well, the coupons' part is in proportion.
        (
            rated(at_19=("14000", "6000"), at_7=("5000", "3000")),
            {"revenue 19 DE": -6800, "discount 19 DE": 800, "revenue 7 DE": -3200, "discount 7 DE": 200},
        ),
    ],
)
def test_a_sale_at_several_rates_is_split_by_them(parts: Rates, revenue: dict[str, int]) -> None:
    invoice_at_rates = sold(
        applied_taxes=TWO_RATES, taxes_amount_cents=1398, sub_total_including_taxes_amount_cents=10398
    )
    taxes = {"receivable invoice": 10398, "tax vat DE": -1216, "tax reduced DE": -182}
    assert shown(invoice_entries(invoice_at_rates, rates={"invoice": parts})) == {**revenue, **taxes}
    credited = {
        **CREDITED,
        "coupons_adjustment_amount_cents": 1000,
        "sub_total_excluding_taxes_amount_cents": 9000,
        "total_amount_cents": 10398,
        "applied_taxes": TWO_RATES,
    }
    whole_note = note("note", 10398, **credited, credit_amount_cents=10398)
    entries = shown(credit_note_entries(whole_note, invoice().invoice_type, rates={"note": parts}))
    assert {name: -cents for name, cents in entries.items() if name.startswith(("revenue", "discount"))} == revenue


def test_the_rate_of_a_sale_is_that_of_all_its_taxes_together() -> None:
    state, city = vat(400, "state", "4"), vat(450, "city", "4.5")
    both, one = fee(10000, applied_taxes=(state, city)), fee(2000, applied_taxes=(state,))
    none = fee(500, precise_coupons_amount_cents=Decimal("125"))
    assert rates_of([(both, Decimal(10000)), (one, Decimal(2000)), (none, Decimal(100))]) == {
        Decimal("8.5"): RatedPart(Decimal(10000), Decimal(10000)),
        Decimal(4): RatedPart(Decimal(2000), Decimal(2000)),
        None: RatedPart(Decimal(100), Decimal(75)),
    }


def test_a_void_leaves_what_credit_notes_took_back_before() -> None:
    before = note("before", 3213, **CREDITED)
    of_void = note("of void", 100, of_void=True, invoice_id="invoice")
    draft = note("draft", 100, status="draft", invoice_id="invoice")
    entries = invoice_entries(sold(status="voided"), notes=[before, of_void, draft])
    # With the note's own entries, the sale is zero.
    assert shown(entries) == {
        "revenue 19 DE": -3000,
        "discount 19 DE": 300,
        "tax vat DE": -513,
        "receivable invoice": 3213,
    }


def test_a_lost_dispute_takes_money_back() -> None:
    entries = invoice_entries(invoice(status="finalized"), disputed={"stripe": 700})
    assert shown(entries) == {"lost_disputes invoice": 700, "cash stripe": -700}


@pytest.mark.parametrize(
    ("fields", "paid_back", "entries"),
    [
        ({"credit_amount_cents": 3213}, {}, {**TAKEN_BACK, "customer_credit": -3213}),
        ({"credit_amount_cents": 0, "offset_amount_cents": 3213}, {}, {**TAKEN_BACK, "receivable invoice": -3213}),
        ({"credit_amount_cents": 0, "refund_amount_cents": 3213}, {}, {**TAKEN_BACK, "refunds_due": -3213}),
        (
            {"credit_amount_cents": 0, "refund_amount_cents": 3213},
            {"stripe": 3000, "manual": 213},
            {**TAKEN_BACK, "cash stripe": -3000, "cash manual": -213},
        ),
        (
            {"credit_amount_cents": 3213, "voided_amount_cents": 1000},
            {},
            {**TAKEN_BACK, "customer_credit": -2213, "forfeited": -1000},
        ),
        (
            {"credit_amount_cents": 3213, "withdrawn_amount_cents": 1000},
            {},
            {**TAKEN_BACK, "customer_credit": -2213, "receivable invoice": -1000},
        ),
        (
            {"credit_amount_cents": 3213, "self_billed": True},
            {},
            {"purchases 19 DE": -2700, "input_tax vat DE": -513, "customer_credit": 3213},
        ),
        # The void took the sale back.
        (
            {"credit_amount_cents": 1000, "refund_amount_cents": 2213, "of_void": True},
            {},
            {"receivable invoice": 3213, "customer_credit": -1000, "refunds_due": -2213},
        ),
        ({"status": "draft"}, {}, {}),
    ],
)
def test_a_credit_note(fields: dict[str, Any], paid_back: dict[str, int], entries: dict[str, int]) -> None:
    facts = note("note", 3213, **{**CREDITED, **fields})
    assert shown(credit_note_entries(facts, invoice().invoice_type, paid_back=paid_back)) == entries


def test_a_credit_note_of_a_top_up_takes_back_credits_that_were_ordered() -> None:
    facts = note("note", 0, invoice_id="invoice", refund_amount_cents=500, sub_total_excluding_taxes_amount_cents=500)
    facts = replace(facts, total_amount_cents=500)
    top_up = invoice(invoice_type="credit").invoice_type
    assert shown(credit_note_entries(facts, top_up)) == {"prepaid_ordered": 500, "refunds_due": -500}


def paid(**fields: Any) -> Payment:
    values: dict[str, Any] = {
        "id": "payment",
        "organization_id": "organization",
        "customer_id": "customer",
        "invoice_id": "invoice",
        "amount_cents": 700,
        "amount_currency": "EUR",
        "created_at": NOW,
        "updated_at": NOW,
        **fields,
    }
    return Payment(**values)


@pytest.mark.parametrize(
    ("facts", "entries"),
    [
        (paid(), {"cash manual": 700, "receivable invoice": -700}),
        (paid(payment_provider_code="stripe"), {"cash stripe": 700, "receivable invoice": -700}),
        (paid(invoice_id=None, payment_request_id="request"), {"cash manual": 700, "receivable": -700}),
        (paid(payment_status="processing"), {}),
        (paid(payment_status="failed"), {}),
    ],
)
def test_a_payment(facts: Payment, entries: dict[str, int]) -> None:
    assert shown(payment_entries(facts)) == entries


def test_a_payment_of_a_purchase_goes_out() -> None:
    assert shown(payment_entries(paid(), self_billed=True)) == {"payable invoice": 700, "cash manual": -700}


def test_a_part_of_a_requests_payment_pays_its_invoice() -> None:
    part = RequestedInvoice(
        id="part",
        organization_id="organization",
        payment_request_id="request",
        invoice_id="invoice",
        amount_cents=700,
        paid_cents=300,
        created_at=NOW,
        updated_at=NOW,
    )
    assert shown(allocation_entries(part)) == {"receivable": 300, "receivable invoice": -300}


@pytest.mark.parametrize(
    ("fields", "entries"),
    [
        ({"refund_status": "succeeded"}, {"receivable invoice": 700, "cash stripe": -700}),
        ({"refund_status": "pending"}, {}),
        ({"refund_status": "failed"}, {}),
        # The note has them.
        ({"refund_status": "succeeded", "credit_note_id": "note"}, {}),
    ],
)
def test_a_payment_that_is_given_back(fields: dict[str, Any], entries: dict[str, int]) -> None:
    refund = RefundAttempt(
        id="refund",
        organization_id="organization",
        customer_id="customer",
        invoice_id="invoice",
        payment_id="payment",
        connection_id="connection",
        amount_cents=700,
        currency="EUR",
        created_at=NOW,
        updated_at=NOW,
        **fields,
    )
    assert shown(refund_entries(refund, paid(payment_provider_code="stripe"))) == entries


BOUGHT = inbound("bought", 500, transaction_status="purchased")
GRANTED = inbound("granted", 500)
RETURNED = inbound("returned", 500, voided_invoice_id="invoice")


@pytest.mark.parametrize(
    ("facts", "entries"),
    [
        (BOUGHT, {"prepaid_ordered": 500, "prepaid_purchased": -500}),
        (inbound("bought", 500, transaction_status="purchased", status="pending", remaining_amount_cents=None), {}),
        (inbound("bought", 500, transaction_status="purchased", status="failed", remaining_amount_cents=None), {}),
        (GRANTED, {"promotion": 500, "prepaid_granted": -500}),
        (RETURNED, {"receivable invoice": 500, "prepaid_granted": -500}),
        (inbound("out", 500, transaction_type="outbound", transaction_status="invoiced"), {}),
    ],
)
def test_credits_that_come_into_a_wallet(facts: Any, entries: dict[str, int]) -> None:
    assert shown(top_up_entries(facts)) == entries


INVOICED = inbound("out", 200, transaction_type="outbound", transaction_status="invoiced", invoice_id="invoice")
VOIDED = inbound("out", 200, transaction_type="outbound", transaction_status="voided")
REFUNDED = replace(VOIDED, credit_note_id="note")


@pytest.mark.parametrize(
    ("source", "outbound", "entries"),
    [
        (BOUGHT, INVOICED, {"prepaid_purchased": 200, "receivable invoice": -200}),
        (GRANTED, INVOICED, {"prepaid_granted": 200, "receivable invoice": -200}),
        (BOUGHT, VOIDED, {"prepaid_purchased": 200, "forfeited": -200}),
        (GRANTED, VOIDED, {"prepaid_granted": 200, "promotion": -200}),
        # Somebody had paid for them once.
        (RETURNED, VOIDED, {"prepaid_granted": 200, "forfeited": -200}),
        (BOUGHT, REFUNDED, {"prepaid_purchased": 200, "prepaid_ordered": -200}),
    ],
)
def test_credits_that_go_out_of_a_wallet(source: Any, outbound: Any, entries: dict[str, int]) -> None:
    use = WalletConsumption(
        id="use",
        organization_id="organization",
        wallet_id="wallet",
        inbound_id=source.id,
        outbound_id="out",
        amount_cents=200,
        created_at=NOW,
    )
    assert shown(credit_use_entries(use, source, outbound)) == entries


def test_the_end_of_a_wallet_forfeits_what_is_left() -> None:
    left = [replace(BOUGHT, remaining_amount_cents=300), GRANTED]
    assert ended_wallet_entries(wallet(), left) == {}
    assert shown(ended_wallet_entries(wallet(status="terminated"), left)) == {
        "prepaid_purchased": 300,
        "prepaid_granted": 500,
        "forfeited": -300,
        "promotion": -500,
    }


def test_only_what_was_not_posted_is_posted() -> None:
    receivable, revenue = Place(account=Account.RECEIVABLE), Place(account=Account.REVENUE)
    posted = [(receivable, 100), (revenue, -100), (receivable, 20), (revenue, -20)]
    assert differences(posted, {receivable: 150, revenue: -150}) == {receivable: 30, revenue: -30}
    assert differences(posted, {receivable: 120, revenue: -120}) == {}
    assert differences(posted, {}) == {receivable: -120, revenue: 120}
    with pytest.raises(ValueError, match="debits and credits differ"):
        differences([], {receivable: 150, revenue: -149})


def test_nothing_is_dated_in_a_closed_month() -> None:
    march = date(2024, 3, 31)
    assert open_day(date(2024, 3, 31), None) == date(2024, 3, 31)
    assert open_day(date(2024, 3, 31), march) == date(2024, 4, 1)
    assert open_day(date(2023, 12, 5), march) == date(2024, 4, 1)
    assert open_day(date(2024, 4, 2), march) == date(2024, 4, 2)


def test_documents_older_than_the_ledger_are_posted_in_the_stages_that_they_went_through() -> None:
    april, may = datetime(2024, 4, 1, tzinfo=UTC), datetime(2024, 5, 1, tzinfo=UTC)
    voided = sold(status="voided", finalized_at=april, voided_at=may, credits=(used_note(2000, returned=2000),))
    (issued_at, issued), (voided_at, last) = stages_of_invoice(voided)
    assert (issued_at, voided_at) == (april, may)
    assert shown(invoice_entries(issued)) == {**SOLD, "receivable invoice": 8710, "customer_credit": 2000}
    assert invoice_entries(last) == {}
    assert [at for at, _ in stages_of_invoice(sold(finalized_at=april))] == [april]
    refunded = note("note", 0, refund_amount_cents=500, refund_status="succeeded", created_at=april, refunded_at=may)
    assert [(at, stage.refund_status) for at, stage in stages_of_note(refunded)] == [(april, None), (may, "succeeded")]
    partly = replace(refunded, voided_amount_cents=5, voided_at=may, refund_status=None)
    assert [stage.voided_amount_cents for _, stage in stages_of_note(partly)] == [0, 5]
