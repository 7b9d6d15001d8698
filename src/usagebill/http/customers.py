"""Customers over HTTP."""

from __future__ import annotations

from typing import TypedDict

from usagebill.http.endpoints import Endpoint
from usagebill.operations import customer_archives, customers, erasure, payment_pages
from usagebill.operations.portal import portal_url
from usagebill.process.json_text import Nul
from usagebill.queries.customers import customer_by_external_id
from usagebill.resources.result_views import setup_page_view
from usagebill.runtime.work import Reader
from usagebill.views.customers import customer_item, customer_view


class PortalUrlView(TypedDict):
    portal_url: str


def portal_url_view(_: Reader, url: str) -> PortalUrlView:
    """The link, under the name of the customer that it is for."""
    return {"portal_url": url}


def zip_file(_: Reader, content: bytes) -> bytes:
    """The file as it is."""
    return content


ENDPOINTS = [
    Endpoint(
        "POST",
        "/customers",
        customers.upsert,
        body=customers.CustomerInput,
        root="customer",
        nul=Nul.DROPPED,
        known_field=True,
        returns="customer",
        view=customer_view,
        summary="Create a customer, or change the one with this external id",
    ),
    Endpoint(
        "GET",
        "/customers",
        customers.list_all,
        query=customers.CustomerFilters,
        paged=True,
        returns="customers",
        view=customer_item,
        summary="List customers",
    ),
    Endpoint(
        "GET",
        "/customers/{external_id}",
        customer_by_external_id,
        returns="customer",
        view=customer_view,
        summary="Get a customer",
    ),
    Endpoint(
        "GET",
        "/customers/{external_customer_id}/portal_url",
        portal_url,
        opens=(
            *("invoice:read", "wallet:read", "customer:write", "subscription:write"),
            *("wallet_transaction:write", "payment_method:write", "alert:write"),
        ),
        returns="customer",
        view=portal_url_view,
        summary="Get a link to the customer's portal, valid for 12 hours",
    ),
    Endpoint(
        "DELETE",
        "/customers/{external_id}",
        customers.delete,
        returns="customer",
        view=customer_view,
        summary="Delete a customer",
    ),
    Endpoint(
        "GET",
        "/customers/{external_id}/archive",
        customer_archives.archive,
        opens=("invoice:read", "event:read", "wallet:read", "activity_log:read"),
        view=zip_file,
        content_type="application/zip",
        summary="Get everything about a customer as a ZIP file",
    ),
    Endpoint(
        "POST",
        "/customers/{external_id}/anonymize",
        erasure.anonymize,
        body=erasure.AnonymizeInput,
        returns="customer",
        view=customer_view,
        summary="Erase who a customer is, for good",
    ),
    Endpoint(
        "POST",
        "/customers/{external_id}/checkout_url",
        payment_pages.checkout_url,
        returns="customer",
        view=setup_page_view,
        summary="Get the page where a customer saves a payment method",
    ),
]
