"""Connections to payment providers as JSON, and messages about their errors."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.customers import Customer
from usagebill.core.payment_audit import ProviderAudit
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payments import PaymentMethod, ProviderNotice
from usagebill.core.provider_requests import ProviderFailure
from usagebill.queries.payment_providers import find_connection, notice_path
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text


class PaymentConnectionView(TypedDict):
    svc_id: Id
    kind: str
    code: str
    name: str
    url: str | None
    live: bool
    success_redirect_url: str | None
    supports_3ds: bool
    require_terms_of_service_consent: bool
    live_prefix: str | None
    credentials: dict[str, str]
    accepts_notices: bool
    notice_path: str
    connect_error: str | None
    created_at: Instant


def payment_connection_view(_: Reader, connection: PaymentConnection) -> PaymentConnectionView:
    """A connection to a payment provider; of its secrets at most the last characters."""
    return {
        "svc_id": connection.id,
        "kind": connection.kind,
        "code": connection.code,
        "name": connection.name,
        "url": connection.url,
        "live": connection.live,
        "success_redirect_url": connection.success_redirect_url,
        "supports_3ds": connection.supports_3ds,
        "require_terms_of_service_consent": connection.require_terms_of_service_consent,
        "live_prefix": connection.live_prefix,
        "credentials": connection.shown_credentials(),
        "accepts_notices": connection.accepts_notices,
        "notice_path": notice_path(connection),
        "connect_error": connection.connect_error,
        "created_at": instant_text(connection.created_at),
    }


class SourcedErrorView(TypedDict):
    source: str
    action: str
    message: str
    code: str | None


class PaymentProviderErrorView(TypedDict):
    svc_payment_provider_id: Id
    payment_provider_code: str
    payment_provider_name: str
    source: str
    action: str
    provider_error: SourcedErrorView


def payment_provider_error(
    connection: PaymentConnection, action: str, message: str, code: str | None
) -> PaymentProviderErrorView:
    """The message about an error of the whole connection."""
    return {
        "svc_payment_provider_id": connection.id,
        "payment_provider_code": connection.code,
        "payment_provider_name": connection.name,
        "source": connection.kind,
        "action": action,
        "provider_error": {"source": connection.kind, "action": action, "message": message, "code": code},
    }


class ProviderRefusalView(TypedDict):
    message: str
    error_code: str | None


class CustomerErrorView(TypedDict):
    svc_customer_id: Id
    external_customer_id: str
    payment_provider: str
    payment_provider_code: str
    provider_error: ProviderRefusalView


class CheckoutUrlView(TypedDict):
    svc_customer_id: Id
    external_customer_id: str
    payment_provider: str
    payment_provider_code: str
    checkout_url: str


class TopUpFailureView(TypedDict):
    svc_wallet_transaction_id: Id
    svc_customer_id: Id
    external_customer_id: str
    provider_customer_id: str | None
    payment_provider: str | None
    payment_provider_code: str | None
    provider_error: ProviderRefusalView


class RefundFailureView(TypedDict):
    svc_credit_note_id: Id
    svc_customer_id: Id
    external_customer_id: str
    provider_customer_id: str | None
    payment_provider: str | None
    payment_provider_code: str | None
    provider_error: ProviderRefusalView


def customer_error_view(
    customer: Customer, connection: PaymentConnection, message: str, code: str | None
) -> CustomerErrorView:
    """The message about a customer that its provider refused, with the reason."""
    return {
        "svc_customer_id": customer.id,
        "external_customer_id": customer.external_id,
        "payment_provider": connection.kind,
        "payment_provider_code": connection.code,
        "provider_error": {"message": message, "error_code": code},
    }


def checkout_url_view(customer: Customer, connection: PaymentConnection, url: str) -> CheckoutUrlView:
    """The page on which a customer sets up a payment method at its provider."""
    return {
        "svc_customer_id": customer.id,
        "external_customer_id": customer.external_id,
        "payment_provider": connection.kind,
        "payment_provider_code": connection.code,
        "checkout_url": url,
    }


def top_up_failure_view(customer: Customer, transaction_id: str, failure: ProviderFailure) -> TopUpFailureView:
    """The message about a purchase of credits that could not be collected, with the reason."""
    return {
        "svc_wallet_transaction_id": transaction_id,
        "svc_customer_id": customer.id,
        "external_customer_id": customer.external_id,
        "provider_customer_id": customer.provider_customer_id,
        "payment_provider": customer.payment_provider,
        "payment_provider_code": customer.payment_provider_code,
        "provider_error": {"message": failure.message, "error_code": failure.code},
    }


def refund_failure_view(customer: Customer, credit_note_id: str, message: str, code: str | None) -> RefundFailureView:
    """The message about a refund that the provider refused, with the reason."""
    return {
        "svc_credit_note_id": credit_note_id,
        "svc_customer_id": customer.id,
        "external_customer_id": customer.external_id,
        "provider_customer_id": customer.provider_customer_id,
        "payment_provider": customer.payment_provider,
        "payment_provider_code": customer.payment_provider_code,
        "provider_error": {"message": message, "error_code": code},
    }


class CustomerMethodView(TypedDict):
    svc_id: Id
    is_default: bool
    payment_provider_code: str | None
    payment_provider_name: str | None
    payment_provider_type: str | None
    provider_method_id: str
    created_at: Instant


def payment_method_view(reader: Reader, method: PaymentMethod) -> CustomerMethodView:
    """A payment method of a customer, and the provider that charges it."""
    connection = find_connection(reader, method.connection_id)
    return {
        "svc_id": method.id,
        "is_default": method.is_default,
        "payment_provider_code": None if connection is None else connection.code,
        "payment_provider_name": None if connection is None else connection.name,
        "payment_provider_type": None if connection is None else connection.kind,
        "provider_method_id": method.provider_method_id,
        "created_at": instant_text(method.created_at),
    }


class ProviderNoticeView(TypedDict):
    svc_id: Id
    payment_provider_code: str | None
    payment_provider_type: str | None
    event_id: str
    type: str
    status: str
    reason: str | None
    body: str
    created_at: Instant


class ProviderAuditView(TypedDict):
    payment_provider_code: str
    compared_at: Instant
    differences_count: int
    failure: str | None


def provider_audit_view(_: Reader, audit: ProviderAudit) -> ProviderAuditView:
    """The last comparison of a connection's payments and refunds with its provider's list."""
    return {
        "payment_provider_code": audit.connection_code,
        "compared_at": instant_text(audit.compared_at),
        "differences_count": audit.differences,
        "failure": audit.failure,
    }


def provider_notice_view(reader: Reader, notice: ProviderNotice) -> ProviderNoticeView:
    """A notice of a provider in its original form, with its outcome."""
    connection = find_connection(reader, notice.connection_id)
    return {
        "svc_id": notice.id,
        "payment_provider_code": None if connection is None else connection.code,
        "payment_provider_type": None if connection is None else connection.kind,
        "event_id": notice.event_id,
        "type": notice.type,
        "status": notice.status,
        "reason": notice.reason,
        "body": notice.body,
        "created_at": instant_text(notice.created_at),
    }
