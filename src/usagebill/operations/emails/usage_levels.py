"""The e-mail that tells a customer that usage has reached a level which the customer has set in the portal."""

from __future__ import annotations

from usagebill.core.alerts import Alert, reached_level
from usagebill.core.customers import Customer
from usagebill.core.documents.locales import money_text, written
from usagebill.core.documents.parties import customer_contact
from usagebill.core.documents.words.portal import portal_words_of
from usagebill.core.email_texts import filled, own_text
from usagebill.core.emails import Email, EmailSubject, addresses, message_id, note_texts, one_line
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.tasks import SendEmail
from usagebill.operations.emails.orders import sender_of
from usagebill.operations.emails.overdue import Unsent
from usagebill.queries.customers import entity_of
from usagebill.queries.subscriptions import plan_of
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq
from usagebill.views.customers import customer_summary


def can_be_told(reader: Reader, customer: Customer) -> bool:
    """Whether the customer and the billing entity have addresses."""
    return bool(addresses(customer.email)) and sender_of(reader, entity_of(reader, customer)) is not None


def email_level(work: Work, alert: Alert) -> None:
    """Order the e-mail, unless one waits. Nothing is sent unless both parties have an address."""
    customer = work.tx.get(Customer, alert.customer_id)
    if not work.mailing or customer is None or not can_be_told(work, customer):
        return
    if work.tx.jobs.waiting(SendEmail.kind, alert.id) is not None:
        return
    sender = sender_of(work, entity_of(work, customer)) or ""
    id = message_id(work.new_id(), sender)
    work.schedule(SendEmail(subject=EmailSubject.USAGE_LEVEL, subject_id=alert.id, message_id=id, asked=True), work.now)


def level_email(work: Work, task: SendEmail) -> Email | Unsent:
    """The e-mail with the highest level that usage has reached. `Unsent` if nobody wants to know any more."""
    alert = work.tx.get(Alert, task.subject_id)
    customer = None if alert is None else work.tx.get(Customer, alert.customer_id)
    if alert is None or customer is None:
        return Unsent(reason="the alert was removed")
    running = (
        eq("external_id", alert.external_subscription_id),
        eq("customer_id", customer.id),
        eq("status", SubscriptionStatus.ACTIVE),
    )
    subscription, level = work.tx.first(Subscription, *running), reached_level(alert)
    if subscription is None or level is None:
        return Unsent(reason="usage has started over")
    entity = entity_of(work, customer)
    sender = sender_of(work, entity)
    if sender is None or not addresses(customer.email):
        return Unsent(reason="the billing entity or the customer has no address any more")
    language = customer.document_locale or entity.document_locale
    locale = written(language, work.settings.document_formats)
    words, plan = portal_words_of(locale), plan_of(work, subscription)
    shown, value = (money_text(int(cents), plan.amount_currency, locale) for cents in (level, alert.previous_value))
    name = subscription.name or plan.invoice_display_name or plan.name
    contact = customer_contact(customer_summary(work, customer)).display_name
    values = {"entity": entity.name, "customer": contact, "amount": shown, "subscription": name}
    own = filled(own_text(entity.email_texts, EmailSubject.USAGE_LEVEL, language), values)
    title = one_line(own.subject or words.level_reached.format(name=name, amount=shown))
    text, page = note_texts(title, words.level_now.format(amount=value), locale, own)
    return Email(
        id=task.message_id,
        sent_at=work.now,
        sender_name=one_line(entity.name),
        sender=sender,
        reply_to=addresses(entity.email),
        to=addresses(customer.email),
        subject=title,
        text=text,
        html=page,
        language=language,
        reached=task.reached,
    )
