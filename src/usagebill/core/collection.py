"""Collection: when a charge is retried, the consequences of its answer, and the texts on bank statements."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from usagebill.core.customers import Customer
from usagebill.core.invoices.life_cycle import NOT_COLLECTABLE, NOT_TO_BE_PAID, VISIBLE, InvoiceStatus, InvoiceType
from usagebill.core.invoices.payment_states import PaymentEvent
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.provider_requests import (
    OUTCOME_UNKNOWN,
    TEMPORARY_FAILURES,
    FailureKind,
    Payable,
    PayableType,
    ProviderFailure,
)
from usagebill.core.statuses import ChargeStatus, PaymentStatus

# The error code of a charge that its customer has to confirm; another charge may ask for confirmation too.
AUTHENTICATION_REQUIRED = "authentication_required"
# If customers may pay on hosted pages, they get this much time before their payment method is charged.
FIRST_ATTEMPT_DELAY = timedelta(minutes=10)
# A provider that does not answer is retried this often at short intervals, then once an hour.
MOST_QUICK_ATTEMPTS = 6
_HOURLY = timedelta(hours=1)
# As long as a debit of a bank account is waited for.
_LONGEST_UNANSWERED = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collectable:
    """An invoice or a payment request to collect, in cents of `currency`.

    `is_collectable` is False if nothing may be charged whatever is due: voided, self-billed. `is_gated`: a subscription
    waits for it, or it is hidden until it is paid. `choice` is the caller's payment method, if not the customer's
    default.
    """

    type: PayableType
    id: str
    customer_id: str
    due_cents: int
    currency: str
    payment_status: PaymentStatus
    is_ready: bool
    is_collectable: bool
    is_gated: bool
    is_shown: bool
    payable: Payable
    choice: PaymentMethodChoice | None = None

    @property
    def invoice_id(self) -> str | None:
        """Its id, if it is an invoice."""
        return self.id if self.type is PayableType.INVOICE else None

    @property
    def payment_request_id(self) -> str | None:
        """Its id, if it is a payment request."""
        return self.id if self.type is PayableType.PAYMENT_REQUEST else None

    @property
    def column(self) -> str:
        """The field of a payment that refers to it."""
        return "invoice_id" if self.type is PayableType.INVOICE else "payment_request_id"


def collectable_invoice(invoice: Invoice, payable: Payable, choice: PaymentMethodChoice | None) -> Collectable:
    """The invoice as something to collect; `payable` is what the provider is sent."""
    return Collectable(
        type=PayableType.INVOICE,
        id=invoice.id,
        customer_id=invoice.customer_id,
        due_cents=max(0, invoice.due_cents),
        currency=invoice.currency,
        payment_status=invoice.payment_status,
        is_ready=invoice.ready_for_payment_processing,
        is_collectable=not invoice.self_billed and invoice.status not in NOT_TO_BE_PAID,
        is_gated=invoice.status == InvoiceStatus.OPEN and invoice.invoice_type != InvoiceType.CREDIT,
        is_shown=invoice.status in VISIBLE,
        payable=payable,
        choice=choice,
    )


def is_collected_on_issue(invoice: Invoice, customer: Customer) -> bool:
    """Whether an invoice is charged as soon as it can be paid: its customer has a provider that collects."""
    if customer.payment_connection_id is None or invoice.skip_automatic_payment or invoice.self_billed:
        return False
    return invoice.payment_status != PaymentStatus.SUCCEEDED


def first_charge_delay(invoice: Invoice, *, is_urgent: bool, has_pages: bool) -> timedelta:
    """How long an invoice waits for its first charge: some minutes, if its customer may pay it on a page meanwhile.

    Nothing if it `is_urgent`, that is if somebody waits for its payment.
    """
    waits = has_pages and not is_urgent and invoice.payment_attempts == 0
    return FIRST_ATTEMPT_DELAY if waits else timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequence:
    """The consequences of a failed charge for its payment and for the invoice or payment request.

    `tells`: a webhook announces the failure. `notes`: the error is shown with the invoice.
    """

    payment_status: ChargeStatus
    event: PaymentEvent
    tells: bool
    notes: bool


_FAILED = Consequence(payment_status=ChargeStatus.FAILED, event=PaymentEvent.CHARGE_FAILED, tells=True, notes=False)
_REFUSED = Consequence(payment_status=ChargeStatus.FAILED, event=PaymentEvent.CHARGE_FAILED, tells=True, notes=True)
_LEFT = Consequence(payment_status=ChargeStatus.PENDING, event=PaymentEvent.CHARGE_PENDING, tells=False, notes=True)
_UNKNOWN = Consequence(payment_status=ChargeStatus.FAILED, event=PaymentEvent.CHARGE_UNKNOWN, tells=True, notes=True)
_UNCONFIRMED = Consequence(
    payment_status=ChargeStatus.FAILED, event=PaymentEvent.CHARGE_FAILED, tells=False, notes=False
)
_AGAIN = Consequence(payment_status=ChargeStatus.FAILED, event=PaymentEvent.CHARGE_AGAIN, tells=False, notes=False)


def consequence(kind: FailureKind, *, asks_customer: bool) -> Consequence:
    """The consequences of a failure that is not simply retried. `asks_customer`: the customer may be asked to act."""
    match kind:
        case FailureKind.ACTION_REQUIRED:
            return _AGAIN if asks_customer else _UNCONFIRMED
        case FailureKind.TOO_SMALL | FailureKind.CONFLICT:
            return _LEFT
        case FailureKind.DECLINED:
            return _FAILED
        case FailureKind.FORGOTTEN:
            return _UNKNOWN
        case (
            FailureKind.REFUSED
            | FailureKind.UNAUTHORIZED
            | FailureKind.UNREACHABLE
            | FailureKind.THROTTLED
            | FailureKind.NOT_SUPPORTED
        ):
            return _REFUSED
        case _:
            assert_never(kind)


def retry_delay(attempts: int) -> timedelta:
    """How long to wait after this many attempts without an answer: 3, 18, 83, 258 seconds, 10 minutes, then an hour."""
    if attempts >= MOST_QUICK_ATTEMPTS:
        return _HOURLY
    return timedelta(seconds=attempts**4 + 2)


def given_up(failure: ProviderFailure, since: datetime, now: datetime) -> ProviderFailure:
    """The failure of a request that was first sent at `since`. If there has been no answer for too long, its outcome is
    unknown: it is not sent again.
    """
    if failure.kind not in TEMPORARY_FAILURES or now - since < _LONGEST_UNANSWERED:
        return failure
    message = f"the provider has not answered for {_LONGEST_UNANSWERED.days} days ({failure.message})"
    return ProviderFailure(kind=FailureKind.FORGOTTEN, code=OUTCOME_UNKNOWN, message=message)


def charge_key(payment_id: str) -> str:
    """The idempotency key of a payment's charge."""
    return f"payment-{payment_id}"


def display_name(customer: Customer) -> str | None:
    """The customer's name at a provider: its name, else first and last name."""
    return customer.name or " ".join(part for part in (customer.firstname, customer.lastname) if part) or None


def first_email(addresses: str | None) -> str | None:
    """The first of several comma-separated addresses."""
    return (addresses or "").split(",")[0].strip() or None


def is_open_to_payment(invoice: Invoice) -> bool:
    """Whether an invoice may still be collected on request: it is no draft, not voided and not paid."""
    return invoice.status not in NOT_COLLECTABLE and invoice.payment_status != PaymentStatus.SUCCEEDED
