"""Events that come before their subscription, its charge or a change of plan, and are dated after it: each of them is
on one fee or on the list of unbilled events, and usage shows what is billed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import permutations, product
from typing import Any, NamedTuple

import pytest
from tests.scenarios import Scenario, charge_in_advance_on, charge_on

Step = tuple[str, Callable[[], object]]


class Books(NamedTuple):
    """Where the units of usage are: shown right after they came, billed by fees, listed as unbilled."""

    shown: int
    billed: int
    listed: int


def send(box: Scenario, dated: str) -> None:
    event = {
        "transaction_id": dated,
        "code": "calls",
        "external_subscription_id": "sub",
        "timestamp": int(datetime.fromisoformat(dated).timestamp()),
        "properties": {"value": 5},
    }
    box.post("/events", event=event)


def shown(box: Scenario) -> int:
    """Current usage; projected usage, and the total with all that it has, show no other."""
    usage = box.usage()
    path = "/customers/acme/projected_usage?external_subscription_id=sub"
    assert box.get(path)["customer_projected_usage"]["amount_cents"] == usage["amount_cents"]
    return int(usage["amount_cents"]) // 100


def books(box: Scenario, shows: int) -> Books:
    fees = box.get("/fees?fee_type=charge")["fees"]
    listed = box.get("/events?unbilled=true")["events"]
    assert box.billing.audit().findings == ()
    return Books(shows, sum(int(float(fee["units"])) for fee in fees), 5 * len(listed))


def charged(box: Scenario, metric: str, *, in_advance: bool) -> dict[str, Any]:
    charge = charge_in_advance_on if in_advance else charge_on
    return charge(metric, amount="1", code="calls", **({"invoiceable": True} if in_advance else {}))


# (when the event comes, its date, when the subscription is made, its start) -> the units shown and billed; the rest is
# listed.
STARTS: Sequence[tuple[str, str, str, str | None, int]] = [
    ("10T10:00:00", "10T11:00:00", "10T10:30:00", None, 0),
    ("10T10:00:00", "10T11:00:00", "10T10:30:00", "10T10:15:00", 0),
    ("10T10:00:00", "10T11:00:00", "10T10:30:00", "01T00:00:00", 0),
    ("10T10:00:00", "10T10:20:00", "10T10:30:00", "10T10:15:00", 0),
    ("10T10:00:00", "10T12:00:00", "10T10:30:00", "10T11:30:00", 0),
    ("10T10:00:00", "10T10:00:00", "10T10:00:00", None, 0),
    ("10T10:00:00", "10T10:00:00", "10T10:00:00", "10T09:00:00", 0),
    ("10T10:00:00.3", "10T10:00:00", "10T10:00:00.6", None, 0),
    ("10T10:00:00", "10T11:00:00", "09T10:00:00", "10T10:30:00", 5),
    ("10T10:00:00", "10T12:00:00", "10T09:00:00", "10T11:30:00", 5),
    ("10T10:00:00", "11T10:00:00", "09T10:00:00", "11T00:00:00", 0),
]


@pytest.mark.parametrize(("comes", "dated", "made", "starts", "units"), STARTS)
def test_what_comes_before_a_subscription_is_made_is_shown_only_if_it_is_billed(
    comes: str, dated: str, made: str, starts: str | None, units: int
) -> None:
    day = "2024-03-{}Z".format
    with Scenario(day("01T00:00:00")) as box:
        box.customer()
        box.plan(charged(box, box.metric("calls"), in_advance=True))

        def subscribe() -> None:
            box.subscribe(**({} if starts is None else {"subscription_at": day(starts)}))

        steps: list[Step] = [(comes, lambda: send(box, day(dated))), (made, subscribe)]
        for at, act in sorted(steps, key=lambda step: step[0]):
            box.travel_to(day(at))
            act()
        box.travel_to(day("20T00:00:00"))
        shows = shown(box)
        box.travel_to("2024-05-02T00:00:00Z")
        assert books(box, shows) == Books(units, units, 5 - units)


@pytest.mark.parametrize("order", list(permutations(("charge", "subscription", "event"))))
def test_on_a_clock_that_stands_still_what_is_there_first_decides(order: tuple[str, ...]) -> None:
    with Scenario("2024-10-01T00:00:00Z") as box:
        box.customer()
        metric = box.metric("calls")
        box.plan()
        acts: dict[str, Callable[[], object]] = {
            "charge": lambda: box.post("/plans/basic/charges", charge=charged(box, metric, in_advance=True)),
            "subscription": box.subscribe,
            "event": lambda: send(box, "2024-10-01T00:00:00Z"),
        }
        for name in order:
            acts[name]()
        shows = shown(box)
        box.travel_to("2024-11-02T00:00:00Z")
        units = 5 if order[-1] == "event" else 0
        assert books(box, shows) == Books(units, units, 5 - units)


@pytest.mark.parametrize("dated", ["2024-03-10T10:00:00Z", "2024-03-12T00:00:00Z", "2024-04-12T00:00:00Z"])
def test_what_comes_before_a_charge_in_advance_and_lies_ahead_of_it_is_not_shown(dated: str) -> None:
    with Scenario("2024-03-01T00:00:00Z") as box:
        box.customer()
        metric = box.metric("calls")
        box.plan()
        box.subscribe()
        box.travel_to("2024-03-10T10:00:00Z")
        send(box, dated)
        box.travel_to("2024-03-11T00:00:00Z")
        box.post("/plans/basic/charges", charge=charged(box, metric, in_advance=True))
        march = shown(box)
        box.travel_to("2024-04-20T00:00:00Z")
        assert (march, shown(box)) == (0, 0)
        assert books(box, 0) == Books(0, 0, 5)


# (when the event comes, its date, when the other plan is asked for, the fees of both plans).
CHANGES: dict[str, tuple[str, str, str, tuple[int, int]]] = {
    "before an upgrade": ("2024-10-05T00:00:00Z", "2024-10-12T00:00:00Z", "2024-10-10T00:00:00Z", (1000, 2000)),
    "at its instant": ("2024-10-10T00:00:00Z", "2024-10-12T00:00:00Z", "2024-10-10T00:00:00Z", (1000, 2000)),
    "before a downgrade is asked for": (
        "2024-10-05T00:00:00Z",
        "2024-11-12T00:00:00Z",
        "2024-10-10T00:00:00Z",
        (2000, 1000),
    ),
    "while a downgrade waits": (
        "2024-10-15T00:00:00Z",
        "2024-11-12T00:00:00Z",
        "2024-10-10T00:00:00Z",
        (2000, 1000),
    ),
}


@pytest.mark.parametrize("new", [False, True], ids=["to arrears", "to advance"])
@pytest.mark.parametrize("old", [False, True], ids=["from arrears", "from advance"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_comes_before_a_change_of_plan_and_lies_ahead_of_it_is_billed_once_or_listed(
    change: str, old: bool, new: bool
) -> None:
    """A plan in advance bills it at once, and the next one does not bill it again."""
    comes, dated, asked, amounts = CHANGES[change]
    with Scenario("2024-10-01T00:00:00Z") as box:
        box.customer()
        metric = box.metric("calls")
        box.plan(charged(box, metric, in_advance=old), code="old", amount_cents=amounts[0])
        box.plan(charged(box, metric, in_advance=new), code="new", amount_cents=amounts[1])
        box.subscribe("old")
        steps: list[Step] = [(comes, lambda: send(box, dated)), (asked, lambda: box.subscribe("new"))]
        for at, act in sorted(steps, key=lambda step: step[0]):
            box.travel_to(at)
            act()
        october = shown(box)
        box.travel_to("2024-11-02T00:00:00Z")
        november = shown(box)
        box.travel_to("2024-12-02T00:00:00Z")
        units = 0 if new and not old else 5
        assert books(box, october + november) == Books(5 if units and not old else 0, units, 5 - units)


@pytest.mark.parametrize(
    "plans",
    [
        pytest.param(kinds, id="-".join(kinds), marks=[pytest.mark.slow] if number > 3 else [])
        for number in (1, 2, 3, 4)
        for kinds in product(("advance", "arrears"), repeat=number)
    ],
)
def test_what_lies_ahead_of_several_changes_of_plan_is_billed_once_or_listed(plans: tuple[str, ...]) -> None:
    days = ("2024-03-01", "2024-03-05", "2024-03-10", "2024-03-12")
    with Scenario(now="2024-02-20T00:00:00Z") as box:
        box.customer()
        metric = box.metric("calls")
        for number, kind in enumerate(plans):
            charge = charged(box, metric, in_advance=kind == "advance")
            box.plan(charge, code=f"plan-{number}", amount_cents=100 * number)
        send(box, "2024-03-15T00:00:00Z")
        for number, day in enumerate(days[: len(plans)]):
            box.travel_to(f"{day}T12:00:00Z")
            box.subscribe(f"plan-{number}")
            box.travel_to(f"{day}T13:00:00Z")
            send(box, f"2024-03-15T00:00:0{number + 1}Z")
        box.travel_to("2024-04-01T02:00:00Z")
        found = books(box, 0)
        assert found.billed + found.listed == 5 * (1 + len(plans))
        # What came in the time of a plan in advance had its fee then, and what came last is the last plan's.
        assert found.billed >= 5 * len(
            {*(place for place, kind in enumerate(plans) if kind == "advance"), len(plans) - 1}
        )
