"""Webhook messages: their records, attempts, signatures and clean-up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from secrets import randbelow
from typing import TYPE_CHECKING

from usagebill.core.days import next_time_of_day
from usagebill.core.errors import Invalid, NotAllowed, NotFound
from usagebill.core.instants import parse_instant
from usagebill.core.jobs import Job
from usagebill.core.tasks import CleanWebhookMessages, DeliverWebhook
from usagebill.core.webhooks import (
    HISTORY,
    SETTLED_MESSAGES,
    MessageStatus,
    Resent,
    SignatureAlgorithm,
    SigningKey,
    WebhookEndpoint,
    WebhookMessage,
    after_attempt,
    delivery_lane,
    endpoint_after_attempt,
    header_prefix,
    present_key,
    public_key_text,
    retry_milliseconds,
    sign_hmac,
    valid_keys,
    valid_secrets,
)
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import (
    Condition,
    all_of,
    any_of,
    asc,
    at_least,
    at_most,
    contains,
    desc,
    eq,
    less,
    missing,
    within,
)
from usagebill.storage.ports import Page

# PyJWT and cryptography take a tenth of the time of `import usagebill.billing`, and most processes sign nothing: the
# first signature imports them.
if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

_CLEANED_AT = time(1, tzinfo=UTC)
_READ_TOGETHER = 1000
_KEY_BITS = 2048
# How long an old secret or key pair stays valid, unless it is said: long enough to give the new one to the receiver.
_OLD_ONE_KEPT = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A request to make: the address, the exact body, and the key of its signature.

    It is signed by each of `keys`, oldest first: for jwt the organization's valid key pairs, none until the first is
    made (`signing_key`), and for hmac the endpoint's valid secrets.
    """

    message_id: str
    url: str
    body: bytes
    signature_algo: str
    keys: tuple[SigningKey, ...] | tuple[str, ...] = field(repr=False)
    issuer: str
    header_prefix: str
    public_only: bool


@Input
class KeyRotationInput:
    """`old_key_expires_at`: null ends the old key pair at once."""

    old_key_expires_at: Maybe[str] = described(
        "When the old key pair stops signing; null: at once.", default="in 24 hours", example="2100-01-01T00:00:00Z"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RotatedKey:
    """The newest key pair, and when the one before stops signing; None if it does not sign."""

    key: SigningKey
    old_key_expires_at: datetime | None = None


@Input
class MessageFilters:
    """`statuses`: `pending`, `retrying`, `succeeded` or `failed`. `event_types` are names such as `invoice.created`.
    `http_statuses`: codes (`404`), classes (`5xx`), ranges (`200-204`) or `timeout` (failed without an answer).

    The dates bound the last change of a message, inclusive.
    """

    webhook_endpoint_id: Maybe[str] = ABSENT
    statuses: Maybe[tuple[str, ...]] = described("Only those with these statuses.", values=tuple(MessageStatus))
    event_types: Maybe[tuple[str, ...]] = described("Only messages of these types.", example=["invoice.created"])
    http_statuses: Maybe[tuple[str, ...]] = ABSENT
    from_date: Maybe[datetime] = described("Only those at or after this instant.")
    to_date: Maybe[datetime] = described("Only those at or before this instant.")


@Input
class HistoryFilters:
    """`MessageFilters` with `search_term`, a part of a message's id or of its object's."""

    statuses: Maybe[tuple[str, ...]] = described("Only those with one of these statuses.")
    event_types: Maybe[tuple[str, ...]] = ABSENT
    http_statuses: Maybe[tuple[str, ...]] = ABSENT
    from_date: Maybe[datetime] = ABSENT
    to_date: Maybe[datetime] = ABSENT
    search_term: Maybe[str] = ABSENT


@Input
class ResendFilters:
    """The failed messages to resend: of one endpoint, of some types, last changed within dates (inclusive)."""

    webhook_endpoint_id: Maybe[str] = ABSENT
    event_types: Maybe[tuple[str, ...]] = described("Resends messages of these types.", example=["invoice.created"])
    from_date: Maybe[datetime] = ABSENT
    to_date: Maybe[datetime] = ABSENT


# Each makes a separate condition.
_MOST_STATUSES = 100
_LAST_CHANGED = (desc("updated_at"), desc("created_at"))


def get(reader: Reader, id: str) -> WebhookMessage:
    """The message with this id. Raises `NotFound`."""
    message = reader.tx.get(WebhookMessage, id)
    if message is None:
        raise NotFound("webhook", id)
    return message


def list_all(reader: Reader, options: MessageFilters, paging: Paging) -> Page[WebhookMessage]:
    """The messages to all endpoints, or to one, last changed first."""
    conditions = _conditions(options)
    if options.webhook_endpoint_id:
        conditions.append(eq("webhook_endpoint_id", options.webhook_endpoint_id))
    return reader.page(WebhookMessage, *conditions, paging=paging, order=_LAST_CHANGED)


def list_of_endpoint(reader: Reader, endpoint_id: str, options: HistoryFilters, paging: Paging) -> Page[WebhookMessage]:
    """The messages to an endpoint, last changed first. Raises `NotFound` for an unknown endpoint."""
    if reader.tx.get(WebhookEndpoint, endpoint_id) is None:
        raise NotFound("webhook_endpoint", endpoint_id)
    conditions = [eq("webhook_endpoint_id", endpoint_id), *_conditions(options)]
    if term := value_or(options.search_term, "").strip():
        conditions.append(contains(("id", "object_id"), term))
    return reader.page(WebhookMessage, *conditions, paging=paging, order=_LAST_CHANGED)


def _conditions(options: MessageFilters | HistoryFilters) -> list[Condition]:
    if options.http_statuses and len(options.http_statuses) > _MOST_STATUSES:
        raise Invalid(http_statuses="invalid_count")
    conditions: list[Condition] = []
    if options.statuses:
        conditions.append(within("status", options.statuses))
    if options.event_types:
        conditions.append(within("webhook_type", options.event_types))
    if options.http_statuses:
        conditions.append(any_of(*_answered_with(options.http_statuses)))
    if options.from_date:
        conditions.append(at_least("updated_at", options.from_date))
    if options.to_date:
        conditions.append(at_most("updated_at", options.to_date))
    return conditions


def _answered_with(statuses: Sequence[str]) -> list[Condition]:
    conditions: list[Condition] = []
    for status in statuses:
        if status == "timeout":
            conditions.append(all_of(eq("status", MessageStatus.FAILED), missing("http_status")))
        elif re.fullmatch(r"[1-5]xx", status):
            lowest = int(status[0]) * 100
            conditions.append(all_of(at_least("http_status", lowest), at_most("http_status", lowest + 99)))
        elif limits := re.fullmatch(r"(\d{3})(?:-(\d{3}))?", status):
            first, last = limits.group(1), limits.group(2) or limits.group(1)
            conditions.append(all_of(at_least("http_status", int(first)), at_most("http_status", int(last))))
    return conditions


@without_backlog(Unrelated.STORED)
def resend(work: Work, id: str) -> WebhookMessage:
    """Deliver the message again, at once. Raises `NotFound`, and `NotAllowed` if it has succeeded."""
    message = get(work, id)
    if message.status == MessageStatus.SUCCEEDED:
        raise NotAllowed("is_succeeded", message.status)
    _deliver_now(work, message)
    return message


@without_backlog(Unrelated.STORED)
def resend_failed(work: Work, request: ResendFilters) -> Resent:
    """Deliver all failed messages that match the request again, at once.

    Raises `NotFound` for an unknown endpoint.
    """
    conditions = [eq("status", MessageStatus.FAILED)]
    if request.webhook_endpoint_id:
        if work.tx.get(WebhookEndpoint, request.webhook_endpoint_id) is None:
            raise NotFound("webhook_endpoint", request.webhook_endpoint_id)
        conditions.append(eq("webhook_endpoint_id", request.webhook_endpoint_id))
    if request.event_types:
        conditions.append(within("webhook_type", request.event_types))
    if request.from_date:
        conditions.append(at_least("updated_at", request.from_date))
    if request.to_date:
        conditions.append(at_most("updated_at", request.to_date))
    count = 0
    while messages := work.tx.find(
        WebhookMessage, *conditions, order=[asc("created_at")], limit=_READ_TOGETHER, offset=count
    ):
        for message in messages:
            _deliver_now(work, message)
        count += len(messages)
    return Resent(count=count)


def _deliver_now(work: Work, message: WebhookMessage) -> None:
    delivery = DeliverWebhook(message_id=message.id)
    work.cancel(delivery)
    work.schedule(delivery, work.now, lane=delivery_lane(message.webhook_endpoint_id))


# Attempts


def prepare(work: Work, task: DeliverWebhook) -> Attempt | None:
    """The next request for a message; None if it is gone, or was delivered.

    Address and algorithm are the endpoint's current ones, body and unique key the message's own.
    """
    message = work.tx.get(WebhookMessage, task.message_id)
    endpoint = None if message is None else work.tx.get(WebhookEndpoint, message.webhook_endpoint_id)
    if message is None or endpoint is None or message.status == MessageStatus.SUCCEEDED:
        return None
    signs_jwt = endpoint.signature_algo == SignatureAlgorithm.JWT
    secrets = valid_secrets(endpoint, work.organization.hmac_key, work.now)
    return Attempt(
        message_id=message.id,
        url=endpoint.webhook_url,
        body=message.payload.encode(),
        signature_algo=endpoint.signature_algo,
        keys=_keys(work) if signs_jwt else tuple(secret.value for secret in secrets),
        issuer=work.settings.public_url,
        header_prefix=header_prefix(work.settings.id_prefix),
        public_only=reaches_public_only(work),
    )


def signed_headers(attempt: Attempt) -> dict[str, str]:
    """The headers of a request. Signing is slow, so call it outside transactions."""
    return {
        "Content-Type": "application/json",
        f"{attempt.header_prefix}Signature": ",".join(_signature(attempt, key) for key in attempt.keys),
        f"{attempt.header_prefix}Signature-Algorithm": attempt.signature_algo,
        f"{attempt.header_prefix}Unique-Key": attempt.message_id,
    }


def _signature(attempt: Attempt, key: SigningKey | str) -> str:
    if isinstance(key, str):
        return sign_hmac(key, attempt.body)
    import jwt

    # The same for every attempt: no instants, no type in the header. There the audience may stand too (RFC 7519, 5.3);
    # as a claim it would be refused by receivers that do not expect it (PyJWT, python-jose).
    claims = {"data": attempt.body.decode(), "iss": attempt.issuer}
    header = {"typ": None, "kid": key.id, "aud": key.organization_id}
    return jwt.encode(claims, _parsed(key.private_key), algorithm="RS256", headers=header)


@lru_cache(maxsize=128)
def _parsed(pem: str) -> RSAPrivateKey:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    # The first signature with a parsed key takes as long as two. Checking a key takes as long as a hundred, and ours
    # come from our own table.
    key = load_pem_private_key(pem.encode(), None, unsafe_skip_rsa_key_validation=True)
    assert isinstance(key, RSAPrivateKey)
    return key


def reaches_public_only(reader: Reader) -> bool:
    """Whether messages may only be sent to addresses on the public internet."""
    chosen = reader.settings.private_networks
    return chosen == "refused" or (chosen == "auto" and reader.tx.is_shared())


def endpoints_of_only_organization(reader: Reader) -> list[WebhookEndpoint]:
    """The endpoints that may have private addresses only as long as the store holds one organization."""
    if reader.settings.private_networks != "auto" or reader.tx.is_shared():
        return []
    return reader.tx.find(WebhookEndpoint, order=[asc("webhook_url")])


def note_attempt(work: Work, job: Job, made: Attempt, http_status: int | None, response: str) -> WebhookMessage | None:
    """Store the outcome of an attempt, and schedule the next one if it failed and attempts are left.

    Returns the updated message, None if this attempt no longer matters.
    """
    work.tx.jobs.complete(job)
    message = work.tx.get(WebhookMessage, made.message_id)
    if message is None or message.status == MessageStatus.SUCCEEDED:
        # It was delivered meanwhile by another attempt, requested while this one was under way.
        return None
    after = after_attempt(message, work.now, http_status, response, made.url, work.settings.webhook_attempts)
    work.tx.replace(after)
    endpoint = work.tx.get(WebhookEndpoint, message.webhook_endpoint_id)
    if endpoint is not None and (known := endpoint_after_attempt(endpoint, after)) != endpoint:
        work.tx.replace(known)
    if after.status == MessageStatus.RETRYING:
        wait = timedelta(milliseconds=retry_milliseconds(after.retries, randbelow(1001)))
        lane = delivery_lane(message.webhook_endpoint_id)
        work.schedule(DeliverWebhook(message_id=message.id), work.now + wait, lane=lane)
    return after


# Signatures


def signing_key(work: Work) -> SigningKey:
    """The organization's newest key pair, generated on first use, while no transaction is open."""
    keys = _keys(work)
    return keys[-1] if keys else _new_key(work)


def _keys(reader: Reader) -> tuple[SigningKey, ...]:
    return valid_keys(reader.tx.find(SigningKey), reader.now)


def _new_key(work: Work) -> SigningKey:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    private_key = work.drawn(SigningKey, lambda: _new_private_key).decode()
    public_key = _parsed(private_key).public_key()
    created = SigningKey(
        id=work.new_id(),
        organization_id=work.organization.id,
        created_at=work.now,
        private_key=private_key,
        public_key=public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(),
    )
    work.tx.insert(created)
    return created


def _new_private_key() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@without_backlog(Unrelated.CONNECTION)
def public_key(work: Work) -> str:
    """The public key that verifies the organization's `jwt` signatures: base64 of its PEM text, in lines of 60."""
    return public_key_text(signing_key(work).public_key)


@without_backlog(Unrelated.CONNECTION)
def rotate_key(work: Work, request: KeyRotationInput) -> RotatedKey:
    """Sign `jwt` messages with a new key pair. Until the old one expires, they have a signature by each, oldest first.

    Raises `Invalid` if two are valid already.
    """
    expires_at = old_expires_at("old_key_expires_at", request.old_key_expires_at, work.now)
    old = present_key(work.tx.find(SigningKey), work.now)
    new = _new_key(work)
    if old is None:
        return RotatedKey(key=new)
    if expires_at is None:
        work.tx.delete(old)
    else:
        work.tx.replace(replace(old, expires_at=expires_at))
    for key in work.tx.find(SigningKey, at_most("expires_at", work.now)):
        work.tx.delete(key)
    return RotatedKey(key=new, old_key_expires_at=expires_at)


@without_backlog(Unrelated.CONNECTION)
def end_old_key(work: Work) -> RotatedKey:
    """Sign `jwt` messages with the newest key pair alone from now on."""
    newest = signing_key(work)
    for key in work.tx.find(SigningKey):
        if key.id != newest.id:
            work.tx.delete(key)
    return RotatedKey(key=newest)


def old_expires_at(name: str, sent: Maybe[str], now: datetime) -> datetime | None:
    """When an old secret or key pair stops signing, as it was sent in the field `name`: by default in a day, None: now.
    Raises `Invalid`.
    """
    if sent is ABSENT:
        return now + _OLD_ONE_KEPT
    if sent is None:
        return None
    instant = parse_instant(sent)
    if instant is None or instant <= now:
        raise Invalid({name: ["invalid_date"]})
    return instant


# Clean-up


def schedule_cleaning(work: Work) -> None:
    """Schedule the removal of old messages at the next 01:00 UTC."""
    task = CleanWebhookMessages(organization_id=work.organization.id)
    work.schedule(task, next_time_of_day(_CLEANED_AT, work.now))


def _is_to_be_delivered(reader: Reader, message: WebhookMessage) -> bool:
    return reader.tx.jobs.get(DeliverWebhook(message_id=message.id).key) is not None


def clean(work: Work, task: CleanWebhookMessages) -> None:
    """Job: remove messages that succeeded or failed 90 days ago; daily, while there are endpoints.

    A message that still waits for an attempt is kept, however old; one that has no job is not waiting.
    """
    old = less("updated_at", work.now - HISTORY)
    settled = within("status", SETTLED_MESSAGES)
    while messages := work.tx.find(WebhookMessage, old, settled, limit=_READ_TOGETHER):
        for message in messages:
            work.cancel(DeliverWebhook(message_id=message.id))
        work.tx.delete(*messages)
    kept = 0
    while messages := work.tx.find(WebhookMessage, old, order=[asc("updated_at")], limit=_READ_TOGETHER, offset=kept):
        orphans = [message for message in messages if not _is_to_be_delivered(work, message)]
        work.tx.delete(*orphans)
        kept += len(messages) - len(orphans)
    if work.tx.count(WebhookEndpoint):
        schedule_cleaning(work)
