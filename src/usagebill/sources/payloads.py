"""Payloads: broker messages and lines of files, parsed as usage events or CloudEvents."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from usagebill.bindings import unix_seconds
from usagebill.core.cloud_events import NotACloudEvent, is_cloud_event, usage_event
from usagebill.core.event_sources import LONGEST_PAYLOAD
from usagebill.core.instants import parse_instant
from usagebill.json_text import parse_json
from usagebill.operations.event_sources import Arrival

__all__ = ["arrival_of", "timed"]

_NO_HEADERS: Mapping[str, str] = {}
# Header prefixes of CloudEvents attributes in Kafka and NATS, if the message is `data` alone (binary mode).
_ATTRIBUTES = ("ce_", "ce-")


def arrival_of(position: int, payload: bytes, headers: Mapping[str, str] = _NO_HEADERS) -> Arrival:
    """Parse a payload: a JSON object with the fields of `POST /events`, or a CloudEvent, structured or binary.

    Never raises: a payload that cannot be parsed gives an `Arrival` with its problem.
    """
    text = payload.decode("utf-8", "backslashreplace")
    if len(text) > LONGEST_PAYLOAD:
        return Arrival(position, text, problem={"payload": ["value_is_too_long"]})
    attributes = {name[3:].lower(): value for name, value in headers.items() if name[:3].lower() in _ATTRIBUTES}
    try:
        sent = parse_json(payload)
    except ValueError:
        return Arrival(position, text, problem={"payload": ["invalid_json"]})
    if attributes:
        sent = {**attributes, "data": sent}
    if not isinstance(sent, dict):
        return Arrival(position, text, problem={"payload": ["not_an_object"]})
    try:
        return Arrival(position, text, usage_event(sent) if is_cloud_event(sent) else timed(sent))
    except NotACloudEvent as problem:
        return Arrival(position, text, problem=dict(problem.problems))


def timed(event: Mapping[str, object]) -> Mapping[str, object]:
    """The event with a date as timestamp converted to seconds."""
    timestamp = event.get("timestamp")
    instant = parse_instant(timestamp) if isinstance(timestamp, str) and "-" in timestamp[1:] else None
    return event if instant is None else {**event, "timestamp": _plain(unix_seconds(instant))}


def _plain(seconds: Decimal) -> int | Decimal:
    return int(seconds) if seconds == seconds.to_integral_value() else seconds
