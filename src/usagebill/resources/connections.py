"""Connections to the outside: webhook endpoints, tax and payment providers, accounting systems and CRMs."""

from __future__ import annotations

from typing import ClassVar

from usagebill.core.payment_audit import ProviderAudit
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payments import ProviderNotice
from usagebill.core.sync_connections import SyncConnection, SyncedDocument
from usagebill.core.tax_providers import TaxConnection
from usagebill.core.webhooks import Resent, WebhookEndpoint, WebhookMessage
from usagebill.operations import (
    payment_connections,
    provider_audits,
    provider_notices,
    sync_connections,
    synced_documents,
    tax_connections,
    webhook_endpoints,
    webhooks,
)
from usagebill.resources.bindings import Message, Messages, Resource, Views, command, query
from usagebill.resources.result_views import rotated_key_view, rotated_secret_view
from usagebill.views.payment_providers import (
    PaymentProviderErrorView,
    payment_connection_view,
    provider_audit_view,
    provider_notice_view,
)
from usagebill.views.sync_connections import IntegrationErrorView, sync_connection_view, synced_document_view
from usagebill.views.tax_providers import tax_connection_view
from usagebill.views.webhooks import resent_view, webhook_endpoint_view, webhook_message_view


class PaymentConnections(Resource):
    """Payment providers that collect the invoices of the customers linked to them."""

    views: ClassVar[Views] = {
        PaymentConnection: payment_connection_view,
        ProviderNotice: provider_notice_view,
        ProviderAudit: provider_audit_view,
    }
    messages: ClassVar[Messages] = {
        "payment_provider.error": Message("A payment provider could not be connected to.", PaymentProviderErrorView),
    }

    create = command(payment_connections.create, permission="organization")
    update = command(payment_connections.update, permission="organization")
    get = query(payment_connections.get, permission="organization")
    list = query(payment_connections.list_all, permission="organization")
    delete = command(payment_connections.delete)
    notices = query(provider_notices.list_all, permission="organization")
    comparisons = query(provider_audits.comparisons, permission="payment")


class SyncConnections(Resource):
    """Accounting systems and CRMs that customers can be linked to."""

    views: ClassVar[Views] = {SyncConnection: sync_connection_view}
    messages: ClassVar[Messages] = {
        "integration.provider_error": Message("An accounting system or CRM refused our key.", IntegrationErrorView),
    }

    create = command(sync_connections.create, permission="organization")
    update = command(sync_connections.update, permission="organization")
    get = query(sync_connections.get, permission="organization")
    list = query(sync_connections.list_all, permission="organization")
    delete = command(sync_connections.delete)


class SyncedDocuments(Resource):
    """Documents sent, or to be sent, to accounting systems and CRMs."""

    permission = "invoice"

    views: ClassVar[Views] = {SyncedDocument: synced_document_view}

    get = query(synced_documents.get)
    list = query(synced_documents.list_all)
    resend = command(synced_documents.resend)
    resend_failed = command(synced_documents.resend_failed)
    push_invoice = command(synced_documents.push_invoice)


class TaxConnections(Resource):
    """Tax providers that customers can be linked to."""

    views: ClassVar[Views] = {TaxConnection: tax_connection_view}

    create = command(tax_connections.create, permission="organization")
    update = command(tax_connections.update, permission="organization")
    get = query(tax_connections.get, permission="organization")
    list = query(tax_connections.list_all, permission="organization")
    delete = command(tax_connections.delete)


class WebhookEndpoints(Resource):
    """The webhook endpoints that messages go to."""

    permission = "webhook_endpoint"

    views: ClassVar[Views] = {
        WebhookEndpoint: webhook_endpoint_view,
        webhook_endpoints.RotatedSecret: rotated_secret_view,
    }

    create = command(webhook_endpoints.create)
    update = command(webhook_endpoints.update)
    get = query(webhook_endpoints.get)
    list = query(webhook_endpoints.list_all)
    delete = command(webhook_endpoints.delete)
    rotate_secret = command(webhook_endpoints.rotate_secret)
    end_old_secret = command(webhook_endpoints.end_old_secret)


class Webhooks(Resource):
    """Webhook messages, and the key that signs them."""

    permission = "webhook_endpoint"

    views: ClassVar[Views] = {
        WebhookMessage: webhook_message_view,
        Resent: resent_view,
        webhooks.RotatedKey: rotated_key_view,
    }

    get = query(webhooks.get)
    list = query(webhooks.list_all)
    list_of_endpoint = query(webhooks.list_of_endpoint)
    resend = command(webhooks.resend)
    resend_failed = command(webhooks.resend_failed)
    public_key = command(webhooks.public_key, permission="webhook_jwt_public_key")
    rotate_key = command(webhooks.rotate_key)
    end_old_key = command(webhooks.end_old_key)
