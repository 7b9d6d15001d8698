"""Payment providers: who collects from a customer, with what, and what is on its way."""

from __future__ import annotations

from usagebill.core.customers import Customer
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payments import LIVE, Payment, PaymentMethod
from usagebill.core.statuses import ChargeStatus
from usagebill.storage.conditions import desc, eq, present, within
from usagebill.work import Reader

__all__ = ["default_method", "live_payment", "methods_of", "paid_cents", "payment_connection_of"]


def payment_connection_of(reader: Reader, customer: Customer) -> PaymentConnection | None:
    """The provider that collects the customer's invoices, if one does."""
    if customer.payment_connection_id is None:
        return None
    return reader.tx.get(PaymentConnection, customer.payment_connection_id)


def paid_cents(reader: Reader, invoice_id: str) -> int:
    """What has been paid of an invoice directly, by hand and through providers."""
    return reader.tx.total(
        Payment, "amount_cents", eq("invoice_id", invoice_id), eq("payment_status", ChargeStatus.SUCCEEDED)
    )


def live_payment(reader: Reader, column: str, payable_id: str) -> Payment | None:
    """The payment through a provider that may still move money; `column` says what the payable is."""
    return reader.tx.first(Payment, eq(column, payable_id), present("connection_id"), within("payment_status", LIVE))


def methods_of(reader: Reader, customer_id: str) -> list[PaymentMethod]:
    """The customer's payment methods, newest first."""
    return reader.tx.find(PaymentMethod, eq("customer_id", customer_id), order=[desc("created_at"), desc("id")])


def default_method(reader: Reader, customer_id: str) -> PaymentMethod | None:
    """The method that the customer is charged with unless another is named; None if it has none that can be."""
    return reader.tx.first(PaymentMethod, eq("customer_id", customer_id), eq("is_default", True), eq("is_usable", True))
