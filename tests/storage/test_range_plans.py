"""Lists of fees by bounds of several dates equal those of the fees themselves, whichever range leads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.storage.contract import new_tenant, second

from usagebill.core.fees import Fee
from usagebill.core.statuses import PaymentStatus
from usagebill.storage.conditions import Compare, Condition, asc, at_least, eq
from usagebill.storage.sqlite import SqliteStore, range_plans

_DAYS = (-400, -31, -1, 0, 1, 30, 366)
_INSTANTS = st.sampled_from([*(day * 86_400 for day in _DAYS), -50_000, 0.5, 3600]).map(second)
_COLUMNS = ("created_at", "succeeded_at", "failed_at")
_PAID = st.sampled_from([PaymentStatus.PENDING, PaymentStatus.SUCCEEDED])


@pytest.fixture(scope="module")
def store() -> Iterator[SqliteStore]:
    opened = SqliteStore(":memory:")
    yield opened
    opened.close()


def _meets(fee: Fee, condition: Any) -> bool:
    value = getattr(fee, condition.column)
    if value is None:
        return False
    match condition.operator:
        case ">=":
            return bool(value >= condition.value)
        case "<=":
            return bool(value <= condition.value)
        case _:
            return bool(value == condition.value)


@given(data=st.data())
def test_bounds_of_several_dates(store: SqliteStore, data: st.DataObject) -> None:
    tenant = new_tenant(store)
    entity = tenant.entity()
    customer = tenant.customer(entity)
    fees = [
        tenant.fee(
            customer,
            created_at=data.draw(_INSTANTS),
            succeeded_at=data.draw(st.none() | _INSTANTS),
            failed_at=data.draw(st.none() | _INSTANTS),
            payment_status=data.draw(_PAID),
        )
        for _ in range(data.draw(st.integers(0, 9)))
    ]
    tenant.insert(entity, customer, *fees)
    conditions: list[Condition] = [
        Compare(column, data.draw(st.sampled_from([">=", "<="])), data.draw(_INSTANTS))
        for column in data.draw(st.lists(st.sampled_from(_COLUMNS), min_size=2, max_size=4))
    ]
    if data.draw(st.booleans()):
        conditions.append(eq("payment_status", data.draw(_PAID)))
    expected = [fee for fee in fees if all(_meets(fee, condition) for condition in conditions)]
    expected.sort(key=lambda fee: (fee.created_at, fee.id))
    with pytest.MonkeyPatch.context() as patch:
        # The range that leads depends on these.
        patch.setattr(range_plans, "_RECORD", data.draw(st.sampled_from([0.0, 3.0, 100.0])))
        oldest = (asc("created_at"),)
        assert tenant.read(lambda tx: tx.count(Fee, *conditions)) == len(expected)
        page = tenant.read(lambda tx: tx.find(Fee, *conditions, order=oldest, limit=2, offset=1))
    assert [fee.id for fee in page] == [fee.id for fee in expected[1:3]]


def test_a_date_that_few_fees_have_leads(store: SqliteStore) -> None:
    """The index of that date is read, and no fee."""
    tenant = new_tenant(store)
    entity = tenant.entity()
    customer = tenant.customer(entity)
    fees = [tenant.fee(customer, created_at=second(number), succeeded_at=None) for number in range(20)]
    paid = tenant.fee(customer, created_at=second(30), succeeded_at=second(60))
    tenant.insert(entity, customer, *fees, paid)
    plans: list[str] = []

    def number(tx: Any) -> int:
        statements: list[str] = []
        tx._connection.set_trace_callback(statements.append)
        counted = int(tx.count(Fee, at_least("created_at", second(0)), at_least("succeeded_at", second(0))))
        tx._connection.set_trace_callback(None)
        for statement in statements:
            if "INDEXED BY" in statement:
                plans.extend(row[3] for row in tx._connection.execute(f"EXPLAIN QUERY PLAN {statement}"))
        return counted

    assert tenant.read(number) == 1
    assert any("COVERING INDEX fees_ranged_succeeded_at" in plan for plan in plans)
