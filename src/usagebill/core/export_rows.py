"""Rows of exports: how a table shows each record, and its columns with the types of their values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

from usagebill.core.credit_notes import CreditNote
from usagebill.core.currencies import major_from_cents
from usagebill.core.customers import Customer
from usagebill.core.deferred_revenue import Earned
from usagebill.core.events import Event, property_text
from usagebill.core.fees import AppliedTax, Fee, FeeType, TaxKey
from usagebill.core.invoices.records import Invoice
from usagebill.core.ledger import Movement
from usagebill.core.numbers import ZERO, add, round_cents
from usagebill.core.payment_requests import PaymentRequest, RequestedInvoice
from usagebill.core.payments import Payment, RefundAttempt
from usagebill.core.subscriptions import Subscription
from usagebill.core.taxes import net_of_coupons
from usagebill.core.wallets import Wallet

# Money in major units and quantities are Decimal, `..._cents` are int.
Value: TypeAlias = str | int | Decimal | date | datetime | None
Row: TypeAlias = Mapping[str, Value]

_SECOND = timedelta(seconds=1)


# Parties

PARTY_COLUMNS: Mapping[str, type] = dict.fromkeys(
    ("billing_entity", "customer_name", "customer_country", "customer_tax_number"), str
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parties:
    """Who issued a document, by code, and whom it is for, as the customer was then."""

    billing_entity: str | None
    external_customer_id: str | None
    name: str | None = None
    country: str | None = None
    tax_number: str | None = None


def parties_of(entity_code: str | None, customer: Mapping[str, object] | None) -> Parties:
    """The parties by a billing entity's code and the fields of a customer, as messages show them."""
    fields = customer or {}

    def text(name: str) -> str | None:
        value = fields.get(name)
        return None if value is None else str(value)

    return Parties(
        billing_entity=entity_code,
        external_customer_id=text("external_id"),
        name=text("legal_name") or text("name"),
        country=text("country"),
        tax_number=text("tax_identification_number"),
    )


def _party_values(parties: Parties) -> Row:
    return {
        "external_customer_id": parties.external_customer_id,
        "billing_entity": parties.billing_entity,
        "customer_name": parties.name,
        "customer_country": parties.country,
        "customer_tax_number": parties.tax_number,
    }


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def _self_billed(invoice: Invoice | None) -> str:
    """`yes` for what belongs to a purchase: money goes to the customer, and comes back from it."""
    return _yes_or_no(invoice is not None and invoice.self_billed)


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
    **PARTY_COLUMNS,
    "self_billed": str,
    "voided_at": datetime,
}


def invoice_row(invoice: Invoice, parties: Parties) -> Row:
    """An invoice with its totals. `self_billed` is `yes` for a purchase: the customer is the seller."""
    more: dict[str, Value] = {
        **_party_values(parties),
        "self_billed": _yes_or_no(invoice.self_billed),
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
    **PARTY_COLUMNS,
    "self_billed": str,
}


def _groups(fee: Fee) -> str | None:
    """The fee's group and filter, as JSON."""
    groups: dict[str, object] = dict(fee.grouped_by)
    groups |= {key: list(values) for key, values in (fee.filters or {}).items()}
    return json.dumps(groups, ensure_ascii=False) if groups else None


def fee_row(fee: Fee, invoice: Invoice | None, parties: Parties) -> Row:
    """A fee, and the invoice that shows it."""
    return {
        **_party_values(parties),
        "self_billed": None if invoice is None else _yes_or_no(invoice.self_billed),
        "id": fee.id,
        "invoice_number": invoice.number if invoice else None,
        "invoice_status": invoice.status if invoice else None,
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
    **PARTY_COLUMNS,
    "received_on": date,
    "self_billed": str,
    "provider_fee_amount_cents": int,
    "provider_fee_currency": str,
}


def payment_row(payment: Payment, invoice: Invoice | None, parties: Parties, received_on: date | None) -> Row:
    """A payment, and its invoice if it pays one. `received_on` is the day on which its money was received.

    `provider_fee_amount_cents` is what the provider keeps of it, if it tells.
    """
    return {
        **_party_values(parties),
        "self_billed": _self_billed(invoice),
        "id": payment.id,
        "payable_type": payment.payable_type,
        "invoice_number": invoice.number if invoice else None,
        "payment_request_id": payment.payment_request_id,
        "payment_status": payment.payment_status,
        "status": payment.status,
        "reference": payment.reference,
        "provider": payment.payment_provider_code,
        "provider_payment_id": payment.provider_payment_id,
        "currency": payment.amount_currency,
        "amount_cents": payment.amount_cents,
        "amount": major_from_cents(payment.amount_cents, payment.amount_currency),
        "created_at": payment.created_at,
        "received_on": received_on,
        "provider_fee_amount_cents": payment.provider_fee_amount_cents,
        "provider_fee_currency": payment.provider_fee_currency,
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
    **PARTY_COLUMNS,
    "self_billed": str,
    "voided_at": datetime,
    "refunded_at": datetime,
}


def note_row(note: CreditNote, invoice: Invoice | None, parties: Parties) -> Row:
    """A credit note, and the invoice that it credits. `voided_at`: when what was left of its credit was voided."""
    more: dict[str, Value] = {
        **_party_values(parties),
        "self_billed": _yes_or_no(note.self_billed),
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
    **PARTY_COLUMNS,
    "self_billed": str,
    "tax_category": str,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Categories:
    """The categories (UNCL 5305, as in e-invoices) of a document's taxes, and of what no tax applies to: net cents by
    category.
    """

    of_taxes: Mapping[TaxKey, str]
    untaxed: Mapping[str, int]


def categories(
    fees: Iterable[Fee], category: Callable[[Fee], str], net: Callable[[Fee], Decimal] = net_of_coupons
) -> Categories:
    """The categories of the fees of an invoice, or of a credit note, whose part of a fee is `net`."""
    of_taxes: dict[TaxKey, str] = {}
    untaxed: dict[str, Decimal] = {}
    for fee in fees:
        for tax in fee.applied_taxes:
            of_taxes.setdefault(tax.key, category(fee))
        if not fee.applied_taxes:
            untaxed[category(fee)] = add(untaxed.get(category(fee), ZERO), net(fee))
    return Categories(of_taxes=of_taxes, untaxed={name: round_cents(cents) for name, cents in untaxed.items()})


def tax_rows(document: Invoice | CreditNote, parties: Parties, of: Categories) -> Iterator[Row]:
    """The taxes of an invoice or a credit note, and a row without tax code for each category of lines that no tax
    applies to. A credit note's amounts are negative.
    """
    kind, sign = ("invoice", 1) if isinstance(document, Invoice) else ("credit_note", -1)
    for tax in document.applied_taxes:
        amounts = sign * tax.base_amount_cents, sign * tax.amount_cents
        yield _tax_row(document, parties, kind, tax, of.of_taxes.get(tax.key), *amounts)
    for category, cents in of.untaxed.items():
        if cents:
            yield _tax_row(document, parties, kind, None, category, sign * cents, 0)


def void_rows(
    invoice: Invoice, parties: Parties, of: Categories, notes: Iterable[tuple[CreditNote, Categories]], day: date
) -> Iterator[Row]:
    """What the void of an invoice on `day` takes back: its taxes less those that its credit `notes` have taken back.

    Notes that the void itself made are not to be among them: they share out what was paid.
    """
    taken = list(notes)
    for tax in invoice.applied_taxes:
        alike = [other for note, _ in taken for other in note.applied_taxes if other.key == tax.key]
        base = tax.base_amount_cents - sum(other.base_amount_cents for other in alike)
        cents = tax.amount_cents - sum(other.amount_cents for other in alike)
        if base or cents:
            row = _tax_row(invoice, parties, "void", tax, of.of_taxes.get(tax.key), -base, -cents)
            yield {**row, "issuing_date": day, "created_at": invoice.voided_at}
    for category, cents in of.untaxed.items():
        left = cents - sum(part.untaxed.get(category, 0) for _, part in taken)
        if left:
            row = _tax_row(invoice, parties, "void", None, category, -left, 0)
            yield {**row, "issuing_date": day, "created_at": invoice.voided_at}


def _tax_row(
    document: Invoice | CreditNote,
    parties: Parties,
    kind: str,
    tax: AppliedTax | None,
    category: str | None,
    base: int,
    cents: int,
) -> Row:
    return {
        **_party_values(parties),
        "document_type": kind,
        "number": document.number,
        "status": document.status,
        "issuing_date": document.issuing_date,
        "tax_code": None if tax is None else tax.code,
        "tax_name": None if tax is None else tax.name,
        "tax_rate": ZERO if tax is None else tax.rate,
        "tax_category": category,
        "currency": document.currency,
        "base_amount_cents": base,
        "tax_amount_cents": cents,
        "base_amount": major_from_cents(base, document.currency),
        "tax_amount": major_from_cents(cents, document.currency),
        "created_at": document.created_at,
        "self_billed": _yes_or_no(document.self_billed),
    }


# Refunds

REFUND_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(
        (
            "id",
            "credit_note_number",
            "invoice_number",
            "payment_id",
            "external_customer_id",
            "refund_status",
            "status",
            "provider",
            "provider_refund_id",
            "currency",
        ),
        str,
    ),
    "amount_cents": int,
    "amount": Decimal,
    **dict.fromkeys(("created_at", "updated_at"), datetime),
    **PARTY_COLUMNS,
    "self_billed": str,
}


def refund_row(
    refund: RefundAttempt,
    note: CreditNote | None,
    invoice: Invoice | None,
    payment: Payment | None,
    parties: Parties,
) -> Row:
    """Money that a provider was asked to give back: for a credit note, or a payment that nobody owed."""
    return {
        **_party_values(parties),
        "self_billed": _self_billed(invoice),
        "id": refund.id,
        "credit_note_number": note.number if note else None,
        "invoice_number": invoice.number if invoice else None,
        "payment_id": refund.payment_id,
        "refund_status": refund.refund_status,
        "status": refund.status,
        "provider": payment.payment_provider_code if payment else None,
        "provider_refund_id": refund.provider_refund_id,
        "currency": refund.currency,
        "amount_cents": refund.amount_cents,
        "amount": major_from_cents(refund.amount_cents, refund.currency),
        "created_at": refund.created_at,
        "updated_at": refund.updated_at,
    }


# Payment requests

REQUESTED_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("payment_request_id", "invoice_number", "external_customer_id", "payment_status"), str),
    "currency": str,
    **dict.fromkeys(("requested_amount_cents", "paid_amount_cents"), int),
    **dict.fromkeys(("requested_amount", "paid_amount"), Decimal),
    **dict.fromkeys(("created_at", "updated_at"), datetime),
    **PARTY_COLUMNS,
    "self_billed": str,
}


def requested_row(part: RequestedInvoice, request: PaymentRequest, invoice: Invoice | None, parties: Parties) -> Row:
    """An invoice of a payment request: what was asked for, and what the request's payments have paid of it."""
    return {
        **_party_values(parties),
        "self_billed": _self_billed(invoice),
        "payment_request_id": part.payment_request_id,
        "invoice_number": invoice.number if invoice else None,
        "payment_status": request.payment_status,
        "currency": request.currency,
        "requested_amount_cents": part.amount_cents,
        "paid_amount_cents": part.paid_cents,
        "requested_amount": major_from_cents(part.amount_cents, request.currency),
        "paid_amount": major_from_cents(part.paid_cents, request.currency),
        "created_at": part.created_at,
        "updated_at": part.updated_at,
    }


# Credits

CREDIT_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("invoice_number", "invoice_status", "external_customer_id", "credit_type", "item_code"), str),
    **dict.fromkeys(("item_name", "source_id"), str),
    "issuing_date": date,
    "before_taxes": str,
    "currency": str,
    **dict.fromkeys(("amount_cents", "returned_amount_cents"), int),
    "amount": Decimal,
    "created_at": datetime,
    **PARTY_COLUMNS,
    "self_billed": str,
}


def credit_rows(invoice: Invoice, parties: Parties) -> Iterator[Row]:
    """What reduced an invoice: coupons, credit notes (`item_code` is the note's number), and progressive billing
    invoices. `returned_amount_cents` went back to the credit note when the invoice was voided.
    """
    for credit in invoice.credits:
        yield {
            **_party_values(parties),
            "self_billed": _self_billed(invoice),
            "invoice_number": invoice.number,
            "invoice_status": invoice.status,
            "credit_type": credit.item_type,
            "item_code": credit.item_code,
            "item_name": credit.item_name,
            "source_id": credit.source_id,
            "issuing_date": invoice.issuing_date,
            "before_taxes": _yes_or_no(credit.before_taxes),
            "currency": credit.amount_currency,
            "amount_cents": credit.amount_cents,
            "returned_amount_cents": credit.returned_cents,
            "amount": major_from_cents(credit.amount_cents, credit.amount_currency),
            "created_at": credit.created_at,
        }


# Wallets

WALLET_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("id", "code", "name", "status", "external_customer_id", "currency"), str),
    "rate_amount": Decimal,
    "balance_cents": int,
    "balance": Decimal,
    **dict.fromkeys(("purchased_balance_cents", "granted_balance_cents"), int),
    **dict.fromkeys(("credits_balance", "consumed_credits"), Decimal),
    **dict.fromkeys(("expiration_at", "terminated_at", "created_at"), datetime),
    **PARTY_COLUMNS,
}


def wallet_row(wallet: Wallet, purchased_cents: int, parties: Parties) -> Row:
    """A wallet as it stands. `purchased_cents` of its balance were paid for and are owed; the rest was granted."""
    return {
        **_party_values(parties),
        "id": wallet.id,
        "code": wallet.code,
        "name": wallet.name,
        "status": wallet.status,
        "currency": wallet.currency,
        "rate_amount": wallet.rate_amount,
        "balance_cents": wallet.balance_cents,
        "balance": major_from_cents(wallet.balance_cents, wallet.currency),
        "purchased_balance_cents": purchased_cents,
        "granted_balance_cents": wallet.balance_cents - purchased_cents,
        "credits_balance": wallet.credits_balance,
        "consumed_credits": wallet.consumed_credits,
        "expiration_at": wallet.expiration_at,
        "terminated_at": wallet.terminated_at,
        "created_at": wallet.created_at,
    }


# The ledger

LEDGER_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("posting_date", "document_date"), date),
    **dict.fromkeys(("document_type", "number", "external_customer_id", "billing_entity", "account", "tax_code"), str),
    "tax_rate": Decimal,
    **dict.fromkeys(("country", "provider", "currency"), str),
    "amount_cents": int,
    "amount": Decimal,
    "base_currency": str,
    "base_amount_cents": int,
    **dict.fromkeys(("base_amount", "exchange_rate"), Decimal),
    **dict.fromkeys(("invoice_number", "document_id", "group_id", "id"), str),
    "created_at": datetime,
}


def ledger_row(movement: Movement, parties: Parties, invoice: Invoice | None) -> Row:
    """A movement: a debit is positive, a credit negative. Those of a `group_id` sum to zero."""
    base, base_currency = movement.base_amount_cents, movement.base_currency
    return {
        "posting_date": movement.posting_date,
        "document_date": movement.document_date,
        "document_type": movement.document_type,
        "number": movement.number,
        "external_customer_id": parties.external_customer_id,
        "billing_entity": parties.billing_entity,
        "account": movement.account,
        "tax_code": movement.tax_code,
        "tax_rate": movement.tax_rate,
        "country": movement.country,
        "provider": movement.provider,
        "currency": movement.currency,
        "amount_cents": movement.amount_cents,
        "amount": major_from_cents(movement.amount_cents, movement.currency),
        "base_currency": base_currency,
        "base_amount_cents": base,
        "base_amount": None if base is None or base_currency is None else major_from_cents(base, base_currency),
        "exchange_rate": movement.exchange_rate,
        "invoice_number": None if invoice is None else invoice.number,
        "document_id": movement.document_id,
        "group_id": movement.group_id,
        "id": movement.id,
        "created_at": movement.created_at,
    }


RECEIVABLE_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("invoice_number", "invoice_type", "external_customer_id"), str),
    **dict.fromkeys(("issuing_date", "payment_due_date"), date),
    "days_overdue": int,
    "currency": str,
    "amount_cents": int,
    "amount": Decimal,
    **PARTY_COLUMNS,
    "self_billed": str,
}


def receivable_row(invoice: Invoice, parties: Parties, cents: int, day: date) -> Row:
    """What was due on an invoice at the end of a day; below zero if too much was paid, or for a purchase."""
    late = (day - invoice.payment_due_date).days
    return {
        **_party_values(parties),
        "invoice_number": invoice.number,
        "invoice_type": invoice.invoice_type,
        "issuing_date": invoice.issuing_date,
        "payment_due_date": invoice.payment_due_date,
        "days_overdue": max(0, late) if cents > 0 else 0,
        "currency": invoice.currency,
        "amount_cents": cents,
        "amount": major_from_cents(cents, invoice.currency),
        "self_billed": _yes_or_no(invoice.self_billed),
    }


DEFERRED_COLUMNS: Mapping[str, type] = {
    "month": date,
    **dict.fromkeys(("invoice_number", "external_customer_id", "fee_type", "item_code", "item_name"), str),
    **dict.fromkeys(("from_date", "to_date"), date),
    "currency": str,
    **dict.fromkeys(("earned_cents", "deferred_cents"), int),
    **dict.fromkeys(("earned", "deferred"), Decimal),
    **PARTY_COLUMNS,
}


def deferred_row(fee: Fee, invoice: Invoice, parties: Parties, first: date, last: date, earned: Earned) -> Row:
    """What a fee in advance for the days from `first` to `last` earned in a month, and what it deferred at its end."""
    return {
        **_party_values(parties),
        "month": earned.month,
        "invoice_number": invoice.number,
        "fee_type": fee.fee_type,
        "item_code": fee.item.code,
        "item_name": fee.item.name,
        "from_date": first,
        "to_date": last,
        "currency": fee.currency,
        "earned_cents": earned.earned_cents,
        "deferred_cents": earned.deferred_cents,
        "earned": major_from_cents(earned.earned_cents, fee.currency),
        "deferred": major_from_cents(earned.deferred_cents, fee.currency),
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
