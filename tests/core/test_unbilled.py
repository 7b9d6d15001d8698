"""Stretches of time in which events are billed, or not: they tile all of time and follow `subscription_at`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import invoice
from tests.core.documents.builders import period

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.events import Event, JsonValue
from usagebill.core.subscriptions import subscription_at
from usagebill.core.unbilled import (
    Advance,
    Closing,
    Reason,
    Service,
    Stretch,
    closes_usage,
    open_from,
    stretch_at,
    stretches_of,
    undone,
    without_overlaps,
)

NOW = datetime(2024, 3, 1, tzinfo=UTC)


def metric(aggregation_type: str = "count_agg", *, recurring: bool = False) -> BillableMetric:
    return BillableMetric(
        id="m",
        organization_id="o",
        name="M",
        code="calls",
        aggregation_type=aggregation_type,
        recurring=recurring,
        created_at=NOW,
        updated_at=NOW,
    )


def at(instant: datetime, received: datetime | None = None) -> Event:
    return Event("e", "o", "t", "calls", "sub", instant, {}, None, received or NOW + timedelta(days=400))


@dataclass(frozen=True)
class Known:
    started_at: datetime
    terminated_at: datetime | None
    status: str = "active"
    billed_from: datetime | None = None


# Subscriptions of one external id follow each other.
LIVES = st.lists(st.integers(0, 4_000_000), min_size=1, max_size=7, unique=True).map(
    lambda marks: [
        (NOW + timedelta(milliseconds=start), None if end is None else NOW + timedelta(milliseconds=end))
        for start, end in zip(sorted(marks)[::2], [*sorted(marks)[1::2], None], strict=False)
    ]
)


@given(LIVES, st.integers(-1000, 5_000_000))
def test_an_event_lies_in_the_time_of_a_subscription_if_one_is_its_own(
    lives: list[tuple[datetime, datetime | None]], place: int
) -> None:
    event = at(NOW + timedelta(milliseconds=place))
    stretches = stretches_of([Service(start=start, end=end) for start, end in lives], metric())
    owner = subscription_at([Known(start, end) for start, end in lives], event.timestamp, event.created_at)
    holding = [stretch for stretch in stretches if stretch.holds(event)]
    assert len(holding) == 1
    closed = [
        Service(start=start, end=end, closings=() if end is None else (Closing(start, end, end),))
        for start, end in lives
    ]
    late = stretches_of(closed, metric())
    for received in (event.timestamp, event.timestamp + timedelta(seconds=1), event.created_at):
        assert sum(stretch.holds(event._replace(created_at=received)) for stretch in late) == 1
    assert holding[0].reason == (None if owner is not None else Reason.SUBSCRIPTION_NOT_ACTIVE)


DAY = timedelta(days=1)
CASES: dict[str, tuple[list[Service], BillableMetric | None, int, Reason | None]] = {
    "nobody": ([], metric(), 0, Reason.SUBSCRIPTION_NOT_FOUND),
    "no metric": ([Service(start=NOW, is_charged=False)], None, 0, Reason.METRIC_NOT_FOUND),
    "before the start": ([Service(start=NOW)], metric(), -1, Reason.SUBSCRIPTION_NOT_ACTIVE),
    "no charge": ([Service(start=NOW, is_charged=False)], metric(), 1, Reason.CHARGE_NOT_FOUND),
    "closed": ([Service(start=NOW, closed_before=NOW + 3 * DAY)], metric(), 2, Reason.PERIOD_CLOSED),
    "still open": ([Service(start=NOW, closed_before=NOW + 3 * DAY)], metric(), 3, None),
    "received after its period was billed": (
        [Service(start=NOW, closings=(Closing(NOW, NOW + 3 * DAY, NOW + 3 * DAY),))],
        metric(),
        2,
        Reason.PERIOD_ALREADY_BILLED,
    ),
    "history counts later, whatever was billed": (
        [Service(start=NOW, closings=(Closing(NOW, NOW + 3 * DAY, NOW + 3 * DAY),))],
        metric("sum_agg", recurring=True),
        2,
        None,
    ),
    "history that no later period counts": (
        [Service(start=NOW, end=NOW + 3 * DAY, closings=(Closing(NOW, NOW + 3 * DAY, NOW + 3 * DAY),))],
        metric("sum_agg", recurring=True),
        -2,
        Reason.PERIOD_ALREADY_BILLED,
    ),
    "history counts": ([Service(start=NOW)], metric("sum_agg", recurring=True), -30, None),
    "history of a subscription that went on": (
        [Service(start=NOW, end=NOW + DAY), Service(start=NOW + 5 * DAY)],
        metric("unique_count_agg", recurring=True),
        3,
        None,
    ),
    "after the end of all": (
        [Service(start=NOW, end=NOW + DAY)],
        metric("unique_count_agg", recurring=True),
        3,
        Reason.SUBSCRIPTION_NOT_ACTIVE,
    ),
    "a recurring metric without a charge": (
        [Service(start=NOW, is_charged=False)],
        metric("sum_agg", recurring=True),
        1,
        Reason.CHARGE_NOT_FOUND,
    ),
}


@pytest.mark.parametrize(("services", "counted_by", "day", "reason"), CASES.values(), ids=CASES)
def test_each_stretch_has_its_reason(
    services: list[Service], counted_by: BillableMetric | None, day: int, reason: Reason | None
) -> None:
    assert stretch_at(stretches_of(services, counted_by), at(NOW + day * DAY)).reason == reason


def test_events_before_a_charge_in_advance_are_recognized_by_when_they_came() -> None:
    since = NOW + 5 * DAY
    stretches = stretches_of([Service(start=NOW, is_charged=False, advance=(Advance(since, None),))], metric())
    event = at(NOW + DAY, received=NOW + DAY)
    assert stretch_at(stretches, event).reason is Reason.PERIOD_CLOSED
    assert stretch_at(stretches, event._replace(created_at=since)) == Stretch(None, NOW, None, since)


def test_what_was_counted_decides_whatever_is_charged_today() -> None:
    closings = (Closing(NOW, NOW + 3 * DAY, NOW + 3 * DAY), Closing(NOW + 4 * DAY, NOW + 6 * DAY, NOW + 6 * DAY, False))
    received = NOW + 2 * DAY
    for is_charged, counted_by, uncounted, still_open in (
        (True, metric(), Reason.PERIOD_CLOSED, None),
        (False, metric(), Reason.CHARGE_NOT_FOUND, Reason.CHARGE_NOT_FOUND),
        (False, None, Reason.METRIC_NOT_FOUND, Reason.METRIC_NOT_FOUND),
    ):
        stretches = stretches_of([Service(start=NOW, is_charged=is_charged, closings=closings)], counted_by)
        reasons = [stretch_at(stretches, at(NOW + day * DAY, received)).reason for day in (1, 5, 7)]
        assert reasons == [None, uncounted, still_open]
        assert stretch_at(stretches, at(NOW + DAY)).reason is Reason.PERIOD_ALREADY_BILLED


def test_an_event_had_a_fee_if_its_metric_was_charged_in_advance_when_it_came() -> None:
    advance = tuple(Advance(NOW + day * DAY, NOW + (day + 1) * DAY) for day in (1, 2, 5))
    stretches = stretches_of([Service(start=NOW, is_charged=False, advance=advance)], metric())
    reasons = [stretch_at(stretches, at(NOW, NOW + day * DAY)).reason for day in range(8)]
    gone = Reason.CHARGE_NOT_FOUND
    assert reasons == [gone, None, None, gone, gone, None, gone, gone]


RENEWED = Closing(NOW, NOW + 3 * DAY, NOW + 4 * DAY, is_counted=False, is_renewed=True)
FINAL = Closing(
    NOW + 3 * DAY + timedelta(microseconds=1), NOW + 6 * DAY, NOW + 6 * DAY, is_counted=False, is_renewed=True
)


@pytest.mark.parametrize(
    ("ended", "closings", "day", "received", "reason"),
    [
        # Renewals go on with what was there before the charge, as long as there is another one.
        (None, (), 1, 1, None),
        (None, (RENEWED,), 4, 5, None),
        (6, (RENEWED, FINAL), 1, 4, None),
        (6, (RENEWED, FINAL), -30, 4, None),
        (6, (RENEWED, FINAL), 1, 5, Reason.PERIOD_CLOSED),
        (6, (RENEWED, FINAL), 4, 4, Reason.PERIOD_CLOSED),
        (6, (FINAL,), 1, 1, Reason.PERIOD_CLOSED),
        (6, (RENEWED, FINAL), 1, 7, None),
        (6, (FINAL,), 1, 7, None),
    ],
)
def test_what_came_before_a_recurring_charge_in_advance_is_renewed_with_it(
    ended: int | None, closings: tuple[Closing, ...], day: int, received: int, reason: Reason | None
) -> None:
    service = Service(
        start=NOW,
        end=None if ended is None else NOW + ended * DAY,
        is_charged=False,
        advance=(Advance(NOW + 6 * DAY, None),),
        closings=closings,
    )
    stretches = stretches_of([service], metric("unique_count_agg", recurring=True))
    event = at(NOW + day * DAY, NOW + received * DAY)
    assert stretch_at(stretches, event).reason is reason
    assert sum(stretch.holds(event) for stretch in stretches) == 1


# Each event: the day it is of, the day it came, and what it changes. March is billed on day 31, April on day 61.
PAIRS: dict[str, tuple[str, list[tuple[int, int, str]], str]] = {
    "nothing": ("unique_count_agg", [], ""),
    "added": ("unique_count_agg", [(9, 35, "+a")], ""),
    "removed": ("unique_count_agg", [(9, 35, "-a")], ""),
    "added and removed": ("unique_count_agg", [(9, 35, "+a"), (19, 36, "-a")], "01"),
    "in the other order of arrival": ("unique_count_agg", [(9, 36, "+a"), (19, 35, "-a")], "01"),
    "of two values": ("unique_count_agg", [(9, 35, "+a"), (19, 35, "-b")], ""),
    "another one stays": ("unique_count_agg", [(9, 35, "+a"), (10, 35, "+b"), (19, 35, "-a")], "02"),
    "added again": ("unique_count_agg", [(9, 35, "+a"), (19, 35, "-a"), (25, 35, "+a")], "01"),
    "removed before": ("unique_count_agg", [(9, 35, "-a"), (19, 35, "+a")], ""),
    # April billed it before its removal came.
    "known to two bills": ("unique_count_agg", [(9, 35, "+a"), (19, 65, "-a")], ""),
    "known to the same bill": ("unique_count_agg", [(9, 65, "+a"), (19, 66, "-a")], "01"),
    "units": ("sum_agg", [(9, 35, "4"), (19, 35, "-4")], "01"),
    "some units": ("sum_agg", [(9, 35, "4"), (19, 35, "-3")], ""),
    "other units": ("sum_agg", [(9, 35, "4"), (10, 35, "1"), (19, 35, "-4.0")], "02"),
    "no number": ("sum_agg", [(9, 35, "4"), (19, 35, "x"), (20, 35, "-4")], "02"),
}


@pytest.mark.parametrize(("kind", "changes", "listed"), PAIRS.values(), ids=PAIRS)
def test_what_came_late_and_is_gone_again_counts_nowhere(
    kind: str, changes: list[tuple[int, int, str]], listed: str
) -> None:
    closings = [Closing(NOW, NOW + 31 * DAY, NOW + 31 * DAY), Closing(NOW + 31 * DAY, NOW + 61 * DAY, NOW + 61 * DAY)]
    counted = replace(metric(kind, recurring=True), field_name="value")
    events = []
    for number, (day, came, what) in enumerate(changes):
        properties: dict[str, JsonValue] = {"value": what}
        if kind == "unique_count_agg":
            properties = {"value": what[1:], "operation_type": "add" if what[0] == "+" else "remove"}
        events.append(at(NOW + day * DAY, NOW + came * DAY)._replace(id=str(number), properties=properties))
    assert "".join(sorted(event.id for event in undone(counted, closings, reversed(events)))) == listed


STANDARD, DYNAMIC = False, True
OVERLAPS: dict[str, tuple[Service, list[bool | None]]] = {
    # Days after which events came: 0 before, 1 of the first, 2 and 3 of both, 4 of the second, 5 after. None: no fee.
    "a dynamic charge comes to another": (
        Service(
            start=NOW,
            is_charged=False,
            advance=(Advance(NOW + DAY, None, STANDARD), Advance(NOW + 2 * DAY, None, DYNAMIC)),
        ),
        [None, False, True, True, True, True],
    ),
    "a dynamic charge ends beside another": (
        Service(
            start=NOW,
            is_charged=False,
            advance=(Advance(NOW + DAY, NOW + 4 * DAY, DYNAMIC), Advance(NOW + 2 * DAY, NOW + 5 * DAY, STANDARD)),
        ),
        [None, True, True, True, False, None],
    ),
    "a dynamic charge outlives another": (
        Service(
            start=NOW,
            is_charged=False,
            advance=(Advance(NOW + DAY, NOW + 4 * DAY, STANDARD), Advance(NOW + 2 * DAY, NOW + 5 * DAY, DYNAMIC)),
        ),
        [None, False, True, True, True, None],
    ),
    "a dynamic charge in advance beside one in arrears": (
        Service(start=NOW, is_charged=True, advance=(Advance(NOW + 2 * DAY, NOW + 4 * DAY, DYNAMIC),)),
        [False, False, True, True, False, False],
    ),
    "a standard charge in advance beside a dynamic one in arrears": (
        Service(start=NOW, is_charged=True, by_event_prices=True, advance=(Advance(NOW + 2 * DAY, None, STANDARD),)),
        [True, True, True, True, True, True],
    ),
}


@pytest.mark.parametrize(("service", "priced"), OVERLAPS.values(), ids=OVERLAPS)
def test_an_event_needs_a_price_if_one_of_the_charges_of_its_time_takes_it(
    service: Service, priced: list[bool | None]
) -> None:
    stretches = stretches_of([service], metric())
    held = [stretch_at(stretches, at(NOW, NOW + day * DAY)) for day in range(6)]
    assert [None if stretch.reason is not None else stretch.by_event_prices for stretch in held] == priced


def test_what_a_charge_in_advance_lacked_stays_known_once_the_period_is_billed() -> None:
    closing = Closing(NOW, NOW + 3 * DAY, NOW + 4 * DAY)
    advance = (Advance(NOW + 2 * DAY, None, DYNAMIC),)
    stretches = stretches_of([Service(start=NOW, closings=(closing,), advance=advance)], metric())
    held = [stretch_at(stretches, at(NOW + DAY, NOW + day * DAY)) for day in (1, 3, 5)]
    assert [stretch.by_event_prices for stretch in held] == [False, True, False]
    assert [stretch.reason for stretch in held] == [None, None, Reason.PERIOD_ALREADY_BILLED]


SECOND, MICROSECOND = timedelta(seconds=1), timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("fields", "ends", "reason", "is_closed"),
    [
        ({"status": "finalized"}, NOW + DAY, "subscription_periodic", True),
        ({"status": "voided"}, NOW + DAY, "subscription_periodic", True),
        ({"status": "closed"}, NOW + DAY, "subscription_periodic", True),
        ({"status": "draft"}, NOW + DAY, "subscription_periodic", False),
        # The end of a trial shows the period closed before it, which the run has billed.
        ({"status": "finalized"}, NOW + DAY, "subscription_starting", False),
        # The period was over before the start.
        ({"status": "finalized"}, NOW, "subscription_periodic", False),
        ({"status": "finalized"}, None, "subscription_periodic", False),
        ({"status": "finalized"}, NOW, "subscription_starting", False),
        ({"status": "finalized"}, NOW, "subscription_terminating", True),
    ],
)
def test_an_issued_invoice_closes_the_usage_it_bills(
    fields: dict[str, Any], ends: datetime | None, reason: str, is_closed: bool
) -> None:
    billed = period("sub", NOW, charges_to_datetime=ends, invoicing_reason=reason)
    assert closes_usage(billed, invoice(**fields), UTC) is is_closed


@pytest.mark.parametrize(
    ("closings", "tiled"),
    [
        ([], []),
        # The whole second of a start belongs to the subscription.
        ([(NOW + SECOND / 2, NOW + DAY)], [(NOW, NOW + DAY)]),
        ([(NOW, NOW + DAY), (NOW, NOW + DAY)], [(NOW, NOW + DAY)]),
        (
            [(NOW, NOW + DAY), (NOW, NOW + 2 * DAY)],
            [(NOW, NOW + DAY), (NOW + DAY + MICROSECOND, NOW + 2 * DAY)],
        ),
        ([(NOW, NOW + DAY), (NOW + 2 * DAY, NOW + 3 * DAY)], [(NOW, NOW + DAY), (NOW + 2 * DAY, NOW + 3 * DAY)]),
    ],
)
def test_what_one_invoice_has_closed_no_later_one_closes_again(
    closings: list[tuple[datetime, datetime]], tiled: list[tuple[datetime, datetime]]
) -> None:
    without = without_overlaps(Closing(start, end, NOW) for start, end in closings)
    assert [(closing.earliest, closing.latest) for closing in without] == tiled


@pytest.mark.parametrize(
    ("ended_at", "billed_until", "billing_from", "opening"),
    [
        (None, None, None, NOW),
        (None, None, NOW + DAY, NOW + DAY),
        (None, NOW + DAY, None, NOW + DAY + MICROSECOND),
        (NOW + 2 * DAY, NOW + DAY, None, NOW + DAY + MICROSECOND),
        (NOW + 2 * DAY, NOW + 2 * DAY, None, None),
        (NOW + 2 * DAY + MICROSECOND, NOW + 2 * DAY, None, NOW + 2 * DAY + MICROSECOND),
    ],
)
def test_usage_is_open_after_what_has_been_billed(
    ended_at: datetime | None, billed_until: datetime | None, billing_from: datetime | None, opening: datetime | None
) -> None:
    started_at = NOW + SECOND / 2
    actual = open_from(started_at, ended_at=ended_at, billed_until=billed_until, billing_from=billing_from)
    assert actual == opening
