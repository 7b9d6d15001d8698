"""Borders in time: every day, seat and event at the border of two plans or periods is billed once."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

import pytest
from tests.money import share
from tests.scenarios import Scenario, charge_on, fixed_charge_on, price_ranges

from usagebill.core.errors import Invalid

DAILY = "31"  # a price for each day of October
LADDER = price_ranges((0, 10, "2", "3"), (11, None, "1", "0"))


def billed(box: Scenario, code: str, kind: str = "charge") -> list[int]:
    """The cents of an item on each invoice that has it, oldest first."""
    amounts = [
        [fee["amount_cents"] for fee in invoice["fees"] if (fee["item"]["type"], fee["item"]["code"]) == (kind, code)]
        for invoice in box.invoices()
    ]
    return [sum(fees) for fees in amounts if fees]


@pytest.mark.parametrize("hour", ["00:00:00", "12:00:00", "23:59:59"])
@pytest.mark.parametrize(
    ("metric", "added"), [({"aggregation_type": "unique_count_agg"}, "a"), ({"aggregation_type": "sum_agg"}, 1)]
)
def test_the_day_of_an_upgrade_is_paid_once_by_each_prorated_unit(
    metric: dict[str, Any], added: object, hour: str
) -> None:
    with Scenario("2024-10-01T00:00:00Z") as box:
        seats = box.metric("seats", recurring=True, **metric)
        box.customer()
        for code in ("basic", "larger"):
            box.plan(charge_on(seats, amount=DAILY, prorated=True), code=code, amount_cents=3100)
        box.subscribe()
        box.event("seats", value=added)
        box.travel_to(f"2024-10-16T{hour}Z")
        box.subscribe("larger")
        box.travel_to("2024-11-01T01:00:00Z")
        # 1 to 15 October on the old plan, 16 to 31 October on the new one, as of the plans themselves.
        assert billed(box, "seats") == [1500, 1600]
        assert [billed(box, code, "subscription") for code in ("basic", "larger")] == [[1500], [1600]]
        assert not list(box.billing.audit().findings)


@pytest.mark.parametrize(
    ("events", "old", "new"),
    [
        # Removed on the day of the upgrade, before it: the day is the new plan's.
        ([("01T08", "add"), ("16T10", "remove")], 1500, 100),
        # Removed the day before: the old plan's alone.
        ([("01T08", "add"), ("15T10", "remove")], 1500, 0),
        # Added and removed on the day of the upgrade, before it or around it.
        ([("16T09", "add"), ("16T10", "remove")], 0, 100),
        ([("16T09", "add"), ("16T13", "remove")], 0, 100),
        # Added on the day of the upgrade.
        ([("16T09", "add")], 0, 1600),
        # Removed before the upgrade and added again after it, on its day: never gone.
        ([("01T08", "add"), ("16T10", "remove"), ("16T13", "add")], 1500, 1600),
    ],
)
def test_a_seat_that_comes_or_goes_on_the_day_of_an_upgrade(events: list[tuple[str, str]], old: int, new: int) -> None:
    with Scenario("2024-10-01T00:00:00Z") as box:
        seats = box.metric("seats", "unique_count_agg", recurring=True)
        box.customer()
        for code in ("basic", "larger"):
            box.plan(charge_on(seats, amount=DAILY, prorated=True), code=code)
        box.subscribe()
        for at, change in sorted([*events, ("16T12", "upgrade")]):
            box.travel_to(f"2024-10-{at}:00:00Z")
            if change == "upgrade":
                box.subscribe("larger")
            else:
                box.event("seats", value="a", operation_type=change)
        box.travel_to("2024-11-01T01:00:00Z")
        paid = [invoice["fees_amount_cents"] for invoice in box.invoices()]
        assert paid == [old, new]


def test_the_day_of_an_upgrade_is_paid_once_by_fixed_charges_minimums_and_commitments() -> None:
    with Scenario("2024-10-01T00:00:00Z") as box:
        calls, seat = box.metric("calls"), box.add_on("seat")
        box.customer()
        for code in ("basic", "larger"):
            box.plan(
                charge_on(calls, amount="1", min_amount_cents=6200),
                code=code,
                fixed_charges=[fixed_charge_on(seat, amount=DAILY, units=1, prorated=True)],
                minimum_commitment={"amount_cents": 31000},
            )
        box.subscribe()
        box.travel_to("2024-10-16T12:00:00Z")
        box.subscribe("larger")
        box.travel_to("2024-11-01T01:00:00Z")
        # 15 and 16 days of 31: a fixed charge of 31.00, a minimum of 62.00, and 310.00 in all.
        assert billed(box, "seat", "fixed_charge") == [1500, 1600]
        assert billed(box, "calls") == [3000, 3200]
        assert [invoice["total_amount_cents"] for invoice in box.invoices()] == [15000, 16000]


@pytest.mark.parametrize("start", ["00", "06", "18", "23"])
@pytest.mark.parametrize("end", ["00", "12", "23"])
def test_the_days_of_a_minimum_do_not_depend_on_the_hour(start: str, end: str) -> None:
    with Scenario(f"2024-11-01T{start}:00:00Z") as box:
        calls = box.metric("calls")
        box.customer()
        box.plan(charge_on(calls, amount="1", min_amount_cents=30000))
        box.subscribe()
        box.travel_to(f"2024-11-10T{end}:00:00Z")
        box.unsubscribe()
        (invoice,) = box.invoices()
        assert invoice["total_amount_cents"] == share(30000, 10, 30)


@pytest.mark.parametrize("second", ["23:59:59", "23:59:59.999999"])
def test_an_upgrade_in_the_last_second_of_a_period_opens_that_period_and_not_the_next(second: str) -> None:
    with Scenario("2024-11-01T00:00:00Z") as box:
        seat = box.add_on("seat")
        box.customer()
        box.plan(amount_cents=1000)
        fixed = fixed_charge_on(seat, amount="30", units=1, prorated=True, pay_in_advance=True)
        box.plan(code="larger", amount_cents=9900, pay_in_advance=True, fixed_charges=[fixed])
        box.subscribe()
        box.travel_to(f"2024-11-30T{second}Z")
        box.subscribe("larger")
        box.travel_to("2024-12-02T00:00:00Z")
        # 29 days of November on the old plan, one day of it on the new one, and December, once: 111.97 in plan fees.
        assert billed(box, "basic", "subscription") == [share(1000, 29, 30)]
        assert billed(box, "larger", "subscription") == [share(9900, 1, 30), 9900]
        # 30.00 a month: November was not paid before, so its last day costs 1.00.
        assert billed(box, "seat", "fixed_charge") == [100, 3000]
        assert not list(box.billing.audit().findings)


def test_a_start_in_the_last_instant_of_a_period_is_billed_for_it() -> None:
    with Scenario("2024-10-31T23:59:59.999999Z") as box:
        calls, seat = box.metric("calls"), box.add_on("seat")
        box.customer()
        fixed = fixed_charge_on(seat, amount=DAILY, units=1, prorated=True)
        box.plan(charge_on(calls, amount="1"), amount_cents=3100, fixed_charges=[fixed])
        box.subscribe()
        # The whole second belongs to the subscription.
        box.events("calls", {"value": 5, "at": datetime.fromisoformat("2024-10-31T23:59:59Z").timestamp()})
        box.travel_to("2024-12-02T00:00:00Z")
        assert billed(box, "basic", "subscription") == [100, 3100]
        assert billed(box, "seat", "fixed_charge") == [100, 3100]
        assert billed(box, "calls") == [500]
        assert not list(box.billing.audit().findings)


def test_a_draft_keeps_its_days_when_an_upgrade_follows_before_the_run() -> None:
    with Scenario("2024-10-08T00:00:00Z") as box:
        box.customer(billing_configuration={"invoice_grace_period": 3})
        for code, amount in (("basic", 1000), ("larger", 9900)):
            box.plan(code=code, amount_cents=amount)
        box.subscribe()
        box.travel_to("2024-11-01T00:05:00Z")
        # The invoice of the upgrade bills October, and nothing of November.
        box.subscribe("larger")
        october = share(1000, 24, 31)  # 8 to 31 October: 7.74
        assert billed(box, "basic", "subscription") == [october]
        box.travel_to("2024-11-05T00:00:00Z")
        assert billed(box, "basic", "subscription") == [october]


@pytest.mark.parametrize("percent", [0, 50])
def test_the_end_of_a_trial_leaves_what_thresholds_have_billed(percent: int) -> None:
    with Scenario("2024-10-01T00:00:00Z") as box:
        calls = box.metric("calls")
        box.customer()
        box.plan(
            charge_on(calls, amount="1"),
            amount_cents=3100,
            pay_in_advance=True,
            trial_period=20,
            usage_thresholds=[{"amount_cents": 1000}],
        )
        box.subscribe()
        box.event("calls", value=20)
        if percent:
            box.coupon(0, coupon_type="percentage", percentage_rate=str(percent), frequency="once")
        box.travel_to("2024-11-02T00:00:00Z")
        assert [invoice["invoice_type"] for invoice in box.invoices()] == [
            "progressive_billing",
            "subscription",
            "subscription",
        ]
        # 20.00 of usage, 11 of 31 days after the trial (less the coupon), November: the usage is not billed again.
        totals = [invoice["total_amount_cents"] for invoice in box.invoices()]
        assert totals == [2000, 1100 - 11 * percent, 3100]
        assert box.get("/credit_notes")["credit_notes"] == []
        assert not list(box.billing.audit().findings)


def test_the_end_of_a_trial_leaves_what_a_coupon_gave_at_a_threshold() -> None:
    """20.00 less 50 % once, 11 of 31 days after the trial, then 31.00 for November and the 15.00 used since."""
    with Scenario("2024-10-01T00:00:00Z") as box:
        calls = charge_on(box.metric("calls"), amount="1")
        box.customer()
        advance: dict[str, Any] = {"amount_cents": 3100, "pay_in_advance": True, "trial_period": 20}
        box.plan(calls, **advance, usage_thresholds=[{"amount_cents": 2000}])
        box.coupon(0, coupon_type="percentage", percentage_rate="50", frequency="once")
        box.subscribe()
        box.event("calls", value=20)
        box.travel_to("2024-10-25T12:00:00Z")
        box.event("calls", value=15)
        box.travel_to("2024-11-02T00:00:00Z")
        assert [invoice["total_amount_cents"] for invoice in box.invoices()] == [1000, 1100, 3100 + 1500]
        assert sum(invoice["total_amount_cents"] for invoice in box.invoices()) == 6700
        assert box.get("/credit_notes")["credit_notes"] == []
        assert box.billing.audit().findings == ()


def test_a_trial_that_ends_right_before_a_billing_day_leaves_no_day_unbilled() -> None:
    with Scenario("2024-10-11T23:59:00Z") as box:
        box.customer()
        box.plan(amount_cents=3100, pay_in_advance=True, trial_period=20)
        box.subscribe()
        # It ends on 31 October at 23:59 and is noticed on 1 November at 00:35, after the run.
        box.travel_to("2024-12-02T00:00:00Z")
        fees = [fee["amount_cents"] for invoice in box.invoices() for fee in invoice["fees"]]
        assert sorted(fees) == [share(3100, 1, 31), 3100, 3100]
        assert not list(box.billing.audit().findings)


@pytest.mark.parametrize("advance", [True, False])
@pytest.mark.parametrize(
    ("ended_at", "days"),
    # The trial ends on the 11th at 23:50, and that is noticed on the 12th at 00:35.
    [("11T23:49:59", 0), ("12T00:20:00", 2), ("12T00:40:00", 2), ("12T23:59:59.999999", 2)],
)
def test_an_end_right_after_a_trial_is_billed_like_one_that_comes_after_its_check(
    ended_at: str, days: int, advance: bool
) -> None:
    with Scenario("2024-10-01T23:50:00Z") as box:
        box.customer()
        box.plan(amount_cents=3100, pay_in_advance=advance, trial_period=10)
        box.subscribe()
        box.travel_to(f"2024-10-{ended_at}Z")
        box.unsubscribe()
        fees = sum(invoice["fees_amount_cents"] for invoice in box.invoices())
        notes = sum(note["total_amount_cents"] for note in box.get("/credit_notes")["credit_notes"])
        assert fees - notes == days * 100
        assert box.webhook_types("subscription.trial") == ["subscription.trial_ended"] * bool(days)
        assert not list(box.billing.audit().findings)


def test_a_downgrade_drops_no_day_after_a_trial() -> None:
    with Scenario("2024-10-11T23:59:00Z") as box:
        box.customer()
        box.plan(amount_cents=3100, pay_in_advance=True, trial_period=20)
        box.plan(code="small", amount_cents=1000, pay_in_advance=True)
        box.subscribe()
        box.subscribe("small")
        # The trial ends on 31 October at 23:59, which is noticed at 00:35; the downgrade comes at 00:10.
        box.travel_to("2024-11-02T12:00:00Z")
        assert billed(box, "basic", "subscription") == [100]
        assert billed(box, "small", "subscription") == [1000]


@pytest.mark.parametrize(
    ("fee", "commitment", "paid"),
    [
        (3100, 31000, 16000),  # 16 of 31 days
        (9900, 20000, share(20000, 16, 31)),
        (9900, 1, share(9900, 16, 31)),
    ],
)
def test_a_plan_in_advance_that_ends_brings_in_its_commitment_for_the_days_used(
    fee: int, commitment: int, paid: int
) -> None:
    with Scenario("2024-10-01T00:00:00Z") as box:
        box.customer()
        box.plan(amount_cents=fee, pay_in_advance=True, minimum_commitment={"amount_cents": commitment})
        box.subscribe()
        box.travel_to("2024-10-16T12:00:00Z")
        box.unsubscribe()
        fees = sum(invoice["fees_amount_cents"] for invoice in box.invoices())
        (note,) = box.get("/credit_notes")["credit_notes"]
        # The fee counts only for the days that were not given back.
        assert fees - note["total_amount_cents"] == paid


@pytest.mark.parametrize(
    ("aggregation", "charge", "september", "october"),
    [
        # Used in September: 4 and 8 units, on 1 October 2 units.
        ({}, charge_on("", amount="1"), 1200, 200),
        ({"aggregation_type": "count_agg"}, charge_on("", amount="1"), 200, 100),
        ({"aggregation_type": "max_agg"}, charge_on("", amount="1"), 800, 200),
        ({"aggregation_type": "latest_agg"}, charge_on("", amount="1"), 800, 200),
        ({"aggregation_type": "unique_count_agg"}, charge_on("", amount="1"), 200, 100),
        # The first range, and what is free, are those of each period.
        ({}, charge_on("", "graduated", graduated_ranges=LADDER), 10 * 200 + 2 * 100 + 300, 2 * 200 + 300),
        ({}, charge_on("", "volume", volume_ranges=LADDER), 12 * 100, 2 * 200 + 300),
        ({}, charge_on("", "package", amount="5", package_size=10, free_units=1), 1000, 500),
        ({}, charge_on("", "percentage", rate="10", fixed_amount="1"), 120 + 200, 20 + 100),
    ],
)
@pytest.mark.parametrize("ended_at", ["00:03:00", "00:10:01"])
def test_what_was_used_on_a_billing_day_is_billed_whether_the_run_or_the_end_came_first(
    aggregation: dict[str, Any], charge: dict[str, Any], september: int, october: int, ended_at: str
) -> None:
    with Scenario("2024-09-01T00:00:00Z") as box:
        metric = box.metric("gb", **aggregation)
        box.customer()
        box.plan({**charge, "billable_metric_id": metric})
        box.subscribe()
        for at, units in (("09-10T00:00:00", 4), ("09-30T23:59:59", 8), ("10-01T00:01:00", 2)):
            box.travel_to(f"2024-{at}Z")
            box.event("gb", value=units)
        box.travel_to(f"2024-10-01T{ended_at}Z")
        box.unsubscribe()
        box.travel_to("2024-11-02T00:00:00Z")
        # The end before the run makes one invoice of the two.
        fees = [fee["amount_cents"] for invoice in box.invoices() for fee in invoice["fees"] if fee["amount_cents"]]
        assert fees == [september, october]
        assert len([invoice for invoice in box.invoices() if invoice["fees"]]) == (1 if ended_at < "00:10" else 2)
        assert not box.get("/events?unbilled=true")["events"]
        assert not list(box.billing.audit().findings)


def test_a_billing_day_that_is_ended_before_the_run_costs_nothing_by_the_day() -> None:
    with Scenario("2024-09-01T00:00:00Z") as box:
        gb = box.metric("gb")
        seats = box.metric("seats", "unique_count_agg", recurring=True)
        box.customer()
        box.plan(
            charge_on(gb, "graduated", min_amount_cents=3000, graduated_ranges=LADDER),
            charge_on(seats, amount="30", prorated=True),
            charge_on(seats, code="whole", amount="5"),
            fixed_charges=[fixed_charge_on(box.add_on("desk"), units=1, amount="7")],
            minimum_commitment={"amount_cents": 12_000},
            amount_cents=3000,
        )
        box.subscribe(ending_at="2024-10-01T00:00:00Z")
        box.event("seats", value="a", operation_type="add")
        box.travel_to("2024-10-01T00:02:00Z")
        box.event("seats", value="b", operation_type="add")
        box.travel_to("2024-10-02T00:00:00Z")
        # September: the plan, the usage's minimum, a seat by days and whole, a desk, and what is missing to 120.00.
        (invoice,) = box.invoices()
        assert sorted(fee["amount_cents"] for fee in invoice["fees"] if fee["amount_cents"]) == [
            300,
            500,
            700,
            1800,
            2700,
            3000,
            3000,
        ]
        # A seat that came on a day without a price for seats is on the list.
        (listed,) = box.get("/events?unbilled=true")["events"]
        assert (listed["transaction_id"], listed["unbilled"]["code"]) == ("t2", "subscription_not_active")


# The check of a threshold waits for the run at 00:10; an end before it bills the usage itself.
@pytest.mark.parametrize(("ended_at", "ahead"), [("00:03:00", [1200]), ("00:10:01", [1200, 2500])])
def test_what_a_threshold_billed_of_a_last_day_is_deducted_once(ended_at: str, ahead: list[int]) -> None:
    with Scenario("2024-09-01T00:00:00Z") as box:
        box.customer()
        thresholds = [{"amount_cents": 1000}, {"amount_cents": 2000}]
        box.plan(charge_on(box.metric("gb"), amount="1"), usage_thresholds=thresholds)
        box.subscribe()
        for at, units in (("09-10T00:00:00", 12), ("09-20T00:00:00", 3), ("10-01T00:01:00", 25)):
            box.travel_to(f"2024-{at}Z")
            box.event("gb", value=units)
        box.travel_to(f"2024-10-01T{ended_at}Z")
        box.unsubscribe()
        box.travel_to("2024-11-02T00:00:00Z")
        invoices = box.invoices()
        assert [one["fees_amount_cents"] for one in invoices if one["invoice_type"] == "progressive_billing"] == ahead
        assert sum(one["total_amount_cents"] for one in invoices) == 4000
        assert not list(box.billing.audit().findings)


def test_a_draft_shows_and_explains_what_was_used_on_a_last_day_apart_from_the_closed_period() -> None:
    with Scenario("2024-09-01T00:00:00Z") as box:
        box.customer(billing_configuration={"invoice_grace_period": 3})
        box.plan(charge_on(box.metric("hours", "weighted_sum_agg", weighted_interval="seconds"), amount="3100"))
        box.subscribe()
        box.event("hours", value=1)
        box.travel_to("2024-10-01T00:00:00Z")
        box.event("hours", value=1)
        box.travel_to("2024-10-01T00:07:12Z")
        box.unsubscribe()
        (draft,) = box.invoices()
        _, closed, last_day = draft["fees"]
        # A whole September at 1; seven minutes and twelve seconds are 1/200 day of 31.
        assert [closed["amount_cents"], last_day["amount_cents"]] == [310_000, 50]
        adjust = partial(box.billing.invoices.adjust_fee, draft["svc_id"], units=2, unit_precise_amount="3000")
        with pytest.raises(Invalid):
            adjust(fee_id=last_day["svc_id"])
        adjust(fee_id=closed["svc_id"])
        box.travel_to("2024-10-05T00:00:00Z")
        (issued,) = box.invoices()
        assert [fee["amount_cents"] for fee in issued["fees"]] == [0, 600_000, 50]
        explained = box.get(f"/invoices/{issued['svc_id']}/explain")["invoice_explanation"]["fees"]
        assert explained[-1]["usage"]["counting"][-1] == "sum 432.0 / (31 x 86400 seconds), the period, rounded up"
        assert not list(box.billing.audit().findings)


@pytest.mark.parametrize("ahead", [False, True])
def test_usage_between_the_first_midnight_and_its_run_is_of_the_new_period(*, ahead: bool) -> None:
    with Scenario("2024-10-15T12:00:00Z") as box:
        box.customer()
        charge = charge_on(box.metric("gb"), "graduated", graduated_ranges=LADDER, pay_in_advance=ahead)
        box.plan(charge, usage_thresholds=[] if ahead else [{"amount_cents": 400, "recurring": True}])
        box.subscribe()
        box.event("gb", value=10)
        box.travel_to("2024-11-01T00:03:00Z")
        box.event("gb", value=1)
        # A flat 3.00 and 2.00 a unit: of October for 10, of November for 1. The threshold waits for the run of October,
        # which lifetime usage includes.
        assert box.usage()["amount_cents"] == 300 + 200
        box.travel_to("2024-11-01T00:11:00Z")
        asked = [invoice for invoice in box.invoices() if invoice["total_amount_cents"]]
        assert [invoice["fees_amount_cents"] for invoice in asked] == [300 + 10 * 200, 300 + 200]
        assert asked[1]["created_at"] == ("2024-11-01T00:03:00Z" if ahead else "2024-11-01T00:10:00Z")
        assert asked[1]["fees"][0]["from_date"][:10] == "2024-11-01"
        box.travel_to("2024-12-02T00:00:00Z")
        assert sum(invoice["total_amount_cents"] for invoice in box.invoices()) == 2300 + 500
        assert box.get("/credit_notes")["credit_notes"] == []
        assert box.billing.audit().findings == ()
