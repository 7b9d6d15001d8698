"""One-off invoices: checks of requests, and the fee of a line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from usagebill.core import limits
from usagebill.core.add_ons import AddOn
from usagebill.core.copies import replace
from usagebill.core.currencies import CURRENCIES, major_from_cents
from usagebill.core.errors import Invalid
from usagebill.core.fees import Fee, FeeItem, FeeType
from usagebill.core.invoices.opening import new_fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import ONE, multiply, round_cents, round_to

_LONGEST_ORDER_NUMBER = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOffLine:
    """An add-on to be invoiced once, for `starts` to `ends`; fields that are None are taken from the add-on.

    `unit_amount_cents` is the price of one before taxes.
    """

    add_on: AddOn
    starts: datetime
    ends: datetime
    units: Decimal = ONE
    unit_amount_cents: int | None = None
    description: str | None = None
    invoice_display_name: str | None = None


def one_off_problems(currency: str, order_number: str | None, *, knows_method: bool) -> dict[str, object]:
    """Errors of the request, as field -> codes; lines are checked separately."""
    problems: dict[str, object] = {}
    if currency not in CURRENCIES:
        problems["currency"] = ["value_is_invalid"]
    if order_number is not None and len(order_number) > _LONGEST_ORDER_NUMBER:
        problems["purchase_order_number"] = ["value_is_too_long"]
    if not knows_method:
        problems["payment_method"] = ["invalid_payment_method"]
    return problems


def check_units(units: Decimal) -> None:
    """Raises `Invalid` for units that no line can have."""
    if not limits.LINE_UNITS.holds(units):
        raise Invalid(units="value_is_out_of_range")


def check_line_currency(line: OneOffLine, currency: str) -> None:
    """Raises `Invalid` for a line without a price of its own whose add-on is priced in another currency than the
    invoice's.
    """
    priced_in = line.add_on.amount_currency
    if line.unit_amount_cents is None and priced_in != currency:
        reason = (
            f"add-on {line.add_on.code!r} is in {priced_in}, and the invoice in {currency}; send a unit_amount_cents"
        )
        raise Invalid(currency="currencies_does_not_match", reasons={"currency": reason})


def line_period(
    starts: datetime | None, ends: datetime | None, now: datetime, *, has_bounds: bool
) -> tuple[datetime, datetime]:
    """The period of a line: `now` if the request has no bounds. Raises `Invalid` if the bounds form no period.

    A bound is None if it was not sent, or is no instant. Both are inclusive and may be equal.
    """
    if not has_bounds:
        return now, now
    if starts is None or ends is None or starts > ends:
        raise Invalid(boundaries="values_are_invalid")
    return starts, ends


def one_off_fee(id: str, invoice: Invoice, line: OneOffLine, now: datetime) -> Fee:
    """The fee of a line, before taxes: units times unit price, rounded once to cents."""
    add_on = line.add_on
    unit_cents = add_on.amount_cents if line.unit_amount_cents is None else line.unit_amount_cents
    precise = multiply(line.units, Decimal(unit_cents))
    fee = new_fee(
        id=id,
        invoice=invoice,
        subscription=None,
        item=FeeItem(
            type=FeeType.ADD_ON,
            item_type="AddOn",
            id=add_on.id,
            code=add_on.code,
            name=add_on.name,
            description=add_on.description,
            invoice_display_name=line.invoice_display_name or add_on.invoice_display_name or add_on.name,
        ),
        amount_cents=round_cents(precise),
        precise_amount_cents=round_to(precise, 15),
        units=line.units,
        currency=invoice.currency,
        now=now,
    )
    return replace(
        fee,
        add_on_id=add_on.id,
        unit_amount_cents=unit_cents,
        precise_unit_amount=major_from_cents(unit_cents, invoice.currency),
        description=line.description or add_on.description,
        from_datetime=line.starts,
        to_datetime=line.ends,
    )


def check_fees(fees: Iterable[Fee]) -> None:
    """Raises `Invalid` if the sum of the fees exceeds what an invoice can hold, positive or negative."""
    if limits.ONE_OFF_TOTAL.is_beyond(sum(abs(fee.amount_cents) for fee in fees)):
        raise Invalid(units="value_is_out_of_range")


def check_amounts(invoice: Invoice) -> None:
    """Raises `Invalid` for an invoice below zero: amounts owed to a customer belong on a credit note."""
    if invoice.fees_amount_cents < 0 or invoice.total_amount_cents < 0:
        raise Invalid(unit_amount_cents="value_is_out_of_range")
