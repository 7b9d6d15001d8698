"""The coming invoice of a subscription as it stands, each line explained."""

from __future__ import annotations

from starlette.responses import Response

from usagebill.console.pages.page import Page
from usagebill.console.visits import Visit
from usagebill.core.errors import BillingError, Forbidden


def _shown(visit: Visit) -> Response:
    seat, id = visit.seat, visit.named("key")
    subscription = seat.ask("subscriptions.get", id)
    customer = seat.ask("customers.get", subscription["external_customer_id"])
    explanation, problem = None, ""
    try:
        explanation = seat.previewed(
            "invoices.explain_preview",
            customer={"external_id": customer["external_id"]},
            subscriptions={"external_ids": [id]},
        )
    except Forbidden:
        raise
    except BillingError as refusal:
        problem = refusal.message or refusal.code
    return visit.page(
        "next_invoice.html",
        subscription=subscription,
        customer=customer,
        explanation=explanation,
        problem=problem,
    )


PAGES = (Page("/next-invoice/{key:path}", _shown),)
