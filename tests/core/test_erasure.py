"""Erasure: how long documents are kept, what keeps a customer, and by what a text names a person."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from tests.cases import each

from usagebill.core.credit_notes import CreditNote, CreditNoteReason
from usagebill.core.erasure import Person, first_day_kept, obstacle
from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.payments import Payment, RefundAttempt
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.core.subscriptions import SubscriptionStatus
from usagebill.core.wallets import Wallet, WalletStatus

NOW = datetime(2024, 3, 5, tzinfo=UTC)
COMMON: dict[str, Any] = {"organization_id": "o", "customer_id": "c", "created_at": NOW, "updated_at": NOW}
INVOICE = Invoice(
    id="i",
    billing_entity_id="e",
    invoice_type=InvoiceType.ONE_OFF,
    status=InvoiceStatus.FINALIZED,
    currency="EUR",
    number="1",
    issuing_date=NOW.date(),
    payment_due_date=NOW.date(),
    net_payment_term=0,
    total_amount_cents=100,
    total_paid_amount_cents=100,
    payment_status=PaymentStatus.SUCCEEDED,
    **COMMON,
)
PAYMENT = Payment(id="p", amount_cents=100, amount_currency="EUR", **COMMON)
REFUND = RefundAttempt(
    id="r", invoice_id="i", payment_id="p", connection_id="x", amount_cents=1, currency="EUR", **COMMON
)
WALLET = Wallet(id="w", code="w", currency="EUR", rate_amount=Decimal(1), **COMMON)
NOTE = CreditNote(
    id="n",
    invoice_id="i",
    billing_entity_id="e",
    number="1",
    sequential_id=1,
    issuing_date=NOW.date(),
    currency="EUR",
    reason=CreditNoteReason.OTHER,
    **COMMON,
)
UNPAID = replace(INVOICE, total_paid_amount_cents=99, payment_status=PaymentStatus.PENDING)


@each(
    "today,years,first",
    [
        (date(2026, 1, 1), 1, date(2025, 1, 1)),  # all of 2024 may go, as its year ended a year ago
        (date(2025, 12, 31), 1, date(2024, 1, 1)),
        (date(2035, 6, 1), 10, date(2025, 1, 1)),
        (date(2024, 6, 1), 0, date(2024, 1, 1)),
        (date(50, 1, 1), 100, date(1, 1, 1)),
    ],
)
def test_documents_are_kept_for_years_after_the_end_of_theirs(today: date, years: int, first: date) -> None:
    assert first_day_kept(today, years) == first


@each(
    "records,code",
    [
        ({}, None),
        ({"subscriptions": {SubscriptionStatus.TERMINATED, SubscriptionStatus.CANCELED}}, None),
        ({"subscriptions": {SubscriptionStatus.ACTIVE}}, "customer_has_subscriptions"),
        ({"subscriptions": {SubscriptionStatus.PENDING}}, "customer_has_subscriptions"),
        ({"subscriptions": {SubscriptionStatus.INCOMPLETE}}, "customer_has_subscriptions"),
        ({"invoices": (INVOICE,)}, None),
        ({"invoices": (UNPAID,)}, "customer_has_open_invoices"),
        ({"invoices": (replace(UNPAID, payment_status=PaymentStatus.SUCCEEDED),)}, None),
        ({"invoices": (replace(UNPAID, status=InvoiceStatus.VOIDED),)}, None),
        ({"invoices": (replace(INVOICE, status=InvoiceStatus.DRAFT),)}, "customer_has_open_invoices"),
        ({"invoices": (replace(INVOICE, status=InvoiceStatus.PENDING),)}, "customer_has_open_invoices"),
        ({"invoices": (replace(INVOICE, status=InvoiceStatus.FAILED),)}, "customer_has_open_invoices"),
        ({"payments": (PAYMENT,)}, None),
        ({"payments": (replace(PAYMENT, unanswered=True),)}, "customer_has_open_payments"),
        ({"payments": (replace(PAYMENT, payment_status=ChargeStatus.PROCESSING),)}, "customer_has_open_payments"),
        ({"refunds": (REFUND,)}, "customer_has_open_payments"),
        ({"refunds": (replace(REFUND, refund_status=PaymentStatus.SUCCEEDED),)}, None),
        ({"wallets": (WALLET,)}, None),
        ({"wallets": (replace(WALLET, balance_cents=1),)}, "customer_has_credits"),
        ({"wallets": (replace(WALLET, balance_cents=1, status=WalletStatus.TERMINATED),)}, None),
        ({"notes": (NOTE,)}, None),
        ({"notes": (replace(NOTE, balance_amount_cents=1),)}, "customer_has_credits"),
    ],
)
def test_what_is_open_keeps_a_customer(records: dict[str, Any], code: str | None) -> None:
    nothing = {"subscriptions": frozenset(), "invoices": (), "payments": (), "refunds": (), "wallets": (), "notes": ()}
    assert obstacle(**{**nothing, **records}) == code


PERSON = Person(ids=frozenset({"018e"}), external_ids=frozenset({"ada", "ada/1"}))


@each(
    "value,names",
    [
        ({"svc_id": "018e"}, True),
        ({"invoices": [{"customer": {"svc_id": "018e"}}]}, True),
        ({"external_customer_id": "ada"}, True),
        ({"external_ids": ["ada"]}, True),
        ({"name": "ada"}, False),  # a plan may be called so
        ({"external_id": "grace"}, False),
        (None, False),
        ("018e", True),
        (7, False),
    ],
)
def test_a_text_names_a_person_by_ids(value: object, names: bool) -> None:
    assert PERSON.is_in(value) is names


@each(
    "path,without",
    [
        ("/api/v1/customers/ada", "/api/v1/customers/anonymized"),
        ("/api/v1/customers/ada/wallets/ada", "/api/v1/customers/anonymized/wallets/ada"),
        ("/api/v1/subscriptions/ada/1", "/api/v1/subscriptions/anonymized"),
        ("/api/v1/invoices/018e/void", "/api/v1/invoices/anonymized/void"),
        ("/api/v1/customers/ada/1/wallets", "/api/v1/customers/anonymized/wallets"),  # as logs keep an escaped slash
        ("/api/v1/plans/ada", "/api/v1/plans/ada"),
    ],
)
def test_a_path_loses_the_ids_of_a_person(path: str, without: str) -> None:
    assert PERSON.without(path) == without
    assert PERSON.is_in_path(path) is (path != without)
