"""Events as a library user hands them over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from types import NoneType

from usagebill.operations import events
from usagebill.requests.sent_fields import field_names
from usagebill.resources.bindings import exact, refuse_slips, unix_seconds

_FIELDS = field_names(events.EventInput)
# Types that ingestion accepts directly; other values in properties are first converted to those of JSON.
_PLAIN = frozenset({str, int, bool, float, Decimal, NoneType})


def batch_of(request: Iterable[Mapping[str, object]], called: str) -> events.EventsInput:
    """The events of a call that takes a list."""
    if isinstance(request, Mapping):
        raise TypeError(f"{called} takes a list of events; create takes one, by keyword")
    return events.EventsInput(events=tuple(event_fields(event) for event in request))


def event_fields(fields: Mapping[str, object]) -> Mapping[str, object]:
    """The caller's event, with its time in Unix seconds as in the API."""
    if not isinstance(fields, Mapping):
        raise TypeError(f"an event is an object with its fields, not {fields!r}")
    if not _FIELDS.issuperset(fields):
        refuse_slips(events.EventInput, fields)
    timestamp, properties = fields.get("timestamp"), fields.get("properties")
    if isinstance(timestamp, datetime):
        fields = {**fields, "timestamp": unix_seconds(timestamp)}
    if isinstance(properties, Mapping) and not all(type(value) in _PLAIN for value in properties.values()):
        fields = {**fields, "properties": exact(properties)}
    return fields
