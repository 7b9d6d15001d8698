"""Credit notes as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import NotRequired, TypedDict, cast

from usagebill.core.credit_note_estimates import CreditNoteEstimate
from usagebill.core.credit_notes import CreditNote, CreditNoteItem
from usagebill.core.fees import AppliedTax
from usagebill.core.numbers import decimal_text
from usagebill.queries.billing_entities import find_entity
from usagebill.queries.customers import find_customer
from usagebill.queries.fees import find_fee
from usagebill.queries.invoices import find_invoice
from usagebill.runtime.work import Reader
from usagebill.views.customers import CustomerSummary, ErrorDetailView, customer_summary, error_detail_view
from usagebill.views.documents import document_url
from usagebill.views.fees import AppliedTaxView, FeeView, applied_tax_view, fee_view
from usagebill.views.formats import Day, DecimalText, Id, Instant, date_text, instant_text, rate_number


class CreditNoteTaxView(AppliedTaxView):
    base_amount_cents: int
    svc_credit_note_id: Id


class CreditNoteItemView(TypedDict):
    svc_id: Id
    amount_cents: int
    precise_amount_cents: DecimalText
    amount_currency: str
    fee: FeeView | None


class CreditNoteOfCustomer(TypedDict):
    """The message that a credit note's document has been generated."""

    svc_id: Id
    billing_entity_code: str | None
    sequential_id: int
    number: str
    svc_invoice_id: Id
    invoice_number: str | None
    purchase_order_number: str | None
    issuing_date: Day
    credit_status: str
    refund_status: str | None
    reason: str
    description: str | None
    currency: str
    total_amount_cents: int
    precise_total_amount_cents: DecimalText
    taxes_amount_cents: int
    precise_taxes_amount_cents: DecimalText
    sub_total_excluding_taxes_amount_cents: int
    balance_amount_cents: int
    credit_amount_cents: int
    refund_amount_cents: int
    offset_amount_cents: int
    coupons_adjustment_amount_cents: int
    taxes_rate: Decimal
    created_at: Instant
    updated_at: Instant
    file_url: str | None
    xml_url: str | None
    self_billed: bool
    customer: CustomerSummary | None
    metadata: NotRequired[Mapping[str, str | None]]


class IssuedCreditNote(CreditNoteOfCustomer):
    """The message about an issued credit note."""

    items: list[CreditNoteItemView]
    applied_taxes: list[CreditNoteTaxView]


class CreditNoteView(IssuedCreditNote):
    error_details: list[ErrorDetailView]


class EstimatedItemView(TypedDict):
    svc_fee_id: Id
    amount_cents: int


class EstimatedTaxView(TypedDict):
    svc_tax_id: Id | None
    tax_name: str
    tax_code: str
    tax_rate: Decimal
    tax_description: str | None
    base_amount_cents: int
    amount_cents: int
    amount_currency: str


class CreditNoteEstimateView(TypedDict):
    svc_invoice_id: Id
    invoice_number: str
    currency: str
    taxes_amount_cents: int
    precise_taxes_amount_cents: DecimalText
    taxes_rate: Decimal
    sub_total_excluding_taxes_amount_cents: int
    max_creditable_amount_cents: int
    max_refundable_amount_cents: int
    max_offsettable_amount_cents: int
    coupons_adjustment_amount_cents: int
    precise_coupons_adjustment_amount_cents: DecimalText
    items: list[EstimatedItemView]
    applied_taxes: list[EstimatedTaxView]


def _item_view(reader: Reader, item: CreditNoteItem) -> CreditNoteItemView:
    fee = find_fee(reader, item.fee_id)
    return {
        "svc_id": item.id,
        "amount_cents": item.amount_cents,
        "precise_amount_cents": decimal_text(item.precise_amount_cents),
        "amount_currency": item.amount_currency,
        "fee": None if fee is None else fee_view(reader, fee),
    }


def _customer(reader: Reader, note: CreditNote) -> CustomerSummary | None:
    if note.customer_snapshot is not None:
        return cast(CustomerSummary, dict(note.customer_snapshot))
    customer = find_customer(reader, note.customer_id)
    return None if customer is None else customer_summary(reader, customer)


def credit_note_of_customer(reader: Reader, note: CreditNote) -> CreditNoteOfCustomer:
    """A credit note with its customer."""
    entity = find_entity(reader, note.billing_entity_id)
    invoice = find_invoice(reader, note.invoice_id)
    shown: CreditNoteOfCustomer = {
        "svc_id": note.id,
        "billing_entity_code": None if entity is None else entity.code,
        "sequential_id": note.sequential_id,
        "number": note.number,
        "svc_invoice_id": note.invoice_id,
        "invoice_number": None if invoice is None else invoice.number,
        "purchase_order_number": note.purchase_order_number,
        "issuing_date": date_text(note.issuing_date),
        "credit_status": note.credit_status,
        "refund_status": note.refund_status,
        "reason": note.reason,
        "description": note.description,
        "currency": note.currency,
        "total_amount_cents": note.total_amount_cents,
        "precise_total_amount_cents": decimal_text(note.precise_total_amount_cents),
        "taxes_amount_cents": note.taxes_amount_cents,
        "precise_taxes_amount_cents": decimal_text(note.precise_taxes_amount_cents),
        "sub_total_excluding_taxes_amount_cents": note.sub_total_excluding_taxes_amount_cents,
        "balance_amount_cents": note.balance_amount_cents,
        "credit_amount_cents": note.credit_amount_cents,
        "refund_amount_cents": note.refund_amount_cents,
        "offset_amount_cents": note.offset_amount_cents,
        "coupons_adjustment_amount_cents": note.coupons_adjustment_amount_cents,
        "taxes_rate": rate_number(note.taxes_rate),
        "created_at": instant_text(note.created_at),
        "updated_at": instant_text(note.updated_at),
        "file_url": document_url(reader, note.pdf_id),
        "xml_url": document_url(reader, note.xml_id),
        "self_billed": note.self_billed,
        "customer": _customer(reader, note),
    }
    if note.metadata is not None:
        shown["metadata"] = dict(note.metadata)
    return shown


def issued_credit_note(reader: Reader, note: CreditNote) -> IssuedCreditNote:
    """A credit note with its customer, items and taxes."""
    return {
        **credit_note_of_customer(reader, note),
        "items": [_item_view(reader, item) for item in note.items],
        "applied_taxes": [
            {**applied_tax_view(line), "base_amount_cents": line.base_amount_cents, "svc_credit_note_id": note.id}
            for line in note.applied_taxes
        ],
    }


def credit_note_view(reader: Reader, note: CreditNote) -> CreditNoteView:
    """A credit note with all its parts, as responses show it."""
    return {
        **issued_credit_note(reader, note),
        "error_details": [error_detail_view(detail) for detail in note.error_details],
    }


def _estimated_tax_view(line: AppliedTax) -> EstimatedTaxView:
    return {
        "svc_tax_id": line.tax_id,
        "tax_name": line.name,
        "tax_code": line.code,
        "tax_rate": rate_number(line.rate),
        "tax_description": line.description,
        "base_amount_cents": line.base_amount_cents,
        "amount_cents": line.amount_cents,
        "amount_currency": line.amount_currency,
    }


def credit_note_estimate_view(_: Reader, estimate: CreditNoteEstimate) -> CreditNoteEstimateView:
    """The estimated amounts of a credit note."""
    result, amounts, invoice = estimate.result, estimate.amounts, estimate.invoice
    return {
        "svc_invoice_id": invoice.id,
        "invoice_number": invoice.number,
        "currency": invoice.currency,
        "taxes_amount_cents": amounts.taxes_cents,
        "precise_taxes_amount_cents": decimal_text(result.taxes_precise),
        "taxes_rate": rate_number(result.taxes_rate),
        "sub_total_excluding_taxes_amount_cents": result.sub_total_cents,
        "max_creditable_amount_cents": amounts.max_creditable_cents,
        "max_refundable_amount_cents": amounts.max_refundable_cents,
        "max_offsettable_amount_cents": estimate.max_offsettable_cents,
        "coupons_adjustment_amount_cents": result.coupons_adjustment_cents,
        "precise_coupons_adjustment_amount_cents": decimal_text(result.coupons_adjustment_precise),
        "items": [{"svc_fee_id": fee.id, "amount_cents": cents} for fee, cents in estimate.items],
        "applied_taxes": [_estimated_tax_view(line) for line in result.lines],
    }
