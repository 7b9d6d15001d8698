"""Positions of filters in SQL: the filters of a charge that price an event, as a text such as `3` or `3,7`.

With states keyed by positions there are few per slice, whatever keys the filters name and values events have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache

from usagebill.core.filters import FilterIndex
from usagebill.storage.sqlite.events.answers import EventSql

__all__ = ["index_of", "positions_of", "positions_sql", "prepare_positions"]


@lru_cache(maxsize=256)
def index_of(definition: str) -> FilterIndex:
    """The filters with this definition."""
    return FilterIndex.of_definition(definition)


@lru_cache(maxsize=10_000)
def positions_of(text: str) -> tuple[int, ...]:
    """The positions in the text."""
    return tuple(map(int, text.split(",")))


def positions_sql(query: EventSql, definition: str, texts: Sequence[str]) -> str:
    """SQL for the text of an event's positions; `texts` is SQL for its values of the keys of the filters."""
    return f"filter_positions({query.bind(definition)}, {', '.join(texts)})"


def prepare_positions(connection: sqlite3.Connection) -> None:
    """Register the SQL function on `connection`."""
    connection.create_function("filter_positions", -1, _positions, deterministic=True)


def _positions(definition: str, *texts: str | None) -> str:
    return ",".join(map(str, index_of(definition).of_values(texts)))
