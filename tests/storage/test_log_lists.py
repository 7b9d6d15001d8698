"""API logs by path and client: the same records whichever way they are read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from tests.storage.contract import NOW, Tenant, new_tenant
from tests.storage.test_lists import WAYS, few, recounted

from usagebill.core.api_logs import ApiLog
from usagebill.storage.conditions import (
    Condition,
    any_of,
    at_least,
    at_most,
    desc,
    eq,
    less,
    like,
    more,
    negate,
    within,
)
from usagebill.storage.listings import Total
from usagebill.storage.sqlite import SqliteStore

# Paths with a day, a zero byte, and characters that mean something in patterns of SQLite.
PATHS = (
    "/plans",
    "/plans/a",
    "/plans 2024-01-01",
    "/plans 2024-01-01/b",
    "/z\0",
    "/z\0 2024-01-01",
    "/[p]lans?",
    "/ü",
    "",
)
CLIENTS = ("curl", "curl 2", "python")
DAYS = 4


def entries(tenant: Tenant) -> list[ApiLog]:
    """Logs of each path on each day, by changing clients, methods and statuses."""
    shape = enumerate(product(range(DAYS), PATHS, range(2)))
    return [
        ApiLog(
            id=f"{tenant.id}-{number:04}",
            organization_id=tenant.id,
            request_id="r",
            api_key_id="k",
            client=CLIENTS[number % 5 % 3],
            http_method=("post", "put")[number % 2],
            http_status=(200, 200, 422)[number % 3],
            request_origin="",
            request_path=path,
            request_body="{}",
            request_response=None,
            duration=1,
            logged_at=NOW - timedelta(days=day, minutes=number % 7),
        )
        for number, (day, path, _) in shape
    ]


def holds(log: ApiLog, condition: Any) -> bool:
    """Whether the condition is true of the log, by Python's own operators."""
    match type(condition).__name__:
        case "Like":
            parts = map(re.escape, condition.pattern.split("*"))
            return re.fullmatch(".*".join(parts), getattr(log, condition.column), re.DOTALL) is not None
        case "AnyOf":
            return any(holds(log, inner) for inner in condition.conditions)
        case "Negate":
            return not holds(log, condition.condition)
        case "Within":
            return getattr(log, condition.column) in condition.values
    value = getattr(log, condition.column)
    compared: dict[str, bool] = {
        "=": value == condition.value,
        ">": value > condition.value,
        "<": value < condition.value,
        ">=": value >= condition.value,
        "<=": value <= condition.value,
    }
    return compared[condition.operator]


VALUES: tuple[tuple[Condition, ...], ...] = (
    *((eq("request_path", path),) for path in PATHS),
    *(
        (like("request_path", pattern),)
        for pattern in ("*", "/*", "*a", "/plans*", "/*/*", "*none*", "/[p]lans?*", "/?*")
    ),
    (any_of(like("request_path", "*/a"), eq("request_path", "/plans"), like("request_path", "/plans")),),
    (any_of(like("request_path", "*/b"), eq("request_path", "/none")),),
    (any_of(like("request_path", "*/b"), eq("client", "curl")),),
    (negate(like("request_path", "/plans*")),),
    (within("client", ("curl", "python", "curl")),),
    (within("client", ()),),
    (eq("client", "curl 2"),),
    (eq("client", "curl"), like("request_path", "/plans*")),
    (more("client", "curl"),),
)
FACETS: tuple[tuple[Condition, ...], ...] = (
    (),
    (eq("http_method", "put"),),
    (more("http_status", 399), within("http_method", ("post", "put"))),
)
SPANS: tuple[tuple[Condition, ...], ...] = (
    (),
    (at_least("logged_at", NOW - timedelta(days=2, minutes=3)),),
    (at_least("logged_at", NOW - timedelta(days=30)), at_most("logged_at", NOW - timedelta(days=1))),
    (at_least("logged_at", NOW.replace(hour=0, minute=0, second=0, microsecond=0)),),
    (less("logged_at", NOW - timedelta(days=1)),),
    (at_least("logged_at", NOW), at_most("logged_at", NOW - timedelta(days=1))),
)


@pytest.fixture(scope="module")
def logged() -> Iterator[tuple[Tenant, list[ApiLog]]]:
    """An organization with logs, and its logs newest first; another one has the same."""
    store = SqliteStore(":memory:")
    for tenant in (new_tenant(store), new_tenant(store)):
        logs = entries(tenant)
        tenant.insert(*logs)
        # Some are cleaned away, one changes.
        for log in logs[::11]:
            tenant.write(lambda tx, log=log: tx.delete(log))  # type: ignore[misc]
        left = [log for place, log in enumerate(logs) if place % 11]
        left[0] = replace(left[0], request_path="/plans/changed/b", client="python")
        tenant.write(lambda tx, log=left[0]: tx.replace(log))  # type: ignore[misc]
    recounted(store._writer)
    yield tenant, sorted(left, key=lambda log: (-log.logged_at.timestamp(), log.id))
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_logs_by_path_or_client_are_the_same_whichever_way_they_are_read(
    logged: tuple[Tenant, list[ApiLog]], way: int
) -> None:
    tenant, logs = logged
    matched = 0
    for values, facets, span in product(VALUES, FACETS, SPANS):
        conditions = (*values, *facets, *span)
        expected = [log.id for log in logs if all(holds(log, condition) for condition in conditions)]
        matched += len(expected)
        for limit, offset in ((5, 0), (3, 4)):
            with few(way):
                page, total = tenant.read(
                    lambda tx, conditions=conditions, limit=limit, offset=offset: tx.page(  # type: ignore[misc]
                        ApiLog, *conditions, order=[desc("logged_at")], limit=limit, offset=offset
                    )
                )
            assert total == Total(len(expected)), conditions
            assert [log.id for log in page] == expected[offset : offset + limit], (conditions, way)
    assert matched > 1000
