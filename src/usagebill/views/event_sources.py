"""Event sources and refused events as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from usagebill.core.event_sources import EventSource, IngestedEvents, RefusedEvent
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text


class EventSourceView(TypedDict):
    """`position`: everything before it is stored, or listed as refused."""

    svc_id: Id
    source: str
    part: str
    position: int
    events_count: int
    duplicates_count: int
    refused_count: int
    created_at: Instant
    updated_at: Instant


class RefusedEventView(TypedDict):
    """`payload` is the original text; `event` the parsed event, null if it could not be parsed."""

    svc_id: Id
    source: str
    part: str
    position: int
    payload: str
    event: Mapping[str, object] | None
    problem: Mapping[str, object]
    created_at: Instant


class IngestedEventsView(TypedDict):
    events_count: int
    duplicates_count: int


def ingested_events_view(_: Reader, ingested: IngestedEvents) -> IngestedEventsView:
    """The numbers of stored events and of duplicates."""
    return {"events_count": ingested.events_count, "duplicates_count": ingested.duplicates_count}


def event_source_view(_: Reader, source: EventSource) -> EventSourceView:
    """The position up to which a source was read."""
    return {
        "svc_id": source.id,
        "source": source.source,
        "part": source.part,
        "position": source.position,
        "events_count": source.events_count,
        "duplicates_count": source.duplicates_count,
        "refused_count": source.refused_count,
        "created_at": instant_text(source.created_at),
        "updated_at": instant_text(source.updated_at),
    }


def refused_event_view(_: Reader, refused: RefusedEvent) -> RefusedEventView:
    """A refused event, and the reason."""
    return {
        "svc_id": refused.id,
        "source": refused.source,
        "part": refused.part,
        "position": refused.position,
        "payload": refused.payload,
        "event": refused.event,
        "problem": refused.problem,
        "created_at": instant_text(refused.created_at),
    }
