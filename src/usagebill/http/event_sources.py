"""CloudEvents and event sources over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import event_sources
from usagebill.views.event_sources import event_source_view, ingested_events_view, refused_event_view

ENDPOINTS = [
    Endpoint(
        "POST",
        "/events/cloudevents",
        event_sources.ingest_cloud_events,
        body=event_sources.CloudEventsInput,
        many="events",
        returns="cloud_events",
        view=ingested_events_view,
        summary="Send one or several CloudEvents 1.0, all or none",
    ),
    Endpoint(
        "GET",
        "/event_sources",
        event_sources.list_all,
        paged=True,
        returns="event_sources",
        view=event_source_view,
        summary="List the files and brokers that events come from, with the position in each",
    ),
    Endpoint(
        "GET",
        "/refused_events",
        event_sources.list_refused,
        query=event_sources.RefusedEventFilters,
        paged=True,
        returns="refused_events",
        view=refused_event_view,
        summary="List messages of files and brokers that are not events",
    ),
    Endpoint(
        "GET",
        "/refused_events/{refused_event_id}",
        event_sources.get_refused,
        returns="refused_event",
        view=refused_event_view,
        summary="Get a refused event",
    ),
    Endpoint(
        "POST",
        "/refused_events/{refused_event_id}/retry",
        event_sources.retry,
        returns="ingested_events",
        view=ingested_events_view,
        summary="Ingest a refused event",
    ),
    Endpoint(
        "DELETE",
        "/refused_events/{refused_event_id}",
        event_sources.delete_refused,
        returns="refused_event",
        view=refused_event_view,
        summary="Delete a refused event",
    ),
]
