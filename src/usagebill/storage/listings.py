"""Listings: how the records of a kind are listed, so that engines can prepare indexes and counts.

A list has one order, and filters by columns with few values (facets), bounds of a column (ranges), parts of texts
(searched), whole texts ignoring case (folded) and items of JSON lists (items). An engine may keep counts by facet and
range, indexes in list order, and a text index; results never depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass

from usagebill.storage.conditions import (
    Condition,
    Order,
    desc,
)


@dataclass(frozen=True, slots=True)
class CountFault:
    """A kept count that differs from a recount of the records.

    `listed` is the table of the list, `count` says which records are counted, `kept` is the number that lists show and
    `counted` the number that there are.
    """

    listed: str
    count: str
    kept: int
    counted: int


@dataclass(frozen=True, slots=True)
class Joined:
    """The column `inner` of the record of `kind` whose id is in `column`."""

    kind: type
    column: str
    inner: str


@dataclass(frozen=True, slots=True)
class SearchedWith:
    """The record of `kind` whose id is in `column`: searches include its `columns` too."""

    kind: type
    column: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flag:
    """Whether `condition` holds, under a name of its own."""

    name: str
    condition: Condition


# A column, a column of a related record, or a flag.
Facet = str | Joined | Flag


@dataclass(frozen=True, slots=True)
class Total:
    """How many records a list has: `count`, or at least that many unless it `is_exact`."""

    count: int
    is_exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """How records of a kind are listed, in `order`; the id breaks ties, smallest first.

    `facets` have few values together: records are counted by them. `ranges` are columns of dates, instants or cents.
    `keys` are columns that name another record; a list can be limited to the records of one, by an index in list order.
    `narrow` are other columns that filters name, each with an index in list order. `shown` is the condition for a
    record to be listed at all; deleted records never are. Searches cover the columns `searched`, and most of them those
    of the record that it is `searched_with`. `folded` are texts that are compared in any case; `items` are lists of
    keys and values.
    """

    order: tuple[Order, ...] = (desc("created_at"),)
    facets: tuple[Facet, ...] = ()
    ranges: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    narrow: tuple[str, ...] = ()
    shown: Condition | None = None
    searched: tuple[str, ...] = ()
    searched_with: SearchedWith | None = None
    folded: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
