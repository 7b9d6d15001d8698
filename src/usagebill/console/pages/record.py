"""Any record that has no page of its own: every field, linked."""

from __future__ import annotations

from functools import partial

from starlette.responses import Response

from usagebill.console.lists import BY_PATH, LISTS, List
from usagebill.console.pages.actions import possible_actions
from usagebill.console.pages.document import DOCUMENTS
from usagebill.console.pages.page import Page
from usagebill.console.visits import Visit

# Records that have pages of their own.
_OWN_PAGES = frozenset({"customers", "subscriptions", "invoices", "plans", "users"})


def _shown(listed: List, visit: Visit) -> Response:
    record = visit.seat.ask(listed.get, visit.named("key"))
    related = [
        (BY_PATH[path], {name: record[listed.key]})
        for path, name in listed.related
        if visit.seat.may(BY_PATH[path].operation)
    ]
    return visit.page(
        "record.html",
        list=listed,
        record=record,
        related=related,
        actions=possible_actions(visit.seat, listed.get.partition(".")[0], record),
        has_pdf=listed.path in DOCUMENTS,
    )


PAGES = tuple(
    Page(f"/{listed.path}/{{key:path}}", partial(_shown, listed))
    for listed in LISTS
    if listed.get and listed.path not in _OWN_PAGES
)
