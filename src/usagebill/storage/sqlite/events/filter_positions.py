"""Positions of filters in SQL: the filters of a charge that price an event, as a text such as `3` or `3,7`.

With states keyed by positions there are few per slice, whatever keys the filters name and values events have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from weakref import WeakValueDictionary

from usagebill.core.filters import FilterIndex
from usagebill.storage.sqlite.events.answers import EventSql


@lru_cache(maxsize=256)
def index_of(definition: str) -> FilterIndex:
    """The filters with this definition."""
    return FilterIndex.of_definition(definition)


@lru_cache(maxsize=10_000)
def positions_of(text: str) -> tuple[int, ...]:
    """The positions in the text."""
    return tuple(map(int, text.split(",")))


# Filters of queries that exist, by their numbers: a definition would be read for each event.
_filters: WeakValueDictionary[int, FilterIndex] = WeakValueDictionary()


def positions_sql(query: EventSql, filters: FilterIndex, texts: Sequence[str]) -> str:
    """SQL for the text of an event's positions; `texts` is SQL for its values of the keys of the filters."""
    query.filters.append(filters)
    _filters[id(filters)] = filters
    return f"filter_positions({query.bind(id(filters))}, {', '.join(texts)})"


def prepare_positions(connection: sqlite3.Connection) -> None:
    """Register the SQL function on `connection`."""
    connection.create_function("filter_positions", -1, _positions, deterministic=True)


def _positions(number: int, *texts: str | None) -> str:
    return _text_of(_filters[number].of_values(texts))


@lru_cache(maxsize=10_000)
def _text_of(positions: tuple[int, ...]) -> str:
    return ",".join(map(str, positions))
