"""One-off invoices: add-ons invoiced at once, outside any subscription."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Annotated
from zoneinfo import ZoneInfo

from usagebill.core import limits
from usagebill.core.add_ons import AddOn
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.bills import Bill
from usagebill.core.customers import Customer, dating_settings, timezone
from usagebill.core.dates import dates_at_creation
from usagebill.core.errors import Invalid, NotFound, placed
from usagebill.core.fees import Fee
from usagebill.core.instants import parse_instant
from usagebill.core.invoice_triggers import KINDS, Trigger
from usagebill.core.invoices.opening import new_invoice
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import ONE
from usagebill.core.one_off_requests import (
    OneOffLine,
    check_amounts,
    check_fees,
    check_line_currency,
    check_units,
    line_period,
    one_off_fee,
    one_off_problems,
)
from usagebill.core.payment_methods import chosen_method
from usagebill.core.taxes import Tax, taxed_fee
from usagebill.operations import invoice_custom_sections
from usagebill.operations.backlog import after_backlog, of_customer_in
from usagebill.operations.customer_currency import bill_in, check_currency
from usagebill.operations.invoices.record import record
from usagebill.queries.customers import customer_by_external_id, entity_of
from usagebill.queries.payment_providers import names_method
from usagebill.queries.tax_connections import connection_of
from usagebill.rating.invoice import settled_bill
from usagebill.requests.inputs import ABSENT, Input, Maybe, described, is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, missing, within

# Building as many lines takes as long as billing a subscription.
_LINES_LIKE_A_SUBSCRIPTION = 25


@Input
class OneOffFeeInput:
    """`unit_amount_cents` defaults to the add-on's, `units` to 1. Known `tax_codes` replace its taxes."""

    add_on_code: Maybe[str] = described(required="always")
    unit_amount_cents: Maybe[Annotated[int, limits.ONE_OFF_UNIT_PRICE]] = described(
        "The price of one unit.", unit="cents", default="that of the add-on"
    )
    units: Maybe[Annotated[Decimal, limits.LINE_UNITS]] = described(
        "The number of units.", unit="units", default="1", example="2"
    )
    description: Maybe[str] = ABSENT
    invoice_display_name: Maybe[str] = ABSENT
    tax_codes: Maybe[tuple[str, ...]] = ABSENT
    from_datetime: Maybe[object] = described("The start of the service period.")
    to_datetime: Maybe[object] = described("The end of the service period.")


@Input
class SectionChoice:
    skip_invoice_custom_sections: Maybe[bool] = ABSENT
    invoice_custom_section_codes: Maybe[tuple[str, ...]] = ABSENT


@Input
class OneOffInput:
    external_customer_id: Maybe[str] = described(required="create")
    currency: Maybe[str] = ABSENT
    fees: Maybe[tuple[OneOffFeeInput, ...]] = described(required="create")
    skip_psp: Maybe[bool] = described("Whether to skip the payment provider.", default="false")
    payment_method: Maybe[Mapping[str, object]] = ABSENT
    billing_entity_code: Maybe[str] = ABSENT
    purchase_order_number: Maybe[str] = ABSENT
    invoice_custom_section: Maybe[SectionChoice] = ABSENT


@dataclass(frozen=True, slots=True)
class _Line:
    line: OneOffLine
    tax_codes: tuple[str, ...]


@after_backlog(of_customer_in)
def create(work: Work, request: OneOffInput) -> Invoice:
    """Invoice add-ons now, without coupons, credit notes or prepaid credits.

    The invoice is in the customer's currency, and an add-on is priced in its own unless a price is sent. Raises
    `NotFound` for the customer, the fees, an add-on or the billing entity, and `Invalid`.
    """
    customer = customer_by_external_id(work, request.external_customer_id or "")
    lines = value_or(request.fees, ())
    bill = work.computed(
        ("one_off", customer.id),
        partial(_bill, customer=customer, request=request),
        inputs=(customer, request),
        customer_id=customer.id,
        subscriptions=lambda: len(lines) // _LINES_LIKE_A_SUBSCRIPTION,
    )
    bill_in(work, customer, bill.invoice.currency)
    return record(work, bill)


def _bill(reader: Reader, *, customer: Customer, request: OneOffInput) -> Bill:
    if not request.fees:
        raise NotFound("fees")
    add_ons = {add_on.code: add_on for add_on in reader.tx.find(AddOn, within("code", _add_on_codes(request.fees)))}
    lines = [_placed_line(reader, position, fee, add_ons) for position, fee in enumerate(request.fees)]
    entity = _entity(reader, customer, request.billing_entity_code)
    customer_entity = entity_of(reader, customer)
    currency = request.currency or customer.currency or customer_entity.default_currency
    order_number = value_or(request.purchase_order_number, "").strip() or None
    knows_method = names_method(reader, value_or(request.payment_method, None), customer.id)
    problems = one_off_problems(currency, order_number, knows_method=knows_method)
    if problems:
        raise Invalid(problems)
    check_currency(customer, currency)
    customer = customer if customer.currency else replace(customer, currency=currency)
    for position, line in enumerate(lines):
        with placed(f"fees[{position}]"):
            check_line_currency(line.line, currency)
    settings = dating_settings(customer, customer_entity)
    zone = timezone(customer, customer_entity)
    kind = KINDS[Trigger.ONE_OFF]
    opening = new_invoice(
        id=reader.new_id(),
        invoice_type=kind.invoice_type,
        customer=customer,
        issuer=entity,
        currency=currency,
        timezone=zone,
        dates=dates_at_creation(kind.occasion, settings, reader.now, ZoneInfo(zone)),
        net_payment_term=settings.net_payment_term,
        now=reader.now,
        purchase_order_number=order_number,
    )
    invoice = replace(
        opening,
        skip_automatic_payment=bool(value_or(request.skip_psp, False)),
        payment_method=chosen_method(value_or(request.payment_method, None)),
    )
    provided = connection_of(reader, customer) is not None
    taxes = {} if provided else _taxes(reader, lines)
    fees = [_fee(reader, invoice, line, taxes) for line in lines]
    check_fees(fees)
    bill = settled_bill(reader, invoice, (), fees, section_ids=_sections(reader, request))
    check_amounts(bill.invoice)
    return replace(bill, message=kind.message)


def _add_on_codes(fees: Sequence[OneOffFeeInput]) -> list[str]:
    return sorted({value_or(fee.add_on_code, "") for fee in fees})


def _placed_line(reader: Reader, position: int, request: OneOffFeeInput, add_ons: Mapping[str, AddOn]) -> _Line:
    with placed(f"fees[{position}]"):
        return _line(reader, request, add_ons)


def _line(reader: Reader, request: OneOffFeeInput, add_ons: Mapping[str, AddOn]) -> _Line:
    add_on = add_ons.get(request.add_on_code or "")
    if add_on is None:
        raise NotFound("add_on", request.add_on_code)
    units = value_or(request.units, ONE)
    check_units(units)
    starts, ends = line_period(
        _instant(request.from_datetime),
        _instant(request.to_datetime),
        reader.now,
        has_bounds=bool(request.from_datetime or request.to_datetime),
    )
    line = OneOffLine(
        add_on=add_on,
        starts=starts,
        ends=ends,
        units=units,
        unit_amount_cents=value_or(request.unit_amount_cents, None),
        description=value_or(request.description, None),
        invoice_display_name=value_or(request.invoice_display_name, None),
    )
    return _Line(line, value_or(request.tax_codes, ()))


def _instant(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    return parse_instant(value) if isinstance(value, str) else None


def _entity(reader: Reader, customer: Customer, code: Maybe[str]) -> BillingEntity:
    if not is_given(code) or not code:
        return entity_of(reader, customer)
    entity = reader.tx.first(BillingEntity, eq("code", code), missing("archived_at"))
    if entity is None:
        raise NotFound("billing_entity", code)
    return entity


def _sections(reader: Reader, request: OneOffInput) -> tuple[str, ...] | None:
    """The requested custom sections; None for the customer's."""
    choice = request.invoice_custom_section
    if choice is ABSENT or choice is None:
        return None
    if value_or(choice.skip_invoice_custom_sections, False):
        return ()
    codes = value_or(choice.invoice_custom_section_codes, ())
    return invoice_custom_sections.ids_of_codes(reader, codes) if codes else None


def _taxes(reader: Reader, lines: Sequence[_Line]) -> Mapping[str, Tax]:
    """The taxes that lines name, by code, in the order of a query for those of one line."""
    codes = sorted({code for line in lines for code in line.tax_codes})
    return {tax.code: tax for tax in reader.tx.find(Tax, within("code", codes))} if codes else {}


def _fee(reader: Reader, invoice: Invoice, line: _Line, taxes: Mapping[str, Tax]) -> Fee:
    """The fee of a line; of its tax codes, only those among `taxes` count."""
    fee = one_off_fee(reader.new_id(), invoice, line.line, reader.now)
    its_codes = frozenset(line.tax_codes)
    its_taxes = [tax for code, tax in taxes.items() if code in its_codes] if its_codes else []
    return taxed_fee(fee, its_taxes, reader.now, reader.new_id) if its_taxes else fee
