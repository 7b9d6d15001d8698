from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.storage.contract import new_tenant

from usagebill.core.invoices.records import Invoice
from usagebill.storage.conditions import Compare
from usagebill.storage.sqlite.engine import SqliteStore
from usagebill.storage.sqlite.slots import range_span, slot_of_level, span_parts
from usagebill.storage.tables import table_of

_INVOICES = table_of(Invoice)
_CENTS = st.integers(-20, 12_000) | st.integers(0, 10**7) | st.sampled_from([10**18 - 1, 10**18, 2**63 - 1])
_DAYS = st.integers(-800, 800).map(lambda days: date(2024, 2, 28) + timedelta(days=days))


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(":memory:")
    yield opened
    opened.close()


def _times_counted(connection: sqlite3.Connection, bounds: Sequence[Compare], stored: object) -> int:
    """How often a value counts between the bounds: in slots, wide or narrow, or by itself."""
    column = bounds[0].column
    span = range_span(_INVOICES, column, bounds)
    assert span is not None
    kind = "cents" if column == "total_amount_cents" else "date"

    def holds(value: object, tests: Sequence[tuple[str, object]]) -> bool:
        sql = " AND ".join(("1", *(f"v.slot {test.removeprefix('slot ')}" for test, _ in tests)))
        values = [value for _, value in tests]
        return bool(connection.execute(f"SELECT {sql} FROM (SELECT ? AS slot) v", (*values, value)).fetchone()[0])

    def slot(level: int) -> object:
        sql = f"SELECT {slot_of_level(kind, 'v.amount')} FROM (SELECT ? AS amount) v, (SELECT ? AS width) level"
        return connection.execute(sql, (stored, level)).fetchone()[0]

    slots = {column: slot(0), f"{column}/1": slot(1), f"{column}/2": slot(2)}
    counted = [holds(slots[under], tests) for under, tests in span_parts(_INVOICES, span)]
    return sum(counted) + sum(holds(stored, cut) for cut in span.cuts)


@given(lowest=_CENTS, highest=_CENTS, amount=_CENTS, several=st.integers(1, 3))
def test_an_amount_counts_once_if_it_lies_between_the_bounds(
    connection: sqlite3.Connection, lowest: int, highest: int, amount: int, several: int
) -> None:
    bounds = [Compare("total_amount_cents", ">=", lowest), Compare("total_amount_cents", "<=", highest)]
    wanted = {1: bounds[:1], 2: bounds[1:], 3: bounds}[several]
    expected = (several == 2 or amount >= lowest) and (several == 1 or amount <= highest)
    assert _times_counted(connection, wanted, amount) == expected


@given(first=_DAYS, last=_DAYS, day=_DAYS, several=st.integers(1, 3))
def test_a_day_counts_once_if_it_lies_between_the_bounds(
    connection: sqlite3.Connection, first: date, last: date, day: date, several: int
) -> None:
    bounds = [Compare("issuing_date", ">=", first), Compare("issuing_date", "<=", last)]
    wanted = {1: bounds[:1], 2: bounds[1:], 3: bounds}[several]
    expected = (several == 2 or day >= first) and (several == 1 or day <= last)
    assert _times_counted(connection, wanted, day.isoformat()) == expected


def test_years_are_added_up_by_the_year() -> None:
    span = range_span(_INVOICES, "issuing_date", [Compare("issuing_date", ">=", date(2010, 3, 5))])
    assert span is not None
    assert span_parts(_INVOICES, span) == [
        ("issuing_date/2", [("slot >= ?", "2011")]),
        ("issuing_date/1", [("slot >= ?", "2010-04"), ("slot < ?", "2011-01")]),
        ("issuing_date", [("slot >= ?", "2010-03-05"), ("slot < ?", "2010-04-01")]),
    ]


def test_a_file_that_counted_days_alone_counts_months_and_years(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    store = SqliteStore(file)
    tenant = new_tenant(store)
    entity = tenant.entity()
    customer = tenant.customer(entity)
    tenant.insert(
        entity, customer, *(tenant.invoice(customer, total_amount_cents=cents) for cents in (5, 1234, 99_999))
    )
    store.close()
    connection = sqlite3.connect(file)
    connection.execute("DELETE FROM invoices_counts WHERE ranged LIKE '%/%'")
    connection.execute("DROP INDEX events_listed")
    connection.execute("CREATE INDEX events_listed ON events (organization_id, timestamp)")
    connection.execute("PRAGMA user_version = 34")
    connection.commit()
    connection.close()
    SqliteStore(file).close()
    connection = sqlite3.connect(file)
    wide = connection.execute("SELECT SUM(n) FROM invoices_counts WHERE ranged = 'issuing_date/2'").fetchone()
    listed = connection.execute("SELECT name FROM pragma_index_info('events_listed')").fetchall()
    connection.close()
    assert (wide, listed[-1]) == ((3,), ("code",))
