"""Events over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import events
from usagebill.process.json_text import Nul
from usagebill.views.events import admitted_view, event_view, listed_event_view

ENDPOINTS = [
    Endpoint(
        "POST",
        "/events",
        events.create,
        permission="event",
        body=events.EventInput,
        root="event",
        query=events.IngestOptions,
        nul=Nul.NAMED,
        any_json=("properties",),
        returns="event",
        view=event_view,
        summary="Send a usage event",
    ),
    Endpoint(
        "POST",
        "/events/batch",
        events.create_batch,
        permission="event",
        body=events.EventsInput,
        query=events.IngestOptions,
        nul=Nul.NAMED,
        any_json=("properties",),
        view=admitted_view,
        summary="Send several usage events: all or none, or with `enforce` those that fit",
    ),
    Endpoint(
        "GET",
        "/events",
        events.list_or_unbilled,
        permission="event",
        query=events.EventListFilters,
        paged=True,
        returns="events",
        view=listed_event_view,
        summary="List events, or only those not billed, with the reason, or billed at a default price",
    ),
    Endpoint(
        "GET",
        "/events/{transaction_id}",
        events.get,
        permission="event",
        returns="event",
        view=event_view,
        summary="Get an event by its transaction id",
    ),
]
