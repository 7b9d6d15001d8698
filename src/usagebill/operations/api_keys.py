"""API keys: created, listed, changed, rotated and revoked; only hashes are kept.

A key can only grant permissions that it has itself, and change or revoke keys with no others, so that nobody gains
permissions by way of another key, or takes them from a stronger one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from secrets import token_hex

from usagebill.core.api_keys import ApiKey, all_permissions, is_valid, permission_errors, surplus
from usagebill.core.errors import Forbidden, Invalid, NotFound
from usagebill.core.instants import parse_instant
from usagebill.core.secrets import Secret
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.requests.inputs import ABSENT, Absent, Input, Maybe, Paging, described, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import any_of, asc, eq, missing, more
from usagebill.storage.ports import Page, Transaction

# By which scanners of published code know a key: `ub_` and 40 hexadecimal digits.
_PREFIX = "ub_"


def by_hash(tx: Transaction, value_hash: str) -> ApiKey | None:
    """The key with this SHA-256 of its value (hexadecimal), valid or not."""
    return tx.first(ApiKey, eq("value_hash", value_hash))


@Input
class ApiKeyInput:
    """`permissions`: resource -> `read`, `write` or both; a resource that is left out is denied. `expires_at` is the
    first instant at which the key is no longer valid.
    """

    name: Maybe[str] = ABSENT
    permissions: Maybe[Mapping[str, tuple[str, ...]]] = described(
        "Resource -> `read` and `write`.", default="everything", example={"invoice": ["read"], "event": ["write"]}
    )
    expires_at: Maybe[str] = ABSENT


@Input
class RotationInput:
    """The new key's name, by default that of the old one, and when the old key expires, by default at once."""

    name: Maybe[str] = ABSENT
    expires_at: Maybe[str] = ABSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedKey:
    """A new key with its value, which cannot be shown again."""

    key: ApiKey
    secret: Secret

    @property
    def value(self) -> str:
        """The value to send requests with."""
        return self.secret.value


def create(
    work: Work,
    name: str | None = None,
    permissions: Mapping[str, tuple[str, ...]] | None = None,
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """A new key with its value, which cannot be shown again. Without `permissions` it may do everything."""
    if permissions is not None:
        codes = permission_errors(permissions)
        if codes:
            raise Invalid(permissions=codes)
    issued = _made(work, name, all_permissions() if permissions is None else dict(permissions), expires_at)
    return issued.key, issued.value


def _made(
    work: Work,
    name: str | None,
    permissions: Mapping[str, tuple[str, ...]],
    expires_at: datetime | None = None,
    rotated_from_id: str | None = None,
) -> IssuedKey:
    secret = Secret(_PREFIX + token_hex(20))
    key = ApiKey(
        id=work.new_id(),
        organization_id=work.organization.id,
        name=name,
        value_hash=hashlib.sha256(secret.value.encode()).hexdigest(),
        value_ending=secret.value[-3:],
        permissions=permissions,
        created_at=work.now,
        updated_at=work.now,
        expires_at=expires_at,
        rotated_from_id=rotated_from_id,
    )
    work.tx.insert(key)
    return IssuedKey(key=key, secret=secret)


def _held(work: Work) -> Mapping[str, tuple[str, ...]] | None:
    """The permissions of the requesting key; None if the caller is not limited."""
    key = work.actor.api_key
    return None if key is None or not work.organization.granular_permissions else key.permissions


def _check_grant(work: Work, wanted: Mapping[str, tuple[str, ...]]) -> None:
    """Raises `Forbidden` for permissions that the requesting key lacks."""
    held = _held(work)
    if held is not None and surplus(wanted, held):
        raise Forbidden("permissions_beyond_own")


def _end(text: Maybe[str], now: datetime) -> datetime | None:
    """The instant at which a key is to expire. Raises `Invalid` for text that is no instant, or one in the past."""
    if not text:
        return None
    instant = parse_instant(text)
    if instant is None or instant <= now:
        raise Invalid(expires_at="invalid_date")
    return instant


@without_backlog(Unrelated.CONNECTION)
def issue(work: Work, request: ApiKeyInput) -> IssuedKey:
    """Create a key; its value is shown only once. Without `permissions` it gets those of the requesting key.

    Raises `Invalid`, and `Forbidden` for permissions that the requesting key lacks.
    """
    wanted = value_or(request.permissions, None)
    if wanted is None:
        wanted = _held(work) or all_permissions()
    codes = permission_errors(wanted)
    if codes:
        raise Invalid(permissions=codes)
    _check_grant(work, wanted)
    return _made(work, value_or(request.name, None), dict(wanted), _end(request.expires_at, work.now))


def list_all(reader: Reader, paging: Paging) -> Page[ApiKey]:
    """The keys that are valid now, oldest first."""
    valid = any_of(missing("expires_at"), more("expires_at", reader.now))
    return reader.page(ApiKey, valid, paging=paging, order=(asc("created_at"),))


def get(reader: Reader, api_key_id: str) -> ApiKey:
    """A key that is valid now; its value is not kept. Raises `NotFound`."""
    return _live(reader, api_key_id)


@without_backlog(Unrelated.CONNECTION)
def change(work: Work, api_key_id: str, request: ApiKeyInput) -> ApiKey:
    """Rename a key, replace its permissions as a whole, or set when it expires (`expires_at` null: never).

    Raises `NotFound`, `Invalid`, and `Forbidden` for permissions, of before or after, that the requesting key lacks.
    """
    key = _live(work, api_key_id)
    _check_grant(work, key.permissions)
    permissions = value_or(request.permissions, None)
    if permissions is not None:
        _check_grant(work, permissions)
    expires_at: datetime | Absent | None = ABSENT
    if not isinstance(request.expires_at, Absent):
        expires_at = _end(request.expires_at, work.now)
        if expires_at is not None:
            _check_another_remains(work, key)
    return update(
        work,
        api_key_id,
        name=request.name,
        permissions=ABSENT if permissions is None else permissions,
        expires_at=expires_at,
    )


@without_backlog(Unrelated.CONNECTION)
def replace_key(work: Work, api_key_id: str, request: RotationInput) -> IssuedKey:
    """Replace a key by a new one with its permissions and name; the old one expires now, or at `expires_at`.

    Raises `NotFound`, `Invalid`, and `Forbidden` if the key has permissions that the requesting key lacks.
    """
    _check_grant(work, _live(work, api_key_id).permissions)
    name = value_or(request.name, None)
    key, value = rotate(work, api_key_id, name, _end(request.expires_at, work.now))
    return IssuedKey(key=key, secret=Secret(value))


def list_live(reader: Reader) -> list[ApiKey]:
    """The keys that are valid now, oldest first."""
    return [key for key in reader.tx.find(ApiKey, order=[asc("created_at")]) if is_valid(key, reader.now)]


def _live(reader: Reader, id: str) -> ApiKey:
    key = reader.tx.get(ApiKey, id)
    if key is None or not is_valid(key, reader.now):
        raise NotFound("api_key", id)
    return key


def update(
    work: Work,
    id: str,
    *,
    name: str | Absent | None = ABSENT,
    permissions: Mapping[str, tuple[str, ...]] | Absent = ABSENT,
    expires_at: datetime | Absent | None = ABSENT,
) -> ApiKey:
    """Rename a key, replace its permissions as a whole, or change when it expires."""
    key = _live(work, id)
    if not isinstance(name, Absent):
        key = replace(key, name=name)
    if not isinstance(permissions, Absent):
        codes = permission_errors(permissions)
        if codes:
            raise Invalid(permissions=codes)
        key = replace(key, permissions=dict(permissions))
    if not isinstance(expires_at, Absent):
        key = replace(key, expires_at=expires_at)
    key = replace(key, updated_at=work.now)
    work.tx.replace(key)
    return key


def rotate(work: Work, id: str, name: str | None = None, expires_at: datetime | None = None) -> tuple[ApiKey, str]:
    """Replace a key by a new one with the same permissions and, by default, the same name.

    The old one expires now, or at `expires_at`; the new one never.
    """
    old = _live(work, id)
    work.tx.replace(replace(old, expires_at=expires_at or work.now, updated_at=work.now))
    issued = _made(work, old.name if name is None else name, old.permissions, rotated_from_id=old.id)
    return issued.key, issued.value


@without_backlog(Unrelated.CONNECTION)
def revoke(work: Work, api_key_id: str) -> ApiKey:
    """Revoke a key at once.

    Raises `Invalid` if no other key without an expiry would remain, and `Forbidden` if the key has permissions that the
    requesting key lacks.
    """
    key = _live(work, api_key_id)
    _check_grant(work, key.permissions)
    _check_another_remains(work, key)
    ended = replace(key, expires_at=work.now, updated_at=work.now)
    work.tx.replace(ended)
    return ended


def _check_another_remains(work: Work, key: ApiKey) -> None:
    if not any(other.id != key.id and other.expires_at is None for other in list_live(work)):
        raise Invalid(base="last_non_expiring_api_key")


def note_use(work: Work, key: ApiKey) -> None:
    """Store that the key was used now, without undoing other changes since it was read."""
    current = work.tx.get(ApiKey, key.id)
    if current is not None:
        work.tx.replace(replace(current, last_used_at=work.now))
