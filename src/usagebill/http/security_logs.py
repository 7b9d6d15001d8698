"""The security log over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import security_logs
from usagebill.views.security_logs import security_log_view

ENDPOINTS = [
    Endpoint(
        "GET",
        "/security_logs",
        security_logs.list_all,
        query=security_logs.SecurityFilters,
        paged=True,
        returns="security_logs",
        view=security_log_view,
        summary="List security events of keys, endpoints and connections",
    ),
    Endpoint(
        "GET",
        "/security_logs/{log_id}",
        security_logs.get,
        returns="security_log",
        view=security_log_view,
        summary="Get a security event",
    ),
]
