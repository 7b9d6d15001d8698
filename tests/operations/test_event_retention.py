"""Events of long billed periods are removed, and no bill, audit or sender notices more than it is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner
from tests.json_asserts import refused
from tests.postgresql import server_url
from tests.scenarios import Scenario, charge_in_advance_on, charge_on, filter_on

from usagebill import Billing
from usagebill.cli import main
from usagebill.core.errors import NotAllowed
from usagebill.core.event_shipments import EventShipment
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.recounts import EVENTS_REMOVED
from usagebill.core.removed_events import RemovedEvents, with_removed
from usagebill.operations import event_retention
from usagebill.operations.event_retention import Removal
from usagebill.storage.conditions import asc, eq, present
from usagebill.storage.event_queries import EventFilter

START = "2024-01-01T00:00:00Z"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.second_engine)])
def box(request: pytest.FixtureRequest) -> Iterator[Scenario]:
    """January to 15 April of a subscription by month, with usage of every kind in January and February."""
    server = {} if request.param == "sqlite" else {"database": server_url()}
    with Scenario(now=START, **server) as box:
        box.customer()
        gb = box.metric("gb", filters=[{"key": "region", "values": ["eu", "us"]}])
        seats = box.metric("seats", "unique_count_agg", recurring=True)
        box.plan(
            charge_on(gb, code="gb", amount="1", filters=[filter_on({"region": ["eu"]}, amount="2")]),
            charge_on(box.metric("hits", "count_agg"), code="hits", amount="0.5"),
            charge_on(seats, code="seats", amount="10"),
            charge_in_advance_on(box.metric("calls"), code="calls", amount="1"),
        )
        box.subscribe()
        for month in ("01", "02"):
            box.travel_to(f"2024-{month}-10T12:00:00Z")
            for region, value in (("eu", 3), ("us", "4.25"), ("eu", 0)):
                box.event("gb", region=region, value=value)
            box.event("hits")
            box.event("seats", value=f"person {month}")
            box.event("calls", value=7)
        box.travel_to("2024-04-15T00:00:00Z")
        yield box


def removed(box: Scenario, months: int) -> Removal:
    """What is removed of periods that ended so many months ago."""
    billing = box.billing
    removal = billing.reading(lambda reader: event_retention.begin(reader, months))
    while not removal.is_done:
        removal = billing.writing(partial(event_retention.go_on, removal=removal))
    return removal


def stored(box: Scenario) -> list[tuple[str, int]]:
    """Code and month of the events that are there."""
    events = box.billing._system.ask(lambda tx: tx.scoped(box.billing.organization.id).events.find(EventFilter()))
    return sorted((event.code, event.timestamp.month) for event in events)


def papers(box: Scenario) -> object:
    return [{**invoice, "updated_at": None} for invoice in box.invoices()]


def test_what_no_bill_needs_is_removed_and_every_bill_and_audit_stays(box: Scenario) -> None:
    before, audited = papers(box), box.billing.audit()
    assert removed(box, 2).removed == 4
    january = [("calls", 1), ("seats", 1)]
    february = [("calls", 2), ("gb", 2), ("gb", 2), ("gb", 2), ("hits", 2), ("seats", 2)]
    assert stored(box) == sorted(january + february)
    assert papers(box) == before
    report = box.billing.audit()
    assert report.findings == ()
    left = {(line.kind, line.reason): line.count for line in report.not_recounted}
    # One for each filter of gb, and one of hits; those of February are recounted still.
    assert left == {("usage", EVENTS_REMOVED): 3}
    assert report.recounted["usage"] == audited.recounted["usage"] - 3
    # Of February: 1 month before 15 April is 15 March. Nothing is removed twice.
    assert (removed(box, 1).removed, removed(box, 1).removed) == (4, 0)
    assert stored(box) == [("calls", 1), ("calls", 2), ("seats", 1), ("seats", 2)]
    assert box.billing.audit().findings == ()
    # The levels go on: 2 seats of 10.00.
    box.event("gb", region="us", value=1)
    box.travel_to("2024-05-01T01:00:00Z")
    last = box.invoices()[-1]
    units = {fee["item"]["code"]: fee["units"] for fee in last["fees"] if fee["item"]["type"] == "charge"}
    assert (units["seats"], units["gb"]) == ("2.0", "1.0")
    assert box.billing.audit().findings == ()


def test_large_periods_are_removed_in_steps_with_one_digest(box: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    events = box.billing._system.ask(
        lambda tx: tx.scoped(box.billing.organization.id).events.find(EventFilter(code="gb"))
    )
    whole = sorted((event for event in events if event.timestamp.month == 1), key=lambda event: event.order)
    monkeypatch.setattr(event_retention, "_TOGETHER", 1)
    assert removed(box, 2).removed == 4
    (period,) = box.billing.reading(lambda reader: reader.tx.find(BillingPeriod, present("events_removed_at")))
    series = {one.code: one for one in period.removed}
    assert (series["gb"].events_count, str(series["gb"].total)) == (3, "7.25")
    assert (series["hits"].events_count, series["hits"].field_name) == (1, None)
    at_once = with_removed(RemovedEvents(code="gb", fees="", field_name="value"), whole)
    assert series["gb"].digest == at_once.digest


def test_a_removal_says_what_it_was_and_refuses_what_would_count_it_again(box: Scenario) -> None:
    removed(box, 2)
    hits = [fee for fee in box.usage_fees() if fee["item"]["code"] == "hits"]
    fee = min(hits, key=lambda fee: fee["created_at"])
    explained = box.get(f"/invoices/{fee['svc_invoice_id']}/explain")
    text = json.dumps(explained)
    assert "its events were removed on 2024-04-15" in text
    assert "3 events with value 7.25 in all, digest " in text
    assert box.get(f"/fees/{fee['svc_id']}/events", status=405)["code"] == "events_were_removed"
    with pytest.raises(NotAllowed, match="events_were_removed"):
        box.billing.plans.compare("basic", "basic", date(2024, 1, 1), date(2024, 1, 31))
    # Sent again, it may have been billed; what was not removed is known still.
    again = {"transaction_id": "t1", "code": "gb", "external_subscription_id": "sub", "timestamp": 1704888000}
    assert refused(box.send("POST", "/events", {"event": again})) == {"timestamp": ["events_were_removed"]}
    assert refused(box.send("POST", "/events/batch", {"events": [again]})) == {
        "0": {"timestamp": ["events_were_removed"]}
    }
    assert box.send("POST", "/events", {"event": {**again, "code": "other", "transaction_id": "new"}})[0] == 200
    # A level by the same code would be counted from the first event on.
    box.delete("/billable_metrics/hits")
    metric = {"name": "Hits", "code": "hits", "aggregation_type": "sum_agg", "field_name": "value", "recurring": True}
    answer = box.send("POST", "/billable_metrics", {"billable_metric": metric})
    assert refused(answer) == {"recurring": ["needs_removed_events"]}
    # A subscription of the same id that should have begun then begins after what was invoiced.
    box.unsubscribe()
    assert box.subscribe(subscription_at=START)["started_at"] >= "2024-04-15"


def test_a_line_that_is_changed_afterwards_is_found(box: Scenario) -> None:
    removed(box, 2)

    def change(work: Any) -> None:
        hits = work.tx.find(Fee, eq("fee_type", "charge"), eq("events_count", 1), order=[asc("created_at")])
        fee = next(fee for fee in hits if fee.item.code == "hits")
        work.tx.replace(replace(fee, units=fee.units + 1))

    box.billing.writing(change)
    findings = box.billing.audit().findings
    assert any("whose 1 events were removed" in finding.detail for finding in findings)


def test_events_of_a_draft_and_those_that_came_late_are_kept(box: Scenario) -> None:
    late = {"transaction_id": "late", "code": "gb", "external_subscription_id": "sub", "timestamp": 1704888000}
    box.post("/events", event={**late, "properties": {"value": 1}})
    assert removed(box, 2).removed == 4
    assert ("gb", 1) in stored(box)
    (unbilled,) = [event for event in box.get("/events?unbilled=true")["events"] if event["code"] == "gb"]
    assert unbilled["transaction_id"] == "late"


def test_nothing_is_removed_under_a_void_invoice_or_a_line_that_differs(box: Scenario) -> None:
    january, february = [
        invoice
        for invoice in box.invoices()
        if any(fee["item"]["code"] == "hits" and fee["events_count"] for fee in invoice["fees"])
    ]
    box.post(f"/invoices/{january['svc_id']}/void")

    def change(work: Any) -> None:
        of_invoice = eq("invoice_id", february["svc_id"]), eq("fee_type", "charge"), eq("events_count", 1)
        fee = next(fee for fee in work.tx.find(Fee, *of_invoice) if fee.item.code == "hits")
        work.tx.replace(replace(fee, units=fee.units + 1))

    box.billing.writing(change)
    removal = removed(box, 1)
    assert (removal.removed, removal.kept) == (0, 2)


def test_the_setting_removes_every_day_until_it_is_taken_away(box: Scenario) -> None:
    shown = box.put("/organizations", organization={"event_retention_months": 2})["organization"]
    assert shown["event_retention_months"] == 2
    box.run_due()
    assert ("hits", 1) not in stored(box)
    assert ("hits", 2) in stored(box)
    box.travel_to("2024-05-01T01:00:00Z")
    assert ("hits", 2) not in stored(box)
    assert box.billing.audit().findings == ()
    box.put("/organizations", organization={"event_retention_months": None})
    assert "event_retention_months" not in box.get("/organizations")["organization"]
    assert refused(box.send("PUT", "/organizations", {"organization": {"event_retention_months": 0}})) == {
        "event_retention_months": ["value_is_out_of_range"]
    }


def test_with_an_event_store_nothing_is_removed(box: Scenario) -> None:
    now = box.now

    def ship(work: Any) -> None:
        shipment = EventShipment(
            id=work.new_id(),
            organization_id=work.organization.id,
            event_store_id="store",
            created_at=now,
            updated_at=now,
        )
        work.tx.insert(shipment)

    box.billing.writing(ship)
    with pytest.raises(NotAllowed, match="events_are_shipped"):
        removed(box, 1)


def test_the_command_removes_and_says_how_many(database: str) -> None:
    with Billing(database) as billing:
        billing.customers.upsert(external_id="acme")
    ran = CliRunner().invoke(main, ["events", "remove", "--older-than-months", "3", "--db", database, "--json"])
    assert (ran.exit_code, json.loads(ran.output)) == (0, {"removed": 0, "periods_kept": 0})
