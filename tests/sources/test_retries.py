"""What a consumer says of itself in the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from usagebill import Billing
from usagebill.core.processes import Process, ProcessKind
from usagebill.runtime.clock import ManualClock
from usagebill.sources.retries import Retries

NOW = datetime(2024, 3, 5, 10, tzinfo=UTC)


def registered(billing: Billing) -> list[Process]:
    billing._system.presence.note()
    return list(billing.store.read(None, lambda tx: tx.processes()))


def test_a_consumer_says_what_waits_since_when_and_why_it_fails() -> None:
    clock = ManualClock(NOW)
    with Billing(clock=clock) as billing:
        retries = Retries(billing, "nats:USAGE", lasts=True)
        (process,) = registered(billing)
        assert (process.kind, process.consumes, process.waiting) == (ProcessKind.CONSUMER, "nats:USAGE", None)
        retries.worked(7)
        clock.set(NOW + timedelta(minutes=1))
        retries.worked(9)
        (process,) = registered(billing)
        assert (process.waiting, process.waits_since, process.failing) == (9, NOW, None)
        retries.failed(OSError("no route"))
        (process,) = registered(billing)
        assert process.failing == "OSError: no route"
        retries.worked(0)
        (process,) = registered(billing)
        assert (process.waiting, process.waits_since, process.failing) == (0, None, None)


def test_who_reads_once_is_no_consumer() -> None:
    with Billing(clock=ManualClock(NOW)) as billing:
        retries = Retries(billing, "file:/in", lasts=False)
        retries.failed(OSError("no route"))
        assert list(billing.store.read(None, lambda tx: tx.processes())) == []
