"""E-mails to customers, with their invoices, credit notes and receipts and reminders of overdue invoices; and to users
of the console, with links to sign in.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from usagebill.core.contacts import is_email, normalized_email
from usagebill.core.credit_notes import CreditNote, CreditStatus
from usagebill.core.documents.content import Content
from usagebill.core.documents.locales import language_of
from usagebill.core.documents.words import Words
from usagebill.core.email_texts import PLAIN, EmailText
from usagebill.core.invoices.life_cycle import InvoiceType
from usagebill.core.invoices.records import Invoice

# The e-mails that a billing entity switches on in its `email_settings`.
INVOICE_FINALIZED, CREDIT_NOTE_CREATED = "invoice.finalized", "credit_note.created"
RECEIPT_CREATED = "payment_receipt.created"
_EMPTY_LINES = re.compile(r"\n[^\S\n]*\n\s*")
_NOT_IN_FILE_NAMES = str.maketrans(dict.fromkeys('/\\:*?"<>|', "-"))


class EmailSubject(StrEnum):
    """The kinds of records that e-mails are about; the last two are about users of the console: a link that was asked
    for to sign in, and one for a user whom an administrator has added.
    """

    INVOICE = "invoice"
    CREDIT_NOTE = "credit_note"
    PAYMENT_RECEIPT = "payment_receipt"
    PAYMENT_REQUEST = "payment_request"
    USAGE_LEVEL = "usage_level"
    SIGN_IN = "sign_in"
    INVITATION = "invitation"


# E-mails with a link to sign in.
WITH_LINK = frozenset({EmailSubject.SIGN_IN, EmailSubject.INVITATION})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file attached to an e-mail."""

    name: str
    content_type: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """An e-mail ready to be sent. `bcc` addresses receive it but appear in no header.

    `id` is the Message-ID, with its angle brackets: it does not change when the e-mail is resent. `reached` are the
    addresses that already received it.
    """

    id: str
    sent_at: datetime
    sender_name: str
    sender: str
    reply_to: tuple[str, ...]
    to: tuple[str, ...]
    subject: str
    text: str
    html: str
    language: str
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    reached: tuple[str, ...] = ()

    @property
    def recipients(self) -> tuple[str, ...]:
        """The addresses to deliver to, each once, without those it already reached."""
        everybody = dict.fromkeys((*self.to, *self.cc, *self.bcc))
        return tuple(address for address in everybody if address not in self.reached)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipients:
    """The addresses that a caller requested; without `to` the e-mail goes to the customer."""

    to: tuple[str, ...] = ()
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()


def addresses(text: str | None) -> tuple[str, ...]:
    """The addresses in a field that may hold several, separated by commas."""
    return tuple(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))


def read_list(field_value: object) -> tuple[str, ...] | None:
    """A list of addresses as sent, without nulls; None if it is not a list."""
    if field_value is None:
        return ()
    if not isinstance(field_value, (list, tuple)):
        return None
    sent = (address if isinstance(address, str) else str(address) for address in field_value if address is not None)
    return tuple(dict.fromkeys(normalized_email(address) for address in sent))


def list_problems(addresses: tuple[str, ...]) -> list[str]:
    """Errors in a list of addresses, as one text; empty if each is a single valid address."""
    wrong = [address for address in addresses if "," in address or not is_email(address)]
    return [f"invalid email format: {', '.join(wrong)}"] if wrong else []


def one_line(text: str) -> str:
    """The text as a header may contain it: no line breaks or control characters, single spaces."""
    spaced = (" " if unicodedata.category(character) in ("Cc", "Zl", "Zp") else character for character in text)
    return " ".join("".join(spaced).split())


def file_name(kind: str, number: str) -> str:
    """The name of the PDF: `invoice-ACM-0001-001-001.pdf`."""
    return f"{kind}-{one_line(number).translate(_NOT_IN_FILE_NAMES)}.pdf"


def message_id(id: str, sender: str) -> str:
    """The Message-ID for this id."""
    return f"<{id}@{sender.rpartition('@')[2]}>"


def _paragraphs(text: str | None) -> str:
    """The HTML of the seller's own words: an empty line begins a paragraph."""
    parts = (part.strip() for part in _EMPTY_LINES.split(text or ""))
    return "".join(f"<p>{html.escape(part).replace(chr(10), '<br>')}</p>\n" for part in parts if part)


def email_texts(
    content: Content, subject: str, words: Words, url: str | None, *, own: EmailText = PLAIN, is_receipt: bool = False
) -> tuple[str, str]:
    """The plain text and the HTML of an e-mail: total, date or kind, the facts of the document, and its address,
    between the `own` words of the seller.

    A receipt's e-mail states the amount paid, and comes with the invoices too.
    """
    about = [line for line in content.about if line]
    attached = words.receipt_attached if is_receipt else words.attached
    facts = [(words.amount_paid if is_receipt else words.total, content.amount), *content.facts]
    lines = [subject, "", *([own.intro, ""] if own.intro else ())]
    lines += [*(f"{label}: {one_line(value)}" for label, value in facts), *about, ""]
    if url is not None:
        lines += [f"{words.download}: {url}", ""]
    lines += [attached, "", *([own.closing, ""] if own.closing else ())]
    rows = "".join(
        f'<tr><td style="padding-right:2em">{html.escape(label)}</td><td>{html.escape(one_line(value))}</td></tr>\n'
        for label, value in facts
    )
    notes = "".join(f"<p>{html.escape(line)}</p>\n" for line in about)
    link = "" if url is None else f'<p><a href="{html.escape(url)}">{html.escape(words.download)}</a></p>\n'
    page = (
        f'<!DOCTYPE html>\n<html lang="{html.escape(language_of(content.locale))}">\n<head><meta charset="utf-8">'
        f"<title>{html.escape(subject)}</title></head>\n"
        f'<body style="font-family:sans-serif">\n<h1 style="font-size:1.2em">{html.escape(subject)}</h1>\n'
        f"{_paragraphs(own.intro)}<table>\n{rows}</table>\n{notes}{link}<p>{html.escape(attached)}</p>\n"
        f"{_paragraphs(own.closing)}</body>\n</html>\n"
    )
    return "\n".join(lines), page


@dataclass(frozen=True, slots=True, kw_only=True)
class OverdueInvoice:
    """An invoice as listed in a reminder: the amount due, and the address of its document, if there is one."""

    number: str
    due: str
    url: str | None


def overdue_texts(
    words: Words,
    locale: str,
    subject: str,
    *,
    name: str,
    amount: str,
    payment_term: int,
    invoices: Sequence[OverdueInvoice],
    pay_url: str | None,
    own: EmailText = PLAIN,
) -> tuple[str, str]:
    """The plain text and the HTML of an e-mail that asks to pay overdue invoices, in the `own` words of the seller
    where there are such.

    `payment_term` is in days, and `pay_url` is the page where they can be paid, if any. Amounts are already formatted.
    """
    greeting = words.greeting.format(name=one_line(name))
    terms = {0: words.due_at_once, 1: words.due_within_a_day}
    reason = terms.get(payment_term, words.due_within_days).format(count=payment_term)
    intro, closing = own.intro or f"{greeting}\n\n{reason}", own.closing or words.ignore_if_paid
    lines = [intro, "", f"{words.amount_due}: {amount}", "", f"{words.overdue_invoices}:"]
    lines += [f"- {invoice.number}: {invoice.due}" + (f" {invoice.url}" if invoice.url else "") for invoice in invoices]
    lines += ["", f"{words.pay_now}: {pay_url}"] if pay_url else []
    lines += ["", closing, ""]
    link = (
        f'<p><a href="{html.escape(pay_url)}" style="padding:.6em 1.2em;background:#1f4fd8;color:#fff;'
        f'text-decoration:none;border-radius:4px">{html.escape(words.pay_now)}</a></p>\n'
        if pay_url
        else ""
    )
    page = (
        f'<!DOCTYPE html>\n<html lang="{html.escape(language_of(locale))}">\n<head><meta charset="utf-8">'
        f"<title>{html.escape(subject)}</title></head>\n"
        f'<body style="font-family:sans-serif">\n{_paragraphs(intro)}'
        f'<p>{html.escape(words.amount_due)}: <strong style="font-size:1.2em">{html.escape(amount)}</strong></p>\n'
        f"{link}<table>\n{_listed(words, invoices)}</table>\n{_paragraphs(closing)}"
        "</body>\n</html>\n"
    )
    return "\n".join(lines), page


def sign_in_texts(subject: str, url: str, valid_for: str) -> tuple[str, str]:
    """The plain text and the HTML of an e-mail with a link to sign in to the console, in English as the console is."""
    about = f"The link works once, within {valid_for}. If you did not ask for it, you need do nothing."
    page = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{html.escape(subject)}</title></head>\n'
        f'<body style="font-family:sans-serif">\n<h1 style="font-size:1.2em">{html.escape(subject)}</h1>\n'
        f'<p><a href="{html.escape(url)}">{html.escape(url)}</a></p>\n<p>{html.escape(about)}</p>\n</body>\n</html>\n'
    )
    return "\n".join((subject, "", url, "", about, "")), page


def note_texts(subject: str, line: str, locale: str, own: EmailText = PLAIN) -> tuple[str, str]:
    """The plain text and the HTML of an e-mail that says one thing, between the `own` words of the seller."""
    parts = [part for part in (own.intro, line, own.closing) if part]
    page = (
        f'<!DOCTYPE html>\n<html lang="{html.escape(language_of(locale))}">\n<head><meta charset="utf-8">'
        f'<title>{html.escape(subject)}</title></head>\n<body style="font-family:sans-serif">\n'
        f'<h1 style="font-size:1.2em">{html.escape(subject)}</h1>\n{"".join(map(_paragraphs, parts))}</body>\n</html>\n'
    )
    return "\n\n".join((subject, *parts)) + "\n", page


def _listed(words: Words, invoices: Sequence[OverdueInvoice]) -> str:
    """The rows of a table of invoices, numbers linked to their documents."""
    head = f'<tr><th align="left">{html.escape(words.invoice_number)}</th><th align="right">'
    rows = [f"{head}{html.escape(words.amount_due)}</th></tr>\n"]
    for invoice in invoices:
        number = html.escape(invoice.number)
        if invoice.url is not None:
            number = f'<a href="{html.escape(invoice.url)}">{number}</a>'
        cell = f'<td style="padding-right:2em">{number}</td><td align="right">{html.escape(invoice.due)}</td>'
        rows.append(f"<tr>{cell}</tr>\n")
    return "".join(rows)


def is_sent_on_issue(invoice: Invoice) -> bool:
    """Whether an issued invoice is worth an e-mail: not if its fees are zero, or were already paid one by one."""
    return invoice.invoice_type != InvoiceType.ADVANCE_CHARGES and invoice.fees_amount_cents != 0


def gives_nothing(note: CreditNote) -> bool:
    """Whether a note gave credit only and has been voided, like the remainder of a voided invoice: no e-mail is due."""
    return note.credit_status == CreditStatus.VOIDED and note.refund_amount_cents + note.offset_amount_cents == 0
