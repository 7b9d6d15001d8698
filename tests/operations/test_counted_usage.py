"""What was billed stays billed: the events of a fee and the list of unbilled events follow what was counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.scenarios import Scenario, charge_in_advance_on, charge_on, filter_on

pytestmark = pytest.mark.beyond_reference


@pytest.fixture
def box() -> Iterator[Scenario]:
    """Calls of January in two regions, billed; those of eu by a filter."""
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        metric = box.metric("calls", "count_agg", filters=[{"key": "region", "values": ["eu", "us"]}])
        advance = box.metric("jobs", "count_agg")
        box.plan(
            charge_on(metric, amount="1", code="calls", filters=[filter_on({"region": ["eu"]}, amount="2")]),
            charge_in_advance_on(advance, amount="1", code="jobs"),
        )
        box.subscribe()
        box.travel_to("2024-01-10T00:00:00Z")
        for region in ("eu", "eu", "us"):
            box.event("calls", region=region)
        box.event("jobs")
        box.travel_to("2024-02-02T00:00:00Z")
        yield box


def unbilled(box: Scenario) -> list[tuple[str, str]]:
    listed = box.get("/events?unbilled=true")["events"]
    return [(event["transaction_id"], event["unbilled"]["code"]) for event in listed]


def counted(box: Scenario) -> list[list[str]]:
    """The transaction ids behind each usage fee."""
    fees = sorted(box.usage_fees(), key=lambda fee: (fee["created_at"], fee["svc_id"]))
    return [
        sorted(event["transaction_id"] for event in box.get(f"/fees/{fee['svc_id']}/events")["events"])
        for fee in fees
        if fee["events_count"] or fee["event_transaction_id"]
    ]


def renamed(box: Scenario) -> None:
    box.put("/subscriptions/sub", subscription={"plan_overrides": {"name": "Ours"}})


def without_charge(box: Scenario) -> None:
    box.delete("/plans/basic/charges/calls")
    box.delete("/plans/basic/charges/jobs")


def without_metric(box: Scenario) -> None:
    box.delete("/billable_metrics/calls")
    box.delete("/billable_metrics/jobs")


def without_filter(box: Scenario) -> None:
    box.put("/plans/basic/charges/calls", charge={"properties": {"amount": "1"}, "filters": []})


def without_value(box: Scenario) -> None:
    box.put("/billable_metrics/calls", billable_metric={"filters": [{"key": "region", "values": ["us"]}]})


CHANGES = [renamed, without_charge, without_metric, without_filter, without_value]


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_billed_is_never_unbilled_and_on_one_fee(box: Scenario, change: Callable[[Scenario], None]) -> None:
    before = counted(box)
    assert sorted(before) == [["t1", "t2"], ["t3"], ["t4"]]
    assert unbilled(box) == []
    change(box)
    assert unbilled(box) == []
    assert counted(box) == before
    box.travel_to("2024-03-02T00:00:00Z")
    assert unbilled(box) == []
    assert counted(box) == before


def test_what_comes_late_is_on_no_fee_whatever_is_charged_by_then(box: Scenario) -> None:
    before = counted(box)
    box.events("calls", {"at": 1704873600, "region": "eu"})
    assert unbilled(box) == [("t5", "period_already_billed")]
    without_charge(box)
    assert unbilled(box) == [("t5", "period_already_billed")]
    assert counted(box) == before


def test_a_late_event_that_is_charged_in_arrears_and_in_advance_is_listed_for_the_part_in_arrears(
    box: Scenario,
) -> None:
    metric = box.get("/billable_metrics/calls")["billable_metric"]["svc_id"]
    box.post("/plans/basic/charges", charge=charge_in_advance_on(metric, amount="1", code="at-once"))
    box.travel_to("2024-02-02T00:01:00Z")
    box.events("calls", {"at": 1704873600, "region": "eu"})
    assert unbilled(box) == [("t5", "period_already_billed")]
    # Its part in advance is billed.
    assert ["t5"] in counted(box)
