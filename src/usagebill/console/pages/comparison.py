"""What a past month would have cost under another plan, for every subscription of a plan or those of one customer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from starlette.responses import Response

from usagebill.console.pages.page import Page
from usagebill.console.tables import csv_file
from usagebill.console.visits import Visit
from usagebill.core.errors import BillingError, Forbidden, Invalid
from usagebill.core.price_comparisons import COLUMNS, ComparedSubscription, cells, last_month, summary
from usagebill.operations.price_comparisons import comparisons
from usagebill.requests.refusals import word

# Subscriptions shown, those that differ most first; a file has all.
_MOST_SHOWN = 20
_MOST_PLANS = 100


def _compared(visit: Visit, code: str) -> Sequence[ComparedSubscription]:
    """Raises as `comparisons` does, and `Forbidden`."""
    seat, sent = visit.seat, visit.asked()
    for operation in ("plans.get", "subscriptions.list", "usage.current"):
        seat.require(operation)
    first, last = last_month(visit.billing.clock.now().date())
    start, end = _day("from", sent.get("from"), first), _day("to", sent.get("to"), last)
    customer = sent.get("external_customer_id", "").strip() or None
    return visit.billing.reading(
        lambda reader: tuple(
            comparisons(reader, code, sent.get("other", ""), start, end, external_customer_id=customer)
        ),
        seat.who.organization,
    )


def _day(name: str, text: str | None, default: date) -> date:
    if text is None:
        return default
    try:
        return date.fromisoformat(text)
    except ValueError:
        problem = Invalid({name: ["invalid_date"]})
        problem.message = f"{name}: “{text}” is no date; write it like 2024-02-01"
        raise problem from None


def _shown(visit: Visit) -> Response:
    seat, code, sent = visit.seat, visit.named("key"), visit.asked()
    plan = seat.ask("plans.get", code)
    others = [other for other in seat.listed("plans.list", per_page=_MOST_PLANS).items if other["code"] != code]
    rows: Sequence[ComparedSubscription] = ()
    problem = ""
    if sent.get("other"):
        try:
            rows = _compared(visit, code)
        except Forbidden:
            raise
        except BillingError as refusal:
            word(refusal, sent)
            problem = refusal.message or refusal.code
    now = visit.billing.clock.now()
    first, last = last_month(now.date())
    return visit.page(
        "comparison.html",
        422 if problem else 200,
        plan=plan,
        others=others,
        sent={"from": first.isoformat(), "to": last.isoformat(), **sent},
        asked=bool(sent.get("other")),
        problem=problem,
        rows=sorted(rows, key=lambda row: -abs(row.difference_cents))[:_MOST_SHOWN],
        total=summary(rows, first, last, plan["amount_currency"], now=now),
    )


def _file(visit: Visit) -> Response:
    return csv_file(
        "comparison",
        COLUMNS,
        [line for row in _compared(visit, visit.named("key")) for line in cells(row)],
    )


PAGES = (
    Page("/plans/{key}/compare.csv", _file),
    Page("/plans/{key}/compare", _shown),
)
