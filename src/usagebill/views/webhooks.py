"""Webhook endpoints and messages as JSON."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from usagebill.core.webhooks import Resent, WebhookEndpoint, WebhookMessage
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text


class WebhookEndpointView(TypedDict):
    svc_id: Id
    svc_organization_id: Id
    webhook_url: str
    signature_algo: str
    name: str | None
    event_types: list[str] | None
    created_at: Instant
    old_secret_expires_at: NotRequired[Instant]
    failing_since: NotRequired[Instant]


class RotatedSecretView(WebhookEndpointView):
    secret: str


class WebhookMessageView(TypedDict):
    svc_id: Id
    svc_webhook_endpoint_id: Id
    endpoint: str
    webhook_type: str
    object_type: str
    object_id: Id | None
    status: str
    retries: int
    http_status: int | None
    payload: str
    response: str | None
    last_retried_at: Instant | None
    created_at: Instant
    updated_at: Instant


class ResentView(TypedDict):
    resent_count: int


class PublicKeyView(TypedDict):
    public_key: str


def webhook_endpoint_view(reader: Reader, endpoint: WebhookEndpoint) -> WebhookEndpointView:
    """The endpoint with its event types and signature algorithm. While it has two secrets it shows when the old one
    expires, and while its messages fail since when.
    """
    shown: WebhookEndpointView = {
        "svc_id": endpoint.id,
        "svc_organization_id": endpoint.organization_id,
        "webhook_url": endpoint.webhook_url,
        "signature_algo": endpoint.signature_algo,
        "name": endpoint.name,
        "event_types": None if endpoint.event_types is None else list(endpoint.event_types),
        "created_at": instant_text(endpoint.created_at),
    }
    for secret in endpoint.secrets:
        if secret.expires_at is not None and secret.expires_at > reader.now:
            shown["old_secret_expires_at"] = instant_text(secret.expires_at)
    if endpoint.failing_since is not None:
        shown["failing_since"] = instant_text(endpoint.failing_since)
    return shown


def webhook_message_view(reader: Reader, message: WebhookMessage) -> WebhookMessageView:
    """The message and its delivery so far; its id is the unique key sent to receivers."""
    return {
        "svc_id": message.id,
        "svc_webhook_endpoint_id": message.webhook_endpoint_id,
        "endpoint": message.endpoint,
        "webhook_type": message.webhook_type,
        "object_type": message.object_type,
        "object_id": message.object_id,
        "status": message.status,
        "retries": message.retries,
        "http_status": message.http_status,
        "payload": message.payload,
        "response": message.response,
        "last_retried_at": instant_text(message.last_retried_at),
        "created_at": instant_text(message.created_at),
        "updated_at": instant_text(message.updated_at),
    }


def resent_view(reader: Reader, resent: Resent) -> ResentView:
    """The number of resent messages."""
    return {"resent_count": resent.count}


class RotatedKeyView(PublicKeyView):
    old_key_expires_at: NotRequired[Instant]


def public_key_view(reader: Reader, text: str) -> PublicKeyView:
    """The key that verifies JWT-signed messages: base64 of its PEM text."""
    return {"public_key": text}


def public_key_bytes(reader: Reader, text: str) -> bytes:
    """The key as a plain text body."""
    return text.encode()
