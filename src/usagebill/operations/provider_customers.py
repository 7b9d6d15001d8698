"""Customers at payment providers: linked on upsert, created there, and kept up to date."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid
from usagebill.core.payment_methods import are_valid_types, types_need_set_up
from usagebill.core.payment_providers import KINDS, PaymentConnection
from usagebill.core.payment_tasks import AskPaymentProvider
from usagebill.core.payments import PaymentMethod
from usagebill.core.provider_requests import ProviderErrand
from usagebill.operations.payment_connections import unlinked
from usagebill.queries.payment_providers import methods_of, named_connection, payment_connection_of
from usagebill.requests.inputs import ABSENT, Input, Maybe, is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq
from usagebill.views.customers import customer_summary
from usagebill.views.payment_providers import customer_error_view


@Input
class ProviderLinkInput:
    """The payment provider of a customer in `billing_configuration`."""

    payment_provider: Maybe[str] = ABSENT
    payment_provider_code: Maybe[str] = ABSENT
    provider_customer_id: Maybe[str] = ABSENT
    sync_with_provider: Maybe[bool] = ABSENT
    provider_payment_methods: Maybe[tuple[str, ...]] = ABSENT


def needs_set_up(customer: Customer) -> bool:
    """Whether the customer has to set up a method on a page before it can be charged."""
    return customer.payment_provider != "stripe" or types_need_set_up(customer.provider_payment_methods)


def linked(reader: Reader, before: Customer | None, customer: Customer, sent: ProviderLinkInput) -> Customer:
    """The customer with the requested payment provider. Raises `Invalid`.

    A provider is linked only if its id of the customer is sent, or the customer is to be created there; otherwise it is
    ignored for a new customer. Null removes the link.
    """
    if not is_given(sent.payment_provider):
        return _changed(customer, sent) if customer.payment_connection_id is not None else customer
    kind = value_or(sent.payment_provider, None)
    synced, provider_id = bool(value_or(sent.sync_with_provider, False)), value_or(sent.provider_customer_id, None)
    if not kind:
        return unlinked(customer)
    same = before is not None and before.payment_provider == kind
    if same and (not sent.payment_provider_code or sent.payment_provider_code == customer.payment_provider_code):
        return _changed(customer, sent)
    if not synced and not provider_id:
        # The customer's id there is unknown.
        return customer if before is None or kind in KINDS else unlinked(customer)
    connection = named_connection(reader, kind, value_or(sent.payment_provider_code, None))
    fresh = replace(
        unlinked(customer),
        payment_provider=connection.kind,
        payment_provider_code=connection.code,
        payment_connection_id=connection.id,
        provider_payment_methods=("card",) if connection.kind == "stripe" else (),
    )
    return _changed(fresh, sent)


def _changed(customer: Customer, sent: ProviderLinkInput) -> Customer:
    if is_given(sent.provider_customer_id) and sent.provider_customer_id:
        customer = replace(customer, provider_customer_id=sent.provider_customer_id)
    if is_given(sent.sync_with_provider):
        customer = replace(customer, sync_with_provider=value_or(sent.sync_with_provider, None))
    methods = value_or(sent.provider_payment_methods, None)
    if methods and customer.payment_provider == "stripe":
        if not are_valid_types(methods):
            raise Invalid(provider_payment_methods="value_is_invalid")
        customer = replace(customer, provider_payment_methods=tuple(dict.fromkeys(methods)))
    return customer


_TOLD = (
    "name",
    "firstname",
    "lastname",
    "email",
    "phone",
    "country",
    "state",
    "city",
    "zipcode",
    "address_line1",
    "address_line2",
)


def follow_link(work: Work, before: Customer | None, customer: Customer) -> None:
    """Schedule the updates of a changed customer, stored already, at its payment provider."""
    was = None if before is None else before.payment_connection_id
    if before is not None and was is not None and was != customer.payment_connection_id:
        for method in work.tx.find(PaymentMethod, eq("customer_id", customer.id), eq("connection_id", was)):
            work.tx.replace(replace(method, is_default=False, deleted_at=work.now, updated_at=work.now))
    connection = payment_connection_of(work, customer)
    if connection is None:
        return
    if was != connection.id:
        _begin(work, customer, connection)
        return
    assert before is not None
    if before.provider_customer_id != customer.provider_customer_id:
        # It is another account there, with its own methods.
        if customer.provider_customer_id and before.provider_customer_id and not customer.sync_with_provider:
            ask_setup(work, customer, connection)
        else:
            _begin(work, customer, connection)
    elif customer.provider_customer_id and any(getattr(before, name) != getattr(customer, name) for name in _TOLD):
        _ask(work, ProviderErrand.UPDATE_CUSTOMER, customer)
    elif not customer.provider_customer_id and customer.sync_with_provider and not before.sync_with_provider:
        _begin(work, customer, connection)


def _begin(work: Work, customer: Customer, connection: PaymentConnection) -> None:
    if customer.provider_customer_id:
        if not methods_of(work, customer.id):
            _ask(work, ProviderErrand.FETCH_METHODS, customer)
    elif customer.sync_with_provider:
        if connection.traits.creates_customers:
            _ask(work, ProviderErrand.CREATE_CUSTOMER, customer)
        else:
            ask_setup(work, customer, connection)


def ask_setup(work: Work, customer: Customer, connection: PaymentConnection) -> None:
    """Schedule the creation of a page to set up a payment method, if the customer needs one."""
    if connection.traits.sets_up and needs_set_up(customer):
        _ask(work, ProviderErrand.SETUP_URL, customer)


def _ask(work: Work, errand: ProviderErrand, customer: Customer) -> None:
    # The idempotency key belongs to this change: retries use the same, the next change another.
    key = f"{errand.value}-{customer.id}-{int(work.now.timestamp())}"
    work.schedule(AskPaymentProvider(errand=errand, subject_id=customer.id, request_key=key), work.now)


def tell_created(work: Work, customer: Customer) -> None:
    """Send the message that the customer was created at its provider."""
    work.emit("customer.payment_provider_created", partial(customer_summary, work, customer), customer.id)


def tell_error(work: Work, customer: Customer, connection: PaymentConnection, message: str, code: str | None) -> None:
    """Send the message that the customer could not be created, changed or set up at its provider."""
    view = partial(customer_error_view, customer, connection, message, code)
    work.emit("customer.payment_provider_error", view, customer.id)
