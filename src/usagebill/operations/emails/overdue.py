"""The e-mail of a payment request: overdue invoices, with a link to pay them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from usagebill.core.documents.locales import money_text, written
from usagebill.core.documents.parties import customer_contact
from usagebill.core.documents.words import words_of
from usagebill.core.dunning import DunningCampaign
from usagebill.core.email_texts import filled, own_text
from usagebill.core.emails import Email, EmailSubject, OverdueInvoice, addresses, one_line, overdue_texts
from usagebill.core.payment_requests import PaymentRequest
from usagebill.core.statuses import PaymentStatus
from usagebill.core.tasks import ChaseCustomer, SendEmail
from usagebill.operations.emails.orders import entity_of_subject, sender_of
from usagebill.queries.customers import customer_of
from usagebill.queries.dunning import progress_of
from usagebill.queries.payment_requests import parts_of_request, requested_invoices
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq, more
from usagebill.views.customers import customer_summary
from usagebill.views.documents import document_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """The reason for which an e-mail is not sent after all."""

    reason: str


def overdue_email(
    work: Work, task: SendEmail, pay_url_of: Callable[[Work, PaymentRequest], str | None]
) -> Email | Unsent:
    """The e-mail of a payment request, with a link to the page from `pay_url_of`. `Unsent` if it is obsolete, or nobody
    is to get it.
    """
    request = work.tx.get(PaymentRequest, task.subject_id)
    if request is None:
        return Unsent(reason="there is no such request any more")
    invoices = requested_invoices(work, request)
    if request.payment_status == PaymentStatus.SUCCEEDED or not any(invoice.payment_overdue for invoice in invoices):
        return Unsent(reason="nothing that it asks for is overdue any more")
    if _is_superseded(work, request):
        return Unsent(reason="a later attempt of the same campaign asks for it")
    entity = entity_of_subject(work, request)
    sender, to = sender_of(work, entity), addresses(request.email)
    if sender is None or not to:
        return Unsent(reason="the billing entity has no address any more")
    if set(task.reached).issuperset((*to, *task.bcc)):
        return Unsent(reason="all that it is for have it")
    customer = customer_of(work, request)
    language = customer.document_locale or entity.document_locale
    locale = written(language, work.settings.document_formats)
    words = words_of(locale)
    requested_cents = {part.invoice_id: part.amount_cents for part in parts_of_request(work, request)}
    name = customer_contact(customer_summary(work, customer)).display_name
    amount = money_text(request.amount_cents, request.currency, locale)
    values = {"entity": entity.name, "customer": name, "amount": amount}
    own = filled(own_text(entity.email_texts, EmailSubject.PAYMENT_REQUEST, language), values)
    title = one_line(own.subject or words.overdue_email.format(entity=entity.name))
    text, page = overdue_texts(
        words,
        locale,
        title,
        name=name,
        amount=amount,
        payment_term=max(invoice.net_payment_term for invoice in invoices),
        invoices=[
            OverdueInvoice(
                number=invoice.number,
                due=money_text(requested_cents[invoice.id], request.currency, locale),
                url=document_url(work, invoice.pdf_id),
            )
            for invoice in invoices
        ],
        pay_url=pay_url_of(work, request),
        own=own,
    )
    return Email(
        id=task.message_id,
        sent_at=work.now,
        sender_name=one_line(entity.name),
        sender=sender,
        reply_to=addresses(entity.email),
        to=to,
        bcc=task.bcc,
        subject=title,
        text=text,
        html=page,
        language=language,
        reached=task.reached,
    )


def _is_superseded(work: Work, request: PaymentRequest) -> bool:
    """Whether its campaign has asked again since, or is about to.

    After downtime all missed attempts are made at once, and only the last one is sent to the customer.
    """
    if request.dunning_campaign_id is None:
        return False
    later = work.tx.first(
        PaymentRequest,
        eq("customer_id", request.customer_id),
        eq("dunning_campaign_id", request.dunning_campaign_id),
        eq("currency", request.currency),
        eq("billing_entity_id", request.billing_entity_id),
        more("created_at", request.created_at),
    )
    if later is not None:
        return True
    campaign = work.tx.get(DunningCampaign, request.dunning_campaign_id)
    progress = progress_of(work, request.customer_id)
    job = work.tx.jobs.waiting(ChaseCustomer.kind, request.customer_id)
    if campaign is None or progress is None or job is None or job.due_at > work.now or job.error is not None:
        return False
    return progress.attempts.get(request.currency, 0) < campaign.max_attempts
