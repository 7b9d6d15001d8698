"""Logged requests as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TypedDict

from usagebill.core.api_logs import ApiLog
from usagebill.process.json_text import parse_json
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text


class ApiLogView(TypedDict):
    request_id: str
    api_key_id: Id
    client: str
    http_method: str
    http_status: int
    request_origin: str
    request_path: str
    request_body: Mapping[str, object]
    request_response: Mapping[str, object] | None
    api_version: str
    duration_ms: Decimal
    logged_at: Instant
    created_at: Instant


def api_log_view(_: Reader, entry: ApiLog) -> ApiLogView:
    """A request and its response."""
    return {
        "request_id": entry.request_id,
        "api_key_id": entry.api_key_id,
        "client": entry.client,
        "http_method": entry.http_method,
        "http_status": entry.http_status,
        "request_origin": entry.request_origin,
        "request_path": entry.request_path,
        "request_body": parse_json(entry.request_body.encode()),
        "request_response": None if entry.request_response is None else parse_json(entry.request_response.encode()),
        "api_version": entry.api_version,
        "duration_ms": Decimal(entry.duration).scaleb(-3),
        "logged_at": instant_text(entry.logged_at),
        "created_at": instant_text(entry.logged_at),
    }
