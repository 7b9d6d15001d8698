"""The embedded engine keeps the contract: in memory, and in a file with its readers and writer apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.storage.events_contract import EventsContract

from usagebill.storage.ports import Store
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
