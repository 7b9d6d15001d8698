"""The fields of forms: what people type, as the library takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from usagebill.console.rendering import words
from usagebill.core.currencies import CURRENCIES, exponent, major_from_cents, subunits
from usagebill.core.errors import Invalid
from usagebill.core.numbers import decimal_text, multiply, parse_decimal

_LONGEST_WHOLE = 18


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
    # Values apart by commas.
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Field:
    """A field: the argument that it fills, and its label. `choices` are (value, words); `within` names the argument
    that is an object with it.
    """

    name: str
    label: str
    kind: Kind = Kind.TEXT
    choices: Sequence[tuple[str, str]] = ()
    required: bool = False
    hint: str = ""
    within: str = ""


def choices(values: Sequence[str]) -> Sequence[tuple[str, str]]:
    """Codes as choices, in words."""
    return tuple((str(value), words(value)) for value in values)


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
            return [item.strip() for item in text.split(",") if item.strip()]
    return text


def values_of(
    fields: Sequence[Field], form: Mapping[str, str], currency: str = "USD", *, blanks: bool = False
) -> dict[str, object]:
    """The arguments that a form was filled with; with `blanks`, None for what was left empty. Raises `Invalid`."""
    values = {field.name: value_of(field, form.get(field.name, ""), currency) for field in fields}
    return {name: value for name, value in values.items() if blanks or value is not None}


def text_of(field: Field, value: object, currency: str = "USD") -> str:
    """A value of a record as its field shows it."""
    if value is None or value is False:
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
