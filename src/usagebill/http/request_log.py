"""The request log: which requests the API logs, and which of their fields."""

from __future__ import annotations

from datetime import datetime
from time import perf_counter
from urllib.parse import unquote

from usagebill.core.api_keys import ApiKey
from usagebill.core.api_logs import LARGEST, SECRETS, ApiLog, without_secrets
from usagebill.http.endpoints import Endpoint
from usagebill.process.ids import new_id
from usagebill.process.json_text import Json, encode_json
from usagebill.process.settings import Settings

_MICROSECONDS = 1_000_000
# The part of a header that nobody needs.
_LONGEST_HEADER = 500


def is_logged(endpoint: Endpoint, method: str, settings: Settings) -> bool:
    """Whether a permitted request is logged: one that changes something and sends no events."""
    if method == "GET" or settings.api_log_days == 0:
        return False
    return endpoint.permission != "event" or settings.log_ingestion


def _text(value: Json, endpoint: Endpoint) -> str:
    text = encode_json(without_secrets(value, SECRETS | set(endpoint.secrets))).decode()
    return text if len(text) <= LARGEST else encode_json({"left_out": f"{len(text)} characters"}).decode()


def logged(
    endpoint: Endpoint,
    key: ApiKey,
    *,
    id: str,
    method: str,
    path: str,
    origin: str,
    client: str,
    sent: Json,
    status: int,
    answer: Json | None,
    began: float,
    now: datetime,
) -> ApiLog:
    """The log entry of a request with this answer; `began` is a `perf_counter` value, in seconds."""
    return ApiLog(
        id=new_id(now),
        organization_id=key.organization_id,
        request_id=id,
        api_key_id=key.id,
        client=client[:_LONGEST_HEADER],
        http_method=method.lower(),
        http_status=status,
        request_origin=origin[:_LONGEST_HEADER],
        request_path=unquote(path),
        request_body=_text(sent, endpoint),
        request_response=None if answer is None or answer == b"" else _text(answer, endpoint),
        duration=int((perf_counter() - began) * _MICROSECONDS),
        logged_at=now,
    )
