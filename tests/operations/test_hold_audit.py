"""The audit finds each kind of error in holds, and nothing in those that are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from tests.scenarios import Scenario, charge_on

from usagebill.core.holds import Hold, HoldStatus
from usagebill.core.tasks import ExpireHold
from usagebill.operations.audit import audit
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq

pytestmark = pytest.mark.now("2024-03-01T00:00:00Z")

Plant = Callable[[Work], None]
SECOND = timedelta(seconds=1)


class Undone(Exception):
    """Raised to undo what a test planted."""


@pytest.fixture
def box(box: Scenario) -> Scenario:
    """Holds of each status, two of them captured: one in time, one after it had expired."""
    box.customer()
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    fields = {"external_subscription_id": "sub", "code": "gb", "units": "2", "expires_in": 60}
    ids = [box.post("/holds", hold=fields)["hold"]["svc_id"] for _ in range(4)]
    box.post(f"/holds/{ids[0]}/release")
    box.post(f"/holds/{ids[1]}/capture", event={"transaction_id": "in time"})
    box.travel_to(box.now + timedelta(minutes=5))
    box.post(f"/holds/{ids[2]}/capture", event={"transaction_id": "late", "timestamp": int(box.now.timestamp()) - 200})
    box.post("/holds", hold=fields)
    return box


def of_status(work: Work, status: HoldStatus) -> Hold:
    hold = work.tx.first(Hold, eq("status", status))
    assert hold is not None
    return hold


def captured(work: Work) -> Hold:
    return of_status(work, HoldStatus.CAPTURED)


def an_open_hold_that_nothing_ends(work: Work) -> None:
    hold = of_status(work, HoldStatus.HELD)
    work.cancel(ExpireHold(customer_id=hold.customer_id, hold_id=hold.id))


def a_released_hold_that_will_expire(work: Work) -> None:
    hold = of_status(work, HoldStatus.RELEASED)
    work.schedule(ExpireHold(customer_id=hold.customer_id, hold_id=hold.id), work.now + SECOND)


def a_released_hold_with_an_event(work: Work) -> None:
    work.tx.replace(replace(of_status(work, HoldStatus.RELEASED), transaction_id="in time"))


def a_release_after_it_had_expired(work: Work) -> None:
    hold = of_status(work, HoldStatus.RELEASED)
    work.tx.replace(replace(hold, ended_at=hold.expires_at))


def an_end_before_it_was_made(work: Work) -> None:
    hold = captured(work)
    work.tx.replace(replace(hold, ended_at=hold.created_at - SECOND))


def a_hold_that_expired_early(work: Work) -> None:
    hold = of_status(work, HoldStatus.EXPIRED)
    work.tx.replace(replace(hold, ended_at=hold.expires_at - SECOND))


def an_end_that_is_not_noted(work: Work) -> None:
    work.tx.replace(replace(of_status(work, HoldStatus.EXPIRED), ended_at=None))


def a_hold_of_two_days(work: Work) -> None:
    hold = of_status(work, HoldStatus.HELD)
    work.tx.replace(replace(hold, expires_at=hold.created_at + timedelta(days=2)))


def a_capture_without_its_event(work: Work) -> None:
    work.tx.events.remove("sub", [str(captured(work).transaction_id)])


def a_capture_of_an_event_that_came_otherwise(work: Work) -> None:
    hold = captured(work)
    other = next(one for one in work.tx.find(Hold, eq("status", HoldStatus.CAPTURED)) if one.id != hold.id)
    work.tx.replace(replace(hold, transaction_id=other.transaction_id))


def a_capture_without_its_amount(work: Work) -> None:
    work.tx.replace(replace(captured(work), captured_amount_cents=None))


def an_amount_that_was_not_captured(work: Work) -> None:
    work.tx.replace(replace(of_status(work, HoldStatus.HELD), captured_amount_cents=Decimal(1)))


PLANTS: list[tuple[Plant, str]] = [
    (plant, "hold")
    for plant in (
        an_open_hold_that_nothing_ends,
        a_released_hold_that_will_expire,
        a_released_hold_with_an_event,
        a_release_after_it_had_expired,
        an_end_before_it_was_made,
        a_hold_that_expired_early,
        an_end_that_is_not_noted,
        a_hold_of_two_days,
        a_capture_without_its_event,
        a_capture_of_an_event_that_came_otherwise,
        a_capture_without_its_amount,
        an_amount_that_was_not_captured,
    )
]


def test_what_is_right_gives_no_finding(box: Scenario) -> None:
    statuses = {hold["status"] for hold in box.get("/holds")["holds"]}
    assert statuses == {"held", "captured", "released", "expired"}
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize(("plant", "check"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_an_error_is_found(box: Scenario, plant: Plant, check: str) -> None:
    checks: set[str] = set()

    def look(work: Work) -> None:
        plant(work)
        checks.update(finding.check for finding in audit(work).findings)
        raise Undone

    with pytest.raises(Undone):
        box.billing.writing(look)
    assert check in checks


def test_events_that_were_removed_since_are_no_finding(box: Scenario) -> None:
    box.travel_to(box.now + timedelta(days=60))
    box.billing.writing(a_capture_without_its_event)
    assert "hold" not in {finding.check for finding in box.billing.audit().findings}
