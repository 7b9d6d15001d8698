"""Analytics: recurring revenue, what was invoiced, paid and is overdue, by month; each as a chart and as a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from starlette.responses import Response

from usagebill.browser.charts import Bar, bars
from usagebill.console.pages.page import Page
from usagebill.console.rendering import money, words
from usagebill.console.seat import Seat
from usagebill.console.tables import csv_file
from usagebill.console.visits import Visit
from usagebill.core.errors import BillingError, Forbidden, NotFound

MONTHS = 12
_CHOICES = (6, MONTHS, 24, 36)


@dataclass(frozen=True, slots=True)
class Report:
    """A report of the library (`analytics.mrr`), what it tells, and the field that its amounts are split by.

    What is a level, such as recurring revenue, has a latest value; all else has a sum.
    """

    name: str
    title: str
    about: str
    part: str = ""
    label: Callable[[object], str] = str
    is_level: bool = False

    @property
    def operation(self) -> str:
        """The name of its operation."""
        return f"analytics.{self.name}"


REPORTS: Mapping[str, Report] = {
    report.name: report
    for report in (
        Report("mrr", "Monthly recurring revenue", "What subscriptions cost a month, without usage.", is_level=True),
        Report("gross_revenue", "Invoiced", "Finalized invoices by the month of their date, less refunds."),
        Report("invoiced_usage", "Invoiced usage", "The part of it that is usage, by metric.", "code"),
        Report(
            "invoice_collection",
            "Collection",
            "Finalized invoices by the month of their date, and how their payment stands.",
            "payment_status",
            words,
        ),
        Report("overdue_balance", "Overdue", "What is overdue, by the month in which it was due."),
    )
}


@dataclass(frozen=True, slots=True)
class Amounts:
    """A report in one currency: its sum or latest value, a bar a month, and (name, amount) of its parts."""

    currency: str
    figure: str
    bars: Sequence[Bar]
    parts: Sequence[tuple[str, str]]


def last_months(today: date, count: int) -> Sequence[date]:
    """The first days of so many months, oldest first, that of `today` included."""
    months, first = [], today.replace(day=1)
    for _ in range(count):
        months.append(first)
        first = (first - timedelta(days=1)).replace(day=1)
    return months[::-1]


def amounts_of(report: Report, rows: Sequence[Mapping[str, Any]], months: Sequence[date]) -> Sequence[Amounts]:
    """The rows of a report, as the API shows them, by currency."""
    by_month: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    by_part: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        # A month without anything has a row without a currency.
        if (currency := row["currency"]) is not None:
            by_month[currency][row["month"][:7]] += row["amount_cents"] or 0
            by_part[currency][report.label(row[report.part]) if report.part else ""] += row["amount_cents"] or 0
    made = []
    for currency, cents in sorted(by_month.items()):
        each = [(f"{month:%b %Y}", cents[f"{month:%Y-%m}"]) for month in months]
        figure = each[-1][1] if report.is_level else sum(cents.values())
        parts = sorted(by_part[currency].items(), key=lambda part: (-part[1], part[0])) if report.part else ()
        made.append(
            Amounts(
                currency,
                money(figure, currency),
                bars((label, amount, money(amount, currency)) for label, amount in each),
                [(name, money(amount, currency)) for name, amount in parts],
            )
        )
    return made


def _filters(visit: Visit) -> dict[str, object]:
    """The arguments of every report."""
    sent = visit.asked()
    chosen = sent.get("months", "")
    months = next((count for count in _CHOICES if str(count) == chosen), MONTHS)
    return {"months": months} | {
        name: sent[name] for name in ("currency", "billing_entity_code", "external_customer_id") if name in sent
    }


def _shown(visit: Visit) -> Response:
    for report in REPORTS.values():
        visit.seat.require(report.operation)
    return visit.page("analytics.html", reports=REPORTS.values(), sent=_filters(visit), choices=_CHOICES)


def _report(visit: Visit) -> Report:
    report = REPORTS.get(visit.named("name"))
    if report is None:
        raise NotFound("page")
    return report


def _one(visit: Visit) -> Response:
    """One report: a page of its own, of which the page of all takes its part."""
    report, filters = _report(visit), _filters(visit)
    months = last_months(visit.billing.clock.now().date(), int(str(filters["months"])))
    by_currency, problem = _made(visit.seat, report, filters, months)
    return visit.page("report.html", report=report, by_currency=by_currency, problem=problem, sent=filters)


def _made(
    seat: Seat, report: Report, filters: Mapping[str, object], months: Sequence[date]
) -> tuple[Sequence[Amounts], str]:
    """A report by currency; or nothing, and why."""
    try:
        return amounts_of(report, seat.ask(report.operation, **filters), months), ""
    except Forbidden:
        raise
    except BillingError as refusal:
        return (), refusal.message or refusal.code


def _file(visit: Visit) -> Response:
    report = _report(visit)
    rows: list[dict[str, Any]] = visit.seat.ask(report.operation, **_filters(visit))
    columns = list(rows[0]) if rows else ["month", "amount_cents", "currency"]
    return csv_file(
        report.name,
        columns,
        ([" ".join(value) if isinstance(value, list) else value for value in row.values()] for row in rows),
    )


PAGES = (Page("/analytics", _shown), Page("/analytics/{name}.csv", _file), Page("/analytics/{name}", _one))
