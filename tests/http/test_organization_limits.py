"""What one organization may do: requests a second, events a day, customers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.scenarios import plan_fields

from usagebill import Billing
from usagebill.core.errors import Forbidden, Invalid, TooManyRequests
from usagebill.core.organizations import (
    OrganizationLimits,
    check_customers,
    check_events,
    check_requests,
    limit_errors,
)
from usagebill.http.api import Answer, Api, Request
from usagebill.http.app import routes
from usagebill.operations import organizations
from usagebill.operations.events import ingest_each
from usagebill.runtime.clock import ManualClock

NOW = datetime(2024, 3, 5, 23, 59, 58, tzinfo=UTC)


class Caller:
    """Sends requests with a key of an organization."""

    def __init__(self, billing: Billing, key: str) -> None:
        self.api, self.key = Api(billing, routes()), key

    def send(self, method: str, path: str, body: object = None) -> Answer:
        path, _, query = path.partition("?")
        sent = b"" if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {self.key}"}
        return self.api.answer(Request(method=method, path=f"/api/v1/{path}", query=query, headers=headers, body=sent))

    def events(self, *names: str) -> tuple[int, str | None]:
        events = [{"transaction_id": name, "code": "calls", "external_subscription_id": "sub"} for name in names]
        return code_of(self.send("POST", "events/batch", {"events": events}))

    def customer(self, id: str) -> tuple[int, str | None]:
        return code_of(self.send("POST", "customers", {"customer": {"external_id": id}}))


def code_of(answer: Answer) -> tuple[int, str | None]:
    return answer.status, json.loads(answer.body).get("code")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def billing(url: str, clock: ManualClock) -> Iterator[Billing]:
    with Billing(url, clock=clock, deliver=False) as billing:
        yield billing


@pytest.fixture
def caller(billing: Billing) -> Caller:
    return Caller(billing, billing.api_keys.create().value)


def test_requests_of_all_keys_and_processes_count_together(
    url: str, billing: Billing, caller: Caller, clock: ManualClock
) -> None:
    billing.organizations.set_limits(requests_per_second=3)
    with Billing(url, clock=clock, deliver=False) as other:
        callers = [caller, Caller(other, billing.api_keys.create().value), Caller(other, caller.key)]
        assert [one.send("GET", "customers").status for one in callers] == [200, 200, 200]
        refused = callers[1].send("GET", "customers")
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert json.loads(refused.body)["message"] == (
            "the organization has made as many requests as it may in a second; wait as long as `Retry-After` says"
        )
        assert callers[0].customer("acme")[0] == 429
        clock.set(NOW + timedelta(seconds=1))
        answer = callers[0].send("POST", "customers", {"customer": {"external_id": "acme"}})
        assert answer.status == 200
        assert "retry-after" not in answer.headers


def test_requests_of_others_do_not_count(billing: Billing, caller: Caller) -> None:
    hooli = billing.store.write(None, lambda tx: organizations.create(tx, NOW, "Hooli"))
    billing.organizations.set_limits(requests_per_second=1)
    with Billing(billing.store, organization=hooli.id, clock=ManualClock(NOW), deliver=False) as other:
        theirs = Caller(other, other.api_keys.create().value)
        assert [caller.send("GET", "plans").status for _ in range(2)] == [200, 429]
        assert [theirs.send("GET", "plans").status for _ in range(3)] == [200, 200, 200]


def test_usage_that_was_held_is_captured_beyond_the_events_of_a_day_and_counts(
    billing: Billing, caller: Caller, clock: ManualClock
) -> None:
    billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
    billing.plans.create(**plan_fields())
    billing.customers.upsert(external_id="acme")
    billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="sub")
    billing.organizations.set_limits(events_per_day=2)
    held = [billing.holds.create(external_subscription_id="sub", code="calls").id for _ in range(2)]
    assert caller.events("a") == (200, None)
    billing.holds.capture(held[0])
    assert caller.events("b") == (403, "daily_event_limit_reached")
    answer = caller.send("POST", f"holds/{held[1]}/capture", {"event": {"transaction_id": "late"}})
    assert answer.status == 200
    assert billing.events.get("late").code == "calls"


def test_only_events_that_are_stored_count_as_events_of_a_day(billing: Billing, caller: Caller) -> None:
    billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
    billing.plans.create(**plan_fields())
    billing.customers.upsert(external_id="acme")
    billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="sub")
    billing.spend_limits.create_of_customer("acme", code="cap", units="1", billable_metric_code="calls")
    billing.organizations.set_limits(events_per_day=2)
    events = [{"transaction_id": name, "code": "calls", "external_subscription_id": "sub"} for name in "abc"]
    answer = caller.send("POST", "events/batch?enforce=true", {"events": events})
    assert [one["transaction_id"] for one in json.loads(answer.body)["events"]] == ["a"]
    assert caller.events("d") == (200, None)
    assert caller.events("e") == (403, "daily_event_limit_reached")


def test_events_of_a_day_are_refused_as_a_whole_and_taken_the_next_day(
    billing: Billing, caller: Caller, clock: ManualClock
) -> None:
    billing.organizations.set_limits(events_per_day=3)
    assert caller.events("a", "b") == (200, None)
    assert caller.events("c", "d") == (403, "daily_event_limit_reached")
    # What was refused, for this reason or another, has used up nothing.
    assert caller.events("a") == (422, "validation_errors")
    assert caller.events("c") == (200, None)
    single = {"event": {"transaction_id": "d", "code": "calls", "external_subscription_id": "sub"}}
    assert code_of(caller.send("POST", "events", single)) == (403, "daily_event_limit_reached")
    with pytest.raises(Forbidden):
        billing.events.create(transaction_id="d", code="calls", external_subscription_id="sub")
    # Brokers and files are the installation's own.
    billing.writing(lambda work: ingest_each(work, [{**single["event"], "transaction_id": "e"}]))
    assert {event.transaction_id for event in billing.events.list().items} == {"a", "b", "c", "e"}
    clock.set(NOW + timedelta(seconds=2))
    assert caller.events("d", "f", "g") == (200, None)
    assert caller.events("h") == (403, "daily_event_limit_reached")


def test_one_customer_too_many_is_refused_and_those_there_are_can_be_changed(billing: Billing, caller: Caller) -> None:
    assert [caller.customer(id)[0] for id in ("a", "b")] == [200, 200]
    billing.organizations.set_limits(customers=2)
    assert caller.customer("c") == (403, "customer_limit_reached")
    assert caller.customer("a") == (200, None)
    caller.send("DELETE", "customers/b")
    assert caller.customer("c") == (200, None)
    with pytest.raises(Forbidden):
        billing.customers.upsert(external_id="d")
    assert {customer.external_id for customer in billing.customers.list().items} == {"a", "c"}


def test_limits_are_lifted_one_by_one_and_cannot_be_set_over_http(billing: Billing, caller: Caller) -> None:
    for _ in range(2):
        billing.organizations.set_limits(requests_per_second=1, events_per_day=1, customers=1)
        assert billing.organizations.get().limits == OrganizationLimits(
            requests_per_second=1, events_per_day=1, customers=1
        )
        billing.organizations.set_limits(requests_per_second=None, customers=None)
        assert billing.organizations.get().limits == OrganizationLimits(events_per_day=1)
    sent = {"organization": {"name": "Us", "limits": {"events_per_day": None}, "events_per_day": None}}
    assert caller.send("PUT", "organizations", sent).status == 200
    assert billing.organizations.get().limits == OrganizationLimits(events_per_day=1)
    with pytest.raises(Invalid) as refused:
        billing.organizations.set_limits(customers=0, events_per_day=-1)
    assert refused.value.details == {
        "events_per_day": ["value_is_out_of_range"],
        "customers": ["value_is_out_of_range"],
    }


@pytest.mark.parametrize(
    ("check", "limit", "passes", "fails", "problem"),
    [
        (check_customers, "customers", 4, 5, Forbidden),
        (check_events, "events_per_day", 5, 6, Forbidden),
        (check_requests, "requests_per_second", 5, 6, TooManyRequests),
    ],
)
def test_a_limit_of_five(check: Any, limit: str, passes: int, fails: int, problem: type[Exception]) -> None:
    limits = OrganizationLimits(**{limit: 5})
    assert limit_errors(limits) == {}
    check(limits, passes)
    check(OrganizationLimits(), 10**9)
    with pytest.raises(problem):
        check(limits, fails)
