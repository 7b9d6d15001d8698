"""The webhook endpoints of the organization."""

from __future__ import annotations

from usagebill.core.webhooks import WebhookEndpoint
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc


def webhook_endpoints(reader: Reader) -> list[WebhookEndpoint]:
    """The organization's webhook endpoints, oldest first."""
    return reader.tx.find(WebhookEndpoint, order=[asc("created_at"), asc("id")])
