"""Payment receipts over HTTP."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.http.endpoints import Endpoint
from usagebill.operations import payment_receipts
from usagebill.operations.documents import files as documents
from usagebill.operations.emails import resending as emails
from usagebill.queries.payments import receipt_by_id
from usagebill.runtime.work import Work
from usagebill.views.payment_receipts import PaymentReceiptView, payment_receipt_view


class DownloadedReceiptView(TypedDict):
    payment_receipt: PaymentReceiptView


def _downloaded(work: Work, receipt: PaymentReceipt | None) -> DownloadedReceiptView | bytes:
    return b"" if receipt is None else {"payment_receipt": payment_receipt_view(work, receipt)}


# Receipts are read and sent with the permission of invoices.
ENDPOINTS = [
    Endpoint(
        "GET",
        "/payment_receipts",
        payment_receipts.list_all,
        query=payment_receipts.ReceiptFilters,
        paged=True,
        returns="payment_receipts",
        view=payment_receipt_view,
        summary="List payment receipts",
    ),
    Endpoint(
        "GET",
        "/payment_receipts/{payment_receipt_id}",
        receipt_by_id,
        returns="payment_receipt",
        view=payment_receipt_view,
        summary="Get a payment receipt",
    ),
    Endpoint(
        "POST",
        "/payment_receipts/{payment_receipt_id}/download",
        documents.download_receipt,
        view=_downloaded,
        summary="The PDF of a payment receipt: its address, or an empty body while it is made",
    ),
    Endpoint(
        "POST",
        "/payment_receipts/{payment_receipt_id}/resend_email",
        emails.resend_receipt,
        body=emails.ResendInput,
        summary="Send a payment receipt by e-mail, to the customer or to others",
    ),
]
