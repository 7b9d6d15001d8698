"""Lists of fees by bounds of several dates equal those of the fees themselves, whichever range leads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.postgresql import server_url
from tests.storage.contract import new_tenant, second
from tests.storage.test_lists import WAYS, few

from usagebill.core.fees import Fee
from usagebill.core.statuses import PaymentStatus
from usagebill.storage.conditions import Compare, Condition, asc, eq
from usagebill.storage.listings import Total
from usagebill.storage.ports import Store
from usagebill.storage.postgresql import PostgresStore
from usagebill.storage.postgresql.databases import temporary_database
from usagebill.storage.sqlite import SqliteStore

_DAYS = (-400, -31, -1, 0, 1, 30, 366)
_INSTANTS = st.sampled_from([*(day * 86_400 for day in _DAYS), -50_000, 0.5, 3600]).map(second)
_COLUMNS = ("created_at", "succeeded_at", "failed_at")
_PAID = st.sampled_from([PaymentStatus.PENDING, PaymentStatus.SUCCEEDED])


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.second_engine)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with nullcontext(":memory:") if request.param == "sqlite" else temporary_database(server_url()) as place:
        opened: Store = SqliteStore(place) if request.param == "sqlite" else PostgresStore(place)
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
def test_bounds_of_several_dates(store: Store, data: st.DataObject) -> None:
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
    with few(data.draw(st.sampled_from(WAYS))):
        page, total = tenant.read(lambda tx: tx.page(Fee, *conditions, order=[asc("created_at")], limit=2, offset=1))
    assert total == Total(len(expected))
    assert [fee.id for fee in page] == [fee.id for fee in expected[1:3]]
