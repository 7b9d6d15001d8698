"""Connections to payment providers, what is shown of them, and amounts in each provider's own form."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from usagebill.core.currencies import CURRENCIES
from usagebill.core.payment_providers import (
    KINDS,
    PaymentConnection,
    UnsupportedAmount,
    charge_status,
    connection_errors,
    from_major_units,
    from_minor_units,
    major_units,
    minor_units,
    redirect_url,
)
from usagebill.core.statuses import ChargeStatus
from usagebill.process.json_text import encode_json, parse_json

_NOW = datetime(2024, 3, 5, tzinfo=UTC)
_STRIPE = PaymentConnection(
    id="1",
    organization_id="o",
    kind="stripe",
    code="main",
    name="Main",
    created_at=_NOW,
    updated_at=_NOW,
    credentials={"secret_key": "sk_live_0123456789abcdef"},
)


def test_a_connection_with_what_it_needs_is_sound() -> None:
    assert connection_errors(_STRIPE) == {}


@pytest.mark.parametrize(
    ("changes", "field", "code"),
    [
        ({"kind": "paypal"}, "kind", "value_is_invalid"),
        ({"code": ""}, "code", "value_is_mandatory"),
        ({"name": ""}, "name", "value_is_mandatory"),
        ({"credentials": {}}, "secret_key", "value_is_mandatory"),
        ({"credentials": {"secret_key": "sk\r\nX: y"}}, "secret_key", "value_is_invalid"),
        ({"credentials": {"secret_key": "sk", "hmac_key": "00"}}, "hmac_key", "value_is_invalid"),
        ({"url": "https://name:word@host"}, "url", "url_is_invalid"),
        ({"success_redirect_url": "ftp://shop.example"}, "success_redirect_url", "url_invalid"),
        ({"success_redirect_url": "https://"}, "success_redirect_url", "url_invalid"),
        ({"success_redirect_url": f"https://shop.example/{'x' * 1024}"}, "success_redirect_url", "url_invalid"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, object], field: str, code: str) -> None:
    assert connection_errors(replace(_STRIPE, **changes)) == {field: [code]}  # type: ignore[arg-type]


def test_a_secret_is_nowhere_in_what_is_shown() -> None:
    assert "0123456789" not in f"{_STRIPE!r} {_STRIPE.secret('secret_key')!r} {_STRIPE.shown_credentials()}"
    assert _STRIPE.shown_credentials() == {"secret_key": "…cdef"}
    assert replace(_STRIPE, credentials={"secret_key": "short"}).shown_credentials() == {"secret_key": "…"}


def test_customers_come_back_to_the_connection_s_address_else_to_the_provider_s() -> None:
    assert redirect_url(_STRIPE) == "https://stripe.com/"
    assert redirect_url(replace(_STRIPE, success_redirect_url="https://shop.example")) == "https://shop.example"


@pytest.mark.parametrize(
    ("kind", "cents", "currency", "wire"),
    [
        ("stripe", 1050, "EUR", 1050),
        ("stripe", 500, "JPY", 500),
        ("stripe", 5120, "KWD", 5120),
        ("stripe", 500, "ISK", 50000),
        ("stripe", 500, "UGX", 50000),
        ("stripe", 1200, "MGA", 12),
        ("adyen", 500, "CLP", 50000),
        ("adyen", 12300, "IDR", 123),
    ],
)
def test_minor_units_are_the_provider_s(kind: str, cents: int, currency: str, wire: int) -> None:
    assert minor_units(kind, cents, currency) == wire
    assert from_minor_units(kind, wire, currency) == cents


@pytest.mark.parametrize(
    ("kind", "cents", "currency", "code"),
    [
        ("stripe", 5124, "KWD", "amount_not_representable"),
        ("adyen", 12345, "IDR", "amount_not_representable"),
        ("gocardless", 1000, "JPY", "currency_not_supported"),
        ("stripe", 1000, "XXX", "currency_not_supported"),
        ("stripe", 1250, "MGA", "amount_not_representable"),
        ("adyen", 10000, "CLF", "currency_not_supported"),
    ],
)
def test_what_a_provider_cannot_take_is_said(kind: str, cents: int, currency: str, code: str) -> None:
    with pytest.raises(UnsupportedAmount) as refused:
        minor_units(kind, cents, currency)
    assert refused.value.code == code


@given(st.sampled_from(sorted(KINDS)), st.integers(1, 10**15), st.sampled_from(sorted(CURRENCIES)))
def test_an_amount_is_sent_exactly_or_not_at_all(kind: str, cents: int, currency: str) -> None:
    try:
        wire = minor_units(kind, cents, currency)
    except UnsupportedAmount:
        return
    assert from_minor_units(kind, wire, currency) == cents


@given(st.sampled_from(sorted(KINDS)), st.integers(0, 10**15), st.sampled_from(sorted(CURRENCIES)))
def test_major_units_are_exact(kind: str, cents: int, currency: str) -> None:
    try:
        wire = major_units(kind, cents, currency)
    except UnsupportedAmount:
        return
    assert isinstance(wire, Decimal)
    text = encode_json({"amount": wire})
    assert from_major_units(kind, parse_json(text)["amount"], currency) == cents
    assert from_major_units(kind, f"{wire:f}", currency) == cents


@pytest.mark.parametrize("amount", ["10.505", "ten", "", None, True, [], "1e-99999", Decimal("0.001"), "NaN"])
def test_what_is_no_amount_of_the_currency_is_refused(amount: object) -> None:
    with pytest.raises(UnsupportedAmount):
        from_major_units("cashfree", amount, "INR")


@pytest.mark.parametrize(
    ("kind", "word", "status"),
    [
        ("stripe", "requires_action", ChargeStatus.PROCESSING),
        ("gocardless", "confirmed", ChargeStatus.PROCESSING),
        ("gocardless", "paid_out", ChargeStatus.SUCCEEDED),
        ("adyen", "Refused", ChargeStatus.FAILED),
        ("cashfree", "PAID", ChargeStatus.SUCCEEDED),
        ("flutterwave", "cancelled", ChargeStatus.FAILED),
        ("moneyhash", "UNPROCESSED", ChargeStatus.PROCESSING),
        ("stripe", "failed", ChargeStatus.FAILED),
        ("stripe", "foo-bar", None),
    ],
)
def test_the_provider_s_words_are_understood(kind: str, word: str, status: ChargeStatus | None) -> None:
    assert charge_status(kind, word) == status
