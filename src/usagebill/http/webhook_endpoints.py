"""Webhook endpoints, and the key that signs their messages, over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import webhook_endpoints, webhooks
from usagebill.views.webhooks import public_key_bytes, public_key_view, webhook_endpoint_view

__all__ = ["ENDPOINTS"]

ENDPOINTS = [
    Endpoint(
        "GET",
        "/webhooks/public_key",
        webhooks.public_key,
        permission="webhook_jwt_public_key",
        writes=True,
        view=public_key_bytes,
        content_type="text/plain; charset=utf-8",
        summary="Get the public key of webhook signatures as text",
    ),
    Endpoint(
        "GET",
        "/webhooks/json_public_key",
        webhooks.public_key,
        permission="webhook_jwt_public_key",
        writes=True,
        returns="webhook",
        view=public_key_view,
        summary="Get the public key of webhook signatures",
    ),
    Endpoint(
        "POST",
        "/webhook_endpoints",
        webhook_endpoints.create,
        permission="webhook_endpoint",
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
        permission="webhook_endpoint",
        paged=True,
        returns="webhook_endpoints",
        view=webhook_endpoint_view,
        summary="List webhook endpoints",
    ),
    Endpoint(
        "GET",
        "/webhook_endpoints/{id}",
        webhook_endpoints.get,
        permission="webhook_endpoint",
        returns="webhook_endpoint",
        view=webhook_endpoint_view,
        summary="Get a webhook endpoint",
    ),
    Endpoint(
        "PUT",
        "/webhook_endpoints/{id}",
        webhook_endpoints.update,
        find=webhook_endpoints.get,
        permission="webhook_endpoint",
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
        permission="webhook_endpoint",
        returns="webhook_endpoint",
        view=webhook_endpoint_view,
        summary="Delete a webhook endpoint and its messages",
    ),
]
