"""Idempotency keys: a request that is sent again with the same key is done once, and gets the first answer again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from usagebill.core.errors import Invalid

# How long an answer is given again; afterwards its key is free.
KEPT = timedelta(hours=24)
LONGEST_KEY = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentAnswer:
    """The answer to a request that was sent with a key, stored in the transaction of its change.

    `fingerprint` tells the request from others. `body` is the JSON text of the answer, empty if that had no body.
    """

    id: str
    organization_id: str
    key: str
    fingerprint: str
    body: str = field(repr=False)
    created_at: datetime


def fingerprint(method: str, path: str, query: str, body: bytes) -> str:
    """The same for requests that are the same, byte by byte."""
    head = f"{method} {path}?{query}\n".encode()
    return hashlib.sha256(head + body).hexdigest()


def check_key(key: str) -> None:
    """Raises `Invalid` for a key that is empty or too long, or has control characters."""
    if not key:
        raise Invalid(idempotency_key="value_is_mandatory")
    if not key.isprintable():
        raise Invalid(idempotency_key="invalid_format")
    if len(key) > LONGEST_KEY:
        raise Invalid(idempotency_key="value_is_too_long")


def is_over(stored: IdempotentAnswer, now: datetime) -> bool:
    """Whether the key of a stored answer is free again at `now`."""
    return stored.created_at + KEPT <= now


def check_same_request(stored: IdempotentAnswer, sent: str) -> None:
    """Raises `Invalid` if the key was used for a request with another fingerprint than `sent`."""
    if stored.fingerprint != sent:
        raise Invalid(idempotency_key="idempotency_key_reused")
