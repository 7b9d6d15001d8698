"""An invoice: its lines explained beside its PDF, and everything that belongs to it."""

from __future__ import annotations

from starlette.responses import Response

from usagebill.console.pages.actions import possible_actions
from usagebill.console.pages.page import Page
from usagebill.console.visits import Visit
from usagebill.core.errors import BillingError
from usagebill.core.invoices.life_cycle import ISSUED

_LATEST = 20


def _shown(visit: Visit) -> Response:
    seat, id = visit.seat, visit.named("id")
    invoice = seat.ask("invoices.get", id)
    explanation, problem = None, ""
    try:
        explanation = seat.ask("invoices.explain", id)
    except BillingError as refusal:
        problem = refusal.message or refusal.code
    notes = None
    if invoice["number"] and seat.may("credit_notes.list"):
        notes = seat.listed("credit_notes.list", invoice_number=invoice["number"], per_page=_LATEST)
    return visit.page(
        "invoice.html",
        invoice=invoice,
        explanation=explanation,
        problem=problem,
        has_pdf=invoice["status"] in ISSUED,
        actions=possible_actions(seat, "invoices", invoice),
        payments=seat.listed("payments.list", invoice_id=id, per_page=_LATEST) if seat.may("payments.list") else None,
        notes=notes,
        activities=seat.listed("activity_logs.list", resource_ids=[id], per_page=_LATEST)
        if seat.may("activity_logs.list")
        else None,
    )


PAGES = (Page("/invoices/{id}", _shown),)
