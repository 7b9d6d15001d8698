"""Invoices over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations.invoices import listing
from usagebill.views.invoices import invoice_view, listed_invoice_view

__all__ = ["ENDPOINTS"]

ENDPOINTS = [
    Endpoint(
        "GET",
        "/invoices",
        listing.list_all,
        permission="invoice",
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
        permission="invoice",
        query=listing.InvoiceFilters,
        paged=True,
        returns="invoices",
        view=listed_invoice_view,
        summary="List the invoices of a customer",
    ),
    Endpoint(
        "GET",
        "/invoices/{invoice_id}",
        listing.get,
        permission="invoice",
        returns="invoice",
        view=invoice_view,
        summary="Get an invoice",
    ),
]
