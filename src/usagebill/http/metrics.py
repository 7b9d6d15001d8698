"""`/metrics`, for monitoring systems, in the text format of Prometheus.

Requests are counted by this process. Everything else is read from the database on each scrape, at most once every few
seconds: it is the same from every process, and costs other requests nothing.
"""

from __future__ import annotations

import hmac
import platform
import threading
import time
from collections import Counter as Counts
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from usagebill import __version__
from usagebill.billing import Billing
from usagebill.core.errors import DatabaseFailed
from usagebill.core.processes import ProcessKind
from usagebill.core.tasks import BillCustomer, SendEmail
from usagebill.core.unbilled import Reason
from usagebill.operations.standing import Standing, standing
from usagebill.storage.ports import Store

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_READ_AGAIN_AFTER_SECONDS: Final = 5.0


class Metrics:
    """The metrics of one server process; `key` gives access, as the bearer token of a request."""

    def __init__(self, billing: Billing, key: str) -> None:
        self._key = key.encode()
        self._registry = CollectorRegistry(auto_describe=False)
        self._requests = Counter(
            "usagebill_http_requests",
            "Requests answered by this process.",
            ("method", "path", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "usagebill_http_request_duration_seconds",
            "Seconds from the first byte of a request to the last of its answer.",
            ("method", "path"),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._counters: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._registry.register(_Database(billing))
        # The process itself: its memory, its CPU time, its open files and its start.
        ProcessCollector(registry=self._registry)

    def opens(self, authorization: str) -> bool:
        """Whether this `Authorization` header holds the key."""
        scheme, _, token = authorization.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._key)

    def observe(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request. `path` is the operation's, with its parameters in braces; unusual methods are `other`."""
        method = method if method in _METHODS else "other"
        known = self._counters.get((method, path, status))
        if known is None:
            known = self._requests.labels(method, path, str(status)), self._seconds.labels(method, path)
            self._counters[method, path, status] = known
        known[0].inc()
        known[1].observe(seconds)

    def text(self) -> bytes:
        """All metrics as they are now."""
        return generate_latest(self._registry)


class _Database(Collector):
    """Metrics read from the database."""

    def __init__(self, billing: Billing) -> None:
        self._billing = billing
        self._turn = threading.Lock()
        self._read: tuple[float, Standing] | None = None

    def collect(self) -> Iterable[Metric]:
        store = self._billing.store
        known: Standing | None = None
        with suppress(DatabaseFailed), self._turn:
            if self._read is None or time.monotonic() - self._read[0] >= _READ_AGAIN_AFTER_SECONDS:
                self._read = time.monotonic(), standing(store, self._billing.clock.now())
            known = self._read[1]
        is_up = known is not None and store.reachability.failure is None
        yield GaugeMetricFamily(
            "usagebill_database_up", "1 if the database answers, and has room left, as this process sees it.", is_up
        )
        yield _gauge("usagebill_storage_free_bytes", "The room on the disk of the database.", store.free_bytes)
        yield from _program(store)
        if known is not None:
            yield from _families(known)


def _gauge(name: str, meaning: str, value: float | None) -> GaugeMetricFamily:
    """A gauge; without a sample where there is no value."""
    family = GaugeMetricFamily(name, meaning)
    if value is not None:
        family.add_metric((), value)
    return family


def _program(store: Store) -> Iterator[Metric]:
    """What this process runs, and its connections to a database server."""
    yield InfoMetricFamily(
        "usagebill_build",
        "What this process runs: the versions of the program, of the tables that it works with, and of Python.",
        {"version": __version__, "schema": str(store.schema), "python": platform.python_version()},
    )
    family = GaugeMetricFamily(
        "usagebill_database_connections",
        "Connections of this process to the database server.",
        labels=["state"],
    )
    use = store.connections
    if use is not None:
        family.add_metric(["used"], use.used)
        family.add_metric(["idle"], use.idle)
    yield family
    most = None if use is None else use.most
    yield _gauge("usagebill_database_connections_most", "How many there may be.", most)
    waiting = None if use is None else use.waiting
    yield _gauge("usagebill_database_connections_awaited", "Threads that wait for one.", waiting)


def _families(known: Standing) -> Iterator[Metric]:
    queue, now = known.queue, known.at
    yield CounterMetricFamily("usagebill_events", "Events stored so far.", value=known.events)
    unbilled = GaugeMetricFamily(
        "usagebill_events_unbilled", "Events that are not billed, as counted once a day.", labels=["reason"]
    )
    if known.unbilled is not None:
        for reason in Reason:
            unbilled.add_metric([reason], known.unbilled.get(reason, 0))
    yield unbilled
    yield _gauge(
        "usagebill_events_unbilled_counted_timestamp_seconds",
        "When they were last counted, in Unix seconds.",
        _seconds(known.unbilled_at),
    )
    yield GaugeMetricFamily(
        "usagebill_refused_events", "What files and brokers held that is no event.", value=known.refused_events
    )
    yield _gauge(
        "usagebill_last_backup_timestamp_seconds",
        "When the last backup was made that is known of, in Unix seconds.",
        _seconds(known.last_backup_at),
    )
    yield from _shipping(known)
    yield from _provider_audits(known)
    due = GaugeMetricFamily("usagebill_jobs_due", "Jobs that are due and not being done.", labels=["lane"])
    age = GaugeMetricFamily(
        "usagebill_jobs_oldest_due_age_seconds", "For how long the first due job has waited.", labels=["lane"]
    )
    lanes: dict[str, tuple[int, float]] = {"billing": (0, 0.0), "deliver_webhook": (0, 0.0)}
    for backlog in queue.backlog:
        # The lanes of endpoints are one here.
        name = backlog.lane.partition("/")[0] or "billing"
        before = lanes.get(name, (0, 0.0))
        lanes[name] = before[0] + backlog.due, max(before[1], backlog.age(now).total_seconds())
    for name, (count, waited) in lanes.items():
        due.add_metric([name], count)
        age.add_metric([name], waited)
    yield due
    yield age
    for state, meaning, counts in (
        ("retrying", "Jobs that failed and wait for another try.", queue.retrying_by_kind),
        ("failed", "Jobs that were given up.", queue.failed_by_kind),
    ):
        unwell = GaugeMetricFamily(f"usagebill_jobs_{state}", meaning, labels=["kind"])
        for kind in sorted({BillCustomer.kind, SendEmail.kind, *counts}):
            unwell.add_metric([kind], counts.get(kind, 0))
        yield unwell
    yield _gauge(
        "usagebill_last_job_done_timestamp_seconds",
        "When a worker last did a job, in Unix seconds.",
        _seconds(known.last_done_at),
    )
    yield GaugeMetricFamily("usagebill_workers", "Workers that run.", value=known.workers)
    yield from _processes(known)
    invoices = GaugeMetricFamily("usagebill_invoices", "Invoices.", labels=["status"])
    for status, count in known.invoices.items():
        invoices.add_metric([status], count)
    yield invoices
    messages = GaugeMetricFamily("usagebill_webhook_messages", "Webhook messages of 90 days.", labels=["status"])
    for status, count in known.webhooks.items():
        messages.add_metric([status], count)
    yield messages
    yield GaugeMetricFamily(
        "usagebill_webhook_endpoints_failing",
        "Endpoints whose last webhook was not accepted.",
        value=len(known.failing_endpoints),
    )


def _seconds(instant: datetime | None) -> float | None:
    return None if instant is None else instant.timestamp()


def _processes(known: Standing) -> Iterator[Metric]:
    """Processes that have the database open, and those that died without a successor."""
    running = GaugeMetricFamily("usagebill_processes", "Processes that run.", labels=["kind", "version", "schema"])
    counted = Counts((process.kind, process.version, process.schema) for process in known.live)
    for (kind, version, schema), count in sorted(counted.items()):
        running.add_metric([kind, version, str(schema)], count)
    yield running
    waiting = GaugeMetricFamily(
        "usagebill_consumer_waiting", "Messages that wait in the source of a consumer.", labels=["source"]
    )
    failing = GaugeMetricFamily(
        "usagebill_consumer_failing", "Whether a consumer cannot reach its source or the database.", labels=["source"]
    )
    for source, members in sorted(known.consumers.items()):
        told = [member.waiting for member in members if member.waiting is not None]
        if told:
            waiting.add_metric([source], max(told))
        failing.add_metric([source], all(member.failing for member in members))
    yield waiting
    yield failing
    dead = GaugeMetricFamily(
        "usagebill_processes_missing", "Processes that died and whose place nobody has taken.", labels=["kind"]
    )
    gone = Counts(process.kind for process in known.missing)
    for kind in ProcessKind:
        dead.add_metric([kind], gone[kind])
    yield dead


def _provider_audits(known: Standing) -> Iterator[Metric]:
    """The last comparison with each payment provider that has a list."""
    labels = ["organization", "connection"]
    differing = GaugeMetricFamily(
        "usagebill_provider_differences", "Payments that differ from their provider's list.", labels=labels
    )
    failed = GaugeMetricFamily("usagebill_provider_audit_failed", "Whether the last comparison failed.", labels=labels)
    compared = GaugeMetricFamily(
        "usagebill_provider_audit_timestamp_seconds",
        "When that was last done, in Unix seconds.",
        labels=labels,
    )
    for audit in known.provider_audits:
        names = [audit.organization_id, audit.connection_code]
        differing.add_metric(names, audit.differences)
        failed.add_metric(names, audit.failure is not None)
        compared.add_metric(names, audit.compared_at.timestamp())
    yield from (differing, failed, compared)


def _shipping(known: Standing) -> Iterator[Metric]:
    """The shipping of each event store, all organizations together; none without one."""
    waiting = GaugeMetricFamily(
        "usagebill_events_unshipped", "Events that the event store was not sent yet.", labels=["event_store"]
    )
    lag = GaugeMetricFamily(
        "usagebill_events_unshipped_age_seconds",
        "For how long the first event that the event store was not sent has waited.",
        labels=["event_store"],
    )
    faults = GaugeMetricFamily(
        "usagebill_event_store_faults",
        "Organizations for which the event store is not believed.",
        labels=["event_store"],
    )
    for id in sorted({shipping.event_store_id for shipping in known.shipping}):
        standings = [shipping for shipping in known.shipping if shipping.event_store_id == id]
        waiting.add_metric([id], max(shipping.waiting for shipping in standings))
        lag.add_metric([id], max(shipping.waited(known.at).total_seconds() for shipping in standings))
        faults.add_metric([id], sum(shipping.fault is not None for shipping in standings))
    yield from (waiting, lag, faults)
