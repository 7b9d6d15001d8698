"""The content of a credit note's document."""

from __future__ import annotations

from collections.abc import Iterable

from usagebill.core.credit_notes import CreditNoteReason
from usagebill.core.documents.content import Content, Page, Row, Table, Total
from usagebill.core.documents.invoices import naming_of, parties, tax_notes, tax_totals
from usagebill.core.documents.lines import fee_name, ordered
from usagebill.core.documents.locales import date_text, money_text, rate_text
from usagebill.core.documents.parties import customer_facts
from usagebill.core.documents.sources import CreditNoteSource
from usagebill.core.documents.words import Words, words_of
from usagebill.core.invoices.life_cycle import InvoiceType


def credit_note_content(source: CreditNoteSource) -> Content:
    """The document of an issued credit note. Totals are the note's own: nothing is recomputed."""
    note, of_invoice = source.note, source.invoice
    locale, entity = of_invoice.locale, of_invoice.entity
    words = words_of(locale)
    issuer, recipient = parties(of_invoice, words.credited_to)
    facts = [(words.credit_note_number, note.number), (words.invoice_number, of_invoice.invoice.number)]
    if note.purchase_order_number:
        facts.append((words.order_number, note.purchase_order_number))
    facts += [(words.issue_date, date_text(note.issuing_date, locale)), (words.reason, _reason(note.reason, words))]
    return Content(
        locale=locale,
        title=words.credit_note,
        number=note.number,
        facts=tuple(facts),
        metadata=customer_facts(of_invoice.customer),
        issuer=issuer,
        recipient=recipient,
        amount=_money(source, note.total_amount_cents),
        about=(_settlement_line(source, words),),
        pages=(Page(tables=(_table(source, words),), totals=tuple(_totals(source, words))),),
        notes=(*filter(str.strip, [note.description or ""]), *tax_notes(of_invoice)),
        footer=words.self_billed if note.self_billed else entity.invoice_footer,
        logo=None if note.self_billed else entity.logo_url,
    )


def _reason(reason: CreditNoteReason, words: Words) -> str:
    return {
        CreditNoteReason.DUPLICATED_CHARGE: words.duplicated_charge,
        CreditNoteReason.PRODUCT_UNSATISFACTORY: words.product_unsatisfactory,
        CreditNoteReason.ORDER_CHANGE: words.order_change,
        CreditNoteReason.ORDER_CANCELLATION: words.order_cancellation,
        CreditNoteReason.FRAUDULENT_CHARGE: words.fraudulent_charge,
        CreditNoteReason.OTHER: words.other_reason,
    }[CreditNoteReason(reason)]


def _money(source: CreditNoteSource, cents: int) -> str:
    return money_text(cents, source.note.currency, source.invoice.locale)


def _settlement_line(source: CreditNoteSource, words: Words) -> str:
    """How the note's total was given: only the date if it was split."""
    note = source.note
    day = date_text(note.issuing_date, source.invoice.locale)
    ways = {
        words.credited_on: note.credit_amount_cents,
        words.refunded_on: note.refund_amount_cents,
        words.offset_on: note.offset_amount_cents,
    }
    used = [way for way, cents in ways.items() if cents > 0]
    text = used[0] if len(used) == 1 else words.issued_on
    return text.format(date=day, number=source.invoice.invoice.number)


def _table(source: CreditNoteSource, words: Words) -> Table:
    columns = (words.item, words.tax_rate, words.amount)
    naming = naming_of(source.invoice)
    fees = {fee.id: fee for fee in source.invoice.fees}
    if source.invoice.invoice.invoice_type == InvoiceType.CREDIT:
        names = dict.fromkeys(fee_name(fee, naming) for fee in fees.values())
        name = next(iter(names), words.prepaid_fee)
        return Table(columns=columns, rows=(Row(name=name, amount=_money(source, source.note.total_amount_cents)),))
    by_fee: dict[str, int] = {}
    for item in source.note.items:
        by_fee[item.fee_id] = by_fee.get(item.fee_id, 0) + item.amount_cents
    rows = tuple(
        Row(
            name=fee_name(fee, naming),
            tax_rate=rate_text(fee.taxes_rate, source.invoice.locale),
            amount=_money(source, by_fee[fee.id]),
        )
        for fee in ordered([fees[id] for id in by_fee if id in fees], naming)
    )
    return Table(columns=columns, rows=rows)


def _totals(source: CreditNoteSource, words: Words) -> Iterable[Total]:
    note = source.note
    if source.invoice.invoice.invoice_type != InvoiceType.CREDIT:
        if note.coupons_adjustment_amount_cents:
            yield Total(label=words.coupons, amount=_money(source, -note.coupons_adjustment_amount_cents))
        yield Total(label=words.excluding_taxes, amount=_money(source, note.sub_total_excluding_taxes_amount_cents))
        yield from tax_totals(note.applied_taxes, note.currency, source.invoice.locale)
    for label, cents in (
        (words.offset, note.offset_amount_cents),
        (words.credited, note.credit_amount_cents),
        (words.refunded, note.refund_amount_cents),
    ):
        if cents > 0:
            yield Total(label=label, amount=_money(source, cents))
    yield Total(label=words.total, amount=_money(source, note.total_amount_cents), strong=True)
