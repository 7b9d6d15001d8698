"""Writes of many threads take turns: all are done, in order of arrival, none twice, and nobody starves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from usagebill.core.events import Event
from usagebill.storage.event_queries import EventFilter
from usagebill.storage.ports import Store, Transaction
from usagebill.storage.sqlite import SqliteStore

NOW = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["memory", "file"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return ":memory:" if request.param == "memory" else str(tmp_path / "billing.db")


def opened(path: str) -> Store:
    return cast(Store, SqliteStore(path))


def test_every_write_of_many_threads_is_done_once(path: str) -> None:
    store = opened(path)
    numbers: list[int] = []

    def write_some() -> None:
        numbers.extend(store.write("o", lambda tx: tx.next_number("n")) for _ in range(50))

    threads = [threading.Thread(target=write_some) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(numbers) == list(range(1, 401))
    store.close()


def test_one_that_writes_all_the_time_leaves_room_for_others(path: str) -> None:
    store = opened(path)
    enough = threading.Event()

    def write_on() -> None:
        while not enough.is_set():
            store.write("o", lambda tx: tx.next_number("greedy"))

    greedy = threading.Thread(target=write_on)
    greedy.start()

    def write_some() -> None:
        for _ in range(20):
            store.write("o", lambda tx: tx.next_number("modest"))

    modest = threading.Thread(target=write_some)
    modest.start()
    modest.join(60)
    done = not modest.is_alive()
    enough.set()
    greedy.join(60)
    assert done
    assert store.write("o", lambda tx: tx.next_number("modest")) == 21
    store.close()


def test_a_write_knows_whether_others_wait(path: str) -> None:
    store = opened(path)
    inside, queued = threading.Event(), threading.Event()
    seen: list[bool] = []

    def first(tx: object) -> None:
        seen.append(store.is_awaited())
        inside.set()
        # The second one is queued as soon as it has been told to write: nothing else happens before that.
        assert queued.wait(30)
        while not store.is_awaited():
            pass
        seen.append(store.is_awaited())

    writer = threading.Thread(target=lambda: store.write(None, first))
    writer.start()
    assert inside.wait(30)

    def write_too() -> None:
        queued.set()
        store.write(None, lambda tx: None)

    second = threading.Thread(target=write_too)
    second.start()
    writer.join(30)
    second.join(30)
    assert seen == [False, True]
    store.close()


def test_what_fails_fails_alone(path: str) -> None:
    store = opened(path)
    inside, go = threading.Event(), threading.Event()
    problems: list[str] = []

    def hold(tx: object) -> None:
        inside.set()
        assert go.wait(30)

    def fail() -> None:
        try:
            store.write("o", lambda tx: [tx.next_number("n"), 1 / 0])
        except ZeroDivisionError as problem:
            problems.append(str(problem))

    holder = threading.Thread(target=lambda: store.write(None, hold))
    holder.start()
    assert inside.wait(30)
    # These share a commit, for both have to wait.
    others = [threading.Thread(target=fail), threading.Thread(target=lambda: store.write("o", lambda tx: 1))]
    others.append(threading.Thread(target=lambda: store.write("o", lambda tx: tx.next_number("n"))))
    for other in others:
        other.start()
    go.set()
    for thread in (holder, *others):
        thread.join(30)
    assert problems == ["division by zero"]
    assert store.write("o", lambda tx: tx.next_number("n")) == 2
    store.close()


def usage(transaction_id: str) -> Event:
    return Event(
        id=f"id-{transaction_id}",
        organization_id="o",
        transaction_id=transaction_id,
        code="calls",
        external_subscription_id="sub",
        timestamp=NOW,
        properties={},
        precise_total_amount_cents=None,
        created_at=NOW,
    )


def number_then_events(tx: Transaction) -> None:
    tx.next_number("n")
    tx.events.append([usage("new-1"), usage("new-2")])


def events_then_number(tx: Transaction) -> None:
    tx.events.append([usage("new-1"), usage("new-2")])
    tx.next_number("n")
    tx.events.append([usage("new-3")])


def events_alone(tx: Transaction) -> None:
    tx.events.append([usage("new-1")])
    tx.events.append([usage("new-2")])


def events_stored_already(tx: Transaction) -> None:
    assert tx.events.append([usage("new-1"), usage("before"), usage("new-2")]) == [1]


@pytest.mark.parametrize(
    "attempt",
    [number_then_events, events_then_number, events_alone, events_stored_already],
    ids=lambda act: act.__name__,
)
@pytest.mark.parametrize("fails", [True, False], ids=["fails", "lasts"])
def test_of_writes_that_share_a_commit_one_that_fails_leaves_nothing(
    path: str, attempt: Callable[[Transaction], None], fails: bool
) -> None:
    store = opened(path)
    store.write("o", lambda tx: tx.events.append([usage("before")]))
    inside, go = threading.Event(), threading.Event()
    problems: list[str] = []

    def hold(tx: Transaction) -> None:
        inside.set()
        assert go.wait(30)

    def act(tx: Transaction) -> None:
        attempt(tx)
        if fails:
            raise ValueError("never mind")

    def write() -> None:
        try:
            store.write("o", act)
        except ValueError as problem:
            problems.append(str(problem))

    def append(name: str) -> None:
        store.write("o", lambda tx: tx.events.append([usage(name)]))

    writers = [threading.Thread(target=store.write, args=(None, hold))]
    writers[0].start()
    assert inside.wait(30)
    for other in (partial(append, "earlier"), write, partial(append, "later")):
        writers.append(threading.Thread(target=other))
        writers[-1].start()
        # In this order, and all in one commit: the one that holds the lock goes on once they wait.
        while len(cast(SqliteStore, store)._waiting) < len(writers) - 1:
            pass
    go.set()
    for writer in writers:
        writer.join(30)

    names, number = store.read(
        "o", lambda tx: ([event.transaction_id for event in tx.events.find(EventFilter())], tx.last_numbers("n")[0])
    )
    assert problems == (["never mind"] if fails else [])
    new = [] if fails or attempt is events_stored_already else ["new-1", "new-2"]
    assert sorted(name for name in names if name != "new-3") == sorted(["before", "earlier", "later", *new])
    assert ("new-3" in names) == (attempt is events_then_number and not fails)
    assert number == (not fails and attempt in (number_then_events, events_then_number))
    store.close()
