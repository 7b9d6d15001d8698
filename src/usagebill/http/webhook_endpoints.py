"""Webhook endpoints, their messages, and the key that signs them, over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import webhook_endpoints, webhooks
from usagebill.views.webhooks import (
    public_key_bytes,
    public_key_view,
    resent_view,
    webhook_endpoint_view,
    webhook_message_view,
)

ENDPOINTS = [
    Endpoint(
        "GET",
        "/webhooks/public_key",
        webhooks.public_key,
        writes=True,
        view=public_key_bytes,
        content_type="text/plain; charset=utf-8",
        summary="Get the public key of webhook signatures as text",
    ),
    Endpoint(
        "GET",
        "/webhooks/json_public_key",
        webhooks.public_key,
        writes=True,
        returns="webhook",
        view=public_key_view,
        summary="Get the public key of webhook signatures",
    ),
    Endpoint(
        "GET",
        "/webhooks",
        webhooks.list_all,
        query=webhooks.MessageFilters,
        paged=True,
        returns="webhooks",
        view=webhook_message_view,
        summary="List webhook messages with their status",
    ),
    Endpoint(
        "GET",
        "/webhooks/{id}",
        webhooks.get,
        returns="webhook",
        view=webhook_message_view,
        summary="Get a webhook message",
    ),
    Endpoint(
        "POST",
        "/webhooks/{id}/resend",
        webhooks.resend,
        returns="webhook",
        # A message may be about such a link.
        secrets=("payload",),
        view=webhook_message_view,
        summary="Resend a webhook message",
    ),
    Endpoint(
        "POST",
        "/webhooks/resend_failed",
        webhooks.resend_failed,
        body=webhooks.ResendFilters,
        view=resent_view,
        summary="Resend all failed webhook messages",
    ),
    Endpoint(
        "POST",
        "/webhook_endpoints",
        webhook_endpoints.create,
        body=webhook_endpoints.WebhookEndpointInput,
        root="webhook_endpoint",
        returns="webhook_endpoint",
        view=webhook_endpoint_view,
        summary="Create a webhook endpoint",
    ),
    Endpoint(
        "GET",
        "/webhook_endpoints",
        webhook_endpoints.list_all,
        paged=True,
        returns="webhook_endpoints",
        view=webhook_endpoint_view,
        summary="List webhook endpoints",
    ),
    Endpoint(
        "GET",
        "/webhook_endpoints/{id}",
        webhook_endpoints.get,
        returns="webhook_endpoint",
        view=webhook_endpoint_view,
        summary="Get a webhook endpoint",
    ),
    Endpoint(
        "PUT",
        "/webhook_endpoints/{id}",
        webhook_endpoints.update,
        find=webhook_endpoints.get,
        body=webhook_endpoints.WebhookEndpointInput,
        root="webhook_endpoint",
        returns="webhook_endpoint",
        view=webhook_endpoint_view,
        summary="Change a webhook endpoint",
    ),
    Endpoint(
        "DELETE",
        "/webhook_endpoints/{id}",
        webhook_endpoints.delete,
        returns="webhook_endpoint",
        view=webhook_endpoint_view,
        summary="Delete a webhook endpoint and its messages",
    ),
]
