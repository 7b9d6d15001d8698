"""How soon ongoing balances count an event: the refresh is due within five seconds, and the worker is woken for it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from usagebill import Billing
from usagebill.core.jobs import Job
from usagebill.core.tasks import RefreshWallets
from usagebill.fields import ChargeFields, EventFields
from usagebill.queries.wallets import active_wallets
from usagebill.runtime.clock import ManualClock

LATEST = timedelta(seconds=5)
MARCH = datetime(2024, 3, 10, 12, tzinfo=UTC)


class Watched:
    """A customer with two subscriptions and three wallets, in a billing system whose due work nobody does."""

    def __init__(self, billing: Billing, clock: ManualClock) -> None:
        self.billing, self.clock = billing, clock
        metric = billing.billable_metrics.create(name="GB", code="gb", aggregation_type="sum_agg", field_name="value")
        charge: ChargeFields = {
            "billable_metric_id": metric.id,
            "charge_model": "standard",
            "properties": {"amount": "1"},
        }
        terms: dict[str, Any] = {"interval": "monthly", "amount_cents": 0, "amount_currency": "EUR"}
        billing.plans.create(name="Basic", code="basic", pay_in_advance=False, charges=[charge], **terms)
        self.customer_id = billing.customers.upsert(external_id="acme", currency="EUR").id
        for external_id in ("sub", "other"):
            billing.subscriptions.create(external_customer_id="acme", external_id=external_id, plan_code="basic")
        for priority in (1, 2, 3):
            billing.wallets.create(
                external_customer_id="acme", rate_amount="1", currency="EUR", priority=priority, granted_credits="7"
            )
        billing.run_due()
        self.woken: list[None] = []
        billing.on_immediate(lambda: self.woken.append(None))
        self._sent = 0

    def ingest(self, *values: int, subscription: str = "sub", earlier: timedelta = timedelta(0)) -> None:
        events: list[EventFields] = []
        for value in values:
            self._sent += 1
            events.append(
                {
                    "transaction_id": f"t{self._sent}",
                    "code": "gb",
                    "external_subscription_id": subscription,
                    "timestamp": (self.clock.now() - earlier).timestamp(),
                    "properties": {"value": value},
                }
            )
        self.billing.events.ingest(events)

    def wait(self, time: timedelta) -> None:
        self.clock.set(self.clock.now() + time)

    def stored(self) -> list[tuple[int, int]]:
        wallets = self.billing.reading(lambda reader: active_wallets(reader, self.customer_id))
        return [(wallet.ongoing_usage_balance_cents, wallet.ongoing_balance_cents) for wallet in wallets]

    def on_demand(self) -> list[tuple[int, int]]:
        wallets = self.billing.reading(lambda reader: active_wallets(reader, self.customer_id))
        get = self.billing.wallets.get
        current = [get(wallet.id, current_ongoing_balance=True) for wallet in wallets]
        return [(wallet.ongoing_usage_balance_cents, wallet.ongoing_balance_cents) for wallet in current]

    def refresh(self) -> Job:
        job = self.billing.reading(
            lambda reader: reader.tx.jobs.get(RefreshWallets(wallet_id="", customer_id=self.customer_id).key)
        )
        assert job is not None
        return job

    def follow(self) -> None:
        """What a worker does at this very instant, after which the stored balances are those computed on demand."""
        stale, current = self.stored(), self.on_demand()
        assert stale != current
        assert timedelta(0) <= self.refresh().due_at - self.clock.now() <= LATEST
        assert self.woken
        self.woken.clear()
        self.billing.run_due(self.refresh().due_at, immediate=True)
        assert self.stored() == self.on_demand() == current


@pytest.fixture
def watched() -> Iterator[Watched]:
    clock = ManualClock(MARCH)
    with Billing(":memory:", clock=clock, deliver=False) as billing:
        yield Watched(billing, clock)


def test_one_event_is_counted_at_once(watched: Watched) -> None:
    watched.ingest(3)
    watched.follow()
    assert watched.stored()[0] == (300, 400)


def test_events_of_every_subscription_are_counted_at_once(watched: Watched) -> None:
    watched.ingest(4, 5)
    watched.ingest(8, subscription="other")
    watched.follow()
    assert sum(usage for usage, _ in watched.stored()) == 1700


def test_events_keep_balances_fresh_second_after_second(watched: Watched) -> None:
    for seconds in (0, 1, 3, 60):
        watched.wait(timedelta(seconds=seconds))
        watched.ingest(1)
        watched.follow()


def test_an_event_that_comes_while_a_refresh_waits_is_counted_by_that_one(watched: Watched) -> None:
    watched.ingest(1)
    watched.wait(timedelta(seconds=4))
    watched.ingest(2)
    assert watched.clock.now() - watched.refresh().due_at <= LATEST
    watched.billing.run_due(immediate=True)
    assert watched.stored() == watched.on_demand()
    assert watched.stored()[0] == (300, 400)


def test_an_event_dated_back_is_counted_at_once_too(watched: Watched) -> None:
    watched.wait(timedelta(days=10))
    watched.ingest(2, earlier=timedelta(days=9))
    watched.follow()
