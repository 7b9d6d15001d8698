"""Payment receipts for people to read."""

from __future__ import annotations

from collections.abc import Iterable

from usagebill.core.days import local_date
from usagebill.core.documents.content import Content, Page, Row, Table, Total
from usagebill.core.documents.invoices import invoice_content
from usagebill.core.documents.locales import date_text, money_text
from usagebill.core.documents.parties import customer_contact, customer_facts, entity_contact, party
from usagebill.core.documents.sources import ReceiptSource
from usagebill.core.documents.words import Words, words_of
from usagebill.core.payments import Payment


def receipt_content(source: ReceiptSource) -> Content:
    """The document of a receipt: the amount paid, the date, the amount still due, and what was paid for."""
    locale, words = source.locale, words_of(source.locale)
    paid_on = date_text(local_date(source.payment.created_at, source.zone), locale)
    facts = [(words.receipt_number, source.receipt.number)]
    if not source.of_request:
        facts += [(words.invoice_number, invoice.invoice.number) for invoice in source.invoices]
    if method := _method(source.payment):
        facts.append((words.payment_method, method))
    facts.append((words.payment_date, paid_on))
    remaining = _money(source, source.receipt.remaining_cents)
    return Content(
        locale=locale,
        title=words.receipt,
        number=source.receipt.number,
        facts=tuple(facts),
        metadata=customer_facts(source.customer),
        issuer=party(words.issuer, entity_contact(source.entity), locale, source.country_names),
        recipient=party(words.recipient, customer_contact(source.customer), locale, source.country_names),
        amount=_money(source, source.payment.amount_cents),
        about=(words.paid_and_remaining.format(date=paid_on, amount=remaining),),
        pages=tuple(_pages(source, words)),
        footer=source.entity.invoice_footer,
        logo=source.entity.logo_url,
    )


def _method(payment: Payment) -> str:
    """The method of payment: `Visa **** 1234`, `Sepa Debit`; empty if unknown."""
    method = payment.method
    if method is None:
        return ""
    if method.last4:
        return f"{(method.brand or method.type or '').replace('_', ' ').title()} **** {method.last4}".strip()
    return (method.type or "").replace("_", " ").title()


def _money(source: ReceiptSource, cents: int) -> str:
    return money_text(cents, source.payment.amount_currency, source.locale)


def _pages(source: ReceiptSource, words: Words) -> Iterable[Page]:
    """The body of the paid invoice; for a payment request, a list of its invoices."""
    if not source.of_request:
        for invoice in source.invoices:
            yield from invoice_content(invoice).pages
        return
    invoices = [invoice.invoice for invoice in source.invoices]
    rows = tuple(Row(name=invoice.number, amount=_money(source, invoice.total_amount_cents)) for invoice in invoices)
    paid = Total(label=words.amount_paid, amount=_money(source, source.payment.amount_cents), strong=True)
    yield Page(tables=(Table(columns=(words.invoice_number, words.total_amount), rows=rows),), totals=(paid,))
