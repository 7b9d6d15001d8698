"""Changes of invoices that a request asks for: which are refused, and with which codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from usagebill.core.errors import BillingError, Forbidden, Invalid, NotAllowed
from usagebill.core.invoices.life_cycle import PAYABLE, InvoiceStatus, InvoiceType
from usagebill.core.invoices.records import InvoiceMetadata
from usagebill.core.statuses import INVOICE_PAYMENT_STATUSES, PaymentStatus

__all__ = ["metadata_problems", "payment_refusal", "update_refusal"]

_MOST_METADATA = 5
_LONGEST_KEY = 20
_LONGEST_VALUE = 140


def update_refusal(
    status: InvoiceStatus, payment_status: PaymentStatus, *, sent_status: str | None, items: int | None
) -> BillingError | None:
    """Why an invoice in this state is not updated; None if it is.

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
    """What is wrong with an invoice's metadata, as field -> codes."""
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
    """Why no payment is recorded for an invoice of this type in this state; None if one may be."""
    if invoice_type != InvoiceType.ADVANCE_CHARGES and status not in PAYABLE:
        return Forbidden("feature_unavailable")
    return None
