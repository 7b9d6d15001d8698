"""Samples: how an e-mail of a billing entity would read with its own words."""

from __future__ import annotations

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.documents.content import Content, Party
from usagebill.core.documents.locales import date_text, money_text
from usagebill.core.documents.words import words_of
from usagebill.core.documents.words.portal import portal_words_of
from usagebill.core.email_texts import EmailText, filled, texts_errors
from usagebill.core.emails import EmailSubject, OverdueInvoice, email_texts, note_texts, one_line, overdue_texts
from usagebill.core.errors import Invalid
from usagebill.runtime.work import Reader

_CUSTOMER, _SUBSCRIPTION = "Acme", "Basic"
_CENTS = 123_400


def sample_email(reader: Reader, entity: BillingEntity, text: EmailText) -> tuple[str, str]:
    """Subject and plain text of an e-mail with these words, about a document that does not exist.

    Raises `Invalid` as a change of the entity would.
    """
    if wrong := texts_errors((text,)):
        raise Invalid({"email_texts": wrong})
    locale, words = text.locale, words_of(text.locale)
    amount = money_text(_CENTS, entity.default_currency, locale)
    number = f"{entity.document_number_prefix}-001-001"
    names = {"entity": entity.name, "number": number}
    own = filled(text, {**names, "customer": _CUSTOMER, "amount": amount, "subscription": _SUBSCRIPTION})
    if text.kind == EmailSubject.USAGE_LEVEL:
        of_portal = portal_words_of(locale)
        title = one_line(own.subject or of_portal.level_reached.format(name=_SUBSCRIPTION, amount=amount))
        return title, note_texts(title, of_portal.level_now.format(amount=amount), locale, own)[0]
    if text.kind == EmailSubject.PAYMENT_REQUEST:
        title = one_line(own.subject or words.overdue_email.format(entity=entity.name))
        shown = overdue_texts(
            words,
            locale,
            title,
            name=_CUSTOMER,
            amount=amount,
            payment_term=entity.net_payment_term,
            invoices=[OverdueInvoice(number=number, due=amount, url=None)],
            pay_url=None,
            own=own,
        )
        return title, shown[0]
    headings = {
        EmailSubject.INVOICE: (words.invoice_email, words.number, words.issue_date),
        EmailSubject.CREDIT_NOTE: (words.credit_note_email, words.credit_note_number, words.issue_date),
        EmailSubject.PAYMENT_RECEIPT: (words.receipt_email, words.receipt_number, words.payment_date),
    }
    heading, of_number, of_date = headings[EmailSubject(text.kind)]
    title = one_line(own.subject or heading.format_map(names))
    content = Content(
        locale=locale,
        title=title,
        number=number,
        facts=((of_number, number), (of_date, date_text(reader.now.date(), locale))),
        metadata=(),
        issuer=Party(heading="", name=entity.name),
        recipient=Party(heading="", name=_CUSTOMER),
        amount=amount,
        about=(),
        pages=(),
    )
    is_receipt = text.kind == EmailSubject.PAYMENT_RECEIPT
    return title, email_texts(content, title, words, None, own=own, is_receipt=is_receipt)[0]
