"""A week without the service changes no invoice: jobs that fell due meanwhile run as of their own instants."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.scenarios import charge_on, plan_fields, price_ranges
from usagebill import Billing
from usagebill.fields import EventFields
from usagebill.runtime.clock import ManualClock
from usagebill.testing import Sandbox

START = "2024-01-10T00:00:00Z"
DOWN_FROM = "2024-01-29T00:00:00Z"
UP_AGAIN = "2024-02-05T12:34:56Z"
END = "2024-04-15T00:00:00Z"
on_both_engines = pytest.mark.usefixtures("sandbox_engine")


def begin(box: Sandbox) -> None:
    billing = box.billing
    storage = billing.billable_metrics.create(
        name="Storage", code="storage", aggregation_type="sum_agg", field_name="gb", recurring=True
    )
    calls = billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
    billing.taxes.create(name="VAT", code="vat", rate=20, applied_to_organization=True)
    billing.add_ons.create(name="Support", code="support", amount_cents=1000, amount_currency="EUR")
    for code, advance in (("arrears", False), ("advance", True)):
        billing.plans.create(
            **plan_fields(
                charge_on(storage.id, amount="0.31", prorated=True),
                charge_on(calls.id, amount="0.07"),
                code=code,
                amount_cents=3000,
                pay_in_advance=advance,
                fixed_charges=[
                    {"add_on_code": "support", "charge_model": "standard", "units": 2, "properties": {"amount": "5"}}
                ],
            )
        )
    for name, grace, zone in (("acme", 0, "America/New_York"), ("hooli", 3, "Asia/Tokyo")):
        billing.customers.upsert(
            external_id=name,
            currency="EUR",
            timezone=zone,
            billing_configuration={"invoice_grace_period": grace},
        )
        for plan in ("arrears", "advance"):
            billing.subscriptions.create(external_customer_id=name, plan_code=plan, external_id=f"{name}-{plan}")
    use(box, "before")


def use(box: Sandbox, tag: str) -> None:
    for name in ("acme", "hooli"):
        for plan in ("arrears", "advance"):
            box.billing.events.ingest(
                {
                    "transaction_id": f"{tag}-{code}",
                    "code": code,
                    "external_subscription_id": f"{name}-{plan}",
                    "properties": {"gb": "12.5"},
                }
                for code in ("storage", "calls")
            )


def invoices(box: Sandbox) -> list[dict[str, Any]]:
    """The contents of each invoice, oldest first, without ids."""
    shown_invoices = []
    for record in reversed(box.billing.invoices.list(per_page=1000).items):
        shown = box.billing.view(record)
        number = shown["number"].split("-", 2)[2]
        fees = [
            (fee["item"]["code"], fee["units"], fee["amount_cents"], fee["from_date"], fee["to_date"])
            for fee in shown["fees"]
        ]
        shown_invoices.append(
            {
                "customer": shown["customer"]["external_id"],
                "number": number,
                **{
                    key: shown[key]
                    for key in ("issuing_date", "payment_due_date", "status", "total_amount_cents", "created_at")
                },
                "fees": sorted(fees),
            }
        )
    return sorted(shown_invoices, key=lambda invoice: (invoice["customer"], invoice["created_at"], invoice["number"]))


@on_both_engines
@pytest.mark.parametrize("catch_up_late", [False, True])
@pytest.mark.slow
def test_a_week_of_downtime_changes_no_invoice(catch_up_late: bool) -> None:
    with Sandbox(now=START) as up, Sandbox(now=START) as down:
        for box in (up, down):
            begin(box)
            box.travel_to(DOWN_FROM)
        up.travel_to(UP_AGAIN)
        down.jump_to(UP_AGAIN)
        if not catch_up_late:
            down.run_due()
            assert invoices(down) == invoices(up)
        for box in (up, down):
            # The backlog comes before the following jobs.
            box.run_due()
            use(box, "after")
            box.travel_to(END)
        made = invoices(down)
        assert made == invoices(up)
        assert len({invoice["created_at"] for invoice in made}) > 4


@on_both_engines
def test_events_that_come_after_a_run_was_due_are_not_on_its_invoice_however_late_it_runs() -> None:
    made = []
    for late in (False, True):
        with Sandbox(now=START) as box:
            begin(box)
            for due, sent in (("2024-02-01T00:10:00Z", "2024-02-02T09:00:00Z"), (END, END)):
                (box.jump_to if late else box.travel_to)(due)
                (box.jump_to if late else box.travel_to)(sent)
                box.billing.events.ingest(
                    [
                        {
                            "transaction_id": f"late-{sent}",
                            "code": "calls",
                            "external_subscription_id": "acme-arrears",
                            "timestamp": 1705708800,  # 20 January
                        }
                    ]
                )
            box.run_due()
            made.append(invoices(box))
    assert made[0] == made[1]


def sell_calls(box: Sandbox, amount: str, cents: int = 0) -> None:
    """A monthly plan of `cents` in arrears, whose calls are paid in advance, one by one."""
    calls = box.billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
    charge = charge_on(calls.id, amount=amount, pay_in_advance=True)
    box.billing.plans.create(**plan_fields(charge, code="plan", name="plan", amount_cents=cents))


@on_both_engines
def test_an_event_is_priced_by_the_plan_whose_start_is_overdue() -> None:
    with Sandbox(now=START) as box:
        sell_calls(box, "0.07")
        box.billing.subscriptions.create(
            external_customer_id="acme", plan_code="plan", external_id="sub", subscription_at="2024-01-20T00:00:00Z"
        )
        box.jump_to("2024-01-21T00:00:00Z")
        box.billing.events.ingest([{"transaction_id": "t", "code": "calls", "external_subscription_id": "sub"}])
        assert [invoice["total_amount_cents"] for invoice in invoices(box)] == [7]


@on_both_engines
def test_an_event_is_billed_in_its_own_month_where_the_run_after_a_start_late_in_the_one_before_is_overdue() -> None:
    with Sandbox(now="2024-02-29T23:43:00Z") as box:
        sell_calls(box, "7", 3100)
        box.billing.subscriptions.create(external_customer_id="acme", plan_code="plan", external_id="sub")
        box.jump_to("2024-03-19T00:00:00Z")
        box.billing.events.create(transaction_id="1", code="calls", external_subscription_id="sub")
        (fee,) = box.billing.fees.list(fee_type="charge", event_transaction_id="1").items
        assert str(fee.from_datetime) == "2024-03-01 00:00:00+00:00"


@on_both_engines
def test_a_subscription_whose_start_is_overdue_can_be_ended() -> None:
    ended = []
    for late in (False, True):
        with Sandbox(now=START) as box:
            box.billing.plans.create(**plan_fields(name="Plan", code="plan", amount_cents=3100))
            box.billing.subscriptions.create(
                external_customer_id="acme", plan_code="plan", external_id="sub", subscription_at="2024-01-20T00:00:00Z"
            )
            (box.jump_to if late else box.travel_to)("2024-01-21T12:00:00Z")
            box.billing.subscriptions.terminate("sub")
            ended.append(invoices(box))
    assert ended[0] == ended[1]
    assert [invoice["total_amount_cents"] for invoice in ended[0]] == [200]


@pytest.mark.parametrize("late", [False, True])
def test_an_event_costs_the_same_however_late_it_is_processed(empty_database: str, late: bool) -> None:
    tiers = price_ranges((0, 10, "1", "0"), (11, None, "3", "0"))
    terms = {"charge_model": "graduated", "pay_in_advance": True, "properties": {"graduated_ranges": tiers}}
    # The second was used before the first, and received after it.
    assert billed(empty_database, terms, late=late) == [700, 800, 1200]


@pytest.mark.parametrize("late", [False, True])
def test_an_invoice_for_thresholds_bills_the_usage_that_passed_them_however_late_that_is_seen(
    empty_database: str, late: bool
) -> None:
    thresholds = [{"amount_cents": 1000}, {"amount_cents": 1800}]
    terms = {"charge_model": "standard", "properties": {"amount": "1"}}
    # 8 units pass none, 8 + 7 the first, 8 + 7 + 4 the second.
    assert billed(empty_database, terms, late=late, usage_thresholds=thresholds) == [1500, 1900]


def billed(database: str, charge: dict[str, Any], *, late: bool, **plan: Any) -> list[int]:
    """The invoices, in cents, for 8, 7 and 4 units that were used out of order; `late`: processed all at once."""
    clock = ManualClock(datetime(2024, 1, 10, tzinfo=UTC))
    with Billing(database, clock=clock, deliver=False) as billing:
        storage = billing.billable_metrics.create(name="GB", code="gb", aggregation_type="sum_agg", field_name="gb")
        charges = [{"billable_metric_id": storage.id, **charge}]
        billing.plans.create(**plan_fields(name="Plan", code="plan", charges=charges, **plan))
        billing.subscriptions.create(external_customer_id="acme", plan_code="plan", external_id="sub")
        billing.run_due()
        clock.set(datetime(2024, 1, 12, tzinfo=UTC))
        for hour, day, used in ((1, 12, 8), (2, 11, 7), (3, 12, 4)):
            clock.set(datetime(2024, 1, 12, hour, tzinfo=UTC))
            event: EventFields = {
                "transaction_id": str(hour),
                "code": "gb",
                "external_subscription_id": "sub",
                "timestamp": datetime(2024, 1, day, hour, tzinfo=UTC).timestamp(),
                "properties": {"gb": used},
            }
            billing.events.ingest([event])
            if not late:
                billing.run_due()
        billing.run_due()
        return sorted(invoice.fees_amount_cents for invoice in billing.invoices.list().items)
