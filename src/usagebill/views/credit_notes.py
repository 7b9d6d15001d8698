"""How credit notes are shown."""

from __future__ import annotations

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.credit_note_estimates import CreditNoteEstimate
from usagebill.core.credit_notes import CreditNote, CreditNoteItem
from usagebill.core.customers import Customer
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import decimal_text
from usagebill.core.taxes import AppliedTax
from usagebill.views.customers import customer_summary
from usagebill.views.documents import document_url
from usagebill.views.fees import applied_tax_view, fee_view
from usagebill.views.formats import date_text, instant_text, rate_number
from usagebill.work import JsonObject, Work

__all__ = ["credit_note_estimate_view", "credit_note_view"]


def _tax_view(line: AppliedTax) -> JsonObject:
    return {**applied_tax_view(line), "base_amount_cents": line.base_amount_cents}


def _item_view(work: Work, item: CreditNoteItem) -> JsonObject:
    fee = work.tx.get(Fee, item.fee_id, deleted=True)
    return {
        "svc_id": item.id,
        "amount_cents": item.amount_cents,
        "precise_amount_cents": decimal_text(item.precise_amount_cents),
        "amount_currency": item.amount_currency,
        "fee": None if fee is None else fee_view(work, fee),
    }


def _customer(work: Work, note: CreditNote) -> object:
    if note.customer_snapshot is not None:
        return dict(note.customer_snapshot)
    customer = work.tx.get(Customer, note.customer_id, deleted=True)
    return None if customer is None else customer_summary(work, customer)


def credit_note_view(work: Work, note: CreditNote) -> JsonObject:
    """A credit note with its customer, items and taxes."""
    entity = work.tx.get(BillingEntity, note.billing_entity_id, deleted=True)
    invoice = work.tx.get(Invoice, note.invoice_id)
    shown: JsonObject = {
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
        "file_url": document_url(work, note.pdf_id),
        "xml_url": document_url(work, note.xml_id),
        "self_billed": note.self_billed,
        "customer": _customer(work, note),
        "items": [_item_view(work, item) for item in note.items],
        "applied_taxes": [{**_tax_view(line), "svc_credit_note_id": note.id} for line in note.applied_taxes],
        "error_details": [],
    }
    if note.metadata is not None:
        shown["metadata"] = dict(note.metadata)
    return shown


_UNSTORED = ("svc_id", "created_at")


def credit_note_estimate_view(_: Work, estimate: CreditNoteEstimate) -> JsonObject:
    """What a credit note would come to."""
    result, amounts, invoice = estimate.result, estimate.amounts, estimate.invoice
    taxes = [{key: value for key, value in _tax_view(line).items() if key not in _UNSTORED} for line in result.lines]
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
        "applied_taxes": taxes,
    }
