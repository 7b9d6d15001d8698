"""Currencies and their minor units."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from usagebill.core.currencies import (
    CURRENCIES,
    cents_from_major,
    exponent,
    major_from_cents,
    rounded_cents,
    subunits,
)

D = Decimal
CODES = """
AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BIF BMD BND BOB BRL BSD BWP BYN BZD CAD CDF CHF CLF CLP CNY
COP CRC CVE CZK DJF DKK DOP DZD EGP ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HRK HTG HUF IDR ILS INR
ISK JMD JPY KES KGS KHR KMF KRW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRO MUR MVR MWK MXN MYR MZN
NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SEK SGD SHP SLL SOS SRD STD SZL
THB TJS TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VND VUV WST XAF XCD XOF XPF YER ZAR ZMW
"""
ACCEPTED = set(CODES.split())
DECIMALS = {
    "BIF": 0,
    "CLP": 0,
    "DJF": 0,
    "GNF": 0,
    "ISK": 0,
    "JPY": 0,
    "KMF": 0,
    "KRW": 0,
    "PYG": 0,
    "RWF": 0,
    "UGX": 0,
    "VND": 0,
    "VUV": 0,
    "XAF": 0,
    "XOF": 0,
    "XPF": 0,
    "CLF": 4,
}


def test_every_currency_of_the_interface_has_its_minor_unit() -> None:
    assert len(ACCEPTED) == 138
    assert {code: exponent(code) for code in ACCEPTED} == {code: DECIMALS.get(code, 2) for code in ACCEPTED}


def test_customers_may_have_four_more() -> None:
    assert set(CURRENCIES) - ACCEPTED == {"BHD", "IRR", "JOD", "KWD"}
    assert [exponent(code) for code in ("BHD", "JOD", "KWD", "IRR")] == [3, 3, 3, 2]


@pytest.mark.parametrize(("currency", "parts"), [("EUR", 100), ("JPY", 1), ("KWD", 1000), ("CLF", 10000)])
def test_subunits(currency: str, parts: int) -> None:
    assert subunits(currency) == parts


@pytest.mark.parametrize(
    ("amount", "currency", "cents"),
    [("0.005", "EUR", 1), ("-0.005", "EUR", -1), ("1.5", "JPY", 2), ("0.0005", "KWD", 1), ("99.994999", "USD", 9999)],
)
def test_major_units_are_rounded_half_away_from_zero(amount: str, currency: str, cents: int) -> None:
    assert rounded_cents(D(amount), currency) == cents


def test_an_unknown_currency_is_an_error() -> None:
    with pytest.raises(KeyError):
        exponent("XXX")


@given(cents=st.integers(-(10**15), 10**15), currency=st.sampled_from(sorted(CURRENCIES)))
def test_cents_survive_the_way_to_major_units_and_back(cents: int, currency: str) -> None:
    major = major_from_cents(cents, currency)
    assert cents_from_major(major, currency) == cents
    assert rounded_cents(major, currency) == cents
