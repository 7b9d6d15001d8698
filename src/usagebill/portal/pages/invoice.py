"""An invoice: what its PDF says, as a page; and the PDF."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from usagebill.core.documents.content import Content
from usagebill.core.documents.invoices import invoice_content
from usagebill.operations.documents.sources import invoice_source
from usagebill.operations.portal import Place, invoice_of, invoice_pdf
from usagebill.portal.pages.page import Page
from usagebill.portal.visit import Visit
from usagebill.runtime.work import Reader


def _shown(visit: Visit) -> Response:
    invoice_id = visit.named("invoice_id")

    def read(reader: Reader, place: Place) -> Content:
        return invoice_content(invoice_source(reader, invoice_of(reader, place.customer.id, invoice_id)))

    place, content = visit.reading(read)
    return visit.page("invoice.html", place, content=content, invoice_id=invoice_id)


def _pdf(visit: Visit) -> Response:
    invoice, content = visit.writing(lambda work: invoice_pdf(work, visit.customer_id, visit.named("invoice_id")))
    return pdf(invoice.number, content)


def pdf(number: str, content: bytes) -> Response:
    """A document to look at, named by its number."""
    disposition = {"content-disposition": f"inline; filename*=UTF-8''{quote(f'{number}.pdf', safe='')}"}
    return Response(content, media_type="application/pdf", headers=disposition)


PAGES = (
    Page("/invoices/{invoice_id}", _shown),
    Page("/invoices/{invoice_id}/pdf", _pdf, writes=True),
)
