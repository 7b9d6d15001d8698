"""Senders have whole seconds, changes happen within them: no event is lost or billed twice at any boundary."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from tests.examples import mostly_slow
from tests.scenarios import Scenario, charge_in_advance_on, charge_on

pytestmark = pytest.mark.beyond_reference

START = datetime(2024, 3, 1, 12, 0, 0, 600_000, tzinfo=UTC)
CHANGE = datetime(2024, 3, 10, 12, 0, 0, 600_000, tzinfo=UTC)


def end(box: Scenario) -> None:
    box.unsubscribe()


def end_and_start(box: Scenario) -> None:
    box.unsubscribe()
    box.subscribe()


def end_and_start_later(box: Scenario) -> None:
    box.unsubscribe()
    box.travel_to(CHANGE + timedelta(milliseconds=300))
    box.subscribe()


def upgrade(box: Scenario) -> None:
    box.subscribe("dear")


def upgrade_twice(box: Scenario) -> None:
    box.subscribe("dear")
    box.travel_to(CHANGE + timedelta(milliseconds=300))
    box.subscribe("dearest")


def downgrade(box: Scenario) -> None:
    box.subscribe("cheap")


def start_another(box: Scenario) -> None:
    box.subscribe(external_id="other")


# What happens, and how many of the events around it nobody bills: those that lie after an end.
CHANGES: dict[str, tuple[Callable[[Scenario], None], int]] = {
    "nothing": (lambda box: None, 0),
    "an end": (end, 2),
    "an end and a new start": (end_and_start, 0),
    "an end and a new start within the second": (end_and_start_later, 0),
    "an upgrade": (upgrade, 0),
    "two upgrades within a second": (upgrade_twice, 0),
    "a downgrade at the end of the period": (downgrade, 0),
    "another subscription": (start_another, 0),
}


@pytest.mark.parametrize("in_advance", mostly_slow([False, True], True), ids=["in arrears", "in advance"])
@pytest.mark.parametrize(("change", "unbilled"), CHANGES.values(), ids=CHANGES)
def test_each_event_around_a_change_is_billed_once_or_listed(
    change: Callable[[Scenario], None], unbilled: int, in_advance: bool
) -> None:
    charge = charge_in_advance_on if in_advance else charge_on
    with Scenario(now=START) as box:
        box.customer()
        metric = box.metric("calls", "count_agg")
        for code, amount_cents in (("cheap", 1000), ("basic", 2000), ("dear", 3000), ("dearest", 4000)):
            box.plan(charge(metric, amount="1"), code=code, amount_cents=amount_cents)
        box.subscribe()
        second = CHANGE.replace(microsecond=0)
        sent = 0

        def send(*offsets: int) -> None:
            nonlocal sent
            for offset in offsets:
                at = int((second + timedelta(seconds=offset)).timestamp())
                event = {"code": "calls", "external_subscription_id": "sub", "timestamp": at}
                box.post("/events", event={**event, "transaction_id": f"t{sent}"})
                sent += 1

        box.travel_to(CHANGE - timedelta(milliseconds=300))
        send(-1, 0)
        box.travel_to(CHANGE)
        change(box)
        box.travel_to(CHANGE + timedelta(milliseconds=350))
        if change is not end or in_advance:
            # Of the second of the change, received after it. After an end it would be late: its invoice is there.
            send(0)
        box.travel_to(CHANGE + timedelta(seconds=2))
        send(1, 2)
        box.travel_to("2024-06-02T00:00:00Z")
        billed = sum(
            (Decimal(fee["units"]) for fee in box.get("/fees?fee_type=charge&per_page=1000")["fees"]), Decimal()
        )
        listed = box.get("/events?unbilled=true")["meta"]["total_count"]
        assert (billed + listed, listed) == (sent, unbilled)
