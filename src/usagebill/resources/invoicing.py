"""Invoices, their fees and credit notes."""

from __future__ import annotations

from typing import ClassVar

from usagebill.core.credit_note_estimates import CreditNoteEstimate
from usagebill.core.credit_notes import CreditNote
from usagebill.core.fees import Fee
from usagebill.core.invoices.explained import ExplainedEvent, ExplainedInvoice
from usagebill.core.invoices.records import Invoice
from usagebill.core.payments import PaymentPage
from usagebill.operations import credit_notes, fees, refunds
from usagebill.operations.documents import files as documents
from usagebill.operations.emails import resending as emails
from usagebill.operations.invoices import (
    drafts as invoice_drafts,
    lifecycle as invoice_lifecycle,
    line_edits,
    listing as invoice_listing,
    one_off as invoice_one_off,
    payment_links,
)
from usagebill.operations.preview import explain_preview, preview, preview_all
from usagebill.queries.credit_notes import finalized_credit_note
from usagebill.queries.fees import fee_by_id
from usagebill.queries.invoices import visible_invoice
from usagebill.rating.explain import explain
from usagebill.rating.fee_events import events_of_fee
from usagebill.resources.bindings import Message, Messages, Resource, Views, command, query
from usagebill.resources.result_views import payment_page_view
from usagebill.views.credit_notes import (
    CreditNoteOfCustomer,
    IssuedCreditNote,
    credit_note_estimate_view,
    credit_note_view,
)
from usagebill.views.explanations import event_of_fee_view, explanation_view
from usagebill.views.fees import UntaxedFeeView, fee_view
from usagebill.views.invoices import INVOICE_MESSAGES, PaymentDisputeLost, PaymentFailure, invoice_view
from usagebill.views.payment_providers import RefundFailureView
from usagebill.views.tax_providers import FeeTaxErrorView


class CreditNotes(Resource):
    """Credit notes on invoices."""

    permission = "credit_note"

    views: ClassVar[Views] = {CreditNote: credit_note_view, CreditNoteEstimate: credit_note_estimate_view}
    messages: ClassVar[Messages] = {
        "credit_note.provider_refund_failure": Message("A payment provider did not refund.", RefundFailureView),
        "credit_note.created": Message("A credit note was issued.", IssuedCreditNote),
        "credit_note.generated": Message("The document of a credit note was made.", CreditNoteOfCustomer),
    }

    create = command(credit_notes.create)
    estimate = query(credit_notes.estimate)
    update = command(credit_notes.update)
    get = query(finalized_credit_note)
    list = query(credit_notes.list_all)
    list_of_customer = query(credit_notes.list_of_customer)
    void = command(credit_notes.void)
    replace_metadata = command(credit_notes.replace_metadata)
    merge_metadata = command(credit_notes.merge_metadata)
    delete_metadata = command(credit_notes.delete_metadata)
    delete_metadata_key = command(credit_notes.delete_metadata_key)
    retry_refund = command(refunds.retry)
    download = command(documents.download_credit_note)
    download_xml = command(documents.download_credit_note_xml)
    pdf = command(documents.credit_note_pdf)
    xml = command(documents.credit_note_xml)
    resend_email = command(emails.resend_credit_note)


class Fees(Resource):
    """The lines of invoices."""

    permission = "fee"

    views: ClassVar[Views] = {Fee: fee_view, ExplainedEvent: event_of_fee_view}
    messages: ClassVar[Messages] = {
        "fee.created": Message("A fee was charged in advance, or has no invoice.", UntaxedFeeView),
        "fee.tax_provider_error": Message(
            "A tax provider returned no taxes for a fee without an invoice.", FeeTaxErrorView
        ),
    }

    update = command(fees.update)
    get = query(fee_by_id)
    list = query(fees.list_all)
    events = query(events_of_fee)
    delete = command(fees.delete)


class Invoices(Resource):
    """Invoices and their fees."""

    permission = "invoice"

    views: ClassVar[Views] = {
        Invoice: invoice_view,
        ExplainedInvoice: explanation_view,
        PaymentPage: payment_page_view,
    }
    messages: ClassVar[Messages] = {
        **{
            name: Message(about, INVOICE_MESSAGES[name])
            for name, about in {
                "invoice.created": "An invoice of subscriptions was issued.",
                "invoice.one_off_created": "An invoice of add-ons was issued.",
                "invoice.paid_credit_added": "An invoice of prepaid credits was issued.",
                "invoice.generated": "The document of an invoice was made.",
                "invoice.drafted": "A draft was made; it can change until it is finalized.",
                "invoice.ready_to_finalize": "The taxes of a draft are known.",
                "invoice.voided": "An invoice was voided.",
                "invoice.deleted": "A draft was deleted.",
                "invoice.payment_status_updated": "The payment status of an invoice changed.",
                "invoice.payment_overdue": "An invoice is overdue.",
                "invoice.payment_dispute_won": "The money that a lost dispute took is back.",
                "invoice.overpaid": "More was paid for an invoice than is due; a payment can be refunded.",
                "invoice.resynced": "An invoice is to be pushed to a CRM again.",
            }.items()
        },
        "invoice.payment_dispute_lost": Message("The dispute about a payment was lost.", PaymentDisputeLost),
        "invoice.payment_failure": Message("An invoice could not be collected.", PaymentFailure),
    }

    get = query(visible_invoice)
    list = query(invoice_listing.list_all)
    list_of_customer = query(invoice_listing.list_of_customer)
    update = command(invoice_lifecycle.update)
    finalize = command(invoice_drafts.finalize)
    refresh = command(invoice_drafts.refresh)
    delete = command(invoice_drafts.delete)
    void = command(invoice_lifecycle.void)
    lose_dispute = command(invoice_lifecycle.lose_dispute)
    preview = command(preview)
    preview_all = command(preview_all)
    explain_preview = command(explain_preview)
    adjust_fee = command(line_edits.adjust_fee)
    reset_fee = command(line_edits.reset_fee)
    estimate_adjusted_fee = command(line_edits.estimate_adjusted_fee)
    regenerate = command(line_edits.regenerate)
    create_one_off = command(invoice_one_off.create)
    retry = command(invoice_lifecycle.retry)
    retry_payment = command(payment_links.retry_payment)
    payment_url = command(payment_links.payment_url)
    download = command(documents.download_invoice)
    download_xml = command(documents.download_invoice_xml)
    pdf = command(documents.invoice_pdf)
    xml = command(documents.invoice_xml)
    resend_email = command(emails.resend_invoice)
    explain = query(explain)
