"""Security events as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from usagebill.core.security_logs import SecurityLog
from usagebill.process.json_text import parse_json
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text


class SecurityLogView(TypedDict):
    log_id: Id
    log_type: str
    log_event: str
    user_email: str | None
    api_key_id: Id | None
    resources: Mapping[str, object]
    device_info: Mapping[str, object]
    logged_at: Instant
    created_at: Instant


def security_log_view(_: Reader, entry: SecurityLog) -> SecurityLogView:
    """A security event with the affected resource."""
    return {
        "log_id": entry.id,
        "log_type": entry.log_type,
        "log_event": entry.log_event,
        "user_email": entry.user_email,
        "api_key_id": entry.api_key_id,
        "resources": parse_json(entry.resources.encode()),
        "device_info": parse_json(entry.device_info.encode()),
        "logged_at": instant_text(entry.logged_at),
        "created_at": instant_text(entry.written_at),
    }
