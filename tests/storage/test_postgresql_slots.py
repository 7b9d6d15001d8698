"""Counts of ranges on PostgreSQL: days and amounts that are counted beforehand, and those that a bound cuts in two."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from tests.postgresql import server_url
from tests.storage.contract import NOW, Tenant, new_tenant
from tests.storage.test_postgresql import run

from usagebill.core.api_logs import ApiLog
from usagebill.core.customers import Customer
from usagebill.core.invoices.records import Invoice
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription
from usagebill.storage.conditions import Compare, Condition, eq, missing, negate, related, within
from usagebill.storage.postgresql import PostgresStore
from usagebill.storage.postgresql.counts import PostgresListCounts, counted_sql
from usagebill.storage.postgresql.databases import temporary_database
from usagebill.storage.tables import table_of

pytestmark = pytest.mark.second_engine

OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
AMOUNTS = (-4711, -1, 0, 1, 9, 10, 11, 99, 100, 101, 109, 110, 4699, 4700, 4711, 4799, 4800, 99_999, 100_000, 10**15)
DATES = tuple(date(2023, 12, 30) + timedelta(days=days) for days in range(5))
MIDNIGHT = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
INSTANTS = tuple(
    MIDNIGHT + timedelta(days=day, microseconds=microseconds) for day in (-2, -1, 0, 1) for microseconds in (-1, 0, 1)
)
SHOWN = table_of(Invoice).listing.shown  # type: ignore[union-attr]
assert SHOWN is not None


@pytest.fixture(scope="module")
def tenant() -> Iterator[Tenant]:
    with temporary_database(server_url()) as url:
        store = PostgresStore(url)
        try:
            for tenant in (new_tenant(store), new_tenant(store)):
                entity, plans = tenant.entity(), [tenant.plan(code=code) for code in ("a", "b")]
                customers = [tenant.customer(entity) for _ in range(2)]
                tenant.insert(entity, *plans, *customers)
                tenant.insert(
                    *(tenant.subscription(customer, plan) for customer, plan in product(customers, plans)),
                    *(
                        tenant.invoice(
                            customers[0],
                            total_amount_cents=cents,
                            issuing_date=DATES[number % len(DATES)],
                            status="draft" if number % 3 == 0 else "finalized",
                        )
                        for number, cents in enumerate(AMOUNTS)
                    ),
                    *(
                        ApiLog(
                            id=f"{tenant.id}-{number}",
                            organization_id=tenant.id,
                            request_id="r",
                            api_key_id="k",
                            client="curl",
                            http_method=("post", "put")[number % 2],
                            http_status=200,
                            request_origin="",
                            request_path="/",
                            request_body="{}",
                            request_response=None,
                            duration=1,
                            logged_at=instant,
                        )
                        for number, instant in enumerate(INSTANTS)
                    ),
                )
            yield tenant
        finally:
            store.close()


def count(tenant: Tenant, kind: type, *conditions: Condition) -> int:
    """How many there are by kept counts: the records themselves are not counted one by one."""
    assert counted_sql(kind, conditions, tenant.id) is not None
    return tenant.read(lambda tx: tx.count(kind, *conditions))


def spans(column: str, bounds: tuple[Any, ...], values: tuple[Any, ...]) -> Iterator[tuple[list[Condition], int]]:
    """Each pair of a lower and an upper bound, and how many of the values are within; either may be missing."""
    lower = [None, *product((">", ">="), bounds)]
    upper = [None, *product(("<", "<="), bounds)]
    for pair in product(lower, upper):
        tests = [test for test in pair if test is not None]
        if tests:
            number = sum(all(OPERATORS[name](value, bound) for name, bound in tests) for value in values)
            yield [Compare(column, name, bound) for name, bound in tests], number


@pytest.mark.parametrize(
    ("kind", "column", "bounds", "values", "listed"),
    [
        (Invoice, "total_amount_cents", (-2, 0, 9, 10, 105, 4711, 4799, 99_999, 10**12), AMOUNTS, [SHOWN]),
        (Invoice, "issuing_date", (date(2023, 12, 29), *DATES[1:4], date(2024, 2, 1)), DATES * 4, [SHOWN]),
        (
            ApiLog,
            "logged_at",
            (MIDNIGHT - timedelta(microseconds=1), MIDNIGHT, MIDNIGHT + timedelta(microseconds=1), NOW),
            INSTANTS,
            [],
        ),
    ],
    ids=["amounts", "dates", "instants"],
)
def test_what_is_within_bounds_is_counted(
    tenant: Tenant,
    kind: type,
    column: str,
    bounds: tuple[int | date | datetime, ...],
    values: tuple[int | date | datetime, ...],
    listed: list[Condition],
) -> None:
    for conditions, number in spans(column, bounds, values):
        assert count(tenant, kind, *listed, *conditions) == number, conditions


def test_bounds_go_together_with_other_filters(tenant: Tenant) -> None:
    # Drafts are numbers 0, 3, 6, ..., 18 of the amounts: -4711, 1, 11, 101, 4699, 4799 and 100,000.
    drafts = [eq("status", "draft"), within("status", ["draft", "finalized"])]
    assert count(tenant, Invoice, *drafts, Compare("total_amount_cents", ">", 11)) == 4
    assert count(tenant, Invoice, *drafts, Compare("total_amount_cents", "<=", 1)) == 2
    # Two ranges at once are counted in the table.
    both = Compare("total_amount_cents", ">", 11), Compare("issuing_date", ">=", DATES[0])
    assert counted_sql(Invoice, [*drafts, *both], tenant.id) is None
    assert tenant.read(lambda tx: tx.count(Invoice, *drafts, *both)) == 4


def test_counts_by_other_records_follow_these(tenant: Tenant) -> None:
    def of_plan(*conditions: Condition) -> int:
        return count(tenant, Subscription, related(Plan, "plan_id", *conditions))

    # Two customers have a subscription of each plan.
    assert [of_plan(eq("code", code)) for code in ("a", "b", "c")] == [2, 2, 0]
    assert of_plan(within("code", ["a", "b"])) == 4
    assert [of_plan(negate(eq("code", "a"))), of_plan(missing("parent_id"))] == [2, 4]
    store = tenant.store
    assert isinstance(store, PostgresStore)
    run(
        store.url,
        f"UPDATE plans SET code = 'c' WHERE code = 'a' AND organization_id = '{tenant.id}'",
        "UPDATE customers SET billing_entity_id = 'elsewhere', deleted_at = created_at"
        f" WHERE id = (SELECT min(id) FROM customers WHERE organization_id = '{tenant.id}')",
    )
    assert [of_plan(eq("code", code)) for code in ("a", "b", "c")] == [0, 2, 2]
    elsewhere = related(Customer, "customer_id", eq("billing_entity_id", "elsewhere"))
    assert count(tenant, Subscription, elsewhere) == 2
    assert store.ask(lambda connection: list(PostgresListCounts(connection, tenant.id).faults())) == []
