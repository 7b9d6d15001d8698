"""Home: what needs somebody now, and revenue by month."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.responses import Response

from usagebill.browser.charts import Bar, bars
from usagebill.console.pages.analytics import MONTHS, REPORTS, Amounts, amounts_of, last_months
from usagebill.console.pages.page import Page
from usagebill.console.rendering import number, segment, words
from usagebill.console.seat import Seat
from usagebill.console.visits import Visit
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.payments import NoticeStatus
from usagebill.core.statuses import SyncStatus
from usagebill.core.subscriptions import SubscriptionStatus
from usagebill.core.webhooks import MessageStatus

_LATE = timedelta(minutes=10)
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Concern:
    """Something that needs somebody: how many (0: not counted), of what, why it matters, and its page."""

    count: int
    what: str
    text: str
    path: str


def _concerns(seat: Seat, now: datetime) -> Iterator[Concern]:
    if seat.may("jobs.overdue"):
        late = seat.ask("jobs.overdue")
        if late is not None and (waited := now - datetime.fromisoformat(late["due_at"])) > _LATE:
            text = f"{words(late['kind'])} has been due for {timedelta(seconds=int(waited.total_seconds()))}."
            yield Concern(0, "Billing is behind", f"{text} Is a worker running?", "/jobs")
        if failed := seat.listed("jobs.list_failed", per_page=1).total:
            yield Concern(failed, "Failed jobs", "Each is tried again, or waits for you to.", "/jobs")
    if seat.may("webhooks.list"):
        lost = seat.listed("webhooks.list", statuses=[MessageStatus.FAILED], per_page=1).total
        if lost:
            yield Concern(lost, "Failed webhooks", "Your endpoints did not accept them.", "/webhooks?statuses=failed")
    if seat.may("invoices.list"):
        for filters, what, text in (
            ({"status": InvoiceStatus.FAILED.value}, "Failed invoices", "They could not be made, and are not issued."),
            ({"payment_overdue": "true"}, "Overdue invoices", "Their due date has passed without payment."),
            ({"overpaid": "true"}, "Overpaid invoices", "More was paid than was due: give back the rest."),
        ):
            if count := seat.listed("invoices.list", **filters, per_page=1).total:
                name, value = next(iter(filters.items()))
                yield Concern(count, what, text, f"/invoices?{name}={value}")
    if seat.may("payment_connections.list"):
        for connection in seat.ask("payment_connections.list"):
            if connection["connect_error"]:
                name, code = connection["name"], segment(connection["code"])
                yield Concern(
                    0, f"{name} cannot be reached", connection["connect_error"], f"/payment-connections/{code}"
                )
    for operation, status, what, text, path in (
        (
            "payment_connections.notices",
            NoticeStatus.FAILED,
            "Failed payment notices",
            "Read what they say.",
            "/notices",
        ),
        (
            "payment_connections.notices",
            NoticeStatus.UNHANDLED,
            "Payment notices to look at",
            "They tell of something that has no place here.",
            "/notices",
        ),
        (
            "synced_documents.list",
            SyncStatus.FAILED,
            "Documents not sent on",
            "Your accounting system or CRM did not take them.",
            "/synced-documents",
        ),
    ):
        if seat.may(operation) and (count := seat.listed(operation, status=status.value, per_page=1).total):
            yield Concern(count, what, text, f"{path}?status={status}")
    if seat.may("payment_connections.comparisons"):
        for compared in seat.ask("payment_connections.comparisons"):
            code = compared["payment_provider_code"]
            if compared["differences_count"]:
                text = f"The log lists the payments and refunds; so does the command usagebill audit --provider {code}."
                yield Concern(compared["differences_count"], f"Differences from the provider {code}", text, "/payments")
            if compared["failure"]:
                yield Concern(0, f"Not compared with the provider {code}", f"{compared['failure']}.", "/payments")
    if seat.may("events.unbilled_tallies"):
        since = (now - timedelta(days=1)).isoformat()
        tallies = seat.ask("events.unbilled_tallies", timestamp_from=since)
        if tallies:
            reasons: dict[str, int] = defaultdict(int)
            for tally in tallies:
                reasons[tally["reason"]] += tally["events_count"]
            text = ", ".join(f"{words(reason).lower()}: {number(count)}" for reason, count in reasons.items())
            yield Concern(sum(reasons.values()), "Events of the last day not billed", f"{text}.", "/unbilled")


def _revenue(seat: Seat, now: datetime) -> Sequence[Amounts]:
    report = REPORTS["gross_revenue"]
    return amounts_of(report, seat.ask(report.operation, months=MONTHS), last_months(now.date(), MONTHS))


def _arriving(seat: Seat, now: datetime) -> tuple[str, Sequence[Bar]]:
    """The number of events of the last 24 hours, and a bar for each, by the events' own time."""
    first = now.replace(minute=0, second=0, microsecond=0) - 23 * _HOUR
    hours, total, is_exact = [], 0, True
    for start in (first + place * _HOUR for place in range(24)):
        span = {"timestamp_from": start.isoformat(), "timestamp_to": (start + _HOUR - MICROSECOND).isoformat()}
        found = seat.listed("events.list", **span, per_page=1)
        total, is_exact = total + found.total, is_exact and found.total_is_exact
        text = f"{number(found.total)}{'' if found.total_is_exact else '+'} event{'s' if found.total != 1 else ''}"
        hours.append((f"{start:%H:%M} UTC", found.total, text))
    return f"{number(total)}{'' if is_exact else '+'}", bars(hours)


# The way to a first invoice: each step is one form.
_STEPS = (
    ("metrics", "billable_metrics.list", "What you count: API calls, gigabytes, seats"),
    ("plans", "plans.list", "What it costs: a fee, and charges on what you count"),
    ("customers", "customers.list", "Who pays"),
    ("subscriptions", "subscriptions.list", "Who is on which plan: usage is billed from then on"),
)
# Subscriptions of any status: whoever has had one knows the way.
_EVERY: Mapping[str, Mapping[str, object]] = {
    "subscriptions.list": {"status": [status.value for status in SubscriptionStatus]}
}


def _first_steps(seat: Seat) -> Sequence[tuple[str, str, bool]]:
    """The folder, the words, and whether it is done, of each step to a first invoice; none once all are done."""
    if not all(seat.may(operation) for _, operation, _ in _STEPS):
        return ()
    steps = [
        (path, text, seat.listed(operation, **_EVERY.get(operation, {}), per_page=1).total > 0)
        for path, operation, text in _STEPS
    ]
    return () if steps[-1][2] else steps


def _shown(visit: Visit) -> Response:
    seat = visit.seat
    invoices = seat.listed("invoices.list", per_page=6).items if seat.may("invoices.list") else ()
    return visit.page("home.html", invoices=invoices, steps=_first_steps(seat))


def _needs(visit: Visit) -> Response:
    """What needs somebody now: a part of the page, as it counts what there is."""
    return visit.page("needs.html", concerns=list(_concerns(visit.seat, visit.billing.clock.now())))


def _invoiced(visit: Visit) -> Response:
    """What was invoiced: a part of the page, as it adds up a year."""
    return visit.page("invoiced.html", revenue=_revenue(visit.seat, visit.billing.clock.now()))


def _arrived(visit: Visit) -> Response:
    """The events of the day as they come in: a part of the page that is asked for again and again."""
    total, hours = _arriving(visit.seat, visit.billing.clock.now())
    return visit.page("arriving.html", total=total, hours=hours)


PAGES = (Page("/", _shown), Page("/needs", _needs), Page("/invoiced", _invoiced), Page("/arriving", _arrived))
