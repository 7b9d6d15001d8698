"""Stripe's events: whether they are genuine, and what they mean."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from usagebill.core.payment_providers import PaymentConnection, from_minor_units
from usagebill.core.provider_metadata import named_payable
from usagebill.core.provider_requests import (
    DefaultMethodCleared,
    DisputeLost,
    DisputeWon,
    FailureKind,
    FeeTold,
    MethodAdded,
    MethodDetails,
    MethodRemoved,
    Notice,
    NoticeRejected,
    Outcome,
    PaymentMoved,
    ProviderFailed,
    RefundMoved,
    Unhandled,
)
from usagebill.core.statuses import ChargeStatus
from usagebill.outside.payment_providers.fields import instant, required_int, required_text, text, value
from usagebill.outside.payment_providers.stripe.client import StripeClient, segment
from usagebill.outside.payment_providers.stripe.shapes import default_method, details, refund_status
from usagebill.process.json_text import Json, parse_json

EVENTS = (
    "payment_intent.succeeded",
    "payment_intent.payment_failed",
    "payment_intent.canceled",
    "setup_intent.succeeded",
    "customer.updated",
    "payment_method.detached",
    "charge.succeeded",
    "charge.updated",
    "charge.refund.updated",
    "refund.updated",
    "refund.failed",
    "charge.dispute.closed",
    "charge.dispute.funds_reinstated",
)
# Reasons of a bank that returns a debit which its customer did not object to.
_RETURNS = ("bank_cannot_process", "check_returned", "incorrect_account_details", "insufficient_funds")
# Warnings of a bank that end without a dispute.
_NO_LOSS = ("won", "warning_closed")
# An older signature may be a replay.
_TOLERANCE = timedelta(seconds=300)


def signed_event(connection: PaymentConnection, headers: Mapping[str, str], body: bytes, now: datetime) -> Notice:
    """The event of a message whose signature is valid and at most five minutes old. Raises `NoticeRejected`."""
    secret = connection.secret("webhook_secret")
    pairs = [part.strip().partition("=") for part in headers.get("stripe-signature", "").split(",")]
    stamps = [stamp for name, _, stamp in pairs if name == "t"]
    if not secret.value or len(stamps) != 1 or not stamps[0].isascii() or not stamps[0].isdigit():
        raise NoticeRejected("it is not signed")
    expected = hmac.new(secret.value.encode(), stamps[0].encode() + b"." + body, hashlib.sha256).hexdigest()
    # There are several while a secret is rotated.
    signatures = [signature.encode() for name, _, signature in pairs if name == "v1"]
    if not any(hmac.compare_digest(expected.encode(), signature) for signature in signatures):
        raise NoticeRejected("the signature is not Stripe's")
    if abs(int(now.timestamp()) - int(stamps[0])) > _TOLERANCE.total_seconds():
        raise NoticeRejected("it was not signed just now")
    event = parse_json(body)
    return Notice(id=required_text(event, "id"), type=required_text(event, "type"), body=body.decode())


def meaning(client: StripeClient, connection: PaymentConnection, notice: Notice) -> Outcome:
    """Translate an event; the details of a method are requested from Stripe. Raises `ProviderFailed` and ValueError."""
    event = parse_json(notice.body.encode())
    subject = value(event, "data", "object")
    if text(subject, "metadata", "svc_organization_id") not in (None, connection.organization_id):
        return Unhandled(reason="it is about another organization")
    match notice.type:
        case "payment_intent.succeeded" | "payment_intent.payment_failed" | "payment_intent.canceled":
            moved = payment_moved(client, connection, subject, has_succeeded=notice.type.endswith(".succeeded"))
            return replace(moved, happened_at=instant(event, "created"))
        case "setup_intent.succeeded":
            return _method_set_up(client, connection, subject)
        case "customer.updated":
            id, default = required_text(subject, "id"), default_method(subject)
            if default is None:
                return DefaultMethodCleared(provider_customer_id=id)
            return _method_added(client, connection, id, default)
        case "payment_method.detached":
            return MethodRemoved(provider_method_id=required_text(subject, "id"))
        case "charge.succeeded" | "charge.updated":
            return _fee(client, connection, subject)
        case "charge.refund.updated" | "refund.updated" | "refund.failed":
            return refund_moved(subject)
        case "charge.dispute.closed":
            return _dispute(event, subject)
        case "charge.dispute.funds_reinstated":
            return DisputeWon(provider_payment_id=required_text(subject, "payment_intent"), won_at=_created(event))
    return Unhandled(reason=f"{notice.type} is not known", known=False)


def payment_moved(
    client: StripeClient, connection: PaymentConnection, intent: Json, *, has_succeeded: bool
) -> PaymentMoved:
    """What an intent says about its payment, once it has succeeded or failed."""
    currency = required_text(intent, "currency").upper()
    metadata = value(intent, "metadata")
    named = named_payable(metadata if isinstance(metadata, dict) else {})
    received = value(intent, "amount_received") if has_succeeded else None
    error = None if has_succeeded else value(intent, "last_payment_error")
    method = text(intent, "payment_method") if has_succeeded else None
    return PaymentMoved(
        provider_payment_id=required_text(intent, "id"),
        status="succeeded" if has_succeeded else "failed",
        payment_status=ChargeStatus.SUCCEEDED if has_succeeded else ChargeStatus.FAILED,
        amount_cents=from_minor_units("stripe", received or required_int(intent, "amount"), currency),
        currency=currency,
        payable_type=named.payable_type,
        payable_id=named.payable_id,
        payment_id=named.payment_id,
        creates=named.creates,
        error_code=text(error, "code"),
        error_message=text(error, "message"),
        method=None if method is None else _details_of(client, connection, method),
    )


def refund_moved(refund: Json) -> RefundMoved:
    """What a refund says about itself."""
    word = required_text(refund, "status")
    key = text(refund, "metadata", "svc_refund_id") or text(refund, "metadata", "svc_credit_note_id")
    return RefundMoved(
        provider_refund_id=required_text(refund, "id"), status=word, refund_status=refund_status(word), key=key
    )


def _details_of(client: StripeClient, connection: PaymentConnection, id: str) -> MethodDetails:
    try:
        return details(client.get(connection, f"/payment_methods/{segment(id)}"))
    except ProviderFailed:
        # A payment is recorded even if the card's details cannot be fetched.
        return MethodDetails(provider_method_id=id)


def _method_set_up(client: StripeClient, connection: PaymentConnection, intent: Json) -> Outcome:
    customer, method = text(intent, "customer"), text(intent, "payment_method")
    if customer is None or method is None:
        return Unhandled(reason="the method is nobody's")
    outcome = _method_added(client, connection, customer, method)
    if isinstance(outcome, MethodAdded):
        settings = {"invoice_settings": {"default_payment_method": method}}
        client.post(connection, f"/customers/{segment(customer)}", settings)
    return outcome


def _method_added(client: StripeClient, connection: PaymentConnection, customer: str, id: str) -> Outcome:
    try:
        method = client.get(connection, f"/payment_methods/{segment(id)}")
    except ProviderFailed as problem:
        if problem.failure.kind is not FailureKind.REFUSED:
            raise
        return Unhandled(reason="Stripe does not know the method any more")
    if text(method, "customer") != customer:
        # Events may be late and out of order: the method was detached since.
        return Unhandled(reason="the method is not the customer's")
    return MethodAdded(method=details(method), provider_customer_id=customer)


def _dispute(event: Json, dispute: Json) -> Outcome:
    status, reason = required_text(dispute, "status"), text(dispute, "reason")
    id = required_text(dispute, "payment_intent")
    if status in _NO_LOSS:
        return DisputeWon(provider_payment_id=id, won_at=_created(event))
    if status != "lost":
        return Unhandled(reason=f"the dispute is {status}", known=False)
    if reason in _RETURNS:
        return PaymentMoved(
            provider_payment_id=id,
            status=reason,
            payment_status=ChargeStatus.FAILED,
            is_current=True,
            error_code=reason,
        )
    return DisputeLost(provider_payment_id=id, lost_at=_created(event), reason=reason)


def _fee(client: StripeClient, connection: PaymentConnection, charge: Json) -> Outcome:
    """What Stripe keeps of a charge, once it is in the account's balance: then, or by a later event."""
    metadata = value(charge, "metadata")
    # Stripe copies an intent's metadata to its charges; an account may have others.
    named = named_payable(metadata if isinstance(metadata, dict) else {})
    intent, entry = text(charge, "payment_intent"), text(charge, "balance_transaction")
    if named.payable_id is None or intent is None:
        return Unhandled(reason="the charge is not one of ours")
    if entry is None:
        return Unhandled(reason="its fee is not known yet")
    booked = client.get(connection, f"/balance_transactions/{segment(entry)}")
    currency = required_text(booked, "currency").upper()
    fee = from_minor_units("stripe", required_int(booked, "fee"), currency)
    return FeeTold(provider_payment_id=intent, amount_cents=fee, currency=currency)


def _created(event: Json) -> datetime:
    return datetime.fromtimestamp(required_int(event, "created"), UTC)
