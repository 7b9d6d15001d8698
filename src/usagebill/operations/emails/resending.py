"""Resending: e-mails of invoices, credit notes and receipts on request."""

from __future__ import annotations

from typing import Annotated

from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.emails import Recipients, list_problems, read_list
from usagebill.core.errors import Invalid, NotAllowed, NotFound
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.operations.documents.orders import Documented
from usagebill.operations.emails.orders import (
    customer_addresses,
    entity_of_subject,
    is_switched_on,
    order_email,
    sender_of,
)
from usagebill.queries.invoices import visible_invoice
from usagebill.queries.payments import receipt_by_id
from usagebill.requests.inputs import Input, Maybe, described, value_or
from usagebill.runtime.work import Work


@Input
class ResendInput:
    """Lists of addresses. Without `to`, or with an empty one, the e-mail goes to the customer's own."""

    to: Maybe[Annotated[object, list[str]]] = described("The recipients.", default="the customer's address")
    cc: Maybe[Annotated[object, list[str]]] = described("The recipients of copies.")
    bcc: Maybe[Annotated[object, list[str]]] = described("The recipients of blind copies.")


@without_backlog(Unrelated.STORED)
def resend_invoice(work: Work, invoice_id: str, request: ResendInput) -> None:
    """Send an issued invoice by e-mail, whether or not it was sent before: to its customer, or to others.

    Raises `NotFound`, and `NotAllowed` unless it is finalized, its billing entity sends invoices by e-mail and there is
    a mail server; `Invalid` for missing and bad addresses.
    """
    invoice = visible_invoice(work, invoice_id)
    if invoice.status != InvoiceStatus.FINALIZED:
        raise NotAllowed("invoice_not_finalized", invoice.status)
    _resend(work, invoice, request)


@without_backlog(Unrelated.STORED)
def resend_credit_note(work: Work, credit_note_id: str, request: ResendInput) -> None:
    """Send an issued credit note by e-mail, whether or not it was sent before: to its customer, or to others.

    Raises `NotFound`, and `NotAllowed` unless it is finalized, its billing entity sends credit notes by e-mail and
    there is a mail server; `Invalid` for missing and bad addresses.
    """
    note = work.tx.get(CreditNote, credit_note_id)
    if note is None or note.status == CreditNoteStatus.DELETED:
        raise NotFound("credit_note", credit_note_id)
    if note.status != CreditNoteStatus.FINALIZED:
        raise NotAllowed("credit_note_not_finalized", note.status)
    _resend(work, note, request)


@without_backlog(Unrelated.STORED)
def resend_receipt(work: Work, payment_receipt_id: str, request: ResendInput) -> None:
    """Send a payment receipt by e-mail, whether or not it was sent before: to its customer, or to others.

    Raises `NotFound`, and `NotAllowed` unless its billing entity sends receipts by e-mail and there is a mail server;
    `Invalid` for missing and bad addresses.
    """
    _resend(work, receipt_by_id(work, payment_receipt_id), request)


def _resend(work: Work, subject: Documented, request: ResendInput) -> None:
    """Order the e-mail with current settings and addresses, so that a corrected address is used; the document is as it
    was issued.

    Raises `NotAllowed` if the billing entity has such e-mails switched off or there is no mail server, and `Invalid`
    for missing and bad addresses, the first kind of fault only.
    """
    entity = entity_of_subject(work, subject)
    if not is_switched_on(entity, subject):
        raise NotAllowed("email_settings_disabled")
    if not work.mailing:
        raise NotAllowed("email_delivery_not_configured")
    sender = sender_of(work, entity)
    if sender is None:
        raise Invalid(billing_entity="must have email configured")
    sent = {name: read_list(value_or(getattr(request, name), None)) for name in ("to", "cc", "bcc")}
    lists = {name: value for name, value in sent.items() if value is not None}
    if len(lists) < len(sent):
        raise Invalid({name: ["must_be_an_array"] for name in sent if name not in lists})
    if not lists["to"] and not customer_addresses(work, subject):
        raise Invalid(to="must have at least one recipient")
    problems = {name: wrong for name, value in lists.items() if (wrong := list_problems(value))}
    if problems:
        raise Invalid(problems)
    order_email(work, subject, sender, Recipients(to=lists["to"], cc=lists["cc"], bcc=lists["bcc"]))
