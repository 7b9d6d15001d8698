"""Prices of a plan that wait for a day: moved to another one, or taken back."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from usagebill.console.fields import Field, Kind
from usagebill.console.pages.page import Page
from usagebill.console.rendering import segment
from usagebill.console.visits import Visit
from usagebill.core.errors import NotFound

_DAY = Field("effective_on", "From this day on", Kind.DATE)


def _found(visit: Visit) -> tuple[Any, Any]:
    """The plan, and the prices that the version in the path scheduled. Raises `NotFound`."""
    plan, version = visit.seat.ask("plans.get", visit.named("key")), visit.named("version")
    for prices in plan.get("scheduled_prices", ()):
        if str(prices["version"]) == version:
            return plan, prices
    raise NotFound("scheduled_prices", version)


def _shown(visit: Visit, problem: str = "", status: int = 200) -> Response:
    visit.seat.require("plans.update_scheduled_prices")
    plan, prices = _found(visit)
    return visit.page(
        "scheduled_prices.html",
        status,
        plan=plan,
        prices=prices,
        field=_DAY,
        day=visit.form.get(_DAY.name, prices["effective_on"]),
        problem=problem,
    )


def _changed(visit: Visit) -> Response:
    code, version = visit.named("key"), visit.named("version")
    if visit.form.get("step") == "remove":
        visit.seat.ask("plans.delete_scheduled_prices", code, version)
    else:
        day = visit.form.get(_DAY.name, "").strip()
        visit.seat.ask("plans.update_scheduled_prices", code, version, effective_on=day)
    return visit.to(f"/plans/{segment(code)}")


PAGES = (
    Page("/plans/{key}/prices-to-come/{version}", _shown),
    Page("/plans/{key}/prices-to-come/{version}", _changed, "POST", _shown),
)
