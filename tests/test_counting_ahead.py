"""A caller's change counts many events without blocking other writers, and loses none."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.examples import mostly_slow
from tests.scenarios import charge_on, plan_fields
from usagebill import Billing
from usagebill.core.errors import NotFound
from usagebill.core.events import Event
from usagebill.core.plans import Plan
from usagebill.fields import EventFields, PreviewSubscriptions
from usagebill.runtime import ahead
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.sqlite.events import SqliteEvents

START = datetime(2024, 1, 1, tzinfo=UTC)
# Ten days later; in a draft's grace period; the usage of January is over.
MIDMONTH = datetime(2024, 1, 11, tzinfo=UTC)
FEBRUARY = datetime(2024, 2, 1, 1, tzinfo=UTC)
# How many events may be counted under the lock here, and how many there are: one an hour of each metric.
FEW = 20
MANY = 30
HOUR = 3600
CALLS_CENTS = 10


class Watch:
    """Watches every count of events: their number, and whether others could have written meanwhile."""

    def __init__(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: list[tuple[int, bool]] = []
        self.after_count: Callable[[], None] | None = None
        self._file = file
        scan, tallies = SqliteEvents.scan, SqliteEvents.tallies

        def watched_scan(events: SqliteEvents, question: EventQuery) -> Iterator[Event]:
            result = list(scan(events, question))
            self._note(len(result))
            yield from result

        def watched_tallies(events: SqliteEvents, question: EventQuery) -> Any:
            result = tallies(events, question)
            self._note(sum(tally.events_count for tally in result.values()))
            return result

        monkeypatch.setattr(SqliteEvents, "scan", watched_scan)
        monkeypatch.setattr(SqliteEvents, "tallies", watched_tallies)

    def _note(self, size: int) -> None:
        self.counts.append((size, self._can_write()))
        if self.after_count is not None and size >= MANY:
            self.after_count()

    def _can_write(self) -> bool:
        connection = sqlite3.connect(self._file, timeout=0, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        else:
            connection.execute("ROLLBACK")
            return True
        finally:
            connection.close()

    @property
    def large(self) -> list[bool]:
        """Of each count of many events, whether others could write."""
        return [free for size, free in self.counts if size >= MANY]


def filled(file: Path | str) -> Billing:
    """A subscription with many events of a count and of a weighted sum, ten days after it began."""
    clock = ManualClock(START)
    billing = Billing(file, clock=clock, deliver=False)
    metrics = [
        billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg"),
        billing.billable_metrics.create(
            name="Level",
            code="level",
            aggregation_type="weighted_sum_agg",
            field_name="value",
            weighted_interval="seconds",
        ),
    ]
    charges = [charge_on(metric.id, amount=amount) for metric, amount in zip(metrics, ("0.1", "3100"), strict=True)]
    for code, cents in (("small", 3100), ("large", 6200)):
        billing.plans.create(**plan_fields(*charges, code=code, name=code, amount_cents=cents))
    billing.customers.upsert(external_id="acme", currency="EUR", billing_configuration={"invoice_grace_period": 3})
    billing.subscriptions.create(external_customer_id="acme", plan_code="small", external_id="acme")
    for code in ("calls", "level"):
        billing.events.ingest(used(code, number) for number in range(MANY))
    clock.set(MIDMONTH)
    billing.run_due(strict=True)
    return billing


def used(code: str, number: int, at: datetime = START) -> EventFields:
    return {
        "transaction_id": f"{code}-{number}",
        "code": code,
        "external_subscription_id": "acme",
        "timestamp": at.timestamp() + number * HOUR,
        # The level goes up to 1 and back to 0.
        "properties": {"value": -1 if number % 2 else 1},
    }


@pytest.fixture(autouse=True)
def _few_under_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_FEW", FEW)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "billing.db"


@pytest.fixture
def billing(file: Path) -> Iterator[Billing]:
    with filled(file) as billing:
        yield billing


@pytest.fixture
def watch(billing: Billing, file: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(file, monkeypatch)


def set_clock(billing: Billing, instant: datetime) -> None:
    clock = billing.clock
    assert isinstance(clock, ManualClock)
    clock.set(instant)


def draft_of_january(billing: Billing) -> str:
    set_clock(billing, FEBRUARY)
    billing.run_due(strict=True)
    (draft,) = billing.invoices.list(status=["draft"]).items
    # Events that arrive after the draft are billed with it, too.
    billing.events.ingest([used("calls", MANY)])
    return draft.id


def terminated(billing: Billing) -> object:
    return billing.subscriptions.terminate("acme")


def upgraded(billing: Billing) -> object:
    return billing.subscriptions.create(external_customer_id="acme", plan_code="large", external_id="acme")


def refreshed(billing: Billing) -> object:
    return billing.invoices.refresh(draft_of_january(billing))


def finalized(billing: Billing) -> object:
    return billing.invoices.finalize(draft_of_january(billing))


def previewed(billing: Billing) -> object:
    return billing.invoices.preview(customer={"external_id": "acme"}, subscriptions={"external_ids": ["acme"]})


def previewed_end(billing: Billing) -> object:
    end: PreviewSubscriptions = {"external_ids": ["acme"], "terminated_at": MIDMONTH.isoformat()}
    return billing.invoices.preview(customer={"external_id": "acme"}, subscriptions=end)


def plan_deleted(billing: Billing) -> object:
    billing.plans.delete("small")
    return billing.run_due(strict=True)


def customer_deleted(billing: Billing) -> object:
    billing.customers.delete("acme")
    return billing.run_due(strict=True)


def downgraded(billing: Billing) -> object:
    """At the end of January the old plan's usage is billed, after the new subscription has started."""
    billing.plans.update("large", amount_cents=100)
    billing.subscriptions.create(external_customer_id="acme", plan_code="large", external_id="acme")
    set_clock(billing, FEBRUARY)
    return billing.run_due(strict=True)


def overdue_run(billing: Billing) -> object:
    """The run of February has not come yet: the backlog of the customer is billed first."""
    set_clock(billing, FEBRUARY)
    return billing.subscriptions.terminate("acme")


CHANGES: Sequence[Callable[[Billing], object]] = (
    terminated,
    upgraded,
    refreshed,
    finalized,
    previewed,
    previewed_end,
    plan_deleted,
    customer_deleted,
    downgraded,
    overdue_run,
)


def fees(billing: Billing) -> list[tuple[str, str, int]]:
    return sorted(
        (fee["item"]["type"], fee["item"]["name"], fee["amount_cents"])
        for invoice in billing.invoices.list(per_page=100).items
        for fee in billing.view(invoice)["fees"]
    )


@pytest.mark.parametrize("change", mostly_slow(CHANGES, terminated, upgraded), ids=lambda change: change.__name__)
def test_many_events_are_counted_while_others_can_write(
    billing: Billing, watch: Watch, change: Callable[[Billing], object]
) -> None:
    change(billing)
    assert watch.large, "nothing was counted"
    assert all(watch.large), "events were counted while the lock of the writer was held"
    assert len(watch.large) <= 10, "events were counted again and again"


@pytest.mark.parametrize("change", mostly_slow(CHANGES, terminated, upgraded), ids=lambda change: change.__name__)
def test_what_is_counted_ahead_is_billed_as_if_nobody_could_write(
    billing: Billing, change: Callable[[Billing], object]
) -> None:
    # In memory there is one connection, which counts and writes in turn.
    with filled(":memory:") as alone:
        shown, expected = change(billing), change(alone)
        assert fees(billing) == fees(alone)
        if change in (previewed, previewed_end):
            assert isinstance(shown, dict)
            assert isinstance(expected, dict)
            assert shown["total_amount_cents"] == expected["total_amount_cents"]
    if change not in (previewed, previewed_end):
        assert ("charge", "Calls", (MANY + (change in (refreshed, finalized))) * CALLS_CENTS) in fees(billing)
    assert list(billing.audit().findings) == []


def test_an_end_is_of_the_instant_that_its_usage_was_counted_up_to(billing: Billing, watch: Watch) -> None:
    later = MIDMONTH + timedelta(seconds=3)

    def meanwhile() -> None:
        watch.after_count = None
        set_clock(billing, later)
        elsewhere(billing, lambda other: other.events.ingest([used("calls", MANY, at=START)]))

    watch.after_count = meanwhile
    ended = billing.subscriptions.terminate("acme")
    assert ended.terminated_at == MIDMONTH
    assert ("charge", "Calls", MANY * CALLS_CENTS) in fees(billing)
    assert list(billing.audit().findings) == []


def test_an_event_that_comes_at_that_instant_is_billed(billing: Billing, watch: Watch) -> None:
    def meanwhile() -> None:
        watch.after_count = None
        elsewhere(billing, lambda other: other.events.ingest([used("calls", MANY)]))

    watch.after_count = meanwhile
    billing.subscriptions.terminate("acme")
    assert ("charge", "Calls", (MANY + 1) * CALLS_CENTS) in fees(billing)
    assert list(billing.audit().findings) == []


def test_a_price_that_changes_while_events_are_counted_is_the_one_that_is_billed(
    billing: Billing, watch: Watch
) -> None:
    def dearer(work: Work) -> None:
        plan = work.tx.first(Plan, eq("code", "small"))
        assert plan is not None
        work.tx.replace(replace(plan, amount_cents=31_000))

    def meanwhile() -> None:
        watch.after_count = None
        set_clock(billing, MIDMONTH + timedelta(seconds=3))
        elsewhere(billing, lambda other: other.writing(dearer))

    watch.after_count = meanwhile
    ended = billing.subscriptions.terminate("acme")
    assert ended.terminated_at == MIDMONTH + timedelta(seconds=3), "it begins again, as of now"
    # Eleven days of January, of which the last has begun.
    assert ("subscription", "small", 31_000 * 11 // 31) in fees(billing)


def test_what_somebody_else_has_ended_meanwhile_is_not_ended_again(billing: Billing, watch: Watch) -> None:
    def meanwhile() -> None:
        watch.after_count = None
        set_clock(billing, MIDMONTH + timedelta(seconds=3))
        elsewhere(billing, lambda other: other.subscriptions.terminate("acme"))

    watch.after_count = meanwhile
    with pytest.raises(NotFound):
        billing.subscriptions.terminate("acme")
    assert len(fees(billing)) == 3
    assert list(billing.audit().findings) == []


def test_a_customer_whose_events_never_stop_is_ended_all_the_same(billing: Billing, watch: Watch) -> None:
    """An event of that very instant comes with every count: in the end they are counted under the lock."""
    sent = iter(range(MANY, 1000))

    def one_more() -> None:
        if watch.counts[-1][1]:
            number = next(sent)
            watch.after_count = None
            elsewhere(billing, lambda other: other.events.ingest([used("calls", number)]))
            watch.after_count = one_more

    watch.after_count = one_more
    billing.subscriptions.terminate("acme")
    assert False in watch.large
    assert ("charge", "Calls", next(sent) * CALLS_CENTS) in fees(billing)


def elsewhere(billing: Billing, act: Callable[[Billing], object]) -> None:
    """Run something in another process."""
    file: Any = billing.store
    with Billing(str(file.path), clock=billing.clock, deliver=False) as other:
        act(other)
