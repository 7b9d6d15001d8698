"""A feature of a plan, with the values of its privileges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import RedirectResponse, Response

from usagebill.console.fields import Field, Kind
from usagebill.console.pages.page import Page
from usagebill.console.rendering import segment
from usagebill.console.visits import Visit
from usagebill.core.entitlements import ValueType

_VALUE = "value-"
_YES_OR_NO = (("true", "Yes"), ("false", "No"))


def _field(privilege: Mapping[str, Any]) -> Field:
    name, label = f"{_VALUE}{privilege['code']}", privilege["name"] or privilege["code"]
    match privilege["value_type"]:
        case ValueType.BOOLEAN:
            return Field(name, label, Kind.CHOICE, (("", "Not set"), *_YES_OR_NO))
        case ValueType.SELECT:
            options = privilege["config"]["select_options"]
            return Field(name, label, Kind.CHOICE, (("", "Not set"), *((option, option) for option in options)))
        case ValueType.INTEGER:
            return Field(name, label, Kind.WHOLE)
        case _:
            return Field(name, label)


def _values(plan: Any, code: str) -> Mapping[str, str] | None:
    """The plan's values of the feature by privilege, as texts; None if the plan lacks the feature."""
    for item in plan["entitlements"]:
        if item["entitlement"]["code"] == code:
            return {
                privilege["code"]: str(privilege["value"]).lower()
                if privilege["value_type"] == ValueType.BOOLEAN
                else str(privilege["value"])
                for privilege in item["entitlement"]["privileges"]
            }
    return None


def _shown(visit: Visit, problem: str = "", status: int = 200) -> Response:
    seat, code = visit.seat, visit.named("feature")
    seat.require("entitlements.merge_of_plan")
    plan, feature = seat.ask("plans.get", visit.named("key")), seat.ask("features.get", code)
    values = _values(plan, code)
    return visit.page(
        "entitlement.html",
        status,
        plan=plan,
        feature=feature,
        fields=[_field(privilege) for privilege in feature["privileges"]],
        has_it=values is not None,
        form=visit.form or {f"{_VALUE}{name}": text for name, text in (values or {}).items()},
        problem=problem,
    )


def _changed(visit: Visit) -> Response:
    seat, plan, code = visit.seat, visit.named("key"), visit.named("feature")
    if visit.form.get("step") == "remove":
        seat.ask("entitlements.remove_from_plan", plan, code)
    else:
        typed = {name: text.strip() for name, text in visit.form.items() if name.startswith(_VALUE)}
        values = {name.removeprefix(_VALUE): text for name, text in typed.items() if text}
        before = _values(seat.ask("plans.get", plan), code) or {}
        seat.ask("entitlements.merge_of_plan", plan, entitlements={code: values})
        for name in before:
            if typed.get(f"{_VALUE}{name}") == "":
                seat.ask("entitlements.remove_privilege_from_plan", plan, code, name)
    return visit.to(f"/plans/{segment(plan)}")


def _chosen(visit: Visit) -> Response:
    """The form of the feature that was chosen on the plan's page."""
    plan, feature = visit.named("key"), visit.asked().get("feature", "")
    path = f"/plans/{segment(plan)}"
    return RedirectResponse(visit.root + (f"{path}/features/{segment(feature)}" if feature else path), 303)


PAGES = (
    Page("/plans/{key}/features", _chosen),
    Page("/plans/{key}/features/{feature}", _shown),
    Page("/plans/{key}/features/{feature}", _changed, "POST", _shown),
)
