"""The query for the states of events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from usagebill.storage.sqlite.events.answers import BILLION, EventSql, weights_sql
from usagebill.storage.sqlite.events.filter_positions import index_of, positions_sql
from usagebill.storage.usage_series import AGES, COUNT, DAY, NUMBERS, PRICED_NUMBERS, VALUES, WEIGHTED_NUMBERS, Shape


def fresh_sql(
    query: EventSql, shape: Shape, source: str, series: str, width: str, *, with_uncounted: bool = False
) -> str:
    """The query for the states of the events of `source`: `STATE_COLUMNS`, when the last of them was received, and
    whether any has an operation type. States of the same name are to be merged (`state_rows.merged`).

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
    slot, kept_slot = f"(timestamp + {AGES}) / {width} - {AGES} / {width}", "slice"
    if shape.kind == VALUES:
        # Calendar months: a value counts once however often it occurs, so fewer slices are better. The month of each
        # day is found once.
        slot = f"(timestamp + {AGES}) / {DAY}"
        kept_slot = (
            "CAST(strftime('%Y%m', (MIN(timestamp) - (MIN(timestamp) % 1000000 + 1000000) % 1000000) / 1000000,"
            " 'unixepoch') AS INTEGER)"
        )
    columns = [f"{series} AS series", f"{slot} AS slice", *texts, "timestamp", "sequence", "created_at"]
    columns += [f"{column} AS {name}" for name, column in read.items()]
    # The limit keeps SQLite from parsing numbers once per column.
    rows = f"SELECT {', '.join(columns)} FROM {source}{'' if shape.kind == COUNT else ' LIMIT -1'}"
    array = f"json_array({', '.join(dims)})" if dims else "''"
    # Constant columns are left out: SQLite would sort by them too. New events mostly have the same slot.
    by = [*([] if series.lstrip("-").isdigit() else ["series"]), *keys, "slice"]
    by += ["value"] if shape.kind == VALUES else []
    where, more = _COUNTING[shape.kind], ""
    if with_uncounted:
        where, more = "1", f", COUNT(*) AS events, {where} AS counts"
        by.append("counts")
    value, spoken = ("value", "MAX(spoken)") if shape.kind == VALUES else ("''", "0")
    kept = ", ".join(f"{sql} AS {name}" for name, sql in _KEPT_OF[shape.kind].items())
    return (
        f"SELECT series, {kept_slot} AS slot, {array} AS dims, {value} AS value, {kept},"
        f" MAX(created_at) AS received_at, {spoken} AS spoken{more} FROM ({rows}) WHERE {where}"
        f" GROUP BY {', '.join(by)}"
    )


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


STATE_COLUMNS: Final = (
    "series, slot, dims, value, n, low, high, top, longs, rest, long_top, first_at, first_sequence, last_at, moment,"
    " paid"
)
# The places of the columns that are not a state's name.
KEPT: Final = slice(4, 16)
