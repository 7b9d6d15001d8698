"""Payments over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import payments, refunds
from usagebill.views.payments import payment_answer, payment_view

ENDPOINTS = [
    Endpoint(
        "POST",
        "/payments",
        payments.create,
        body=payments.PaymentInput,
        root="payment",
        returns="payment",
        view=payment_view,
        summary="Record a payment of an invoice",
    ),
    Endpoint(
        "GET",
        "/payments",
        payments.list_all,
        query=payments.PaymentFilters,
        paged=True,
        returns="payments",
        view=payment_view,
        summary="List payments",
    ),
    Endpoint(
        "GET",
        "/customers/{external_id}/payments",
        payments.list_of_customer,
        query=payments.PaymentFilters,
        paged=True,
        returns="payments",
        view=payment_view,
        summary="List the payments of a customer",
    ),
    Endpoint(
        "POST",
        "/payments/{payment_id}/refund",
        refunds.refund,
        find=payments.get,
        body=refunds.RefundInput,
        returns="payment",
        view=payment_view,
        summary="Give back what a payment brought beyond what was due",
    ),
    # The interface documents the bare record here, but some clients read the named one.
    Endpoint(
        "GET",
        "/payments/{payment_id}",
        payments.get,
        view=payment_answer,
        summary="Get a payment",
    ),
]
