"""Unused time: how the rest of a fee paid in advance is given back when its subscription ends early.

How much is left is `core.subscription_fees.unused_time_credit`; of that, what was paid and not used may be paid back.
"""

from __future__ import annotations

from decimal import Decimal

from usagebill.core.credit_notes import Credited, Parts
from usagebill.core.fees import Fee
from usagebill.core.numbers import add, divide, multiply, round_cents, subtract

__all__ = ["refundable_of_fee", "termination_parts"]


def refundable_of_fee(fee: Fee, used: Credited, *, paid_cents: int, invoice_cents: int, total_cents: int) -> int:
    """What may be paid back: the fee's share of what was paid of its invoice, less what was used, at most the note.

    `used` is what the used days come to, `invoice_cents` the invoice's subtotal with taxes.
    """
    if invoice_cents <= 0:
        return 0
    whole = add(subtract(fee.precise_amount_cents, fee.precise_coupons_amount_cents), fee.taxes_precise_amount_cents)
    paid = divide(multiply(whole, Decimal(paid_cents)), Decimal(invoice_cents))
    return max(0, round_cents(min(subtract(paid, Decimal(used.total_cents)), Decimal(total_cents))))


def termination_parts(option: str, total_cents: int, refundable_cents: int, due_cents: int) -> Parts:
    """How the note is given: `credit` all as balance; `refund` and `offset` first pay back what may be paid back.

    `offset` then settles the invoice as far as `due_cents` of it are due. What is left is balance.
    """
    if option not in ("refund", "offset"):
        return Parts(credit=total_cents)
    rest = total_cents - refundable_cents
    offset = min(rest, max(0, due_cents)) if option == "offset" else 0
    return Parts(credit=rest - offset, refund=refundable_cents, offset=offset)
