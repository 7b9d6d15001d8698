"""Exports: invoices, fees, events, payments, credit notes and taxes as rows of a table, read one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.currencies import major_from_cents
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.life_cycle import ISSUED, VISIBLE, InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.payments import Payment
from usagebill.core.subscriptions import Subscription
from usagebill.core.taxes import net_of_coupons
from usagebill.operations.issuers import issuer
from usagebill.queries.customers import find_customer
from usagebill.storage.conditions import Condition, asc, at_least, eq, less, related, within
from usagebill.work import Reader

__all__ = ["EXPORTS", "FOCUS", "Export", "Row", "Value"]

# Money in major units and quantities are Decimal, `..._cents` are int.
Value: TypeAlias = str | int | Decimal | date | datetime | None
Row: TypeAlias = Mapping[str, Value]
Bound: TypeAlias = datetime | None

_EARLIEST, _LATEST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A table: its columns with the types of their values, how many records make it, and its rows.

    Both functions take a start (inclusive) and an end (exclusive) of when records were made; None sets no bound.
    """

    columns: Mapping[str, type]
    count: Callable[[Reader, Bound, Bound], int]
    rows: Callable[[Reader, Bound, Bound], Iterator[Row]]


def _made(start: Bound, end: Bound) -> list[Condition]:
    bounds = [] if start is None else [at_least("created_at", start)]
    return bounds if end is None else [*bounds, less("created_at", end)]


def _external_id(reader: Reader, customer_id: str) -> str | None:
    customer = reader.cached(("exported customer", customer_id), lambda: find_customer(reader, customer_id))
    return None if customer is None else customer.external_id


def _invoice(reader: Reader, invoice_id: str | None) -> Invoice | None:
    if invoice_id is None:
        return None
    return reader.cached(("exported invoice", invoice_id), lambda: reader.tx.get(Invoice, invoice_id))


# Invoices

_INVOICE_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("id", "number", "invoice_type", "status", "payment_status", "external_customer_id"), str),
    **dict.fromkeys(("issuing_date", "payment_due_date"), date),
    "currency": str,
    **dict.fromkeys(
        (
            "fees_amount_cents",
            "progressive_billing_credit_amount_cents",
            "coupons_amount_cents",
            "sub_total_excluding_taxes_amount_cents",
            "taxes_amount_cents",
            "sub_total_including_taxes_amount_cents",
            "credit_notes_amount_cents",
            "prepaid_credit_amount_cents",
            "total_amount_cents",
            "total_due_amount_cents",
        ),
        int,
    ),
    "total_amount": Decimal,
    "created_at": datetime,
}


def _visible(start: Bound, end: Bound) -> list[Condition]:
    return [within("status", VISIBLE), *_made(start, end)]


def _invoice_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for invoice in reader.tx.each(Invoice, *_visible(start, end), order=[asc("created_at")]):
        more: dict[str, Value] = {
            "external_customer_id": _external_id(reader, invoice.customer_id),
            "total_due_amount_cents": invoice.due_cents,
            "total_amount": major_from_cents(invoice.total_amount_cents, invoice.currency),
        }
        yield {name: more[name] if name in more else getattr(invoice, name) for name in _INVOICE_COLUMNS}


# Fees

_FEE_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(
        (
            "id",
            "invoice_number",
            "invoice_status",
            "external_customer_id",
            "external_subscription_id",
            "fee_type",
            "item_code",
            "item_name",
            "description",
            "groups",
            "currency",
            "payment_status",
        ),
        str,
    ),
    **dict.fromkeys(("units", "unit_amount", "amount", "coupons_amount", "taxes_amount", "taxes_rate"), Decimal),
    **dict.fromkeys(("amount_cents", "taxes_amount_cents"), int),
    **dict.fromkeys(("from_datetime", "to_datetime", "created_at"), datetime),
}


def _invoiced(start: Bound, end: Bound) -> list[Condition]:
    """Fees that an invoice shows, of when that was made."""
    return [related(Invoice, "invoice_id", *_visible(start, end))]


def _fees(reader: Reader, conditions: list[Condition]) -> Iterator[Fee]:
    return reader.tx.each(Fee, *conditions, order=[asc("created_at")])


def _groups(fee: Fee) -> str | None:
    """What the fee is split by, and its filter, as JSON."""
    groups: dict[str, object] = dict(fee.grouped_by)
    groups |= {key: list(values) for key, values in (fee.filters or {}).items()}
    return json.dumps(groups, ensure_ascii=False) if groups else None


def _fee_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for fee in _fees(reader, _invoiced(start, end)):
        invoice = _invoice(reader, fee.invoice_id)
        yield {
            "id": fee.id,
            "invoice_number": invoice.number if invoice else None,
            "invoice_status": invoice.status if invoice else None,
            "external_customer_id": _external_id(reader, fee.customer_id),
            "external_subscription_id": fee.external_subscription_id,
            "fee_type": fee.fee_type,
            "item_code": fee.item.code,
            "item_name": fee.item.invoice_display_name or fee.item.name,
            "description": fee.description,
            "groups": _groups(fee),
            "currency": fee.currency,
            "payment_status": fee.payment_status,
            "units": fee.units,
            "unit_amount": fee.precise_unit_amount,
            "amount": major_from_cents(fee.amount_cents, fee.currency),
            "coupons_amount": major_from_cents(fee.precise_coupons_amount_cents, fee.currency),
            "taxes_amount": major_from_cents(fee.taxes_precise_amount_cents, fee.currency),
            "taxes_rate": fee.taxes_rate,
            "amount_cents": fee.amount_cents,
            "taxes_amount_cents": fee.taxes_amount_cents,
            "from_datetime": fee.from_datetime,
            "to_datetime": fee.to_datetime,
            "created_at": fee.created_at,
        }


# Payments

_PAYMENT_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(
        (
            "id",
            "payable_type",
            "invoice_number",
            "payment_request_id",
            "external_customer_id",
            "payment_status",
            "status",
            "reference",
            "provider",
            "provider_payment_id",
            "currency",
        ),
        str,
    ),
    "amount_cents": int,
    "amount": Decimal,
    "created_at": datetime,
}


def _payment_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for payment in reader.tx.each(Payment, *_made(start, end), order=[asc("created_at")]):
        invoice = _invoice(reader, payment.invoice_id)
        yield {
            "id": payment.id,
            "payable_type": payment.payable_type,
            "invoice_number": invoice.number if invoice else None,
            "payment_request_id": payment.payment_request_id,
            "external_customer_id": _external_id(reader, payment.customer_id),
            "payment_status": payment.payment_status,
            "status": payment.status,
            "reference": payment.reference,
            "provider": payment.payment_provider_code,
            "provider_payment_id": payment.provider_payment_id,
            "currency": payment.amount_currency,
            "amount_cents": payment.amount_cents,
            "amount": major_from_cents(payment.amount_cents, payment.amount_currency),
            "created_at": payment.created_at,
        }


# Credit notes

_NOTE_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(
        ("id", "number", "invoice_number", "credit_status", "refund_status", "reason", "description"),
        str,
    ),
    "external_customer_id": str,
    "issuing_date": date,
    "currency": str,
    **dict.fromkeys(
        (
            "sub_total_excluding_taxes_amount_cents",
            "taxes_amount_cents",
            "total_amount_cents",
            "credit_amount_cents",
            "refund_amount_cents",
            "offset_amount_cents",
            "balance_amount_cents",
        ),
        int,
    ),
    "total_amount": Decimal,
    "created_at": datetime,
}


def _final_notes(start: Bound, end: Bound) -> list[Condition]:
    return [eq("status", CreditNoteStatus.FINALIZED), *_made(start, end)]


def _note_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for note in reader.tx.each(CreditNote, *_final_notes(start, end), order=[asc("created_at")]):
        invoice = _invoice(reader, note.invoice_id)
        more: dict[str, Value] = {
            "external_customer_id": _external_id(reader, note.customer_id),
            "invoice_number": invoice.number if invoice else None,
            "total_amount": major_from_cents(note.total_amount_cents, note.currency),
        }
        yield {name: more[name] if name in more else getattr(note, name) for name in _NOTE_COLUMNS}


# Taxes

_TAX_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("document_type", "number", "status", "external_customer_id"), str),
    "issuing_date": date,
    **dict.fromkeys(("tax_code", "tax_name"), str),
    "tax_rate": Decimal,
    "currency": str,
    **dict.fromkeys(("base_amount_cents", "tax_amount_cents"), int),
    **dict.fromkeys(("base_amount", "tax_amount"), Decimal),
    "created_at": datetime,
}


def _taxed_invoices(start: Bound, end: Bound) -> list[Condition]:
    return [within("status", ISSUED), *_issued_on(start, end)]


def _taxed_notes(start: Bound, end: Bound) -> list[Condition]:
    return [eq("status", CreditNoteStatus.FINALIZED), *_issued_on(start, end)]


def _issued_on(start: Bound, end: Bound) -> list[Condition]:
    bounds = [] if start is None else [at_least("issuing_date", start.date())]
    return bounds if end is None else [*bounds, less("issuing_date", end.date())]


def _tax_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    """What each invoice and credit note was taxed with. What a credit note takes back is negative."""
    for invoice in reader.tx.each(Invoice, *_taxed_invoices(start, end), order=[asc("created_at")]):
        yield from _taxes_of(reader, invoice, "invoice", invoice.status, 1)
    for note in reader.tx.each(CreditNote, *_taxed_notes(start, end), order=[asc("created_at")]):
        yield from _taxes_of(reader, note, "credit_note", note.status, -1)


def _taxes_of(
    reader: Reader, document: Invoice | CreditNote, document_type: str, status: str, sign: int
) -> Iterator[Row]:
    for tax in document.applied_taxes:
        base, amount = sign * tax.base_amount_cents, sign * tax.amount_cents
        yield {
            "document_type": document_type,
            "number": document.number,
            "status": status,
            "external_customer_id": _external_id(reader, document.customer_id),
            "issuing_date": document.issuing_date,
            "tax_code": tax.code,
            "tax_name": tax.name,
            "tax_rate": tax.rate,
            "currency": document.currency,
            "base_amount_cents": base,
            "tax_amount_cents": amount,
            "base_amount": major_from_cents(base, document.currency),
            "tax_amount": major_from_cents(amount, document.currency),
            "created_at": document.created_at,
        }


# Events

_EVENT_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("transaction_id", "code", "external_subscription_id"), str),
    "timestamp": datetime,
    "precise_total_amount_cents": Decimal,
    "properties": str,
    "created_at": datetime,
}


def _event_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for event in reader.tx.events.received(start or _EARLIEST, end or _LATEST):
        yield {
            "transaction_id": event.transaction_id,
            "code": event.code,
            "external_subscription_id": event.external_subscription_id,
            "timestamp": event.timestamp,
            "precise_total_amount_cents": event.precise_total_amount_cents,
            "properties": json.dumps(event.properties, ensure_ascii=False, default=str),
            "created_at": event.created_at,
        }


# FOCUS

_UNKNOWN = (
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
)
_FOCUS_COLUMNS: Mapping[str, type] = {
    "BilledCost": Decimal,
    "BillingAccountId": str,
    "BillingAccountName": str,
    "BillingCurrency": str,
    "BillingPeriodStart": datetime,
    "BillingPeriodEnd": datetime,
    "ChargeCategory": str,
    "ChargeClass": str,
    "ChargeDescription": str,
    "ChargeFrequency": str,
    "ChargePeriodStart": datetime,
    "ChargePeriodEnd": datetime,
    "ConsumedQuantity": Decimal,
    "ConsumedUnit": str,
    "ContractedCost": Decimal,
    "ContractedUnitPrice": Decimal,
    "EffectiveCost": Decimal,
    "InvoiceId": str,
    "InvoiceIssuerName": str,
    "ListCost": Decimal,
    "ListUnitPrice": Decimal,
    "PricingCategory": str,
    "PricingQuantity": Decimal,
    "PricingUnit": str,
    "ProviderName": str,
    "PublisherName": str,
    "ServiceCategory": str,
    "ServiceName": str,
    "SkuId": str,
    "SkuPriceId": str,
    "SubAccountId": str,
    "SubAccountName": str,
    "Tags": str,
    # What nobody here has, and what importers ask for all the same: always empty.
    **dict.fromkeys(_UNKNOWN, str),
}
_FREQUENCIES: Mapping[str, str] = {
    FeeType.CHARGE: "Usage-Based",
    FeeType.SUBSCRIPTION: "Recurring",
    FeeType.FIXED_CHARGE: "Recurring",
    FeeType.COMMITMENT: "Recurring",
    FeeType.ADD_ON: "One-Time",
    FeeType.CREDIT: "One-Time",
}


def _issued(start: Bound, end: Bound) -> list[Condition]:
    final = within("status", (InvoiceStatus.FINALIZED,))
    return [related(Invoice, "invoice_id", final, *_made(start, end))]


def _focus_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    """The fees of finalized invoices: a row for what is charged, less its coupons, and one for its taxes."""
    for fee in _fees(reader, _issued(start, end)):
        invoice = _invoice(reader, fee.invoice_id)
        if invoice is None:
            continue
        charged = _focus_row(reader, fee, invoice)
        yield charged
        if not fee.taxes_precise_amount_cents.is_zero():
            taxes = major_from_cents(fee.taxes_precise_amount_cents, fee.currency)
            costs = dict.fromkeys(("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"), taxes)
            none = dict.fromkeys(_OF_PRICES)
            yield {**charged, **none, **costs, "ChargeCategory": "Tax"}


# What a row of taxes leaves empty.
_OF_PRICES = (
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedUnitPrice",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "SkuId",
    "SkuPriceId",
)


def _focus_row(reader: Reader, fee: Fee, invoice: Invoice) -> dict[str, Value]:
    usage = fee.fee_type == FeeType.CHARGE
    listed = major_from_cents(fee.precise_amount_cents, fee.currency)
    billed = major_from_cents(net_of_coupons(fee), fee.currency)
    period_start = _whole_second(fee.from_datetime or fee.created_at)
    period_end = _after(fee.to_datetime or fee.created_at)
    charge_start = _whole_second((fee.charges_from_datetime if usage else None) or period_start)
    charge_end = _after(fee.charges_to_datetime) if usage and fee.charges_to_datetime else period_end
    customer = find_customer(reader, fee.customer_id)
    subscription = None
    if fee.subscription_id is not None:
        subscription = reader.tx.get(Subscription, fee.subscription_id)
    entity = reader.cached(
        ("exported issuer", invoice.billing_entity_id, invoice.issuer_version_id),
        lambda: issuer(reader, invoice.billing_entity_id, invoice.issuer_version_id),
    )
    name = entity.legal_name or entity.name
    return {
        "BilledCost": billed,
        "BillingAccountId": customer.external_id if customer else fee.customer_id,
        "BillingAccountName": (customer.name or customer.external_id) if customer else None,
        "BillingCurrency": fee.currency,
        "BillingPeriodStart": period_start,
        "BillingPeriodEnd": period_end,
        "ChargeCategory": "Usage" if usage else "Purchase",
        "ChargeClass": None,
        "ChargeDescription": fee.description or fee.item.invoice_display_name or fee.item.name,
        "ChargeFrequency": _FREQUENCIES[fee.fee_type],
        "ChargePeriodStart": charge_start,
        "ChargePeriodEnd": charge_end,
        "ConsumedQuantity": fee.units if usage else None,
        "ConsumedUnit": "Units" if usage else None,
        "ContractedCost": listed,
        "ContractedUnitPrice": fee.precise_unit_amount,
        "EffectiveCost": billed,
        "InvoiceId": invoice.number,
        "InvoiceIssuerName": name,
        "ListCost": listed,
        "ListUnitPrice": fee.precise_unit_amount,
        "PricingCategory": "Standard",
        "PricingQuantity": fee.units,
        "PricingUnit": "Units",
        "ProviderName": name,
        "PublisherName": name,
        "ServiceCategory": "Other",
        "ServiceName": fee.item.name,
        "SkuId": fee.item.code,
        "SkuPriceId": fee.charge_filter_id or fee.charge_id or fee.fixed_charge_id or fee.item.code,
        "SubAccountId": fee.external_subscription_id,
        "SubAccountName": (subscription.name or subscription.external_id) if subscription else None,
        "Tags": _tags(fee),
        **dict.fromkeys(_UNKNOWN),
    }


def _tags(fee: Fee) -> str | None:
    """As `_groups`, but each value is one text: lists are no values of tags."""
    tags = {key: value for key, value in fee.grouped_by.items() if value is not None}
    tags |= {key: ", ".join(values) for key, values in (fee.filters or {}).items()}
    return json.dumps(tags, ensure_ascii=False) if tags else None


def _whole_second(instant: datetime) -> datetime:
    """Times of FOCUS have no fractions of seconds."""
    return instant.replace(microsecond=0)


def _after(last: datetime) -> datetime:
    """The first whole second after what is `last` in a period: ends are exclusive in FOCUS."""
    return _whole_second(last) + _SECOND


EXPORTS: Mapping[str, Export] = {
    "invoices": Export(
        columns=_INVOICE_COLUMNS,
        count=lambda reader, start, end: reader.tx.count(Invoice, *_visible(start, end)),
        rows=_invoice_rows,
    ),
    "fees": Export(
        columns=_FEE_COLUMNS,
        count=lambda reader, start, end: reader.tx.count(Fee, *_invoiced(start, end)),
        rows=_fee_rows,
    ),
    "events": Export(
        columns=_EVENT_COLUMNS,
        count=lambda reader, start, end: sum(1 for _ in reader.tx.events.received(start or _EARLIEST, end or _LATEST)),
        rows=_event_rows,
    ),
    "payments": Export(
        columns=_PAYMENT_COLUMNS,
        count=lambda reader, start, end: reader.tx.count(Payment, *_made(start, end)),
        rows=_payment_rows,
    ),
    "credit_notes": Export(
        columns=_NOTE_COLUMNS,
        count=lambda reader, start, end: reader.tx.count(CreditNote, *_final_notes(start, end)),
        rows=_note_rows,
    ),
    "taxes": Export(
        columns=_TAX_COLUMNS,
        count=lambda reader, start, end: (
            sum(len(invoice.applied_taxes) for invoice in reader.tx.each(Invoice, *_taxed_invoices(start, end)))
            + sum(len(note.applied_taxes) for note in reader.tx.each(CreditNote, *_taxed_notes(start, end)))
        ),
        rows=_tax_rows,
    ),
}
# Fees once more, with the columns of the FinOps Open Cost and Usage Specification 1.2.
FOCUS = Export(
    columns=_FOCUS_COLUMNS,
    count=lambda reader, start, end: reader.tx.count(Fee, *_issued(start, end)),
    rows=_focus_rows,
)
