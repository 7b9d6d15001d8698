"""The audit: everything that was billed, recomputed from its own records, and recounted from events, plans and days."""

from __future__ import annotations

from starlette.responses import Response

from usagebill.console.pages.page import Page
from usagebill.console.visits import Visit
from usagebill.core.recounts import KINDS
from usagebill.operations.audit import AuditReport, audit

_MOST_SHOWN = 100
# What a user may read who may read everything that was billed.
_READ = ("organizations.get", "invoices.list", "customers.list", "wallets.list")


def _page(visit: Visit, report: AuditReport | None) -> Response:
    return visit.page("audit.html", report=report, kinds=KINDS)


def _asked(visit: Visit) -> Response:
    for operation in _READ:
        visit.seat.require(operation)
    return _page(visit, None)


def _run(visit: Visit) -> Response:
    for operation in _READ:
        visit.seat.require(operation)
    report = visit.billing.reading(lambda reader: audit(reader, at_most=_MOST_SHOWN), visit.seat.who.organization)
    return _page(visit, report)


PAGES = (Page("/audit", _asked), Page("/audit", _run, "POST"))
