"""Sums: exact totals of grouped records, computed by the engine."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A column to group records by; with `month`, by its first seven characters (`2024-01`).

    `via` leads to the record that has the column: each step is a kind and the column with the id of a record of it.
    """

    column: str
    via: tuple[tuple[type, str], ...] = ()
    month: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """One group: its values as stored (texts, numbers and None), the number of records, and the sum of each column."""

    key: tuple[object, ...]
    count: int
    sums: tuple[Decimal, ...]
