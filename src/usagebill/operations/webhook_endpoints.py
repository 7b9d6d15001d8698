"""Webhook endpoints: the addresses that messages are sent to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from secrets import token_hex
from urllib.parse import urlsplit

from usagebill.core.addresses import names_private
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.secrets import Secret
from usagebill.core.tasks import DeliverWebhook
from usagebill.core.webhooks import (
    SignatureAlgorithm,
    WebhookEndpoint,
    WebhookMessage,
    endpoint_problems,
    sent_event_types,
    with_new_secret,
)
from usagebill.operations import webhooks
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, changes, described, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, desc, eq
from usagebill.storage.ports import Page


@Input
class WebhookEndpointInput:
    """`event_types`: null for all events, an empty list for none."""

    webhook_url: Maybe[str] = described(required="create")
    signature_algo: Maybe[str] = described("How messages are signed.", values=tuple(SignatureAlgorithm), default="jwt")
    name: Maybe[str] = ABSENT
    event_types: Maybe[object] = ABSENT


_SECRET_BYTES = 32


@Input
class SecretRotationInput:
    """`old_secret_expires_at`: null ends the old secret at once."""

    old_secret_expires_at: Maybe[str] = described(
        "When the old secret stops signing; null: at once.", default="in 24 hours", example="2100-01-01T00:00:00Z"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RotatedSecret:
    """An endpoint and its new secret, which is not shown again."""

    endpoint: WebhookEndpoint
    hidden: Secret

    @property
    def secret(self) -> str:
        """The value that signs messages."""
        return self.hidden.value


def get(reader: Reader, id: str) -> WebhookEndpoint:
    """The endpoint with this id. Raises `NotFound`."""
    endpoint = reader.tx.get(WebhookEndpoint, id)
    if endpoint is None:
        raise NotFound("webhook_endpoint", id)
    return endpoint


def list_all(reader: Reader, paging: Paging) -> Page[WebhookEndpoint]:
    """Endpoints by address."""
    return reader.page(WebhookEndpoint, paging=paging, order=(asc("webhook_url"), desc("created_at")))


@without_backlog(Unrelated.CONNECTION)
def create(work: Work, request: WebhookEndpointInput) -> WebhookEndpoint:
    """A new endpoint, which gets messages from now on. Raises `Invalid`."""
    endpoint = WebhookEndpoint(
        id=work.new_id(),
        organization_id=work.organization.id,
        webhook_url=value_or(request.webhook_url, ""),
        signature_algo=value_or(request.signature_algo, SignatureAlgorithm.JWT),
        name=value_or(request.name, None),
        event_types=sent_event_types(value_or(request.event_types, None)),
        created_at=work.now,
        updated_at=work.now,
    )
    problems = _problems(work, endpoint)
    if problems:
        raise Invalid(problems)
    work.tx.insert(endpoint)
    webhooks.schedule_cleaning(work)
    return endpoint


@without_backlog(Unrelated.CONNECTION)
def update(work: Work, id: str, request: WebhookEndpointInput) -> WebhookEndpoint:
    """Change what is sent. Address and algorithm apply to all further attempts, event types to new messages."""
    sent = changes(request, "webhook_url", "signature_algo", "name", "event_types")
    before = get(work, id)
    if "webhook_url" in sent:
        sent["webhook_url"] = sent["webhook_url"] or ""
    if "signature_algo" in sent:
        sent["signature_algo"] = sent["signature_algo"] or SignatureAlgorithm.JWT
    if "event_types" in sent:
        sent["event_types"] = sent_event_types(sent["event_types"])
    after = replace(before, updated_at=work.now, **sent)
    if after.webhook_url != before.webhook_url:
        after = replace(after, failing_since=None)
    problems = _problems(work, after, before)
    if problems:
        raise Invalid(problems)
    work.tx.replace(after)
    return after


@without_backlog(Unrelated.CONNECTION)
def delete(work: Work, id: str) -> WebhookEndpoint:
    """Delete the endpoint and its messages; those not yet sent are lost."""
    endpoint = get(work, id)
    messages = work.tx.find(WebhookMessage, eq("webhook_endpoint_id", endpoint.id))
    for message in messages:
        work.cancel(DeliverWebhook(message_id=message.id))
    work.tx.delete(*messages, endpoint)
    return endpoint


@without_backlog(Unrelated.CONNECTION)
def rotate_secret(work: Work, id: str, request: SecretRotationInput) -> RotatedSecret:
    """Give an `hmac` endpoint a new secret. Until the old one expires, messages have a signature by each.

    Raises `NotFound`, and `Invalid` for an endpoint that is signed by `jwt` or has two valid secrets already.
    """
    secret = Secret(token_hex(_SECRET_BYTES))
    expires_at = webhooks.old_expires_at("old_secret_expires_at", request.old_secret_expires_at, work.now)
    after = with_new_secret(get(work, id), work.organization.hmac_key, secret.value, work.now, expires_at)
    work.tx.replace(after)
    return RotatedSecret(endpoint=after, hidden=secret)


@without_backlog(Unrelated.CONNECTION)
def end_old_secret(work: Work, id: str) -> WebhookEndpoint:
    """Sign with the newest secret alone from now on. Raises `NotFound`."""
    before = get(work, id)
    after = replace(before, secrets=before.secrets[-1:], updated_at=work.now)
    work.tx.replace(after)
    return after


def _problems(reader: Reader, endpoint: WebhookEndpoint, before: WebhookEndpoint | None = None) -> dict[str, list[str]]:
    return endpoint_problems(
        endpoint,
        before,
        reader.tx.first(WebhookEndpoint, eq("webhook_url", endpoint.webhook_url)),
        is_private=webhooks.reaches_public_only(reader) and _names_private(endpoint.webhook_url),
        endpoints=reader.tx.count(WebhookEndpoint),
    )


def _names_private(url: str) -> bool:
    try:
        return names_private(urlsplit(url).hostname or "")
    except ValueError:
        return False
