"""A customer who moves to another time zone pays for each day once, whatever is prorated by days."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.scenarios import Scenario, charge_on, fixed_charge_on

# A unit costs 29.00 a month, which is 1.00 for a day of February 2024.
PRICE = 2900

MOVES = pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Asia/Tokyo", "America/Los_Angeles"),
        ("America/Los_Angeles", "Asia/Tokyo"),
        ("Pacific/Tongatapu", "Pacific/Honolulu"),
        ("Pacific/Honolulu", "Pacific/Tongatapu"),
    ],
)
# Before January has closed anywhere, between the runs of the two time zones, and inside February.
INSTANTS = pytest.mark.parametrize("moved_at", ["2024-01-31T09:30:00Z", "2024-02-01T05:00:00Z", "2024-02-12T00:00:00Z"])


def plan_fee(box: Scenario, *, in_advance: bool) -> None:
    box.plan(amount_cents=PRICE, pay_in_advance=in_advance)


def seats(box: Scenario, *, in_advance: bool) -> None:
    metric = box.metric("seats", "unique_count_agg", recurring=True)
    box.plan(charge_on(metric, amount="29", prorated=True), pay_in_advance=in_advance)


def stock(box: Scenario, *, in_advance: bool) -> None:
    box.plan(charge_on(box.metric("seats", recurring=True), amount="29", prorated=True), pay_in_advance=in_advance)


def fixed_charge(box: Scenario, *, in_advance: bool) -> None:
    charge = fixed_charge_on(box.add_on(), amount="29", units="1", prorated=True, pay_in_advance=in_advance)
    box.plan(fixed_charges=[charge])


def charge_minimum(box: Scenario, *, in_advance: bool) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1", min_amount_cents=PRICE), pay_in_advance=in_advance)


def commitment(box: Scenario, *, in_advance: bool) -> None:
    """The fee of the plan and a seat count toward it."""
    charge = charge_on(box.metric("seats", recurring=True), amount="10", prorated=True)
    box.plan(charge, amount_cents=100, minimum_commitment={"amount_cents": PRICE}, pay_in_advance=in_advance)


def begin(box: Scenario, kind: Callable[..., None], zone: str, *, in_advance: bool) -> None:
    box.customer(timezone=zone)
    kind(box, in_advance=in_advance)
    # 1 January wherever the customer is.
    box.subscribe(subscription_at="2024-01-01T10:30:00Z")
    if kind in (seats, stock, commitment):
        box.event("seats", value=1)


@MOVES
@INSTANTS
@pytest.mark.parametrize("in_advance", [False, True], ids=["in arrears", "in advance"])
@pytest.mark.parametrize("kind", [plan_fee, seats, stock, fixed_charge, charge_minimum, commitment])
def test_each_month_is_paid_once(
    kind: Callable[..., None], before: str, after: str, moved_at: str, in_advance: bool
) -> None:
    with Scenario(now="2024-01-01T10:30:00Z") as box:
        begin(box, kind, before, in_advance=in_advance)
        box.travel_to(moved_at)
        box.customer(timezone=after)
        box.travel_to("2024-05-02T20:00:00Z")
        paid_ahead = {plan_fee: PRICE, fixed_charge: PRICE, commitment: 100}.get(kind, 0) if in_advance else 0
        assert sum(one["total_amount_cents"] for one in box.invoices()) == 4 * PRICE + paid_ahead
        assert box.billing.audit().findings == ()


@MOVES
@pytest.mark.parametrize("kind", [plan_fee, seats, stock, fixed_charge, charge_minimum, commitment])
def test_each_day_until_the_end_is_paid_once(kind: Callable[..., None], before: str, after: str) -> None:
    with Scenario(now="2024-01-01T10:30:00Z") as box:
        begin(box, kind, before, in_advance=False)
        box.travel_to("2024-02-12T00:00:00Z")
        box.customer(timezone=after)
        box.travel_to("2024-02-20T10:30:00Z")
        box.unsubscribe()
        assert sum(one["total_amount_cents"] for one in box.invoices()) == PRICE + 20 * 100
        assert box.billing.audit().findings == ()


@pytest.mark.parametrize("aggregation", ["unique_count_agg", "sum_agg"])
def test_what_begins_in_the_hours_between_two_midnights_counts_from_the_first_day(aggregation: str) -> None:
    """1 February began at 15:00Z in Tokyo: the hours until it begins in Los Angeles are no day of their own."""
    with Scenario(now="2024-01-01T10:30:00Z") as box:
        box.customer(timezone="Asia/Tokyo")
        metric = box.metric("seats", aggregation, recurring=True)
        box.plan(charge_on(metric, amount="29", prorated=True))
        box.subscribe()
        box.travel_to("2024-01-31T20:00:00Z")
        box.event("seats", value=1)
        if aggregation == "unique_count_agg":
            # Another seat, for the first day alone: its removal and return that day are no second day.
            box.event("seats", value=2)
            box.travel_to("2024-01-31T21:00:00Z")
            box.event("seats", value=2, operation_type="remove")
            box.travel_to("2024-02-01T12:00:00Z")
            box.event("seats", value=2)
            box.event("seats", value=2, operation_type="remove")
        box.travel_to("2024-02-12T00:00:00Z")
        box.customer(timezone="America/Los_Angeles")
        box.travel_to("2024-02-28T00:00:00Z")
        another = 100 if aggregation == "unique_count_agg" else 0
        assert box.usage()["amount_cents"] == PRICE + another
        box.travel_to("2024-03-02T00:00:00Z")
        assert sum(one["total_amount_cents"] for one in box.invoices()) == PRICE + another
        assert box.billing.audit().findings == ()


@MOVES
def test_usage_is_projected_by_the_days_of_the_period(before: str, after: str) -> None:
    """One unit a day until the 20th is 29 in February 2024, also if the clock of the first hours says 31 January."""
    with Scenario(now="2024-01-01T10:30:00Z") as box:
        box.customer(timezone=before)
        box.plan(charge_on(box.metric("gb"), amount="1"))
        box.subscribe()
        box.travel_to("2024-02-10T12:00:00Z")
        box.event("gb", value=20)
        box.customer(timezone=after)
        # It is the 20th in each of these zones.
        box.travel_to("2024-02-20T10:30:00Z")
        usage = box.get("/customers/acme/projected_usage?external_subscription_id=sub")["customer_projected_usage"]
        (charge,) = usage["charges_usage"]
        assert (charge["projected_units"], charge["projected_amount_cents"]) == ("29.0", PRICE)


@MOVES
@INSTANTS
@pytest.mark.parametrize("kind", [seats, stock, charge_minimum])
def test_each_month_of_usage_is_shown_as_it_was_billed(
    kind: Callable[..., None], before: str, after: str, moved_at: str
) -> None:
    """By the days of the time zone that billed it."""
    with Scenario(now="2024-01-01T10:30:00Z") as box:
        begin(box, kind, before, in_advance=False)
        box.travel_to("2024-01-05T10:30:00Z")
        if kind is charge_minimum:
            box.event("gb", value=29)
        box.travel_to(moved_at)
        box.customer(timezone=after)
        box.travel_to("2024-04-02T20:00:00Z")
        asked = "time_granularity=monthly&from_date=2024-01-01&to_date=2024-03-31"
        rows = box.get(f"/analytics/usage?{asked}")["usages"]
        shown = {row["start_of_period_dt"]: row["amount_cents"] for row in rows if row["amount_cents"]}
        # A minimum is no usage.
        months = ["2024-01-01"] if kind is charge_minimum else ["2024-01-01", "2024-02-01", "2024-03-01"]
        assert shown == dict.fromkeys(months, PRICE)


@pytest.mark.parametrize("moved_at", ["2024-04-12T00:00:00Z", "2024-04-30T20:00:00Z"])
@pytest.mark.parametrize("in_advance", [False, True], ids=["in arrears", "in advance"])
@pytest.mark.parametrize("kind", [plan_fee, seats, stock, fixed_charge, charge_minimum, commitment])
@pytest.mark.parametrize(
    ("before", "after"), [("America/Los_Angeles", "Asia/Tokyo"), ("Asia/Tokyo", "America/Los_Angeles")]
)
def test_an_anniversary_that_is_in_another_month_after_a_move_makes_no_day_more(
    kind: Callable[..., None], before: str, after: str, in_advance: bool, moved_at: str
) -> None:
    """The 31st, or the last of a month, in Los Angeles, and the 1st in Tokyo: six periods until August."""
    with Scenario(now="2024-01-31T20:00:00Z") as box:
        box.customer(timezone=before)
        kind(box, in_advance=in_advance)
        box.subscribe(billing_time="anniversary")
        if kind in (seats, stock, commitment):
            box.event("seats", value=1)
        box.travel_to(moved_at)
        box.customer(timezone=after)
        box.travel_to("2024-08-20T20:00:00Z")
        paid_ahead = {plan_fee: PRICE, fixed_charge: PRICE, commitment: 100}.get(kind, 0) if in_advance else 0
        assert sum(one["total_amount_cents"] for one in box.invoices()) == 6 * PRICE + paid_ahead
        assert box.billing.audit().findings == ()
