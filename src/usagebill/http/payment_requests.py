"""Payment requests over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import payment_requests
from usagebill.queries.payment_requests import request_by_id
from usagebill.views.payment_requests import payment_request_details, payment_request_view

ENDPOINTS = [
    Endpoint(
        "POST",
        "/payment_requests",
        payment_requests.create,
        body=payment_requests.PaymentRequestInput,
        root="payment_request",
        returns="payment_request",
        view=payment_request_view,
        summary="Request payment of overdue invoices",
    ),
    Endpoint(
        "GET",
        "/payment_requests",
        payment_requests.list_all,
        query=payment_requests.PaymentRequestFilters,
        paged=True,
        returns="payment_requests",
        view=payment_request_view,
        summary="List payment requests",
    ),
    Endpoint(
        "GET",
        "/customers/{external_id}/payment_requests",
        payment_requests.list_of_customer,
        query=payment_requests.PaymentRequestFilters,
        paged=True,
        returns="payment_requests",
        view=payment_request_view,
        summary="List the payment requests of a customer",
    ),
    Endpoint(
        "GET",
        "/payment_requests/{payment_request_id}",
        request_by_id,
        view=payment_request_details,
        summary="Get a payment request",
    ),
]
