"""Any list: its filters, its pages, its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby

from starlette.responses import Response

from usagebill.console.lists import LISTS, List
from usagebill.console.pages.page import Page
from usagebill.console.seat import Listed, Seat, operation_named
from usagebill.console.visits import Visit
from usagebill.core.errors import BillingError, Forbidden

_PER_PAGE = 25


def navigation(seat: Seat) -> Sequence[tuple[str, Sequence[List]]]:
    """The lists that the user may see, by their group."""
    seen = [listed for listed in LISTS if seat.may(listed.operation)]
    return [(group, list(lists)) for group, lists in groupby(seen, lambda listed: listed.group)]


def arguments(listed: List, sent: Mapping[str, str]) -> dict[str, object]:
    """The arguments of the list's operation from those filters that have a value."""
    chosen: dict[str, object] = {}
    for item in listed.filters:
        if value := sent.get(item.name, "").strip():
            chosen[item.name] = [value] if item.many else value
    if listed.searched and (term := sent.get("search_term", "").strip()):
        chosen["search_term"] = term
    return chosen


def _shown(listed: List, visit: Visit) -> Response:
    sent = visit.asked()
    names = [item.name for item in listed.filters] + (["search_term"] if listed.searched else [])
    filters = {name: sent[name] for name in names if sent.get(name)}
    if listed.is_slow and "found" not in sent:
        visit.seat.require(listed.operation)
        return visit.page("list.html", list=listed, found=None, sent=filters, problem="")
    page = int(sent["page"]) if sent.get("page", "").isdecimal() and len(sent["page"]) < 7 else 1
    problem, found = "", Listed((), 1, _PER_PAGE, 0, True)
    paging = {"page": max(1, page), "per_page": _PER_PAGE} if operation_named(listed.operation).paged else {}
    try:
        found = visit.seat.listed(listed.operation, **arguments(listed, sent), **paging)
    except Forbidden:
        raise
    except BillingError as refusal:
        problem = refusal.message or refusal.code
    return visit.page("list.html", 422 if problem else 200, list=listed, found=found, sent=filters, problem=problem)


def _again(listed: List, visit: Visit) -> Response:
    assert listed.again is not None
    visit.seat.ask(listed.again[0], visit.form.get("id", ""))
    return visit.to(f"/{listed.path}")


PAGES = (
    *(Page(f"/{listed.path}", partial(_shown, listed)) for listed in LISTS if listed.path != "users"),
    *(Page(f"/{listed.path}", partial(_again, listed), "POST") for listed in LISTS if listed.again is not None),
)
