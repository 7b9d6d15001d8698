"""Tax provider connections as JSON, and messages about their errors."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.customers import Customer
from usagebill.core.fees import Fee
from usagebill.core.tax_providers import ProviderFailure, TaxConnection
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text


class TaxConnectionView(TypedDict):
    svc_id: Id
    kind: str
    code: str
    name: str
    url: str
    has_api_key: bool
    item_codes: dict[str, str]
    created_at: Instant


def tax_connection_view(_: Reader, connection: TaxConnection) -> TaxConnectionView:
    """A connection to a tax provider, without its key."""
    return {
        "svc_id": connection.id,
        "kind": connection.kind,
        "code": connection.code,
        "name": connection.name,
        "url": connection.url,
        "has_api_key": connection.api_key is not None,
        "item_codes": dict(connection.item_codes),
        "created_at": instant_text(connection.created_at),
    }


class TaxProviderRefusalView(TypedDict):
    message: str
    error_code: str


class CustomerTaxErrorView(TypedDict):
    svc_customer_id: Id
    external_customer_id: str
    tax_provider: str
    tax_provider_code: str
    provider_error: TaxProviderRefusalView


class FeeTaxErrorView(TypedDict):
    tax_provider_code: str
    svc_charge_id: Id | None
    event_transaction_id: str | None
    provider_error: TaxProviderRefusalView


def _error(failure: ProviderFailure) -> TaxProviderRefusalView:
    return {"message": failure.message, "error_code": failure.code}


def customer_tax_error(customer: Customer, connection: TaxConnection, failure: ProviderFailure) -> CustomerTaxErrorView:
    """The message that the taxes of one of the customer's invoices could not be determined."""
    return {
        "svc_customer_id": customer.id,
        "external_customer_id": customer.external_id,
        "tax_provider": connection.kind,
        "tax_provider_code": connection.code,
        "provider_error": _error(failure),
    }


def fee_tax_error(fee: Fee, connection: TaxConnection, failure: ProviderFailure) -> FeeTaxErrorView:
    """The message that the taxes of a fee without invoice could not be determined."""
    return {
        "tax_provider_code": connection.code,
        "svc_charge_id": fee.charge_id,
        "event_transaction_id": fee.event_transaction_id,
        "provider_error": _error(failure),
    }
