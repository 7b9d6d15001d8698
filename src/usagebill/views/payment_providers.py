"""Views of connections to payment providers, and of what went wrong with one."""

from __future__ import annotations

from typing import TypedDict
from urllib.parse import quote

from usagebill.core.payment_providers import PaymentConnection
from usagebill.views.formats import Id, Instant, instant_text
from usagebill.work import Reader

__all__ = [
    "PaymentConnectionView",
    "PaymentProviderErrorView",
    "notice_path",
    "payment_connection_view",
    "payment_provider_error",
]


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


def notice_path(connection: PaymentConnection) -> str:
    """Where the provider sends its notices, below the address of the service."""
    return f"/webhooks/{connection.kind}/{connection.organization_id}?code={quote(connection.code, safe='')}"


def payment_connection_view(_: Reader, connection: PaymentConnection) -> PaymentConnectionView:
    """A connection to a payment provider; of its secrets, at most their last characters."""
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
    """Something that concerns the whole connection failed."""
    return {
        "svc_payment_provider_id": connection.id,
        "payment_provider_code": connection.code,
        "payment_provider_name": connection.name,
        "source": connection.kind,
        "action": action,
        "provider_error": {"source": connection.kind, "action": action, "message": message, "code": code},
    }
