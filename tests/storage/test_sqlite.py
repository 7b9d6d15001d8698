"""The embedded engine keeps the contract: in memory, and in a file with its readers and writer apart."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.contract import TransactionsContract, new_tenant
from tests.storage.events_contract import EventsContract
from tests.storage.jobs_contract import JobsContract
from tests.storage.preloading_contract import PreloadingContract
from tests.storage.records_contract import RecordsContract
from tests.storage.unchecked_contract import UncheckedContract
from tests.storage.versions_contract import VersionsContract

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.errors import StorageFull
from usagebill.core.taxes import Tax
from usagebill.storage.ports import Store, Transaction
from usagebill.storage.sqlite import SqliteStore


@pytest.fixture(scope="class", params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One store for the tests of a class: each has an organization of its own."""
    path = ":memory:" if request.param == "memory" else tmp_path_factory.mktemp("store") / "billing.db"
    opened = SqliteStore(path)
    yield opened
    opened.close()


class TestEvents(EventsContract):
    pass


class TestRecords(RecordsContract):
    pass


class TestJobs(JobsContract):
    pass


class TestPreloading(PreloadingContract):
    pass


class TestVersions(VersionsContract):
    pass


class TestTransactions(TransactionsContract):
    pass


class TestUnchecked(UncheckedContract):
    pass


def test_a_new_file_and_those_beside_it_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        store = SqliteStore(tmp_path / "billing.db")
        tenant = new_tenant(store)
        tenant.insert(tenant.tax("a"))
        tenant.read(lambda tx: tx.count(Tax))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert modes == {"billing.db": 0o600, "billing.db-wal": 0o600, "billing.db-shm": 0o600}


def test_a_reader_of_a_file_sees_one_state_throughout_while_others_write(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "billing.db")
    tenant = new_tenant(store)
    tenant.insert(tenant.tax("a"))

    def look(tx: Transaction) -> tuple[int, int]:
        before = tx.count(Tax)
        writer = threading.Thread(target=lambda: tenant.insert(tenant.tax("b")))
        writer.start()
        writer.join()
        return before, tx.count(Tax)

    assert tenant.read(look) == (1, 1)
    assert tenant.read(lambda tx: tx.count(Tax)) == 2
    store.close()


def test_how_often_another_process_held_the_lock_is_known(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "billing.db")
    tenant = new_tenant(store)
    assert store.contention == 0
    other = sqlite3.connect(tmp_path / "billing.db", isolation_level=None)
    begun = threading.Semaphore(0)
    store._writer.set_trace_callback(lambda statement: begun.release() if statement.startswith("BEGIN") else None)
    seen = []
    for number in range(20):
        other.execute("BEGIN IMMEDIATE")
        writer = threading.Thread(target=tenant.insert, args=(tenant.tax(f"t{number}"),))
        writer.start()
        # Once more than the first time: it has been refused by then.
        assert begun.acquire(timeout=30)
        assert begun.acquire(timeout=30)
        other.execute("ROLLBACK")
        writer.join(30)
        while begun.acquire(blocking=False):
            pass
        seen.append(store.contention)
    assert seen == sorted(seen)
    assert 0.9 < seen[-1] < 1
    other.close()
    for number in range(20):
        tenant.insert(tenant.tax(f"free-{number}"))
    assert store.contention < 0.1
    store.close()


def full(store: SqliteStore) -> None:
    """From now on there is no room for another page."""
    connection = store._writer
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_undoes_the_whole_write_whatever_it_makes_of_errors(tmp_path: Path) -> None:
    """The engine ends the transaction then: each later statement would be one of its own."""
    store = SqliteStore(tmp_path / "billing.db")
    tenant = new_tenant(store)
    tenant.insert(tenant.entity(code="before"))
    full(store)

    def go_on_regardless(tx: Transaction) -> None:
        tx.insert(tenant.entity(code="first"))
        for number in range(3):
            try:
                tx.savepoint(lambda number=number: tx.insert(tenant.entity(code=f"t{number}", name="x" * 10**6)))  # type: ignore[misc]
            except Exception:
                tx.insert(tenant.entity(code=f"after {number}"))

    with pytest.raises(StorageFull):
        tenant.write(go_on_regardless)
    assert [entity.code for entity in tenant.read(lambda tx: tx.find(BillingEntity))] == ["before"]
    store._writer.execute("PRAGMA max_page_count = 1000000")
    tenant.insert(tenant.entity(code="later"))
    assert [entity.code for entity in tenant.read(lambda tx: tx.find(BillingEntity))] == ["before", "later"]
    store.close()


def test_writes_that_share_a_commit_fail_together_on_a_full_disk(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "billing.db")
    tenant = new_tenant(store)
    full(store)
    inside, go = threading.Event(), threading.Event()
    failures: list[str] = []

    def hold(tx: Transaction) -> None:
        inside.set()
        assert go.wait(30)

    def insert(code: str, name: str) -> None:
        try:
            tenant.insert(tenant.entity(code=code, name=name))
        except StorageFull as problem:
            failures.append(f"{code}: {problem.reason}")

    holder = threading.Thread(target=lambda: tenant.write(hold))
    holder.start()
    assert inside.wait(30)
    others = [threading.Thread(target=insert, args=args) for args in (("small", "x"), ("large", "x" * 10**6))]
    for other in others:
        other.start()
    # Both wait by now, and so share the next commit.
    while len(store._waiting) < 2:
        pass
    go.set()
    for thread in (holder, *others):
        thread.join(30)
    assert sorted(failures) == ["large: database or disk is full", "small: database or disk is full"]
    assert tenant.read(lambda tx: tx.find(BillingEntity)) == []
    store.close()


def test_the_log_of_a_file_that_always_has_a_reader_is_emptied_once_it_has_none(tmp_path: Path) -> None:
    file, log = tmp_path / "billing.db", tmp_path / "billing.db-wal"
    store, other = SqliteStore(file), SqliteStore(file)
    tenant = new_tenant(store)

    def write(tx: Transaction) -> None:
        # As long as anybody reads, what is written is appended: more than the 16 MiB that a log may have.
        assert tx.count(Tax) == 0
        for number in range(18):
            tenant.insert(tenant.tax(f"t{number}", name="n" * 2**20))

    reading = threading.Thread(target=other.read, args=(None, write))
    reading.start()
    reading.join()
    assert log.stat().st_size > 18 * 2**20
    tenant.insert(tenant.tax("last"))
    assert log.stat().st_size == 0
    assert tenant.read(lambda tx: tx.count(Tax)) == 19
    store.close()
    other.close()


_CUT = """
import os, sqlite3, sys
from usagebill import Billing
from usagebill.core.customers import Customer
with Billing(sys.argv[1], deliver=False) as billing:
    for number in range(400):
        billing.customers.upsert(external_id=f"c{number}", name="n" * 250)
    billing.store.read(billing.organization.id, lambda tx: tx.find(Customer))
with Billing(sys.argv[1], deliver=False) as billing:
    billing.customers.get('c0')
    os.truncate(sys.argv[1], 8192)
    try:
        billing.store.read(billing.organization.id, lambda tx: tx.find(Customer))
    except sqlite3.Error as problem:
        print("said:", problem, flush=True)
    os._exit(0)
"""


def test_a_file_cut_off_while_it_is_read_is_an_error_and_not_the_end_of_the_process(tmp_path: Path) -> None:
    script = [sys.executable, "-c", _CUT, str(tmp_path / "billing.db")]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:5]) == (0, "said:"), done.stderr
