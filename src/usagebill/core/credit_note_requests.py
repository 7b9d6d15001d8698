"""Checks of credit note requests: the invoice, the parts, and the amounts."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from usagebill.core import limits
from usagebill.core.credit_note_balance import Balance
from usagebill.core.credit_notes import (
    Credited,
    Parts,
    adjusted_parts,
    gross_total,
    largest_parts,
    validation_errors,
)
from usagebill.core.errors import Invalid, NotFound, placed
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import CREDITABLE, InvoiceStatus, InvoiceType
from usagebill.core.numbers import parse_decimal, round_cents, round_to
from usagebill.core.statuses import PaymentStatus

# Invoices of the first version take no notes.
_FIRST_VERSION = 2


def is_unpaid_top_up(invoice_type: InvoiceType, payment_status: PaymentStatus) -> bool:
    """Whether the invoice is an unpaid top-up."""
    return invoice_type == InvoiceType.CREDIT and payment_status in (PaymentStatus.PENDING, PaymentStatus.FAILED)


def takes_notes(
    status: InvoiceStatus, version_number: int, invoice_type: InvoiceType, *, wallet_is_active: bool
) -> bool:
    """Whether the invoice may have credit notes; a top-up only while the wallet with its credits is active."""
    if status not in CREDITABLE or version_number < _FIRST_VERSION:
        return False
    return invoice_type != InvoiceType.CREDIT or wallet_is_active


def takes_parts(invoice_type: InvoiceType, payment_status: PaymentStatus, parts: Parts) -> bool:
    """Whether a note may have these parts: unpaid credits cannot be given back."""
    return not is_unpaid_top_up(invoice_type, payment_status) or (parts.credit <= 0 and parts.refund <= 0)


def item_amount(sent: object) -> Decimal | None:
    """The amount sent for an item, zero if none was sent; None if it is no amount."""
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
    """The error code for an item of `cents`, before taxes and coupons; None if its fee has that much left.

    `unused_cents` is what the wallet still holds of a top-up, None for any other invoice.
    """
    if cents <= left_cents:
        return None
    beyond_wallet = unused_cents is not None and cents > unused_cents
    return "higher_than_wallet_balance" if beyond_wallet else "higher_than_remaining_fee_amount"


def requested_items(balance: Balance, request: object, *, together: bool = True) -> list[tuple[Fee, Decimal]]:
    """The items of a request, each a fee with an amount before taxes and coupons.

    They are checked one by one; with `together`, items of the same fee add up. Raises `NotFound` for a fee that the
    invoice does not have, and `Invalid`.
    """
    if not isinstance(request, (list, tuple)):
        raise Invalid(items="must_be_an_array")
    amounts: list[tuple[Fee, Decimal]] = []
    credited_cents: dict[str, int] = {}
    unpaid_top_up = is_unpaid_top_up(balance.invoice.invoice_type, balance.invoice.payment_status)
    for position, sent in enumerate(request):
        with placed(f"items[{position}]"):
            fee = balance.fee(sent.get("fee_id")) if isinstance(sent, Mapping) else None
            if fee is None:
                raise NotFound("fee", sent.get("fee_id") if isinstance(sent, Mapping) else None)
            amount = item_amount(sent.get("amount_cents"))
            if amount is None:
                raise Invalid(amount_cents="invalid_value")
            cents = round_cents(amount) + (credited_cents.get(fee.id, 0) if together else 0)
            problem = item_problem(
                cents, left_cents=balance.creditable_cents_of(fee), unused_cents=balance.unused_cents
            )
            if problem is not None and not unpaid_top_up:
                raise Invalid(amount_cents=problem)
            credited_cents[fee.id] = cents
            amounts.append((fee, round_to(amount, 5)))
    return amounts


def fitting_parts(balance: Balance, requested: Parts, result: Credited, *, exact: bool = False) -> Parts:
    """The requested parts, adjusted by rounding cents unless they are `exact`. Raises `Invalid` if items or invoice do
    not allow them.
    """
    invoice, of_other_notes, gross = balance.invoice, balance.parts_of_notes(), gross_total(balance.fees)
    total_cents, paid_cents = invoice.total_amount_cents, invoice.total_paid_amount_cents
    problems = validation_errors(
        requested,
        result,
        gross_cents=gross,
        total_cents=total_cents,
        paid_cents=paid_cents,
        payment_succeeded=invoice.payment_status == PaymentStatus.SUCCEEDED,
        of_other_notes=of_other_notes,
        top_up=invoice.invoice_type == InvoiceType.CREDIT,
    )
    if requested.refund > 0 and invoice.payment_dispute_lost_at is not None:
        problems["refund_amount_cents"] = ["dispute_lost"]
    if exact and requested.total > balance.remainder.total_cents:
        problems["base"] = ["higher_than_remaining_invoice_amount"]
    if problems:
        raise Invalid(problems)
    if exact:
        return requested
    most = largest_parts(requested, of_other_notes, gross_cents=gross, total_cents=total_cents, paid_cents=paid_cents)
    return adjusted_parts(requested, result, most)


def takes_void_parts(balance: Balance, parts: Parts) -> bool:
    """Whether a void may give back this much: no more than is left to credit, and no more refund than was paid."""
    creditable = balance.creditable()
    if parts.credit < 0 or parts.refund < 0:
        return False
    return parts.total <= creditable and parts.refund <= balance.refundable
