"""Orders: e-mails to send by a job, stored in the same transaction as their cause."""

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
    is_sent_on_issue,
    message_id,
)
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_requests import PaymentRequest
from usagebill.core.tasks import SendEmail
from usagebill.operations.documents.orders import Documented, subject_of
from usagebill.runtime.work import Reader, Work

_SETTINGS = {
    DocumentSubject.INVOICE: INVOICE_FINALIZED,
    DocumentSubject.CREDIT_NOTE: CREDIT_NOTE_CREATED,
    DocumentSubject.PAYMENT_RECEIPT: RECEIPT_CREATED,
}


def entity_of_subject(reader: Reader, subject: Documented | PaymentRequest) -> BillingEntity:
    """The current billing entity behind an invoice, credit note, receipt or payment request."""
    entity = reader.tx.get(BillingEntity, subject.billing_entity_id, deleted=True)
    if entity is None:
        raise LookupError(f"{subject.id} has lost its billing entity")
    return entity


def customer_addresses(reader: Reader, subject: Documented) -> tuple[str, ...]:
    """The current e-mail addresses of the subject's customer."""
    customer = reader.tx.get(Customer, subject.customer_id, deleted=True)
    return addresses(None if customer is None else customer.email)


def is_switched_on(entity: BillingEntity, subject: Documented) -> bool:
    """Whether the billing entity has e-mails about this kind of subject switched on."""
    return _SETTINGS[subject_of(subject)] in entity.email_settings


def sender_of(reader: Reader, entity: BillingEntity) -> str | None:
    """The address that the billing entity's e-mails come from; None if it has none."""
    senders = addresses(entity.email)
    return (reader.settings.email_from or senders[0]) if senders else None


def email_on_issue(work: Work, subject: Documented) -> None:
    """Order the e-mail about a subject that was just issued, if its billing entity has such e-mails switched on.

    Nothing is sent unless both have an address; neither are invoices with fees of zero, nor those of fees that were
    already paid.
    """
    if not work.mailing:
        return
    if isinstance(subject, Invoice) and not is_sent_on_issue(subject):
        return
    entity = entity_of_subject(work, subject)
    sender = sender_of(work, entity)
    if not is_switched_on(entity, subject) or sender is None or not customer_addresses(work, subject):
        return
    order_email(work, subject, sender)


def order_email(work: Work, subject: Documented, sender: str, recipients: Recipients | None = None) -> None:
    """Order an e-mail to the customer, or to `recipients`, however often it was sent before."""
    email = SendEmail(
        subject=EmailSubject(subject_of(subject)),
        subject_id=subject.id,
        message_id=message_id(work.new_id(), sender),
        asked=recipients is not None,
    )
    if recipients is not None:
        email = replace(email, to=tuple(recipients.to), cc=tuple(recipients.cc), bcc=tuple(recipients.bcc))
    work.schedule(email, work.now)


def email_request(work: Work, request: PaymentRequest, bcc: Sequence[str] = ()) -> None:
    """Order the e-mail of a payment request. Nothing is sent unless both parties have an address."""
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
