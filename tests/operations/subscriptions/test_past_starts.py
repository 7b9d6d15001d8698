"""Starts in the past: what is billed of the time before the subscription was created, as `bill_from` says.

Each wish is compared with the same life of a subscription that was created on the day it started.
"""

from __future__ import annotations

from datetime import datetime
from itertools import product
from typing import Any

import pytest
from tests.json_asserts import accepted, refused
from tests.scenarios import Scenario, charge_on, fixed_charge_on

START, CREATED, END = "2024-01-10T08:00:00Z", "2024-03-20T12:00:00Z", "2024-06-02T12:00:00Z"
MONTHLY: dict[str, Any] = {"interval": "monthly"}
WEEKLY: dict[str, Any] = {"interval": "weekly"}
YEARLY: dict[str, Any] = {"interval": "yearly", "bill_charges_monthly": True, "bill_fixed_charges_monthly": True}
USED = (("2024-01-12", 3), ("2024-02-10", 5), ("2024-02-20", 2), ("2024-03-05", 4), ("2024-03-19", 1))


def sell(box: Scenario, *, tz: str = "UTC", seats: bool = True, **plan: Any) -> None:
    """A plan of 31.00 with usage and fixed charges, in arrears and in advance, and recurring seats."""
    box.customer(timezone=tz)
    box.tax()
    gb = box.metric("gb")
    charges = [charge_on(gb, amount="2"), charge_on(gb, amount="1", pay_in_advance=True)]
    if seats:
        charges.append(charge_on(box.metric("seats", "unique_count_agg", recurring=True), amount="3"))
    fixed = [
        fixed_charge_on(box.add_on("support"), amount="5", units=2, pay_in_advance=True),
        fixed_charge_on(box.add_on("storage"), amount="7", units=1, prorated=True),
    ]
    box.plan(*charges, **{"fixed_charges": fixed, "amount_cents": 3100, **plan})
    box.coupon(100, frequency="forever")


def use(box: Scenario, day: str, units: int) -> None:
    at = datetime.fromisoformat(f"{day}T00:00:00Z").timestamp()
    box.event("gb", at=at, value=units)
    box.event("seats", at=at, value=f"seat{units}")
    box.run_due()


def lines(box: Scenario) -> list[tuple[Any, ...]]:
    """Every line that was billed: what, for which time, how much."""
    return sorted(
        (fee["item"]["type"], fee["item"]["name"], fee["from_date"], fee["to_date"], fee["amount_cents"])
        for invoice in box.invoices()
        for fee in invoice["fees"]
    )


def totals(box: Scenario) -> int:
    return sum(invoice["total_amount_cents"] for invoice in box.invoices())


def on_time(created: str, billing_time: str, **terms: Any) -> tuple[list[tuple[Any, ...]], int]:
    """The lines and totals of a subscription that is created on the day of its start, and lives as events come."""
    with Scenario(now=START) as box:
        sell(box, **terms)
        box.subscribe(billing_time=billing_time)
        for day, units in USED:
            if day < created:
                box.travel_to(f"{day}T00:00:00Z")
                use(box, day, units)
        box.travel_to(END)
        assert box.billing.audit().findings == ()
        return lines(box), totals(box)


def belated(created: str, bill_from: str, billing_time: str, **terms: Any) -> tuple[list[tuple[Any, ...]], int]:
    """Those of one that is created later, and whose events are sent before."""
    with Scenario(now=created) as box:
        sell(box, **terms)
        for day, units in USED:
            if day < created:
                use(box, day, units)
        box.subscribe(billing_time=billing_time, subscription_at=START, bill_from=bill_from)
        box.travel_to(END)
        assert box.billing.audit().findings == ()
        return lines(box), totals(box)


ON_A_BILLING_DAY = "2024-03-10T00:05:00Z"
FAST = ((CREATED, "calendar", 45), (ON_A_BILLING_DAY, "anniversary", 45))
LIVES = [
    pytest.param(
        created,
        billing_time,
        {"pay_in_advance": advance, "trial_period": trial, **interval},
        id="-".join([created[5:10], billing_time, str(advance), str(trial), str(interval["interval"])]),
        marks=() if (created, billing_time, trial) in FAST and interval != WEEKLY else pytest.mark.slow,
    )
    for created, billing_time, advance, trial, interval in product(
        (CREATED, "2024-03-01T00:05:00Z", ON_A_BILLING_DAY, "2024-01-20T12:00:00Z"),
        ("calendar", "anniversary"),
        (True, False),
        (None, 45),
        (MONTHLY, WEEKLY, YEARLY),
    )
]


@pytest.mark.parametrize(("created", "billing_time", "plan"), LIVES)
def test_from_its_start_on_it_is_billed_as_if_it_had_been_created_then(
    created: str, billing_time: str, plan: dict[str, Any]
) -> None:
    assert belated(created, "start", billing_time, **plan) == on_time(created, billing_time, **plan)


@pytest.mark.parametrize("tz", ["UTC", "America/Los_Angeles"])
@pytest.mark.parametrize(("created", "billing_time", "plan"), LIVES)
def test_from_its_current_period_on_it_is_billed_as_if_it_had_been_created_then_and_nothing_before(
    created: str, billing_time: str, plan: dict[str, Any], tz: str
) -> None:
    terms = {**plan, "tz": tz, "seats": False}
    on_the_day, _ = on_time(created, billing_time, **terms)
    late, _ = belated(created, "current_period", billing_time, **terms)
    assert late == [line for line in on_the_day if line[3][:19] >= created[:19]]
    assert late


@pytest.fixture
def box(box: Scenario) -> Scenario:
    """A plan of 31.00 in advance, and two units of support at 5.00 in advance."""
    box.customer()
    box.customer("euro")
    support = fixed_charge_on(box.add_on("support"), amount="5", units=2, pay_in_advance=True)
    gb = charge_on(box.metric("gb"), amount="2")
    box.plan(gb, fixed_charges=[support], amount_cents=3100, pay_in_advance=True)
    return box


def subscribe(box: Scenario, **fields: Any) -> Any:
    body = {"external_customer_id": "acme", "external_id": "sub", "plan_code": "basic", "subscription_at": START}
    return box.send("POST", "/subscriptions", {"subscription": {**body, **fields}})


def billed(box: Scenario) -> list[tuple[str, int]]:
    return [(invoice["issuing_date"], invoice["fees_amount_cents"]) for invoice in box.invoices()]


@pytest.mark.now(CREATED)
@pytest.mark.parametrize(
    ("bill_from", "at_once", "on_1_april"),
    [
        # The runs bill the usage of March, and April in advance: 4 x 2.00 + 31.00 + 10.00.
        (None, [], 4900),
        ("now", [], 4900),
        ("current_period", [("2024-03-20", 4100)], 4900),
        # From 10 January on, 22 days of 31; February with the usage of January, 3 x 2.00; March with 5 x 2.00.
        ("start", [("2024-03-20", 3200), ("2024-03-20", 4700), ("2024-03-20", 5100)], 4900),
    ],
)
def test_what_each_wish_bills_of_a_calendar_plan_in_advance(
    box: Scenario, bill_from: str | None, at_once: list[tuple[str, int]], on_1_april: int
) -> None:
    for day, units in (("2024-01-12", 3), ("2024-02-10", 5), ("2024-03-05", 4)):
        box.event("gb", at=datetime.fromisoformat(f"{day}T00:00:00Z").timestamp(), value=units)
    preview = box.send(
        "POST",
        "/invoices/preview",
        {"customer": {"external_id": "acme"}, "plan_code": "basic", "subscription_at": START, "bill_from": bill_from},
    )
    shown = accepted(subscribe(box, bill_from=bill_from), "subscription")
    assert shown["bill_from"] == (bill_from or "now")
    assert billed(box) == at_once
    box.travel_to("2024-04-01T01:00:00Z")
    assert billed(box) == [*at_once, ("2024-04-01", on_1_april)]
    # What is not billed is listed.
    unbilled = {f"{item.event.timestamp:%m}" for item in box.billing.events.unbilled().items}
    assert unbilled == (set() if bill_from == "start" else {"01", "02"})
    assert box.billing.audit().findings == ()
    # A preview shows the last of the invoices that are made at once, or else the next.
    previewed = accepted(preview, "invoice")
    dated = (previewed["issuing_date"], previewed["fees_amount_cents"])
    # It does not know the external id, and so no usage.
    usage = {"start": 1000}.get(str(bill_from), 0 if at_once else 800)
    expected = at_once[-1] if at_once else ("2024-04-01", on_1_april)
    assert dated == (expected[0], expected[1] - usage)


@pytest.mark.now(CREATED)
def test_drafts_are_made_during_a_grace_period_and_dated_from_today(box: Scenario) -> None:
    box.customer(billing_configuration={"invoice_grace_period": 3})
    accepted(subscribe(box, bill_from="start"), "subscription")
    assert {invoice["status"] for invoice in box.invoices()} == {"draft"}
    box.travel_to("2024-03-23T01:00:00Z")
    assert [(invoice["status"], invoice["issuing_date"]) for invoice in box.invoices()] == [
        ("finalized", "2024-03-23")
    ] * 3


@pytest.mark.now("2024-01-05T00:00:00Z")
def test_a_start_that_is_moved_into_the_past_is_billed_as_was_wished(box: Scenario) -> None:
    accepted(subscribe(box, subscription_at="2024-06-01T00:00:00Z", bill_from="start"), "subscription")
    box.travel_to(CREATED)
    moved = box.put("/subscriptions/sub", subscription={"subscription_at": START})["subscription"]
    assert (moved["status"], moved["started_at"], moved["bill_from"]) == ("active", "2024-01-10T08:00:00.000Z", "start")
    assert [cents for _, cents in billed(box)] == [3200, 4100, 4100]


@pytest.mark.now(CREATED)
def test_a_plan_change_keeps_the_wish_and_cannot_change_it(box: Scenario) -> None:
    box.plan(code="plus", amount_cents=6200, pay_in_advance=True)
    accepted(subscribe(box, bill_from="current_period"), "subscription")
    assert refused(subscribe(box, bill_from="start")) == {"bill_from": ["value_is_not_editable"]}
    assert refused(subscribe(box, bill_from="start", plan_code="plus")) == {"bill_from": ["value_is_not_editable"]}
    assert accepted(subscribe(box, bill_from="current_period"), "subscription")["plan_code"] == "basic"
    changed = accepted(subscribe(box, plan_code="plus"), "subscription")
    assert (changed["plan_code"], changed["bill_from"]) == ("plus", "current_period")
    # 62.00 x 12/31 from 20 March on.
    assert [cents for _, cents in billed(box)] == [4100, 2400]


@pytest.mark.now(CREATED)
def test_wishes_that_cannot_be_met_are_refused_and_change_nothing(box: Scenario) -> None:
    assert refused(subscribe(box, bill_from="yesterday")) == {"bill_from": ["value_is_invalid"]}
    long_ago = subscribe(box, bill_from="start", subscription_at="2010-01-01T00:00:00Z")
    assert refused(long_ago) == {"subscription_at": ["value_is_out_of_range"]}
    assert "more than 120 billing days" in long_ago[1]["messages"]["subscription_at"][0]
    assert box.get("/subscriptions")["subscriptions"] == box.invoices() == []


@pytest.mark.now(CREATED)
def test_more_events_in_advance_than_one_request_bills_are_refused(box: Scenario) -> None:
    box.plan(charge_on(box.metric("sms", "count_agg"), amount="1", pay_in_advance=True), code="sms", amount_cents=0)
    at = datetime.fromisoformat("2024-03-05T00:00:00Z").timestamp()
    for _ in range(11):
        box.events("sms", *({"at": at} for _ in range(91)))
    answer = subscribe(box, plan_code="sms", bill_from="start")
    assert refused(answer) == {"bill_from": ["too_many_events"]}
    assert "send them once it is created" in answer[1]["messages"]["bill_from"][0]


@pytest.mark.now(CREATED)
def test_a_trial_that_is_over_is_passed_and_one_that_runs_ends_later(box: Scenario) -> None:
    box.plan(code="tried", amount_cents=3100, pay_in_advance=True, trial_period=30)
    accepted(subscribe(box, plan_code="tried", bill_from="current_period"), "subscription")
    # It ended on 9 February: all of March is billed.
    assert billed(box) == [("2024-03-20", 3100)]
    assert box.get("/subscriptions/sub")["subscription"]["trial_ended_at"] == "2024-02-09T08:00:00Z"
    running = {"plan_code": "tried", "external_id": "running", "subscription_at": "2024-03-01T08:00:00Z"}
    accepted(subscribe(box, **running, bill_from="current_period"), "subscription")
    assert billed(box) == [("2024-03-20", 3100)]
    box.travel_to("2024-03-31T23:00:00Z")
    # It ends on 31 March at 08:00: one day of 31.
    assert billed(box) == [("2024-03-20", 3100), ("2024-03-31", 100)]


@pytest.mark.parametrize(
    ("bill_from", "billed", "listed"),
    [
        ("now", [], ["t4", "t3", "t2", "t1"]),
        ("current_period", [400], ["t3", "t2", "t1"]),
        ("start", [300, 500, 400], ["t1"]),
    ],
)
def test_an_event_in_advance_from_before_the_creation_is_billed_or_on_the_list_and_never_both(
    bill_from: str, billed: list[int], listed: list[str]
) -> None:
    with Scenario("2024-01-01T00:00:00Z") as box:
        box.customer()
        box.plan(charge_on(box.metric("gb"), amount="1", pay_in_advance=True))
        for day, units in (("01-09", 1), ("01-12", 3), ("02-20", 5), ("03-05", 4)):
            box.travel_to(f"2024-{day}T12:00:00Z")
            box.event("gb", value=units)
        box.travel_to(CREATED)
        box.subscribe(subscription_at=START, bill_from=bill_from)
        box.run_due()
        fees = [fee["amount_cents"] for invoice in box.invoices() for fee in invoice["fees"] if fee["amount_cents"]]
        assert fees == billed
        assert [event["transaction_id"] for event in box.get("/events?unbilled=true")["events"]] == listed
