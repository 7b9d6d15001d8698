"""Locales: how dates, amounts, units and rates are written in each language of documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from usagebill.core.currencies import exponent, major_from_cents
from usagebill.core.numbers import ONE, ZERO, round_to

__all__ = [
    "FORMATS",
    "Format",
    "credits_text",
    "date_text",
    "money_text",
    "price_text",
    "rate_text",
    "units_text",
]

_DOLLARS = (
    "ARS AUD BBD BMD BND BSD BZD CAD CLP COP CVE DOP FJD GYD HKD JMD KYD LRD MXN NAD NZD SBD SGD SRD TTD TWD USD XCD"
)
_POUNDS = "FKP GBP GIP SHP"
_YEN = "CNY JPY"
_SYMBOLS: Mapping[str, str] = {
    "EUR": "€",
    **dict.fromkeys(_DOLLARS.split(), "$"),
    **dict.fromkeys(_POUNDS.split(), "£"),
    **dict.fromkeys(_YEN.split(), "¥"),
}
_SIGNIFICANT = 6
_DECIMALS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How a locale writes. `day` takes day, month (a number), name (of the month) and year; `symbol` and `code` take
    the unit and the amount; `months` is empty if `day` has no names."""

    day: str
    symbol: str
    code: str
    point: str
    group: str
    months: tuple[str, ...] = ()


_ENGLISH = Format(
    day="{name} {day:02d}, {year}",
    symbol="{unit}{amount}",
    code="{unit} {amount}",
    point=".",
    group=",",
    months=("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)

FORMATS: Mapping[str, Format] = {
    "en": _ENGLISH,
    "de": Format(
        day="{day:02d}. {name} {year}",
        symbol="{unit}{amount}",
        code="{unit} {amount}",
        point=",",
        group=".",
        months=("Jan.", "Feb.", "März", "Apr.", "Mai", "Juni", "Juli", "Aug.", "Sep.", "Okt.", "Nov.", "Dez."),
    ),
    "es": Format(
        day="{day} de {name} de {year}",
        symbol="{unit}{amount}",
        code="{unit} {amount}",
        point=".",
        group=",",
        months=("ene.", "feb.", "mar.", "abr.", "may.", "jun.", "jul.", "ago.", "sept.", "oct.", "nov.", "dic."),
    ),
    "fr": Format(
        day="{day} {name} {year}",
        symbol="{amount} {unit}",
        code="{amount} {unit}",
        point=",",
        group=" ",
        months=("janv.", "févr.", "mars", "avr.", "mai", "juin", "juil.", "août", "sept.", "oct.", "nov.", "déc."),
    ),
    "it": Format(
        day="{day:02d} {name} {year}",
        symbol="{amount} {unit}",
        code="{amount} {unit}",
        point=",",
        group=".",
        months=("gen", "feb", "mar", "apr", "mag", "giu", "lug", "ago", "set", "ott", "nov", "dic"),
    ),
    "nb": Format(
        day="{day:02d}. {name} {year}",
        symbol="{unit}{amount}",
        code="{unit} {amount}",
        point=",",
        group=" ",
        months=("jan.", "feb.", "mars", "apr.", "mai", "juni", "juli", "aug.", "sep.", "okt.", "nov.", "des."),
    ),
    "pt-BR": Format(
        day="{day:02d}/{month:02d}/{year}",
        symbol="{unit} {amount}",
        code="{unit} {amount}",
        point=",",
        group=".",
    ),
    "sv": Format(
        day="{day:02d} {name} {year}",
        symbol="{amount} {unit}",
        code="{amount} {unit}",
        point=",",
        group=" ",
        months=("jan.", "feb.", "mars", "apr.", "maj", "juni", "juli", "aug.", "sep.", "okt.", "nov.", "dec."),
    ),
    "zh-TW": Format(
        day="{year}年{month}月{day}日",
        symbol="{unit}{amount}",
        code="{unit} {amount}",
        point=".",
        group=",",
    ),
}


def _format(locale: str) -> Format:
    return FORMATS.get(locale, _ENGLISH)


def date_text(day: date, locale: str) -> str:
    """5 January 2024 as `Jan 05, 2024` (en) or `2024年1月5日` (zh-TW)."""
    conventions = _format(locale)
    name = conventions.months[day.month - 1] if conventions.months else ""
    return conventions.day.format(day=day.day, month=day.month, name=name, year=day.year)


def _grouped(value: Decimal, conventions: Format, *, least: int = 0) -> str:
    """A number without a sign, with all its decimals and at least `least` of them, trailing zeros beyond cut."""
    whole, _, fraction = format(value.copy_abs(), "f").partition(".")
    fraction = fraction.rstrip("0").ljust(least, "0")
    groups = f"{int(whole):,}".replace(",", conventions.group)
    return f"{groups}{conventions.point}{fraction}" if fraction else groups


def _with_unit(amount: Decimal, currency: str, locale: str, *, decimals: int) -> str:
    conventions = _format(locale)
    symbol = _SYMBOLS.get(currency)
    text = _grouped(amount, conventions, least=decimals)
    pattern = conventions.code if symbol is None else conventions.symbol
    return ("-" if amount < ZERO else "") + pattern.format(unit=symbol or currency, amount=text)


def money_text(cents: int, currency: str, locale: str) -> str:
    """123450 cents of EUR as `€1,234.50` (en) or `1 234,50 €` (fr); the code stands in for a missing symbol."""
    return _with_unit(major_from_cents(cents, currency), currency, locale, decimals=exponent(currency))


def _shortened(value: Decimal) -> Decimal:
    """6 significant digits below one, else 6 decimals."""
    if value.is_zero():
        return ZERO
    places = _SIGNIFICANT - 1 - value.adjusted() if value.copy_abs() < ONE else _DECIMALS
    return round_to(value, places)


def price_text(amount: Decimal, currency: str, locale: str) -> str:
    """A price of one unit in major units, with at least the currency's own decimals: `$123.123457`, `$0.10`."""
    return _with_unit(_shortened(amount), currency, locale, decimals=exponent(currency))


def units_text(units: Decimal, locale: str) -> str:
    """A quantity: `123`, `123.456789`, `0.0000000009`."""
    shown = _shortened(units)
    return ("-" if shown < ZERO else "") + _grouped(shown, _format(locale))


def rate_text(rate: Decimal, locale: str, *, decimals: int = 0) -> str:
    """A rate in percent, with at least so many decimals: `20%`, `5.5%`."""
    return ("-" if rate < ZERO else "") + _grouped(rate, _format(locale), least=decimals) + "%"


def credits_text(amount: Decimal, unit: str, locale: str) -> str:
    """An amount of a pricing unit, with at least 2 decimals: `12.00 CR`."""
    shown = _shortened(amount)
    return ("-" if shown < ZERO else "") + f"{_grouped(shown, _format(locale), least=2)} {unit}"
