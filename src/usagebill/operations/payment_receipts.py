"""Payment receipts: issued when a payment succeeds, numbered by customer, listed and read."""

from __future__ import annotations

from uuid import UUID

from usagebill.core.errors import Invalid
from usagebill.core.payment_receipts import PaymentReceipt, is_receipted, receipt_number, remaining_cents
from usagebill.core.payments import Payment
from usagebill.operations import synced_documents
from usagebill.operations.documents.orders import order_on_issue
from usagebill.operations.emails.orders import email_on_issue
from usagebill.operations.issuers import version_of
from usagebill.queries.contracts import parties_of
from usagebill.queries.customers import customer_of
from usagebill.queries.payment_requests import request_of
from usagebill.queries.payments import (
    paid_invoices,
    payments_of_invoice,
    receipt_by_id as receipt_by_id,
)
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, within
from usagebill.storage.ports import Page
from usagebill.views.customers import customer_summary
from usagebill.views.payment_receipts import payment_receipt_view


@Input
class ReceiptFilters:
    invoice_id: Maybe[str] = ABSENT


def receipt_series(customer_id: str) -> str:
    """The name of the sequence that counts a customer's receipts."""
    return f"receipts for {customer_id}"


def issue(work: Work, payment: Payment) -> PaymentReceipt | None:
    """The receipt of a payment, issued on the first call after the payment has succeeded.

    Call it wherever a payment becomes `succeeded`, after its invoices are updated. None for a payment without receipt:
    one that has not succeeded, or a partner's.
    """
    customer = customer_of(work, payment)
    synced_documents.payment_succeeded(work, payment, customer)
    if not is_receipted(payment, customer):
        return None
    issued = work.tx.first(PaymentReceipt, eq("payment_id", payment.id))
    if issued is not None:
        return issued
    invoices = paid_invoices(work, payment)
    request = None if payment.payment_request_id is None else request_of(work, payment.payment_request_id)
    position = work.tx.next_number(receipt_series(customer.id))
    parties = parties_of(work, invoices[0])
    receipt = PaymentReceipt(
        id=work.new_id(),
        organization_id=work.organization.id,
        customer_id=customer.id,
        billing_entity_id=parties.issuer.id,
        payment_id=payment.id,
        sequential_id=position,
        number=receipt_number(customer.slug, position),
        remaining_cents=remaining_cents(payment, invoices, None if request is None else request.amount_cents),
        created_at=work.now,
        updated_at=work.now,
        customer_snapshot=customer_summary(work, customer, parties.entity),
        issuer_version_id=version_of(work, parties.issuer),
    )
    work.tx.insert(receipt)
    work.emit("payment_receipt.created", lambda: payment_receipt_view(work, receipt), receipt.id)
    order_on_issue(work, receipt)
    email_on_issue(work, receipt)
    return receipt


def list_all(reader: Reader, options: ReceiptFilters, paging: Paging) -> Page[PaymentReceipt]:
    """Receipts, newest first, filtered by invoice. Raises `Invalid` for a malformed id."""
    if not options.invoice_id:
        return reader.page(PaymentReceipt, paging=paging)
    try:
        UUID(options.invoice_id)
    except ValueError as problem:
        raise Invalid(invoice_id="is in invalid format") from problem
    paid = payments_of_invoice(reader, options.invoice_id.lower())
    return reader.page(PaymentReceipt, within("payment_id", [payment.id for payment in paid]), paging=paging)
