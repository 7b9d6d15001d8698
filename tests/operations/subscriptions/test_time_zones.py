"""A customer who moves to another time zone: what was billed stays billed, and what was not is billed once."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from tests.money import share
from tests.scenarios import Scenario, charge_on

from usagebill.core.invoices.records import BillingPeriod
from usagebill.storage.conditions import asc
from usagebill.views.formats import instant_text


def move(box: Scenario, zone: str) -> None:
    box.customer(timezone=zone)


def usage_windows(box: Scenario) -> list[tuple[str, str]]:
    """What was billed of usage, one window an invoice, in order; parts of plans that an invoice leaves out are not."""
    periods = box.billing.reading(lambda work: work.tx.find(BillingPeriod, order=[asc("timestamp"), asc("id")]))
    return [
        (instant_text(period.charges_from_datetime) or "", instant_text(period.charges_to_datetime) or "")
        for period in periods
        if period.charges_from_datetime is not None
    ]


def findings(box: Scenario) -> list[str]:
    return [str(finding) for finding in box.billing.audit().findings]


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo", "Pacific/Auckland", "Pacific/Pago_Pago"])
def test_the_week_a_run_has_billed_is_not_billed_again_after_a_move(zone: str) -> None:
    with Scenario(now="2023-12-28T00:00:00Z") as box:
        box.plan(amount_cents=10_000, interval="weekly")
        box.subscribe(billing_time="anniversary")
        box.travel_to("2024-01-04T00:10:00Z")
        move(box, zone)
        box.travel_to("2024-01-05T12:00:00Z")
        box.unsubscribe()
        assert usage_windows(box) == [
            ("2023-12-28T00:00:00Z", "2024-01-03T23:59:59Z"),
            ("2024-01-04T00:00:00Z", "2024-01-05T12:00:00Z"),
        ]
        assert findings(box) == []


def test_an_end_right_after_a_move_over_a_billing_day_bills_that_day_too() -> None:
    with Scenario(now="2023-12-28T00:00:00Z") as box:
        box.plan(amount_cents=10_000, interval="weekly")
        box.subscribe(billing_time="anniversary")
        # In Los Angeles the week has been over for sixteen hours, and no run has billed it.
        box.travel_to("2024-01-04T00:00:00Z")
        move(box, "America/Los_Angeles")
        box.travel_to("2024-01-04T00:05:00Z")
        box.unsubscribe()
        assert usage_windows(box) == [
            ("2023-12-28T00:00:00Z", "2024-01-03T07:59:59Z"),
            ("2024-01-03T08:00:00Z", "2024-01-04T00:05:00Z"),
        ]


def test_a_part_that_is_billed_half_yearly_resumes_where_it_stopped() -> None:
    with Scenario(now="2023-12-28T00:00:00Z") as box:
        box.plan(amount_cents=10_000, interval="semiannual", bill_fixed_charges_monthly=True)
        box.subscribe()
        box.travel_to("2024-02-01T00:20:00Z")
        move(box, "America/Los_Angeles")
        box.travel_to("2024-03-05T00:00:00Z")
        box.unsubscribe()
        assert usage_windows(box) == [
            ("2023-12-28T00:00:00Z", "2023-12-31T23:59:59Z"),
            ("2024-01-01T00:00:00Z", "2024-03-05T00:00:00Z"),
        ]
        assert findings(box) == []


def test_a_move_that_puts_a_billing_day_behind_the_start_loses_nothing() -> None:
    with Scenario(now="2024-01-01T00:30:00Z") as box:
        box.plan(amount_cents=10_000, interval="weekly")
        box.subscribe()
        # A Monday in UTC, a Sunday in Los Angeles, whose week ended before anybody looked.
        box.travel_to("2024-01-03T00:00:00Z")
        move(box, "America/Los_Angeles")
        box.travel_to("2024-01-08T09:00:00Z")
        assert usage_windows(box) == [("2024-01-01T00:30:00Z", "2024-01-08T07:59:59Z")]
        assert findings(box) == []


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo"])
def test_a_plan_after_a_downgrade_begins_where_the_old_one_stopped_wherever_the_customer_moves(zone: str) -> None:
    with Scenario(now="2023-12-28T00:00:00Z") as box:
        box.plan(code="large", interval="weekly", amount_cents=2000)
        box.plan(code="small", interval="weekly", amount_cents=1000)
        box.subscribe("large")
        box.subscribe("small")
        box.travel_to("2024-01-03T00:00:00Z")
        move(box, zone)
        box.unsubscribe()
        assert usage_windows(box) == [
            ("2023-12-28T00:00:00Z", "2023-12-31T23:59:59Z"),
            ("2024-01-01T00:00:00Z", "2024-01-03T00:00:00Z"),
        ]
        assert findings(box) == []


def test_a_trial_whose_last_day_a_run_has_billed_is_not_billed_again_when_its_end_is_noticed() -> None:
    with Scenario(now="2024-01-05T22:36:00Z") as box:
        box.customer(timezone="Europe/Berlin")
        box.plan(interval="weekly", pay_in_advance=True, amount_cents=700, trial_period=10)
        box.subscribe()
        # The trial ends on Monday the 15th at 23:36 in Berlin, and that is noticed on the 16th at 00:35.
        box.travel_to("2024-01-18T00:00:00Z")
        fees = [fee for invoice in box.invoices() for fee in invoice["fees"]]
        assert [fee["amount_cents"] for fee in fees] == [700]
        assert findings(box) == []


def test_a_plan_in_advance_pays_for_the_week_that_a_move_has_made_its_first() -> None:
    with Scenario(now="2024-03-31T23:44:00Z") as box:
        box.plan(interval="weekly", pay_in_advance=True, amount_cents=700)
        box.subscribe()
        # A Sunday in UTC, of which the fee was paid, is a Monday in Berlin.
        move(box, "Europe/Berlin")
        box.travel_to("2024-04-09T00:00:00Z")
        fees = [fee for invoice in box.invoices() for fee in invoice["fees"]]
        assert [fee["amount_cents"] for fee in fees] == [100, 700, 700]
        assert findings(box) == []


def test_a_plan_in_advance_does_not_pay_twice_for_a_week_that_a_move_restarts() -> None:
    with Scenario(now="2024-04-01T01:00:00Z") as box:
        box.plan(interval="weekly", pay_in_advance=True, amount_cents=700)
        box.subscribe()
        # A Monday in UTC, and still a Sunday in Los Angeles.
        move(box, "America/Los_Angeles")
        box.travel_to("2024-04-09T00:00:00Z")
        fees = [fee for invoice in box.invoices() for fee in invoice["fees"]]
        assert [fee["amount_cents"] for fee in fees] == [700, 700]
        assert usage_windows(box)[-1] == ("2024-04-01T01:00:00Z", "2024-04-08T06:59:59Z")
        assert findings(box) == []


def test_an_end_before_the_new_zone_has_reached_the_day_that_was_billed_bills_that_day_only() -> None:
    with Scenario(now="2023-11-20T00:00:00Z") as box:
        box.plan(amount_cents=3100)
        box.subscribe()
        box.travel_to("2024-01-01T00:10:00Z")
        move(box, "America/Los_Angeles")
        # There it is still December, which has been billed.
        box.travel_to("2024-01-01T03:00:00Z")
        box.unsubscribe()
        assert usage_windows(box)[-2:] == [
            ("2023-12-01T00:00:00Z", "2023-12-31T23:59:59Z"),
            ("2024-01-01T00:00:00Z", "2024-01-01T03:00:00Z"),
        ]
        assert [fee["amount_cents"] for fee in box.invoices()[-1]["fees"]] == [100]
        assert findings(box) == []


def test_an_end_before_the_new_zone_has_reached_the_day_that_was_paid_in_advance_gives_the_rest_back() -> None:
    with Scenario(now="2023-11-20T00:00:00Z") as box:
        box.plan(amount_cents=3100, pay_in_advance=True)
        box.subscribe()
        box.travel_to("2024-01-01T00:10:00Z")
        move(box, "America/Los_Angeles")
        box.travel_to("2024-01-01T03:00:00Z")
        box.unsubscribe()
        (note,) = box.get("/credit_notes?external_customer_id=acme")["credit_notes"]
        assert note["credit_amount_cents"] == share(3100, 30, 31)
        assert findings(box) == []


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo"])
def test_a_move_before_the_first_run_leaves_the_monthly_usage_of_a_yearly_plan_in_advance_billed(zone: str) -> None:
    with Scenario(now="2024-01-10T00:00:00Z") as box:
        box.plan(amount_cents=10_000, interval="yearly", pay_in_advance=True, bill_charges_monthly=True)
        box.subscribe()
        box.travel_to("2024-01-15T00:00:00Z")
        move(box, zone)
        box.travel_to("2024-04-02T00:00:00Z")
        assert len(usage_windows(box)) == 4
        assert [fee["item"]["type"] for invoice in box.invoices() for fee in invoice["fees"]] == ["subscription"]
        box.unsubscribe()
        assert findings(box) == []


def test_a_move_that_makes_the_day_before_the_first_leaves_out_none_of_what_is_billed_monthly() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.plan(amount_cents=10_000, interval="semiannual", pay_in_advance=True, bill_fixed_charges_monthly=True)
        box.subscribe()
        move(box, "America/Los_Angeles")
        box.travel_to("2024-02-10T00:00:00Z")
        box.unsubscribe()
        assert usage_windows(box)[-1] == ("2024-01-01T00:00:00Z", "2024-02-10T00:00:00Z")
        assert findings(box) == []


@pytest.mark.parametrize(("before", "after"), [("UTC", "America/Los_Angeles"), ("America/Los_Angeles", "Asia/Tokyo")])
def test_usage_that_a_run_has_billed_is_no_current_usage_after_a_move_and_passes_no_threshold(
    before: str, after: str
) -> None:
    with Scenario(now="2024-01-01T12:00:00Z") as box:
        box.customer(timezone=before)
        charge = charge_on(box.metric("gb"), amount="1")
        box.plan(charge, usage_thresholds=[{"amount_cents": 4000}])
        box.subscribe()
        # On the last evening of January in UTC, and its noon in Los Angeles.
        box.travel_to("2024-01-31T20:00:00Z")
        box.event("gb", value=10)
        box.travel_to("2024-02-01T09:00:00Z" if before != "UTC" else "2024-02-01T01:00:00Z")
        move(box, after)
        box.event("gb", value=45)
        assert box.usage()["amount_cents"] == 45 * 100
        box.travel_to("2024-03-03T00:00:00Z")
        assert [(invoice["invoice_type"], invoice["total_amount_cents"]) for invoice in box.invoices()] == [
            ("subscription", 10 * 100),
            ("progressive_billing", 45 * 100),
            ("subscription", 0),
        ]
        assert findings(box) == []


def test_an_end_right_after_a_move_that_makes_the_anchor_a_later_day_does_not_bill_the_closed_month_again() -> None:
    with Scenario(now="2024-01-05T12:00:00Z") as box:
        box.customer(timezone="UTC")
        charge = charge_on(box.metric("gb"), amount="1")
        box.plan(charge, amount_cents=2900)
        box.subscribe(billing_time="anniversary")
        box.travel_to("2024-01-10T00:00:00Z")
        box.event("gb", value=10)
        box.travel_to("2024-02-05T01:00:00Z")
        # There the subscription is of the sixth, and it is still the fifth.
        move(box, "Pacific/Auckland")
        box.travel_to("2024-02-05T02:00:00Z")
        assert box.usage()["amount_cents"] == 0
        box.unsubscribe()
        assert [[fee["amount_cents"] for fee in invoice["fees"]] for invoice in box.invoices()] == [
            [2900, 10 * 100],
            [share(2900, 1, 29)],
        ]
        assert findings(box) == []


LOS_ANGELES, TOKYO = "America/Los_Angeles", "Asia/Tokyo"
# Starts whose local date is the last of a month in Los Angeles, or in UTC, and the first of the next further east.
MONTH_ENDS = ["2023-03-01T04:00:00Z", "2024-03-01T04:00:00Z", "2024-02-29T20:00:00Z", "2024-05-01T04:00:00Z"]
MONTH_ENDS += ["2024-02-01T04:00:00Z"]


def begin(box: Scenario, zone: str, **plan: Any) -> None:
    box.customer(timezone=zone)
    box.plan(amount_cents=3100, **plan)
    box.plan(**plan, code="large", amount_cents=6200)
    box.subscribe(billing_time="anniversary")


def paid(box: Scenario) -> list[int]:
    return [invoice["total_amount_cents"] for invoice in box.invoices()]


def assert_tiled(box: Scenario) -> None:
    """Usage is billed without a gap and without an overlap, and the audit finds nothing."""
    periods = box.billing.reading(lambda work: work.tx.find(BillingPeriod, order=[asc("timestamp"), asc("id")]))
    billed = [
        (period.charges_from_datetime, period.charges_to_datetime)
        for period in periods
        if period.charges_from_datetime
        and period.charges_to_datetime
        and period.charges_from_datetime < period.charges_to_datetime
    ]
    assert all(end + timedelta(microseconds=1) == start for (_, end), (start, _) in pairwise(billed))
    assert findings(box) == []


def test_an_anniversary_that_a_move_puts_into_the_next_month_is_billed_once_a_month() -> None:
    with Scenario(now="2024-03-01T04:00:00Z") as box:
        begin(box, LOS_ANGELES)
        # The 29th in Los Angeles, the first in UTC.
        box.travel_to("2024-03-30T00:00:00Z")
        move(box, "UTC")
        box.travel_to("2024-06-02T00:00:00Z")
        assert usage_windows(box) == [
            ("2024-03-01T04:00:00Z", "2024-03-29T06:59:59Z"),
            ("2024-03-29T07:00:00Z", "2024-04-30T23:59:59Z"),
            ("2024-05-01T00:00:00Z", "2024-05-31T23:59:59Z"),
        ]
        assert paid(box) == [3100, 3100, 3100]
        assert findings(box) == []


def test_an_anniversary_that_a_move_puts_back_into_the_month_before_is_billed_once_a_month() -> None:
    with Scenario(now="2024-03-01T04:00:00Z") as box:
        begin(box, "UTC")
        box.travel_to("2024-04-02T00:00:00Z")
        move(box, LOS_ANGELES)
        box.travel_to("2024-05-30T00:00:00Z")
        assert usage_windows(box) == [
            ("2024-03-01T04:00:00Z", "2024-03-31T23:59:59Z"),
            ("2024-04-01T00:00:00Z", "2024-04-29T06:59:59Z"),
            ("2024-04-29T07:00:00Z", "2024-05-29T06:59:59Z"),
        ]
        assert paid(box) == [3100, 3100, 3100]
        assert findings(box) == []


def test_a_billing_day_that_a_move_puts_behind_is_billed_within_the_hour() -> None:
    with Scenario(now="2024-03-01T04:00:00Z") as box:
        begin(box, "UTC")
        # The month would end on 31 March; in Los Angeles it ended on the 28th.
        box.travel_to("2024-03-30T12:30:00Z")
        move(box, LOS_ANGELES)
        box.travel_to("2024-03-30T12:31:00Z")
        assert findings(box) == []
        box.travel_to("2024-04-30T00:00:00Z")
        assert [invoice["created_at"] for invoice in box.invoices()] == [
            "2024-03-30T13:10:00Z",
            "2024-04-29T07:10:00Z",
        ]
        assert usage_windows(box) == [
            ("2024-03-01T04:00:00Z", "2024-03-29T06:59:59Z"),
            ("2024-03-29T07:00:00Z", "2024-04-29T06:59:59Z"),
        ]
        assert findings(box) == []


@pytest.mark.parametrize("change", ["end", "upgrade"])
def test_what_a_move_has_put_behind_is_billed_before_an_end_or_an_upgrade(change: str) -> None:
    with Scenario(now="2024-03-01T04:00:00Z") as box:
        begin(box, "UTC")
        box.travel_to("2024-03-30T12:30:00Z")
        move(box, LOS_ANGELES)
        box.travel_to("2024-03-30T12:31:00Z")
        if change == "end":
            box.unsubscribe()
        else:
            box.subscribe("large")
        assert paid(box)[0] == 3100
        assert usage_windows(box)[:2] == [
            ("2024-03-01T04:00:00Z", "2024-03-29T06:59:59Z"),
            ("2024-03-29T07:00:00Z", "2024-03-30T12:31:00Z"),
        ]
        assert findings(box) == []


def test_a_downgrade_at_a_billing_day_that_a_move_has_put_behind_leaves_no_usage_out() -> None:
    with Scenario(now="2024-03-01T04:00:00Z") as box:
        begin(box, "UTC")
        box.plan(code="small", amount_cents=310)
        box.subscribe("small")
        box.travel_to("2024-03-30T12:30:00Z")
        move(box, LOS_ANGELES)
        box.travel_to("2024-04-30T00:00:00Z")
        assert usage_windows(box) == [
            ("2024-03-01T04:00:00Z", "2024-03-29T06:59:59Z"),
            ("2024-03-29T07:00:00Z", "2024-04-29T06:59:59Z"),
        ]
        assert paid(box) == [3100, 310]
        assert findings(box) == []


def test_a_short_first_period_is_billed_as_before() -> None:
    with Scenario(now="2024-03-29T12:00:00Z") as box:
        begin(box, "UTC")
        box.delete("/subscriptions/sub")
        box.subscribe(external_id="calendar", billing_time="calendar")
        box.travel_to("2024-04-02T12:00:00Z")
        move(box, TOKYO)
        box.travel_to("2024-05-02T00:00:00Z")
        assert usage_windows(box)[-2:] == [
            ("2024-03-29T12:00:00Z", "2024-03-31T23:59:59Z"),
            ("2024-04-01T00:00:00Z", "2024-04-30T14:59:59Z"),
        ]
        assert paid(box)[-2:] == [300, 3100]


def test_an_end_after_a_move_back_into_the_month_before_bills_no_day_of_a_closed_month_again() -> None:
    with Scenario(now="2024-03-01T04:00:00Z") as box:
        begin(box, "UTC")
        box.travel_to("2024-04-01T12:00:00Z")
        move(box, LOS_ANGELES)
        box.travel_to("2024-04-02T05:00:00Z")
        box.unsubscribe()
        # March is paid; of the month since 29 March in Los Angeles, 31 March and 1 April have begun after that.
        assert paid(box) == [3100, 200]
        assert findings(box) == []


WAYS = [(LOS_ANGELES, "UTC"), ("UTC", LOS_ANGELES), (TOKYO, LOS_ANGELES), (LOS_ANGELES, TOKYO, LOS_ANGELES)]
INTERVALS = {"monthly": 1, "quarterly": 3, "semiannual": 6, "yearly": 12}


def assert_billed_once(start: str, interval: str, in_advance: bool, zones: tuple[str, ...], days: int) -> None:
    monthly = {"bill_charges_monthly": True} if INTERVALS[interval] >= 6 else {}
    begun = datetime.fromisoformat(start)
    with Scenario(now=start) as box:
        begin(box, zones[0], interval=interval, pay_in_advance=in_advance, **monthly)
        box.travel_to(begun + timedelta(days=days))
        for zone in zones[1:]:
            move(box, zone)
            box.travel_to(box.now + timedelta(days=2))
        box.travel_to(begun + timedelta(days=380))
        # Twelve months are over; the thirteenth is billed where it is paid in advance.
        assert sum(paid(box)) == 3100 * (12 // INTERVALS[interval] + in_advance)
        assert_tiled(box)
        box.subscribe("large")
        box.travel_to(box.now + timedelta(days=40))
        box.unsubscribe()
        assert findings(box) == []


@pytest.mark.slow
@pytest.mark.parametrize("start", MONTH_ENDS)
@pytest.mark.parametrize("zones", WAYS[:2])
@pytest.mark.parametrize("days", [10, 30])
def test_moves_at_a_months_end_bill_each_month_once(start: str, zones: tuple[str, ...], days: int) -> None:
    assert_billed_once(start, "monthly", False, zones, days)


@pytest.mark.slow
@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("in_advance", [False, True])
@pytest.mark.parametrize("zones", WAYS)
def test_moves_at_a_months_end_bill_each_period_once(interval: str, in_advance: bool, zones: tuple[str, ...]) -> None:
    assert_billed_once("2024-03-01T04:00:00Z", interval, in_advance, zones, 30)
