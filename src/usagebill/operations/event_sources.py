"""Event sources: arrivals are ingested or listed as refused, and the position is stored, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from usagebill.core.cloud_events import NotACloudEvent, usage_event
from usagebill.core.errors import Invalid, NotAllowed, NotFound
from usagebill.core.event_batches import Problems
from usagebill.core.event_sources import LONGEST_PAYLOAD, EventSource, IngestedEvents, RefusedEvent
from usagebill.core.events import Event
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.operations.events import Ingested, events_sent, ingest_each
from usagebill.requests.inputs import Input, Maybe, Paging, described
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, asc, desc, eq
from usagebill.storage.ports import Page

# The most refused events retried at once.
_RETRIED = 10_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """An entry of a source at `position`, as text, with the `event` read from it, or the `problem` with it."""

    position: int
    payload: str
    event: Mapping[str, object] | None = None
    problem: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """The outcome of arrivals: the events stored, the number of duplicates, and the problem of each refused one."""

    events: Sequence[Event]
    duplicates: int
    refused: Mapping[int, Mapping[str, object]]


@Input
class CloudEventsInput:
    """`events` are CloudEvents 1.0 in JSON, as the format `application/cloudevents-batch+json` lists them."""

    events: Maybe[tuple[object, ...]] = described("The CloudEvents.", most=None)


@Input
class RefusedEventFilters:
    """`source` is the name shown in the list of sources."""

    source: Maybe[str] = described("Only those from this source.", example="kafka:usage")


# Taking


def source_of(reader: Reader, source: str, part: str) -> EventSource | None:
    """The stored position of this part of a source, None before the first."""
    return reader.tx.first(EventSource, eq("source", source), eq("part", part))


def take(
    work: Work,
    source: str,
    part: str,
    arrivals: Sequence[Arrival],
    *,
    position: int,
    checksum: str | None = None,
    lists_refused: bool = True,
) -> Taken:
    """Ingest the arrivals, list those that are no events as refused, and store the `position` of the source.

    This is atomic and idempotent: a source may drop the arrivals once this has returned, and may send them again after
    a crash, because stored events are not stored twice. Without `lists_refused` the caller reports the refused ones.
    """
    readable = [arrival for arrival in arrivals if arrival.event is not None]
    ingested = ingest_each(work, [arrival.event for arrival in readable if arrival.event is not None])
    problems = {readable[index].position: _codes(problem) for index, problem in ingested.problems.items()}
    problems |= {arrival.position: arrival.problem for arrival in arrivals if arrival.problem is not None}
    refused = [arrival for arrival in arrivals if arrival.position in problems]
    count = len(refused)
    if lists_refused:
        count = sum(_refuse(work, source, part, arrival, problems[arrival.position]) for arrival in refused)
    _note(work, source, part, position, checksum, ingested, count)
    return Taken(ingested.events, len(ingested.duplicates), problems)


def _codes(problem: Problems) -> Mapping[str, object]:
    """The error codes by field; a failed expression is a text, filed under the properties."""
    if isinstance(problem, str):
        return {"properties": [problem]}
    return {field: codes if isinstance(codes, list) else [str(codes)] for field, codes in problem.items()}


def _refuse(work: Work, source: str, part: str, arrival: Arrival, problem: Mapping[str, object]) -> bool:
    """List an arrival as refused; False if it is listed already, because it was sent again after a crash."""
    listed = work.tx.first(RefusedEvent, eq("source", source), eq("part", part), eq("position", arrival.position))
    payload = arrival.payload[:LONGEST_PAYLOAD].replace("\0", "\\x00")
    if listed is not None and listed.payload == payload:
        return False
    work.tx.insert(
        RefusedEvent(
            id=work.new_id(),
            organization_id=work.organization.id,
            source=source,
            part=part,
            position=arrival.position,
            payload=payload,
            event=arrival.event,
            problem=problem,
            created_at=work.now,
            updated_at=work.now,
        )
    )
    return True


def _note(
    work: Work, source: str, part: str, position: int, checksum: str | None, ingested: Ingested, refused: int
) -> None:
    existing = source_of(work, source, part)
    noted = existing or EventSource(
        id=work.new_id(),
        organization_id=work.organization.id,
        source=source,
        part=part,
        created_at=work.now,
        updated_at=work.now,
    )
    noted = replace(
        noted,
        position=position,
        checksum=checksum,
        events_count=noted.events_count + len(ingested.events),
        duplicates_count=noted.duplicates_count + len(ingested.duplicates),
        refused_count=noted.refused_count + refused,
        updated_at=work.now,
    )
    if existing is None:
        work.tx.insert(noted)
    else:
        work.tx.replace(noted)


@without_backlog(Unrelated.OWN_INSTANT)
def ingest_cloud_events(work: Work, request: CloudEventsInput) -> IngestedEvents:
    """Ingest CloudEvents, all or none; duplicates are skipped, because senders retry.

    Raises `Invalid`, its details by the position (as text) of each event refused.
    """
    sent = events_sent(work, request.events)
    events: list[Mapping[str, object]] = []
    problems: dict[int, Problems] = {}
    for position, item in enumerate(sent):
        try:
            events.append(usage_event(item if isinstance(item, Mapping) else {}))
        except NotACloudEvent as problem:
            problems[position] = problem.problems
    ingested = Ingested((), (), problems) if problems else ingest_each(work, events)
    if ingested.problems:
        raise Invalid({str(position): ingested.problems[position] for position in sorted(ingested.problems)})
    return IngestedEvents(len(ingested.events), len(ingested.duplicates))


# Lists


def list_all(reader: Reader, paging: Paging) -> Page[EventSource]:
    """Sources that events were read from, by part, latest first."""
    return reader.page(EventSource, paging=paging, order=(desc("created_at"),))


def list_refused(reader: Reader, options: RefusedEventFilters, paging: Paging) -> Page[RefusedEvent]:
    """Refused entries of sources, latest first."""
    conditions: list[Condition] = [eq("source", options.source)] if options.source else []
    return reader.page(RefusedEvent, *conditions, paging=paging, order=(desc("created_at"),))


def get_refused(reader: Reader, refused_event_id: str) -> RefusedEvent:
    """A refused event. Raises `NotFound`."""
    refused = reader.tx.get(RefusedEvent, refused_event_id)
    if refused is None:
        raise NotFound("refused_event", refused_event_id)
    return refused


# Retries


@without_backlog(Unrelated.OWN_INSTANT)
def retry(work: Work, refused_event_id: str) -> IngestedEvents:
    """Ingest a refused event and take it off the list, for example once its metric's expression has been fixed.

    Raises `Invalid` with the remaining errors, and `NotAllowed` if it could not be read as an event.
    """
    refused = get_refused(work, refused_event_id)
    if refused.event is None:
        raise NotAllowed("refused_event_unreadable")
    ingested = ingest_each(work, [refused.event])
    if ingested.problems:
        raise Invalid(_codes(ingested.problems[0]))
    work.tx.delete(refused)
    return IngestedEvents(len(ingested.events), len(ingested.duplicates))


@without_backlog(Unrelated.OWN_INSTANT)
def retry_all(work: Work) -> IngestedEvents:
    """Retry the 10,000 oldest refused events; those that still fail stay in the list."""
    listed = work.tx.find(RefusedEvent, order=(asc("created_at"),), limit=_RETRIED)
    readable = [refused for refused in listed if refused.event is not None]
    ingested = ingest_each(work, [refused.event for refused in readable if refused.event is not None])
    work.tx.delete(*(refused for index, refused in enumerate(readable) if index not in ingested.problems))
    return IngestedEvents(len(ingested.events), len(ingested.duplicates))


@without_backlog(Unrelated.NOT_BILLED)
def delete_refused(work: Work, refused_event_id: str) -> RefusedEvent:
    """Delete a refused event from the list. Raises `NotFound`."""
    refused = get_refused(work, refused_event_id)
    work.tx.delete(refused)
    return refused
