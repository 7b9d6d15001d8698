"""Reads on a server: connections and prepared statements are used again, whatever happened to them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import psycopg
import pytest
from psycopg import sql
from tests.postgresql import server_url
from tests.storage.contract import Tenant, new_tenant

from usagebill.core.taxes import Tax
from usagebill.storage.conditions import asc, eq
from usagebill.storage.ports import Transaction
from usagebill.storage.postgresql import PostgresStore
from usagebill.storage.postgresql.databases import temporary_database
from usagebill.storage.postgresql.transaction import PostgresTransaction

pytestmark = pytest.mark.second_engine

_CONNECTIONS = 2


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    with temporary_database(server_url()) as url:
        with_few_connections = PostgresStore(url, connections=_CONNECTIONS)
        yield with_few_connections
        with_few_connections.close()


@pytest.fixture
def tenant(store: PostgresStore) -> Tenant:
    tenant = new_tenant(store)
    tenant.insert(tenant.tax("a"))
    return tenant


def codes(tenant: Tenant) -> list[str]:
    return tenant.read(lambda tx: [tax.code for tax in tx.find(Tax, eq("code", "a"))])


def test_reads_continue_after_one_that_failed(tenant: Tenant) -> None:
    def fail(tx: Transaction) -> None:
        codes_before.extend(tax.code for tax in tx.find(Tax, eq("code", "a")))
        tx.find(Tax, order=[asc("missing")])

    codes_before: list[str] = []
    for _ in range(_CONNECTIONS + 1):
        with pytest.raises(psycopg.errors.UndefinedColumn):
            tenant.read(fail)
        assert codes(tenant) == ["a"]
    assert codes_before == ["a"] * (_CONNECTIONS + 1)


def rows_of(tx: Transaction, statement: str) -> list[tuple[Any, ...]]:
    connection = cast(PostgresTransaction, tx)._connection
    return connection.execute(statement).fetchall()


def new_then_known(tenant: Tenant, number: int) -> list[str]:
    """A read whose first statement is not prepared, but the next is."""

    def ask(tx: Transaction) -> list[str]:
        assert rows_of(tx, f"SELECT {number}") == [(number,)]
        return [tax.code for tax in tx.find(Tax, eq("code", "a"))]

    return tenant.read(ask)


def undo_half(tenant: Tenant, number: int) -> None:
    """A write, in which a savepoint that the server knows is rolled back."""

    def fail(tx: Transaction) -> None:
        tx.insert(tenant.tax(f"c{number}"))
        assert tx.find(Tax, eq("code", f"c{number}"))
        raise ZeroDivisionError

    def change(tx: Transaction) -> None:
        tx.insert(tenant.tax(f"b{number}"))
        with pytest.raises(ZeroDivisionError):
            tx.savepoint(lambda: fail(tx))

    tenant.write(change)


def test_rolling_back_to_a_savepoint_keeps_the_connection_s_prepared_statements(store: PostgresStore) -> None:
    tenant = new_tenant(store)
    tenant.insert(tenant.tax("a"))
    names: list[set[str]] = []
    for number in range(6):
        for place in range(3):
            assert new_then_known(tenant, 3 * number + place) == ["a"]
        undo_half(tenant, number)
        names.append(
            {name for (name,) in tenant.read(lambda tx: rows_of(tx, "SELECT name FROM pg_prepared_statements"))}
        )
    assert names[0] < names[-1]
    assert all(before <= after for before, after in pairwise(names))
    assert [tax.code for tax in tenant.read(lambda tx: tx.find(Tax, order=[asc("code")]))] == [
        "a",
        *(f"b{n}" for n in range(6)),
    ]


def test_reads_continue_after_row_security_was_turned(store: PostgresStore, tenant: Tenant) -> None:
    for number in range(8):
        for place in range(3):
            assert new_then_known(tenant, 3 * number + place) == ["a"]
        undo_half(tenant, number)
        store.turn_row_security(on=number % 2 == 0)


def test_reads_continue_on_connections_whose_prepared_statements_were_dropped(
    store: PostgresStore, tenant: Tenant
) -> None:
    for _ in range(4):
        assert [codes(tenant) for _ in range(3)] == [["a"]] * 3
        store.transact(lambda connection: connection.execute("ALTER TABLE taxes SET (fillfactor = 100)"))
    assert codes(tenant) == ["a"]


def test_the_server_keeps_a_limited_number_of_statements_for_a_connection(tenant: Tenant) -> None:
    def run_each_twice(tx: Transaction) -> int:
        connection = cast(PostgresTransaction, tx)._connection
        for number in range(1_100):
            for _ in range(2):
                assert connection.execute(f"SELECT {number} + ?::int", (1,)).fetchall() == [(number + 1,)]
        rows: list[tuple[Any, ...]] = connection.execute("SELECT COUNT(*) FROM pg_prepared_statements").fetchall()
        return int(rows[0][0])

    # The driver drops the oldest one once there is one too many.
    assert 500 < tenant.read(run_each_twice) <= 1_001


def test_more_threads_read_than_there_are_connections(tenant: Tenant) -> None:
    answers: list[list[str]] = []

    def read_often() -> None:
        answers.extend(codes(tenant) for _ in range(40))

    threads = [threading.Thread(target=read_often) for _ in range(4 * _CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [["a"]] * (40 * 4 * _CONNECTIONS)


def test_several_queries_of_a_read_see_one_snapshot(tenant: Tenant) -> None:
    def count_around_a_write(tx: Transaction) -> tuple[int, int]:
        before = tx.count(Tax)
        writing = threading.Thread(target=lambda: tenant.insert(tenant.tax("c")))
        writing.start()
        writing.join()
        return before, len(tx.find(Tax))

    assert tenant.read(count_around_a_write) == (1, 1)
    assert tenant.read(lambda tx: tx.count(Tax)) == 2


def random_page_cost(tenant: Tenant) -> tuple[Any, ...]:
    read = tenant.read(lambda tx: rows_of(tx, "SHOW random_page_cost"))
    written = tenant.write(lambda tx: rows_of(tx, "SHOW random_page_cost"))
    assert read == written
    return read[0]


def test_plans_assume_that_the_disk_is_solid_state(tenant: Tenant) -> None:
    assert random_page_cost(tenant) == ("1.1",)


def test_the_cost_of_a_page_that_the_server_s_owner_chose_is_kept() -> None:
    with temporary_database(server_url()) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            name = connection.info.dbname
            connection.execute(sql.SQL("ALTER DATABASE {} SET random_page_cost = 2").format(sql.Identifier(name)))
        store = PostgresStore(url)
        try:
            assert random_page_cost(new_tenant(store)) == ("2",)
        finally:
            store.close()
