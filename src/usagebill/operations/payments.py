"""Manual payments: they raise the paid amount of an invoice, and settle it once nothing is due."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from dateutil import parser

from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.invoices.changes import payment_refusal
from usagebill.core.invoices.payment_states import PaymentEvent
from usagebill.core.invoices.records import Invoice
from usagebill.core.payments import Payment, payment_by_hand, payment_errors
from usagebill.core.statuses import PaymentStatus
from usagebill.operations import payment_receipts
from usagebill.operations.backlog import after_backlog, of_record
from usagebill.operations.payment_status import move_payment
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.payment_requests import requests_of_invoice
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, any_of, eq, related, within
from usagebill.storage.ports import Page

_LONGEST_DATE = 128
# Payments of hidden invoices are left out.
_SHOWN = eq("is_shown", True)


@Input
class PaymentInput:
    """`amount_cents` is an integer, not text; `paid_at` is any date or date-time, by default now."""

    invoice_id: Maybe[str] = described(required="create")
    amount_cents: Maybe[object] = described("The amount paid.", unit="cents", example=100, required="create")
    reference: Maybe[str] = described("Your reference of the payment.", example="bank transfer 17", required="create")
    paid_at: Maybe[object] = described("When it was paid: not in the future.", default="now")
    amount_currency: Maybe[str] = described("The currency of the amount: that of the invoice.", default="the same")
    currency: Maybe[str] = described("As `amount_currency`, by the name that invoices have for it.")


@Input
class PaymentFilters:
    external_customer_id: Maybe[str] = ABSENT
    invoice_id: Maybe[str] = ABSENT


@after_backlog(of_record(Invoice, "invoice_id"))
def create(work: Work, request: PaymentInput) -> Payment:
    """Record a full or partial payment of an invoice. Raises `Invalid`, `NotFound` and `Forbidden`."""
    if not request.invoice_id:
        raise Invalid(invoice_id="value_is_mandatory")
    amount = request.amount_cents
    if not isinstance(amount, int) or isinstance(amount, bool) or amount <= 0:
        raise Invalid(amount_cents="invalid_value")
    invoice = work.tx.get(Invoice, request.invoice_id)
    if invoice is None:
        raise NotFound("invoice", request.invoice_id)
    refusal = payment_refusal(invoice.invoice_type, invoice.status)
    if refusal is not None:
        raise refusal
    paid_at = _paid_at(work, request.paid_at)
    reference = request.reference or ""
    problems = payment_errors(invoice, amount, reference)
    if paid_at > work.now:
        problems["paid_at"] = ["date_in_the_future"]
    for name, currency in (("amount_currency", request.amount_currency), ("currency", request.currency)):
        if currency and currency != invoice.currency:
            problems[name] = ["currencies_does_not_match"]
    if any(
        payment_request.payment_status == PaymentStatus.SUCCEEDED
        for payment_request in requests_of_invoice(work, invoice.id)
    ):
        problems["base"] = ["payment_request_is_already_succeeded"]
    if problems:
        raise Invalid(problems)
    payment = payment_by_hand(invoice, amount, reference, paid_at, id=work.new_id(), now=work.now)
    work.tx.insert(payment)
    move_payment(work, invoice, PaymentEvent.PAID_BY_HAND)
    payment_receipts.issue(work, payment)
    return payment


def _paid_at(reader: Reader, sent: object) -> datetime:
    if sent is None or sent is ABSENT or sent == "":
        return reader.now
    if not isinstance(sent, str) or len(sent) > _LONGEST_DATE:
        raise Invalid(paid_at="invalid_date")
    try:
        paid_at = parser.parse(sent, default=datetime(reader.now.year, 1, 1, tzinfo=UTC))
        return paid_at.replace(tzinfo=UTC) if paid_at.tzinfo is None else paid_at.astimezone(UTC)
    except (ValueError, OverflowError) as problem:
        raise Invalid(paid_at="invalid_date") from problem


def get(reader: Reader, payment_id: str) -> Payment:
    """The payment with this id. Raises `NotFound`, also while its invoice is hidden."""
    payment = reader.tx.first(Payment, eq("id", payment_id), _SHOWN)
    if payment is None:
        raise NotFound("payment", payment_id)
    return payment


def list_all(reader: Reader, options: PaymentFilters, paging: Paging) -> Page[Payment]:
    """Payments, newest first, filtered by customer or invoice. Raises `Invalid` for a malformed id."""
    conditions: list[Condition] = [_SHOWN]
    if options.external_customer_id:
        conditions.append(related(Customer, "customer_id", eq("external_id", options.external_customer_id)))
    if options.invoice_id:
        try:
            UUID(options.invoice_id)
        except ValueError as problem:
            raise Invalid(invoice_id="is in invalid format") from problem
        invoice_id = options.invoice_id.lower()
        requests = [asked.id for asked in requests_of_invoice(reader, invoice_id)]
        conditions.append(any_of(eq("invoice_id", invoice_id), within("payment_request_id", requests)))
    return reader.page(Payment, *conditions, paging=paging)


def list_of_customer(reader: Reader, external_id: str, options: PaymentFilters, paging: Paging) -> Page[Payment]:
    """The payments of one customer. Raises `NotFound`."""
    customer = customer_by_external_id(reader, external_id)
    only = PaymentFilters(external_customer_id=customer.external_id, invoice_id=options.invoice_id)
    return list_all(reader, only, paging)
