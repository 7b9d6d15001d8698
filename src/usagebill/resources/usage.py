"""Events, and the usage they add up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Literal

from usagebill.core.checks import Admitted
from usagebill.core.event_sources import EventSource, IngestedEvents, RefusedEvent
from usagebill.core.events import Event
from usagebill.core.fees import Fee
from usagebill.core.unbilled import UnbilledEvent, UnbilledTally
from usagebill.operations import estimates, event_sources, events, unbilled_events, usage_with_holds
from usagebill.rating import current_usage, past_usage
from usagebill.rating.current_usage import CurrentUsage
from usagebill.rating.past_usage import PastUsage
from usagebill.requests.inputs import read
from usagebill.resources.bindings import (
    Message,
    Messages,
    Resource,
    Views,
    command,
    query,
    takes,
    worded,
)
from usagebill.resources.result_views import instant_fee_details
from usagebill.resources.sent_events import batch_of, event_fields
from usagebill.resources.usage_views import current_usage_view, past_usage_view
from usagebill.views.event_sources import event_source_view, ingested_events_view, refused_event_view
from usagebill.views.events import (
    EventErrorView,
    EventsErrors,
    admitted_view,
    event_view,
    listed_event_view,
    unbilled_tally_view,
)


class Events(Resource):
    """Usage events of customers."""

    permission = "event"

    views: ClassVar[Views] = {
        Event: event_view,
        Admitted: admitted_view,
        estimates.InstantFee: instant_fee_details,
        UnbilledEvent: listed_event_view,
        UnbilledTally: unbilled_tally_view,
    }
    messages: ClassVar[Messages] = {
        "event.error": Message("An event names a wallet that its customer does not have.", EventErrorView),
        "events.errors": Message("Events of the last hour cannot be billed.", EventsErrors),
    }

    get = query(events.get)
    list = query(events.list_all)
    list_or_unbilled = query(events.list_or_unbilled)
    newest = query(events.newest)
    unbilled = query(unbilled_events.list_all)
    billed_by_default = query(unbilled_events.list_billed_by_default)
    unbilled_tallies = query(unbilled_events.list_tallies)

    @takes(events.EventInput, "events.create")
    def create(
        self, *, enforce: bool = False, on_duplicate: Literal["refuse", "skip"] = "refuse", **fields: object
    ) -> Event:
        """Ingest one event; its `timestamp` is a `datetime`, Unix seconds, or now.

        With `enforce`, raises `PaymentRequired` if it would pass a spend limit, a quota or prepaid credits. With
        `on_duplicate="skip"`, an event that is stored already is returned as it was stored; else it raises `Invalid`.
        """
        event = read(events.EventInput, event_fields(fields))
        options = events.IngestOptions(enforce=enforce, on_duplicate=on_duplicate)
        with worded(self._runner, fields, events.EventInput):
            return self._runner.writing(lambda work: events.create(work, event, options))

    def create_batch(
        self,
        request: Iterable[Mapping[str, object]],
        *,
        enforce: bool = False,
        on_duplicate: Literal["refuse", "skip"] = "refuse",
    ) -> Admitted:
        """Ingest up to 100 events: all or none, or with `enforce` those that fit. `refused` are the others,
        each with its `position` and the limit that refuses it; None without `enforce`. With `on_duplicate="skip"`,
        `skipped` are those that are stored already, or stand twice in the batch; else these refuse all.

        Raises `Invalid`, its details by the position (as text) of each event that is wrong; then none is stored.
        """
        batch = batch_of(request, "create_batch")
        options = events.IngestOptions(enforce=enforce, on_duplicate=on_duplicate)
        with worded(self._runner, {"events": batch.events}, events.EventsInput):
            return self._runner.writing(lambda work: events.create_batch(work, batch, options))

    def ingest(self, request: Iterable[Mapping[str, object]]) -> Sequence[Event]:
        """Ingest any number of events in one durable commit, all or none.

        Raises `Invalid`, its details by the position (as text) of each event refused.
        """
        sent = batch_of(request, "ingest").events or ()
        with worded(self._runner, {"events": sent}, events.EventsInput):
            return self._runner.writing(lambda work: events.ingest(work, sent))

    @takes(events.EventInput, "events.create")
    def estimate_fees(self, **fields: object) -> Sequence[Fee]:
        """The fees, with taxes, that an event would cause now; nothing is stored."""
        event = read(events.EventInput, event_fields(fields))
        with worded(self._runner, fields, events.EventInput):
            return self._runner.reading(lambda work: estimates.estimate_fees(work, event))

    @takes(events.EventInput, "events.create")
    def estimate_instant_fees(self, **fields: object) -> Sequence[estimates.InstantFee]:
        """The price of an event on its own, regardless of earlier usage."""
        event = read(events.EventInput, event_fields(fields))
        with worded(self._runner, fields, events.EventInput):
            return self._runner.reading(lambda work: estimates.estimate_instant_fees(work, event))


class EventSources(Resource):
    """Files and brokers that events come from, and their messages that are not events."""

    permission = "event"

    views: ClassVar[Views] = {
        EventSource: event_source_view,
        RefusedEvent: refused_event_view,
        IngestedEvents: ingested_events_view,
    }

    list = query(event_sources.list_all)
    refused = query(event_sources.list_refused)
    get_refused = query(event_sources.get_refused)
    retry = command(event_sources.retry)
    retry_all = command(event_sources.retry_all)
    delete_refused = command(event_sources.delete_refused)
    ingest_cloud_events = command(event_sources.ingest_cloud_events)


class Usage(Resource):
    """Customers' usage and its amounts."""

    permission = "customer_usage"

    views: ClassVar[Views] = {CurrentUsage: current_usage_view, PastUsage: past_usage_view}

    current = query(usage_with_holds.current)
    projected = query(current_usage.projected)
    past = query(past_usage.past)

    def rebuild(self) -> int:
        """Drop the running totals of usage and rebuild them from the events; returns the number of series.

        Nothing waits for it and no answer differs meanwhile: the events are counted until the states exist.
        """
        count = self._runner.writing(lambda work: work.tx.events.rebuild_states())
        while self._runner.roll_up_usage():
            pass
        return count
