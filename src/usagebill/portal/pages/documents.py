"""Credit notes and receipts, each with its PDF."""

from __future__ import annotations

from starlette.responses import Response

from usagebill.core.credit_notes import CreditNote
from usagebill.core.days import local_date
from usagebill.core.documents.locales import date_text, money_text
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.payments import Payment
from usagebill.operations.portal import Place, credit_note_pdf, credit_notes, receipt_pdf, receipts
from usagebill.portal.pages.invoice import pdf
from usagebill.portal.pages.page import Page
from usagebill.portal.visit import Visit
from usagebill.runtime.work import Reader


def _shown(visit: Visit) -> Response:
    def read(reader: Reader, place: Place) -> tuple[list[CreditNote], list[tuple[PaymentReceipt, Payment]]]:
        return credit_notes(reader, place.customer), receipts(reader, place.customer)

    place, (notes, found) = visit.reading(read)
    locale = place.locale
    return visit.page(
        "documents.html",
        place,
        notes=[
            {
                "id": note.id,
                "number": note.number,
                "date": date_text(note.issuing_date, locale),
                "amount": money_text(note.total_amount_cents, note.currency, locale),
            }
            for note in notes
        ],
        receipts=[
            {
                "id": receipt.id,
                "number": receipt.number,
                "date": date_text(local_date(payment.created_at, place.zone), locale),
                "amount": money_text(payment.amount_cents, payment.amount_currency, locale),
            }
            for receipt, payment in found
        ],
    )


def _note(visit: Visit) -> Response:
    note, content = visit.writing(lambda work: credit_note_pdf(work, visit.customer_id, visit.named("id")))
    return pdf(note.number, content)


def _receipt(visit: Visit) -> Response:
    receipt, content = visit.writing(lambda work: receipt_pdf(work, visit.customer_id, visit.named("id")))
    return pdf(receipt.number, content)


PAGES = (
    Page("/documents", _shown),
    Page("/credit-notes/{id}/pdf", _note, writes=True),
    Page("/receipts/{id}/pdf", _receipt, writes=True),
)
