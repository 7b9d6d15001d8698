"""Payment providers: connections, payment methods, and payments under way."""

from __future__ import annotations

from urllib.parse import quote

from usagebill.core.collection import display_name, first_email
from usagebill.core.customers import Address, Customer
from usagebill.core.errors import Invalid
from usagebill.core.invoices.life_cycle import SUBSCRIPTION_TYPES, InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_methods import BY_HAND, PaymentMethodChoice, first_named, is_payment_method
from usagebill.core.payment_providers import KINDS, PaymentConnection
from usagebill.core.payments import LIVE, Payment, PaymentMethod
from usagebill.core.provider_requests import Payer
from usagebill.core.recurring_rules import RecurringTransactionRule, RuleStatus
from usagebill.core.subscriptions import Subscription
from usagebill.core.wallet_transactions import OF_RULES
from usagebill.queries.customers import entity_of
from usagebill.queries.invoices import periods_of
from usagebill.queries.wallets import transaction_of_invoice, wallet_of
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, desc, eq, present, within


def find_connection(reader: Reader, connection_id: str | None) -> PaymentConnection | None:
    """The connection with this id, deleted or not."""
    return None if connection_id is None else reader.tx.get(PaymentConnection, connection_id, deleted=True)


def payment_connection_of(reader: Reader, customer: Customer) -> PaymentConnection | None:
    """The provider that collects the customer's invoices, if one does."""
    if customer.payment_connection_id is None:
        return None
    return reader.tx.get(PaymentConnection, customer.payment_connection_id)


def has_payment_pages(customer: Customer) -> bool:
    """Whether the customer's provider has pages to pay on."""
    return customer.payment_connection_id is not None and KINDS[customer.payment_provider or ""].pages


def named_connection(reader: Reader, kind: str, code: str | None) -> PaymentConnection:
    """The connection of this kind, and with this code if there is one.

    Raises `Invalid` if there is no such connection, or several and no code to choose by.
    """
    of_code = [eq("code", code)] if code else []
    connections = reader.tx.find(PaymentConnection, eq("kind", kind), *of_code, limit=2)
    if not connections:
        raise Invalid(base="payment_provider_not_found")
    if len(connections) > 1:
        raise Invalid(base="payment_provider_code_missing")
    return connections[0]


def live_payment(reader: Reader, column: str, payable_id: str) -> Payment | None:
    """The payment through a provider that may still move money; `column` holds the id of the payable."""
    return reader.tx.first(Payment, eq(column, payable_id), present("connection_id"), within("payment_status", LIVE))


def methods_of(reader: Reader, customer_id: str) -> list[PaymentMethod]:
    """The customer's payment methods, newest first."""
    return reader.tx.find(PaymentMethod, eq("customer_id", customer_id), order=[desc("created_at"), desc("id")])


def default_method(reader: Reader, customer_id: str) -> PaymentMethod | None:
    """The customer's default payment method; None if it has none, or none that can be charged."""
    return reader.tx.first(PaymentMethod, eq("customer_id", customer_id), eq("is_default", True), eq("is_usable", True))


def notice_path(connection: PaymentConnection) -> str:
    """The path to which the provider sends its notices."""
    return f"/webhooks/{connection.kind}/{connection.organization_id}?code={quote(connection.code, safe='')}"


def notice_url(reader: Reader, connection: PaymentConnection) -> str:
    """The URL to which the provider sends its notices."""
    return reader.settings.public_url.rstrip("/") + notice_path(connection)


def payer_of(reader: Reader, customer: Customer, connection: PaymentConnection, currency: str | None = None) -> Payer:
    """The customer, as sent to its provider."""
    entity = entity_of(reader, customer)
    return Payer(
        customer_id=customer.id,
        external_id=customer.external_id,
        organization_id=customer.organization_id,
        connection_id=connection.id,
        connection_code=connection.code,
        provider_customer_id=customer.provider_customer_id,
        currency=currency or customer.currency or entity.default_currency,
        address=Address(
            address_line1=customer.address_line1,
            address_line2=customer.address_line2,
            city=customer.city,
            state=customer.state,
            zipcode=customer.zipcode,
            country=customer.country,
        ),
        name=display_name(customer),
        firstname=customer.firstname,
        lastname=customer.lastname,
        email=first_email(customer.email),
        phone=customer.phone,
        customer_type=customer.customer_type,
        legal_name=customer.legal_name,
        legal_number=customer.legal_number,
        tax_identification_number=customer.tax_identification_number,
        method_types=customer.provider_payment_methods or ("card",),
        entity_country=entity.country,
        notice_url=notice_url(reader, connection),
    )


# With what


def choice_for(reader: Reader, invoice: Invoice) -> PaymentMethodChoice | None:
    """The payment method of the invoice, else that of its first subscription or of its top-up.

    None means the customer's default method. A subscription invoice without billing periods is paid by hand.
    """
    if invoice.payment_method is not None:
        return invoice.payment_method
    if invoice.invoice_type in SUBSCRIPTION_TYPES:
        periods = periods_of(reader, invoice)
        subscription = None if not periods else reader.tx.get(Subscription, periods[0].subscription_id)
        if subscription is None:
            return BY_HAND
        return PaymentMethodChoice(kind=subscription.payment_method_type, id=subscription.payment_method_id)
    if invoice.invoice_type == InvoiceType.CREDIT:
        return _choice_of_top_up(reader, invoice)
    return None


def _choice_of_top_up(reader: Reader, invoice: Invoice) -> PaymentMethodChoice | None:
    purchase = transaction_of_invoice(reader, invoice.id)
    if purchase is None:
        return None
    choices = [purchase.payment_method]
    if purchase.source in OF_RULES:
        rule = reader.tx.first(
            RecurringTransactionRule,
            eq("wallet_id", purchase.wallet_id),
            eq("status", RuleStatus.ACTIVE),
            order=[asc("created_at"), asc("id")],
        )
        choices.append(None if rule is None else rule.payment_method)
    choices.append(wallet_of(reader, purchase).payment_method)
    return first_named(choices)


def method_chosen(reader: Reader, customer_id: str, choice: PaymentMethodChoice | None) -> PaymentMethod | None:
    """The method to charge; None if payment is by hand, or the method is gone or unusable."""
    if choice is not None and choice.is_by_hand:
        return None
    if choice is None or choice.id is None:
        return default_method(reader, customer_id)
    method = reader.tx.get(PaymentMethod, choice.id)
    return method if method is not None and method.customer_id == customer_id and method.is_usable else None


def names_method(reader: Reader, sent: object, customer_id: str) -> bool:
    """Whether a request's `payment_method` is one of the customer's, or absent."""

    def is_method(id: str) -> bool:
        method = reader.tx.get(PaymentMethod, id)
        return method is not None and method.customer_id == customer_id

    return is_payment_method(sent, is_method)
