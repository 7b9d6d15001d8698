"""How an installation stands: its due jobs, its workers, its invoices and webhooks, of all organizations together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from usagebill.core.event_sources import RefusedEvent
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.jobs import QueueState, WorkerSeen
from usagebill.core.monitoring_tasks import CountUnbilledEvents
from usagebill.core.webhooks import MessageStatus, WebhookMessage
from usagebill.operations import organizations
from usagebill.storage.conditions import eq
from usagebill.storage.jobs import task_of
from usagebill.storage.ports import Store, Transaction

__all__ = ["Standing", "age_of_oldest_job", "is_copy", "note_worker", "standing"]

_LIVE = timedelta(minutes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How it stands `at` that instant. `invoices` and `webhooks` count by status; `events` is how many were stored.

    `unbilled` is how many of them are not billed, by reason, as a worker last counted them (once a day).
    `refused_events` is how many things that files and brokers held are listed as no events.
    """

    at: datetime
    queue: QueueState
    invoices: Mapping[str, int]
    webhooks: Mapping[str, int]
    events: int
    unbilled: Mapping[str, int]
    refused_events: int

    @property
    def live_workers(self) -> tuple[WorkerSeen, ...]:
        """The workers seen within the last two minutes."""
        return tuple(worker for worker in self.queue.workers if worker.seen_at >= self.at - _LIVE)

    def problems(self, max_age: timedelta) -> list[str]:
        """What a person should look at, in words; empty if billing goes on.

        A due job that has waited for longer than `max_age` is a standstill.
        """
        problems: list[str] = []
        waited = self.queue.age_of_oldest(self.at)
        if waited > max_age:
            seconds = int(waited.total_seconds())
            problems.append(f"{self.queue.due} jobs are due, the first for {timedelta(seconds=seconds)}")
            if not self.live_workers:
                problems.append("no worker was seen within the last two minutes")
        if self.queue.failed:
            problems.append(f"{self.queue.failed} jobs have failed: see `usagebill jobs list`")
        return problems


def standing(store: Store, now: datetime) -> Standing:
    """How all organizations of a store stand at `now`: from what is kept for lists, without reading records."""

    def look(tx: Transaction) -> Standing:
        scoped = [tx.scoped(organization.id) for organization in organizations.find_all(tx)]
        return Standing(
            at=now,
            queue=tx.jobs.state(now),
            invoices={
                str(status): sum(tx.count(Invoice, eq("status", status)) for tx in scoped) for status in InvoiceStatus
            },
            webhooks={
                str(status): sum(tx.count(WebhookMessage, eq("status", status)) for tx in scoped)
                for status in MessageStatus
            },
            events=tx.events.stored(),
            unbilled=_unbilled(scoped),
            refused_events=sum(snapshot.count(RefusedEvent) for snapshot in scoped),
        )

    return store.read(None, look)


def _unbilled(scoped: Iterable[Transaction]) -> dict[str, int]:
    counted: Counter[str] = Counter()
    for tx in scoped:
        job = tx.jobs.get(CountUnbilledEvents(organization_id=tx.organization_id or "").key)
        if job is not None:
            counted.update(task_of(CountUnbilledEvents, job).counted or {})
    return dict(counted)


def age_of_oldest_job(store: Store, now: datetime) -> timedelta:
    """For how long the first job that is due, and not being done, has waited; zero if none is due."""
    return store.read(None, lambda tx: tx.jobs.state(now)).age_of_oldest(now)


def note_worker(store: Store, worker: WorkerSeen) -> None:
    """Note in the file that a worker was seen."""
    known = replace(worker, home=store.identity)
    store.write(None, lambda tx: tx.jobs.note_worker(known))


def is_copy(store: Store, now: datetime) -> bool:
    """Whether workers have written to the file, and it was another one then: this is a copy of it."""
    workers = store.read(None, lambda tx: tx.jobs.state(now)).workers
    homes = {worker.home for worker in workers if worker.home}
    return bool(homes) and store.identity not in homes
