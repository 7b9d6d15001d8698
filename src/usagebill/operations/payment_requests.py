"""Payment requests over overdue invoices: created and listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from usagebill.core.contacts import is_email, normalized_email
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotAllowed, NotFound
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_methods import PaymentMethodChoice, chosen_method
from usagebill.core.payment_requests import PaymentRequest, RequestedInvoice, request_refusal
from usagebill.core.provider_requests import PayableType
from usagebill.core.statuses import INVOICE_PAYMENT_STATUSES
from usagebill.operations.backlog import after_backlog, of_customer_in
from usagebill.operations.emails.orders import email_request
from usagebill.operations.payment_orders import order_payment
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.filters import choices, named_entities
from usagebill.queries.payment_providers import names_method, payment_connection_of
from usagebill.queries.payment_requests import request_by_id as request_by_id
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, asc, eq, ne, related, within
from usagebill.storage.ports import Page
from usagebill.views.payment_requests import payment_request_view


@Input
class PaymentRequestInput:
    """`email` and `payment_method` default to the customer's own."""

    external_customer_id: Maybe[str] = described(required="create")
    email: Maybe[str] = described("The recipient of the request; several addresses are separated by commas.")
    svc_invoice_ids: Maybe[tuple[str, ...]] = described(
        "The overdue invoices to request payment for, by id.", required="create"
    )
    payment_method: Maybe[Mapping[str, object]] = ABSENT


@Input
class PaymentRequestFilters:
    external_customer_id: Maybe[str] = ABSENT
    payment_status: Maybe[object] = described("Only those with this status.", values=INVOICE_PAYMENT_STATUSES)
    currency: Maybe[str] = ABSENT
    billing_entity_codes: Maybe[tuple[str, ...]] = ABSENT


@after_backlog(of_customer_in)
def create(work: Work, request: PaymentRequestInput) -> PaymentRequest:
    """Ask a customer to pay overdue invoices. Ids that are not of the customer's invoices are ignored.

    Raises `NotFound` for an unknown customer and if no invoice remains, `NotAllowed` for invoices that cannot be
    requested (together), and `Invalid` for a malformed address.
    """
    customer = customer_by_external_id(work, request.external_customer_id or "")
    invoices = work.tx.find(
        Invoice,
        within("id", dict.fromkeys(request.svc_invoice_ids or ())),
        eq("customer_id", customer.id),
        ne("status", InvoiceStatus.DELETED),
        order=[asc("issuing_date"), asc("created_at"), asc("id")],
    )
    if not invoices:
        raise NotFound("invoice", next(iter(request.svc_invoice_ids or ()), None))
    refusal = request_refusal(invoices)
    if refusal is not None:
        raise NotAllowed(refusal)
    email = normalized_email(request.email) if request.email else customer.email
    if request.email and not is_email(request.email):
        raise Invalid(email="invalid_email_format")
    return make(work, customer, invoices, email=email, choice=_choice(work, customer, request))


def make(
    work: Work,
    customer: Customer,
    invoices: Sequence[Invoice],
    *,
    email: str | None,
    bcc: Sequence[str] = (),
    dunning_campaign_id: str | None = None,
    choice: PaymentMethodChoice | None = None,
) -> PaymentRequest:
    """Create a request for the amounts due on these invoices, which can be requested together.

    It is charged if the customer's provider does so; otherwise the customer gets an e-mail.
    """
    request = PaymentRequest(
        id=work.new_id(),
        organization_id=work.organization.id,
        customer_id=customer.id,
        billing_entity_id=invoices[0].billing_entity_id,
        amount_cents=sum(invoice.due_cents for invoice in invoices),
        currency=invoices[0].currency,
        email=email,
        dunning_campaign_id=dunning_campaign_id,
        created_at=work.now,
        updated_at=work.now,
    )
    parts = [
        RequestedInvoice(
            id=work.new_id(),
            organization_id=work.organization.id,
            payment_request_id=request.id,
            invoice_id=invoice.id,
            amount_cents=invoice.due_cents,
            created_at=work.now,
            updated_at=work.now,
        )
        for invoice in invoices
    ]
    work.tx.insert(request, *parts)
    work.emit("payment_request.created", lambda: payment_request_view(work, request), request.id)
    if _is_charged(work, customer):
        order_payment(work, PayableType.PAYMENT_REQUEST, request.id, choice)
    else:
        email_request(work, request, bcc=bcc)
    return request


def _choice(reader: Reader, customer: Customer, request: PaymentRequestInput) -> PaymentMethodChoice | None:
    """The requested payment method, if any. Raises `Invalid` for one that is not the customer's."""
    sent = value_or(request.payment_method, None)
    if not names_method(reader, sent, customer.id):
        raise Invalid(payment_method="invalid_payment_method")
    return chosen_method(sent) if sent else None


def _is_charged(reader: Reader, customer: Customer) -> bool:
    """Whether the customer's provider is charged, instead of asking the customer by e-mail."""
    connection = payment_connection_of(reader, customer)
    return connection is not None and connection.traits.charges and bool(customer.provider_customer_id)


def list_all(reader: Reader, options: PaymentRequestFilters, paging: Paging) -> Page[PaymentRequest]:
    """Requests, newest first. Raises `Invalid`, and `NotFound` for an unknown billing entity."""
    conditions = _conditions(reader, options)
    if options.external_customer_id:
        conditions.append(related(Customer, "customer_id", eq("external_id", options.external_customer_id)))
    return reader.page(PaymentRequest, *conditions, paging=paging)


def list_of_customer(
    reader: Reader, external_id: str, options: PaymentRequestFilters, paging: Paging
) -> Page[PaymentRequest]:
    """The requests of one customer. Raises `NotFound` and `Invalid`."""
    customer = customer_by_external_id(reader, external_id)
    return reader.page(PaymentRequest, eq("customer_id", customer.id), *_conditions(reader, options), paging=paging)


def _conditions(reader: Reader, options: PaymentRequestFilters) -> list[Condition]:
    problems: dict[str, object] = {}
    statuses = choices("payment_status", options.payment_status, INVOICE_PAYMENT_STATUSES, problems)
    if problems:
        raise Invalid(problems)
    conditions: list[Condition] = [] if statuses is None else [within("payment_status", statuses)]
    if options.currency:
        conditions.append(eq("currency", options.currency))
    if options.billing_entity_codes:
        conditions.append(within("billing_entity_id", named_entities(reader, options.billing_entity_codes)))
    return conditions
