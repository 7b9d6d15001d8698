"""Intake: stores events of a source together with its progress, in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from usagebill.billing import Billing
from usagebill.core.event_sources import EventSource
from usagebill.core.events import Event
from usagebill.core.unbilled import Reason
from usagebill.operations import event_sources, unbilled_events
from usagebill.operations.event_sources import Arrival
from usagebill.process.logs import Log

_log = Log("usagebill.sources")


@dataclass(slots=True)
class Outcome:
    """What became of all arrivals: counts, and the problem of each refused one by its position.

    `unbilled` counts the ingested events that are currently not billed, by reason, subscription and code; `undeclared`
    the events billed at a default price because no filter declares a value, by code, key and value.
    """

    ingested: int = 0
    duplicates: int = 0
    refused: dict[int, Mapping[str, object]] = field(default_factory=dict)
    unbilled: Counter[tuple[Reason, str | None, str]] = field(default_factory=Counter)
    undeclared: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(self, other: Outcome) -> None:
        """Add the outcome of further arrivals."""
        self.ingested += other.ingested
        self.duplicates += other.duplicates
        self.refused |= other.refused
        self.unbilled += other.unbilled
        self.undeclared += other.undeclared


class Intake:
    """Ingests the events of one source. `source` is its name in the list of sources: "kafka:usage", "file:/var/a.csv".

    To support another broker: parse its messages with `payloads.arrival_of`, pass them to `take`, and acknowledge them
    once it has returned.
    """

    def __init__(self, billing: Billing, source: str, *, lists_refused: bool = True) -> None:
        self.source = source
        self._billing = billing
        self._lists_refused = lists_refused

    def noted(self, part: str = "") -> EventSource | None:
        """How far a part of the source was ingested before; None if it never was."""
        return self._billing.reading(lambda reader: event_sources.source_of(reader, self.source, part))

    def take(
        self, arrivals: Sequence[Arrival], *, position: int, part: str = "", checksum: str | None = None
    ) -> Outcome:
        """Ingest the arrivals durably, and record that everything before `position` is done.

        Refused events are listed (`usagebill events refused`) and logged as a warning, as are events that are currently
        not billed. Without `lists_refused` the caller reports the outcome instead.
        """
        ingested = self._billing.writing(
            lambda work: event_sources.take(
                work,
                self.source,
                part,
                arrivals,
                position=position,
                checksum=checksum,
                lists_refused=self._lists_refused,
            )
        )
        outcome = Outcome(len(ingested.events), ingested.duplicates, dict(ingested.refused))
        if ingested.refused and self._lists_refused:
            first, problem = next(iter(ingested.refused.items()))
            _log.warning(
                "events_refused",
                source=self.source,
                part=part,
                count=len(ingested.refused),
                first=first,
                problem=problem,
            )
        self._note_unbilled(ingested.events, outcome)
        return outcome

    def _note_unbilled(self, events: Sequence[Event], outcome: Outcome) -> None:
        if not events:
            return
        outcome.unbilled, outcome.undeclared = self._billing.reading(
            lambda reader: (
                unbilled_events.reasons_among(reader, events),
                unbilled_events.undeclared_among(reader, events),
            )
        )
        if outcome.unbilled and self._lists_refused:
            counts: Counter[str] = Counter()
            for (reason, _, _), count in outcome.unbilled.items():
                counts[str(reason)] += count
            _log.warning("events_not_billed", source=self.source, **counts)
