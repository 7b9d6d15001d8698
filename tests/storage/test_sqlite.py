"""The embedded engine keeps the contract: in memory, and in a file with its readers and writer apart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.contract import JobsContract, RecordsContract, TransactionsContract, new_tenant
from tests.storage.events_contract import EventsContract

from usagebill.core.taxes import Tax
from usagebill.storage.ports import Store, Transaction
from usagebill.storage.sqlite import SqliteStore


@pytest.fixture(scope="class", params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One store for the tests of a class: each has an organization of its own."""
    path = ":memory:" if request.param == "memory" else tmp_path_factory.mktemp("store") / "billing.db"
    opened = SqliteStore(path)
    yield opened  # type: ignore[misc]
    opened.close()


class TestEvents(EventsContract):
    pass


class TestRecords(RecordsContract):
    pass


class TestJobs(JobsContract):
    pass


class TestTransactions(TransactionsContract):
    pass


def test_a_reader_of_a_file_sees_one_state_throughout_while_others_write(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "billing.db")
    own = new_tenant(store)  # type: ignore[arg-type]
    own.insert(own.tax("a"))

    def look(tx: Transaction) -> tuple[int, int]:
        before = tx.count(Tax)
        writer = threading.Thread(target=lambda: own.insert(own.tax("b")))
        writer.start()
        writer.join()
        return before, tx.count(Tax)

    assert own.read(look) == (1, 1)
    assert own.read(lambda tx: tx.count(Tax)) == 2
    store.close()
