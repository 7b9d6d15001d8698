"""Rows of usage: what a line, a row of a table and a message of a broker must have in common to be an event.

Whoever sends an event over HTTP without a timestamp means now. A file is read hours or months after what it tells of,
and a message may have waited, so that a row has to say when the usage was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from usagebill.core.event_times import timestamp_problem
from usagebill.core.instants import parse_instant
from usagebill.operations.event_sources import Arrival
from usagebill.process.json_text import parse_json
from usagebill.resources.bindings import unix_seconds

FIELDS: Final = (
    "transaction_id",
    "code",
    "external_subscription_id",
    "timestamp",
    "precise_total_amount_cents",
    "properties",
)
_NEEDED: Final = ("transaction_id", "code", "timestamp")
# The columns of `usagebill export events`: also when an event was received, which is no property of it.
EXPORTED: Final = frozenset({*FIELDS, "created_at"})
_SHOWN = 20
# How spreadsheets write numbers of 12 digits and more: the rest of an id, and a part of a time, is gone.
_ROUNDED: Final = re.compile(r"-?\d(?:[.,]\d{1,5})?E\+\d{2,3}")


class NotAHeader(Exception):
    """The columns of a table are not those of events: nothing of it can be read."""


def check_columns(columns: Sequence[str]) -> None:
    """Raise `NotAHeader` unless the columns of a table are unambiguous and have what every event needs."""
    problems = [
        f"column {_quoted(name)} stands there {count} times" if name else f"{count} columns have no name: remove them"
        for name, count in Counter(columns).items()
        if count > 1
    ]
    misspelled = dict(_misspelled(columns))
    problems += [
        f"column {_quoted(name)} must be written {_quoted(field)}, in lower case and without blanks"
        for name, field in misspelled.items()
    ]
    missing = [field for field in _NEEDED if field not in columns and field not in misspelled.values()]
    if missing:
        columns_shown = ", ".join(_quoted(name) for name in columns[:_SHOWN])
        problems.append(f"there is no column {' and no column '.join(map(_quoted, missing))}, but {columns_shown}")
    if problems:
        raise NotAHeader("; ".join(problems))


def of_values(position: int, payload: str, values: Mapping[str, object]) -> Arrival:
    """An event from the values of a row, or of a JSON object, by name: one that is no field is a property.

    None is absent, as is a blank field.
    """
    present = {name: value for name, value in values.items() if not (value is None or (value == "" and name in FIELDS))}
    event: dict[str, object] = {name: present.pop(name) for name in FIELDS if name in present}
    for name, value in event.items():
        if isinstance(value, str) and _ROUNDED.fullmatch(value):
            cause = f"{_quoted(value)} was rounded by a spreadsheet; format the column as text before it is saved"
            return Arrival(position, payload, problem={name: [cause]})
    if values.keys() >= EXPORTED:
        present.pop("created_at", None)
    properties = _properties(event)
    if properties is None:
        return Arrival(position, payload, problem={"properties": ["is no JSON object"]})
    for name in present:
        if name in properties:
            return Arrival(position, payload, problem={"properties": [f"{_quoted(name)} is in them and beside them"]})
    return _timed(position, payload, {**event, "properties": {**properties, **present}})


def of_event(position: int, payload: str, event: Mapping[str, object]) -> Arrival:
    """An event from a JSON object with the fields of `POST /events`, or from a CloudEvent that was read as one."""
    misspelled = next(_misspelled(event), None)
    if misspelled is not None:
        return Arrival(position, payload, problem={misspelled[1]: [f"is written {_quoted(misspelled[0])}"]})
    return of_values(position, payload, event)


def _timed(position: int, payload: str, event: Mapping[str, object]) -> Arrival:
    """The event with its timestamp in Unix seconds; refused without one, since nobody knows which period it is of."""
    sent = event.get("timestamp")
    if isinstance(sent, str):
        sent = sent.strip()
        instant = parse_instant(sent) if "-" in sent[1:] else None
        if instant is not None:
            return Arrival(position, payload, {**event, "timestamp": _plain(unix_seconds(instant))})
    problem = timestamp_problem(sent if isinstance(sent, (str, int, Decimal)) else None)
    if problem is not None:
        return Arrival(position, payload, problem={"timestamp": [problem]})
    return Arrival(position, payload, {**event, "timestamp": sent})


def _plain(seconds: Decimal) -> int | Decimal:
    return int(seconds) if seconds == seconds.to_integral_value() else seconds


def _properties(event: Mapping[str, object]) -> Mapping[str, object] | None:
    """The properties, which tables hold as JSON text; None if they are no object."""
    properties = event.get("properties")
    if isinstance(properties, str) and properties.strip():
        try:
            properties = parse_json(properties.encode())
        except ValueError:
            return None
    if properties is None or properties == "":
        return {}
    return properties if isinstance(properties, Mapping) else None


def _misspelled(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Names that differ from a field's in nothing but case, blanks and hyphens, each with the field."""
    for name in names:
        plain = name.strip(" \t\ufeff\u00a0").casefold().replace(" ", "_").replace("-", "_")
        if name not in FIELDS and plain in FIELDS:
            yield name, plain


def _quoted(name: str) -> str:
    return f"'{name}'"
