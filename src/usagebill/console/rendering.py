"""Templates, and how values read in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import jinja2

from usagebill.browser import templates
from usagebill.browser.templates import segment as segment
from usagebill.console.lists import Column, Kind, List
from usagebill.core.documents.locales import date_text, money_text
from usagebill.core.instants import parse_instant

# The address of the page about what a field of this name and value names.
Link = Callable[[str, object], str | None]
_LOCALE = "en"
# Statuses -> how they are painted; others are neutral.
_TONES = {
    **dict.fromkeys(
        ("active", "succeeded", "finalized", "available", "settled", "consumed", "paid", "dispute_won"), "good"
    ),
    **dict.fromkeys(("pending", "draft", "processing", "generating", "retrying", "incomplete"), "wait"),
    **dict.fromkeys(
        ("failed", "voided", "terminated", "canceled", "overdue", "expired", "refused", "returned", "dispute_lost"),
        "bad",
    ),
}


def money(cents: object, currency: object) -> str:
    """1234 cents of EUR as `€12.34`; nothing for no amount."""
    if cents is None or cents == "":
        return ""
    return money_text(int(str(cents)), str(currency or "USD"), _LOCALE)


def when(text: str | None, *, seconds: bool = False) -> str:
    """An instant as `Jan 5, 2024, 13:04`, in UTC; with `seconds`, as `13:04:59` after its date."""
    instant = None if not text else parse_instant(text)
    time = "%H:%M:%S" if seconds else "%H:%M"
    return "" if instant is None else f"{date_text(instant.date(), _LOCALE)}, {instant:{time}}"


def day(text: str | None, zone: str = "UTC") -> str:
    """A date, or the date of an instant in a time zone, as `Jan 5, 2024`."""
    if not text:
        return ""
    at = datetime.fromisoformat(text)
    return date_text((at if at.tzinfo is None else at.astimezone(ZoneInfo(zone))).date(), _LOCALE)


def number(value: object) -> str:
    """A number with its thousands apart, and without zeros at the end of its decimals."""
    whole, _, fraction = str(value).partition(".")
    sign, digits = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
    if not digits.isdecimal():
        return str(value)
    fraction = fraction.rstrip("0")
    return f"{sign}{int(digits):,}" + (f".{fraction}" if fraction else "")


def words(code: object) -> str:
    """A code as words: `read_only` as `Read only`."""
    text = str(code).replace("_", " ").replace(".", " ").strip()
    return text[:1].upper() + text[1:]


def tone(status: object) -> str:
    """How a status is painted."""
    return _TONES.get(str(status), "calm")


def at(record: Mapping[str, Any], field: str) -> Any:
    """The value of `customer.name` in a record; None where there is none."""
    value: Any = record
    for name in field.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


class Cell(NamedTuple):
    """A cell of a list: its classes, its heading, its text, where that leads, and the classes of what is inside it."""

    style: str
    label: str
    text: str
    href: str | None
    inner: str


def cells(record: Mapping[str, Any], list: List, root: str, link: Link) -> Iterator[Cell]:
    """The cells of a record in a list, the first of which leads to the record; a template without a macro for each is
    several times as fast.
    """
    own = f"{root}/{list.path}/{segment(record[list.key])}" if list.get else None
    for column in list.columns:
        value = at(record, column.field)
        text, inner, href = _shown(column, value, record), "", own
        if column.kind is Kind.STATUS and (own or value):
            text, inner = words("Yes" if value is True else value), "" if own else f"pill {tone(value)}"
        elif column.kind is Kind.STATUS and value is False:
            text, inner = "No", "quiet"
        elif own and not text:
            text, inner = f"No {column.label.lower()}", "quiet"
        elif not own:
            target = at(record, column.target) if column.target else value
            href = link(column.names or column.field.rpartition(".")[2], target)
        style = f"{column.kind} number" if column.kind in (Kind.MONEY, Kind.NUMBER) else column.kind
        yield Cell(style if text else f"{style} none", column.label, text, href, inner)
        own = None


def _shown(column: Column, value: object, record: Mapping[str, Any]) -> str:
    if value is None:
        return ""
    match column.kind:
        case Kind.MONEY:
            return money(value, at(record, column.currency))
        case Kind.NUMBER:
            return number(value)
        case Kind.WHEN:
            return when(str(value))
        case Kind.DAY:
            return day(str(value))
    return str(value)


def query(parameters: Mapping[str, object]) -> str:
    """Parameters as the end of an address, without empty ones."""
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    return f"?{urlencode(given)}" if given else ""


@cache
def environment() -> jinja2.Environment:
    """The templates of the console, and what they know."""
    made = templates.environment("usagebill.console")
    filters = (money, when, day, number, words, tone, at, query, cells)
    made.filters.update({function.__name__: function for function in filters})
    return made
