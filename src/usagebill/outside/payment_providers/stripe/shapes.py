"""Requests as Stripe's fields, and Stripe's objects as answers."""

from __future__ import annotations

from datetime import UTC, datetime

from usagebill.core.payment_providers import PaymentConnection, charge_status, from_minor_units, minor_units
from usagebill.core.provider_requests import (
    Charged,
    CheckoutUrl,
    FailureKind,
    MethodDetails,
    PageUrl,
    Payer,
    ProviderCharge,
)
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.outside.payment_providers.fields import required_int, required_text, text, value
from usagebill.outside.payment_providers.http import failed
from usagebill.process.json_text import Json, JsonObject

BANK_TRANSFER = "customer_balance"
_TRANSFER_TYPES = {
    "usd": "us_bank_transfer",
    "gbp": "gb_bank_transfer",
    "jpy": "jp_bank_transfer",
    "mxn": "mx_bank_transfer",
    "eur": "eu_bank_transfer",
}
_TRANSFER_COUNTRIES = ("BE", "DE", "ES", "FR", "IE", "NL")
_REFUND_STATUSES = {
    "succeeded": PaymentStatus.SUCCEEDED,
    "failed": PaymentStatus.FAILED,
    "canceled": PaymentStatus.FAILED,
}


def refund_status(word: str) -> PaymentStatus:
    """The status of a refund; pending for anything but success and failure (such as `requires_action`)."""
    return _REFUND_STATUSES.get(word, PaymentStatus.PENDING)


def customer(payer: Payer) -> JsonObject:
    address = payer.address
    return {
        "address": {
            "city": address.city,
            "country": address.country,
            "line1": address.address_line1,
            "line2": address.address_line2,
            "postal_code": address.zipcode,
            "state": address.state,
        },
        "email": payer.email,
        "name": payer.name,
        "phone": payer.phone,
    }


def consent(connection: PaymentConnection) -> JsonObject:
    if not connection.require_terms_of_service_consent:
        return {}
    return {"consent_collection": {"terms_of_service": "required"}}


def page(session: Json) -> PageUrl:
    return PageUrl(url=required_text(session, "url"), provider_page_id=required_text(session, "id"))


def default_method(customer: Json) -> str | None:
    chosen = text(customer, "invoice_settings", "default_payment_method")
    return chosen or text(customer, "default_source")


def details(method: Json) -> MethodDetails:
    card = value(method, "card")
    month, year = value(card, "exp_month"), value(card, "exp_year")
    return MethodDetails(
        provider_method_id=required_text(method, "id"),
        type=text(method, "type"),
        last4=text(card, "last4"),
        brand=text(card, "display_brand") or text(card, "brand"),
        expiration_month=month if isinstance(month, int) else None,
        expiration_year=year if isinstance(year, int) else None,
    )


def transfer(payer: Payer, currency: str) -> JsonObject:
    """Payment instructions for customers that pay by bank transfer only."""
    balance: JsonObject = {"funding_type": "bank_transfer"}
    kind = _TRANSFER_TYPES.get(currency.lower())
    if kind is not None:
        balance["bank_transfer"] = {"type": kind}
    if kind == "eu_bank_transfer":
        countries = (payer.address.country, payer.entity_country)
        country = next((code for code in countries if code in _TRANSFER_COUNTRIES), None)
        if country is None:
            text = f"bank transfers in EUR need a country among {', '.join(_TRANSFER_COUNTRIES)}"
            raise failed(FailureKind.REFUSED, "missing_country", text)
        balance["bank_transfer"]["eu_bank_transfer"] = {"country": country}
    return {
        "payment_method_data": {"type": BANK_TRANSFER},
        "payment_method_options": {BANK_TRANSFER: balance},
    }


def charged(intent: Json, method: Json, gone: tuple[str, ...]) -> Charged:
    status = required_text(intent, "status")
    action = value(intent, "next_action")
    has_failed = charge_status("stripe", status) is ChargeStatus.FAILED
    return Charged(
        provider_payment_id=required_text(intent, "id"),
        status=status,
        # For a status that is not known here, wait for the event.
        payment_status=charge_status("stripe", status) or ChargeStatus.PROCESSING,
        next_action=action if isinstance(action, dict) and status == "requires_action" else {},
        method=None if method is None else details(method),
        gone_method_ids=gone,
        error_code=text(intent, "last_payment_error", "code") if has_failed else None,
        error_message=text(intent, "last_payment_error", "message") if has_failed else None,
    )


def lines(request: CheckoutUrl) -> list[JsonObject]:
    """The paid amount by invoice; a single line if the invoices do not add up to it."""
    lines = [(line.name, line.amount_cents) for line in request.payable.lines]
    if sum(cents for _, cents in lines) != request.amount_cents:
        lines = [(request.payable.reference, request.amount_cents)]
    currency = request.currency
    return [
        {
            "quantity": 1,
            "price_data": {
                "currency": currency.lower(),
                "unit_amount": minor_units("stripe", cents, currency),
                "product_data": {"name": name},
            },
        }
        for name, cents in lines
        if cents > 0
    ]


def listed(intent: Json) -> ProviderCharge:
    currency = required_text(intent, "currency").upper()
    has_succeeded = text(intent, "status") == "succeeded"
    amount = required_int(intent, "amount_received" if has_succeeded and "amount_received" in intent else "amount")
    refunded = value(intent, "latest_charge", "amount_refunded")
    metadata = value(intent, "metadata")
    return ProviderCharge(
        provider_payment_id=required_text(intent, "id"),
        amount_cents=from_minor_units("stripe", amount, currency),
        currency=currency,
        payment_status=charge_status("stripe", required_text(intent, "status")) or ChargeStatus.PROCESSING,
        created_at=datetime.fromtimestamp(required_int(intent, "created"), UTC),
        metadata={str(name): str(item) for name, item in metadata.items()} if isinstance(metadata, dict) else {},
        refunded_cents=from_minor_units("stripe", refunded, currency) if isinstance(refunded, int) else None,
    )
