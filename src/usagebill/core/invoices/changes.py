"""Changes of invoices: refused requests, and the invoice after payments, credit notes and the passage of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime

from usagebill.core.errors import BillingError, Forbidden, Invalid, NotAllowed
from usagebill.core.invoices.life_cycle import PAYABLE, UNDONE, InvoiceEvent, InvoiceStatus, InvoiceType, transition
from usagebill.core.invoices.records import Credit, Invoice, InvoiceMetadata
from usagebill.core.periods.schedule import overdue_at
from usagebill.core.statuses import INVOICE_PAYMENT_STATUSES, PaymentStatus

_MOST_METADATA = 5
_LONGEST_KEY = 20
_LONGEST_VALUE = 140


def update_refusal(
    status: InvoiceStatus, payment_status: PaymentStatus, *, sent_status: str | None, items: int | None
) -> BillingError | None:
    """The refusal to update an invoice in this state; None if it may be updated.

    `sent_status` is the payment status that was sent, `items` the number of metadata items, None if not sent.
    """
    is_draft = status == InvoiceStatus.DRAFT
    if status == InvoiceStatus.VOIDED:
        return NotAllowed("update_on_voided_invoice", status)
    if items is not None and is_draft:
        return NotAllowed("metadata_on_draft_invoice", status)
    if sent_status is not None and sent_status not in INVOICE_PAYMENT_STATUSES:
        return Invalid(payment_status="value_is_invalid")
    if items is not None and items > _MOST_METADATA:
        return Invalid(metadata="invalid_count")
    if sent_status is not None and sent_status != payment_status and is_draft:
        return NotAllowed("payment_status_update_on_draft_invoice", status)
    return None


def metadata_problems(items: Sequence[InvoiceMetadata]) -> Mapping[str, object]:
    """Errors in an invoice's metadata, as field -> codes."""
    problems: dict[str, object] = {}
    for field, longest in (("key", _LONGEST_KEY), ("value", _LONGEST_VALUE)):
        texts = [getattr(item, field) for item in items]
        if any(not text.strip() for text in texts):
            problems[field] = ["value_is_mandatory"]
        elif any(len(text) > longest for text in texts):
            problems[field] = ["value_is_too_long"]
    keys = Counter(item.key for item in items)
    if "key" not in problems and any(count > 1 for count in keys.values()):
        problems["key"] = ["value_already_exist"]
    return problems


def payment_refusal(invoice_type: InvoiceType, status: InvoiceStatus) -> BillingError | None:
    """The refusal to record a payment for an invoice of this type in this state; None if one may be recorded."""
    if invoice_type != InvoiceType.ADVANCE_CHARGES and status not in PAYABLE:
        return Forbidden("feature_unavailable")
    return None


def void_refusal(payment_status: PaymentStatus, *, gives_back: bool) -> BillingError | None:
    """The refusal to void an issued invoice; None if it may be voided. A paid one needs a credit note that
    `gives_back`.
    """
    if payment_status == PaymentStatus.SUCCEEDED and not gives_back:
        return NotAllowed("not_voidable", f"paid, its payment_status {payment_status}")
    return None


def voided(invoice: Invoice, now: datetime) -> Invoice:
    """The invoice as voided: nothing is due, and it is not collected. Raises `NotAllowed`."""
    return replace(
        invoice,
        status=transition(invoice.status, InvoiceEvent.VOID),
        voided_at=now,
        payment_overdue=False,
        ready_for_payment_processing=False,
        updated_at=now,
    )


def with_offset(invoice: Invoice, cents: int, now: datetime) -> Invoice:
    """The invoice after a credit note has offset `cents` of it."""
    offset = invoice.total_offset_amount_cents + cents
    return replace(invoice, total_offset_amount_cents=offset, updated_at=now)


def with_payment_status(invoice: Invoice, status: PaymentStatus, now: datetime) -> Invoice:
    """The invoice with this payment status; once paid, it is no longer overdue."""
    is_overdue = invoice.payment_overdue and status != PaymentStatus.SUCCEEDED
    return replace(invoice, payment_status=status, payment_overdue=is_overdue, updated_at=now)


def overdue_from(invoice: Invoice) -> datetime | None:
    """The instant from which the invoice is overdue; None if it is not going to be, or already is.

    Only an issued, unpaid invoice becomes overdue, and not after a lost dispute.
    """
    if invoice.status != InvoiceStatus.FINALIZED or invoice.payment_status == PaymentStatus.SUCCEEDED:
        return None
    if invoice.payment_overdue or invoice.payment_dispute_lost_at is not None:
        return None
    return overdue_at(invoice.payment_due_date)


def finalized_before(invoice: Invoice, drafts: Iterable[Invoice]) -> list[Invoice]:
    """The drafts to finalize before `invoice`, in the order of finalization."""
    return sorted((draft for draft in drafts if _turn(draft) < _turn(invoice)), key=_turn)


def _turn(draft: Invoice) -> tuple[date, datetime, str]:
    return draft.finalization_day, draft.created_at, draft.id


def taken_until_undone(undone: Invoice, credit: Credit, credits: Iterable[tuple[Invoice, Credit]]) -> int:
    """The cents that a coupon had taken off until `undone` gave its `credit` back: those on other invoices in force.

    `credits` are the coupon's credits with their invoices; `undone` may or may not have its final status yet.
    """
    credits_in_force = (
        applied.used_cents for invoice, applied in credits if invoice.status not in UNDONE and invoice.id != undone.id
    )
    return credit.used_cents + sum(credits_in_force)
