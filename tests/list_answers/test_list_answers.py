"""Every list, filter and search returns what it always did, on both engines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.list_rows import NOW

from tests.list_answers import answers, differing, filled, frozen
from tests.postgresql import new_database
from usagebill import Billing
from usagebill.runtime.clock import ManualClock
from usagebill.storage.postgresql import PostgresStore
from usagebill.storage.postgresql.migration import migrate

ROWS = 3_000


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.second_engine)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Billing, str]]:
    """A file, or a database, with so many rows of each kind, and the value of its key."""
    billing, key = filled(tmp_path / "lists.db", ROWS)
    if request.param == "sqlite":
        with billing:
            yield billing, key
        return
    billing.close()
    with new_database() as url:
        target = PostgresStore(url, migrating=True)
        migrate(str(tmp_path / "lists.db"), target, lambda table, count: None)
        target.close()
        with Billing(url, clock=ManualClock(NOW), deliver=False) as billing:
            yield billing, key


@pytest.mark.slow
def test_every_address_answers_as_it_did(opened: tuple[Billing, str]) -> None:
    expected = json.loads(frozen(ROWS).read_text())
    found = dict(answers(*opened))
    assert list(found) == list(expected)
    assert differing(expected, found) == {}
