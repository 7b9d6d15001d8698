"""Requests to payment providers in tests, and connections to the test servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.payment_servers.server import Fault, PaymentServer
from usagebill.core.customers import Address
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.provider_metadata import charge_metadata, page_metadata
from usagebill.core.provider_requests import (
    Charge,
    CheckoutUrl,
    Payable,
    PayableLine,
    PayableType,
    Payer,
    ProviderFailed,
    ProviderFailure,
    Refund,
    Request,
)
from usagebill.outside.payment_providers.kinds import HttpPaymentProviders

NOW = datetime(2024, 3, 5, 12, tzinfo=UTC)
# The ways in which a request gets no readable answer. A failure on a reused connection is retried at once on a new one.
NO_ANSWER = (
    (Fault.LOST, Fault.LOST),
    (Fault.CLOSED, Fault.CLOSED),
    (Fault.HTML,),
    (Fault.CUT,),
    (Fault.EMPTY,),
    (Fault.BROKEN,),
)


@contextmanager
def providers(timeout: float = 5) -> Iterator[HttpPaymentProviders]:
    """All adapters, with `timeout` seconds per request."""
    opened = HttpPaymentProviders(timeout)
    try:
        yield opened
    finally:
        opened.close()


def connection_to(server: PaymentServer, **fields: Any) -> PaymentConnection:
    """A connection to the server's account."""
    made = {
        "id": "con-1",
        "organization_id": "org-1",
        "kind": server.kind,
        "code": "main",
        "name": "Main",
        "url": server.url,
        "success_redirect_url": "https://shop.example/back",
        "credentials": server.credentials,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return PaymentConnection(**{**made, **fields})


def payer(**fields: Any) -> Payer:
    """A customer in Berlin."""
    made = {
        "customer_id": "c-1",
        "external_id": "acme",
        "organization_id": "org-1",
        "connection_id": "con-1",
        "connection_code": "main",
        "provider_customer_id": "cus_acme",
        "currency": "EUR",
        "address": Address(address_line1="Allee 1", city="Berlin", zipcode="10115", country="DE"),
        "name": "Acme & Söhne",
        "email": "pay@acme.example",
        "phone": "+4930123",
    }
    return Payer(**{**made, **fields})


def invoice(**fields: Any) -> Payable:
    """An invoice over 10.50."""
    made = {
        "type": PayableType.INVOICE,
        "id": "inv-1",
        "reference": "Hooli - Invoice HOO-1-001",
        "billing_entity_id": "be-1",
        "lines": (PayableLine(name="HOO-1-001", amount_cents=1050),),
        "created_at": NOW,
        "number": "HOO-1-001",
        "invoice_type": "subscription",
        "issuing_date": NOW.date(),
    }
    return Payable(**{**made, **fields})


def request(**fields: Any) -> Payable:
    """A request to pay two overdue invoices."""
    lines = (PayableLine(name="HOO-1-001", amount_cents=1000), PayableLine(name="HOO-1-002", amount_cents=50))
    made = {
        "type": PayableType.PAYMENT_REQUEST,
        "id": "req-1",
        "reference": "Hooli - Overdue invoices",
        "billing_entity_id": "be-1",
        "lines": lines,
        "created_at": NOW,
    }
    return Payable(**{**made, **fields})


def charge(kind: str, **fields: Any) -> Charge:
    """A charge of 10.50 for the invoice, unless other fields are set."""
    made = {
        "payment_id": "p-1",
        "key": "payment-p-1",
        "amount_cents": 1050,
        "currency": "EUR",
        "payer": payer(),
        "payable": invoice(),
        **fields,
    }
    metadata = charge_metadata(kind, made["payable"], made["payer"], made["payment_id"])
    return Charge(**{"metadata": metadata, **made})


def checkout(**fields: Any) -> CheckoutUrl:
    """A page for the invoice, for 24 hours, unless other fields are set."""
    made = {
        "page_id": "page-1",
        "key": "page-1",
        "amount_cents": 1050,
        "currency": "EUR",
        "payer": payer(),
        "payable": invoice(),
        "at": NOW,
        "expires_at": NOW + timedelta(hours=24),
        **fields,
    }
    return CheckoutUrl(**{"metadata": page_metadata(made["payable"], made["payer"]), **made})


def refund(payment: str, **fields: Any) -> Refund:
    """A refund of 4.00, because the charge was made twice."""
    made = {
        "provider_payment_id": payment,
        "key": "note-1",
        "credit_note_id": "note-1",
        "invoice_id": "inv-1",
        "customer_id": "c-1",
        "amount_cents": 400,
        "currency": "EUR",
        "reason": "duplicated_charge",
    }
    return Refund(**{**made, **fields})


def failure_of(
    opened: HttpPaymentProviders, connection: PaymentConnection, question: Request[object]
) -> ProviderFailure:
    """The failure of the request; fails the test if it is answered."""
    try:
        answer = opened.ask(connection, question)
    except ProviderFailed as problem:
        return problem.failure
    raise AssertionError(f"it was answered: {answer}")
