"""Cashfree: payment links and notices about them. There are no automatic charges and no refunds."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from usagebill.core.payment_providers import PaymentConnection, from_major_units, major_units, redirect_url
from usagebill.core.provider_metadata import NamedPayable, named_payable
from usagebill.core.provider_requests import (
    CheckoutUrl,
    Done,
    ExpirePage,
    FailureKind,
    LookUpPage,
    Notice,
    NoticeRejected,
    Outcome,
    PageUrl,
    PayableType,
    PaymentMoved,
    Unhandled,
)
from usagebill.core.statuses import ChargeStatus
from usagebill.outside.payment_providers.fields import digest, instant, required_text, text, value
from usagebill.outside.payment_providers.http import Said, failed
from usagebill.outside.payment_providers.port import PaymentProvider
from usagebill.process.json_text import Json, JsonObject, parse_json

_HOST = "https://api.cashfree.com/pg"
_TEST_HOST = "https://sandbox.cashfree.com/pg"
_VERSION = "2023-08-01"
# Cashfree requires a phone number; this one belongs to nobody.
_NO_PHONE = "9999999999"
_LONGEST_ID = 50
_REQUEST_LINK = timedelta(minutes=10)
# An older signature may be a replay.
_TOLERANCE = timedelta(seconds=300)
# Above this a timestamp is in milliseconds, not seconds.
_MILLISECONDS = 10**11
_LINK_EVENT = "PAYMENT_LINK_EVENT"
# Attempts to pay on a link: if one succeeds, a link event follows.
_NO_EFFECT = ("PAYMENT_SUCCESS_WEBHOOK", "PAYMENT_FAILED_WEBHOOK", "PAYMENT_USER_DROPPED_WEBHOOK")
_UNPAID = ("EXPIRED", "CANCELLED", "ACTIVE")


class CashfreeProvider(PaymentProvider):
    """Cashfree's payment links, identified by the id of our page, so that each page has one link."""

    def checkout_url(self, connection: PaymentConnection, request: CheckoutUrl) -> PageUrl:
        """A payment link."""
        id = request.page_id[:_LONGEST_ID]
        said = self._said(connection, "POST", "/links", _link(connection, request, id), request.key)
        if said.status == 409 or text(said.json, "code") == "link_already_exists":
            # An earlier attempt created it.
            said = self._said(connection, "GET", f"/links/{quote(id, safe='')}")
        if not said.is_good:
            kind = FailureKind.UNAUTHORIZED if said.status in (401, 403) else FailureKind.REFUSED
            code = text(said.json, "code") or f"status_{said.status}"
            raise failed(kind, code, text(said.json, "message") or said.body.decode(errors="replace"))
        return PageUrl(url=required_text(said.json, "link_url"), provider_page_id=id)

    def expire_page(self, connection: PaymentConnection, request: ExpirePage) -> Done:
        """Cancel an unpaid link."""
        path = f"/links/{quote(request.provider_page_id, safe='')}/cancel"
        said = self._said(connection, "POST", path, {})
        if said.status in (401, 403):
            raise failed(FailureKind.UNAUTHORIZED, f"status_{said.status}", "Cashfree does not accept the credentials")
        return Done()

    def look_up_page(self, connection: PaymentConnection, request: LookUpPage) -> PaymentMoved | None:
        """The link, once it is paid."""
        said = self._said(connection, "GET", f"/links/{quote(request.page_id[:_LONGEST_ID], safe='')}")
        if not said.is_good:
            kind = FailureKind.UNAUTHORIZED if said.status in (401, 403) else FailureKind.REFUSED
            message = text(said.json, "message") or f"Cashfree answered {said.status}"
            raise failed(kind, f"status_{said.status}", message)
        return _paid(said.json) if text(said.json, "link_status") == "PAID" else None

    def _said(
        self,
        connection: PaymentConnection,
        method: str,
        path: str,
        fields: JsonObject | None = None,
        key: str | None = None,
    ) -> Said:
        headers = {
            "x-client-id": connection.secret("client_id").value,
            "x-client-secret": connection.secret("client_secret").value,
            "x-api-version": _VERSION,
        }
        if key is not None:
            headers["x-idempotency-key"] = key
        host = connection.url or (_HOST if connection.live else _TEST_HOST)
        return self.http.ask(method, f"{host.rstrip('/')}{path}", headers, fields)

    # Notices

    def notices(
        self, connection: PaymentConnection, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> tuple[Notice, ...]:
        """One event, signed at most five minutes ago. Cashfree gives it no id."""
        stamp = headers.get("x-webhook-timestamp") or headers.get("x-cashfree-timestamp") or ""
        signature = headers.get("x-webhook-signature") or headers.get("x-cashfree-signature") or ""
        secrets = [connection.secret(name) for name in ("client_secret", "webhook_secret")]
        expected = [
            base64.b64encode(hmac.new(secret.value.encode(), stamp.encode() + body, hashlib.sha256).digest())
            for secret in secrets
            if secret.value
        ]
        if not any(hmac.compare_digest(known, signature.encode()) for known in expected):
            raise NoticeRejected("the signature is not Cashfree's")
        if not stamp.isascii() or not stamp.isdigit():
            raise NoticeRejected("the time of its signature is missing")
        seconds = int(stamp) // 1000 if int(stamp) >= _MILLISECONDS else int(stamp)
        if abs(int(now.timestamp()) - seconds) > _TOLERANCE.total_seconds():
            raise NoticeRejected("it was not signed just now")
        type = required_text(parse_json(body), "type")
        content = body.decode()
        return (Notice(id=digest((type, content)), type=type, body=content),)

    def outcomes(self, connection: PaymentConnection, notice: Notice, now: datetime) -> tuple[Outcome, ...]:
        """Translate an event: only the payment of a link matters."""
        event = parse_json(notice.body.encode())
        if notice.type != _LINK_EVENT:
            return (Unhandled(reason=f"{notice.type} changes nothing here", known=notice.type in _NO_EFFECT),)
        status = required_text(event, "data", "link_status")
        if status != "PAID":
            return (Unhandled(reason=f"the link is {status}", known=status in _UNPAID),)
        link = value(event, "data")
        if _named(link).payable_id is None:
            return (Unhandled(reason="the link is not one of ours"),)
        return (replace(_paid(link), happened_at=instant(event, "event_time")),)


def _named(link: Json) -> NamedPayable:
    notes = value(link, "link_notes")
    return named_payable(notes if isinstance(notes, dict) else {})


def _paid(link: Json) -> PaymentMoved:
    """The payment of a link, which is paid once and in full: so the link's id is the payment's. Its transaction is only
    named by notices, and was its id in former versions.
    """
    named = _named(link)
    currency = required_text(link, "link_currency").upper()
    ids = (text(link, "cf_link_id"), text(link, "link_id"), text(link, "order", "transaction_id"))
    id, *others = [id for id in ids if id is not None]
    return PaymentMoved(
        provider_payment_id=id,
        status="PAID",
        payment_status=ChargeStatus.SUCCEEDED,
        amount_cents=from_major_units("cashfree", value(link, "link_amount_paid"), currency),
        currency=currency,
        payable_type=named.payable_type,
        payable_id=named.payable_id,
        creates=named.creates,
        known_as=tuple(others),
    )


def _link(connection: PaymentConnection, request: CheckoutUrl, id: str) -> JsonObject:
    payer, payable = request.payer, request.payable
    notes = {name: item for name, item in request.metadata.items() if name != "invoice_type"}
    expires_at = request.expires_at
    if payable.type is PayableType.PAYMENT_REQUEST:
        notes["payment_issuing_date"] = payable.created_at.astimezone(UTC).isoformat(timespec="seconds")
        expires_at = expires_at or request.at + _REQUEST_LINK
    customer = {
        "customer_phone": payer.phone or _NO_PHONE,
        "customer_email": payer.email,
        "customer_name": payer.name,
    }
    link: JsonObject = {
        "link_id": id,
        "link_amount": major_units("cashfree", request.amount_cents, request.currency),
        "link_currency": request.currency,
        "link_purpose": payable.id,
        "customer_details": {name: item for name, item in customer.items() if item is not None},
        "link_notify": {"send_sms": False, "send_email": False},
        "link_meta": {"upi_intent": True, "return_url": redirect_url(connection)},
        "link_notes": notes,
        "link_partial_payments": False,
        "link_auto_reminders": False,
    }
    if expires_at is not None:
        link["link_expiry_time"] = expires_at.astimezone(UTC).isoformat(timespec="seconds")
    return link
