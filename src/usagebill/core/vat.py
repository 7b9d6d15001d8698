"""Value-added tax in the European Union: its rates, the rate that a customer pays, and the syntax of VAT numbers.

Three facts decide: the customer's location, the seller's location, and whether the customer is a business with a VAT
number. A registered business in another country of the EU accounts for the tax itself (reverse charge); everybody else
in the EU pays the standard rate of a country, or of one of its territories with a separate rate; customers outside the
EU pay none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from usagebill.core.countries import COUNTRIES

CODE_PREFIX = "svc_eu"
REVERSE_CHARGE = f"{CODE_PREFIX}_reverse_charge"
TAX_EXEMPT = f"{CODE_PREFIX}_tax_exempt"
# The code of a tax of the user's own, at 0 %, for goods that leave the EU: everything else is a service.
GOODS_EXPORT = "goods_export"

_ALWAYS = date.min

# The standard rate of each country in percent, each with its first day, oldest first.
STANDARD_RATES: Mapping[str, tuple[tuple[date, Decimal], ...]] = {
    "AT": ((_ALWAYS, Decimal(20)),),
    "BE": ((_ALWAYS, Decimal(21)),),
    "BG": ((_ALWAYS, Decimal(20)),),
    "CY": ((_ALWAYS, Decimal(19)),),
    "CZ": ((_ALWAYS, Decimal(21)),),
    "DE": ((_ALWAYS, Decimal(19)),),
    "DK": ((_ALWAYS, Decimal(25)),),
    "EE": ((_ALWAYS, Decimal(22)), (date(2025, 7, 1), Decimal(24))),
    "ES": ((_ALWAYS, Decimal(21)),),
    "FI": ((_ALWAYS, Decimal(24)), (date(2024, 9, 1), Decimal("25.5"))),
    "FR": ((_ALWAYS, Decimal(20)),),
    "GR": ((_ALWAYS, Decimal(24)),),
    "HR": ((_ALWAYS, Decimal(25)),),
    "HU": ((_ALWAYS, Decimal(27)),),
    "IE": ((_ALWAYS, Decimal(23)),),
    "IT": ((_ALWAYS, Decimal(22)),),
    "LT": ((_ALWAYS, Decimal(21)),),
    "LU": ((_ALWAYS, Decimal(17)),),
    "LV": ((_ALWAYS, Decimal(21)),),
    "MT": ((_ALWAYS, Decimal(18)),),
    "NL": ((_ALWAYS, Decimal(21)),),
    "PL": ((_ALWAYS, Decimal(23)),),
    "PT": ((_ALWAYS, Decimal(23)),),
    "RO": ((_ALWAYS, Decimal(19)), (date(2025, 8, 1), Decimal(21))),
    "SE": ((_ALWAYS, Decimal(25)),),
    "SI": ((_ALWAYS, Decimal(22)),),
    "SK": ((_ALWAYS, Decimal(20)), (date(2025, 1, 1), Decimal(23))),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Territory:
    """A part of a country with its own rate (percent). `postcode` matches anywhere in a postcode."""

    country: str
    key: str
    name: str
    postcode: str
    rate: Decimal

    @property
    def code(self) -> str:
        """The code of its tax."""
        return f"{CODE_PREFIX}_{self.country.lower()}_exception_{self.key}"


def _territory(country: str, key: str, name: str, postcode: str, rate: str) -> Territory:
    return Territory(country=country, key=key, name=name, postcode=postcode, rate=Decimal(rate))


# If several patterns of a country match, the first counts.
TERRITORIES: tuple[Territory, ...] = (
    _territory("ES", "canary_islands", "Canary Islands", r"35[0-9]{3}|38[0-9]{3}", "0"),
    _territory("ES", "ceuta", "Ceuta", r"5100[1-5]|5107[01]|51081", "0"),
    _territory("ES", "melilla", "Melilla", r"5200[0-6]|5207[01]|52081", "0"),
    _territory("IT", "campione_d_italia", "Campione d'Italia", r"22061", "0"),
    _territory("IT", "livigno", "Livigno", r"23041", "0"),
    _territory("FI", "aland_islands", "Aland Islands", r"22[0-9]{3,}", "0"),
    _territory("GR", "mount_athos", "Mount Athos", r"63086", "0"),
    _territory("DE", "busingen_am_hochrhein", "Busingen am Hochrhein", r"78266", "0"),
    _territory("DE", "heligoland", "Heligoland", r"27498", "0"),
    _territory("FR", "guadeloupe", "Guadeloupe", r"971[0-9]{2,}", "8.5"),
    _territory("FR", "martinique", "Martinique", r"972[0-9]{2,}", "8.5"),
    _territory("FR", "reunion", "Reunion", r"974[0-9]{2,}", "8.5"),
    _territory("FR", "guyane", "Guyane", r"973[0-9]{2,}", "0"),
    _territory("FR", "mayotte", "Mayotte", r"976[0-9]{2,}", "0"),
    _territory("PT", "madeira", "Madeira", r"9[0-4][0-9]{2,}", "22"),
    _territory("PT", "azores", "Azores", r"9[5-9][0-9]{2,}", "18"),
    _territory("AT", "jungholz", "Jungholz", r"6691", "19"),
    _territory("AT", "mittelberg", "Mittelberg", r"699[123]", "19"),
)

# In these countries, the separate rate of a territory applies only to businesses: those with a VAT number.
_TERRITORIES_OF_BUSINESSES = frozenset({"FR"})


# Taxes


@dataclass(frozen=True, slots=True, kw_only=True)
class EuTax:
    """One of the taxes created for an organization; `rate` is in percent."""

    code: str
    name: str
    rate: Decimal
    description: str


def is_eu_code(code: str) -> bool:
    """Whether the code is that of a tax of this module, ignoring case."""
    return code.lower().startswith(CODE_PREFIX)


def standard_code(country: str) -> str:
    """The code of the standard rate of a country."""
    return f"{CODE_PREFIX}_{country.lower()}_standard"


def standard_rate(country: str, on: date) -> Decimal:
    """The standard rate of an EU country on a day, in percent. KeyError for another country."""
    return max((since, rate) for since, rate in STANDARD_RATES[country] if since <= on)[1]


def eu_taxes(on: date) -> tuple[EuTax, ...]:
    """All taxes with the rates of that day: the countries' by code, the territories', and two at 0 %."""
    standard = [
        EuTax(
            code=standard_code(country),
            name=f"{country} Standard",
            rate=standard_rate(country, on),
            description=f"Standard VAT rate of {country}",
        )
        for country in sorted(STANDARD_RATES)
    ]
    exceptions = [
        EuTax(
            code=territory.code,
            name=f"{territory.country} {territory.name} Standard",
            rate=territory.rate,
            description=f"VAT rate of {territory.name} ({territory.country})",
        )
        for territory in TERRITORIES
    ]
    untaxed = [
        EuTax(
            code=REVERSE_CHARGE,
            name="Reverse Charge",
            rate=Decimal(0),
            description="VAT is accounted for by the customer, a registered business in another country of the EU",
        ),
        EuTax(code=TAX_EXEMPT, name="Tax Exempt", rate=Decimal(0), description="Customer outside the EU"),
    ]
    return (*standard, *exceptions, *untaxed)


def next_rate_change(after: date) -> date | None:
    """The first day after `after` on which the rate of a country changes; None if none is known."""
    days = (since for rates in STANDARD_RATES.values() for since, _ in rates if since > after)
    return min(days, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateChange:
    """A tax with its new rate, and its rate until the day before."""

    tax: EuTax
    rate_before: Decimal


def rate_changes(on: date) -> tuple[RateChange, ...]:
    """The taxes whose rate changes on this day."""
    before = {tax.code: tax.rate for tax in eu_taxes(on - timedelta(days=1))}
    return tuple(
        RateChange(tax=tax, rate_before=before[tax.code]) for tax in eu_taxes(on) if tax.rate != before[tax.code]
    )


# Numbers

_SEPARATORS = re.compile(r"[\s.,:;/_-]+")
_NUMBERS: Mapping[str, str] = {
    "AT": r"U[0-9]{8}",
    "BE": r"[01][0-9]{9}",
    "BG": r"[0-9]{9,10}",
    "CY": r"[0-9]{8}[A-Z]",
    "CZ": r"[0-9]{8,10}",
    "DE": r"[1-9][0-9]{8}",
    "DK": r"[0-9]{8}",
    "EE": r"10[0-9]{7}",
    "EL": r"[0-9]{9}",
    "ES": r"[A-Z][0-9]{8}|[0-9]{8}[A-Z]|[A-Z][0-9]{7}[A-Z]",
    "FI": r"[0-9]{8}",
    "FR": r"[A-Z0-9]{2}[0-9]{9}",
    "HR": r"[0-9]{11}",
    "HU": r"[0-9]{8}",
    "IE": r"[0-9][A-Z0-9+*][0-9]{5}[A-Z]{1,2}",
    "IT": r"[0-9]{11}",
    "LT": r"[0-9]{9}|[0-9]{12}",
    "LU": r"[0-9]{8}",
    "LV": r"[0-9]{11}",
    "MT": r"[0-9]{8}",
    "NL": r"[0-9]{9}B[0-9]{2}",
    "PL": r"[0-9]{10}",
    "PT": r"[0-9]{9}",
    "RO": r"[1-9][0-9]{1,9}",
    "SE": r"[0-9]{10}01",
    "SI": r"[1-9][0-9]{7}",
    "SK": r"[1-9][0-9]{9}",
}
# The registry's prefix is the code of the country, except for Greece.
_COUNTRY_OF_PREFIX = {**{prefix: prefix for prefix in _NUMBERS if prefix != "EL"}, "EL": "GR"}


@dataclass(frozen=True, slots=True, kw_only=True)
class VatNumber:
    """A number of valid form. `prefix` is the registry's (`EL` for Greece), `digits` the rest."""

    prefix: str
    digits: str

    @property
    def country(self) -> str:
        """The country's ISO 3166 code."""
        return _COUNTRY_OF_PREFIX[self.prefix]


def parse_number(text: str) -> VatNumber | None:
    """The number in `text`, in the form of its country; None for any other text.

    Lower case, spaces and separators are accepted. This does not check whether the number exists.
    """
    plain = _SEPARATORS.sub("", text).upper()
    prefix, digits = plain[:2], plain[2:]
    pattern = _NUMBERS.get(prefix)
    if pattern is None or re.fullmatch(pattern, digits) is None:
        return None
    return VatNumber(prefix=prefix, digits=digits)


# Prefixes that are no country codes: Greece, Northern Ireland.
_PREFIXES = frozenset({*COUNTRIES, "EL", "XI"})


def is_vat_number(text: str | None) -> bool:
    """Whether a text begins like a VAT number, with the two letters of a country, and continues."""
    return text is not None and text[:2] in _PREFIXES and bool(text[2:].strip())


# The decision


def territory_at(country: str | None, zipcode: str | None) -> Territory | None:
    """The territory with a separate rate at a postcode of `country`."""
    plain = re.sub(r"\s+", "", zipcode or "")
    return next(
        (
            territory
            for territory in TERRITORIES
            if territory.country == country and re.search(territory.postcode, plain) is not None
        ),
        None,
    )


def code_by_country(country: str | None, entity_country: str) -> str:
    """The tax of a customer who is no business: the seller's if the country is unknown, none outside the EU."""
    if not country:
        return standard_code(entity_country)
    return standard_code(country) if country in STANDARD_RATES else TAX_EXEMPT


def code_at_once(*, country: str | None, zipcode: str | None, number: str | None, entity_country: str) -> str | None:
    """The code of the tax of a customer with this address and VAT number; None if the number decides.

    Countries are codes in capitals; `entity_country` is the seller's, in the EU.
    """
    territory = territory_at(country, zipcode)
    if territory is not None and _counts(territory, number):
        return territory.code
    if number is not None and number.strip():
        return None
    return code_by_country(country, entity_country)


def _counts(territory: Territory, number: str | None) -> bool:
    if territory.country not in _TERRITORIES_OF_BUSINESSES:
        return True
    return parse_number(number or "") is not None


def with_code(codes: Iterable[str], code: str) -> tuple[str, ...]:
    """`codes` with `code` added, each once."""
    return tuple(dict.fromkeys((*codes, code)))


def is_decided_again(*, is_new: bool, moved: bool, differs: bool, codes: Iterable[str]) -> bool:
    """Whether the tax of a customer of an entity that manages EU taxes is to be decided (again).

    True for a new customer, one that `moved` to the entity, one whose country, zip code or number `differs`, and one
    without an EU tax among its `codes`.
    """
    return is_new or moved or differs or not any(is_eu_code(code) for code in codes)


# The check of a number


class RegistryError(StrEnum):
    """Why the registry did not answer."""

    RATE_LIMIT = "rate_limit"
    TIMEOUT = "timeout"
    BLOCKED = "blocked"
    INVALID_REQUESTER = "invalid_requester"
    SERVICE_UNAVAILABLE = "service_unavailable"
    MEMBER_STATE_UNAVAILABLE = "member_state_unavailable"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The registry knows the number. `country_code` is its prefix there, `details` is other data from the registry."""

    country_code: str
    vat_number: str
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRegistered:
    """The number is not valid: it is malformed, unknown to the registry, or (`reason`) cannot be checked at all."""

    valid_format: bool = True
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """No answer; to be retried later."""

    kind: RegistryError
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VatCheck:
    """The pending check of a customer's number. `attempts` counts those without an answer; the last error is kept as
    its kind and in the registry's words.
    """

    id: str
    number: str
    started_at: datetime
    attempts: int = 0
    last_error: str | None = None
    last_message: str | None = None

    def unanswered(self, answer: Unavailable) -> VatCheck:
        """The check after one more attempt without an answer."""
        return replace(self, attempts=self.attempts + 1, last_error=answer.kind.value, last_message=answer.message)


def question_of(text: str, *, registry: bool) -> VatNumber | NotRegistered:
    """The number to look up in the registry; or the result, if the number is malformed or there is no `registry`."""
    number = parse_number(text)
    if number is None:
        return NotRegistered(valid_format=False)
    return number if registry else NotRegistered(reason="there is no VAT registry to ask")


def code_after_check(
    answer: Registered | NotRegistered, *, country: str | None, zipcode: str | None, entity_country: str
) -> str:
    """The code of the tax of a customer whose number has been checked; the number's country takes precedence over
    `country`.
    """
    if isinstance(answer, NotRegistered):
        return code_by_country(country, entity_country)
    registered_in = _COUNTRY_OF_PREFIX.get(answer.country_code, answer.country_code)
    if registered_in != entity_country:
        return REVERSE_CHARGE
    territory = territory_at(registered_in, zipcode)
    return standard_code(entity_country) if territory is None else territory.code


_DELAYS_IN_MINUTES: Sequence[int] = (5, 5, 10, 20, 40)


def retry_delay(attempts: int) -> timedelta:
    """How long to wait after `attempts` attempts without an answer (at least one); an hour from the sixth on."""
    if attempts > len(_DELAYS_IN_MINUTES):
        return timedelta(hours=1)
    return timedelta(minutes=_DELAYS_IN_MINUTES[attempts - 1])
