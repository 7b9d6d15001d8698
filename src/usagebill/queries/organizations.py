"""The limits and the webhook endpoints of the organization."""

from __future__ import annotations

from usagebill.core.organizations import Organization, OrganizationLimits
from usagebill.core.webhooks import WebhookEndpoint
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc


def webhook_endpoints(reader: Reader) -> list[WebhookEndpoint]:
    """The organization's webhook endpoints, oldest first."""
    return reader.tx.find(WebhookEndpoint, order=[asc("created_at"), asc("id")])


def limits_now(reader: Reader) -> OrganizationLimits:
    """The organization's limits as they are stored: the work may have been opened with an earlier state of it."""
    organization = reader.tx.get(Organization, reader.organization.id) or reader.organization
    return organization.limits
