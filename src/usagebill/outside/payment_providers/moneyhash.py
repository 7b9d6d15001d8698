"""MoneyHash: customers, card tokens, payment intents charged or shown as a page, and signed notices."""

from __future__ import annotations

import base64
import hashlib
import hmac
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from urllib.parse import quote

from usagebill.core.payment_providers import PaymentConnection, charge_status, from_major_units, major_units
from usagebill.core.provider_metadata import ONE_TIME, named_payable
from usagebill.core.provider_requests import (
    Charge,
    Charged,
    CheckoutUrl,
    Connect,
    Connected,
    CreateCustomer,
    CustomerCreated,
    FailureKind,
    LookUpCharge,
    LookUpPage,
    MethodAdded,
    MethodDetails,
    MethodRemoved,
    Notice,
    NoticeRejected,
    Outcome,
    PageUrl,
    Payable,
    Payer,
    PaymentMoved,
    SetupUrl,
    Unhandled,
)
from usagebill.core.statuses import ChargeStatus
from usagebill.outside.payment_providers.fields import digest, number, required_text, text, value, year
from usagebill.outside.payment_providers.http import failed
from usagebill.outside.payment_providers.port import PaymentProvider, check_age
from usagebill.process.json_text import Json, JsonObject, encode_json, parse_json

_HOST = "https://web.moneyhash.io"
_TEST_HOST = "https://staging-web.moneyhash.io"
_INTENTS = "/api/v1.1/payments/intent/"
# MoneyHash keeps a key for a day.
_KEYS_LAST = timedelta(hours=23)
# The amount of an intent for saving a card; whether it is charged depends on the flow at MoneyHash.
_SETUP_MAJOR_UNITS = 5
# For each type of notice about a charge: MoneyHash's status, and ours.
_INTENT_EVENTS = {
    "intent.processed": ("SUCCESSFUL", ChargeStatus.SUCCEEDED),
    "intent.time_expired": ("FAILED", ChargeStatus.FAILED),
}
_PURCHASE_EVENTS = {
    "transaction.purchase.successful": ("SUCCESSFUL", ChargeStatus.SUCCEEDED),
    "transaction.purchase.failed": ("FAILED", ChargeStatus.FAILED),
    "transaction.purchase.pending_authentication": ("processing", ChargeStatus.PENDING),
}
_TOKEN_EVENTS = ("card_token.created", "card_token.updated", "card_token.deleted")


class MoneyHashProvider(PaymentProvider):
    """MoneyHash's API: customers and intents, version 1.1."""

    def connect(self, connection: PaymentConnection, request: Connect) -> Connected:
        """Fetch the key that signs notices, unless the connection already has it."""
        if connection.credentials.get("signature_key"):
            return Connected()
        said = self._ask(connection, "GET", "/api/v1/organizations/get-webhook-signature-key/")
        return Connected(credentials={"signature_key": required_text(said, "data", "webhook_signature_secret")})

    def create_customer(self, connection: PaymentConnection, request: CreateCustomer) -> CustomerCreated:
        """Create the customer."""
        payer, address = request.payer, request.payer.address
        lines = ", ".join(line for line in (address.address_line1, address.address_line2) if line)
        fields = {
            "type": payer.customer_type.upper() if payer.customer_type else None,
            "first_name": payer.firstname,
            "last_name": payer.lastname,
            "email": payer.email,
            "phone_number": payer.phone,
            "tax_id": payer.tax_identification_number,
            "address": lines or None,
            "contact_person_name": payer.name,
            "company_name": payer.legal_name,
            "custom_fields": _custom_fields(payer, "generate_customer"),
        }
        said = self._ask(connection, "POST", "/api/v1.1/customers/", _present(fields), request.key)
        return CustomerCreated(provider_customer_id=required_text(said, "data", "id"))

    def setup_url(self, connection: PaymentConnection, request: SetupUrl) -> PageUrl:
        """A page where the customer saves a card."""
        fields = {
            "amount": _SETUP_MAJOR_UNITS,
            "amount_currency": request.payer.currency,
            "merchant_initiated": False,
            "tokenize_card": True,
            "custom_fields": _custom_fields(request.payer, "generate_checkout_url"),
        }
        return self._page(connection, request.payer, fields, request.key, "generate_checkout_url")

    def charge(self, connection: PaymentConnection, request: Charge) -> Charged:
        """Charge a card token."""
        check_age(request, _KEYS_LAST)
        if request.provider_method_id is None:
            raise failed(FailureKind.REFUSED, "no_payment_method", "the customer has no card at MoneyHash")
        fields = {
            "amount": major_units("moneyhash", request.amount_cents, request.currency),
            "amount_currency": request.currency,
            "merchant_initiated": True,
            "card_token": request.provider_method_id,
            "custom_fields": {
                **_custom_fields(request.payer, "charge", request.payable),
                "svc_payment_id": request.payment_id,
            },
        }
        said = self._intent(connection, request.payer, fields, request.key)
        status = _word(said)
        return Charged(
            provider_payment_id=required_text(said, "data", "id"),
            status=status,
            # For a status that is not known here, wait for the notice.
            payment_status=charge_status("moneyhash", status) or ChargeStatus.PROCESSING,
            method=MethodDetails(provider_method_id=request.provider_method_id),
        )

    def look_up_charge(self, connection: PaymentConnection, request: LookUpCharge) -> PaymentMoved | None:
        """The intent by its id. It stays unprocessed after a failed transaction, whose state is then the charge's."""
        if request.provider_payment_id is None:
            raise failed(FailureKind.NOT_SUPPORTED, "feature_not_supported", "MoneyHash has no look-up by our id")
        said = self._ask(connection, "GET", f"{_INTENTS}{quote(request.provider_payment_id, safe='')}/")
        word = _word(said)
        if charge_status("moneyhash", word) is ChargeStatus.PROCESSING:
            tried = text(said, "data", "active_transaction", "status") or word
            word = tried.removeprefix("purchase.").upper()
        return PaymentMoved(
            provider_payment_id=request.provider_payment_id,
            status=word,
            payment_status=charge_status("moneyhash", word) or ChargeStatus.PROCESSING,
            payment_id=request.payment_id,
        )

    def look_up_page(self, connection: PaymentConnection, request: LookUpPage) -> PaymentMoved | None:
        """The page's intent, once it is processed."""
        path = f"{_INTENTS}{quote(request.provider_page_id or '', safe='')}/"
        said = value(self._ask(connection, "GET", path), "data")
        if text(said, "status") != "PROCESSED":
            return None
        currency = required_text(said, "amount_currency").upper()
        return PaymentMoved(
            provider_payment_id=required_text(said, "id"),
            status="SUCCESSFUL",
            payment_status=ChargeStatus.SUCCEEDED,
            amount_cents=from_major_units("moneyhash", value(said, "amount"), currency),
            currency=currency,
            payable_type=request.payable_type,
            payable_id=request.payable_id,
            creates=True,
        )

    def checkout_url(self, connection: PaymentConnection, request: CheckoutUrl) -> PageUrl:
        """A payment page."""
        left = None
        if request.expires_at is not None:
            left = max(1, int((request.expires_at - request.at).total_seconds()))
        fields = {
            "amount": major_units("moneyhash", request.amount_cents, request.currency),
            "amount_currency": request.currency,
            "merchant_initiated": False,
            "expires_after_seconds": left,
            "custom_fields": {
                **_custom_fields(request.payer, "generate_payment_url", request.payable),
                "payment_type": ONE_TIME,
            },
        }
        page = self._page(connection, request.payer, fields, request.key, "generate_payment_url")
        return replace(page, expires_at=request.expires_at)

    def _page(self, connection: PaymentConnection, payer: Payer, fields: JsonObject, key: str, purpose: str) -> PageUrl:
        said = self._intent(connection, payer, fields, key)
        url = required_text(said, "data", "embed_url")
        mark = "&" if "?" in url else "?"
        return PageUrl(url=f"{url}{mark}svc_request={purpose}", provider_page_id=text(said, "data", "id"))

    def _intent(self, connection: PaymentConnection, payer: Payer, fields: JsonObject, key: str) -> JsonObject:
        shared = {
            "flow_id": connection.credentials.get("flow_id"),
            "billing_data": _billing(payer),
            "customer": payer.provider_customer_id,
            "webhook_url": payer.notice_url,
            "payment_type": "UNSCHEDULED",
            "recurring_data": {"agreement_id": payer.customer_id},
        }
        return self._ask(connection, "POST", _INTENTS, _present({**shared, **fields}), key)

    def _ask(
        self,
        connection: PaymentConnection,
        method: str,
        path: str,
        fields: JsonObject | None = None,
        key: str | None = None,
    ) -> JsonObject:
        """The JSON of a successful answer. Raises `ProviderFailed`."""
        headers = {"x-api-key": connection.secret("api_key").value}
        if key is not None:
            headers["x-idempotency-key"] = _key(key)
        host = connection.url or (_HOST if connection.live else _TEST_HOST)
        said = self.http.ask(method, f"{host.rstrip('/')}{path}", headers, fields)
        if said.status in (200, 201, 202, 204):
            if not isinstance(said.json, dict):
                raise failed(FailureKind.UNREACHABLE, "invalid_response", "the answer cannot be read")
            return said.json
        kind = FailureKind.UNAUTHORIZED if said.status in (401, 403) else FailureKind.REFUSED
        if not 400 <= said.status < 500:
            kind = FailureKind.UNREACHABLE
        raise failed(kind, str(said.status), said.body.decode(errors="replace"))

    # Notices

    def notices(
        self, connection: PaymentConnection, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> tuple[Notice, ...]:
        """One event, of any age: MoneyHash may repeat events, and a repeated one changes nothing."""
        secret = connection.secret("signature_key")
        pairs = [part.strip().partition("=") for part in headers.get("moneyhash-signature", "").split(",")]
        signed = {name: item for name, _, item in pairs}
        if not secret.value or "t" not in signed or "v3" not in signed:
            raise NoticeRejected("it is not signed")
        event = parse_json(body)
        # The signature is over JSON without spaces; the body may have some.
        expected = [_signature(secret.value, content, signed["t"]) for content in (body, encode_json(event))]
        if not any(hmac.compare_digest(signature, signed["v3"].encode()) for signature in expected):
            raise NoticeRejected("the signature is not MoneyHash's")
        type, content = required_text(event, "type"), body.decode()
        return (Notice(id=digest((type, content)), type=type, body=content),)

    def outcomes(self, connection: PaymentConnection, notice: Notice, now: datetime) -> tuple[Outcome, ...]:
        """Translate an event."""
        event = parse_json(notice.body.encode())
        if notice.type in _TOKEN_EVENTS:
            return (_token(connection, event, notice.type),)
        if notice.type in _INTENT_EVENTS:
            intent = value(event, "data", "intent")
            id = text(event, "data", "intent_id") or required_text(intent, "id")
            amount, currency = value(intent, "amount"), required_text(intent, "amount_currency")
            status, meaning = _INTENT_EVENTS[notice.type]
        elif notice.type in _PURCHASE_EVENTS:
            intent = value(event, "intent")
            id = required_text(intent, "id")
            amount, currency = value(intent, "amount", "value"), required_text(intent, "amount", "currency")
            status, meaning = _PURCHASE_EVENTS[notice.type]
        else:
            return (Unhandled(reason=f"{notice.type} is not known", known=False),)
        fields = value(intent, "custom_fields")
        if text(fields, "svc_organization_id") not in (None, connection.organization_id):
            return (Unhandled(reason="it is about another organization"),)
        named = named_payable(fields if isinstance(fields, dict) else {})
        if named.payable_id is None:
            return (Unhandled(reason="nothing is paid with it"),)
        return (
            PaymentMoved(
                provider_payment_id=id,
                status=status,
                payment_status=meaning,
                amount_cents=from_major_units("moneyhash", amount, currency.upper()),
                currency=currency.upper(),
                payable_type=named.payable_type,
                payable_id=named.payable_id,
                payment_id=named.payment_id,
                # An expired page is not a payment.
                creates=named.creates and notice.type != "intent.time_expired",
            ),
        )


def _word(said: Json) -> str:
    """The state of an intent, else that of its transaction."""
    return text(said, "data", "status") or text(said, "data", "active_transaction", "status") or "PENDING"


def _key(key: str) -> str:
    """MoneyHash only accepts version 4 UUIDs as keys: this derives one from our key, always the same."""
    return str(uuid.UUID(bytes=hashlib.sha256(key.encode()).digest()[:16], version=4))


def _signature(secret: str, content: bytes, stamp: str) -> bytes:
    signed = base64.b64encode(content) + stamp.encode()
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest().encode()


def _present(fields: Mapping[str, Json]) -> JsonObject:
    return {name: item for name, item in fields.items() if item is not None}


def _billing(payer: Payer) -> JsonObject:
    address = payer.address
    return _present(
        {
            "name": payer.name,
            "first_name": payer.firstname,
            "last_name": payer.lastname,
            "email": payer.email,
            "phone_number": payer.phone,
            "address": address.address_line1,
            "address1": address.address_line2,
            "city": address.city,
            "state": address.state,
            "country": address.country,
            "postal_code": address.zipcode,
        }
    )


def _custom_fields(payer: Payer, purpose: str, payable: Payable | None = None) -> dict[str, str]:
    """Metadata that MoneyHash returns in its notices; all values are texts."""
    fields = {
        "svc_mh_connection_id": payer.connection_id,
        "svc_mh_connection_code": payer.connection_code,
        "svc_customer_id": payer.customer_id,
        "svc_customer_external_id": payer.external_id,
        "svc_customer_name": payer.name,
        "svc_customer_currency": payer.currency,
        "svc_customer_legal_name": payer.legal_name,
        "svc_customer_legal_number": payer.legal_number,
        "svc_customer_tax_identification_number": payer.tax_identification_number,
        "svc_customer_provider_customer_id": payer.provider_customer_id,
        "svc_organization_id": payer.organization_id,
        "svc_mit": "true" if purpose == "charge" else "false",
        "svc_mh_service": "payments" if payable is not None else "customers",
        "svc_request": purpose,
    }
    if payable is not None:
        fields |= {
            "svc_payable_id": payable.id,
            "svc_payable_type": payable.type.value,
            "svc_payable_invoice_type": payable.invoice_type,
            "svc_plan_id": payable.plan_id,
            "svc_subscription_external_id": payable.external_subscription_id,
        }
    return {name: item for name, item in fields.items() if item is not None}


def _token(connection: PaymentConnection, event: Json, type: str) -> Outcome:
    token = value(event, "data", "card_token")
    id = required_text(token, "id")
    if type == "card_token.deleted":
        return MethodRemoved(provider_method_id=id)
    if text(token, "custom_fields", "svc_organization_id") not in (None, connection.organization_id):
        return Unhandled(reason="it is about another organization")
    customer = text(token, "custom_fields", "svc_customer_id")
    if customer is None:
        return Unhandled(reason="the card is nobody's that we know")
    method = MethodDetails(
        provider_method_id=id,
        type=text(token, "type") or "card",
        last4=text(token, "last_4"),
        brand=text(token, "brand"),
        expiration_month=number(text(token, "expiry_month")),
        expiration_year=year(text(token, "expiry_year")),
        card_holder_name=text(token, "card_holder_name"),
        issuer=text(token, "issuer"),
    )
    return MethodAdded(method=method, customer_id=customer)
