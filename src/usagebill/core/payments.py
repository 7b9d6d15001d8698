"""Payments: money received for an invoice or a payment request, recorded by hand or collected through a provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from usagebill.core.credit_notes import CreditNote
from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.provider_requests import OUTCOME_UNKNOWN, Charge, MethodDetails, PayableType
from usagebill.core.statuses import ChargeStatus, PaymentStatus

LONGEST_REFERENCE = 40
# The code of a refund of unknown outcome, once somebody has looked and said that the provider has not made it.
NOT_MADE = "not_made"

# The reference of the payment that an invoice of already paid fees is created with.
CHARGES_PAID_IN_ADVANCE = "Charges paid in advance"

# States of a payment that may still move money; an invoice or payment request has at most one at a time.
LIVE = (ChargeStatus.PENDING, ChargeStatus.PROCESSING)


class MoneyBack(StrEnum):
    """The state of a payment for something that is no longer to be paid, such as a subscription that was given up."""

    OWED = "to_be_refunded"  # the provider has refused to pay it back, or cannot: somebody has to do it
    PENDING = "refund_pending"
    DONE = "refunded"


GIVEN_BACK = tuple(MoneyBack)


class SurplusBack(StrEnum):
    """The state of a payment of which a part goes back, and the rest is kept: it brought more than was due, or some of
    its invoices were voided meanwhile.
    """

    OWED = "surplus_to_be_refunded"  # see `MoneyBack`
    PENDING = "surplus_refund_pending"
    DONE = "surplus_refunded"


SURPLUS_BACK = tuple(SurplusBack)


class TakenBack(StrEnum):
    """The state of a payment that succeeded, and whose money the bank took back."""

    RETURNED = "returned"  # for lack of funds, or it was never captured: it has failed after all, and the debt is open
    DISPUTED = "dispute_lost"  # as the customer wanted: it has succeeded, its invoices have a lost dispute


# The state of a payment that succeeded, and about which a dispute was won.
DISPUTE_WON = "dispute_won"

# What became of all the money of a payment: a refund of a part of it does not change that.
OF_ALL_MONEY = (*TakenBack, DISPUTE_WON)

# States of a payment of which a person has to give something back.
TO_BE_REFUNDED = (MoneyBack.OWED, SurplusBack.OWED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """A payment of an invoice, or of a payment request, in its currency's cents. `created_at` is when it was paid, or,
    through a provider, when it was started.

    With a `connection_id` it is collected by that provider: `status` is the provider's own state, `payment_status`
    ours; `status` is a `MoneyBack` or `SurplusBack` once money of it is to be given back, or `TakenBack`. `sent` is the
    request that the provider was sent. While it is `unanswered` (the outcome is unknown), the same request is resent,
    however much has changed meanwhile. `method` is the payment method as it was at the time. `received_at` is when the
    provider took the money, by its own word; null if that came at once, or without a time. `disputed_at` is when its
    latest dispute was lost or won, by the provider's word: news of earlier ones come too late.
    `provider_fee_amount_cents` is what the provider keeps of it, in cents of `provider_fee_currency`, in which it pays
    out: null where it does not tell.
    """

    id: str
    organization_id: str
    customer_id: str
    amount_cents: int
    amount_currency: str
    created_at: datetime
    updated_at: datetime
    invoice_id: str | None = None
    payment_request_id: str | None = None
    reference: str | None = None
    status: str = "succeeded"
    payment_status: ChargeStatus = ChargeStatus.SUCCEEDED
    connection_id: str | None = None
    payment_provider_type: str | None = None
    payment_provider_code: str | None = None
    provider_customer_id: str | None = None
    provider_payment_id: str | None = None
    payment_method_id: str | None = None
    method: MethodDetails | None = None
    next_action: Mapping[str, object] = field(default_factory=dict)
    error_code: str | None = None
    attempts: int = 0
    sent: Charge | None = None
    unanswered: bool = False
    sent_at: datetime | None = None
    received_at: datetime | None = None
    disputed_at: datetime | None = None
    provider_fee_amount_cents: int | None = None
    provider_fee_currency: str | None = None
    # False while its invoice is hidden.
    is_shown: bool = True

    @property
    def is_manual(self) -> bool:
        """Whether it was recorded by hand."""
        return self.connection_id is None

    @property
    def payable_type(self) -> PayableType:
        """The kind of record it pays."""
        return PayableType.INVOICE if self.payment_request_id is None else PayableType.PAYMENT_REQUEST

    @property
    def payable_id(self) -> str:
        """The id of the invoice or payment request that it pays."""
        return self.payment_request_id or self.invoice_id or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentMethod:
    """A card, mandate, ... of a customer at a provider, which can be charged in the customer's absence.

    `is_usable` is False once it is known that it can no longer be charged, although the provider still has it.
    """

    id: str
    organization_id: str
    customer_id: str
    connection_id: str
    provider_method_id: str
    created_at: datetime
    updated_at: datetime
    is_default: bool = False
    is_usable: bool = True
    details: MethodDetails | None = None
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentPage:
    """A page at a provider to pay the amount that was due on an invoice or payment request when the page was
    created.
    """

    id: str
    organization_id: str
    customer_id: str
    connection_id: str
    amount_cents: int
    currency: str
    url: str
    created_at: datetime
    expires_at: datetime
    invoice_id: str | None = None
    payment_request_id: str | None = None
    provider_page_id: str | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundAttempt:
    """A refund of `payment_id` through its provider, in cents of the payment's currency: for a credit note, or a part
    of that, if several payments are needed.

    Without a note, what was paid for the invoice beyond what it needs is given back: all of it, if nobody is to pay it
    any more. What was given back by hand has succeeded without a request. `attempts` counts the requests to the
    provider, answered or not.
    """

    id: str
    organization_id: str
    customer_id: str
    invoice_id: str
    payment_id: str
    connection_id: str
    amount_cents: int
    currency: str
    created_at: datetime
    updated_at: datetime
    credit_note_id: str | None = None
    refunded_before_cents: int = 0
    provider_refund_id: str | None = None
    status: str = "pending"
    refund_status: PaymentStatus = PaymentStatus.PENDING
    error_code: str | None = None
    # Those that were ordered before this was counted may have been asked for.
    attempts: int = 1


class NoticeStatus(StrEnum):
    """The outcome of a provider's notice."""

    PENDING = "pending"
    SUCCEEDED = "succeeded"
    IGNORED = "ignored"  # it has no effect, as expected
    UNHANDLED = "unhandled"  # somebody should look at it
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderNotice:
    """A notice from a provider, as received. `event_id` identifies repeated ones."""

    id: str
    organization_id: str
    connection_id: str
    event_id: str
    type: str
    body: str
    created_at: datetime
    updated_at: datetime
    status: NoticeStatus = NoticeStatus.PENDING
    reason: str | None = None
    attempts: int = 0


def payment_errors(invoice: Invoice, amount_cents: int, reference: str) -> dict[str, list[str]]:
    """The errors of such a payment of an invoice, as field -> codes; empty if it is valid."""
    errors: dict[str, list[str]] = {}
    if not reference:
        errors["reference"] = ["value_is_mandatory"]
    elif len(reference) > LONGEST_REFERENCE:
        errors["reference"] = ["value_is_too_long"]
    amount = []
    if invoice.invoice_type == InvoiceType.CREDIT and amount_cents != invoice.total_amount_cents:
        amount.append("invalid_amount")
    if amount_cents > invoice.due_cents:
        amount.append("value_is_out_of_range")
    if amount:
        errors["amount_cents"] = amount
    return errors


def payment_by_hand(
    invoice: Invoice, amount_cents: int, reference: str, paid_at: datetime, *, id: str, now: datetime
) -> Payment:
    """A payment of the invoice that no provider collected; the invoice itself does not change here."""
    return Payment(
        id=id,
        organization_id=invoice.organization_id,
        customer_id=invoice.customer_id,
        invoice_id=invoice.id,
        amount_cents=amount_cents,
        amount_currency=invoice.currency,
        reference=reference,
        created_at=paid_at,
        updated_at=now,
        is_shown=invoice.status != InvoiceStatus.OPEN,
    )


def refund_shares(cents: int, payments: Iterable[tuple[Payment, int]]) -> list[tuple[Payment, int]]:
    """The cents of a refund that go back to each payment: the newest first, as far as the cents go that it has left,
    which come with it. Money received by hand is given back by hand, but has its turn.
    """
    shares = []
    for payment, left_cents in sorted(payments, key=lambda paid: (paid[0].created_at, paid[0].id), reverse=True):
        share = min(cents, left_cents)
        if share > 0:
            shares.append((payment, share))
            cents -= share
    return shares


def note_refund_status(refund_cents: int, attempts: Sequence[RefundAttempt]) -> PaymentStatus:
    """The status of a credit note's refund over `refund_cents`: it has failed while somebody has to order more."""
    cents = dict.fromkeys(PaymentStatus, 0)
    for attempt in attempts:
        cents[attempt.refund_status] += attempt.amount_cents
    if cents[PaymentStatus.SUCCEEDED] >= refund_cents:
        return PaymentStatus.SUCCEEDED
    is_open = cents[PaymentStatus.SUCCEEDED] + cents[PaymentStatus.PENDING] < refund_cents
    return PaymentStatus.FAILED if is_open and cents[PaymentStatus.FAILED] else PaymentStatus.PENDING


def money_back_word(payment: Payment, attempts: Sequence[RefundAttempt]) -> MoneyBack | SurplusBack:
    """The state of a payment that is given back, all of it or a surplus, by these attempts without a credit note. Of
    those for an invoice the newest counts: one that failed may have been ordered again.
    """
    newest = {attempt.invoice_id: attempt for attempt in sorted(attempts, key=lambda made: (made.created_at, made.id))}
    statuses = {attempt.refund_status for attempt in newest.values()}
    cents = sum(
        attempt.amount_cents
        for attempt in attempts
        if attempt.refund_status != PaymentStatus.FAILED or attempt is newest[attempt.invoice_id]
    )
    words = MoneyBack if cents >= payment.amount_cents else SurplusBack
    if PaymentStatus.FAILED in statuses:
        return words.OWED
    return words.PENDING if PaymentStatus.PENDING in statuses else words.DONE


def is_refund_late(attempt: RefundAttempt, status: PaymentStatus) -> bool:
    """Whether this is no news about a refund, or old news. One that succeeded can still fail, as the money may come
    back; one that the provider accepted and that failed does not succeed any more, unless it failed for want of a word.
    """
    if attempt.refund_status == PaymentStatus.SUCCEEDED:
        return status != PaymentStatus.FAILED
    has_failed = attempt.refund_status == PaymentStatus.FAILED and attempt.provider_refund_id is not None
    return has_failed and attempt.error_code not in (OUTCOME_UNKNOWN, NOT_MADE)


def is_refund_due(note: CreditNote, invoice: Invoice) -> bool:
    """Whether the note's refund is still to be paid back: never for an invoice whose dispute the customer won."""
    is_open = note.refund_amount_cents > 0 and note.refund_status != PaymentStatus.SUCCEEDED
    return is_open and invoice.payment_dispute_lost_at is None


def is_under_way(payment: Payment) -> bool:
    """Whether a live charge may be moving money: its provider has not answered, or is processing it."""
    return payment.unanswered or payment.payment_status == ChargeStatus.PROCESSING
