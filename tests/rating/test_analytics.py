"""Analytics come to what a plain walk over all records comes to, to the cent."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, strategies as st
from tests.examples import examples
from tests.scenarios import Scenario
from tests.storage.contract import Tenant

from usagebill import Billing
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription
from usagebill.operations import organizations
from usagebill.runtime.clock import ManualClock

BEGAN = datetime(2024, 1, 20, tzinfo=UTC)
NOW = datetime(2024, 5, 10, 12, tzinfo=UTC)
DAYS = st.integers(-60, 150).map(lambda days: date(2024, 1, 1) + timedelta(days=days))
AMOUNTS = st.one_of(st.integers(0, 10**6), st.sampled_from([0, 1, 10**30, -500]))
CURRENCIES = st.sampled_from(["EUR", "USD"])


@dataclass(frozen=True)
class World:
    """An organization with two billing entities, each with a customer, plans of every interval and two metrics."""

    billing: Billing
    tenant: Tenant
    customers: list[Customer]
    subscriptions: list[Subscription]
    metrics: list[BillableMetric]

    def all(self, kind: type[Any]) -> list[Any]:
        return self.tenant.read(lambda tx: tx.find(kind))


def new_world(own_entity: bool) -> World:
    clock = ManualClock(BEGAN)
    billing = Billing(clock=clock)
    clock.set(NOW)
    tenant = Tenant(billing.store, billing.organization.id)
    entities = [tenant.entity(), tenant.entity()]
    customers = [tenant.customer(entities[0], external_id="first"), tenant.customer(entities[1], external_id="second")]
    plans = [
        tenant.plan(interval=interval, pay_in_advance=in_advance)
        for interval in ("weekly", "monthly", "quarterly", "semiannual", "yearly")
        for in_advance in (False, True)
    ]
    entity_fields = {"billing_entity_id": entities[1].id} if own_entity else {}
    subscriptions = [tenant.subscription(customer, plan, **entity_fields) for customer in customers for plan in plans]
    metrics = [
        BillableMetric(
            id=code,
            organization_id=tenant.id,
            name=code,
            code=code,
            aggregation_type="count_agg",
            created_at=BEGAN,
            updated_at=BEGAN,
        )
        for code in ("calls", "storage")
    ]
    tenant.insert(*entities, *customers, *plans, *subscriptions, *metrics)
    return World(billing, tenant, customers, subscriptions, metrics)


def instant(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 13, tzinfo=UTC)


@st.composite
def invoices(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of an invoice, of its fees and of its credit notes."""
    fees = st.fixed_dictionaries(
        {
            "fee_type": st.sampled_from(["charge", "subscription", "commitment"]),
            "amount_cents": AMOUNTS,
            "precise_coupons_amount_cents": st.decimals(0, 500, places=5),
            "taxes_amount_cents": st.integers(0, 500),
            "created": DAYS,
            "start": DAYS,
            "days": st.integers(0, 366),
            "subscription": st.integers(0, 9),
            "metric": st.integers(0, 1),
        }
    )
    notes = st.tuples(st.integers(0, 900), st.sampled_from(["finalized", "draft"]))
    return {
        "customer": draw(st.integers(0, 1)),
        "currency": draw(CURRENCIES),
        "status": draw(st.sampled_from(["finalized", "finalized", "draft", "voided"])),
        "payment_status": draw(st.sampled_from(["pending", "succeeded", "failed"])),
        "issuing_date": draw(DAYS),
        "payment_due_date": draw(DAYS),
        "payment_overdue": draw(st.booleans()),
        "self_billed": draw(st.sampled_from([False, False, True])),
        "payment_dispute_lost_at": draw(st.sampled_from([None, None, NOW])),
        "total_amount_cents": draw(AMOUNTS),
        "total_paid_amount_cents": draw(st.integers(0, 400)),
        "total_offset_amount_cents": draw(st.integers(0, 400)),
        "fees": draw(st.lists(fees, max_size=3)),
        "notes": draw(st.lists(notes, max_size=2)),
    }


LOOSE = st.fixed_dictionaries(
    {
        "amount_cents": AMOUNTS,
        "currency": CURRENCIES,
        "created": DAYS,
        "customer": st.integers(0, 1),
        "subscription": st.integers(0, 9),
        "self_billed": st.sampled_from([False, False, True]),
        "pay_in_advance": st.sampled_from([True, True, False]),
    }
)


def fill(world: World, sent: list[dict[str, Any]], loose: list[dict[str, Any]]) -> None:
    records: list[object] = []
    for fields in sent:
        fields = dict(fields)
        customer, fees, notes = world.customers[fields.pop("customer")], fields.pop("fees"), fields.pop("notes")
        invoice = world.tenant.invoice(customer, **fields)
        records.append(invoice)
        for line in fees:
            line = dict(line)
            created, start, days = line.pop("created"), line.pop("start"), line.pop("days")
            records.append(
                world.tenant.fee(
                    customer,
                    **{name: value for name, value in line.items() if name not in ("subscription", "metric")},
                    invoice_id=invoice.id,
                    currency=invoice.currency,
                    subscription_id=subscription_of(world, customer, line["subscription"]).id,
                    billable_metric_id=world.metrics[line["metric"]].id,
                    created_at=instant(created),
                    from_datetime=instant(start),
                    to_datetime=instant(start) + timedelta(days=days, hours=5),
                )
            )
        for number, (refund, status) in enumerate(notes):
            records.append(
                CreditNote(
                    id=f"{invoice.id}-{number}",
                    organization_id=world.tenant.id,
                    customer_id=customer.id,
                    invoice_id=invoice.id,
                    billing_entity_id=invoice.billing_entity_id,
                    number=str(number),
                    sequential_id=number,
                    issuing_date=invoice.issuing_date,
                    currency=invoice.currency,
                    reason="other",  # type: ignore[arg-type]
                    created_at=NOW,
                    updated_at=NOW,
                    status=status,
                    refund_amount_cents=refund,
                )
            )
    for line in loose:
        line = dict(line)
        customer, created = world.customers[line.pop("customer")], line.pop("created")
        subscription = subscription_of(world, customer, line.pop("subscription"))
        records.append(world.tenant.fee(customer, **line, created_at=instant(created), subscription_id=subscription.id))
    world.tenant.insert(*records)


def subscription_of(world: World, customer: Customer, number: int) -> Subscription:
    return [item for item in world.subscriptions if item.customer_id == customer.id][number]


class Walk:
    """The same, record by record, as the fact sheet says it. Nothing is shared with what is tested but the records."""

    def __init__(self, world: World, wanted: dict[str, Any]) -> None:
        self.world = world
        entity = next(
            (item for item in world.all(BillingEntity) if item.code == wanted.get("billing_entity_code")), None
        )
        self.entity = None if entity is None else entity.id
        self.currency = wanted["currency"].upper() if "currency" in wanted else None
        customer = next(
            (item for item in world.customers if item.external_id == wanted.get("external_customer_id")), None
        )
        self.customer = customer
        self.unknown = "external_customer_id" in wanted and customer is None
        months = ["2024-01", "2024-02", "2024-03", "2024-04", "2024-05"]
        self.months = months[-max(wanted["months"], 1) :] if "months" in wanted else months
        self.invoices = {invoice.id: invoice for invoice in world.all(Invoice)}

    def matches(self, record: Any, entity_id: str) -> bool:
        return (
            not self.unknown
            and self.currency in (None, record.currency)
            and (self.customer is None or record.customer_id == self.customer.id)
            and self.entity in (None, entity_id)
        )

    def counts(self, invoice: Invoice) -> bool:
        return (
            invoice.status == "finalized" and invoice.payment_dispute_lost_at is None and not invoice.self_billed
        ) and self.matches(invoice, invoice.billing_entity_id)

    def gross_revenue(self) -> set[tuple[object, ...]]:
        amounts: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
        for invoice in self.invoices.values():
            if self.counts(invoice):
                group = amounts[f"{invoice.issuing_date:%Y-%m}", invoice.currency, invoice.billing_entity_id]
                group[0] += invoice.total_amount_cents
                group[1] += 1
                for note in self.world.all(CreditNote):
                    if note.invoice_id == invoice.id:
                        group[0] -= note.refund_amount_cents
        subscriptions = {item.id: item for item in self.world.subscriptions}
        customers = {item.id: item for item in self.world.customers}
        for fee in self.world.all(Fee):
            if fee.invoice_id is None and fee.pay_in_advance and not fee.self_billed:
                entity = (
                    subscriptions[fee.subscription_id].billing_entity_id or customers[fee.customer_id].billing_entity_id
                )
                if self.matches(fee, entity):
                    amounts[f"{fee.created_at:%Y-%m}", fee.currency, entity][0] += fee.amount_cents
        return {(*key, *group) for key, group in amounts.items() if key[0] in self.months}

    def invoice_collection(self) -> set[tuple[object, ...]]:
        amounts: dict[tuple[str, str | None, str | None], list[int]] = defaultdict(lambda: [0, 0])
        for invoice in filter(self.counts, self.invoices.values()):
            group = amounts[f"{invoice.issuing_date:%Y-%m}", str(invoice.payment_status), invoice.currency]
            group[0] += 1
            group[1] += invoice.total_amount_cents
        return self.with_empty({(*key, *group) for key, group in amounts.items()}, (None, None, 0, 0))

    def with_empty(self, rows: set[tuple[object, ...]], nothing: tuple[object, ...]) -> set[tuple[object, ...]]:
        rows = {row for row in rows if row[0] in self.months}
        if self.currency is None:
            rows |= {(month, *nothing) for month in self.months if month not in {row[0] for row in rows}}
        return rows

    def invoiced_usage(self) -> set[tuple[object, ...]]:
        codes = {metric.id: metric.code for metric in self.world.metrics}
        amounts: dict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
        for fee in self.world.all(Fee):
            invoice = self.invoices.get(fee.invoice_id)
            if fee.fee_type != "charge" or invoice is None:
                continue
            if invoice.payment_dispute_lost_at or invoice.self_billed:
                continue
            if self.matches(fee, invoice.billing_entity_id):
                key = f"{fee.created_at:%Y-%m}", codes[fee.billable_metric_id], fee.currency
                amounts[key] += fee.amount_cents - Fraction(fee.precise_coupons_amount_cents)
        return {(*key, nearest(amount)) for key, amount in amounts.items() if key[0] in self.months}

    def mrr(self) -> set[tuple[object, ...]]:
        plans = {plan.id: plan for plan in self.world.all(Plan)}
        subscriptions = {item.id: item for item in self.world.subscriptions}
        amounts: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
        weekly: dict[tuple[str, str, str], list[Fraction]] = defaultdict(list)
        for fee in self.world.all(Fee):
            invoice = self.invoices.get(fee.invoice_id)
            if fee.fee_type != "subscription" or invoice is None or not self.counts(invoice):
                continue
            plan = plans[subscriptions[fee.subscription_id].plan_id]
            amount = fee.amount_cents - Fraction(fee.precise_coupons_amount_cents) + fee.taxes_amount_cents
            index = invoice.issuing_date.year * 12 + invoice.issuing_date.month - 1
            period = fee.to_datetime - fee.from_datetime
            lasts = (Fraction(period.days) + Fraction(period.seconds // 3600, 24)) / Fraction("30.44")
            if plan.interval == "weekly":
                weekly[name(index), fee.currency, fee.subscription_id].append(amount)
                continue
            if plan.interval == "monthly" or lasts <= 1:
                amounts[name(index), fee.currency] += amount
                continue
            rest, step = amount, 1 if plan.pay_in_advance else -1
            number = -(-lasts.numerator // lasts.denominator)
            for place in range(number - 1):
                part = amount / lasts
                if place == 0 and plan.pay_in_advance:
                    first = date(invoice.issuing_date.year, invoice.issuing_date.month, 1)
                    days = ((first + timedelta(days=32)).replace(day=1) - first).days
                    part *= Fraction(days - invoice.issuing_date.day + 1, days)
                amounts[name(index + place * step), fee.currency] += part
                rest -= part
            amounts[name(index + (number - 1) * step), fee.currency] += rest
        for (month, currency, _), parts in weekly.items():
            amounts[month, currency] += sum(parts, Fraction(0)) / len(parts) * Fraction("4.33")
        return self.with_empty(
            {(month, nearest(amount), currency) for (month, currency), amount in amounts.items()}, (None, None)
        )

    def overdue_balance(self) -> set[tuple[object, ...]]:
        amounts: dict[tuple[str, str, str], list[tuple[str, int]]] = defaultdict(list)
        for invoice in self.invoices.values():
            if invoice.payment_overdue and not invoice.self_billed and self.matches(invoice, invoice.billing_entity_id):
                due = invoice.total_amount_cents - invoice.total_paid_amount_cents - invoice.total_offset_amount_cents
                key = f"{invoice.payment_due_date:%Y-%m}", invoice.currency, invoice.billing_entity_id
                amounts[key].append((invoice.id, due))
        return {
            (*key, sum(due for _, due in group), tuple(sorted(id for id, _ in group)))
            for key, group in amounts.items()
            if key[0] in self.months
        }


def name(index: int) -> str:
    return f"{index // 12:04}-{index % 12 + 1:02}"


def nearest(amount: Fraction) -> int:
    """Half away from zero."""
    whole = (abs(amount) + Fraction(1, 2)).__floor__()
    return whole if amount >= 0 else -whole


def rows_of(shown: list[Any], *fields: str) -> list[tuple[object, ...]]:
    return [(f"{row.month:%Y-%m}", *(getattr(row, field) for field in fields)) for row in shown]


FIELDS = {
    "gross_revenue": ("currency", "billing_entity_id", "amount_cents", "invoices_count"),
    "invoice_collection": ("payment_status", "currency", "invoices_count", "amount_cents"),
    "invoiced_usage": ("code", "currency", "amount_cents"),
    "mrr": ("amount_cents", "currency"),
    "overdue_balance": ("currency", "billing_entity_id", "amount_cents", "invoice_ids"),
}


@examples(40, suppress_health_check=[HealthCheck.too_slow])
@given(
    sent=st.lists(invoices(), max_size=5),
    loose=st.lists(LOOSE, max_size=3),
    own_entity=st.booleans(),
    wanted=st.fixed_dictionaries(
        {},
        optional={
            "currency": st.sampled_from(["eur", "USD", "XXX"]),
            "months": st.integers(0, 7),
            "external_customer_id": st.sampled_from(["first", "second", "nobody"]),
            "billing_entity_code": st.sampled_from([0, 1, "nothing"]),
        },
    ),
)
def test_every_report_is_what_a_walk_over_all_records_comes_to(
    sent: list[dict[str, Any]], loose: list[dict[str, Any]], own_entity: bool, wanted: dict[str, Any]
) -> None:
    world = new_world(own_entity)
    with world.billing:
        fill(world, sent, loose)
        if isinstance(wanted.get("billing_entity_code"), int):
            entity_id = world.customers[wanted["billing_entity_code"]].billing_entity_id
            wanted = {**wanted, "billing_entity_code": entity_id}
        walk = Walk(world, wanted)
        for report, fields in FIELDS.items():
            rows = rows_of(getattr(world.billing.analytics, report)(**wanted), *fields)
            assert set(rows) == getattr(walk, report)(), report
            assert len(set(rows)) == len(rows), report
            months = [str(row[0]) for row in rows]
            assert months == sorted(months, reverse=report == "invoiced_usage"), report


@pytest.mark.now("2024-03-05T10:00:00Z")
def test_months_are_a_number_from_zero_on(box: Scenario) -> None:
    for months in ("-1", "2000", "many"):
        refused = box.get(f"/analytics/mrr?months={months}", status=422)
        assert list(refused["error_details"]) == ["months"]
    with pytest.raises(Invalid):
        box.billing.analytics.mrr(months=-1)


@pytest.mark.now("2024-03-05T10:00:00Z")
def test_one_organization_sees_nothing_of_another(box: Scenario) -> None:
    box.customer()
    box.add_on("setup", 1000)
    box.post("/invoices", invoice={"external_customer_id": "acme", "fees": [{"add_on_code": "setup", "units": 1}]})
    assert box.billing.analytics.gross_revenue()[0].amount_cents == 1000
    created = box.billing.store.write(None, lambda tx: organizations.create(tx, box.now, "Other"))
    other = Billing(box.billing.store, organization=created.id, clock=box.clock)
    assert other.analytics.gross_revenue() == []
    assert other.analytics.overdue_balance() == []
    assert [row.invoices_count for row in other.analytics.invoice_collection()] == [0]


@pytest.mark.parametrize("zone", ["Pacific/Pago_Pago", "America/Los_Angeles", "UTC", "Pacific/Auckland"])
def test_reports_contain_the_first_day_in_every_zone(zone: str) -> None:
    """Where the first of March in UTC is still the last of February, invoices are dated in February."""
    with Scenario(now="2024-03-01T02:00:00Z") as box:
        box.customer(timezone=zone)
        box.post("/add_ons", add_on={"name": "A", "code": "a", "amount_cents": 1000, "amount_currency": "EUR"})
        fees = [{"add_on_code": "a", "units": 1}]
        invoice = box.post("/invoices", invoice={"external_customer_id": "acme", "currency": "EUR", "fees": fees})
        rows = box.billing.analytics.gross_revenue()
        month = date.fromisoformat(invoice["invoice"]["issuing_date"]).replace(day=1)
        assert {row.month: row.amount_cents for row in rows} == {month: 1000}
        assert {row.month for row in box.billing.analytics.invoice_collection()} == {month, date(2024, 3, 1)}
        # Whoever asks for the current month gets no other.
        shown = [row.month for row in box.billing.analytics.gross_revenue(months=1)]
        assert shown == [row.month for row in rows if row.month == date(2024, 3, 1)]
