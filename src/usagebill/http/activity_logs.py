"""The activity log over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import activity_logs
from usagebill.views.activity_logs import activity_log_view

ENDPOINTS = [
    Endpoint(
        "GET",
        "/activity_logs",
        activity_logs.list_all,
        query=activity_logs.ActivityFilters,
        paged=True,
        returns="activity_logs",
        view=activity_log_view,
        summary="List changes",
    ),
    Endpoint(
        "GET",
        "/activity_logs/{activity_id}",
        activity_logs.get,
        returns="activity_log",
        view=activity_log_view,
        summary="Get a change",
    ),
]
