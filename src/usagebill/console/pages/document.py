"""The PDFs of invoices, credit notes and receipts."""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

from starlette.responses import Response

from usagebill.console.pages.page import Page
from usagebill.console.visits import Visit

# Folder -> resource.
DOCUMENTS = {"invoices": "invoices", "credit-notes": "credit_notes", "receipts": "payment_receipts"}


def pdf_file(name: str, content: bytes) -> Response:
    """A PDF of this name (without its ending), shown by the browser."""
    return Response(
        content,
        media_type="application/pdf",
        headers={
            "content-disposition": f"inline; filename*=UTF-8''{quote(f'{name}.pdf', safe='')}",
            # A browser's viewer of PDFs brings its own style.
            "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'",
            "x-frame-options": "SAMEORIGIN",
        },
    )


def _pdf(resource: str, visit: Visit) -> Response:
    id = visit.named("id")
    number = visit.seat.ask(f"{resource}.get", id)["number"]
    return pdf_file(number, visit.seat.file(f"{resource}.pdf", id))


PAGES = tuple(Page(f"/{folder}/{{id}}/pdf", partial(_pdf, resource)) for folder, resource in DOCUMENTS.items())
