"""One-off invoices: add-ons invoiced at once, outside any subscription."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Annotated
from zoneinfo import ZoneInfo

from usagebill.core import limits
from usagebill.core.add_ons import AddOn
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.currencies import CURRENCIES, major_from_cents
from usagebill.core.customers import Customer, dating_settings, timezone
from usagebill.core.dates import Occasion, dates_at_creation
from usagebill.core.errors import Invalid, NotFound, placed
from usagebill.core.fees import Fee, FeeItem, FeeType
from usagebill.core.invoices.life_cycle import InvoiceType
from usagebill.core.invoices.opening import new_fee, new_invoice
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import ONE, multiply, round_cents, round_to
from usagebill.core.payment_methods import chosen_method
from usagebill.core.taxes import Tax, taxed_fee
from usagebill.inputs import ABSENT, Input, Maybe, is_given, parse_instant, value_or
from usagebill.operations import invoice_custom_sections
from usagebill.operations.invoices.record import record
from usagebill.queries.customers import customer_by_external_id, entity_of
from usagebill.queries.payment_providers import names_method
from usagebill.queries.tax_connections import connection_of
from usagebill.rating.invoice import settled_bill
from usagebill.storage.conditions import eq, missing, within
from usagebill.work import Reader, Work

__all__ = ["OneOffFeeInput", "OneOffInput", "SectionChoice", "create"]

_LONGEST_ORDER_NUMBER = 255


@Input
class OneOffFeeInput:
    """`unit_amount_cents` is the add-on's unless given, `units` 1. Known `tax_codes` take the place of its taxes."""

    add_on_code: Maybe[str] = ABSENT
    unit_amount_cents: Maybe[Annotated[int, limits.ONE_OFF_UNIT_PRICE]] = ABSENT
    units: Maybe[Annotated[Decimal, limits.LINE_UNITS]] = ABSENT
    description: Maybe[str] = ABSENT
    invoice_display_name: Maybe[str] = ABSENT
    tax_codes: Maybe[tuple[str, ...]] = ABSENT
    from_datetime: Maybe[object] = ABSENT
    to_datetime: Maybe[object] = ABSENT


@Input
class SectionChoice:
    skip_invoice_custom_sections: Maybe[bool] = ABSENT
    invoice_custom_section_codes: Maybe[tuple[str, ...]] = ABSENT


@Input
class OneOffInput:
    external_customer_id: Maybe[str] = ABSENT
    currency: Maybe[str] = ABSENT
    fees: Maybe[tuple[OneOffFeeInput, ...]] = ABSENT
    skip_psp: Maybe[bool] = ABSENT
    payment_method: Maybe[Mapping[str, object]] = ABSENT
    billing_entity_code: Maybe[str] = ABSENT
    purchase_order_number: Maybe[str] = ABSENT
    invoice_custom_section: Maybe[SectionChoice] = ABSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    add_on: AddOn
    sent: OneOffFeeInput
    starts: datetime
    ends: datetime


def create(work: Work, request: OneOffInput) -> Invoice:
    """Invoice add-ons now. Coupons, credit notes and prepaid credits take no part.

    Raises `NotFound` for the customer, the fees, an add-on or the billing entity, and `Invalid`.
    """
    customer = customer_by_external_id(work, request.external_customer_id or "")
    if not request.fees:
        raise NotFound("fees")
    lines = [_placed_line(work, position, sent) for position, sent in enumerate(request.fees)]
    entity = _entity(work, customer, request.billing_entity_code)
    own_entity = entity_of(work, customer)
    currency = request.currency or customer.currency or own_entity.default_currency
    order_number = value_or(request.purchase_order_number, "").strip() or None
    problems: dict[str, object] = {}
    if currency not in CURRENCIES:
        problems["currency"] = ["value_is_invalid"]
    if order_number is not None and len(order_number) > _LONGEST_ORDER_NUMBER:
        problems["purchase_order_number"] = ["value_is_too_long"]
    if not names_method(work, value_or(request.payment_method, None), customer.id):
        problems["payment_method"] = ["invalid_payment_method"]
    if problems:
        raise Invalid(problems)
    if customer.currency is None:
        customer = replace(customer, currency=currency, updated_at=work.now)
        work.tx.replace(customer)
    settings = dating_settings(customer, own_entity)
    zone = timezone(customer, own_entity)
    opening = new_invoice(
        id=work.new_id(),
        invoice_type=InvoiceType.ONE_OFF,
        customer=customer,
        issuer=entity,
        currency=currency,
        timezone=zone,
        dates=dates_at_creation(Occasion.IMMEDIATE, settings, work.now, ZoneInfo(zone)),
        net_payment_term=settings.net_payment_term,
        now=work.now,
        purchase_order_number=order_number,
    )
    invoice = replace(
        opening,
        skip_automatic_payment=bool(value_or(request.skip_psp, False)),
        payment_method=chosen_method(value_or(request.payment_method, None)),
    )
    provided = connection_of(work, customer) is not None
    fees = [_fee(work, invoice, line, provided=provided) for line in lines]
    if limits.ONE_OFF_TOTAL.is_beyond(sum(abs(fee.amount_cents) for fee in fees)):
        raise Invalid(units="value_is_out_of_range")
    bill = settled_bill(work, invoice, (), fees, section_ids=_sections(work, request))
    if bill.invoice.fees_amount_cents < 0 or bill.invoice.total_amount_cents < 0:
        # What is owed to a customer is put on a credit note.
        raise Invalid(unit_amount_cents="value_is_out_of_range")
    return record(work, replace(bill, message="invoice.one_off_created"))


def _placed_line(reader: Reader, position: int, sent: OneOffFeeInput) -> _Line:
    with placed(f"fees[{position}]"):
        return _line(reader, sent)


def _line(reader: Reader, sent: OneOffFeeInput) -> _Line:
    add_on = reader.tx.first(AddOn, eq("code", sent.add_on_code or ""))
    if add_on is None:
        raise NotFound("add_on", sent.add_on_code)
    if not limits.LINE_UNITS.holds(value_or(sent.units, ONE)):
        raise Invalid(units="value_is_out_of_range")
    if not sent.from_datetime and not sent.to_datetime:
        return _Line(add_on=add_on, sent=sent, starts=reader.now, ends=reader.now)
    starts, ends = _instant(sent.from_datetime), _instant(sent.to_datetime)
    if starts is None or ends is None or starts > ends:
        raise Invalid(boundaries="values_are_invalid")
    return _Line(add_on=add_on, sent=sent, starts=starts, ends=ends)


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
    """The custom sections asked for; None if the customer's are to be shown."""
    choice = request.invoice_custom_section
    if choice is ABSENT or choice is None:
        return None
    if value_or(choice.skip_invoice_custom_sections, False):
        return ()
    codes = value_or(choice.invoice_custom_section_codes, ())
    return invoice_custom_sections.ids_of_codes(reader, codes) if codes else None


def _fee(reader: Reader, invoice: Invoice, line: _Line, *, provided: bool) -> Fee:
    """The fee of a line. If its taxes are `provided` by somebody else, those that it asks for are ignored."""
    add_on, sent = line.add_on, line.sent
    units = value_or(sent.units, ONE)
    unit_cents = value_or(sent.unit_amount_cents, add_on.amount_cents)
    precise = multiply(units, Decimal(unit_cents))
    line_fee = new_fee(
        id=reader.new_id(),
        invoice=invoice,
        subscription=None,
        item=FeeItem(
            type=FeeType.ADD_ON,
            item_type="AddOn",
            id=add_on.id,
            code=add_on.code,
            name=add_on.name,
            description=add_on.description,
            invoice_display_name=value_or(sent.invoice_display_name, None)
            or add_on.invoice_display_name
            or add_on.name,
        ),
        amount_cents=round_cents(precise),
        precise_amount_cents=round_to(precise, 15),
        units=units,
        currency=invoice.currency,
        now=reader.now,
    )
    fee = replace(
        line_fee,
        add_on_id=add_on.id,
        unit_amount_cents=unit_cents,
        precise_unit_amount=major_from_cents(unit_cents, invoice.currency),
        description=value_or(sent.description, None) or add_on.description,
        from_datetime=line.starts,
        to_datetime=line.ends,
    )
    codes = () if provided else value_or(sent.tax_codes, ())
    known = reader.tx.find(Tax, within("code", codes)) if codes else []
    return taxed_fee(fee, known, reader.now, reader.new_id) if known else fee
