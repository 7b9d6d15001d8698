"""Collecting: when a charge is sent again, what follows from its answer, and what people read on their statements."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from usagebill.core.customers import Customer
from usagebill.core.invoices.life_cycle import NOT_TO_BE_PAID, VISIBLE, InvoiceStatus, InvoiceType
from usagebill.core.invoices.payment_states import PaymentEvent
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.provider_requests import FailureKind, Payable, PayableType
from usagebill.core.statuses import ChargeStatus, PaymentStatus

__all__ = [
    "AUTHENTICATION_REQUIRED",
    "FIRST_ATTEMPT_DELAY",
    "MOST_QUICK_ATTEMPTS",
    "Collectable",
    "Consequence",
    "charge_key",
    "collectable_invoice",
    "consequence",
    "display_name",
    "first_charge_delay",
    "first_email",
    "is_collected_on_issue",
    "retry_delay",
]

# The error code of a charge that its customer has to confirm; another charge of the same may ask for that.
AUTHENTICATION_REQUIRED = "authentication_required"
# While an organization has customers pay on pages, they are left this time before their method is charged.
FIRST_ATTEMPT_DELAY = timedelta(minutes=10)
# How often a provider that does not answer is asked again soon; then once an hour, until it does.
MOST_QUICK_ATTEMPTS = 6
_HOURLY = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collectable:
    """An invoice or a payment request to collect; cents of `currency`.

    `is_collectable` is False where nothing may be charged whatever is due: voided, self-billed. `is_gated`: a
    subscription waits for it, or it is hidden until it is paid. `choice` is how the caller wants it paid, if not with
    the customer's default method.
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
        """The field of a payment that names it."""
        return "invoice_id" if self.type is PayableType.INVOICE else "payment_request_id"


def collectable_invoice(invoice: Invoice, payable: Payable, choice: PaymentMethodChoice | None) -> Collectable:
    """An invoice as what is to be collected; `payable` is what the provider gets."""
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
    """Whether an invoice that can be paid from now on is charged: its customer has a provider that does so."""
    if customer.payment_connection_id is None or invoice.skip_automatic_payment or invoice.self_billed:
        return False
    return invoice.payment_status != PaymentStatus.SUCCEEDED


def first_charge_delay(invoice: Invoice, *, is_urgent: bool, has_pages: bool) -> timedelta:
    """How long an invoice waits for its first charge: some minutes, if its customer may pay it on a page meanwhile.

    What `is_urgent` does not wait: somebody waits for its payment.
    """
    waits = has_pages and not is_urgent and invoice.payment_attempts == 0
    return FIRST_ATTEMPT_DELAY if waits else timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequence:
    """What a failed charge makes of its payment and of what it was to pay.

    `tells`: a webhook announces the failure. `notes`: the error is shown with the invoice.
    """

    payment_status: ChargeStatus
    event: PaymentEvent
    tells: bool
    notes: bool


_FAILED = Consequence(payment_status=ChargeStatus.FAILED, event=PaymentEvent.CHARGE_FAILED, tells=True, notes=False)
_REFUSED = Consequence(payment_status=ChargeStatus.FAILED, event=PaymentEvent.CHARGE_FAILED, tells=True, notes=True)
_LEFT = Consequence(payment_status=ChargeStatus.PENDING, event=PaymentEvent.CHARGE_PENDING, tells=False, notes=True)
_UNCONFIRMED = Consequence(
    payment_status=ChargeStatus.FAILED, event=PaymentEvent.CHARGE_FAILED, tells=False, notes=False
)
_AGAIN = Consequence(payment_status=ChargeStatus.FAILED, event=PaymentEvent.CHARGE_AGAIN, tells=False, notes=False)


def consequence(kind: FailureKind, *, asks_customer: bool) -> Consequence:
    """What follows from a failure that is not simply asked again. `asks_customer`: the customer may be asked to act."""
    if kind is FailureKind.ACTION_REQUIRED:
        return _AGAIN if asks_customer else _UNCONFIRMED
    if kind in (FailureKind.TOO_SMALL, FailureKind.CONFLICT):
        return _LEFT
    return _FAILED if kind is FailureKind.DECLINED else _REFUSED


def retry_delay(attempts: int) -> timedelta:
    """How long to wait after so many attempts without an answer: 3, 18, 83, 258 seconds, 10 minutes, then an hour."""
    if attempts >= MOST_QUICK_ATTEMPTS:
        return _HOURLY
    return timedelta(seconds=attempts**4 + 2)


def charge_key(payment_id: str) -> str:
    """The idempotency key of a payment's charge."""
    return f"payment-{payment_id}"


def display_name(customer: Customer) -> str | None:
    """The customer's name at a provider: its name, else first and last name."""
    return customer.name or " ".join(part for part in (customer.firstname, customer.lastname) if part) or None


def first_email(addresses: str | None) -> str | None:
    """The first of several addresses with commas between them."""
    return (addresses or "").split(",")[0].strip() or None
