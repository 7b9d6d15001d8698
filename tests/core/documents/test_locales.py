"""How each language writes dates, amounts, units and rates."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from babel import Locale
from babel.core import get_cldr_version
from babel.dates import format_date
from babel.numbers import format_currency, format_decimal, format_percent, get_currency_precision
from hypothesis import given, strategies as st

from usagebill.core.contacts import LOCALES
from usagebill.core.currencies import CURRENCIES, exponent, major_from_cents
from usagebill.core.documents.locales import (
    FORMATS,
    REFERENCE,
    credits_text,
    date_text,
    money_text,
    price_text,
    rate_text,
    units_text,
)


@pytest.mark.parametrize(
    ("locale", "day", "symbol", "code"),
    [
        ("en", "Jan 05, 2024", "€1,234.50", "CHF 1,234.50"),
        ("de", "05. Jan. 2024", "€1.234,50", "CHF 1.234,50"),
        ("es", "5 de ene. de 2024", "€1,234.50", "CHF 1,234.50"),
        ("fr", "5 janv. 2024", "1 234,50 €", "1 234,50 CHF"),
        ("it", "05 gen 2024", "1.234,50 €", "1.234,50 CHF"),
        ("nb", "05. jan. 2024", "€1 234,50", "CHF 1 234,50"),
        ("pt-BR", "05/01/2024", "€ 1.234,50", "CHF 1.234,50"),
        ("sv", "05 jan. 2024", "1 234,50 €", "1 234,50 CHF"),
        ("zh-TW", "2024年1月5日", "€1,234.50", "CHF 1,234.50"),
    ],
)
def test_dates_and_amounts_in_the_forms_of_the_reference(locale: str, day: str, symbol: str, code: str) -> None:
    assert date_text(date(2024, 1, 5), locale + REFERENCE) == day
    assert money_text(123_450, "EUR", locale + REFERENCE) == symbol
    assert money_text(123_450, "CHF", locale + REFERENCE) == code


@pytest.mark.parametrize(
    ("locale", "day", "money", "rate"),
    [
        ("en", "Jan 5, 2024", "-€1,234.50", "5.5%"),
        ("de", "05.01.2024", "-1.234,50 €", "5,5 %"),
        ("es", "5 ene 2024", "-1.234,50 €", "5,5 %"),
        ("fr", "5 janv. 2024", "-1\u202f234,50 €", "5,5 %"),
        ("it", "5 gen 2024", "-1.234,50 €", "5,5%"),
        ("nb", "5. jan. 2024", "−1 234,50 €", "5,5 %"),
        ("pt-BR", "5 de jan. de 2024", "-€ 1.234,50", "5,5%"),
        ("sv", "5 jan. 2024", "−1 234,50 €", "5,5 %"),
        ("zh-TW", "2024年1月5日", "-€1,234.50", "5.5%"),
    ],
)
def test_dates_amounts_and_rates_as_readers_expect_them(locale: str, day: str, money: str, rate: str) -> None:
    assert date_text(date(2024, 1, 5), locale) == day
    assert money_text(-123_450, "EUR", locale).replace("\u00a0", " ") == money
    assert rate_text(Decimal("5.5"), locale).replace("\u00a0", " ") == rate


@pytest.mark.parametrize("locale", LOCALES)
def test_locales_are_those_of_cldr(locale: str) -> None:
    if str(get_cldr_version()) != "47":
        pytest.skip(f"Babel has CLDR {get_cldr_version()}; the tables here are those of CLDR 47")
    known = Locale.parse("zh_Hant_TW" if locale == "zh-TW" else locale.replace("-", "_"))
    for month in range(1, 13):
        assert date_text(date(2024, month, 5), locale) == format_date(date(2024, month, 5), "medium", known)
    for currency in CURRENCIES:
        if exponent(currency) == get_currency_precision(currency):
            for cents in (0, 5, 123_456_789, -123_456):
                expected = format_currency(major_from_cents(cents, currency), currency, locale=known)
                # CLDR asks for more than Babel does: a minus of the locale, and codes apart from the digits after them.
                assert _tight(money_text(cents, currency, locale)) == _tight(expected)
    for rate in ("0", "20", "5.5", "-19.25"):
        expected = format_percent(Decimal(rate) / 100, locale=known, decimal_quantization=False)
        assert rate_text(Decimal(rate), locale).replace("−", "-") == expected.replace("\u202f%", "\u00a0%")
    assert units_text(Decimal("1234567.891"), locale) == format_decimal(Decimal("1234567.891"), locale=known)


def _tight(text: str) -> str:
    return text.replace("\u00a0", "").replace("−", "-")


@pytest.mark.parametrize("locale", LOCALES)
def test_no_number_can_break_at_a_blank_of_its_own(locale: str) -> None:
    texts = (
        money_text(-123_456_789, "CHF", locale),
        units_text(Decimal(12345678), locale),
        rate_text(Decimal(5), locale),
    )
    assert not any(" " in text for text in texts)


def test_every_locale_that_customers_can_choose_has_a_format() -> None:
    assert set(FORMATS) == {*LOCALES, *(locale + REFERENCE for locale in LOCALES)}
    for number_format in FORMATS.values():
        assert len(number_format.months) == len(set(number_format.months)) in (0, 12)


@pytest.mark.parametrize(
    ("cents", "currency", "text"),
    [
        (123_450, "USD", "$1,234.50"),
        (123_450, "GBP", "£1,234.50"),
        (1_234, "JPY", "¥1,234"),
        (123_450, "BRL", "BRL 1,234.50"),
        (1_234_500, "BHD", "BHD 1,234.500"),
        (-99, "USD", "-$0.99"),
        (0, "EUR", "€0.00"),
    ],
)
def test_amounts_have_the_decimals_and_the_sign_of_their_currency(cents: int, currency: str, text: str) -> None:
    assert money_text(cents, currency, "en" + REFERENCE) == text


def test_real_is_no_dollar_in_brazil() -> None:
    assert money_text(123_450, "BRL", "pt-BR" + REFERENCE) == "BRL 1.234,50"
    assert money_text(123_450, "BRL", "pt-BR") == "R$\u00a01.234,50"


@pytest.mark.parametrize(
    ("amount", "currency", "text"),
    [
        ("123.12345678", "USD", "$123.123457"),
        ("0.000000012345", "USD", "$0.000000012345"),
        ("0.100000012345", "USD", "$0.10"),
        ("0.100000012345", "BHD", "BHD 0.100"),
        ("0.123456789", "USD", "$0.123457"),
        ("0", "USD", "$0.00"),
        ("5", "JPY", "¥5"),
    ],
)
def test_prices_of_a_unit_keep_what_matters(amount: str, currency: str, text: str) -> None:
    assert price_text(Decimal(amount), currency, "en" + REFERENCE) == text


@pytest.mark.parametrize(
    ("units", "text"),
    [
        ("0", "0"),
        ("123", "123"),
        ("1000.0", "1,000"),
        ("123.456789", "123.456789"),
        ("123.0000456789", "123.000046"),
        ("123.000000000456789", "123"),
        ("-123.456789123", "-123.456789"),
        ("0.0000000009", "0.0000000009"),
        ("1E+3", "1,000"),
    ],
)
def test_units_have_six_decimals_without_idle_zeros(units: str, text: str) -> None:
    assert units_text(Decimal(units), "en") == text


def test_rates_and_credits() -> None:
    assert rate_text(Decimal("5.5"), "en") == "5.5%"
    assert rate_text(Decimal("20.0"), "fr" + REFERENCE) == "20%"
    assert rate_text(Decimal(10), "de" + REFERENCE, decimals=2) == "10,00%"
    assert credits_text(Decimal(12), "CR", "en") == "12.00 CR"
    assert credits_text(Decimal("-1234.5678"), "CR", "it") == "-1.234,5678 CR"


@given(
    cents=st.integers(-(10**20), 10**20),
    currency=st.sampled_from(sorted(CURRENCIES)),
    locale=st.sampled_from(sorted(FORMATS)),
)
def test_an_amount_can_be_read_back_to_the_cent(cents: int, currency: str, locale: str) -> None:
    number_format = FORMATS[locale]
    text = money_text(cents, currency, locale)
    digits = "".join(character for character in text if character.isdigit() or character == number_format.point)
    sign = -1 if text.startswith(number_format.minus) else 1
    whole, _, fraction = digits.partition(number_format.point)
    assert len(fraction) == exponent(currency)
    assert sign * int(whole + fraction) == cents
