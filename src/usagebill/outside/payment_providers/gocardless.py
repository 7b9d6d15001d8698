"""GoCardless: customers, mandates, direct debits (which take days), refunds and signed batches of events."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from usagebill.core.payment_providers import (
    PaymentConnection,
    charge_status,
    from_minor_units,
    minor_units,
    redirect_url,
)
from usagebill.core.provider_metadata import named_payable
from usagebill.core.provider_requests import (
    Cancel,
    Charge,
    Charged,
    CreateCustomer,
    CustomerCreated,
    FailureKind,
    ListCharges,
    ListMethods,
    LookUpCharge,
    LookUpRefund,
    MethodAdded,
    MethodDetails,
    MethodRemoved,
    Methods,
    Notice,
    NoticeRejected,
    Outcome,
    PageUrl,
    Payer,
    PaymentMoved,
    ProviderCharge,
    ProviderCharges,
    ProviderFailed,
    Refund,
    Refunded,
    RefundMoved,
    SetupUrl,
    Unhandled,
)
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.outside.payment_providers.fields import instant, items, required_int, required_text, text, value
from usagebill.outside.payment_providers.http import Said, failed
from usagebill.outside.payment_providers.port import PaymentProvider, unsent
from usagebill.process.json_text import Json, JsonObject, encode_json, parse_json

_HOST = "https://api.gocardless.com"
_TEST_HOST = "https://api-sandbox.gocardless.com"
_VERSION = "2015-07-06"
_PAGE = 500
_USABLE_MANDATES = "pending_customer_approval,pending_submission,submitted,active"
# The scheme of each currency: a mandate can only be charged in the currency of its scheme.
_SCHEMES = {
    "AUD": "becs",
    "CAD": "pad",
    "DKK": "betalingsservice",
    "EUR": "sepa_core",
    "NZD": "becs_nz",
    "SEK": "autogiro",
    "USD": "ach",
}
_UK_SCHEME = "bacs"
_REFUND_STATUSES = {
    "paid": PaymentStatus.SUCCEEDED,
    "cancelled": PaymentStatus.FAILED,
    "bounced": PaymentStatus.FAILED,
    "funds_returned": PaymentStatus.FAILED,
    "failed": PaymentStatus.FAILED,
}
# Events about a debit come in any order: GoCardless is asked for its state.
_PAYMENT_ACTIONS = (
    "paid_out",
    "failed",
    "cancelled",
    "customer_approval_denied",
    "charged_back",
    "chargeback_cancelled",
)
# Steps on the way to one of these, or how GoCardless pays out.
_PAYMENT_STEPS = (
    *("created", "customer_approval_granted", "submitted", "confirmed", "resubmission_requested"),
    *("late_failure_settled", "chargeback_settled", "surcharge_fee_debited", "surcharge_fee_credited"),
)
_REFUND_ACTIONS = ("created", "funds_returned", "paid", "refund_settled", "failed", "bounced")
_MANDATE_ENDS = ("cancelled", "failed", "expired", "consumed", "blocked")
# The resource types of events that say nothing about our debits and refunds.
_KNOWN = """
billing_requests creditors customers exports instalment_schedules mandates outbound_payments payer_authorisations
payouts scheme_identifiers subscriptions
"""
_LONGEST_METADATA = 500


class GoCardlessProvider(PaymentProvider):
    """GoCardless's API. A notice says days later whether a debit was paid."""

    def create_customer(self, connection: PaymentConnection, request: CreateCustomer) -> CustomerCreated:
        """Create the customer."""
        payer = request.payer
        fields = {
            "email": payer.email,
            "company_name": payer.name,
            "given_name": payer.firstname,
            "family_name": payer.lastname,
        }
        made = self._create(connection, "customers", fields, request.key)
        return CustomerCreated(provider_customer_id=required_text(made, "id"))

    def setup_url(self, connection: PaymentConnection, request: SetupUrl) -> PageUrl:
        """A page where the customer signs a mandate for the scheme of its currency."""
        scheme = _SCHEMES.get(request.payer.currency, _UK_SCHEME)
        links = {"customer": _customer_id(request.payer)}
        wanted = {"mandate_request": {"scheme": scheme}, "links": links}
        billing_request = self._create(connection, "billing_requests", wanted, request.key)
        back = redirect_url(connection)
        links = {"billing_request": required_text(billing_request, "id")}
        flow = {"redirect_uri": back, "exit_uri": back, "links": links}
        made = self._create(connection, "billing_request_flows", flow, None)
        return PageUrl(url=required_text(made, "authorisation_url"), provider_page_id=text(made, "id"))

    def list_methods(self, connection: PaymentConnection, request: ListMethods) -> Methods:
        """The customer's chargeable mandates, in GoCardless's order."""
        return Methods(methods=tuple(_mandate(item) for item in self._mandates(connection, request.payer)))

    def _mandates(self, connection: PaymentConnection, payer: Payer) -> list[Json]:
        query = {"customer": _customer_id(payer), "status": _USABLE_MANDATES}
        return items(self._ask(connection, "GET", f"/mandates?{urlencode(query)}"), "mandates")

    def charge(self, connection: PaymentConnection, request: Charge) -> Charged:
        """Debit the mandate, or another of the customer's if it has ended."""
        amount = minor_units("gocardless", request.amount_cents, request.currency)
        named = request.provider_method_id
        if named is not None:
            try:
                return self._debit(connection, request, amount, named)
            except _MandateEnded:
                pass
        gone = () if named is None else (named,)
        mandates = [required_text(item, "id") for item in self._mandates(connection, request.payer)]
        usable = [id for id in mandates if id != named]
        try:
            if not usable:
                raise failed(unsent(request), "no_mandate_error", "No mandate available for payment")
            return replace(self._debit(connection, request, amount, usable[0]), gone_method_ids=gone)
        except ProviderFailed as problem:
            raise ProviderFailed(replace(problem.failure, gone_method_ids=gone)) from None

    def _debit(self, connection: PaymentConnection, request: Charge, amount: int, mandate: str) -> Charged:
        fields = {
            "amount": amount,
            "currency": request.currency,
            "retry_if_possible": False,
            "metadata": {name: item[:_LONGEST_METADATA] for name, item in request.metadata.items()},
            "links": {"mandate": mandate},
        }
        made = self._create(connection, "payments", fields, request.key)
        if (value(made, "amount"), value(made, "currency")) != (amount, request.currency):
            raise failed(FailureKind.CONFLICT, "idempotent_creation_conflict", "the key was used for another amount")
        return _charged(made)

    def cancel(self, connection: PaymentConnection, request: Cancel) -> Charged | None:
        """Cancel a debit that was not submitted to the bank yet."""
        path = f"/payments/{quote(request.provider_payment_id, safe='')}/actions/cancel"
        said = self._said(connection, "POST", path, {})
        if not said.is_good and "cancellation_failed" in _reasons(said):
            return None
        return _charged(value(_good(said), "payments"))

    def refund(self, connection: PaymentConnection, request: Refund) -> Refunded:
        """Refund part of a debit. GoCardless checks the total of its refunds, so that none is made twice."""
        amount = minor_units("gocardless", request.amount_cents, request.currency)
        before = minor_units("gocardless", request.refunded_before_cents, request.currency)
        name, mark = request.mark
        fields = {
            "amount": amount,
            "total_amount_confirmation": before + amount,
            "links": {"payment": request.provider_payment_id},
            "metadata": {
                name: mark,
                "svc_invoice_id": request.invoice_id,
                "reason": request.reason,
            },
        }
        try:
            return _refunded(self._create(connection, "refunds", fields, request.key))
        except ProviderFailed as problem:
            if problem.failure.kind is not FailureKind.REFUSED:
                raise
            # The total is wrong if an earlier attempt succeeded and its answer was lost.
            query = urlencode({"payment": request.provider_payment_id})
            for known in items(self._ask(connection, "GET", f"/refunds?{query}"), "refunds"):
                if text(known, "metadata", name) == mark:
                    return _refunded(known)
            raise problem from None

    def look_up_charge(self, connection: PaymentConnection, request: LookUpCharge) -> PaymentMoved | None:
        """The debit by its id. One that was never answered is found by its key, when it is sent again."""
        if request.provider_payment_id is None:
            raise failed(FailureKind.NOT_SUPPORTED, "feature_not_supported", "GoCardless has no look-up by our id")
        path = f"/payments/{quote(request.provider_payment_id, safe='')}"
        answer = _charged(value(self._ask(connection, "GET", path), "payments"))
        return PaymentMoved(
            provider_payment_id=answer.provider_payment_id,
            status=answer.status,
            payment_status=answer.payment_status,
            payment_id=request.payment_id,
        )

    def look_up_refund(self, connection: PaymentConnection, request: LookUpRefund) -> RefundMoved:
        """The refund by its id."""
        path = f"/refunds/{quote(request.provider_refund_id, safe='')}"
        known = _refunded(value(self._ask(connection, "GET", path), "refunds"))
        return RefundMoved(
            provider_refund_id=request.provider_refund_id, status=known.status, refund_status=known.refund_status
        )

    def list_charges(self, connection: PaymentConnection, request: ListCharges) -> ProviderCharges:
        """All debits created in the time."""
        times = {"created_at[gte]": _instant(request.since), "created_at[lt]": _instant(request.until)}
        return ProviderCharges(charges=tuple(_listed(item) for item in self._all(connection, "payments", times)))

    def _all(self, connection: PaymentConnection, resource: str, query: Mapping[str, str]) -> Iterator[Json]:
        """All records of a list, page by page."""
        after: str | None = None
        while True:
            parameters = {**query, "limit": _PAGE, **({"after": after} if after else {})}
            page = self._ask(connection, "GET", f"/{resource}?{urlencode(parameters)}")
            yield from items(page, resource)
            after = text(page, "meta", "cursors", "after")
            if after is None:
                return

    # Notices

    def notices(
        self, connection: PaymentConnection, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> tuple[Notice, ...]:
        """Up to 250 events with one signature. It contains no timestamp: replays are recognized by their ids."""
        secret = connection.secret("webhook_secret")
        expected = hmac.new(secret.value.encode(), body, hashlib.sha256).hexdigest()
        signature = headers.get("webhook-signature", "")
        if not secret.value or not hmac.compare_digest(expected.encode(), signature.encode()):
            raise NoticeRejected("the signature is not GoCardless's")
        return tuple(
            Notice(
                id=required_text(event, "id"),
                type=f"{required_text(event, 'resource_type')}.{required_text(event, 'action')}",
                body=encode_json(event).decode(),
            )
            for event in items(parse_json(body), "events")
        )

    def outcomes(self, connection: PaymentConnection, notice: Notice, now: datetime) -> tuple[Outcome, ...]:
        """Translate an event. The state of a debit, and the owner of a new mandate, are requested from GoCardless."""
        event = parse_json(notice.body.encode())
        about, action = required_text(event, "resource_type"), required_text(event, "action")
        if about == "payments" and action in _PAYMENT_ACTIONS:
            return (self._payment_moved(connection, event, action),)
        if about == "payments" and action in _PAYMENT_STEPS:
            return (Unhandled(reason=f"{notice.type} changes nothing"),)
        if about == "refunds" and action in _REFUND_ACTIONS:
            refund = required_text(event, "links", "refund")
            status = _REFUND_STATUSES.get(action, PaymentStatus.PENDING)
            metadata = value(event, "resource_metadata")
            key = text(metadata, "svc_refund_id") or text(metadata, "svc_credit_note_id")
            return (RefundMoved(provider_refund_id=refund, status=action, refund_status=status, key=key),)
        if about == "mandates" and action == "created":
            return (self._mandate_added(connection, required_text(event, "links", "mandate")),)
        if about == "mandates" and action == "replaced":
            added = self._mandate_added(connection, required_text(event, "links", "new_mandate"))
            return (added, MethodRemoved(provider_method_id=required_text(event, "links", "mandate")))
        if about == "mandates" and action in _MANDATE_ENDS:
            # A mandate ended by the bank or the customer is still listed for the merchant, as unusable.
            elsewhere = action == "cancelled" and text(event, "details", "origin") != "api"
            mandate = required_text(event, "links", "mandate")
            return (MethodRemoved(provider_method_id=mandate, stays_listed=elsewhere),)
        return (Unhandled(reason=f"{notice.type} changes nothing", known=about in _KNOWN.split()),)

    def _payment_moved(self, connection: PaymentConnection, event: Json, action: str) -> Outcome:
        id = required_text(event, "links", "payment")
        said = self._said(connection, "GET", f"/payments/{quote(id, safe='')}")
        if said.status == 404:
            return Unhandled(reason="GoCardless does not know the debit", known=False)
        state = required_text(value(_good(said), "payments"), "status")
        metadata = value(event, "resource_metadata") or value(event, "metadata")
        named = named_payable(metadata if isinstance(metadata, dict) else {})
        status = charge_status("gocardless", state) or ChargeStatus.PROCESSING
        is_reason = status is ChargeStatus.FAILED and state == action
        return PaymentMoved(
            provider_payment_id=id,
            status=state,
            payment_status=status,
            # An event of an earlier state has another time.
            happened_at=instant(event, "created_at") if state == action else None,
            is_current=True,
            is_disputed=state == "charged_back",
            payable_type=named.payable_type,
            payable_id=named.payable_id,
            error_code=text(event, "details", "cause") if is_reason else None,
            error_message=text(event, "details", "description") if is_reason else None,
        )

    def _mandate_added(self, connection: PaymentConnection, id: str) -> Outcome:
        said = self._said(connection, "GET", f"/mandates/{quote(id, safe='')}")
        if said.status == 404:
            return Unhandled(reason="GoCardless does not know the mandate any more")
        mandate = value(_good(said), "mandates")
        if text(mandate, "status") in _MANDATE_ENDS:
            # Events may be late and out of order.
            return Unhandled(reason="the mandate has ended since")
        return MethodAdded(method=_mandate(mandate), provider_customer_id=required_text(mandate, "links", "customer"))

    # Requests

    def _create(self, connection: PaymentConnection, resource: str, fields: JsonObject, key: str | None) -> Json:
        """A new record, or the one created by an earlier attempt with this key. Raises `ProviderFailed`."""
        kept = {name: item for name, item in fields.items() if item is not None}
        said = self._said(connection, "POST", f"/{resource}", {resource: kept}, key)
        existing = _conflicting(said)
        if existing is not None:
            return value(self._ask(connection, "GET", f"/{resource}/{quote(existing, safe='')}"), resource)
        return value(_good(said), resource)

    def _ask(self, connection: PaymentConnection, method: str, path: str) -> Json:
        return _good(self._said(connection, method, path))

    def _said(
        self,
        connection: PaymentConnection,
        method: str,
        path: str,
        content: JsonObject | None = None,
        key: str | None = None,
    ) -> Said:
        token = connection.secret("access_token")
        headers = {"authorization": f"Bearer {token.value}", "gocardless-version": _VERSION}
        if key is not None:
            headers["idempotency-key"] = key
        host = connection.url or (_HOST if connection.live else _TEST_HOST)
        return self.http.ask(method, f"{host.rstrip('/')}{path}", headers, content)


class _MandateEnded(ProviderFailed):
    """The mandate can no longer be charged."""


def _good(said: Said) -> Json:
    """The JSON of a successful answer. Raises `ProviderFailed`."""
    if said.is_good:
        if not isinstance(said.json, dict):
            raise failed(FailureKind.UNREACHABLE, "invalid_response", "the answer cannot be read")
        return said.json
    error = value(said.json, "error")
    message = text(error, "message") or f"GoCardless answered {said.status}"
    details = [f"{text(item, 'field') or ''} {text(item, 'message') or ''}".strip() for item in _errors(said)]
    more = ", ".join(detail for detail in details if detail and detail != message)
    kind = FailureKind.UNAUTHORIZED if said.status in (401, 403) else FailureKind.REFUSED
    if said.status == 409 or not 400 <= said.status < 500:
        kind = FailureKind.UNREACHABLE
    problem = failed(kind, str(said.status), f"{message} ({more})" if more else message)
    if not _reasons(said).isdisjoint(("mandate_is_inactive", "mandate_replaced")):
        raise _MandateEnded(problem.failure)
    raise problem


def _errors(said: Said) -> list[Json]:
    errors = value(said.json, "error", "errors")
    return errors if isinstance(errors, list) else []


def _reasons(said: Said) -> set[str]:
    """The reason of a refusal. (The `code` of an error is the HTTP status.)"""
    return {reason for item in _errors(said) if (reason := text(item, "reason")) is not None}


def _conflicting(said: Said) -> str | None:
    """The id of the record created with this key before."""
    if "idempotent_creation_conflict" not in _reasons(said):
        return None
    ids = (text(item, "links", "conflicting_resource_id") for item in _errors(said))
    return next((id for id in ids if id is not None), None)


def _customer_id(payer: Payer) -> str:
    if payer.provider_customer_id is None:
        raise failed(FailureKind.REFUSED, "no_provider_customer", "the customer is not known to GoCardless yet")
    return payer.provider_customer_id


def _instant(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _mandate(mandate: Json) -> MethodDetails:
    return MethodDetails(provider_method_id=required_text(mandate, "id"), type=text(mandate, "scheme"))


def _charged(payment: Json) -> Charged:
    status = required_text(payment, "status")
    mandate = text(payment, "links", "mandate")
    return Charged(
        provider_payment_id=required_text(payment, "id"),
        status=status,
        # For a status that is not known here, wait for the event.
        payment_status=charge_status("gocardless", status) or ChargeStatus.PROCESSING,
        method=None if mandate is None else MethodDetails(provider_method_id=mandate),
    )


def _refunded(refund: Json) -> Refunded:
    status = text(refund, "status") or "created"
    refund_status = _REFUND_STATUSES.get(status, PaymentStatus.PENDING)
    return Refunded(provider_refund_id=required_text(refund, "id"), status=status, refund_status=refund_status)


def _listed(payment: Json) -> ProviderCharge:
    currency = required_text(payment, "currency")
    metadata, refunded = value(payment, "metadata"), value(payment, "amount_refunded")
    return ProviderCharge(
        provider_payment_id=required_text(payment, "id"),
        amount_cents=from_minor_units("gocardless", required_int(payment, "amount"), currency),
        currency=currency,
        payment_status=charge_status("gocardless", required_text(payment, "status")) or ChargeStatus.PROCESSING,
        created_at=datetime.fromisoformat(required_text(payment, "created_at")),
        metadata={str(name): str(item) for name, item in metadata.items()} if isinstance(metadata, dict) else {},
        refunded_cents=from_minor_units("gocardless", refunded, currency) if isinstance(refunded, int) else None,
    )
