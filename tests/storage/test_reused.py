"""One database in memory after another on one connection: none shows what an earlier one held."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest
from tests.scenarios import Scenario
from tests.storage.contract import new_tenant

from usagebill.core.taxes import Tax
from usagebill.storage.sqlite import ReusedMemory, SqliteStore


def rows(store: SqliteStore) -> dict[str, list[tuple[object, ...]]]:
    """All that is stored: text indexes are virtual tables, whose content stands in tables of their own."""
    connection = store._writer
    tables = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
    ).fetchall()
    return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in tables}


def test_a_year_of_billing_leaves_nothing_behind() -> None:
    empty = SqliteStore(":memory:")
    expected = rows(empty)
    empty.close()
    connections = set()
    for _ in range(3):
        with Scenario(now="2024-01-01T00:00:00Z") as box:
            box.customer()
            box.plan(amount_cents=1_00)
            box.subscribe()
            box.travel_to("2025-01-01T12:00:00Z")
            assert len(box.invoices()) == 12
            assert box.get("/customers?search_term=acm")["meta"]["total_count"] == 1
        store = ReusedMemory()
        connections.add(id(store._writer))
        assert rows(store) == expected
        store.close()
    assert len(connections) == 1


def raise_while_writing(tx: object) -> None:
    raise ValueError("no")


def test_a_failed_write_is_undone_alone() -> None:
    store = ReusedMemory()
    tenant = new_tenant(store)
    tenant.insert(tenant.tax("kept"))
    with pytest.raises(ValueError, match="no"):
        tenant.write(raise_while_writing)
    assert tenant.read(lambda tx: [tax.code for tax in tx.find(Tax)]) == ["kept"]
    store.close()


def test_a_closed_database_cannot_be_used_though_its_connection_is() -> None:
    store = ReusedMemory()
    tenant = new_tenant(store)
    store.close()
    store.close()
    later = ReusedMemory()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        tenant.insert(tenant.tax("late"))
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        tenant.read(lambda tx: tx.find(Tax))
    later.close()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda connection: connection.execute("CREATE TABLE another (name)"),
        lambda connection: connection.execute("ROLLBACK"),
    ],
    ids=["another layout", "a transaction that was ended"],
)
def test_a_connection_that_is_no_longer_as_it_was_is_not_passed_on(spoil: Callable[[sqlite3.Connection], None]) -> None:
    store = ReusedMemory()
    connection = store._writer
    spoil(connection)
    store.close()
    later = ReusedMemory()
    assert later._writer is not connection
    later.close()


def test_a_database_whose_transaction_was_ended_is_said_to_be_lost() -> None:
    """SQLite ends the whole transaction when memory runs out: nothing may be written after that as if all was well."""
    store = ReusedMemory()
    tenant = new_tenant(store)
    store._writer.execute("ROLLBACK")
    with pytest.raises(sqlite3.OperationalError, match="lost"):
        tenant.insert(tenant.tax("late"))
    with pytest.raises(sqlite3.OperationalError, match="lost"):
        tenant.read(lambda tx: tx.find(Tax))
    store.close()
