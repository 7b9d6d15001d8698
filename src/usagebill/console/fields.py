"""The fields of forms: what people type, as the library takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

from usagebill.console.rendering import words
from usagebill.core.currencies import CURRENCIES, exponent, major_from_cents, subunits
from usagebill.core.errors import Invalid
from usagebill.core.numbers import decimal_text, multiply, parse_decimal
from usagebill.core.price_versions import Effective

_LONGEST_WHOLE = 18
# Empty rows after those that were filled.
_SPARE_ROWS = 2
_MOST_ROWS = 100


class Kind(StrEnum):
    """What is typed into a field, or chosen there."""

    TEXT = "text"
    LONG = "long"
    EMAIL = "email"
    DATE = "date"
    # An amount in major units of a currency (`12.50`), which the library takes in cents.
    MONEY = "money"
    # A decimal, which the library takes as text; and an integer.
    NUMBER = "number"
    WHOLE = "whole"
    CURRENCY = "currency"
    CHOICE = "choice"
    # A text, with the choices as suggestions.
    SUGGESTED = "suggested"
    FLAG = "flag"
    # A text that is never shown again; an empty one leaves what there is.
    SECRET = "secret"
    # Values apart by commas.
    LIST = "list"
    # A name and its values on each line: `region: us, eu`.
    LINES = "lines"


@dataclass(frozen=True, slots=True)
class Field:
    """A field: the argument that it fills, and its label. `choices` are (value, words); `within` names the argument
    that is an object with it. `item` makes what the library takes of the name and the values on a line; `line` is its
    reverse.
    """

    name: str
    label: str
    kind: Kind = Kind.TEXT
    choices: Sequence[tuple[str, str]] = ()
    required: bool = False
    hint: str = ""
    within: str = ""
    # The values of the form's choice (`Form.chooser`) that the field belongs to; all without any.
    only_for: Sequence[str] = ()
    item: Callable[[str, Sequence[str]], object] = lambda name, values: {"key": name, "values": values}
    line: Callable[[Mapping[str, Any]], tuple[str, Sequence[str]]] = lambda item: (item["key"], item["values"])

    @property
    def is_optional_choice(self) -> bool:
        """Whether one of its choices is none."""
        return any(not value for value, _ in self.choices)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of fields that a form repeats: its number from 0, and the texts of its fields by their names."""

    place: int
    texts: Mapping[str, str]

    def name(self, field: str) -> str:
        """The name of a field of this row in the form."""
        return in_row(self.place, field)


def in_row(place: int, field: str) -> str:
    """The name in the form of a field of a row."""
    return f"range-{place}-{field}"


def rows_of(fields: Sequence[Field], form: Mapping[str, str]) -> Sequence[Row]:
    """The rows of these fields as they were typed, and empty ones for more; none without fields."""
    if not fields:
        return ()
    every = [
        Row(place, {field.name: form.get(in_row(place, field.name), "") for field in fields})
        for place in range(_MOST_ROWS)
    ]
    used = [row.place for row in every if any(row.texts.values())]
    return every[: (used[-1] + 1 if used else 0) + _SPARE_ROWS]


def choices(values: Sequence[str]) -> Sequence[tuple[str, str]]:
    """Codes as choices, in words."""
    return tuple((str(value), words(value)) for value in values)


# From when changed prices count.
_ON_DAY = "day"
EFFECTIVE = (
    Field(
        "effective",
        "New prices count",
        Kind.CHOICE,
        (
            (Effective.IMMEDIATELY, "at once, also for the period that is open"),
            (Effective.NEXT_PERIOD, "from the next period of each subscription"),
            (_ON_DAY, "from the first period that begins on this day or later:"),
        ),
    ),
    Field(
        "effective_on", "Day from which they count", Kind.DATE, hint="Only for the last choice; only prices can wait"
    ),
)


def with_effective(values: Mapping[str, object]) -> dict[str, object]:
    """The arguments with the typed day as `effective`. Raises `Invalid` for a day that is missing, or not asked for."""
    sent = dict(values)
    day = sent.pop("effective_on", None)
    if sent.get("effective") == _ON_DAY:
        if day is None:
            raise Invalid(effective_on="value_is_mandatory")
        sent["effective"] = day
    elif day is not None:
        reason = "a day is given, but the prices are not to wait for one; choose “from the first period”, or empty it"
        raise Invalid({"effective_on": ["incompatible_params"]}, reasons={"effective_on": reason})
    return sent


def value_of(field: Field, text: str, currency: str = "USD") -> object:
    """The value that somebody typed; None for nothing. Raises `Invalid`, in words."""
    text = text.strip()
    if field.kind == Kind.FLAG:
        return text != ""
    if not text:
        return None
    match field.kind:
        case Kind.MONEY:
            return _cents(field, text, currency)
        case Kind.NUMBER if parse_decimal(text) is None:
            raise _unreadable(field, f"“{text}” is no number; write it like 1234.5")
        case Kind.WHOLE:
            if not text.isascii() or not text.isdecimal() or len(text) > _LONGEST_WHOLE:
                raise _unreadable(field, f"“{text}” is no whole number; write it like 1000")
            return int(text)
        case Kind.CURRENCY:
            return text.upper()
        case Kind.LIST:
            return _listed(text)
        case Kind.LINES:
            return _lines(field, text)
    return text


def _listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _lines(field: Field, text: str) -> list[object]:
    read: list[object] = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, colon, values = line.partition(":")
        if not colon or not name.strip():
            raise _unreadable(field, f"“{line}” has no name before a colon; write it like region: us, eu")
        read.append(field.item(name.strip(), _listed(values)))
    return read


def values_of(
    fields: Sequence[Field], form: Mapping[str, str], currency: str = "USD", *, blanks: bool = False
) -> dict[str, object]:
    """The arguments that a form was filled with; with `blanks`, None for what was left empty. Raises `Invalid`."""
    values = {field.name: value_of(field, form.get(field.name, ""), currency) for field in fields}
    return {name: value for name, value in values.items() if blanks or value is not None}


def text_of(field: Field, value: object, currency: str = "USD") -> str:
    """A value of a record as its field shows it."""
    if value is None or value is False or field.kind == Kind.SECRET:
        return ""
    if field.kind == Kind.FLAG:
        return "yes"
    if field.kind == Kind.MONEY:
        return f"{major_from_cents(int(str(value)), currency):.{exponent(currency)}f}"
    if field.kind == Kind.NUMBER:
        number = parse_decimal(str(value))
        return str(value) if number is None else decimal_text(number).removesuffix(".0")
    if field.kind == Kind.LIST and isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value)
    if field.kind == Kind.LINES and isinstance(value, (list, tuple)):
        return "\n".join(f"{name}: {', '.join(values)}" for name, values in map(field.line, value))
    return str(value)


def _cents(field: Field, text: str, currency: str) -> int:
    if currency not in CURRENCIES:
        raise _unreadable(field, f"“{currency}” is no currency; write its code, like EUR")
    amount = parse_decimal(text)
    cents = None if amount is None else multiply(amount, subunits(currency))
    if cents is None or cents != cents.to_integral_value():
        example = f"{Decimal('1234.5'):.{exponent(currency)}f}"
        raise _unreadable(field, f"“{text}” is no amount of {currency}; write it like {example}")
    return int(cents)


def _unreadable(field: Field, text: str) -> Invalid:
    problem = Invalid({field.name: ["invalid_value"]})
    problem.message = f"{field.label}: {text}"
    return problem
