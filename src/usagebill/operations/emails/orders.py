"""Orders: e-mails that are to be sent next, by a job of their own that is written with what caused it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.documents.files import DocumentSubject
from usagebill.core.emails import (
    CREDIT_NOTE_CREATED,
    INVOICE_FINALIZED,
    RECEIPT_CREATED,
    EmailSubject,
    Recipients,
    addresses,
    message_id,
)
from usagebill.core.invoices.life_cycle import InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_requests import PaymentRequest
from usagebill.core.tasks import SendEmail
from usagebill.operations.documents.orders import Documented, subject_of
from usagebill.work import Reader, Work

__all__ = [
    "customer_addresses",
    "email_on_issue",
    "email_request",
    "entity_of_subject",
    "is_switched_on",
    "order_email",
    "sender_of",
]

_SETTINGS = {
    DocumentSubject.INVOICE: INVOICE_FINALIZED,
    DocumentSubject.CREDIT_NOTE: CREDIT_NOTE_CREATED,
    DocumentSubject.PAYMENT_RECEIPT: RECEIPT_CREATED,
}


def entity_of_subject(reader: Reader, subject: Documented | PaymentRequest) -> BillingEntity:
    """The billing entity that issued an invoice, credit note or receipt, or asks to be paid, as it is now."""
    entity = reader.tx.get(BillingEntity, subject.billing_entity_id, deleted=True)
    if entity is None:
        raise LookupError(f"{subject.id} has lost its billing entity")
    return entity


def customer_addresses(reader: Reader, subject: Documented) -> tuple[str, ...]:
    """Where its customer is reached now."""
    customer = reader.tx.get(Customer, subject.customer_id, deleted=True)
    return addresses(None if customer is None else customer.email)


def is_switched_on(entity: BillingEntity, subject: Documented) -> bool:
    """Whether the billing entity has e-mails of this kind sent."""
    return _SETTINGS[subject_of(subject)] in entity.email_settings


def sender_of(reader: Reader, entity: BillingEntity) -> str | None:
    """The address that the billing entity's e-mails come from; None if it has none of its own to be answered at."""
    senders = addresses(entity.email)
    return (reader.settings.email_from or senders[0]) if senders else None


def email_on_issue(work: Work, subject: Documented) -> None:
    """Have what has just been issued sent to its customer, if the billing entity has switched that on.

    Nothing is sent without an address of both, and no invoice whose fees come to nothing or that only states what was
    paid.
    """
    if not work.mailing:
        return
    if isinstance(subject, Invoice) and (
        subject.invoice_type == InvoiceType.ADVANCE_CHARGES or subject.fees_amount_cents == 0
    ):
        return
    entity = entity_of_subject(work, subject)
    sender = sender_of(work, entity)
    if not is_switched_on(entity, subject) or sender is None or not customer_addresses(work, subject):
        return
    order_email(work, subject, sender)


def order_email(work: Work, subject: Documented, sender: str, asked: Recipients | None = None) -> None:
    """Have an e-mail sent: to the customer, or to those that are `asked` for, each time again."""
    email = SendEmail(
        subject=EmailSubject(subject_of(subject)),
        subject_id=subject.id,
        message_id=message_id(work.new_id(), sender),
        asked=asked is not None,
    )
    if asked is not None:
        email = replace(email, to=tuple(asked.to), cc=tuple(asked.cc), bcc=tuple(asked.bcc))
    work.schedule(email, work.now)


def email_request(work: Work, request: PaymentRequest, bcc: Sequence[str] = ()) -> None:
    """Have a customer asked by e-mail to pay what it owes. Nothing is sent without an address of both."""
    if not work.mailing or not addresses(request.email):
        return
    sender = sender_of(work, entity_of_subject(work, request))
    if sender is None:
        return
    email = SendEmail(
        subject=EmailSubject.PAYMENT_REQUEST,
        subject_id=request.id,
        message_id=message_id(work.new_id(), sender),
        asked=False,
        bcc=tuple(bcc),
    )
    work.schedule(email, work.now)
