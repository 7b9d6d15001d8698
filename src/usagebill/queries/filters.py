"""Filters of lists: query parameters as conditions, and errors for values that make no sense."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.instants import parse_instant
from usagebill.core.numbers import parse_decimal
from usagebill.requests.inputs import ABSENT, Maybe
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import (
    Condition,
    any_of,
    at_least,
    at_most,
    contains,
    eq,
    has_item,
    negate,
    related,
    within,
)
from usagebill.storage.tables import CUSTOMER_COLUMNS as CUSTOMER_COLUMNS

# Longer amounts are stored, but are not sorted by value.
_LARGEST_AMOUNT = Decimal(10**80 - 1)
# Far more than any record can have.
_MOST_PAIRS = 100
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})
_FALSE = frozenset({"0", "off", "f", "false", "n", "no"})


def search_conditions(term: Maybe[str], columns: tuple[str, ...], of_customer: tuple[str, ...]) -> list[Condition]:
    """Conditions for a search: a part of one of `columns` or of the customer's, in any case, or an exact id."""
    text = (term or "").strip()
    if not text:
        return []
    options = [contains(columns, text)]
    if of_customer:
        options.append(related(Customer, "customer_id", contains(of_customer, text)))
    if _UUID.fullmatch(text):
        options.append(eq("id", text.lower()))
    return [any_of(*options)]


def named_entities(reader: Reader, codes: Iterable[str]) -> list[str]:
    """The ids of the billing entities with these codes, archived or not. Raises `NotFound` for unknown codes."""
    unique_codes = set(codes)
    entities = reader.tx.find(BillingEntity, within("code", unique_codes), deleted=True)
    if unknown := unique_codes - {entity.code for entity in entities}:
        raise NotFound("billing_entity", min(unknown))
    return [entity.id for entity in entities]


def either(single: object, several: object) -> object:
    """The list of values if there is one, else the single value."""
    return several if several is not ABSENT else single


def choices(field: str, value: object, options: tuple[str, ...], problems: dict[str, object]) -> tuple[str, ...] | None:
    """One or several values, all of `options`; None if the parameter is absent."""
    if value is ABSENT or value is None or value == "" or value == [] or value == ():
        return None
    sentence = f"must be one of: {', '.join(options)}"
    if isinstance(value, (list, tuple)):
        wrong = {str(place): [sentence] for place, choice in enumerate(value) if choice not in options}
        if wrong:
            problems[field] = wrong
            return None
        return tuple(str(choice) for choice in value)
    if value not in options:
        problems[field] = [f"{sentence} or must be an array"]
        return None
    return (str(value),)


def flag(field: str, value: object, problems: dict[str, object]) -> bool | None:
    """A boolean as people write it; None if the parameter is absent."""
    if value is ABSENT or value is None or value == "":
        return None
    text = str(value).lower()
    if text not in _TRUE | _FALSE:
        problems[field] = ["must be boolean"]
        return None
    return text in _TRUE


def amount(field: str, value: Maybe[str], problems: dict[str, object]) -> Decimal | None:
    """A bound for amounts in cents, fractions allowed; None if the parameter is absent.

    Bounds beyond the largest amount that is sorted by value are cut to it.
    """
    if not value:
        return None
    number = parse_decimal(value.strip())
    if number is None:
        problems[field] = ["value_is_invalid"]
        return None
    return max(-_LARGEST_AMOUNT, min(number, _LARGEST_AMOUNT))


def day(field: str, value: Maybe[str], problems: dict[str, object]) -> date | None:
    """The date in a text; None if the parameter is absent."""
    if not value:
        return None
    parsed = parse_instant(value)
    if parsed is None:
        problems[field] = ["invalid_date"]
        return None
    return parsed.date()


def log_span(reader: Reader, from_date: Maybe[str], to_date: Maybe[str], days: int | None) -> list[Condition]:
    """Conditions for log entries between two instants (inclusive) and no older than `days`, if set.

    Raises `Invalid` for a text without a date.
    """
    problems: dict[str, object] = {}
    span: list[Condition] = []
    for field, value, bound in (("from_date", from_date, at_least), ("to_date", to_date, at_most)):
        instant = parse_instant(value) if value else None
        if instant is not None:
            span.append(bound("logged_at", instant))
        elif value:
            problems[field] = ["invalid_date"]
    if problems:
        raise Invalid(problems)
    return span if days is None else [*span, at_least("logged_at", reader.now - timedelta(days=days))]


def metadata_conditions(pairs: Maybe[Mapping[str, object]], problems: dict[str, object]) -> list[Condition]:
    """Conditions on at most 100 pairs of metadata; an empty value matches records without the key."""
    if not pairs:
        return []
    if len(pairs) > _MOST_PAIRS:
        problems["metadata"] = ["invalid_count"]
        return []
    wrong = {key: ["must be a string"] for key, value in pairs.items() if not isinstance(value, str)}
    if wrong:
        problems["metadata"] = wrong
        return []
    return [
        has_item("metadata", key=key, value=value) if value else negate(has_item("metadata", key=key))
        for key, value in pairs.items()
    ]


def known_values(value: object, options: tuple[str, ...]) -> tuple[str, ...] | None:
    """One or several values, without those not among `options`; None if none remains."""
    if value is ABSENT or value is None:
        return None
    sent = value if isinstance(value, (list, tuple)) else (value,)
    return tuple(str(choice) for choice in sent if choice in options) or None
