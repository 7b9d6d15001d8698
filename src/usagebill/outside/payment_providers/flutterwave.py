"""Flutterwave: hosted payment pages, and notices that are verified with a request. There are no automatic charges."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from urllib.parse import quote

from usagebill.core.currencies import cents_from_major
from usagebill.core.numbers import round_cents
from usagebill.core.payment_providers import PaymentConnection, from_major_units, major_units, redirect_url
from usagebill.core.provider_metadata import NamedPayable, named_payable
from usagebill.core.provider_requests import (
    CheckoutUrl,
    FailureKind,
    FeeTold,
    LookUpPage,
    Notice,
    NoticeRejected,
    Outcome,
    PageUrl,
    PayableType,
    PaymentMoved,
    ProviderFailed,
    Unhandled,
)
from usagebill.core.statuses import ChargeStatus
from usagebill.outside.payment_providers.fields import digest, instant, required_text, text, value
from usagebill.outside.payment_providers.http import failed
from usagebill.outside.payment_providers.port import PaymentProvider
from usagebill.process.json_text import Json, JsonObject, parse_json

_HOST = "https://api.flutterwave.com/v3"
_LONGEST_SESSION = 1440
_COMPLETED = "charge.completed"
# Not about payments of customers.
_NO_EFFECT = ("transfer.completed", "subscription.cancelled", "singlebillpayment.status")
# Prefixes of our references, by what is paid.
_REFERENCES = {"inv": PayableType.INVOICE, "req": PayableType.PAYMENT_REQUEST}


class FlutterwaveProvider(PaymentProvider):
    """Flutterwave's pages. A reference contains the payable and the page, so that it is unique to the page."""

    def checkout_url(self, connection: PaymentConnection, request: CheckoutUrl) -> PageUrl:
        """A payment page that expires with ours, after a day at most."""
        payer, payable = request.payer, request.payable
        is_invoice = payable.type is PayableType.INVOICE
        numbers = ", ".join(line.name for line in payable.lines)
        meta = {**request.metadata, "svc_organization_id": payer.organization_id}
        if payable.number is not None:
            meta["svc_invoice_number"] = payable.number
        session = _LONGEST_SESSION
        if request.expires_at is not None:
            session = min(session, max(1, int((request.expires_at - request.at).total_seconds()) // 60))
        fields = {
            "amount": major_units("flutterwave", request.amount_cents, request.currency),
            "currency": request.currency,
            "tx_ref": _reference(payable.type, payable.id, request.page_id),
            "redirect_url": redirect_url(connection),
            "customer": {
                "email": payer.email,
                "phone_number": payer.phone or "",
                "name": payer.name or payer.email,
            },
            "customizations": {
                "title": payable.reference,
                "description": f"Payment for {'Invoice #' if is_invoice else 'invoices: '}{numbers}",
            },
            "session_duration": session,
            "configurations": {"session_duration": session},
            "meta": meta,
        }
        said = self._ask(connection, "POST", "/payments", fields)
        return PageUrl(url=required_text(said, "data", "link"))

    def look_up_page(self, connection: PaymentConnection, request: LookUpPage) -> PaymentMoved | None:
        """The transaction with the page's reference, once it has succeeded."""
        reference = _reference(request.payable_type, request.payable_id, request.page_id)
        path = f"/transactions/verify_by_reference?tx_ref={quote(reference, safe='')}"
        try:
            transaction = value(self._ask(connection, "GET", path), "data")
        except ProviderFailed as problem:
            if problem.failure.kind is not FailureKind.REFUSED:
                raise
            # Nobody has tried to pay.
            return None
        named = _named(transaction)
        if text(transaction, "status") != "successful" or named is None:
            return None
        return _paid(transaction, named)

    def _ask(
        self, connection: PaymentConnection, method: str, path: str, fields: JsonObject | None = None
    ) -> JsonObject:
        """The JSON of a successful answer. Raises `ProviderFailed`."""
        headers = {"authorization": f"Bearer {connection.secret('secret_key').value}"}
        said = self.http.ask(method, f"{(connection.url or _HOST).rstrip('/')}{path}", headers, fields)
        if said.is_good and not isinstance(said.json, dict):
            raise failed(FailureKind.UNREACHABLE, "invalid_response", "the answer cannot be read")
        if said.is_good and text(said.json, "status") == "success":
            return dict(said.json)
        kind = FailureKind.UNAUTHORIZED if said.status in (401, 403) else FailureKind.REFUSED
        message = text(said.json, "message") or said.body.decode(errors="replace")
        raise failed(kind, text(said.json, "code") or f"status_{said.status}", message)

    # Notices

    def notices(
        self, connection: PaymentConnection, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> tuple[Notice, ...]:
        """One event. A shared secret authenticates it; its body is not signed."""
        secret = connection.secret("webhook_secret")
        word = headers.get("verif-hash", "")
        if not secret.value.strip() or not hmac.compare_digest(secret.value.encode(), word.encode()):
            raise NoticeRejected("verif-hash is not the connection's secret hash")
        type = required_text(parse_json(body), "event")
        content = body.decode()
        return (Notice(id=digest((type, content)), type=type, body=content),)

    def outcomes(self, connection: PaymentConnection, notice: Notice, now: datetime) -> tuple[Outcome, ...]:
        """Translate an event. Only what Flutterwave answers about the transaction is trusted."""
        if notice.type != _COMPLETED:
            return (Unhandled(reason=f"{notice.type} changes nothing here", known=notice.type in _NO_EFFECT),)
        event = parse_json(notice.body.encode())
        status = required_text(event, "data", "status")
        if status != "successful":
            return (Unhandled(reason=f"the payment is {status}"),)
        path = f"/transactions/{quote(required_text(event, 'data', 'id'), safe='')}/verify"
        try:
            transaction = value(self._ask(connection, "GET", path), "data")
        except ProviderFailed as problem:
            if problem.failure.kind is not FailureKind.REFUSED:
                raise
            return (Unhandled(reason="Flutterwave does not know the transaction", known=False),)
        if text(transaction, "status") != "successful":
            return (Unhandled(reason="Flutterwave does not call the transaction successful", known=False),)
        if text(transaction, "meta", "svc_organization_id") not in (None, connection.organization_id):
            return (Unhandled(reason="it is about another organization"),)
        named = _named(transaction)
        if named is None:
            return (Unhandled(reason="the transaction is not one of ours"),)
        return (_paid(transaction, named), *_fee(transaction))


def _paid(transaction: Json, named: NamedPayable) -> PaymentMoved:
    currency = required_text(transaction, "currency").upper()
    return PaymentMoved(
        provider_payment_id=required_text(transaction, "id"),
        status="successful",
        payment_status=ChargeStatus.SUCCEEDED,
        happened_at=instant(transaction, "created_at"),
        amount_cents=from_major_units("flutterwave", value(transaction, "amount"), currency),
        currency=currency,
        payable_type=named.payable_type,
        payable_id=named.payable_id,
        creates=True,
    )


def _fee(transaction: Json) -> tuple[FeeTold, ...]:
    """What Flutterwave keeps of it; nothing if the customer has paid the fee on top of the amount."""
    fee, currency = value(transaction, "app_fee"), required_text(transaction, "currency").upper()
    paid, due = value(transaction, "charged_amount"), value(transaction, "amount")
    if not isinstance(fee, int | Decimal) or paid not in (None, due):
        return ()
    cents = round_cents(cents_from_major(Decimal(fee), currency))
    id = required_text(transaction, "id")
    return (FeeTold(provider_payment_id=id, amount_cents=cents, currency=currency),)


def _reference(payable_type: PayableType, payable_id: str, page_id: str) -> str:
    kind = next(name for name, type in _REFERENCES.items() if type is payable_type)
    return f"{kind}_{payable_id}_{page_id}"


def _named(transaction: Json) -> NamedPayable | None:
    """The paid record, from the metadata or, on accounts that do not return it, from the reference."""
    meta = value(transaction, "meta")
    named = named_payable(meta if isinstance(meta, dict) else {})
    if named.payable_id is not None:
        return named
    kind, _, reference = (text(transaction, "tx_ref") or "").partition("_")
    id, _, page = reference.partition("_")
    if kind not in _REFERENCES or not id or not page:
        return None
    return NamedPayable(payable_type=_REFERENCES[kind], payable_id=id, payment_id=None, creates=True)
