"""What must hold of any events that are paid in advance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, strategies as st
from tests.examples import examples
from tests.scenarios import Scenario, charge_on, price_ranges

from usagebill.operations.invoices.charges_in_advance import bill_event
from usagebill.storage.event_queries import EventFilter

pytestmark = pytest.mark.slow

moderate = examples(50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
_numbers = count(1)


# By plan code: a model, its properties, and whether usage may go down without changing what it costs.
PLANS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "standard": ("standard", {"amount": "0.0137"}, True),
    "graduated": (
        "graduated",
        {"graduated_ranges": price_ranges((0, 5, "0.02", "0.01"), (6, 20, "0.013", "1"), (21, None, "0.1", "3"))},
        True,
    ),
    "package": ("package", {"amount": "7", "package_size": 3, "free_units": 4}, True),
    "graduated_percentage": (
        "graduated_percentage",
        {"graduated_percentage_ranges": price_ranges((0, 10, "2.5", "0.3"), (11, None, "0.7", "2"), unit="rate")},
        True,
    ),
    "percentage": ("percentage", {"rate": "1.5", "fixed_amount": "0.25"}, False),
}


@pytest.fixture(scope="module")
def box() -> Iterator[Scenario]:
    with Scenario(now="2024-03-31T00:00:00Z") as box:
        box.customer()
        metric = box.metric("gb")
        for code, (model, properties, _) in PLANS.items():
            charge = charge_on(metric, model, **properties)
            box.plan({**charge, "pay_in_advance": True, "invoiceable": False}, code=code)
        yield box


def subscribed(box: Scenario, plan: str) -> str:
    name = f"s{next(_numbers)}"
    box.subscribe(plan, external_id=name, subscription_at="2024-03-01T00:00:00Z")
    return name


def send(box: Scenario, name: str, events: Sequence[tuple[int, Decimal]]) -> None:
    """Events (second, value) in one batch; each is named by its second."""
    start = int(box.now.timestamp()) - 86_400
    sent = [
        {
            "transaction_id": str(second),
            "code": "gb",
            "external_subscription_id": name,
            "timestamp": start + second,
            "properties": {"value": str(value)},
        }
        for second, value in events
    ]
    box.post("/events/batch", events=sent)


def fees(box: Scenario, name: str) -> dict[str, dict[str, Any]]:
    fees = box.get(f"/fees?external_subscription_id={name}")["fees"]
    return {fee["event_transaction_id"]: fee for fee in fees}


amounts = st.decimals(min_value="0.01", max_value="30", places=2)
changes = st.decimals(min_value="-30", max_value="30", places=2)


@moderate
@given(
    plan=st.sampled_from(sorted(PLANS)),
    first=amounts,
    steps=st.lists(st.tuples(changes, st.booleans()), max_size=7),
)
def test_what_events_pay_adds_up_to_the_price_of_all_of_them(
    box: Scenario, plan: str, first: Decimal, steps: list[tuple[Decimal, bool]]
) -> None:
    """Whether they come one by one or together (each step says whether a new batch begins with it)."""
    may_go_down = PLANS[plan][2]
    name = subscribed(box, plan)
    pending = [(0, first)]
    for second, (change, begins_batch) in enumerate(steps, start=1):
        if begins_batch:
            send(box, name, pending)
            pending = []
        pending.append((second, change if may_go_down else abs(change) + Decimal("0.01")))
    send(box, name, pending)
    paid = sum((Decimal(fee["precise_amount"]) for fee in fees(box, name).values()), Decimal(0))
    whole = box.usage(external_id=name)["amount_cents"]
    assert (paid * 100).quantize(Decimal(1), rounding=ROUND_HALF_UP) == whole
    assert len(fees(box, name)) == len(steps) + 1


@moderate
@given(plan=st.sampled_from(sorted(PLANS)), values=st.lists(changes, min_size=1, max_size=6), data=st.data())
def test_the_order_inside_a_batch_does_not_matter(
    box: Scenario, plan: str, values: list[Decimal], data: st.DataObject
) -> None:
    events = list(enumerate(values))
    shuffled = data.draw(st.permutations(events))
    paid = []
    for sent in (events, shuffled):
        name = subscribed(box, plan)
        send(box, name, sent)
        paid.append({id: (fee["precise_amount"], fee["units"]) for id, fee in fees(box, name).items()})
    assert paid[0] == paid[1]


@moderate
@given(plan=st.sampled_from(sorted(PLANS)), values=st.lists(changes, min_size=1, max_size=4), repeats=st.integers(1, 3))
def test_no_retry_ever_bills_an_event_twice(box: Scenario, plan: str, values: list[Decimal], repeats: int) -> None:
    name = subscribed(box, plan)
    send(box, name, list(enumerate(values)))
    before = fees(box, name)
    events = box.billing.reading(lambda work: work.tx.events.find(EventFilter(external_subscription_id=name)))
    for _ in range(repeats):
        for event in events:
            assert box.billing.writing(lambda work, event=event: bill_event(work, event)) == []  # type: ignore[misc]
    assert fees(box, name) == before
    # Nor does it change what the next event pays.
    send(box, name, [(100, Decimal(50))])
    twin = subscribed(box, plan)
    send(box, twin, [*enumerate(values), (100, Decimal(50))])
    assert fees(box, twin)["100"]["precise_amount"] == fees(box, name)["100"]["precise_amount"]
