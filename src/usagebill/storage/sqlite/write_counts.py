"""How often each kind of record has been written, counted in the file.

Whether another process has committed is all that SQLite tells. With these counts a process also knows which kinds of
record others have written, and need not repeat queries of the others.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from functools import cache
from typing import Final

from usagebill.core.activity_logs import ActivityLog
from usagebill.core.api_logs import ApiLog
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.webhooks import WebhookMessage
from usagebill.storage.tables import TABLES

# Written by most commits that others wait for: counting these would cost a row each, and spare nothing.
_UNCOUNTED: Final = frozenset({ActivityLog, ApiLog, BillingPeriod, Fee, Invoice, WebhookMessage})
# The sequences of no organization that count them, up to and including the end of the range.
_FIRST, _LAST = "writes/", "writes0"


@cache
def _kinds() -> Mapping[str, type]:
    return {f"{_FIRST}{table.name}": table.kind for table in TABLES if table.kind not in _UNCOUNTED}


@cache
def _names() -> Mapping[type, str]:
    return {kind: name for name, kind in _kinds().items()}


def is_counted(kind: type) -> bool:
    """Whether the file counts the writes to this kind of record."""
    return kind in _names()


def write_counts(connection: sqlite3.Connection) -> dict[type, int]:
    """The number of commits that have written each kind; kinds never written since they are counted are left out."""
    rows = connection.execute(
        "SELECT name, value FROM sequences WHERE organization_id = '' AND name BETWEEN ? AND ?", (_FIRST, _LAST)
    )
    return {_kinds()[name]: count for name, count in rows if name in _kinds()}


def add_writes(connection: sqlite3.Connection, kinds: Collection[type]) -> frozenset[type]:
    """Count that this transaction has written these kinds; returns those that are counted."""
    counted = frozenset(filter(is_counted, kinds))
    if counted:
        connection.executemany(
            "INSERT INTO sequences (organization_id, name, value) VALUES ('', ?, 1)"
            " ON CONFLICT (organization_id, name) DO UPDATE SET value = value + 1",
            [(_names()[kind],) for kind in counted],
        )
    return counted
