"""Files of events in Parquet: columns are fields and properties, numbers are exact.

A binary float is read as the shortest decimal that its own type tells from its neighbours, as its writer would print
it: 0.1 in 32 bits is 0.1, and not the 0.10000000149011612 that it is in 64.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from usagebill.operations.event_sources import Arrival
from usagebill.sources.rows import check_columns, of_values

_Reads = Callable[[Any], object]


class Unreadable(Exception):
    """A file, or the rest of it, cannot be parsed: it is no text, no table of events or no Parquet."""


class MissingPackage(Exception):
    """Parquet needs a package that is not installed."""


class _NotFinite(ValueError):
    """NaN or an infinity, which no usage is."""


def length_of_parquet(path: Path) -> int:
    """The number of rows of a file. Raises `Unreadable`, `MissingPackage`."""
    return int(_opened(path).metadata.num_rows)


def rows_of_parquet(path: Path, batch: int) -> Iterator[Arrival]:
    """The rows of a file, each with its number from 1. Raises `NotAHeader`, `Unreadable`, `MissingPackage`."""
    table = _opened(path)
    from pyarrow import ArrowException

    schema = table.schema_arrow
    check_columns(schema.names)
    reads = {field.name: _reading(field.type) for field in schema}
    exact = _in_microseconds(schema)
    position = 0
    try:
        for part in table.iter_batches(batch_size=batch):
            for row in (part if exact == schema else part.cast(exact, safe=False)).to_pylist():
                position += 1
                yield _arrival(position, row, reads)
    except (ArrowException, OSError) as problem:
        raise Unreadable(str(problem)) from problem


def _opened(path: Path) -> Any:
    try:
        from pyarrow import parquet
    except ModuleNotFoundError as problem:
        raise MissingPackage("Parquet needs the package pyarrow: pip install 'usagebill[export]'") from problem
    from pyarrow import ArrowException

    try:
        # Read, not mapped: a file that shrinks while it is mapped ends the process.
        return parquet.ParquetFile(path, memory_map=False)
    except (ArrowException, OSError) as problem:
        raise Unreadable(str(problem)) from problem


def _arrival(position: int, row: Mapping[str, Any], reads: Mapping[str, _Reads]) -> Arrival:
    values: dict[str, object] = {}
    for name, value in row.items():
        if value is None:
            values[name] = None
            continue
        try:
            values[name] = reads[name](value)
        except _NotFinite:
            return Arrival(position, str(dict(row)), problem={name: ["holds NaN or an infinity, which no usage is"]})
    return of_values(position, str(dict(row)), values)


def _in_microseconds(schema: Any) -> Any:
    """The schema with columns of nanoseconds in microseconds, as far as an instant goes."""
    import pyarrow

    for index, field in enumerate(schema):
        if pyarrow.types.is_timestamp(field.type) and field.type.unit == "ns":
            schema = schema.set(index, field.with_type(pyarrow.timestamp("us", tz=field.type.tz)))
    return schema


def _reading(kind: Any) -> _Reads:
    """How values of an Arrow type become JSON."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return _reading(kind.value_type)
    if types.is_struct(kind):
        members = {field.name: _reading(field.type) for field in kind}
        return lambda value: {name: _maybe(members[name], item) for name, item in value.items() if item is not None}
    if types.is_map(kind):
        item_of = _reading(kind.item_type)
        return lambda value: {str(name): _maybe(item_of, item) for name, item in value if item is not None}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        of_items = _reading(kind.value_type)
        return lambda value: [_maybe(of_items, item) for item in value]
    if types.is_float16(kind):
        return lambda value: _shortest(float(value), "e", 5)
    if types.is_float32(kind):
        return lambda value: _shortest(value, "f", 9)
    if types.is_float64(kind):
        return lambda value: _shortest(value, "d", 17)
    if types.is_timestamp(kind):
        return lambda value: _aware(value).isoformat()
    if types.is_date(kind) or types.is_time(kind):
        return lambda value: value.isoformat()
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return lambda value: value.hex()
    return lambda value: value if isinstance(value, (bool, int, str, Decimal)) else str(value)


def _maybe(reads: _Reads, value: Any) -> object:
    return None if value is None else reads(value)


def _aware(instant: datetime) -> datetime:
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _shortest(value: float, form: str, digits: int) -> Decimal:
    """The decimal of fewest digits that is this value in the binary format `form` of `struct`."""
    if value - value != 0:
        raise _NotFinite
    packed = struct.pack(form, value)
    for count in range(1, digits):
        text = f"{value:.{count}g}"
        try:
            if struct.pack(form, float(text)) == packed:
                return Decimal(text)
        except OverflowError:  # rounded up beyond the largest value
            continue
    return Decimal(f"{value:.{digits}g}")
