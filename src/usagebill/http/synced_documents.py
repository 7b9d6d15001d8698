"""Synced documents of accounting systems and CRMs over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import synced_documents
from usagebill.views.invoices import invoice_view
from usagebill.views.sync_connections import synced_document_view

# Pushed documents are billing documents, and need the permission for those.
ENDPOINTS = [
    Endpoint(
        "GET",
        "/synced_documents",
        synced_documents.list_all,
        query=synced_documents.SyncedDocumentFilters,
        paged=True,
        returns="synced_documents",
        view=synced_document_view,
        summary="List documents pushed, or to be pushed, to accounting systems and CRMs",
    ),
    Endpoint(
        "GET",
        "/synced_documents/{synced_document_id}",
        synced_documents.get,
        returns="synced_document",
        view=synced_document_view,
        summary="Get the push status of a document",
    ),
    Endpoint(
        "POST",
        "/synced_documents/{synced_document_id}/resend",
        synced_documents.resend,
        returns="synced_document",
        view=synced_document_view,
        summary="Push a document to its accounting system or CRM again",
    ),
    Endpoint(
        "POST",
        "/invoices/{invoice_id}/sync",
        synced_documents.push_invoice,
        returns="invoice",
        view=invoice_view,
        summary="Push an invoice, with its credit notes and payments, to its customer's accounting systems and CRMs",
    ),
]
