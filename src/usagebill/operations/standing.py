"""The state of an installation: due jobs, workers, invoices and webhooks of all organizations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from usagebill.core.api_logs import without_signature
from usagebill.core.event_shipments import EventShipment
from usagebill.core.event_sources import RefusedEvent
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.jobs import QueueState
from usagebill.core.monitoring_tasks import CountUnbilledEvents
from usagebill.core.organizations import Organization
from usagebill.core.payment_audit import ProviderAudit
from usagebill.core.processes import Process, missing
from usagebill.core.tasks import BillCustomer
from usagebill.core.webhooks import MessageStatus, WebhookEndpoint, WebhookMessage
from usagebill.operations import organizations
from usagebill.operations.provider_audits import last_audits
from usagebill.storage.conditions import eq, present
from usagebill.storage.jobs import task_of
from usagebill.storage.ports import Store, Transaction

_DAY = timedelta(days=1)
# A shipment skips the events of other organizations once there are half as many: its next event is no farther.
_LOOKED_THROUGH = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipping:
    """The lag of an event store for one organization.

    `waiting` is the number of unsent events, including those of other organizations in between; the first of them was
    received at `waits_since`. `counts` says whether the event store counts usage; `fault` why it is not trusted, if so.
    """

    organization_id: str
    event_store_id: str
    waiting: int
    waits_since: datetime | None
    counts: bool
    fault: str | None

    def waited(self, now: datetime) -> timedelta:
        """The waiting time of the first unsent event."""
        return timedelta() if self.waits_since is None else max(timedelta(), now - self.waits_since)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state at the instant `at`. `processes` have the database open, or had it within a week.

    `invoices` and `webhooks` are counts by status; `events` is the number stored.
    `unbilled` is the number of unbilled events by reason, from a worker's daily count, which was made at
    `unbilled_at` (the earliest, if there are several organizations); both are None before the first. `refused_events`
    is the number of listed entries of files and brokers that are no events. `last_backup_at` is the instant of the last
    backup that `usagebill backup` made, or was told of. `shipping` has an entry per event store and organization,
    `provider_audits` one per connection whose payments were compared with its provider's list. The jobs of `disabled`
    organizations stand still. `failing_endpoints` are those whose last webhook was not accepted.
    """

    at: datetime
    queue: QueueState
    processes: tuple[Process, ...]
    invoices: Mapping[str, int]
    webhooks: Mapping[str, int]
    events: int
    unbilled: Mapping[str, int] | None
    unbilled_at: datetime | None
    refused_events: int
    last_backup_at: datetime | None
    shipping: tuple[Shipping, ...] = ()
    provider_audits: tuple[ProviderAudit, ...] = ()
    disabled: tuple[Organization, ...] = ()
    failing_endpoints: tuple[WebhookEndpoint, ...] = ()

    @property
    def live(self) -> tuple[Process, ...]:
        """The processes that run, as far as is known."""
        return tuple(process for process in self.processes if process.is_live(self.at))

    @property
    def missing(self) -> list[Process]:
        """Those that died and whose place nobody has taken."""
        return missing(self.processes, self.at)

    @property
    def consumers(self) -> Mapping[str, list[Process]]:
        """The consumers that run, by their source."""
        found: dict[str, list[Process]] = {}
        for process in self.live:
            if process.consumes is not None:
                found.setdefault(process.consumes, []).append(process)
        return found

    @property
    def workers(self) -> int:
        """The number of workers that run."""
        return sum(process.workers for process in self.live)

    @property
    def last_done_at(self) -> datetime | None:
        """When any worker last did a job."""
        return max((known.last_done_at for known in self.processes if known.last_done_at is not None), default=None)

    def problems(self, max_age: timedelta) -> list[str]:
        """Problems that need a person, in words; empty if billing is running.

        A due job that has waited longer than `max_age` is a standstill, and so is an event not sent for that long to an
        event store in use, or a source in which messages have waited all that time. Webhooks may fail for that long.
        """
        problems: list[str] = []
        waited = self.queue.age_of_oldest(self.at)
        if waited > max_age:
            seconds = int(waited.total_seconds())
            problems.append(f"{self.queue.due} jobs are due, the first for {timedelta(seconds=seconds)}")
            if not self.workers:
                problems.append("no worker runs")
        if self.queue.failed:
            problems.append(f"{self.queue.failed} jobs have failed: see `usagebill jobs list`")
        for audit in self.provider_audits:
            if audit.failure is not None:
                problems.append(f"payments were not compared with {audit.connection_code}: {audit.failure}")
            elif audit.differences:
                command = f"`usagebill audit --provider {audit.connection_code}`"
                problems.append(f"{audit.differences} payments differ from {audit.connection_code}: see {command}")
        problems += self._of_consumers(max_age)
        problems += [
            f"webhooks to {without_signature(endpoint.webhook_url)} have failed since {since:%Y-%m-%d %H:%M} UTC"
            f" (organization {endpoint.organization_id}): see `usagebill webhooks list`"
            for endpoint in self.failing_endpoints
            if (since := endpoint.failing_since) is not None and self.at - since > max_age
        ]
        for shipping in self.shipping:
            if not shipping.counts:
                continue
            whose = f"organization {shipping.organization_id}"
            if shipping.fault is not None:
                problems.append(f"the event store is not believed ({whose}): {shipping.fault}")
            elif shipping.waited(self.at) > max_age:
                lag = timedelta(seconds=int(shipping.waited(self.at).total_seconds()))
                problems.append(f"{shipping.waiting} events were not sent to the event store for {lag} ({whose})")
        return problems

    def _of_consumers(self, max_age: timedelta) -> Iterator[str]:
        for process in self.missing:
            if process.consumes is not None:
                yield f"the consumer of {process.consumes} has died: {process.name}"
        for source, members in self.consumers.items():
            for member in members:
                if member.failing is not None:
                    yield f"the consumer {member.name} of {source} fails: {member.failing}"
            since = [member.waits_since for member in members if member.waits_since is not None]
            if len(since) == len(members) and (waited := self.at - max(since)) > max_age:
                most = max(member.waiting or 0 for member in members)
                seconds = timedelta(seconds=int(waited.total_seconds()))
                yield f"{most} messages wait in {source}, some of them for {seconds}"


def standing(store: Store, now: datetime) -> Standing:
    """The state of all organizations of a store at `now`, from indexes kept for lists, without reading records."""

    def look(tx: Transaction) -> Standing:
        known = organizations.find_all(tx)
        scoped = [tx.scoped(organization.id) for organization in known]
        counts = [task for snapshot in scoped if (task := _counted(snapshot)) is not None]
        return Standing(
            at=now,
            queue=tx.jobs.state(now),
            processes=tx.processes(),
            invoices={
                str(status): sum(tx.count(Invoice, eq("status", status)) for tx in scoped) for status in InvoiceStatus
            },
            webhooks={
                str(status): sum(tx.count(WebhookMessage, eq("status", status)) for tx in scoped)
                for status in MessageStatus
            },
            events=tx.events.stored(),
            disabled=tuple(organization for organization in known if organization.disabled_at is not None),
            unbilled=_unbilled(counts),
            unbilled_at=min((task.counted_at for task in counts if task.counted_at is not None), default=None),
            last_backup_at=tx.last_backup(),
            refused_events=sum(snapshot.count(RefusedEvent) for snapshot in scoped),
            failing_endpoints=tuple(
                endpoint for snapshot in scoped for endpoint in snapshot.find(WebhookEndpoint, present("failing_since"))
            ),
            provider_audits=tuple(audit for snapshot in scoped for audit in last_audits(snapshot)),
            shipping=tuple(
                shipping_of(snapshot, shipment) for snapshot in scoped for shipment in snapshot.find(EventShipment)
            ),
        )

    return store.read(None, look)


def shipping_of(tx: Transaction, shipment: EventShipment) -> Shipping:
    """The lag of a shipment's event store."""
    latest = tx.events.latest()
    end = min(latest, shipment.shipped_to + _LOOKED_THROUGH)
    following = tx.events.stored_since(shipment.shipped_to, up_to=end, at_most=1)
    return Shipping(
        organization_id=shipment.organization_id,
        event_store_id=shipment.event_store_id,
        waiting=latest - shipment.shipped_to if following else 0,
        waits_since=following[0][1].created_at if following else None,
        counts=shipment.is_read,
        fault=shipment.fault,
    )


def _counted(tx: Transaction) -> CountUnbilledEvents | None:
    """The organization's last count of unbilled events; None before the first."""
    job = tx.jobs.get(CountUnbilledEvents(organization_id=tx.organization_id or "").key)
    task = None if job is None else task_of(CountUnbilledEvents, job)
    if job is None or task is None or task.counted is None:
        return None
    # Earlier versions did not note the instant.
    return replace(task, counted_at=task.counted_at or job.due_at - _DAY)


def _unbilled(counts: Sequence[CountUnbilledEvents]) -> dict[str, int] | None:
    if not counts:
        return None
    total: Counter[str] = Counter()
    for task in counts:
        total.update(task.counted or {})
    return dict(total)


def next_run(store: Store, now: datetime) -> tuple[datetime, int] | None:
    """When customers are billed next after `now`, and how many at that instant; None if none is.

    Those whose billing is overdue are not among them: they are due jobs.
    """
    return store.read(None, lambda tx: tx.jobs.next_of(BillCustomer.kind, now))


def age_of_oldest_job(store: Store, now: datetime) -> timedelta:
    """The waiting time of the first due job that is not under way; zero if none is due."""
    return store.read(None, lambda tx: tx.jobs.state(now)).age_of_oldest(now)


def is_copy(store: Store) -> bool:
    """Whether the database file is a copy: processes have written to it when it was another file."""
    homes = {process.home for process in store.read(None, lambda tx: tx.processes()) if process.home}
    return bool(homes) and store.identity not in homes
