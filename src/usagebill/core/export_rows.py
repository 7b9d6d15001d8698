"""Rows of exports: how a table shows each record, and its columns with the types of their values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

from usagebill.core.credit_notes import CreditNote
from usagebill.core.currencies import major_from_cents
from usagebill.core.customers import Customer
from usagebill.core.events import Event, property_text
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.records import Invoice
from usagebill.core.payments import Payment
from usagebill.core.subscriptions import Subscription
from usagebill.core.taxes import net_of_coupons

# Money in major units and quantities are Decimal, `..._cents` are int.
Value: TypeAlias = str | int | Decimal | date | datetime | None
Row: TypeAlias = Mapping[str, Value]

_SECOND = timedelta(seconds=1)


# Invoices

INVOICE_COLUMNS: Mapping[str, type] = {
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


def invoice_row(invoice: Invoice, external_customer_id: str | None) -> Row:
    """An invoice with its totals."""
    more: dict[str, Value] = {
        "external_customer_id": external_customer_id,
        "total_due_amount_cents": invoice.due_cents,
        "total_amount": major_from_cents(invoice.total_amount_cents, invoice.currency),
    }
    return {name: more[name] if name in more else getattr(invoice, name) for name in INVOICE_COLUMNS}


# Fees

FEE_COLUMNS: Mapping[str, type] = {
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


def _groups(fee: Fee) -> str | None:
    """The fee's group and filter, as JSON."""
    groups: dict[str, object] = dict(fee.grouped_by)
    groups |= {key: list(values) for key, values in (fee.filters or {}).items()}
    return json.dumps(groups, ensure_ascii=False) if groups else None


def fee_row(fee: Fee, invoice: Invoice | None, external_customer_id: str | None) -> Row:
    """A fee, and the invoice that shows it."""
    return {
        "id": fee.id,
        "invoice_number": invoice.number if invoice else None,
        "invoice_status": invoice.status if invoice else None,
        "external_customer_id": external_customer_id,
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

PAYMENT_COLUMNS: Mapping[str, type] = {
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


def payment_row(payment: Payment, invoice: Invoice | None, external_customer_id: str | None) -> Row:
    """A payment, and its invoice if it pays one."""
    return {
        "id": payment.id,
        "payable_type": payment.payable_type,
        "invoice_number": invoice.number if invoice else None,
        "payment_request_id": payment.payment_request_id,
        "external_customer_id": external_customer_id,
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

NOTE_COLUMNS: Mapping[str, type] = {
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


def note_row(note: CreditNote, invoice: Invoice | None, external_customer_id: str | None) -> Row:
    """A credit note, and the invoice that it credits."""
    more: dict[str, Value] = {
        "external_customer_id": external_customer_id,
        "invoice_number": invoice.number if invoice else None,
        "total_amount": major_from_cents(note.total_amount_cents, note.currency),
    }
    return {name: more[name] if name in more else getattr(note, name) for name in NOTE_COLUMNS}


# Taxes

TAX_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("document_type", "number", "status", "external_customer_id"), str),
    "issuing_date": date,
    **dict.fromkeys(("tax_code", "tax_name"), str),
    "tax_rate": Decimal,
    "currency": str,
    **dict.fromkeys(("base_amount_cents", "tax_amount_cents"), int),
    **dict.fromkeys(("base_amount", "tax_amount"), Decimal),
    "created_at": datetime,
}


def tax_rows(document: Invoice | CreditNote, external_customer_id: str | None) -> Iterator[Row]:
    """The taxes of an invoice or a credit note. A credit note's amounts are negative."""
    is_invoice = isinstance(document, Invoice)
    sign = 1 if is_invoice else -1
    for tax in document.applied_taxes:
        base, amount = sign * tax.base_amount_cents, sign * tax.amount_cents
        yield {
            "document_type": "invoice" if is_invoice else "credit_note",
            "number": document.number,
            "status": document.status,
            "external_customer_id": external_customer_id,
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

EVENT_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("transaction_id", "code", "external_subscription_id"), str),
    "timestamp": datetime,
    "precise_total_amount_cents": Decimal,
    "properties": str,
    "created_at": datetime,
}


def event_row(event: Event) -> Row:
    """An event as it was received."""
    return {
        "transaction_id": event.transaction_id,
        "code": event.code,
        "external_subscription_id": event.external_subscription_id,
        "timestamp": event.timestamp,
        "precise_total_amount_cents": event.precise_total_amount_cents,
        "properties": property_text(event.properties),
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
FOCUS_COLUMNS: Mapping[str, type] = {
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
    # Columns that importers require although we have no values for them: always empty.
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


# Columns that are empty in rows of taxes.
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


def focus_rows(
    fee: Fee, invoice: Invoice, customer: Customer | None, subscription: Subscription | None, issuer_name: str
) -> Iterator[Row]:
    """A fee of a finalized invoice: a row for its amount less coupons, and one for its taxes."""
    charged = _charged_row(fee, invoice, customer, subscription, issuer_name)
    yield charged
    if not fee.taxes_precise_amount_cents.is_zero():
        taxes = major_from_cents(fee.taxes_precise_amount_cents, fee.currency)
        costs = dict.fromkeys(("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"), taxes)
        yield {**charged, **dict.fromkeys(_OF_PRICES), **costs, "ChargeCategory": "Tax"}


def _charged_row(
    fee: Fee, invoice: Invoice, customer: Customer | None, subscription: Subscription | None, issuer_name: str
) -> Row:
    usage = fee.fee_type == FeeType.CHARGE
    listed = major_from_cents(fee.precise_amount_cents, fee.currency)
    billed = major_from_cents(net_of_coupons(fee), fee.currency)
    period_start = _whole_second(fee.from_datetime or fee.created_at)
    period_end = _after(fee.to_datetime or fee.created_at)
    charge_start = _whole_second((fee.charges_from_datetime if usage else None) or period_start)
    charge_end = _after(fee.charges_to_datetime) if usage and fee.charges_to_datetime else period_end
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
        "InvoiceIssuerName": issuer_name,
        "ListCost": listed,
        "ListUnitPrice": fee.precise_unit_amount,
        "PricingCategory": "Standard",
        "PricingQuantity": fee.units,
        "PricingUnit": "Units",
        "ProviderName": issuer_name,
        "PublisherName": issuer_name,
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
    """Like `_groups`, but each value is one text: tags cannot hold lists."""
    tags = {key: value for key, value in fee.grouped_by.items() if value is not None}
    tags |= {key: ", ".join(values) for key, values in (fee.filters or {}).items()}
    return json.dumps(tags, ensure_ascii=False) if tags else None


def _whole_second(instant: datetime) -> datetime:
    """`instant` cut to the second: FOCUS has no fractions of seconds."""
    return instant.replace(microsecond=0)


def _after(last: datetime) -> datetime:
    """The first whole second after the `last` instant of a period: ends are exclusive in FOCUS."""
    return _whole_second(last) + _SECOND
