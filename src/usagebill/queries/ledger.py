"""The months that are closed in the books."""

from __future__ import annotations

from datetime import date

from usagebill.core.ledger import ClosedMonth
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import desc


def closed_until(reader: Reader) -> date | None:
    """The last day of the latest closed month; None if none was closed."""
    latest = reader.tx.first(ClosedMonth, order=[desc("last_day")])
    return None if latest is None else latest.last_day
