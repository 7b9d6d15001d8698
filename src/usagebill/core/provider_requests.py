"""Requests to payment providers, their responses and failures, and their notices.

A request has everything that a provider needs, in our own terms: amounts are whole cents of `currency`, unprefixed ids
are ours, and `provider_...` ids are the provider's. `key` is the idempotency key: a repeated request has the same one,
so a lost response never leads to a second charge. An adapter sends the parts that its provider supports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

from usagebill.core.customers import Address
from usagebill.core.statuses import ChargeStatus, PaymentStatus

A_co = TypeVar("A_co", covariant=True)


class PayableType(StrEnum):
    """The record that is paid."""

    INVOICE = "Invoice"
    PAYMENT_REQUEST = "PaymentRequest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Payer:
    """The customer, as sent to a provider.

    `name` is its name, else its first and last name; `email` the first of its addresses. `method_types` are the kinds
    of payment method allowed at Stripe. `entity_country` is the country of the billing entity, `notice_url` the address
    for notices, for providers that are told with each request.
    """

    customer_id: str
    external_id: str
    organization_id: str
    connection_id: str
    connection_code: str
    provider_customer_id: str | None
    currency: str
    address: Address
    name: str | None = None
    firstname: str | None = None
    lastname: str | None = None
    email: str | None = None
    phone: str | None = None
    customer_type: str | None = None
    legal_name: str | None = None
    legal_number: str | None = None
    tax_identification_number: str | None = None
    method_types: tuple[str, ...] = ("card",)
    entity_country: str | None = None
    notice_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PayableLine:
    """An invoice to be paid: its number and the amount due."""

    name: str
    amount_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Payable:
    """An invoice or a payment request. `reference` is for people: `Acme - Invoice ACM-1-001`.

    `number` is that of an invoice, null while it has none. `lines` are the invoices to be paid, one or more.
    `issuing_date` is null for a request; `plan_id` and `external_subscription_id` are those of its first subscription.
    """

    type: PayableType
    id: str
    reference: str
    billing_entity_id: str
    lines: tuple[PayableLine, ...]
    created_at: datetime
    number: str | None = None
    invoice_type: str | None = None
    issuing_date: date | None = None
    plan_id: str | None = None
    external_subscription_id: str | None = None


class Request(Generic[A_co]):
    """A request to a provider; the parameter is the type of the response."""

    __slots__ = ()


# Responses


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The provider has done it, or there was nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """The result of connecting: credentials created by the provider, by name, and the id of our registered webhook."""

    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    webhook_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerCreated:
    """The customer exists at the provider."""

    provider_customer_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodDetails:
    """A payment method as stored by the provider. Everything but the id may be unknown; `type` is `card`, `sepa_debit`,
    ...
    """

    provider_method_id: str
    type: str | None = None
    last4: str | None = None
    brand: str | None = None
    expiration_month: int | None = None
    expiration_year: int | None = None
    card_holder_name: str | None = None
    issuer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Methods:
    """The customer's methods at the provider; the first is used unless another is chosen."""

    methods: tuple[MethodDetails, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageUrl:
    """A page to send the customer to. `provider_page_id` is set if the page can be ended, `expires_at` if it is
    known to end at another time than a day after it was made.
    """

    url: str
    provider_page_id: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Charged:
    """The state of a charge. `status` is the provider's own state, `payment_status` ours.

    `next_action` is the action required of the customer, in the provider's form; empty if there is none. `method` is
    the charged method, and `gone_method_ids` the provider's ids of our methods that no longer exist there. `error_code`
    and `error_message` say why an accepted charge failed.
    """

    provider_payment_id: str
    status: str
    payment_status: ChargeStatus
    next_action: Mapping[str, object] = field(default_factory=dict)
    method: MethodDetails | None = None
    gone_method_ids: tuple[str, ...] = ()
    error_code: str | None = None
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refunded:
    """The state of a refund: pending, succeeded or failed."""

    provider_refund_id: str | None
    status: str
    refund_status: PaymentStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCharge:
    """A charge in the provider's own books. `refunded_cents` is null if the list does not state it."""

    provider_payment_id: str
    amount_cents: int
    currency: str
    payment_status: ChargeStatus
    created_at: datetime
    metadata: Mapping[str, str] = field(default_factory=dict)
    refunded_cents: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCharges:
    """All charges requested, in any order."""

    charges: tuple[ProviderCharge, ...]


# Requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect(Request[Connected]):
    """A connection, its credentials or its code are new: register `notice_url` for notices, and fetch credentials.

    A kind that registers nothing answers `Connected()`.
    """

    notice_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Disconnect(Request[Done]):
    """End a connection: stop notices, as far as the provider allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCustomer(Request[CustomerCreated]):
    """Create the customer at the provider, once for each key."""

    payer: Payer
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateCustomer(Request[Done]):
    """Update the customer's name and address at the provider. Kinds that store neither do nothing."""

    payer: Payer


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupUrl(Request[PageUrl]):
    """A page on which the customer leaves a payment method. `key` differs for each page."""

    payer: Payer
    key: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ListMethods(Request[Methods]):
    """The customer's payment methods at the provider, the default first, with their details."""

    payer: Payer


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge(Request[Charged]):
    """Charge a payment method of the customer, at most once for each key.

    `provider_method_id` is the method to use; if it is null, or no longer exists, the customer's default at the
    provider, or the first method. `metadata` is stored with the charge. `on_session`: the customer is present to
    confirm it, so the provider may respond with an action instead of a refusal. `since` is when the same request may
    first have been sent, if it may have been, and `at` is now: providers forget keys.
    """

    payment_id: str
    key: str
    amount_cents: int
    currency: str
    payer: Payer
    payable: Payable
    metadata: Mapping[str, str]
    provider_method_id: str | None = None
    on_session: bool = False
    since: datetime | None = None
    at: datetime | None = None

    @property
    def age(self) -> timedelta:
        """How long ago the same request may first have been sent."""
        return timedelta() if self.since is None or self.at is None else self.at - self.since


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateCharge(Request[Done]):
    """Update the charge of an invoice that has got a number."""

    provider_payment_id: str
    reference: str
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(Request[Charged | None]):
    """Cancel a charge that has not succeeded. None: it can no longer be cancelled, or a notice will report it."""

    provider_payment_id: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refund(Request[Refunded]):
    """Pay back part of a charge, at most once for each key.

    `reason` is the credit note's, if it is for one; `refunded_before_cents` the sum of earlier refunds of the charge.
    `since` and `at` as in `Charge`.
    """

    provider_payment_id: str
    key: str
    credit_note_id: str | None
    invoice_id: str
    customer_id: str
    amount_cents: int
    currency: str
    reason: str
    refunded_before_cents: int = 0
    since: datetime | None = None
    at: datetime | None = None

    @property
    def age(self) -> timedelta:
        """How long ago the same request may first have been sent."""
        return timedelta() if self.since is None or self.at is None else self.at - self.since

    @property
    def mark(self) -> tuple[str, str]:
        """The name and value that identify it in the provider's list."""
        return ("svc_credit_note_id" if self.key == self.credit_note_id else "svc_refund_id", self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckoutUrl(Request[PageUrl]):
    """A page on which the customer pays `amount_cents`. It ends at `expires_at`, if that is known.

    `page_id` is ours; `keeps_method`: the method is saved for later charges.
    """

    page_id: str
    key: str
    amount_cents: int
    currency: str
    payer: Payer
    payable: Payable
    metadata: Mapping[str, str]
    at: datetime
    expires_at: datetime | None
    keeps_method: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirePage(Request[Done]):
    """End a page early; one that is paid or has ended is left unchanged."""

    provider_page_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCharges(Request[ProviderCharges]):
    """The charges in the provider's books made between `since` (inclusive) and `until` (exclusive)."""

    since: datetime
    until: datetime


class ProviderErrand(StrEnum):
    """Requests to a payment provider other than charges; the comments name the record of the task's `subject_id`."""

    CONNECT = "connect"  # a connection is new
    DISCONNECT = "disconnect"  # a connection has ended
    CREATE_CUSTOMER = "create_customer"  # a customer is to exist at the provider
    UPDATE_CUSTOMER = "update_customer"  # a customer has another name or address
    SETUP_URL = "setup_url"  # a customer is to leave a payment method
    FETCH_METHODS = "fetch_methods"  # a customer was linked who may have methods already
    CANCEL = "cancel"  # a payment is no longer needed
    UPDATE_CHARGE = "update_charge"  # the invoice of a payment has got a number
    REFUND = "refund"  # an attempt at a refund is to be made
    EXPIRE_PAGE = "expire_page"  # a page must no longer be used to pay
    NOTICE = "notice"  # a notice has come in
    LOOK_UP_CHARGE = "look_up_charge"  # no notice of a charge has come
    LOOK_UP_PAGE = "look_up_page"  # no notice of a payment on a page has come
    LOOK_UP_REFUND = "look_up_refund"  # no notice of a refund has come
    RELEASE_HOLD = "release_hold"  # an authorized amount must not be held; the subject is the key of that request


# Failures


class FailureKind(StrEnum):
    """Why there is no response; it decides the fate of the payment, and whether to retry.

    Unless stated otherwise, the provider has taken nothing and never will for this key. `UNREACHABLE` and `THROTTLED`
    leave that open: the same request is resent with the same key, and no other replaces it.
    """

    DECLINED = "declined"  # declined by the bank, now and for this method
    ACTION_REQUIRED = "action_required"  # the customer has to confirm it, but is not present
    TOO_SMALL = "too_small"  # below the provider's minimum
    CONFLICT = "conflict"  # the key was used for another request, whose outcome is unknown
    REFUSED = "refused"  # the request is wrong: a method or customer that no longer exists, an unsupported currency
    FORGOTTEN = "forgotten"  # sent so long ago that its key may be forgotten: only a person can find out the outcome
    UNAUTHORIZED = "unauthorized"  # the credentials are not accepted, or lack permission (401, 403)
    UNREACHABLE = "unreachable"  # no connection, no response in time, 5xx, an unreadable response
    THROTTLED = "throttled"  # 429
    NOT_SUPPORTED = "not_supported"  # this kind of provider does not support it


# The code of a charge or refund that ended without a word from its provider.
OUTCOME_UNKNOWN = "outcome_unknown"
# No response yet: the same request is sent again.
TEMPORARY_FAILURES = (FailureKind.UNREACHABLE, FailureKind.THROTTLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFailure:
    """No response: the provider's code and words, which can be shown (no credentials).

    `provider_payment_id` is set if the provider has recorded the failed charge under an id. `details` go into
    `error_details` of webhooks: for Stripe code, message, request_id, http_status and http_body. `gone_method_ids` as
    in `Charged`.
    """

    kind: FailureKind
    code: str | None
    message: str
    provider_payment_id: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    gone_method_ids: tuple[str, ...] = ()


def as_known(request: Request[Any], failure: ProviderFailure) -> ProviderFailure:
    """What a failure says about the money that the request moves.

    Credentials that are refused say nothing about an earlier attempt whose answer was lost: its outcome stays unknown,
    and it is resent with the same key once they are accepted again. A page or charge that is to be ended can still
    take money until then.
    """
    may_be_done = isinstance(request, Charge | Refund) and request.since is not None
    is_open = (may_be_done or isinstance(request, Cancel | ExpirePage)) and failure.kind is FailureKind.UNAUTHORIZED
    return replace(failure, kind=FailureKind.UNREACHABLE) if is_open else failure


class ProviderFailed(Exception):
    """A provider did not do what was requested."""

    def __init__(self, failure: ProviderFailure) -> None:
        super().__init__(f"{failure.kind}: {failure.code}: {failure.message}")
        self.failure = failure


# Notices


class NoticeRejected(Exception):
    """A notice that is not the provider's, or unreadable: it has no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One event reported by a provider, in a message with a valid signature.

    `id` identifies repeated events: the provider's id, else a digest of the content. `body` is the JSON text of this
    event alone.
    """

    id: str
    type: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentMoved:
    """The state of a charge, or of a payment on one of our pages, has changed.

    `amount_cents` and `currency` are those the provider reports, if any. `payable_type`, `payable_id` and `payment_id`
    come from our metadata (`named_payable`); `creates`: it may be a payment on a page that we have not seen before.
    `method` is the payment method, as far as known; `known_as` are other ids by which we may know the payment.

    `is_current`: no older state follows, so that a failure undoes a success. `is_disputed`: the customer's bank has
    taken the money back as the customer wanted. `happened_at` is when that was, if the provider tells.
    """

    provider_payment_id: str
    status: str
    payment_status: ChargeStatus
    happened_at: datetime | None = None
    is_current: bool = False
    is_disputed: bool = False
    amount_cents: int | None = None
    currency: str | None = None
    payable_type: PayableType | None = None
    payable_id: str | None = None
    payment_id: str | None = None
    creates: bool = False
    error_code: str | None = None
    error_message: str | None = None
    method: MethodDetails | None = None
    known_as: tuple[str, ...] = ()

    @property
    def undoes(self) -> bool:
        """Whether it undoes a payment that has succeeded: such news names nothing but the payment."""
        is_failure = self.is_current and self.payment_status is ChargeStatus.FAILED
        return is_failure and self.payable_id is None and self.payment_id is None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundMoved:
    """The state of a refund has changed. `key` is our key of its request, where the provider returns it."""

    provider_refund_id: str
    status: str
    refund_status: PaymentStatus
    key: str | None = None


# Look-ups: what a notice would say, asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUpCharge(Request[PaymentMoved | None]):
    """The state of a charge now, by the provider's id, else by ours; it was first sent at `since`. None: the provider
    has no such charge.
    """

    payment_id: str
    provider_payment_id: str | None
    provider_customer_id: str | None
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUpPage(Request[PaymentMoved | None]):
    """The payment made on a page, with the ids that its notice has. None: there is none."""

    page_id: str
    provider_page_id: str | None
    payable_type: PayableType
    payable_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUpRefund(Request[RefundMoved]):
    """The state of a refund now."""

    provider_refund_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodAdded:
    """The customer has left a payment method, or made it the default. We store it as the default too.

    The customer is identified by `provider_customer_id`, or by `customer_id` if the provider returns that one.
    """

    method: MethodDetails
    provider_customer_id: str | None = None
    customer_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultMethodCleared:
    """The customer no longer has a default method at the provider."""

    provider_customer_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodRemoved:
    """A payment method can no longer be used. `stays_listed`: the customer still sees it, with its state."""

    provider_method_id: str
    stays_listed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountReady:
    """A provider that cannot create customers on request has created one, with this method (Adyen's zero
    authorisation).
    """

    external_customer_id: str
    provider_customer_id: str
    method: MethodDetails | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRefused:
    """The customer's method was not accepted on the set-up page."""

    external_customer_id: str
    message: str
    error_code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputeLost:
    """The customer's bank has taken a payment back for good, at `lost_at`."""

    provider_payment_id: str
    lost_at: datetime
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputeWon:
    """The customer's bank has given a payment back after a dispute, at `won_at`."""

    provider_payment_id: str
    won_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FeeTold:
    """What the provider keeps of a payment, in cents of the currency in which it pays out."""

    provider_payment_id: str
    amount_cents: int
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unhandled:
    """The event has no effect. Unless that is `known` to be right, it is kept for somebody to look at."""

    reason: str
    known: bool = True


Outcome = (
    PaymentMoved
    | RefundMoved
    | MethodAdded
    | DefaultMethodCleared
    | MethodRemoved
    | AccountReady
    | AccountRefused
    | DisputeLost
    | DisputeWon
    | FeeTold
    | Unhandled
)
