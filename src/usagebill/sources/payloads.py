"""Payloads: broker messages and lines of files, parsed as usage events or CloudEvents."""

from __future__ import annotations

import re
from collections.abc import Mapping

from usagebill.core.cloud_events import NotACloudEvent, is_cloud_event, usage_event
from usagebill.core.event_sources import LONGEST_PAYLOAD
from usagebill.operations.event_sources import Arrival
from usagebill.process.json_text import parse_json
from usagebill.sources.rows import of_event

_NO_HEADERS: Mapping[str, str] = {}
# Header prefixes of CloudEvents attributes in Kafka and NATS, if the message is `data` alone (binary mode).
_ATTRIBUTES = ("ce_", "ce-")
_NOT_FINITE = re.compile(r'"([^"\\]{1,100})"\s*:\s*(NaN|-?Infinity)\b')


def arrival_of(position: int, payload: bytes, headers: Mapping[str, str] = _NO_HEADERS) -> Arrival:
    """Parse a payload: the JSON of `POST /events`, with or without the outer `event`, or a CloudEvent, structured or
    binary.

    Never raises: a payload that cannot be parsed gives an `Arrival` with its problem.
    """
    text = payload.decode("utf-8", "backslashreplace")
    if len(text) > LONGEST_PAYLOAD:
        return Arrival(position, text, problem={"payload": ["value_is_too_long"]})
    attributes = {name[3:].lower(): value for name, value in headers.items() if name[:3].lower() in _ATTRIBUTES}
    try:
        sent = parse_json(payload)
    except ValueError:
        not_finite = _NOT_FINITE.search(text)
        code = f"'{not_finite[1]}' is {not_finite[2]}, which no usage is, nor JSON" if not_finite else "invalid_json"
        return Arrival(position, text, problem={"payload": [code]})
    if attributes:
        sent = {**attributes, "data": sent}
    if isinstance(sent, dict) and isinstance(sent.get("event"), dict) and len(sent) == 1:
        sent = sent["event"]
    if not isinstance(sent, dict):
        return Arrival(position, text, problem={"payload": ["not_an_object"]})
    try:
        event = usage_event(sent) if is_cloud_event(sent) else sent
    except NotACloudEvent as problem:
        return Arrival(position, text, problem=dict(problem.problems))
    if is_cloud_event(sent) and sent.get("time") is None:
        return Arrival(position, text, problem={"time": ["value_is_mandatory"]})
    return of_event(position, text, event)
