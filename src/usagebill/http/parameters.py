"""Parameters of requests: queries as nested objects, and the requested page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from usagebill.core.errors import BadRequest
from usagebill.process.json_text import JsonObject
from usagebill.requests.inputs import Paging
from usagebill.storage.ports import Page


def refuse_nul(address: str) -> None:
    """Raises `BadRequest` for a path or query with a NUL character: PostgreSQL cannot look it up."""
    if "%00" in address or "\0" in address:
        raise BadRequest("Bad Request", "the address has a NUL character (%00); leave it out")


def decoded(text: str) -> str:
    """A part of a path or query without its percent-encoding. Raises `BadRequest` for what is not text, or has NUL."""
    refuse_nul(text)
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        raise BadRequest("Bad Request")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError as problem:
        raise BadRequest("Bad Request") from problem


def _place(parameters: JsonObject, steps: list[str], value: str) -> None:
    """Store `value` at the path `steps`; an empty last step appends to a list. Does nothing if types do not fit."""
    *way, last = steps if steps[-1] else steps[:-1]
    for step in way:
        inner = parameters.setdefault(step, {})
        if not isinstance(inner, dict):
            return
        parameters = inner
    if steps[-1]:
        parameters[last] = value
        return
    items = parameters.setdefault(last, [])
    if isinstance(items, list):
        items.append(value)


def query_parameters(query: str) -> JsonObject:
    """`a=1&b[]=2&b[]=3&c[d]=4` as {"a": "1", "b": ["2", "3"], "c": {"d": "4"}}, to any depth."""
    parameters: JsonObject = {}
    for part in query.split("&"):
        if not part:
            continue
        name, _, value = part.replace("+", " ").partition("=")
        name, value = decoded(name), decoded(value)
        nested = re.fullmatch(r"([^\[\]]+)((?:\[[^\[\]]*\]){1,8})", name)
        if nested is None:
            parameters[name] = value
        else:
            _place(parameters, [nested.group(1), *re.findall(r"\[([^\[\]]*)\]", nested.group(2))], value)
    return parameters


def _leading_integer(value: object) -> int | None:
    # Python parses no longer integers than this.
    match = re.match(r"\s*(-?\d{1,4300})", str(value))
    return int(match.group(1)) if match else None


def paging_of(parameters: Mapping[str, object]) -> Paging:
    """The requested page. An invalid page becomes 1; an invalid per_page 25, an absent or zero one 100."""
    page = _leading_integer(parameters["page"]) if "page" in parameters else 1
    per_page: int | None = 100
    if parameters.get("per_page") is not None:
        per_page = _leading_integer(parameters["per_page"])
        if per_page == 0:
            per_page = 100
    return Paging(page=page if page and page > 0 else 1, per_page=per_page if per_page and per_page > 0 else 25)


def meta_of(page: Page[Any]) -> JsonObject:
    """The `meta` of a page: an empty list has no pages. A total that is not exact is said to be none."""
    if page.total_count == 0:
        return {"current_page": 0, "next_page": None, "prev_page": None, "total_pages": 0, "total_count": 0}
    pages = -(-page.total_count // page.per_page)
    meta: JsonObject = {
        "current_page": page.page,
        "next_page": page.page + 1 if page.page < pages else None,
        "prev_page": page.page - 1 if page.page > 1 else None,
        "total_pages": pages,
        "total_count": page.total_count,
    }
    if not page.total_count_is_exact:
        # Pages go on after the last one that was counted.
        if meta["next_page"] is None and len(page.items) == page.per_page:
            meta["next_page"] = page.page + 1
        meta["total_count_is_exact"] = False
    return meta
