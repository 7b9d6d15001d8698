"""A plan: its fee, its charges and what they cost."""

from __future__ import annotations

from starlette.responses import Response

from usagebill.console.charge_terms import TYPED_MODELS
from usagebill.console.pages.page import Page
from usagebill.console.visits import Visit

_LATEST = 8
_MOST_FEATURES = 100


def _shown(visit: Visit) -> Response:
    seat, code = visit.seat, visit.named("key")
    plan = seat.ask("plans.get", code)
    subscriptions = (
        seat.listed("subscriptions.list", plan_code=code, per_page=_LATEST) if seat.may("subscriptions.list") else None
    )
    own = {item["entitlement"]["code"] for item in plan["entitlements"]}
    features = seat.listed("features.list", per_page=_MOST_FEATURES).items if seat.may("features.list") else ()
    return visit.page(
        "plan.html",
        plan=plan,
        subscriptions=subscriptions,
        features=[feature for feature in features if feature["code"] not in own],
        typed_models=TYPED_MODELS,
    )


PAGES = (Page("/plans/{key:path}", _shown),)
