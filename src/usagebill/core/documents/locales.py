"""Locales: how dates, amounts, units and rates are written in each language of documents.

A locale is a language (`de`), formatted as its readers expect (CLDR), or a language followed by `@reference`, formatted
as the reference service does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal

from usagebill.core.currencies import exponent, major_from_cents
from usagebill.core.numbers import ONE, ZERO, round_to

# The suffix of locales in the reference service's formats.
REFERENCE = "@reference"

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
    """The formats of a locale. `day` takes day, month (a number), name (of the month) and year; `symbol` and `code`
    take the unit and the amount; `months` is empty if `day` has no month names. `symbols` are currency symbols; other
    currencies are written with their code.
    """

    day: str
    symbol: str
    code: str
    point: str
    group: str
    months: tuple[str, ...] = ()
    symbols: Mapping[str, str] = field(default_factory=lambda: _SYMBOLS)
    percent: str = "{amount}%"
    minus: str = "-"


_ENGLISH = Format(
    day="{name} {day:02d}, {year}",
    symbol="{unit}{amount}",
    code="{unit} {amount}",
    point=".",
    group=",",
    months=("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)

_REFERENCE_FORMATS: Mapping[str, Format] = {
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


# CLDR, as published by Babel.
_BLANK, _NARROW = "\u00a0", "\u202f"
_AFTER = f"{{amount}}{_BLANK}{{unit}}"
_COMMON_SYMBOLS = {
    "AUD": "AU$",
    "BRL": "R$",
    "CAD": "CA$",
    "CNY": "CN¥",
    "EUR": "€",
    "GBP": "£",
    "HKD": "HK$",
    "ILS": "₪",
    "INR": "₹",
    "JPY": "¥",
    "KRW": "₩",
    "MXN": "MX$",
    "NZD": "NZ$",
    "TWD": "NT$",
    "USD": "$",
    "VND": "₫",
    "XAF": "FCFA",
    "XCD": "EC$",
    "XOF": f"F{_NARROW}CFA",
    "XPF": "CFPF",
}
_FRENCH_DOLLARS = "ARS:AR AUD:AU BMD:BM BND:BN BZD:BZ CAD:CA CLP:CL COP:CO FJD:FJ MXN:MX NAD:NA NZD:NZ SBD:SB SGD:SG"
_FRENCH_DOLLARS += " SRD:SR TTD:TT USD:US UYU:UY WST:WS"
_SWEDISH = "BBD:Bds$ BMD:BM$ BRL:BR$ BSD:BS$ BZD:BZ$ CAD:CA$ DKK:Dkr DOP:RD$ EGP:EG£ EUR:€ ILS:₪ ISK:Ikr JMD:JM$"
_SWEDISH += " MXN:MX$ NOK:Nkr SEK:kr USD:US$ XAF:FCFA XCD:EC$ XPF:CFPF"


def _symbols(text: str, symbol: str = "{}") -> dict[str, str]:
    return {code: symbol.format(mark) for code, mark in (pair.split(":") for pair in text.split())}


_LOCAL_FORMATS: Mapping[str, Format] = {
    "en": Format(
        day="{name} {day}, {year}",
        symbol="{unit}{amount}",
        code=f"{{unit}}{_BLANK}{{amount}}",
        point=".",
        group=",",
        months=_ENGLISH.months,
        symbols=_COMMON_SYMBOLS | {"AUD": "A$", "PHP": "₱"},
    ),
    "de": Format(
        day="{day:02d}.{month:02d}.{year}",
        symbol=_AFTER,
        code=_AFTER,
        point=",",
        group=".",
        symbols=_COMMON_SYMBOLS | {"THB": "฿"},
        percent=f"{{amount}}{_BLANK}%",
    ),
    "es": Format(
        day="{day} {name} {year}",
        symbol=_AFTER,
        code=_AFTER,
        point=",",
        group=".",
        months=("ene", "feb", "mar", "abr", "may", "jun", "jul", "ago", "sept", "oct", "nov", "dic"),
        symbols={"EUR": "€", "THB": "฿", "USD": "US$", "VND": "₫", "XPF": "CFPF"},
        percent=f"{{amount}}{_BLANK}%",
    ),
    "fr": Format(
        day="{day} {name} {year}",
        symbol=_AFTER,
        code=_AFTER,
        point=",",
        group=_NARROW,
        months=_REFERENCE_FORMATS["fr"].months,
        symbols=_symbols(_FRENCH_DOLLARS, "${}")
        | _symbols("FKP:FK GBP:GB GIP:GI LBP:LB", "£{}")
        | _symbols("BRL:R$ EUR:€ ILS:₪ INR:₹ KRW:₩ VND:₫ XAF:FCFA XPF:FCFP")
        | {"XOF": f"F{_NARROW}CFA"},
        percent=f"{{amount}}{_BLANK}%",
    ),
    "it": Format(
        day="{day} {name} {year}",
        symbol=_AFTER,
        code=_AFTER,
        point=",",
        group=".",
        months=_REFERENCE_FORMATS["it"].months,
        symbols=_symbols("AUD:A$ CAD:CA$ CNY:CN¥ EUR:€ GBP:£ ILS:₪ NZD:NZ$ PHP:₱ THB:฿ XAF:FCFA XCD:EC$ XPF:CFPF")
        | {"XOF": f"F{_NARROW}CFA"},
    ),
    "nb": Format(
        day="{day}. {name} {year}",
        symbol=_AFTER,
        code=_AFTER,
        point=",",
        group=_BLANK,
        months=_REFERENCE_FORMATS["nb"].months,
        symbols={"EUR": "€", "GBP": "£", "NOK": "kr", "XOF": f"F{_NARROW}CFA"},
        percent=f"{{amount}}{_BLANK}%",
        minus="\u2212",
    ),
    "pt-BR": Format(
        day="{day} de {name} de {year}",
        symbol=f"{{unit}}{_BLANK}{{amount}}",
        code=f"{{unit}}{_BLANK}{{amount}}",
        point=",",
        group=".",
        months=("jan.", "fev.", "mar.", "abr.", "mai.", "jun.", "jul.", "ago.", "set.", "out.", "nov.", "dez."),
        symbols=_COMMON_SYMBOLS | {"JPY": "JP¥", "THB": "฿", "USD": "US$"},
    ),
    "sv": Format(
        day="{day} {name} {year}",
        symbol=_AFTER,
        code=_AFTER,
        point=",",
        group=_BLANK,
        months=_REFERENCE_FORMATS["sv"].months,
        symbols=_symbols(_SWEDISH) | {"XOF": f"F{_NARROW}CFA"},
        percent=f"{{amount}}{_BLANK}%",
        minus="\u2212",
    ),
    "zh-TW": Format(
        day="{year}年{month}月{day}日",
        symbol="{unit}{amount}",
        code=f"{{unit}}{_BLANK}{{amount}}",
        point=".",
        group=",",
        symbols=_COMMON_SYMBOLS | {"KRW": "￦", "TWD": "$", "USD": "US$"},
    ),
}

FORMATS: Mapping[str, Format] = {
    **_LOCAL_FORMATS,
    **{language + REFERENCE: form for language, form in _REFERENCE_FORMATS.items()},
}


def language_of(locale: str) -> str:
    """The language of a locale, in whatever formats it is written."""
    return locale.partition("@")[0]


def written(language: str, formats: str) -> str:
    """The locale of a language in `locale` or `reference` forms (`Settings.document_formats`)."""
    return language + REFERENCE if formats == "reference" else language


def _format(locale: str) -> Format:
    listed = FORMATS.get(locale)
    if listed is None:
        return FORMATS["en" + REFERENCE if locale.endswith(REFERENCE) else "en"]
    return listed


def date_text(day: date, locale: str) -> str:
    """5 January 2024 as `Jan 5, 2024` (en), `05.01.2024` (de) or `Jan 05, 2024` (en@reference)."""
    conventions = _format(locale)
    name = conventions.months[day.month - 1] if conventions.months else ""
    return conventions.day.format(day=day.day, month=day.month, name=name, year=day.year)


def _grouped(value: Decimal, conventions: Format, *, least: int = 0) -> str:
    """A number without a sign, with all its decimals and at least `least`; further trailing zeros are cut."""
    whole, _, fraction = format(value.copy_abs(), "f").partition(".")
    fraction = fraction.rstrip("0").ljust(least, "0")
    groups = f"{int(whole):,}".replace(",", conventions.group)
    return f"{groups}{conventions.point}{fraction}" if fraction else groups


def _with_unit(amount: Decimal, currency: str, locale: str, *, decimals: int) -> str:
    conventions = _format(locale)
    symbol = conventions.symbols.get(currency)
    text = _grouped(amount, conventions, least=decimals)
    # A symbol that ends in a letter (FCFA) is separated from the digits, as a code is.
    pattern = conventions.code if symbol is None or symbol[-1].isalpha() else conventions.symbol
    return (conventions.minus if amount < ZERO else "") + pattern.format(unit=symbol or currency, amount=text)


def money_text(cents: int, currency: str, locale: str) -> str:
    """123450 cents of EUR as `€1,234.50` (en) or `1.234,50 €` (de); currencies without a symbol show their code."""
    return _with_unit(major_from_cents(cents, currency), currency, locale, decimals=exponent(currency))


def _shortened(value: Decimal) -> Decimal:
    """6 significant digits below one, else 6 decimals."""
    if value.is_zero():
        return ZERO
    places = _SIGNIFICANT - 1 - value.adjusted() if value.copy_abs() < ONE else _DECIMALS
    return round_to(value, places)


def price_text(amount: Decimal, currency: str, locale: str) -> str:
    """A unit price in major units, with at least the currency's own decimals: `$123.123457`, `$0.10`."""
    return _with_unit(_shortened(amount), currency, locale, decimals=exponent(currency))


def units_text(units: Decimal, locale: str) -> str:
    """A quantity: `123`, `123.456789`, `0.0000000009`."""
    shown = _shortened(units)
    conventions = _format(locale)
    return (conventions.minus if shown < ZERO else "") + _grouped(shown, conventions)


def rate_text(rate: Decimal, locale: str, *, decimals: int = 0) -> str:
    """A rate in percent, with at least `decimals` decimals: `5.5%` (en), `5,5 %` (de)."""
    conventions = _format(locale)
    amount = _grouped(rate, conventions, least=decimals)
    return (conventions.minus if rate < ZERO else "") + conventions.percent.format(amount=amount)


def credits_text(amount: Decimal, unit: str, locale: str) -> str:
    """An amount of a pricing unit, with at least 2 decimals: `12.00 CR`."""
    shown = _shortened(amount)
    conventions = _format(locale)
    return (conventions.minus if shown < ZERO else "") + f"{_grouped(shown, conventions, least=2)} {unit}"
