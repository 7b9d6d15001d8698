"""Running totals for tests: everything has them, however few its events, and they are rolled up a few at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from usagebill.storage.postgresql.events import dialect
from usagebill.storage.sql import usage_totals


@contextmanager
def eager_states(*, at_once: int = 300, max_waiting: int = 10_000) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(usage_totals, "WORTH_A_SERIES", 0)
        patch.setattr(usage_totals, "AT_ONCE", at_once)
        patch.setattr(usage_totals, "MAX_WAITING", max_waiting)
        for module in (usage_totals, dialect):
            patch.setattr(module, "MIN_WAITING", 1)
        patch.setattr(usage_totals, "EVENTS_PER_ROW", 0)
        patch.setattr(usage_totals, "MAX_SERIES", 1000)
        yield
