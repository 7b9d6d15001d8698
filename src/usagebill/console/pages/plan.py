"""A plan: its fee, its charges and what they cost."""

from __future__ import annotations

from starlette.responses import Response

from usagebill.console.pages.page import Page
from usagebill.console.visits import Visit

_LATEST = 8


def _shown(visit: Visit) -> Response:
    seat, code = visit.seat, visit.named("key")
    plan = seat.ask("plans.get", code)
    subscriptions = (
        seat.listed("subscriptions.list", plan_code=code, per_page=_LATEST) if seat.may("subscriptions.list") else None
    )
    return visit.page("plan.html", plan=plan, subscriptions=subscriptions)


PAGES = (Page("/plans/{key:path}", _shown),)
