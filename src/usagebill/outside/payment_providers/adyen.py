"""Adyen: payment links, cards on file charged by shopper reference, refunds, and notifications signed item by item."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from usagebill.core.look_ups import PAID_WITHOUT_NOTICE
from usagebill.core.payment_providers import (
    PaymentConnection,
    charge_status,
    from_minor_units,
    minor_units,
    redirect_url,
)
from usagebill.core.provider_metadata import named_payable
from usagebill.core.provider_requests import (
    AccountReady,
    AccountRefused,
    Cancel,
    Charge,
    Charged,
    CheckoutUrl,
    DisputeLost,
    DisputeWon,
    Done,
    ExpirePage,
    FailureKind,
    ListMethods,
    LookUpPage,
    MethodDetails,
    Methods,
    Notice,
    NoticeRejected,
    Outcome,
    PageUrl,
    PayableType,
    Payer,
    PaymentMoved,
    ProviderFailed,
    Refund,
    Refunded,
    RefundMoved,
    SetupUrl,
    Unhandled,
)
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.outside.payment_providers.fields import (
    digest,
    instant,
    items,
    number,
    required_int,
    required_text,
    text,
    value,
    year,
)
from usagebill.outside.payment_providers.http import Said, failed
from usagebill.outside.payment_providers.port import PaymentProvider, check_age, unsent
from usagebill.process.json_text import Json, JsonObject, encode_json, parse_json

_TEST_HOST = "https://checkout-test.adyen.com"
_VERSION = "v70"
_LONGEST_REFERENCE = 80
# A link expires at most 70 days after Adyen creates it.
_SETUP_DAYS = timedelta(days=69)
_LONGEST_LINK = timedelta(days=70) - timedelta(minutes=1)
# "Request already processed or in progress": the first request with this key is still running.
_IN_PROGRESS = "704"
# Adyen keeps a key for at least a week.
_KEYS_LAST = timedelta(days=6)
# They follow from one of the others, or are not about a payment.
_NO_EFFECT = ("OFFER_CLOSED", "REPORT_AVAILABLE", "RECURRING_CONTRACT", "CAPTURE", "INFORMATION_SUPPLIED")
_LOST = ("CHARGEBACK", "DISPUTE_DEFENSE_PERIOD_ENDED", "SECOND_CHARGEBACK", "PREARBITRATION_LOST")
# The last two are only sent for a loss.
_LOST_FOR_GOOD = ("SECOND_CHARGEBACK", "PREARBITRATION_LOST")
_WON = ("CHARGEBACK_REVERSED", "PREARBITRATION_WON", "ISSUER_RESPONSE_TIMEFRAME_EXPIRED")
_LOST_STATES = ("Lost", "Accepted", "Expired")
# Reasons of a bank that returns a debit which its customer did not object to: no funds, a closed or wrong account.
_RETURNS = """
AC01 AC04 AC06 AC13 AG01 AG02 AM04 MD07 MS03 RC01 R01 R02 R03 R04 R09 R16 R20
"""
_SHOPPER = ("shopperReference", "recurring.shopperReference", "tokenization.shopperReference")
_METHOD = ("recurring.recurringDetailReference", "tokenization.storedPaymentMethodId")


class AdyenProvider(PaymentProvider):
    """Adyen's Checkout API. A customer is a shopper reference, which exists once a card was saved under it."""

    def setup_url(self, connection: PaymentConnection, request: SetupUrl) -> PageUrl:
        """A link for saving a card: an authorization of zero."""
        payer = request.payer
        fields = {
            **_link(connection, payer, request.at + _SETUP_DAYS),
            "reference": f"authorization customer {payer.external_id}"[-_LONGEST_REFERENCE:],
            "amount": {"value": 0, "currency": payer.currency},
            **_KEPT,
        }
        return _page(self._post(connection, "/paymentLinks", fields, request.key))

    def list_methods(self, connection: PaymentConnection, request: ListMethods) -> Methods:
        """The shopper's cards on file, in Adyen's order."""
        fields = {"shopperReference": _shopper(request.payer)}
        said = self._post(connection, "/paymentMethods", fields)
        stored = value(said, "storedPaymentMethods") or []
        return Methods(methods=tuple(_stored(item) for item in stored))

    def charge(self, connection: PaymentConnection, request: Charge) -> Charged:
        """Charge a card on file. The answer is final unless the payment is still being processed."""
        payer = request.payer
        amount = minor_units("adyen", request.amount_cents, request.currency)
        check_age(request, _KEYS_LAST)
        card = request.provider_method_id
        if card is None:
            stored = self.list_methods(connection, ListMethods(payer=payer)).methods
            if not stored:
                raise failed(unsent(request), "no_payment_method", "the customer has no card at Adyen")
            card = stored[0].provider_method_id
        fields = {
            **_APPLICATION,
            "amount": {"value": amount, "currency": request.currency},
            "reference": request.payable.reference[-_LONGEST_REFERENCE:],
            "paymentMethod": {"type": "scheme", "storedPaymentMethodId": card},
            "shopperReference": _shopper(payer),
            "shopperInteraction": "ContAuth",
            "recurringProcessingModel": "UnscheduledCardOnFile",
            "metadata": {**request.metadata, "svc_payment_id": request.payment_id},
            **({"shopperEmail": payer.email} if payer.email else {}),
        }
        try:
            said = self._post(connection, "/payments", fields, request.key)
        except ProviderFailed as problem:
            gone = self._gone(connection, request) if problem.failure.kind is FailureKind.REFUSED else ()
            raise ProviderFailed(replace(problem.failure, gone_method_ids=gone)) from None
        return _charged(said, card)

    def _gone(self, connection: PaymentConnection, request: Charge) -> tuple[str, ...]:
        """The requested card, if it is no longer on file."""
        if request.provider_method_id is None:
            return ()
        try:
            stored = self.list_methods(connection, ListMethods(payer=request.payer)).methods
        except ProviderFailed:
            return ()
        known = [method.provider_method_id for method in stored]
        return () if request.provider_method_id in known else (request.provider_method_id,)

    def cancel(self, connection: PaymentConnection, request: Cancel) -> Charged | None:
        """Request a cancellation; a notification says whether it has worked."""
        said = self._said(
            connection, "POST", f"/payments/{quote(request.provider_payment_id, safe='')}/cancels", {}, request.key
        )
        if said.status != 422 or _is_passing(said):
            _good(said)
        return None

    def refund(self, connection: PaymentConnection, request: Refund) -> Refunded:
        """Request a refund; a notification says whether it has worked."""
        check_age(request, _KEYS_LAST)
        fields = {
            "amount": {
                "value": minor_units("adyen", request.amount_cents, request.currency),
                "currency": request.currency,
            },
            "reference": request.mark[1],
        }
        path = f"/payments/{quote(request.provider_payment_id, safe='')}/refunds"
        said = self._post(connection, path, fields, request.key)
        return Refunded(
            provider_refund_id=required_text(said, "pspReference"),
            status=text(said, "status") or "received",
            refund_status=PaymentStatus.PENDING,
        )

    def checkout_url(self, connection: PaymentConnection, request: CheckoutUrl) -> PageUrl:
        """A payment link that also saves the card for later charges."""
        is_invoice = request.payable.type is PayableType.INVOICE
        reference = (request.payable.number or request.payable.id) if is_invoice else "Overdue invoices"
        longest = request.at + _LONGEST_LINK
        expires_at = min(request.expires_at or longest, longest)
        fields = {
            **_link(connection, request.payer, expires_at),
            "reference": reference[-_LONGEST_REFERENCE:],
            "amount": {
                "value": minor_units("adyen", request.amount_cents, request.currency),
                "currency": request.currency,
            },
            "metadata": dict(request.metadata),
            **(_KEPT if request.keeps_method else {}),
        }
        return replace(_page(self._post(connection, "/paymentLinks", fields, request.key)), expires_at=expires_at)

    def expire_page(self, connection: PaymentConnection, request: ExpirePage) -> Done:
        """Expire an unpaid link."""
        path = f"/paymentLinks/{quote(request.provider_page_id, safe='')}"
        said = self._said(connection, "PATCH", path, {"status": "expired"})
        if said.status in (401, 403):
            _good(said)
        return Done()

    def look_up_page(self, connection: PaymentConnection, request: LookUpPage) -> PaymentMoved | None:
        """Whether the link is paid. Adyen does not say by which payment: that is refused as `PAID_WITHOUT_NOTICE`."""
        path = f"/paymentLinks/{quote(request.provider_page_id or '', safe='')}"
        headers = {"x-api-key": connection.secret("api_key").value}
        link = _good(self.http.ask("GET", f"{_host(connection)}/{_VERSION}{path}", headers))
        if text(link, "status") in ("completed", "paid"):
            message = f"the link {request.provider_page_id} is paid at Adyen, but no notice of its payment has come"
            raise failed(FailureKind.REFUSED, PAID_WITHOUT_NOTICE, message)
        return None

    # Notices

    def notices(
        self, connection: PaymentConnection, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> tuple[Notice, ...]:
        """The items of a message. Each is signed separately, over eight of its fields; none of them is a timestamp."""
        try:
            secret = bytes.fromhex(connection.secret("hmac_key").value)
        except ValueError:
            secret = b""
        if not secret:
            raise NoticeRejected("the connection has no HMAC key to check with")
        notices = []
        for wrapped in items(parse_json(body), "notificationItems"):
            item = value(wrapped, "NotificationRequestItem")
            expected = hmac.new(secret, _signed_text(item).encode(), hashlib.sha256).digest()
            if not hmac.compare_digest(expected, _signature(item)):
                raise NoticeRejected("the signature is not Adyen's")
            parts = ("eventCode", "pspReference", "originalReference", "success", "eventDate")
            id = digest(text(item, part) or "" for part in parts)
            code = required_text(item, "eventCode")
            notices.append(Notice(id=id, type=code, body=encode_json(item).decode()))
        return tuple(notices)

    def outcomes(self, connection: PaymentConnection, notice: Notice, now: datetime) -> tuple[Outcome, ...]:
        """Translate an item."""
        item = parse_json(notice.body.encode())
        if text(item, "merchantAccountCode") != connection.credentials.get("merchant_account"):
            return (Unhandled(reason="it is about another merchant account"),)
        has_succeeded = _flag(item) == "true"
        match notice.type:
            case "AUTHORISATION" if value(item, "amount", "value") == 0:
                return (_account(item, has_succeeded),)
            case "AUTHORISATION":
                return (_payment_moved(item, has_succeeded),)
            case "CANCELLATION" | "TECHNICAL_CANCEL" if has_succeeded:
                return (_undone(item, "Cancelled"),)
            case "CAPTURE_FAILED" if has_succeeded:
                return (_undone(item, "CaptureFailed"),)
            case "CAPTURE" if not has_succeeded:
                return (_undone(item, "CaptureFailed"),)
            case "CHARGEBACK" if has_succeeded and _is_return(item):
                return (_undone(item, "Returned"),)
            case "REFUND":
                return (_refund_moved(item, has_succeeded=has_succeeded),)
            case "REFUND_FAILED" | "REFUNDED_REVERSED" if has_succeeded:
                return (_refund_moved(item, has_succeeded=False),)
            case type if type in _LOST and has_succeeded and _is_lost(item, type):
                return (_dispute(item),)
            case type if type in _WON and has_succeeded:
                return (
                    DisputeWon(provider_payment_id=required_text(item, "originalReference"), won_at=_happened_at(item)),
                )
        is_known = notice.type in _NO_EFFECT and has_succeeded
        return (Unhandled(reason=f"{notice.type} changes nothing here", known=is_known),)

    # Requests

    def _post(self, connection: PaymentConnection, path: str, fields: JsonObject, key: str | None = None) -> JsonObject:
        """The JSON of a successful answer. Raises `ProviderFailed`."""
        return _good(self._said(connection, "POST", path, fields, key))

    def _said(
        self, connection: PaymentConnection, method: str, path: str, fields: JsonObject, key: str | None = None
    ) -> Said:
        headers = {"x-api-key": connection.secret("api_key").value}
        if key is not None:
            headers["idempotency-key"] = key
        content = (
            fields if method == "PATCH" else {"merchantAccount": connection.credentials["merchant_account"], **fields}
        )
        return self.http.ask(method, f"{_host(connection)}/{_VERSION}{path}", headers, content)


_APPLICATION: JsonObject = {"applicationInfo": {"merchantApplication": {"name": "usagebill"}}}
# The card is saved, to be charged without the customer present.
_KEPT: JsonObject = {"storePaymentMethodMode": "enabled", "recurringProcessingModel": "UnscheduledCardOnFile"}


def _host(connection: PaymentConnection) -> str:
    if connection.url is not None:
        return connection.url.rstrip("/")
    if not connection.live:
        return _TEST_HOST
    if not connection.live_prefix:
        raise failed(FailureKind.REFUSED, "live_prefix_missing", "live connections need the live prefix of the account")
    return f"https://{quote(connection.live_prefix, safe='')}-checkout-live.adyenpayments.com/checkout"


def _good(said: Said) -> JsonObject:
    if said.is_good:
        if not isinstance(said.json, dict):
            raise failed(FailureKind.UNREACHABLE, "invalid_response", "the answer cannot be read")
        return said.json
    code = text(said.json, "errorCode")
    if said.status in (401, 403):
        kind = FailureKind.UNAUTHORIZED
    elif _is_passing(said) or not 400 <= said.status < 500:
        kind = FailureKind.UNREACHABLE
    else:
        kind = FailureKind.REFUSED
    message = text(said.json, "message") or f"Adyen answered {said.status}"
    failure = failed(kind, text(said.json, "errorType") or code or f"status_{said.status}", message).failure
    details = {} if code is None else {"code": code}
    raise ProviderFailed(replace(failure, provider_payment_id=text(said.json, "pspReference"), details=details))


def _is_passing(said: Said) -> bool:
    """Whether retrying the request with the same key may succeed."""
    return said.headers.get("transient-error") == "true" or text(said.json, "errorCode") == _IN_PROGRESS


def _shopper(payer: Payer) -> str:
    return payer.provider_customer_id or payer.external_id


def _link(connection: PaymentConnection, payer: Payer, expires_at: datetime) -> JsonObject:
    email = {"shopperEmail": payer.email} if payer.email else {}
    return {
        **_APPLICATION,
        "returnUrl": redirect_url(connection),
        "shopperReference": _shopper(payer),
        "expiresAt": f"{expires_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        **email,
    }


def _page(said: Json) -> PageUrl:
    return PageUrl(url=required_text(said, "url"), provider_page_id=text(said, "id"))


def _stored(item: Json) -> MethodDetails:
    kind = text(item, "type")
    return MethodDetails(
        provider_method_id=required_text(item, "id"),
        type="card" if kind == "scheme" else kind,
        last4=text(item, "lastFour"),
        brand=text(item, "brand"),
        expiration_month=number(text(item, "expiryMonth")),
        expiration_year=year(text(item, "expiryYear")),
        card_holder_name=text(item, "holderName"),
    )


def _charged(said: Json, card: str) -> Charged:
    result = required_text(said, "resultCode")
    # For a status that is not known here, wait for the notification.
    status = charge_status("adyen", result) or ChargeStatus.PROCESSING
    code, reason = text(said, "refusalReasonCode"), text(said, "refusalReason")
    id = text(said, "pspReference")
    if id is None and status is ChargeStatus.FAILED:
        raise failed(FailureKind.DECLINED, code or result, reason or result)
    return Charged(
        provider_payment_id=required_text(said, "pspReference"),
        status=result,
        payment_status=status,
        method=MethodDetails(provider_method_id=card),
        error_code=(code or result) if status is ChargeStatus.FAILED else None,
        error_message=(reason or result) if status is ChargeStatus.FAILED else None,
    )


# Notifications


def _flag(item: Json) -> str:
    success = value(item, "success")
    return str(success).lower() if isinstance(success, bool) else text(item, "success") or ""


def _signed_text(item: Json) -> str:
    amount = value(item, "amount")
    parts = ("pspReference", "originalReference", "merchantAccountCode", "merchantReference")
    before = [text(item, part) or "" for part in parts]
    after = [text(amount, "value") or "", text(amount, "currency") or "", text(item, "eventCode") or "", _flag(item)]
    return ":".join([*before, *after])


def _signature(item: Json) -> bytes:
    try:
        return base64.b64decode(text(item, "additionalData", "hmacSignature") or "", validate=True)
    except (binascii.Error, ValueError):
        return b""


def _first(item: Json, names: tuple[str, ...]) -> str | None:
    values = (text(item, "additionalData", name) for name in names)
    return next((value for value in values if value is not None), None)


def _account(item: Json, has_succeeded: bool) -> Outcome:
    shopper = _first(item, _SHOPPER)
    if shopper is None:
        raise ValueError("the shopper is missing")
    if not has_succeeded:
        message = text(item, "reason") or "The card was not accepted."
        return AccountRefused(external_customer_id=shopper, message=message, error_code="AUTHORISATION")
    id = _first(item, _METHOD)
    method = None if id is None else _card(item, id)
    return AccountReady(external_customer_id=shopper, provider_customer_id=shopper, method=method)


def _card(item: Json, id: str) -> MethodDetails:
    month, _, until = (text(item, "additionalData", "expiryDate") or "").partition("/")
    return MethodDetails(
        provider_method_id=id,
        type="card",
        last4=text(item, "additionalData", "cardSummary"),
        brand=text(item, "paymentMethod"),
        expiration_month=number(month),
        expiration_year=year(until),
        card_holder_name=text(item, "additionalData", "cardHolderName"),
    )


def _payment_moved(item: Json, has_succeeded: bool) -> PaymentMoved:
    additional = value(item, "additionalData")
    parts = additional.items() if isinstance(additional, dict) else ()
    named = named_payable({str(name).removeprefix("metadata."): part for name, part in parts})
    currency = required_text(item, "amount", "currency")
    method = _first(item, _METHOD)
    return PaymentMoved(
        provider_payment_id=required_text(item, "pspReference"),
        status="succeeded" if has_succeeded else "failed",
        payment_status=ChargeStatus.SUCCEEDED if has_succeeded else ChargeStatus.FAILED,
        happened_at=instant(item, "eventDate"),
        amount_cents=from_minor_units("adyen", required_int(item, "amount", "value"), currency),
        currency=currency,
        payable_type=named.payable_type,
        payable_id=named.payable_id,
        payment_id=named.payment_id,
        creates=named.creates,
        error_code=None if has_succeeded else "AUTHORISATION",
        error_message=None if has_succeeded else text(item, "reason"),
        method=None if method is None else _card(item, method),
    )


def _refund_moved(item: Json, *, has_succeeded: bool) -> RefundMoved:
    return RefundMoved(
        provider_refund_id=required_text(item, "pspReference"),
        status="succeeded" if has_succeeded else "failed",
        refund_status=PaymentStatus.SUCCEEDED if has_succeeded else PaymentStatus.FAILED,
        key=text(item, "merchantReference"),
    )


def _undone(item: Json, status: str) -> PaymentMoved:
    return PaymentMoved(
        provider_payment_id=required_text(item, "originalReference"),
        status=status,
        payment_status=ChargeStatus.FAILED,
        is_current=True,
        error_code=text(item, "additionalData", "chargebackReasonCode") or status,
        error_message=text(item, "reason"),
    )


def _is_return(item: Json) -> bool:
    return text(item, "additionalData", "chargebackReasonCode") in _RETURNS.split()


def _is_lost(item: Json, type: str) -> bool:
    return type in _LOST_FOR_GOOD or text(item, "additionalData", "disputeStatus") in _LOST_STATES


def _dispute(item: Json) -> DisputeLost:
    return DisputeLost(
        # The message's reference is the dispute's.
        provider_payment_id=required_text(item, "originalReference"),
        lost_at=_happened_at(item),
        reason=text(item, "reason"),
    )


def _happened_at(item: Json) -> datetime:
    at = datetime.fromisoformat(required_text(item, "eventDate"))
    return at if at.tzinfo else at.replace(tzinfo=UTC)
