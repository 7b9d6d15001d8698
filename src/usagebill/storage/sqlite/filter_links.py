"""Links of overrides' filters to the plan's filters that they copy, in files of a time when they had none."""

from __future__ import annotations

from typing import Any, Protocol

from usagebill.core.cascades import linked_filters
from usagebill.core.plans import Charge
from usagebill.storage.sqlite.rows import codec_of


class Connection(Protocol):
    """A connection of either engine."""

    def execute(self, sql: str, parameters: tuple[Any, ...] = ..., /) -> Any: ...


def add_filter_links(connection: Connection) -> None:
    """Link each filter of an override to the plan's filter with the same values; of several, in their order."""
    column = next(column for column in codec_of(Charge).columns if column.name == "filters")
    decode, encode = column.decode, column.encode
    if decode is None or encode is None:
        raise TypeError("filters are stored as a list")
    rows = connection.execute(
        "SELECT copy.id, copy.filters, original.filters FROM charges copy"
        " JOIN charges original ON original.id = copy.parent_id WHERE copy.filters <> '[]'"
    ).fetchall()
    for id, copied, originals in rows:
        filters = decode(copied)
        linked = linked_filters(filters, decode(originals))
        if linked != filters:
            connection.execute("UPDATE charges SET filters = ? WHERE id = ?", (encode(linked), id))
