"""Stripe's implementation of the payment provider port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from usagebill.core.authorizations import NO_METHOD, Authorize, Authorized, ReleaseHold
from usagebill.core.payment_providers import PaymentConnection, charge_status, minor_units, redirect_url
from usagebill.core.provider_requests import (
    Cancel,
    Charge,
    Charged,
    CheckoutUrl,
    Connect,
    Connected,
    CreateCustomer,
    CustomerCreated,
    Disconnect,
    Done,
    ExpirePage,
    FailureKind,
    ListCharges,
    ListMethods,
    LookUpCharge,
    LookUpPage,
    LookUpRefund,
    Methods,
    Notice,
    Outcome,
    PageUrl,
    PayableType,
    Payer,
    PaymentMoved,
    ProviderCharges,
    ProviderFailed,
    Refund,
    Refunded,
    RefundMoved,
    SetupUrl,
    UpdateCharge,
    UpdateCustomer,
)
from usagebill.core.statuses import ChargeStatus
from usagebill.outside.payment_providers.fields import items, required_text, text, value
from usagebill.outside.payment_providers.http import ProviderHttp, failed
from usagebill.outside.payment_providers.port import PaymentProvider
from usagebill.outside.payment_providers.stripe import shapes
from usagebill.outside.payment_providers.stripe.client import VERSION, StripeClient, segment
from usagebill.outside.payment_providers.stripe.events import EVENTS, meaning, payment_moved, refund_moved, signed_event
from usagebill.process.json_text import Json, JsonObject

# Sessions last at most 24 hours after their creation by Stripe's clock, which may be behind ours.
_LONGEST_SESSION = timedelta(hours=23, minutes=59)
_NEEDS_SETUP = frozenset(("card", "sepa_debit", "us_bank_account", "bacs_debit", "link", "boleto"))
# Countries where cards may not be saved for charges without the customer present.
_ON_SESSION_COUNTRIES = ("IN",)
_REASONS = {
    "duplicated_charge": "duplicate",
    "product_unsatisfactory": "requested_by_customer",
    "order_change": "requested_by_customer",
    "order_cancellation": "requested_by_customer",
    "fraudulent_charge": "fraudulent",
}
# The metadata key that holds the idempotency key of an authorization.
_AUTHORIZATION = "svc_authorization_key"
# Stripe may forget an idempotency key after a day.
_KEYS_LAST = timedelta(hours=23)
# The largest difference between its clock and ours.
_CLOCK_SKEW = timedelta(minutes=5)


class StripeProvider(PaymentProvider):
    """Stripe, in the API version of `client`."""

    def __init__(self, http: ProviderHttp) -> None:
        super().__init__(http)
        self._client = StripeClient(http)

    # The connection

    def connect(self, connection: PaymentConnection, request: Connect) -> Connected:
        """Register the address for notices, or update it.

        A connection that came with a secret for notices has had its address registered by hand.
        """
        fields: JsonObject = {"url": request.notice_url, "enabled_events": EVENTS}
        if connection.webhook_id is not None:
            try:
                self._client.post(connection, f"/webhook_endpoints/{segment(connection.webhook_id)}", fields)
                return Connected(webhook_id=connection.webhook_id)
            except ProviderFailed as problem:
                if problem.failure.code != "resource_missing":
                    raise
        elif connection.credentials.get("webhook_secret"):
            return Connected()
        made = self._client.post(connection, "/webhook_endpoints", {**fields, "api_version": VERSION})
        secret = required_text(made, "secret")
        return Connected(credentials={"webhook_secret": secret}, webhook_id=required_text(made, "id"))

    def disconnect(self, connection: PaymentConnection, request: Disconnect) -> Done:
        """Remove the address that we registered."""
        if connection.webhook_id is not None:
            try:
                self._client.delete(connection, f"/webhook_endpoints/{segment(connection.webhook_id)}")
            except ProviderFailed as problem:
                if problem.failure.code != "resource_missing":
                    raise
        return Done()

    # Customers and their methods

    def create_customer(self, connection: PaymentConnection, request: CreateCustomer) -> CustomerCreated:
        """Create the customer. After a key conflict, a single customer with its e-mail address is assumed to be it."""
        payer = request.payer
        metadata = {"svc_customer_id": payer.customer_id, "customer_id": payer.external_id}
        fields = {**shapes.customer(payer), "metadata": metadata}
        try:
            made: Json = self._client.post(connection, "/customers", fields, request.key)
        except ProviderFailed as problem:
            if problem.failure.kind is not FailureKind.CONFLICT or payer.email is None:
                raise
            known = items(self._client.get(connection, "/customers", {"email": payer.email}), "data")
            if len(known) != 1:
                raise
            made = known[0]
        return CustomerCreated(provider_customer_id=required_text(made, "id"))

    def update_customer(self, connection: PaymentConnection, request: UpdateCustomer) -> Done:
        """Update the customer's name and addresses; values that are missing here stay as they are at Stripe."""
        self._client.post(connection, _customer_path(request.payer), shapes.customer(request.payer))
        return Done()

    def setup_url(self, connection: PaymentConnection, request: SetupUrl) -> PageUrl:
        """A checkout session for saving a payment method."""
        types = [kind for kind in request.payer.method_types if kind in _NEEDS_SETUP]
        if not types:
            code = "no_payment_methods_to_setup_available"
            raise failed(FailureKind.REFUSED, code, "none of the customer's kinds of payment method needs to be set up")
        fields = {
            "mode": "setup",
            "customer": request.payer.provider_customer_id,
            "success_url": redirect_url(connection),
            "payment_method_types": types,
            **shapes.consent(connection),
        }
        return shapes.page(self._client.post(connection, "/checkout/sessions", fields, request.key))

    def list_methods(self, connection: PaymentConnection, request: ListMethods) -> Methods:
        """The customer's default method, then its methods of the allowed kinds, newest first."""
        path, kinds = _customer_path(request.payer), request.payer.method_types
        default = shapes.default_method(self._client.get(connection, path))
        listed = list(self._client.all(connection, f"{path}/payment_methods", {}))
        usable = [method for method in listed if text(method, "id") == default or text(method, "type") in kinds]
        usable.sort(key=lambda method: (text(method, "id") != default, -(value(method, "created") or 0)))
        return Methods(methods=tuple(shapes.details(method) for method in usable))

    # Charges

    def charge(self, connection: PaymentConnection, request: Charge) -> Charged:
        """Create a payment intent and confirm it."""
        payer = request.payer
        amount = minor_units("stripe", request.amount_cents, request.currency)
        is_transfer = payer.method_types == (shapes.BANK_TRANSFER,)
        transfer = shapes.transfer(payer, request.currency) if is_transfer else {}
        if request.since is not None and (known := self._charged_before(connection, request)) is not None:
            return shapes.charged(known, None, ())
        method, gone = (None, ()) if is_transfer else self._usable_method(connection, request)
        fields: JsonObject = {
            "amount": amount,
            "currency": request.currency.lower(),
            "customer": payer.provider_customer_id,
            "payment_method_types": payer.method_types,
            "payment_method": text(method, "id"),
            "confirm": True,
            "return_url": redirect_url(connection),
            "description": request.payable.reference,
            "metadata": request.metadata,
            **transfer,
        }
        if not request.on_session:
            is_alone = payer.address.country not in _ON_SESSION_COUNTRIES and not is_transfer
            fields |= {"off_session": is_alone, "error_on_requires_action": is_alone}
        try:
            intent: Json = self._client.post(connection, "/payment_intents", fields, request.key)
        except ProviderFailed as problem:
            intent = None
            if problem.failure.kind is FailureKind.CONFLICT:
                intent = self._charged_before(connection, request)
            if intent is None:
                raise ProviderFailed(replace(problem.failure, gone_method_ids=gone)) from None
        return shapes.charged(intent, method, gone)

    def _usable_method(self, connection: PaymentConnection, request: Charge) -> tuple[Json, tuple[str, ...]]:
        """The method to charge (null if there is none), and which stored methods Stripe no longer has."""
        path = _customer_path(request.payer)
        default = shapes.default_method(self._client.get(connection, path))
        gone: tuple[str, ...] = ()
        for id in dict.fromkeys((request.provider_method_id, default)):
            if id is None:
                continue
            try:
                return self._client.get(connection, f"{path}/payment_methods/{segment(id)}"), gone
            except ProviderFailed as problem:
                if problem.failure.kind is not FailureKind.REFUSED:
                    raise
                if id == request.provider_method_id:
                    gone = (id,)
        listed = items(self._client.get(connection, f"{path}/payment_methods"), "data")
        return (listed[0] if listed else None), gone

    def _charged_before(self, connection: PaymentConnection, request: Charge) -> Json:
        """The intent created by an earlier attempt at this charge; None if Stripe lists none.

        A key may be forgotten, or refused as it comes with other fields: the customer's method may have changed since.
        """
        try:
            return self._listed(connection, request.payer.provider_customer_id, request.payment_id, request.since)
        except ProviderFailed as problem:
            if problem.failure.kind is not FailureKind.REFUSED:
                raise
        return None

    def _listed(
        self, connection: PaymentConnection, provider_customer_id: str | None, payment_id: str, since: datetime | None
    ) -> Json:
        """The intent of our payment in Stripe's list; None if there is none."""
        fields: JsonObject = {"customer": provider_customer_id}
        if since is not None:
            fields["created"] = {"gte": int((since - _CLOCK_SKEW).timestamp())}
        intents = self._client.all(connection, "/payment_intents", fields)
        return next((item for item in intents if text(item, "metadata", "svc_payment_id") == payment_id), None)

    def look_up_charge(self, connection: PaymentConnection, request: LookUpCharge) -> PaymentMoved | None:
        """The intent by its id, else by our payment's in its metadata."""
        if request.provider_payment_id is not None:
            intent: Json = self._client.get(connection, f"/payment_intents/{segment(request.provider_payment_id)}")
        else:
            intent = self._listed(connection, request.provider_customer_id, request.payment_id, request.since)
        if intent is None:
            return None
        word = required_text(intent, "status")
        status = charge_status("stripe", word) or ChargeStatus.PROCESSING
        if status is ChargeStatus.PROCESSING:
            return PaymentMoved(
                provider_payment_id=required_text(intent, "id"),
                status=word,
                payment_status=status,
                payment_id=request.payment_id,
            )
        return payment_moved(self._client, connection, intent, has_succeeded=status is ChargeStatus.SUCCEEDED)

    def look_up_page(self, connection: PaymentConnection, request: LookUpPage) -> PaymentMoved | None:
        """The intent of the session, once it has succeeded."""
        path = f"/checkout/sessions/{segment(request.provider_page_id or '')}"
        intent = value(self._client.get(connection, path, {"expand": ["payment_intent"]}), "payment_intent")
        if text(intent, "status") != "succeeded":
            return None
        return payment_moved(self._client, connection, intent, has_succeeded=True)

    def look_up_refund(self, connection: PaymentConnection, request: LookUpRefund) -> RefundMoved:
        """The refund by its id."""
        return refund_moved(self._client.get(connection, f"/refunds/{segment(request.provider_refund_id)}"))

    def update_charge(self, connection: PaymentConnection, request: UpdateCharge) -> Done:
        """Write the invoice's new number to the intent."""
        fields = {"description": request.reference, "metadata": request.metadata}
        self._client.post(connection, f"/payment_intents/{segment(request.provider_payment_id)}", fields)
        return Done()

    def cancel(self, connection: PaymentConnection, request: Cancel) -> Charged | None:
        """Cancel the intent if that is still possible."""
        path = f"/payment_intents/{segment(request.provider_payment_id)}/cancel"
        try:
            return shapes.charged(self._client.post(connection, path, {"cancellation_reason": "abandoned"}), None, ())
        except ProviderFailed as problem:
            if problem.failure.code == "payment_intent_unexpected_state":
                return None
            raise

    def authorize(self, connection: PaymentConnection, request: Authorize) -> Authorized:
        """Create a payment intent, confirmed but not captured."""
        method = request.provider_method_id
        if method is None:
            listed = self.list_methods(connection, ListMethods(payer=request.payer)).methods
            if not listed:
                raise failed(FailureKind.REFUSED, NO_METHOD, "the customer has no payment method at Stripe")
            method = listed[0].provider_method_id
        fields: JsonObject = {
            "amount": minor_units("stripe", request.amount_cents, request.currency),
            "currency": request.currency.lower(),
            "customer": request.payer.provider_customer_id,
            "payment_method": method,
            "capture_method": "manual",
            "confirm": True,
            "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
            "return_url": redirect_url(connection),
            "description": "Pre-authorization for subscription",
            "metadata": {**request.metadata, _AUTHORIZATION: request.key},
        }
        intent = self._client.post(connection, "/payment_intents", fields, request.key)
        return Authorized(provider_payment_id=required_text(intent, "id"), status=required_text(intent, "status"))

    def release(self, connection: PaymentConnection, request: ReleaseHold) -> Done:
        """Cancel the intent, or the customer's intent with the key."""
        ids = [request.provider_payment_id]
        if request.provider_payment_id is None:
            since = int((request.since - _CLOCK_SKEW).timestamp())
            fields: JsonObject = {"customer": request.provider_customer_id, "created": {"gte": since}}
            intents = self._client.all(connection, "/payment_intents", fields)
            ids = [text(intent, "id") for intent in intents if text(intent, "metadata", _AUTHORIZATION) == request.key]
        for id in ids:
            if id is not None:
                self.cancel(connection, Cancel(provider_payment_id=id, key=f"cancel-{request.key}"))
        return Done()

    def refund(self, connection: PaymentConnection, request: Refund) -> Refunded:
        """Refund part of an intent."""
        name, mark = request.mark
        fields = {
            "payment_intent": request.provider_payment_id,
            "amount": minor_units("stripe", request.amount_cents, request.currency),
            "reason": _REASONS.get(request.reason),
            "metadata": {
                "svc_customer_id": request.customer_id,
                name: mark,
                "svc_invoice_id": request.invoice_id,
            },
        }
        made: Json = None
        if request.age > _KEYS_LAST:
            earlier = self._client.all(connection, "/refunds", {"payment_intent": request.provider_payment_id})
            made = next((item for item in earlier if text(item, "metadata", name) == mark), None)
        if made is None:
            made = self._client.post(connection, "/refunds", fields, request.key)
        id, word = required_text(made, "id"), required_text(made, "status")
        return Refunded(provider_refund_id=id, status=word, refund_status=shapes.refund_status(word))

    # Pages

    def checkout_url(self, connection: PaymentConnection, request: CheckoutUrl) -> PageUrl:
        """A checkout session for paying."""
        payer, ends = request.payer, request.expires_at
        intent: JsonObject = {"description": request.payable.reference, "metadata": request.metadata}
        keeps = request.keeps_method and request.payable.type is PayableType.INVOICE
        if keeps and payer.address.country not in _ON_SESSION_COUNTRIES and "crypto" not in payer.method_types:
            intent["setup_future_usage"] = "off_session"
        fields = {
            "mode": "payment",
            "customer": payer.provider_customer_id,
            "success_url": redirect_url(connection),
            "payment_method_types": payer.method_types,
            "expires_at": None if ends is None else int(min(ends, request.at + _LONGEST_SESSION).timestamp()),
            "line_items": shapes.lines(request),
            "payment_intent_data": intent,
            **shapes.consent(connection),
        }
        return shapes.page(self._client.post(connection, "/checkout/sessions", fields, request.key))

    def expire_page(self, connection: PaymentConnection, request: ExpirePage) -> Done:
        """Expire an open session."""
        path = f"/checkout/sessions/{segment(request.provider_page_id)}"
        try:
            if text(self._client.get(connection, path), "status") == "open":
                self._client.post(connection, f"{path}/expire", {})
        except ProviderFailed as problem:
            if problem.failure.kind is not FailureKind.REFUSED:
                raise
        return Done()

    def list_charges(self, connection: PaymentConnection, request: ListCharges) -> ProviderCharges:
        """All payment intents created in the time."""
        created = {"gte": int(request.since.timestamp()), "lt": int(request.until.timestamp())}
        fields: JsonObject = {"created": created, "expand": ["data.latest_charge"]}
        intents = self._client.all(connection, "/payment_intents", fields)
        return ProviderCharges(charges=tuple(shapes.listed(intent) for intent in intents))

    # Notices

    def notices(
        self, connection: PaymentConnection, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> tuple[Notice, ...]:
        """One event."""
        return (signed_event(connection, headers, body, now),)

    def outcomes(self, connection: PaymentConnection, notice: Notice, now: datetime) -> tuple[Outcome, ...]:
        """Translate an event."""
        return (meaning(self._client, connection, notice),)


def _customer_path(payer: Payer) -> str:
    if payer.provider_customer_id is None:
        raise failed(FailureKind.REFUSED, "no_provider_customer", "the customer is not known to Stripe yet")
    return f"/customers/{segment(payer.provider_customer_id)}"
