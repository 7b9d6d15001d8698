"""API logs: requests and responses, without the secrets in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

# The most characters of JSON kept of a request, and of a response.
LARGEST = 64 * 1024
LEFT_OUT = "[left out]"
# Fields whose values are never kept, at any depth: keys, and links that let anybody who has them pay or add a card.
SECRETS = frozenset(
    {
        "access_token",
        "api_key",
        "authorization",
        "checkout_url",
        "client_secret",
        "hmac_key",
        "password",
        "payment_url",
        "portal_url",
        "private_key",
        "secret",
        "secret_key",
        "signature_key",
        "token",
        "webhook_secret",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiLog:
    """A request and its response. `request_body` has all parameters, including those of the path and the query.

    Both are JSON texts; the response is null if it had no body. `request_id` is the client's own id for the request, if
    it sent one; it need not be unique. The duration is in microseconds, up to the commit of a change.
    """

    id: str
    organization_id: str
    request_id: str
    api_key_id: str
    client: str
    http_method: str
    http_status: int
    request_origin: str
    request_path: str
    request_body: str
    request_response: str | None
    duration: int
    logged_at: datetime
    api_version: str = "v1"


# Links to documents and to the portal: the part of their tokens after the id grants access to anybody.
_LINK = re.compile(r"(/(?:documents|customer-portal)/[^./]*)\.[\w.-]*")
_PASSWORD = re.compile(r"(?i)(https?://)[^\s/?#@]*@")


def without_signature(address: str) -> str:
    """The address or path without the signature of a link that grants access by itself, and without a password."""
    return _PASSWORD.sub(r"\1", _LINK.sub(r"\1", address))


def without_secrets(value: Any, names: Set[str] = SECRETS) -> Any:
    """The same JSON with `LEFT_OUT` for every text and number under these names, and addresses without
    what grants access (`without_signature`).
    """
    if isinstance(value, Mapping):
        return {
            key: LEFT_OUT
            if str(key).lower() in names and item is not None and not isinstance(item, (Mapping, list, tuple))
            else without_secrets(item, names)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [without_secrets(item, names) for item in value]
    return without_signature(value) if isinstance(value, str) else value
