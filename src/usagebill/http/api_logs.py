"""The request log over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import api_logs
from usagebill.views.api_logs import api_log_view

ENDPOINTS = [
    Endpoint(
        "GET",
        "/api_logs",
        api_logs.list_all,
        query=api_logs.ApiLogFilters,
        paged=True,
        returns="api_logs",
        view=api_log_view,
        summary="List requests that change something",
    ),
    Endpoint(
        "GET",
        "/api_logs/{request_id}",
        api_logs.get,
        returns="api_log",
        view=api_log_view,
        summary="Get a request and its response",
    ),
]
