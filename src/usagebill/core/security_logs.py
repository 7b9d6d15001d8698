"""Security logs: changes of keys, users, endpoints, key pairs, connections and billing entities, and keys refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from usagebill.core.activity_logs import Change, changed_fields
from usagebill.core.api_keys import ApiKey
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.sync_connections import SyncConnection
from usagebill.core.tax_providers import TaxConnection
from usagebill.core.users import User, UserSession
from usagebill.core.webhooks import SigningKey, WebhookEndpoint

LOG_TYPES = ("api_key", "billing_entity", "integration", "signing_key", "user", "webhook_endpoint")
SECURED: frozenset[type] = frozenset(
    {
        ApiKey,
        BillingEntity,
        PaymentConnection,
        SigningKey,
        SyncConnection,
        TaxConnection,
        User,
        UserSession,
        WebhookEndpoint,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityLog:
    """One event. `resources` and `device_info` are JSON texts; `api_key_id` is the key that was
    used, if one was; `user_id` and `user_email` are those of the user of the console.
    """

    id: str
    organization_id: str
    log_type: str
    log_event: str
    resources: str
    device_info: str
    logged_at: datetime
    written_at: datetime
    api_key_id: str | None = None
    user_id: str | None = None
    user_email: str | None = None


@dataclass(frozen=True, slots=True)
class SecurityEvent:
    """An event (`api_key.rotated`), and its subjects."""

    name: str
    resources: Mapping[str, Any]

    @property
    def log_type(self) -> str:
        """The kind of its subject."""
        return self.name.split(".")[0]


def security_events(changes: Iterable[Change]) -> list[SecurityEvent]:
    """The security events in the changes of a unit of work."""
    secured = [change for change in changes if type(change.record) in SECURED]
    keys = [change for change in secured if isinstance(change.record, ApiKey)]
    events = _key_events(keys) + _signing_key_events(
        [change for change in secured if type(change.record) is SigningKey]
    )
    for change in secured:
        event = None
        match change.record:
            case WebhookEndpoint():
                event = _endpoint_event(change)
            case User():
                event = _user_event(change)
            case UserSession():
                event = _session_event(change)
            case BillingEntity():
                event = _entity_event(change)
            case TaxConnection() | SyncConnection() | PaymentConnection():
                event = _connection_event(change)
        if event is not None:
            events.append(event)
    return events


def refused_use(key: ApiKey, reason: str, http_method: str, request_path: str) -> SecurityEvent:
    """A key was sent with a request that it does not permit: it has expired (`expired`), or lacks a permission."""
    resources = {
        "name": key.name,
        "value_ending": key.value_ending,
        "reason": reason,
        "http_method": http_method.lower(),
        "request_path": request_path,
    }
    return SecurityEvent("api_key.refused", resources)


def _moved(old: object, new: object) -> dict[str, Any]:
    return {"deleted": old, "added": new}


def _permissions(key: ApiKey) -> list[str]:
    return sorted(f"{resource}:{mode}" for resource, modes in key.permissions.items() for mode in modes)


def _key_events(changes: Iterable[Change]) -> list[SecurityEvent]:
    events = []
    rotated: dict[str, Change] = {}
    for change in changes:
        if change.old is None and change.new.rotated_from_id is not None:
            rotated[change.new.rotated_from_id] = change
    for change in changes:
        old, new = change.old, change.new
        if new is None:
            continue
        plain = {"name": new.name, "value_ending": new.value_ending}
        if old is None:
            if new.rotated_from_id is None:
                events.append(SecurityEvent("api_key.created", {**plain, "permissions": _permissions(new)}))
            continue
        if old.id in rotated:
            successor = rotated[old.id].new
            ends = {} if new.expires_at is None else {"expires_at": new.expires_at.isoformat()}
            resources = {"name": successor.name, "value_ending": _moved(old.value_ending, successor.value_ending)}
            events.append(SecurityEvent("api_key.rotated", {**resources, **ends}))
            continue
        changed = changed_fields(old, new) - {"last_used_at"}
        if new.expires_at is not None and "expires_at" in changed and new.expires_at <= new.updated_at:
            events.append(SecurityEvent("api_key.deleted", plain))
        elif changed:
            before, after = set(_permissions(old)), set(_permissions(new))
            resources = dict(plain)
            if "name" in changed:
                resources["name"] = _moved(old.name, new.name)
            if before != after:
                resources["permissions"] = _moved(sorted(before - after), sorted(after - before))
            if "expires_at" in changed:
                resources["expires_at"] = _moved(*(key.expires_at and key.expires_at.isoformat() for key in (old, new)))
            events.append(SecurityEvent("api_key.updated", resources))
    return events


def _endpoint_event(change: Change) -> SecurityEvent | None:
    endpoint: WebhookEndpoint = change.record
    plain = {"webhook_url": endpoint.webhook_url, "signature_algo": endpoint.signature_algo}
    if change.old is None or change.new is None:
        return SecurityEvent(f"webhook_endpoint.{'created' if change.old is None else 'deleted'}", plain)
    # An endpoint fails, and works again, by itself.
    changed = changed_fields(change.old, change.new) - {"failing_since"}
    if not changed:
        return None
    resources: dict[str, Any] = {"webhook_url": endpoint.webhook_url}
    for name in ("webhook_url", "signature_algo"):
        if name in changed:
            resources[name] = _moved(getattr(change.old, name), getattr(change.new, name))
    if "secrets" in changed:
        resources["secrets"] = "changed"
    return SecurityEvent("webhook_endpoint.updated", resources)


def _signing_key_events(changes: Iterable[Change]) -> list[SecurityEvent]:
    """Of the key pairs of `jwt` webhooks: a first one was made, one took the place of another, an old one was deleted.

    A key is named as in the header `kid` of a signature.
    """
    created = next((change.new for change in changes if change.old is None), None)
    if created is None:
        return [SecurityEvent("signing_key.deleted", {"key_id": gone.old.id}) for gone in changes if gone.new is None]
    # Pairs that expired before are cleared away on this occasion.
    replaced = next((change for change in changes if change.old is not None and change.old.expires_at is None), None)
    if replaced is None:
        return [SecurityEvent("signing_key.created", {"key_id": created.id})]
    ends = {} if replaced.new is None else {"old_key_expires_at": replaced.new.expires_at.isoformat()}
    return [SecurityEvent("signing_key.rotated", {"key_id": _moved(replaced.old.id, created.id), **ends})]


def _user_event(change: Change) -> SecurityEvent | None:
    old, new = change.old, change.new
    if old is None:
        return SecurityEvent("user.invited", {"invitee_email": new.email, "role": new.role})
    if new is None or (old.deleted_at is None and new.deleted_at is not None):
        return SecurityEvent("user.deleted", {"email": old.email})
    if (changed := changed_fields(old, new)) == {"role"}:
        return SecurityEvent("user.role_edited", {"email": new.email, "role": _moved(old.role, new.role)})
    if not changed:
        return None
    return SecurityEvent("user.updated", {"email": _moved(old.email, new.email), "role": _moved(old.role, new.role)})


def _session_event(change: Change) -> SecurityEvent | None:
    """A link was made, a user has signed in with it, or the session was ended."""
    old, new = change.old, change.new
    if new is None:
        return None
    if old is None and new.opened_at is None:
        return SecurityEvent("user.link_created", {"user_id": new.user_id, "session_id": new.id})
    if (old is None or old.opened_at is None) and new.opened_at is not None:
        return SecurityEvent("user.new_device_logged_in", {"user_id": new.user_id, "session_id": new.id})
    if old.ended_at is None and new.ended_at is not None and new.opened_at is not None:
        return SecurityEvent("user.session_ended", {"user_id": new.user_id, "session_id": new.id})
    return None


# Fields that are not logged: secrets, and fields that change by themselves.
_UNTOLD = frozenset({"api_key", "credentials", "updated_at", "webhook_id", "connect_error"})


def _changes(change: Change) -> dict[str, Any]:
    """Each changed field as a text; for a secret, only the fact of the change."""
    details: dict[str, Any] = {}
    for item in fields(change.new):
        old, new = getattr(change.old, item.name), getattr(change.new, item.name)
        if item.name == "updated_at" or old == new:
            continue
        if item.name in _UNTOLD:
            details[item.name] = "changed"
        else:
            details[item.name] = _moved(*(None if value is None else str(value) for value in (old, new)))
    return details


def _entity_event(change: Change) -> SecurityEvent | None:
    entity: BillingEntity = change.record
    plain = {"billing_entity_name": entity.name, "billing_entity_code": entity.code}
    if change.old is None:
        return SecurityEvent("billing_entity.created", plain)
    details = {} if change.new is None else _changes(change)
    return SecurityEvent("billing_entity.updated", {**plain, **details}) if details else None


def _connection_event(change: Change) -> SecurityEvent | None:
    connection: TaxConnection | SyncConnection | PaymentConnection = change.record
    plain = {"integration_name": connection.name, "integration_type": connection.kind}
    if change.old is None:
        return SecurityEvent("integration.created", plain)
    if change.new is None or (change.old.deleted_at is None and change.new.deleted_at is not None):
        return SecurityEvent("integration.deleted", plain)
    details = _changes(change)
    # Fields of a connection that usagebill itself fetches or sets are not logged.
    if details.keys() <= {"webhook_id", "connect_error"}:
        return None
    return SecurityEvent("integration.updated", {**plain, **details})
