"""Invoices over HTTP."""

from __future__ import annotations

from typing import Annotated, TypedDict

from usagebill.core.invoices.records import Invoice
from usagebill.http.endpoints import Endpoint
from usagebill.operations.documents import files as documents
from usagebill.operations.emails import resending as emails
from usagebill.operations.invoices import drafts, lifecycle, listing, one_off, payment_links
from usagebill.operations.preview import CourseInput, PreviewInput, explain_preview, preview, preview_all
from usagebill.queries.invoices import visible_invoice
from usagebill.rating.explain import explain
from usagebill.resources.result_views import payment_page_view
from usagebill.runtime.work import Work
from usagebill.views.explanations import explanation_view
from usagebill.views.formats import Unstored
from usagebill.views.invoices import InvoiceView, ListedInvoiceView, invoice_view, listed_invoice_view


class DownloadedInvoiceView(TypedDict):
    invoice: ListedInvoiceView


_NOT_PREVIEWED = Unstored(
    ("metadata", "billing_periods", "error_details", "applied_invoice_custom_sections"), has_ids=True
)


def _downloaded(work: Work, invoice: Invoice | None) -> DownloadedInvoiceView | bytes:
    return b"" if invoice is None else {"invoice": listed_invoice_view(work, invoice)}


def _previewed(_: Work, shown: InvoiceView) -> Annotated[InvoiceView, _NOT_PREVIEWED]:
    return shown


def _all_previewed(_: Work, shown: list[InvoiceView]) -> list[Annotated[InvoiceView, _NOT_PREVIEWED]]:
    return shown


ENDPOINTS = [
    Endpoint(
        "POST",
        "/invoices",
        one_off.create,
        body=one_off.OneOffInput,
        root="invoice",
        returns="invoice",
        view=invoice_view,
        summary="Invoice add-ons",
    ),
    Endpoint(
        "POST",
        "/invoices/preview",
        preview,
        body=PreviewInput,
        returns="invoice",
        view=_previewed,
        summary="Preview an invoice",
    ),
    Endpoint(
        "POST",
        "/invoices/preview/all",
        preview_all,
        body=CourseInput,
        returns="invoices",
        view=_all_previewed,
        summary="Preview all invoices until a day",
    ),
    Endpoint(
        "POST",
        "/invoices/preview/explain",
        explain_preview,
        body=PreviewInput,
        returns="invoice_explanation",
        view=explanation_view,
        summary="Explain each line and the total of the coming invoice",
    ),
    Endpoint(
        "GET",
        "/invoices",
        listing.list_all,
        query=listing.InvoiceFilters,
        paged=True,
        returns="invoices",
        view=listed_invoice_view,
        summary="List invoices",
    ),
    Endpoint(
        "GET",
        "/customers/{external_id}/invoices",
        listing.list_of_customer,
        query=listing.InvoiceFilters,
        paged=True,
        returns="invoices",
        view=listed_invoice_view,
        summary="List the invoices of a customer",
    ),
    Endpoint(
        "GET",
        "/invoices/{invoice_id}",
        visible_invoice,
        returns="invoice",
        view=invoice_view,
        summary="Get an invoice",
    ),
    Endpoint(
        "PUT",
        "/invoices/{invoice_id}",
        lifecycle.update,
        find=visible_invoice,
        body=lifecycle.InvoiceUpdate,
        root="invoice",
        returns="invoice",
        view=invoice_view,
        summary="Set the payment status and the metadata of an invoice",
    ),
    Endpoint(
        "DELETE",
        "/invoices/{invoice_id}",
        drafts.delete,
        returns="invoice",
        view=invoice_view,
        summary="Delete a draft",
    ),
    Endpoint(
        "PUT",
        "/invoices/{invoice_id}/refresh",
        drafts.refresh,
        one_verb=True,
        returns="invoice",
        view=invoice_view,
        summary="Recompute a draft",
    ),
    Endpoint(
        "PUT",
        "/invoices/{invoice_id}/finalize",
        drafts.finalize,
        one_verb=True,
        returns="invoice",
        view=invoice_view,
        summary="Finalize a draft",
    ),
    Endpoint(
        "POST",
        "/invoices/{invoice_id}/void",
        lifecycle.void,
        find=visible_invoice,
        body=lifecycle.InvoiceVoid,
        returns="invoice",
        view=invoice_view,
        summary="Void an invoice, optionally with credit notes",
    ),
    Endpoint(
        "POST",
        "/invoices/{invoice_id}/lose_dispute",
        lifecycle.lose_dispute,
        returns="invoice",
        view=invoice_view,
        summary="Record a lost dispute",
    ),
    Endpoint(
        "PUT",
        "/invoices/{invoice_id}/lose_dispute",
        lifecycle.lose_dispute,
        one_verb=True,
        returns="invoice",
        view=invoice_view,
        summary="Record a lost dispute, like POST",
    ),
    Endpoint(
        "POST",
        "/invoices/{invoice_id}/retry",
        lifecycle.retry,
        returns="invoice",
        view=invoice_view,
        summary="Retry a failed invoice",
    ),
    Endpoint(
        "POST",
        "/invoices/{invoice_id}/retry_payment",
        payment_links.retry_payment,
        find=visible_invoice,
        body=payment_links.PaymentRetry,
        summary="Retry collecting an invoice through the customer's payment provider",
    ),
    Endpoint(
        "POST",
        "/invoices/{invoice_id}/payment_url",
        payment_links.payment_url,
        returns="invoice_payment_details",
        view=payment_page_view,
        summary="Get the page where a customer pays an invoice",
    ),
    Endpoint(
        "GET",
        "/invoices/{invoice_id}/explain",
        explain,
        returns="invoice_explanation",
        view=explanation_view,
        summary="Explain each line and the total of an invoice",
    ),
    Endpoint(
        "POST",
        "/invoices/{invoice_id}/download",
        documents.download_invoice,
        view=_downloaded,
        summary="The PDF of an invoice: its address, or an empty body while it is made",
    ),
    Endpoint(
        "POST",
        "/invoices/{invoice_id}/download_pdf",
        documents.download_invoice,
        view=_downloaded,
        summary="The PDF of an invoice: its address, or an empty body while it is made",
    ),
    Endpoint(
        "POST",
        "/invoices/{invoice_id}/download_xml",
        documents.download_invoice_xml,
        view=_downloaded,
        summary="The XML of an invoice: its address, or an empty body while it is made",
    ),
    Endpoint(
        "POST",
        "/invoices/{invoice_id}/resend_email",
        emails.resend_invoice,
        body=emails.ResendInput,
        summary="Send an invoice by e-mail, to the customer or to others",
    ),
]
