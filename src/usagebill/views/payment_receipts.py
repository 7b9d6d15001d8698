"""Payment receipts as JSON."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.queries.payments import payment_of_receipt
from usagebill.runtime.work import Reader
from usagebill.views.documents import document_url
from usagebill.views.formats import Id, Instant, instant_text
from usagebill.views.payments import PaymentView, payment_view


class PaymentReceiptView(TypedDict):
    svc_id: Id
    number: str
    file_url: str | None
    xml_url: str | None
    payment: PaymentView
    created_at: Instant


def payment_receipt_view(reader: Reader, receipt: PaymentReceipt) -> PaymentReceiptView:
    """The receipt with its payment."""
    return {
        "svc_id": receipt.id,
        "number": receipt.number,
        "file_url": document_url(reader, receipt.pdf_id),
        "xml_url": document_url(reader, receipt.xml_id),
        "payment": payment_view(reader, payment_of_receipt(reader, receipt)),
        "created_at": instant_text(receipt.created_at),
    }
