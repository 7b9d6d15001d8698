"""The spend limits of a customer, a subscription or a plan: what they leave, made, changed and removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from starlette.responses import Response

from usagebill.console.fields import Field, Kind, choices, text_of, values_of
from usagebill.console.pages.page import Page
from usagebill.console.rendering import money, number, query
from usagebill.console.seat import Seat
from usagebill.console.visits import Visit
from usagebill.core.errors import BillingError
from usagebill.core.numbers import round_cents
from usagebill.core.spend_limits import LimitInterval, Measure, OnReached, SetBy

_MOST = 100
_CODE = Field("code", "Code", required=True, hint="What refusals and programs call it")
_AMOUNT = Field("amount_cents", "Amount, before taxes", Kind.MONEY)
_FIELDS = (
    _AMOUNT,
    Field("units", "Or units of a metric", Kind.NUMBER),
    Field("billable_metric_code", "Only usage of this metric", hint="Its code; empty: of all"),
    Field("interval", "Starts over", Kind.CHOICE, choices(tuple(LimitInterval))),
    Field(
        "on_reached",
        "Usage beyond it",
        Kind.CHOICE,
        ((OnReached.REFUSE, "Is refused"), (OnReached.ALERT, "Is told of")),
    ),
    Field("grace_percent", "Percent that usage may go beyond it", Kind.NUMBER),
)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who has limits: the folder of its pages, the end of the names of the operations, the operation that finds it,
    the field with its currency, and whose usage counts.
    """

    folder: str
    operations: str
    get: str
    currency: str
    about: str

    def named(self, act: str) -> str:
        """The name of an operation on limits of this owner."""
        return f"spend_limits.{act}_of_{self.operations}"


OWNERS: Sequence[Owner] = (
    Owner("customers", "customer", "customers.get", "currency", "All its subscriptions together."),
    Owner(
        "subscriptions",
        "subscription",
        "subscriptions.get",
        "plan_amount_currency",
        "The subscription, across changes of its plan. A limit replaces that of the plan with the same code.",
    ),
    Owner(
        "plans",
        "plan",
        "plans.get",
        "amount_currency",
        "Each subscription on the plan by itself, unless it has a limit with the same code.",
    ),
)


def standings(seat: Seat, subscription: Mapping[str, Any]) -> Sequence[tuple[str, Sequence[str], str]]:
    """What bounds the usage of an active subscription: its code, (limit, used, held, left), and when it starts over;
    nothing for those who may not read events.
    """
    try:
        found = seat.previewed("spend_limits.standings", subscription["external_id"])
    except BillingError:
        # Limits are asked of usage of a running period alone.
        return ()

    def shown(value: str, measure: str) -> str:
        return (
            money(round_cents(Decimal(value)), subscription["plan_amount_currency"])
            if measure == Measure.CENTS
            else number(value)
        )

    return [
        (
            _titled(item),
            [shown(item[name], item["measured_in"]) for name in ("limit", "used", "held", "remaining")],
            item["resets_at"] or "",
        )
        for item in found
    ]


def _titled(item: Mapping[str, Any]) -> str:
    return f"{item['code']} (set by the customer)" if item["set_by"] == SetBy.CUSTOMER else item["code"]


def _shown(owner: Owner, visit: Visit, problem: str = "", status: int = 200) -> Response:
    seat, key, chosen = visit.seat, visit.asked().get("of", ""), visit.asked().get("code", "")
    record = seat.ask(owner.get, key)
    currency = record[owner.currency] or "USD"
    limits = seat.listed(owner.named("list"), key, per_page=_MOST).items
    limit = next((item for item in limits if item["code"] == chosen), None)
    texts = {} if limit is None else {field.name: text_of(field, limit[field.name], currency) for field in _FIELDS}
    return visit.page(
        "limits.html",
        status,
        owner=owner,
        record=record,
        key=key,
        currency=currency,
        limits=limits,
        limit=limit,
        here_query=query({"of": key}),
        fields=_FIELDS if limit else (_CODE, *_FIELDS),
        may_change=seat.may(owner.named("create")),
        texts=visit.form or texts,
        problem=problem,
    )


def _changed(owner: Owner, visit: Visit) -> Response:
    seat, form = visit.seat, visit.form
    key, chosen = visit.asked().get("of", ""), visit.asked().get("code", "")
    if chosen and form.get("step") == "remove":
        seat.ask(owner.named("delete"), key, chosen)
    else:
        currency = seat.ask(owner.get, key)[owner.currency] or "USD"
        values = values_of(_FIELDS if chosen else (_CODE, *_FIELDS), form, currency, blanks=bool(chosen))
        if chosen:
            values["grace_percent"] = values["grace_percent"] or "0"
            seat.ask(owner.named("update"), key, chosen, **values)
        else:
            seat.ask(owner.named("create"), key, **values)
    return visit.to(f"/limits/{owner.folder}{query({'of': key})}")


PAGES = tuple(
    page
    for owner in OWNERS
    for page in (
        Page(f"/limits/{owner.folder}", partial(_shown, owner)),
        Page(f"/limits/{owner.folder}", partial(_changed, owner), "POST", partial(_shown, owner)),
    )
)
