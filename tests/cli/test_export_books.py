"""The tables that close a month: who sold what to whom, and what was taken back, allocated and is still owed."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_export import exported
from tests.scenarios import plan_fields

from usagebill import Billing
from usagebill.core.export_rows import PARTY_COLUMNS
from usagebill.fields import CreditNoteItemFields, OneOffFeeFields
from usagebill.operations.exports import EXPORTS
from usagebill.runtime.clock import ManualClock

MARCH, APRIL, MAY = date(2026, 3, 1), date(2026, 4, 1), date(2026, 5, 1)


def at(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


class Books:
    """A German seller and its customers; each sale is a one-off invoice."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock(at("2026-03-10"))
        self.billing = billing = Billing(path, clock=self.clock, deliver=False)
        self.path, self.folder = str(path), path.parent
        billing.billing_entities.update("default", country="DE", timezone="Europe/Berlin")
        billing.taxes.create(name="VAT", code="vat", rate="20")
        billing.taxes.create(name="None", code="none", rate="0")
        billing.add_ons.create(name="A", code="a", amount_cents=1000, amount_currency="EUR", tax_codes=["vat"])
        billing.add_ons.create(name="B", code="b", amount_cents=500, amount_currency="EUR")
        who: dict[str, Any] = {"country": "DE", "tax_identification_number": "DE123456789", "legal_name": "Koch GmbH"}
        billing.customers.upsert(external_id="koch", currency="EUR", timezone="Europe/Berlin", **who)
        billing.customers.upsert(external_id="smith", currency="EUR", name="Smith", country="US")

    def sell(self, to: str, *codes: str) -> Any:
        fees: list[OneOffFeeFields] = [{"add_on_code": code, "units": 1} for code in codes]
        return self.billing.invoices.create_one_off(external_customer_id=to, currency="EUR", fees=fees)

    def table(self, kind: str, *more: str) -> list[dict[str, Any]]:
        return exported(self.path, kind, self.folder / f"{kind}.parquet", *more)

    def taxes(self, start: date, end: date) -> Counter[tuple[str | None, str | None, str]]:
        """Net and tax of sales of the days from `start` until `end`, in cents, by tax and category."""
        sums: Counter[tuple[str | None, str | None, str]] = Counter()
        for row in self.table("taxes", "--from", start.isoformat(), "--to", end.isoformat()):
            if row["self_billed"] == "no":
                sums[row["tax_code"], row["tax_category"], "net"] += row["base_amount_cents"]
                sums[row["tax_code"], row["tax_category"], "tax"] += row["tax_amount_cents"]
        return +sums if all(value >= 0 for value in sums.values()) else sums


@pytest.fixture
def books(tmp_path: Path) -> Any:
    books = Books(tmp_path / "billing.db")
    with books.billing:
        yield books


def test_documents_name_their_parties_as_of_then(books: Books) -> None:
    books.sell("koch", "a")
    books.billing.customers.upsert(external_id="koch", legal_name="Koch AG", country="FR")
    named = ("billing_entity", "customer_name", "customer_country", "customer_tax_number", "self_billed")
    for kind in ("invoices", "fees", "taxes"):
        (row,) = books.table(kind)
        assert [row[name] for name in named] == ["default", "Koch GmbH", "DE", "DE123456789", "no"]


def test_a_void_takes_its_taxes_back_on_its_own_day(books: Books) -> None:
    """March has been declared: an invoice of March that is voided in April changes April."""
    sold = books.sell("koch", "a", "b")
    march = books.taxes(MARCH, APRIL)
    assert march == {("vat", "S", "net"): 1000, ("vat", "S", "tax"): 200, (None, "Z", "net"): 500}
    books.clock.set(at("2026-04-20"))
    books.billing.invoices.void(sold.id)
    assert books.taxes(MARCH, APRIL) == march
    assert books.taxes(APRIL, MAY) == Counter({key: -value for key, value in march.items()})
    (row,) = books.table("invoices")
    assert (row["status"], row["voided_at"]) == ("voided", at("2026-04-20"))


def test_a_void_leaves_what_credit_notes_have_taken_back(books: Books) -> None:
    sold = books.sell("koch", "a", "b")
    first, second = sorted(sold.fees, key=lambda fee: fee.amount_cents)
    books.clock.set(at("2026-04-02"))
    items: list[CreditNoteItemFields] = [
        {"fee_id": first.id, "amount_cents": 200},
        {"fee_id": second.id, "amount_cents": 400},
    ]
    books.billing.credit_notes.create(invoice_id=sold.id, reason="other", offset_amount_cents=680, items=items)
    assert books.taxes(APRIL, MAY)["vat", "S", "tax"] == -80
    books.clock.set(at("2026-05-02"))
    books.billing.invoices.void(sold.id)
    books.clock.set(at("2026-05-03"))
    assert books.taxes(MAY, date(2026, 6, 1)) == {
        ("vat", "S", "net"): -600,
        ("vat", "S", "tax"): -120,
        (None, "Z", "net"): -300,
        (None, "Z", "tax"): 0,
    }
    assert not any(books.taxes(MARCH, date(2026, 6, 1)).values())


def test_the_day_of_a_void_is_a_day_where_the_invoice_was_made(books: Books) -> None:
    """The last two hours of 30 April in UTC are 1 May in Berlin."""
    sold = books.sell("koch", "a")
    books.clock.set(at("2026-04-30T22:30"))
    books.billing.invoices.void(sold.id)
    (row,) = books.table("taxes", "--from", "2026-05-01", "--to", "2026-06-01")
    assert (row["document_type"], row["issuing_date"]) == ("void", date(2026, 5, 1))
    assert books.table("taxes", "--from", "2026-04-01", "--to", "2026-05-01") == []


def test_untaxed_sales_stand_by_category(books: Books) -> None:
    books.sell("smith", "b")
    books.sell("koch", "b")
    assert books.taxes(MARCH, APRIL) == {(None, "O", "net"): 500, (None, "Z", "net"): 500}


def test_prepaid_credits_are_no_sale_until_they_are_used(books: Books) -> None:
    wallet = books.billing.wallets.create(
        external_customer_id="koch", rate_amount="1", currency="EUR", paid_credits="30", granted_credits="5"
    )
    books.billing.run_due()
    (invoice,) = books.billing.invoices.list(invoice_type="credit")
    books.billing.payments.create(invoice_id=invoice.id, amount_cents=3000, reference="bank")
    books.billing.run_due()
    assert books.table("taxes") == []
    (row,) = books.table("wallets")
    owed = ("id", "balance_cents", "purchased_balance_cents", "granted_balance_cents", "billing_entity")
    assert [row[name] for name in owed] == [wallet.id, 3500, 3000, 500, "default"]
    assert (row["customer_name"], row["customer_tax_number"]) == ("Koch GmbH", "DE123456789")


def test_a_purchase_is_no_sale(books: Books) -> None:
    books.billing.customers.upsert(external_id="partner", currency="EUR", country="DE", account_type="partner")
    books.sell("koch", "a")
    books.sell("partner", "a")
    assert books.taxes(MARCH, APRIL) == {("vat", "S", "net"): 1000, ("vat", "S", "tax"): 200}
    assert [row["self_billed"] for row in books.table("invoices")] == ["no", "yes"]


def test_money_of_purchases_is_told_from_that_of_sales(books: Books) -> None:
    """Paid by a customer, and paid to a partner: 12.00 came in."""
    books.billing.customers.upsert(external_id="partner", currency="EUR", country="DE", account_type="partner")
    for who in ("koch", "partner"):
        sold = books.sell(who, "a")
        books.billing.payments.create(invoice_id=sold.id, amount_cents=1200, reference="bank")
    rows = books.table("payments")
    assert {row["external_customer_id"]: row["self_billed"] for row in rows} == {"koch": "no", "partner": "yes"}
    assert sum(row["amount_cents"] for row in rows if row["self_billed"] == "no") == 1200


@pytest.mark.parametrize("kind", [*EXPORTS])
def test_every_table_of_money_names_its_parties(kind: str) -> None:
    if kind not in ("events", "ledger"):
        columns = EXPORTS[kind].columns
        assert {*PARTY_COLUMNS, "external_customer_id"} <= columns.keys()
        assert ("self_billed" in columns) == (kind not in ("wallets", "deferred_revenue"))


def test_which_note_was_used_on_which_invoice(books: Books) -> None:
    sold = books.sell("koch", "a")
    books.billing.payments.create(invoice_id=sold.id, amount_cents=1200, reference="bank")
    item: CreditNoteItemFields = {"fee_id": sold.fees[0].id, "amount_cents": 500}
    note = books.billing.credit_notes.create(invoice_id=sold.id, reason="other", credit_amount_cents=600, items=[item])
    metric = books.billing.billable_metrics.create(name="C", code="c", aggregation_type="count_agg")
    charge = {"billable_metric_id": metric.id, "charge_model": "standard", "properties": {"amount": "7"}}
    books.billing.plans.create(**plan_fields(charge, code="p", amount_cents=0))
    books.billing.subscriptions.create(external_customer_id="koch", plan_code="p", external_id="s")
    books.billing.events.create(transaction_id="t", code="c", external_subscription_id="s")
    books.clock.set(at("2026-04-02"))
    books.billing.run_due(strict=True)
    (used,) = books.table("credits")
    billed = books.billing.invoices.get(books.billing.invoices.list(invoice_type="subscription").items[0].id)
    assert (used["invoice_number"], used["credit_type"], used["item_code"]) == (
        billed.number,
        "credit_note",
        note.number,
    )
    assert (used["amount_cents"], used["returned_amount_cents"], used["before_taxes"]) == (600, 0, "no")


def test_what_a_payment_request_paid_of_each_invoice(books: Books) -> None:
    numbers = [books.sell("koch", "a").number, books.sell("koch", "b").number]
    books.clock.set(at("2026-06-01"))
    books.billing.run_due(strict=True)
    overdue = [invoice.id for invoice in books.billing.invoices.list(payment_overdue=True)]
    books.billing.payment_requests.create(external_customer_id="koch", email="a@b.example", svc_invoice_ids=overdue)
    rows = books.table("requested_invoices")
    assert {row["invoice_number"]: row["requested_amount_cents"] for row in rows} == dict(
        zip(numbers, (1200, 500), strict=True)
    )
    assert {(row["paid_amount_cents"], row["payment_status"]) for row in rows} == {(0, "pending")}
    assert {(row["billing_entity"], row["customer_name"], row["self_billed"]) for row in rows} == {
        ("default", "Koch GmbH", "no")
    }


def test_what_was_due_at_the_end_of_any_day(books: Books) -> None:
    first, second = books.sell("koch", "a"), books.sell("koch", "b")

    def pay(invoice: Any, cents: int, day: str) -> None:
        books.billing.payments.create(invoice_id=invoice.id, amount_cents=cents, reference="bank", paid_at=day)

    def due(until: str) -> dict[str, tuple[int, int]]:
        rows = books.table("receivables", "--to", until)
        return {row["invoice_number"]: (row["amount_cents"], row["days_overdue"]) for row in rows}

    books.clock.set(at("2026-04-20"))
    pay(first, 700, "2026-04-02")
    pay(second, 500, "2026-03-30")
    assert due("2026-03-10") == {}
    assert due("2026-03-11") == {first.number: (1200, 0), second.number: (500, 0)}
    # `--to` is exclusive: the end of March.
    assert due("2026-04-01") == {first.number: (1200, 21)}
    assert due("2026-04-21") == {first.number: (500, 41)}
    assert {row["received_on"] for row in books.table("payments")} == {date(2026, 4, 2), date(2026, 3, 30)}
    books.billing.invoices.void(first.id, generate_credit_note=True, credit_amount=700)
    assert due("2026-04-01") == {first.number: (1200, 21)}
    assert due("2026-04-21") == {}


def test_the_ledger_of_a_month_is_what_the_other_tables_say(books: Books) -> None:
    billing = books.billing
    coupon: dict[str, Any] = {"coupon_type": "percentage", "percentage_rate": "7.3", "frequency": "forever"}
    billing.coupons.create(name="Seven", code="seven", expiration="no_expiration", **coupon)
    billing.applied_coupons.apply(external_customer_id="koch", coupon_code="seven")
    sold, kept = books.sell("koch", "a", "b"), books.sell("koch", "a", "b")
    items: list[CreditNoteItemFields] = [{"fee_id": fee.id, "amount_cents": 301} for fee in kept.fees]
    cents = billing.credit_notes.estimate(invoice_id=kept.id, items=items).max_creditable_amount_cents
    billing.credit_notes.create(invoice_id=kept.id, reason="other", credit_amount_cents=cents, items=items)
    books.clock.set(at("2026-04-20"))
    billing.invoices.void(sold.id)
    for start, end in ((MARCH, APRIL), (APRIL, MAY)):
        rows = books.table("ledger", "--from", start.isoformat(), "--to", end.isoformat())
        taxes = -sum(row["amount_cents"] for row in rows if row["account"] == "tax")
        assert taxes == sum(row["tax_amount_cents"] for row in books.table("taxes", *_bounds(start, end)))
        net: Counter[Decimal] = Counter()
        for row in rows:
            if row["account"] in ("revenue", "discount"):
                net[row["tax_rate"] or Decimal(0)] -= row["amount_cents"]
        taxed: Counter[Decimal] = Counter()
        for row in books.table("taxes", *_bounds(start, end)):
            taxed[row["tax_rate"]] += row["base_amount_cents"]
        assert (net, len(net)) == (taxed, 2)


def _bounds(start: date, end: date) -> tuple[str, ...]:
    return ("--from", start.isoformat(), "--to", end.isoformat())


def test_plan_fees_in_advance_are_earned_by_the_day(books: Books) -> None:
    billing = books.billing
    coupon: dict[str, Any] = {"coupon_type": "percentage", "percentage_rate": "10", "frequency": "forever"}
    billing.coupons.create(name="ten", code="ten", expiration="no_expiration", **coupon)
    billing.applied_coupons.apply(external_customer_id="koch", coupon_code="ten")
    billing.plans.create(**plan_fields(code="p", amount_cents=3100, pay_in_advance=True))
    # An anniversary of 10 March: 22 days in March, 9 in April. 31.00 less 10 %: 0.90 a day.
    billing.subscriptions.create(
        external_customer_id="koch", plan_code="p", external_id="s", billing_time="anniversary"
    )
    billing.run_due(strict=True)

    def months(*bounds: str) -> list[tuple[str, int, int]]:
        rows = books.table("deferred_revenue", *bounds)
        return [(f"{row['month']:%m}", row["earned_cents"], row["deferred_cents"]) for row in rows]

    assert months() == [("03", 1980, 810), ("04", 810, 0)]
    assert months("--from", "2026-03-01", "--to", "2026-04-01") == [("03", 1980, 810)]
    (row, _) = books.table("deferred_revenue")
    assert (row["from_date"], row["to_date"]) == (date(2026, 3, 10), date(2026, 4, 9))
    books.clock.set(at("2026-04-02"))
    (invoice,) = billing.invoices.list()
    billing.invoices.void(invoice.id)
    assert months() == [("03", 1980, 810), ("04", -1980, 0)]


def test_seats_in_advance_are_earned_from_the_day_on_which_they_were_added(books: Books) -> None:
    billing = books.billing
    seats = billing.billable_metrics.create(
        name="Seats", code="seats", aggregation_type="sum_agg", field_name="n", recurring=True
    )
    charge: dict[str, Any] = {"charge_model": "standard", "properties": {"amount": "31"}}
    charge |= {"pay_in_advance": True, "invoiceable": True, "prorated": True}
    charges = [{"billable_metric_id": seats.id, **charge}]
    billing.plans.create(**plan_fields(code="p", amount_cents=0, charges=charges))
    billing.subscriptions.create(
        external_customer_id="koch", plan_code="p", external_id="s", billing_time="anniversary"
    )
    books.clock.set(at("2026-03-23"))
    billing.events.create(
        transaction_id="t", code="seats", external_subscription_id="s", properties={"n": 2}, timestamp=at("2026-03-21")
    )
    billing.run_due(strict=True)

    def months() -> list[tuple[str, int, int]]:
        rows = books.table("deferred_revenue")
        return [(f"{row['month']:%m}", row["earned_cents"], row["deferred_cents"]) for row in rows]

    # 20 days of two seats at 1.00, until 9 April: 11 in March and 9 in April.
    assert months() == [("03", 2200, 1800), ("04", 1800, 0)]
    books.clock.set(at("2026-04-11"))
    billing.run_due(strict=True)
    # The renewal over 62.00 for the 30 days from 10 April on: 21 in April and 9 in May.
    assert months() == [("03", 2200, 1800), ("04", 1800, 0), ("04", 4340, 1860), ("05", 1860, 0)]
