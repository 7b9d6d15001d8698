"""What a request for a credit note may ask for: of which invoice, in which parts, and over what amounts."""

from __future__ import annotations

from decimal import Decimal

from usagebill.core import limits
from usagebill.core.credit_notes import Parts
from usagebill.core.invoices.life_cycle import CREDITABLE, InvoiceStatus, InvoiceType
from usagebill.core.numbers import parse_decimal
from usagebill.core.statuses import PaymentStatus

__all__ = ["is_unpaid_top_up", "item_amount", "item_problem", "takes_notes", "takes_parts"]

# Invoices of the first version take no notes.
_FIRST_VERSION = 2


def is_unpaid_top_up(invoice_type: InvoiceType, payment_status: PaymentStatus) -> bool:
    """Whether the invoice is for credits that nobody has paid for yet."""
    return invoice_type == InvoiceType.CREDIT and payment_status in (PaymentStatus.PENDING, PaymentStatus.FAILED)


def takes_notes(
    status: InvoiceStatus, version_number: int, invoice_type: InvoiceType, *, wallet_is_active: bool
) -> bool:
    """Whether notes may be made of an invoice; of a top-up, while the wallet of its credits is active."""
    if status not in CREDITABLE or version_number < _FIRST_VERSION:
        return False
    return invoice_type != InvoiceType.CREDIT or wallet_is_active


def takes_parts(invoice_type: InvoiceType, payment_status: PaymentStatus, parts: Parts) -> bool:
    """Whether a note may have these parts: of credits that are not paid for, nothing can be given back."""
    return not is_unpaid_top_up(invoice_type, payment_status) or (parts.credit <= 0 and parts.refund <= 0)


def item_amount(sent: object) -> Decimal | None:
    """The amount sent for an item, zero if none is; None for what is no amount."""
    if isinstance(sent, bool):
        return None
    if sent is None:
        return Decimal(0)
    if isinstance(sent, (int, Decimal)):
        amount: Decimal | None = Decimal(sent)
    else:
        amount = parse_decimal(sent.strip()) if isinstance(sent, str) else None
    return amount if amount is not None and limits.INVOICE_PART.holds(amount) else None


def item_problem(cents: int, *, left_cents: int, unused_cents: int | None) -> str | None:
    """The error code for an item of so many cents, before taxes and coupons; None if there is so much left of its fee.

    `unused_cents` is what the wallet still holds of a top-up, None for any other invoice.
    """
    if cents <= left_cents:
        return None
    beyond_wallet = unused_cents is not None and cents > unused_cents
    return "higher_than_wallet_balance" if beyond_wallet else "higher_than_remaining_fee_amount"
