"""Currencies: every ISO 4217 code that the interface accepts, with its number of minor-unit decimals."""

from __future__ import annotations

from decimal import Decimal

from usagebill.core.numbers import CONTEXT, divide, multiply, round_cents

_TWO_DECIMALS = """
AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BWP BYN BZD CAD CDF CHF CNY COP CRC
CVE CZK DKK DOP DZD EGP ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HRK HTG HUF IDR ILS INR JMD KES KGS
KHR KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRO MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD
PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SEK SGD SHP SLL SOS SRD STD SZL THB TJS TOP TRY TTD TWD TZS
UAH USD UYU UZS WST XCD YER ZAR ZMW IRR
"""
_NO_DECIMALS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
_THREE_DECIMALS = "BHD JOD KWD"
_FOUR_DECIMALS = "CLF"

# The 138 codes of the API, and BHD, IRR, JOD and KWD, which customers may also have. MGA and MRO divide into five
# parts; ISO 4217 publishes two decimals for both, and so do we.
CURRENCIES: dict[str, int] = {
    **dict.fromkeys(_TWO_DECIMALS.split(), 2),
    **dict.fromkeys(_NO_DECIMALS.split(), 0),
    **dict.fromkeys(_THREE_DECIMALS.split(), 3),
    **dict.fromkeys(_FOUR_DECIMALS.split(), 4),
}


_SUBUNITS = {code: Decimal(10**decimals) for code, decimals in CURRENCIES.items()}


def exponent(currency: str) -> int:
    """The number of decimals of the currency's major unit: 2 for EUR, 0 for JPY, 3 for KWD. KeyError if unknown."""
    return CURRENCIES[currency]


def subunits(currency: str) -> int:
    """The number of cents (smallest units) in one major unit: 100 for EUR, 1 for JPY, 1000 for KWD."""
    return int(_SUBUNITS[currency])


def cents_from_major(amount: Decimal, currency: str) -> Decimal:
    """An amount in major units as unrounded cents."""
    return CONTEXT.multiply(amount, _SUBUNITS[currency])


def major_from_cents(cents: Decimal | int, currency: str) -> Decimal:
    """An amount in (fractions of) cents in major units, exactly."""
    return divide(CONTEXT.create_decimal(cents), _SUBUNITS[currency])


def rounded_cents(amount: Decimal, currency: str) -> int:
    """An amount in major units as whole cents, half away from zero at the currency's minor unit."""
    return round_cents(multiply(amount, _SUBUNITS[currency]))
