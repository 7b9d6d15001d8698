"""How API keys are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from usagebill.core.api_keys import ApiKey
from usagebill.views.formats import Id, Instant, instant_text
from usagebill.work import Reader

__all__ = ["api_key_view", "masked_value"]


class ApiKeyView(TypedDict):
    svc_id: Id
    name: str | None
    value: str
    permissions: Mapping[str, list[str]]
    created_at: Instant
    expires_at: Instant | None
    last_used_at: Instant | None


def masked_value(key: ApiKey) -> str:
    """A key's value as lists show it: its last three characters."""
    return "•" * 8 + key.value_ending


def api_key_view(_: Reader, key: ApiKey) -> ApiKeyView:
    """A key; of its value only the end, which is all that is kept."""
    return {
        "svc_id": key.id,
        "name": key.name,
        "value": masked_value(key),
        "permissions": {resource: list(modes) for resource, modes in key.permissions.items()},
        "created_at": instant_text(key.created_at),
        "expires_at": instant_text(key.expires_at),
        "last_used_at": instant_text(key.last_used_at),
    }
