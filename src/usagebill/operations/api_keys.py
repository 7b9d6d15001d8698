"""API keys: created, listed, changed, rotated and revoked by whoever runs the installation; only hashes are kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from usagebill.core.api_keys import ApiKey, all_permissions, is_valid, permission_errors
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.secrets import Secret
from usagebill.inputs import ABSENT, Absent
from usagebill.storage.conditions import asc, eq
from usagebill.storage.ports import Transaction
from usagebill.work import Reader, Work

__all__ = ["by_hash", "create", "list_live", "note_use", "revoke", "rotate", "update"]


def by_hash(tx: Transaction, value_hash: str) -> ApiKey | None:
    """The key whose value has this SHA-256 (hexadecimal), valid or not."""
    return tx.first(ApiKey, eq("value_hash", value_hash))


def create(
    work: Work, name: str | None = None, permissions: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[ApiKey, str]:
    """A new key and its value, which cannot be had again. Without `permissions` it may do everything."""
    if permissions is not None:
        codes = permission_errors(permissions)
        if codes:
            raise Invalid(permissions=codes)
    secret = Secret(str(uuid4()))
    key = ApiKey(
        id=work.new_id(),
        organization_id=work.organization.id,
        name=name,
        value_hash=hashlib.sha256(secret.value.encode()).hexdigest(),
        value_ending=secret.value[-3:],
        permissions=all_permissions() if permissions is None else dict(permissions),
        created_at=work.now,
        updated_at=work.now,
    )
    work.tx.insert(key)
    return key, secret.value


def list_live(reader: Reader) -> list[ApiKey]:
    """The keys that are valid now, oldest first."""
    return [key for key in reader.tx.find(ApiKey, order=[asc("created_at")]) if is_valid(key, reader.now)]


def _live(reader: Reader, id: str) -> ApiKey:
    key = reader.tx.get(ApiKey, id)
    if key is None or not is_valid(key, reader.now):
        raise NotFound("api_key")
    return key


def update(
    work: Work,
    id: str,
    *,
    name: str | Absent | None = ABSENT,
    permissions: Mapping[str, tuple[str, ...]] | Absent = ABSENT,
) -> ApiKey:
    """Rename a key, or replace its whole map of permissions: a resource that the map leaves out is denied."""
    key = _live(work, id)
    if not isinstance(name, Absent):
        key = replace(key, name=name)
    if not isinstance(permissions, Absent):
        codes = permission_errors(permissions)
        if codes:
            raise Invalid(permissions=codes)
        key = replace(key, permissions=dict(permissions))
    key = replace(key, updated_at=work.now)
    work.tx.replace(key)
    return key


def rotate(work: Work, id: str, name: str | None = None, expires_at: datetime | None = None) -> tuple[ApiKey, str]:
    """Replace a key by a new one with full permissions; the old one ends now, or at `expires_at`."""
    old = _live(work, id)
    work.tx.replace(replace(old, expires_at=expires_at or work.now, updated_at=work.now))
    return create(work, name)


def revoke(work: Work, id: str) -> ApiKey:
    """End a key at once. Refused if no other key without an expiry would remain."""
    key = _live(work, id)
    if not any(other.id != key.id and other.expires_at is None for other in list_live(work)):
        raise Invalid(base="last_non_expiring_api_key")
    ended = replace(key, expires_at=work.now, updated_at=work.now)
    work.tx.replace(ended)
    return ended


def note_use(work: Work, key: ApiKey) -> None:
    """Store that the key was used now, without undoing other changes since it was read."""
    current = work.tx.get(ApiKey, key.id)
    if current is not None:
        work.tx.replace(replace(current, last_used_at=work.now))
