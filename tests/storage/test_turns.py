"""Writes of many threads take turns: all are done, in order of arrival, none twice, and nobody starves."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import pytest

from usagebill.storage.ports import Store
from usagebill.storage.sqlite import SqliteStore


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
