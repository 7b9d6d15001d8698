"""Queries for the states of events, and for those of wider slices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from usagebill.storage.sqlite.events.answers import BILLION, EventSql, weights_sql
from usagebill.storage.sqlite.events.filter_positions import index_of, positions_sql
from usagebill.storage.usage_series import AGES, COUNT, NUMBERS, PRICED_NUMBERS, VALUES, WEIGHTED_NUMBERS, Shape

__all__ = ["COUNTED_COLUMNS", "KEPT", "STATE_COLUMNS", "fresh_sql", "widened_sql"]


def fresh_sql(
    query: EventSql, shape: Shape, source: str, series: str, width: str, *, with_uncounted: bool = False
) -> str:
    """The query for the states of the events of `source`.

    For numbers, `with_uncounted` adds states of the events without one, and two columns: the number of all events of a
    state, and whether they have numbers.
    """
    filters = None if shape.filters is None else index_of(shape.filters)
    filter_keys = () if filters is None else filters.keys
    texts = [f"{query.text(key)} AS key_{place}" for place, key in enumerate((*filter_keys, *shape.keys))]
    keys = [f"key_{place}" for place in range(len(texts))]
    dims = keys[len(filter_keys) :]
    if filters is not None:
        dims.insert(0, positions_sql(query, filters, keys[: len(filter_keys)]))
    read = _read(query, shape)
    slot = f"(timestamp + {AGES}) / {width} - {AGES} / {width}"
    if shape.kind == VALUES:
        # Calendar months: a value counts once however often it occurs, so fewer slices are better.
        slot = (
            "CAST(strftime('%Y%m', (timestamp - (timestamp % 1000000 + 1000000) % 1000000) / 1000000, 'unixepoch')"
            " AS INTEGER)"
        )
    columns = [f"{series} AS series", f"{slot} AS slot", *texts, "timestamp", "sequence", "created_at"]
    columns += [f"{column} AS {name}" for name, column in read.items()]
    # The limit keeps SQLite from parsing numbers once per column.
    rows = f"SELECT {', '.join(columns)} FROM {source}{'' if shape.kind == COUNT else ' LIMIT -1'}"
    array = f"json_array({', '.join(dims)})" if dims else "''"
    # Constant columns are left out: SQLite would sort by them too. New events mostly have the same slot.
    by = [*([] if series.lstrip("-").isdigit() else ["series"]), *keys, "slot"]
    by += ["value"] if shape.kind == VALUES else []
    where, more, merged_more = _COUNTING[shape.kind], "", ""
    if with_uncounted:
        where, more, merged_more = "1", f", COUNT(*) AS events, {where} AS counts", ", SUM(events), counts"
        by.append("counts")
    value, spoken = ("value", "MAX(spoken)") if shape.kind == VALUES else ("''", "0")
    kept = ", ".join(f"{sql} AS {name}" for name, sql in _KEPT_OF[shape.kind].items())
    states = (
        f"SELECT series, slot, {array} AS dims, {value} AS value, {kept}, MAX(created_at) AS received_at,"
        f" {spoken} AS spoken{more} FROM ({rows}) WHERE {where} GROUP BY {', '.join(by)}"
    )
    if filters is None:
        return states
    # Events that the same filters price may have any values.
    merged = f"SELECT series, slot, {_MERGED}{merged_more} FROM ({states}) GROUP BY 1, 2, 3, 4"
    return f"{merged}, counts" if with_uncounted else merged


def _read(query: EventSql, shape: Shape) -> dict[str, str]:
    """The columns of an event that its state is computed from, by name, besides its instants and place."""
    field = shape.field or ""
    if shape.kind == WEIGHTED_NUMBERS:
        return {"long": query.number(field)}
    if shape.kind == VALUES:
        # The operation type, which hardly any event has.
        return {"value": f"({query.text(field)})", "spoken": "instr(properties, '\"operation_type\"') > 0"}
    if shape.kind == COUNT:
        return {}
    columns = {"short": f"({query.member('millionths', field)})", "long": f"({query.member('long_numbers', field)})"}
    return {**columns, "price": "precise_total_amount_cents"} if shape.kind == PRICED_NUMBERS else columns


_IS_NUMBER: Final = "short IS NOT NULL OR long IS NOT NULL"
_COUNTING: Final[Mapping[str, str]] = {
    COUNT: "1",
    NUMBERS: _IS_NUMBER,
    PRICED_NUMBERS: _IS_NUMBER,
    WEIGHTED_NUMBERS: "long IS NOT NULL",
    VALUES: "value IS NOT NULL",
}

_COUNTED: Final = {
    "n": "COUNT(*)",
    "low": "0",
    "high": "0",
    "top": "NULL",
    "longs": "0",
    "rest": "NULL",
    "long_top": "NULL",
    "first_at": "MIN(timestamp)",
    "first_sequence": "MIN(sequence)",
    "last_at": "MAX(timestamp)",
    "moment": "NULL",
    "paid": "NULL",
}
_NUMBERED: Final = {
    **_COUNTED,
    "n": "COUNT(short)",
    "low": f"coalesce(SUM(short % {BILLION}), 0)",
    "high": f"coalesce(SUM(short / {BILLION}), 0)",
    "top": "MAX(short)",
    "longs": "COUNT(long)",
    "rest": "exact_sum(long) FILTER (WHERE long IS NOT NULL)",
    "long_top": "exact_max(long) FILTER (WHERE long IS NOT NULL)",
}
# The columns of a state, by name, in their order. Those that it does not need are constants: aggregating them would
# cost as much as the others.
_KEPT_OF: Final[Mapping[str, Mapping[str, str]]] = {
    COUNT: _COUNTED,
    VALUES: _COUNTED,
    NUMBERS: _NUMBERED,
    PRICED_NUMBERS: {**_NUMBERED, "paid": "exact_sum(price) FILTER (WHERE price IS NOT NULL)"},
    # All numbers are kept as texts, with the decimals that were sent, on which those of the result depend.
    WEIGHTED_NUMBERS: {
        **_COUNTED,
        "n": "0",
        "longs": "COUNT(*)",
        **dict(zip(("rest", "moment"), weights_sql("exact_weights(long, timestamp)"), strict=True)),
    },
}


# The columns of a count's state, from those of numbers `with_uncounted`.
COUNTED_COLUMNS: Final = (
    "slot, dims, value, events, 0, 0, NULL, 0, NULL, NULL, first_at, first_sequence, last_at, NULL, NULL, received_at,"
    " spoken"
)
# The columns of states after their series and slot, merged.
_MERGED: Final = (
    "dims, value, SUM(n) AS n, SUM(low) AS low, SUM(high) AS high, MAX(top) AS top, SUM(longs) AS longs,"
    " exact_sum(rest) FILTER (WHERE rest IS NOT NULL) AS rest,"
    " exact_max(long_top) FILTER (WHERE long_top IS NOT NULL) AS long_top, MIN(first_at) AS first_at,"
    " MIN(first_sequence) AS first_sequence, MAX(last_at) AS last_at,"
    " exact_sum(moment) FILTER (WHERE moment IS NOT NULL) AS moment,"
    " exact_sum(paid) FILTER (WHERE paid IS NOT NULL) AS paid, MAX(received_at) AS received_at, MAX(spoken) AS spoken"
)
STATE_COLUMNS: Final = (
    "series, slot, dims, value, n, low, high, top, longs, rest, long_top, first_at, first_sequence, last_at, moment,"
    " paid"
)
# The places of the columns that are not a state's name.
KEPT: Final = slice(4, 16)


def widened_sql(fresh: str, number: str, wider: int) -> str:
    """The query for states of slices of this width, kept under `number`, from fresh ones of narrower slices."""
    # The start of the slice, also before 1970.
    starts = f"slot * width - (slot * width % {wider} + {wider}) % {wider}"
    return (
        f"SELECT {number} AS series, ({starts}) / {wider} AS slot, {_MERGED}"
        f" FROM {fresh} JOIN usage_series ON id = series WHERE width < {wider} GROUP BY 1, 2, 3, 4"
    )
