"""API keys as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from usagebill.core.api_keys import ApiKey
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text


class ApiKeyView(TypedDict):
    svc_id: Id
    name: str | None
    value: str
    permissions: Mapping[str, list[str]]
    created_at: Instant
    expires_at: Instant | None
    last_used_at: Instant | None


def masked_value(key: ApiKey) -> str:
    """The masked value of a key: only its last three characters are readable."""
    return "•" * 8 + key.value_ending


def api_key_view(_: Reader, key: ApiKey) -> ApiKeyView:
    """A key with its masked value; the full value is not stored."""
    return {
        "svc_id": key.id,
        "name": key.name,
        "value": masked_value(key),
        "permissions": {resource: list(modes) for resource, modes in key.permissions.items()},
        "created_at": instant_text(key.created_at),
        "expires_at": instant_text(key.expires_at),
        "last_used_at": instant_text(key.last_used_at),
    }
