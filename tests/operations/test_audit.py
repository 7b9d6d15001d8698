"""The audit finds each kind of error, and nothing in what was billed as it should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import timedelta
from decimal import Decimal

import pytest
from tests.builders import give_taxes
from tests.operations.test_hold_audit import PLANTS as OF_HOLDS
from tests.operations.test_ledger import PLANTS as OF_LEDGER
from tests.operations.test_receipt_audit import PLANTS as OF_RECEIPTS
from tests.operations.test_refund_audit import PLANTS as OF_REFUNDS
from tests.operations.test_wallet_audit import PLANTS as OF_WALLETS
from tests.rating.test_recounts import PLANTS as OF_RECOUNTS
from tests.scenarios import Scenario, charge_on, fixed_charge_on, price_ranges

from usagebill.core.audit import CHECKS
from usagebill.core.coupons import AppliedCoupon, Coupon
from usagebill.core.credit_notes import CreditNote, CreditNoteItem
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import BillingPeriod, Credit, CreditType, Invoice
from usagebill.operations.audit import AuditReport, audit
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, eq

pytestmark = pytest.mark.now("2024-01-10T08:00:00Z")

Plant = Callable[[Work], None]
DAY = timedelta(days=1)


class Undone(Exception):
    """Raised to undo what a test planted."""


@pytest.fixture
def box(box: Scenario) -> Scenario:
    """Half a year of one customer: usage in graduated ranges, seats in advance, taxes, an upgrade and an end."""
    box.customer()
    box.billing.writing(lambda work: give_taxes(work, "acme", {"vat": "20", "levy": "3.7"}))
    metric = box.metric("calls")
    seats = box.add_on("seat")
    ranges = price_ranges((0, 10, "0.333", "2"), (11, None, "0.1", "0"))
    usage = charge_on(metric, "graduated", graduated_ranges=ranges)
    fixed = fixed_charge_on(seats, amount="7", units=3, pay_in_advance=True)
    box.plan(usage, code="small", amount_cents=1999, fixed_charges=[fixed])
    box.plan(usage, code="large", amount_cents=4999, pay_in_advance=True)
    box.subscribe("small")
    box.subscribe("small", external_id="other")
    for month in range(1, 7):
        box.travel_to(f"2024-{month:02d}-20T10:00:00Z")
        box.event("calls", value="12.5")
        box.event("calls", external_id="other", value="3")
        if month == 3:
            box.subscribe("large")
        if month == 5:
            box.delete("/subscriptions/other")
    box.travel_to("2024-07-02T00:00:00Z")
    return box


def audit_findings(box: Scenario) -> set[str]:
    return {finding.check for finding in box.billing.audit().findings}


def invoices(work: Reader) -> list[Invoice]:
    return work.tx.find(Invoice, eq("status", "finalized"), order=[asc("created_at"), asc("id")])


def fee_of(work: Reader, invoice: Invoice, fee_type: str) -> Fee:
    fee = work.tx.first(Fee, eq("invoice_id", invoice.id), eq("fee_type", fee_type))
    assert fee is not None
    return fee


def usage_invoice(work: Reader, at: int = 0) -> Invoice:
    return [
        invoice
        for invoice in invoices(work)
        if work.tx.count(Fee, eq("invoice_id", invoice.id), eq("fee_type", "charge"))
    ][at]


def period_of(work: Reader, at: int) -> BillingPeriod:
    periods = work.tx.find(
        BillingPeriod, eq("external_subscription_id", "other"), eq("recurring", True), order=[asc("timestamp")]
    )
    return periods[at]


def test_what_was_billed_as_it_should_be_gives_no_finding(box: Scenario) -> None:
    report = box.billing.audit()
    assert report.findings == ()
    assert report.found == 0
    assert (report.customers, report.subscriptions, report.invoices) == (1, 3, len(box.billing.reading(invoices)))
    assert report.invoices >= 8


@pytest.mark.parametrize("flat", ["0", "1"])
def test_a_level_below_zero_that_costs_nothing_gives_no_finding(flat: str) -> None:
    with Scenario(now="2024-03-01T00:00:00Z") as box:
        box.customer()
        ranges = price_ranges((0, 10, "0.1", flat), (11, None, "0.1", "0"))
        metric = box.metric("disk", "weighted_sum_agg", weighted_interval="seconds")
        box.plan(charge_on(metric, "graduated", graduated_ranges=ranges))
        box.subscribe()
        box.event("disk", value=-2)
        box.travel_to("2024-04-01T01:00:00Z")
        (fee,) = box.usage_fees()
        assert (fee["units"], fee["amount_cents"]) == ("0.0", 0)
        assert audit_findings(box) == set()


def a_cent_more_due(work: Work) -> None:
    invoice = invoices(work)[2]
    work.tx.replace(replace(invoice, total_amount_cents=invoice.total_amount_cents + 1))


def a_cent_less_net(work: Work) -> None:
    invoice = invoices(work)[2]
    less = invoice.sub_total_excluding_taxes_amount_cents - 1
    work.tx.replace(replace(invoice, sub_total_excluding_taxes_amount_cents=less))


def a_fee_that_rounds_otherwise(work: Work) -> None:
    fee = fee_of(work, usage_invoice(work), "charge")
    work.tx.replace(replace(fee, amount_cents=fee.amount_cents + 1))


def a_fee_whose_ranges_add_up_to_something_else(work: Work) -> None:
    fee = fee_of(work, usage_invoice(work), "charge")
    work.tx.replace(replace(fee, precise_amount_cents=fee.precise_amount_cents + Decimal("0.01")))


def a_fee_that_is_gone(work: Work) -> None:
    work.tx.delete(fee_of(work, usage_invoice(work), "charge"))


def a_fee_taxed_wrongly(work: Work) -> None:
    fee = fee_of(work, usage_invoice(work), "charge")
    work.tx.replace(replace(fee, taxes_amount_cents=fee.taxes_amount_cents + 1))


def a_tax_line_that_is_wrong(work: Work) -> None:
    invoice = usage_invoice(work)
    first, *others = invoice.applied_taxes
    work.tx.replace(replace(invoice, applied_taxes=(replace(first, amount_cents=first.amount_cents - 1), *others)))


def a_cent_on_the_wrong_tax_line(work: Work) -> None:
    invoice = usage_invoice(work)
    first, second = invoice.applied_taxes
    moved = replace(first, amount_cents=first.amount_cents - 1), replace(second, amount_cents=second.amount_cents + 1)
    work.tx.replace(replace(invoice, applied_taxes=moved))


def a_tax_base_that_is_wrong(work: Work) -> None:
    fee = fee_of(work, usage_invoice(work), "charge")
    first, *others = fee.applied_taxes
    changed = replace(first, base_amount_cents=first.base_amount_cents + 1)
    work.tx.replace(replace(fee, applied_taxes=(changed, *others)))


def units_that_were_not_billed(work: Work) -> None:
    fee = fee_of(work, usage_invoice(work), "charge")
    work.tx.replace(replace(fee, units=fee.units + 1))


def a_payment_of_nobody(work: Work) -> None:
    work.tx.replace(replace(invoices(work)[0], total_paid_amount_cents=1))


def a_day_more_to_pay(work: Work) -> None:
    invoice = invoices(work)[0]
    work.tx.replace(replace(invoice, payment_due_date=invoice.payment_due_date + DAY))


def a_fee_twice(work: Work) -> None:
    fee = fee_of(work, usage_invoice(work), "charge")
    work.tx.insert(replace(fee, id=work.new_id()))


def a_fee_of_another_window(work: Work) -> None:
    fee = fee_of(work, usage_invoice(work), "charge")
    assert fee.charges_from_datetime is not None
    work.tx.replace(replace(fee, charges_from_datetime=fee.charges_from_datetime - DAY))


def a_number_left_out(work: Work) -> None:
    invoice = invoices(work)[-1]
    assert invoice.sequential_id is not None
    work.tx.replace(replace(invoice, sequential_id=invoice.sequential_id + 1, number="X-001-999"))


def a_number_given_twice(work: Work) -> None:
    first, other = invoices(work)[1:3]
    work.tx.replace(replace(other, sequential_id=first.sequential_id, number=first.number))


def a_number_of_the_entity_left_out(work: Work) -> None:
    invoice = invoices(work)[3]
    work.tx.replace(replace(invoice, entity_sequential_id=1000))


def a_last_invoice_that_is_gone(work: Work) -> None:
    last = invoices(work)[-1]
    work.tx.delete(*work.tx.find(Fee, eq("invoice_id", last.id)))
    work.tx.delete(*work.tx.find(BillingPeriod, eq("invoice_id", last.id)))
    work.tx.delete(last)


def a_number_that_names_another_place(work: Work) -> None:
    work.tx.replace(replace(invoices(work)[1], number="DEF-001-777"))


def a_window_that_overlaps(work: Work) -> None:
    period = period_of(work, 2)
    assert period.charges_from_datetime is not None
    work.tx.replace(replace(period, charges_from_datetime=period.charges_from_datetime - timedelta(microseconds=1)))


def a_window_that_begins_late(work: Work) -> None:
    period = period_of(work, 2)
    assert period.charges_from_datetime is not None
    work.tx.replace(replace(period, charges_from_datetime=period.charges_from_datetime + timedelta(microseconds=1)))


def fixed_charges_that_end_late(work: Work) -> None:
    period = period_of(work, 1)
    assert period.fixed_charges_to_datetime is not None
    work.tx.replace(replace(period, fixed_charges_to_datetime=period.fixed_charges_to_datetime + DAY))


def a_first_window_that_is_gone(work: Work) -> None:
    work.tx.delete(period_of(work, 0))


def an_end_that_was_not_billed(work: Work) -> None:
    last = work.tx.first(
        BillingPeriod, eq("invoicing_reason", "subscription_terminating"), eq("external_subscription_id", "other")
    )
    assert last is not None
    work.tx.delete(last)


def a_run_that_waits_no_more(work: Work) -> None:
    job = work.tx.jobs.waiting("bill_customer", invoices(work)[0].customer_id)
    while job is not None:
        work.tx.jobs.complete(job)
        job = work.tx.jobs.waiting("bill_customer", job.subject_id)


def _moved_fee(work: Work, fee_type: str, days: int) -> None:
    fees = work.tx.find(
        Fee,
        eq("external_subscription_id", "other"),
        eq("fee_type", fee_type),
        order=[asc("created_at")],
    )
    fee = fees[2]
    assert fee.from_datetime is not None
    work.tx.replace(replace(fee, from_datetime=fee.from_datetime + days * DAY))


def a_subscription_fee_that_begins_early(work: Work) -> None:
    _moved_fee(work, "subscription", -5)


def a_subscription_fee_that_begins_late(work: Work) -> None:
    _moved_fee(work, "subscription", 5)


def seats_paid_twice(work: Work) -> None:
    _moved_fee(work, "fixed_charge", -5)


def _credited(work: Work, invoice: Invoice, item_type: str, source_id: str, cents: int) -> None:
    """Have the invoice take `cents` of a coupon or credit note, its own totals right."""
    line = Credit(
        id=work.new_id(),
        amount_cents=cents,
        amount_currency=invoice.currency,
        before_taxes=item_type == "coupon",
        item_id=source_id,
        item_type=CreditType(item_type),
        item_code="x",
        item_name="x",
        created_at=work.now,
        source_id=source_id,
    )
    work.tx.replace(
        replace(
            invoice,
            credits=(*invoice.credits, line),
            credit_notes_amount_cents=invoice.credit_notes_amount_cents + cents,
            total_amount_cents=invoice.total_amount_cents - cents,
        )
    )


def _applied(work: Work, **fields: object) -> AppliedCoupon:
    coupon = Coupon(
        id=work.new_id(),
        organization_id=work.organization.id,
        name="Ten",
        code="ten",
        coupon_type="fixed_amount",
        frequency="once",
        expiration="no_expiration",
        created_at=work.now,
        updated_at=work.now,
    )
    values: dict[str, object] = {
        "id": work.new_id(),
        "organization_id": work.organization.id,
        "coupon_id": coupon.id,
        "customer_id": invoices(work)[0].customer_id,
        "status": "active",
        "frequency": "once",
        "created_at": work.now,
        "updated_at": work.now,
        "amount_cents": 10,
        "amount_currency": "EUR",
        **fields,
    }
    applied = AppliedCoupon(**values)  # type: ignore[arg-type]
    work.tx.insert(coupon, applied)
    return applied


def a_coupon_used_beyond_its_amount(work: Work) -> None:
    applied = _applied(work)
    for invoice in invoices(work)[:2]:
        _credited(work, invoice, "coupon", applied.id, 6)


def a_percentage_used_twice(work: Work) -> None:
    applied = _applied(work, amount_cents=None, percentage_rate=Decimal(10))
    for invoice in invoices(work)[:2]:
        _credited(work, invoice, "coupon", applied.id, 6)


def a_coupon_used_too_often(work: Work) -> None:
    applied = _applied(work, frequency="recurring", frequency_duration=1, frequency_duration_remaining=0)
    for invoice in invoices(work)[:2]:
        _credited(work, invoice, "coupon", applied.id, 6)


def _note(work: Work, **fields: object) -> CreditNote:
    """A right note of 10.00 on the first invoice with usage, all of it credit, but for `fields`."""
    invoice = usage_invoice(work, 1)
    fee = fee_of(work, invoice, "subscription")
    item = CreditNoteItem(
        id=work.new_id(),
        fee_id=fee.id,
        amount_cents=1000,
        precise_amount_cents=Decimal(1000),
        amount_currency="EUR",
        created_at=work.now,
    )
    values: dict[str, object] = {
        "id": work.new_id(),
        "organization_id": work.organization.id,
        "customer_id": invoice.customer_id,
        "invoice_id": invoice.id,
        "billing_entity_id": invoice.billing_entity_id,
        "number": f"{invoice.number}-CN001",
        "sequential_id": 1,
        "issuing_date": work.now.date(),
        "currency": "EUR",
        "reason": "other",
        "created_at": work.now,
        "updated_at": work.now,
        "total_amount_cents": 1000,
        "credit_amount_cents": 1000,
        "balance_amount_cents": 1000,
        "sub_total_excluding_taxes_amount_cents": 1000,
        "precise_total_amount_cents": Decimal(1000),
        "items": (item,),
        **fields,
    }
    note = CreditNote(**values)  # type: ignore[arg-type]
    work.tx.insert(note)
    return note


def a_note_whose_parts_are_more_than_its_total(work: Work) -> None:
    _note(work, refund_amount_cents=1)


def a_note_whose_total_is_not_its_items(work: Work) -> None:
    _note(work, sub_total_excluding_taxes_amount_cents=999, total_amount_cents=999, credit_amount_cents=999)


def a_note_with_a_balance_that_was_used(work: Work) -> None:
    _credited(work, invoices(work)[-1], "credit_note", _note(work).id, 100)


def a_note_used_beyond_its_credit(work: Work) -> None:
    note = _note(work, balance_amount_cents=0, credit_status="consumed")
    for invoice in invoices(work)[-2:]:
        _credited(work, invoice, "credit_note", note.id, 700)


def a_fee_credited_beyond_its_amount(work: Work) -> None:
    _note(work)
    _note(work)


def a_note_number_left_out(work: Work) -> None:
    note = _note(work)
    work.tx.replace(replace(note, sequential_id=2, number=note.number.replace("CN001", "CN002")))


def a_note_number_given_twice(work: Work) -> None:
    _note(work, items=())
    _note(work, items=())


def _voided(work: Work, **fields: object) -> None:
    invoice = usage_invoice(work, 1)
    values = {"status": InvoiceStatus.VOIDED, "voided_at": work.now, **fields}
    work.tx.replace(replace(invoice, **values))  # type: ignore[arg-type]


def a_void_of_what_was_paid(work: Work) -> None:
    _voided(work, payment_status="succeeded")


def a_void_that_gave_a_note_nothing_back(work: Work) -> None:
    _credited(work, usage_invoice(work, 1), "credit_note", "another note", 100)
    _voided(work)


def a_void_whose_note_can_be_spent(work: Work) -> None:
    _note(work)
    _voided(work)


PLANTS: tuple[tuple[Plant, str], ...] = (
    (a_void_of_what_was_paid, "invoice_voided"),
    (a_void_that_gave_a_note_nothing_back, "invoice_voided"),
    (a_void_whose_note_can_be_spent, "invoice_voided"),
    (a_cent_more_due, "invoice_total"),
    (a_cent_less_net, "invoice_total"),
    (a_fee_that_rounds_otherwise, "fee"),
    (a_fee_whose_ranges_add_up_to_something_else, "fee"),
    (a_fee_that_is_gone, "invoice_total"),
    (a_fee_taxed_wrongly, "fee_taxes"),
    (a_tax_line_that_is_wrong, "invoice_taxes"),
    (a_cent_on_the_wrong_tax_line, "invoice_taxes"),
    (a_tax_base_that_is_wrong, "fee_taxes"),
    (units_that_were_not_billed, "fee"),
    (a_payment_of_nobody, "invoice_paid"),
    (a_day_more_to_pay, "due_date"),
    (a_fee_twice, "fee_repeated"),
    (a_fee_of_another_window, "fee_period"),
    (a_number_left_out, "number_gap"),
    (a_number_given_twice, "number_repeated"),
    (a_number_of_the_entity_left_out, "number_gap"),
    (a_last_invoice_that_is_gone, "number_gap"),
    (a_number_that_names_another_place, "number"),
    (a_window_that_overlaps, "period_billed_twice"),
    (a_window_that_begins_late, "period_never_billed"),
    (fixed_charges_that_end_late, "period_billed_twice"),
    (a_first_window_that_is_gone, "period_never_billed"),
    (an_end_that_was_not_billed, "period_never_billed"),
    (a_run_that_waits_no_more, "period_never_billed"),
    (a_subscription_fee_that_begins_early, "period_billed_twice"),
    (a_subscription_fee_that_begins_late, "period_never_billed"),
    (seats_paid_twice, "period_billed_twice"),
    (a_coupon_used_beyond_its_amount, "coupon"),
    (a_percentage_used_twice, "coupon"),
    (a_coupon_used_too_often, "coupon"),
    (a_note_whose_parts_are_more_than_its_total, "credit_note"),
    (a_note_whose_total_is_not_its_items, "credit_note"),
    (a_note_with_a_balance_that_was_used, "credit_note"),
    (a_note_used_beyond_its_credit, "credit_note"),
    (a_note_number_left_out, "number_gap"),
    (a_note_number_given_twice, "number_repeated"),
    (a_fee_credited_beyond_its_amount, "credits"),
)


def test_each_kind_of_error_is_found(box: Scenario) -> None:
    missed = []
    for plant, check in PLANTS:
        # Each error is planted alone: what a plant did is undone before the next.
        reports: list[AuditReport] = []

        def tried(work: Work, plant: Plant = plant, reports: list[AuditReport] = reports) -> None:
            plant(work)
            reports.append(audit(work))
            raise Undone

        with pytest.raises(Undone):
            box.billing.writing(tried)
        if check not in {finding.check for finding in reports[0].findings}:
            missed.append((plant.__name__, check, [str(finding) for finding in reports[0].findings]))
    assert missed == []
    assert audit_findings(box) == set()


def test_every_kind_of_finding_has_an_error_planted_for_it() -> None:
    planted = {
        check for _, check in (*PLANTS, *OF_RECOUNTS, *OF_WALLETS, *OF_RECEIPTS, *OF_REFUNDS, *OF_LEDGER, *OF_HOLDS)
    }
    # Wrong states of usage are planted in test_usage_states.py, wrong totals of lists in test_list_counts.py.
    assert planted | {"usage_states", "list_counts"} == set(CHECKS)


# What no one sees, and what other amounts do not follow from.
_INTERNAL = {"unit_amount_cents", "precise_credit_notes_amount_cents"}


@pytest.mark.slow
def test_no_amount_differs_by_a_cent_unseen(box: Scenario) -> None:
    def planted(work: Work, record: Invoice | Fee | CreditNote, name: str) -> int:
        def plant() -> None:
            work.tx.replace(replace(record, **{name: getattr(record, name) + 1}))
            seen.append(audit(work).found)
            raise Undone

        seen: list[int] = []
        with pytest.raises(Undone):
            work.tx.savepoint(plant)
        return seen[0]

    def unseen(work: Work) -> list[str]:
        invoice = usage_invoice(work)
        fees = [fee_of(work, invoice, kind) for kind in ("charge", "subscription")]
        records: list[Invoice | Fee | CreditNote] = [invoice, *fees, _note(work)]
        work.log_changes()
        assert audit(work).findings == ()
        return [
            f"{type(record).__name__}.{field.name}"
            for record in records
            for field in fields(record)
            if field.name.endswith("_cents") and field.name not in _INTERNAL
            if getattr(record, field.name) is not None and not planted(work, record, field.name)
        ]

    assert box.billing.writing(unseen) == []


def test_more_findings_than_wanted_are_counted(box: Scenario) -> None:
    def all_wrong(work: Work) -> None:
        for invoice in invoices(work):
            work.tx.replace(replace(invoice, total_amount_cents=invoice.total_amount_cents + 1))

    box.billing.writing(all_wrong)
    report = box.billing.audit(at_most=2)
    assert len(report.findings) == 2
    # The total, and what is due on it by the ledger.
    assert report.found == 2 * report.invoices


def test_what_rounding_and_voids_leave_behind_is_no_finding() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        box.billing.writing(lambda work: give_taxes(work, "acme", {"vat": "19", "levy": "5.5"}))
        charge = {"charge_model": "standard", "min_amount_cents": 1500, "properties": {"amount": "0.105"}}
        box.plan({"billable_metric_id": box.metric("calls"), **charge}, amount_cents=1000)
        box.subscribe()
        box.event("calls", value="1")
        box.subscribe(external_id="ended_at_once")
        box.delete("/subscriptions/ended_at_once")
        box.add_on("setup", 1)
        lines = [{"add_on_code": "setup", "unit_amount_cents": cents} for cents in (103, 77, 55)]
        sent = {"external_customer_id": "acme", "currency": "EUR", "fees": lines}
        first, second = (box.post("/invoices", invoice=sent)["invoice"] for _ in range(2))
        void = {"generate_credit_note": True, "credit_amount": 33}
        box.ask("POST", f"/invoices/{first['svc_id']}/void", void)
        items = [{"fee_id": second["fees"][0]["svc_id"], "amount_cents": 100}]
        note = {"invoice_id": second["svc_id"], "items": items, "credit_amount_cents": 25, "offset_amount_cents": 100}
        made = box.post("/credit_notes", credit_note=note)["credit_note"]
        box.put(f"/credit_notes/{made['svc_id']}/void")
        box.travel_to("2024-02-02T00:00:00Z")
        assert box.billing.audit().findings == ()


def test_lines_of_tax_that_an_earlier_version_rounded_one_by_one_are_no_finding() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        box.tax("19", code="full", applied_to_organization=False)
        box.tax("7", code="reduced", applied_to_organization=False)
        box.add_on("book", 1002)
        lines = [{"add_on_code": "book", "tax_codes": [code]} for code in ("full", "reduced")]
        box.post("/invoices", invoice={"external_customer_id": "acme", "currency": "EUR", "fees": lines})

        def found_with(work: Work, full: int, reduced: int) -> list[str]:
            (invoice,) = work.tx.find(Invoice)
            cents = {"full": full, "reduced": reduced}
            taxes = tuple(replace(line, amount_cents=cents[line.code]) for line in invoice.applied_taxes)
            work.tx.replace(replace(invoice, applied_taxes=taxes))
            return [finding.check for finding in audit(work).findings if finding.check != "ledger"]

        assert box.billing.writing(lambda work: found_with(work, 190, 70)) == []
        assert box.billing.writing(lambda work: found_with(work, 190, 71)) == ["invoice_taxes"]
        assert box.billing.writing(lambda work: found_with(work, 191, 70)) == []


def test_progressive_billing_with_a_coupon_is_no_finding() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        box.billing.writing(lambda work: give_taxes(work, "acme", {"vat": "20"}))
        charge = {"charge_model": "standard", "properties": {"amount": "10"}}
        thresholds = [{"amount_cents": 2000}, {"amount_cents": 5000}]
        box.plan({"billable_metric_id": box.metric("calls"), **charge}, usage_thresholds=thresholds)
        coupon = {"name": "Ten", "code": "ten", "coupon_type": "percentage", "percentage_rate": "10"}
        box.post("/coupons", coupon={**coupon, "frequency": "forever", "expiration": "no_expiration"})
        box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "ten"})
        box.subscribe()
        for day, value in (("05", "3"), ("06", "3"), ("10", "-4")):
            box.travel_to(f"2024-01-{day}T00:00:00Z")
            box.event("calls", value=value)
        box.travel_to("2024-02-02T00:00:00Z")
        assert len(box.get("/invoices?invoice_type=progressive_billing")["invoices"]) == 2
        assert box.billing.audit().findings == ()
