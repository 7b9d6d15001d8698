"""From prices to fees: cents, pricing units, what is shown, and minimum amounts."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st
from tests.money import percent, share

from usagebill.core.pricing import Price, parse_properties, price
from usagebill.core.pricing.fees import advance_fee_amounts, fee_amounts, true_up, true_up_fee_amounts
from usagebill.core.usage import Usage

D = Decimal
AMOUNTS = st.decimals(min_value=0, max_value=10**9, places=6, allow_nan=False)
RATES = st.decimals(min_value="0.0001", max_value=1000, places=4)


def of(amount: str, divisor: str = "1") -> Price:
    return Price(amount=D(amount), divisor=D(divisor))


class TestArrears:
    @pytest.mark.parametrize(
        ("amount", "currency", "cents"),
        [
            ("51.2345", "EUR", 5123),
            ("0.005", "EUR", 1),
            ("0.00499999999999", "EUR", 0),
            ("12.5", "JPY", 13),
            ("12.4999", "JPY", 12),
            ("1.2345", "KWD", 1235),
            ("1.23455", "CLF", 12346),
        ],
    )
    def test_cents_are_rounded_half_away_from_zero_in_the_minor_unit(
        self, amount: str, currency: str, cents: int
    ) -> None:
        assert fee_amounts(of(amount), Usage(units=D(1)), currency).amount_cents == cents

    def test_the_unit_amount_is_cut_while_the_amount_is_rounded(self) -> None:
        usage = Usage(units=D("3.225806"), full_units=D(10))
        standard = parse_properties("standard", {"amount": "310"}, subunits=100)
        fee = fee_amounts(price("standard", standard, usage), usage, "EUR")
        # 310.00 x 3.225806 is 999.99986: rounded for the fee, cut to 99.99 for each of ten units.
        assert [fee.amount_cents, fee.unit_amount_cents, fee.units] == [1000_00, 99_99, 10]
        assert fee.precise_amount_cents == D("99999.986")
        assert fee.precise_unit_amount == D("99.999986")

    def test_precise_amounts_have_fifteen_decimals(self) -> None:
        fee = fee_amounts(of("0.0123456789012345678", "3"), Usage(units=D(3)), "EUR")
        assert fee.precise_amount_cents == D("1.234567890123457")
        assert fee.precise_unit_amount == D("0.004115226300412")

    def test_a_negative_level_gives_a_fee_of_nothing(self) -> None:
        flat_range = {"from_value": 0, "to_value": None, "per_unit_amount": "0.01", "flat_amount": "0.01"}
        graduated = parse_properties("graduated", {"graduated_ranges": [flat_range]}, subunits=100)
        usage = Usage(units=D("-5.16129"), events_count=1, total_aggregated_units=D(-10))
        fee = fee_amounts(price("graduated", graduated, usage), usage, "EUR")
        assert [fee.units, fee.amount_cents, fee.unit_amount_cents, fee.precise_unit_amount] == [0, 0, 0, 0]
        assert fee.total_aggregated_units == 0
        assert fee.events_count == 1

    def test_current_usage_may_show_other_units_than_it_prices(self) -> None:
        usage = Usage(units=D(10), events_count=3)
        fee = fee_amounts(of("100", "10"), usage, "EUR", shown_units=D(5))
        assert [fee.units, fee.total_aggregated_units, fee.amount_cents] == [5, 5, 10000]

    def test_weighted_sums_show_their_level_as_the_total(self) -> None:
        usage = Usage(units=D("2177.4193548387096774"), total_aggregated_units=D(2500), events_count=1)
        fee = fee_amounts(of("2177.4193548387096774", "2177.4193548387096774"), usage, "EUR")
        assert [fee.amount_cents, fee.total_aggregated_units] == [share(2500_00, 27, 31), 2500]

    def test_empty_fees(self) -> None:
        assert fee_amounts(of("0"), Usage(units=D(0)), "EUR").is_empty
        assert not fee_amounts(of("0"), Usage(units=D(0), events_count=1), "EUR").is_empty
        assert not fee_amounts(of("0"), Usage(units=D(1)), "EUR").is_empty
        assert not fee_amounts(of("2", "0"), Usage(units=D(0)), "EUR").is_empty


class TestPricingUnits:
    def test_the_currency_follows_the_rounded_pricing_unit(self) -> None:
        fee = fee_amounts(of("300", "300"), Usage(units=D(300)), "EUR", conversion_rate=D("0.5"))
        assert fee.amount_cents == 300_00 // 2
        assert fee.pricing_unit is not None
        assert fee.pricing_unit.amount_cents == 30000
        assert fee.pricing_unit.conversion_rate == D("0.5")

    def test_pricing_unit_cents_are_rounded_and_unit_cents_cut(self) -> None:
        amount, unit_amount = D("10655.243249"), D("5.5423123")
        fee = fee_amounts(
            Price(amount=amount, divisor=amount / unit_amount), Usage(units=D(1922)), "USD", conversion_rate=D(1)
        )
        assert fee.pricing_unit is not None
        assert fee.pricing_unit.amount_cents == 1065524
        assert fee.pricing_unit.precise_amount_cents == D("1065524.3249")
        assert fee.pricing_unit.unit_amount_cents == 554

    def test_conversion_to_the_currency(self) -> None:
        whole = fee_amounts(of("10655.24"), Usage(units=D(1)), "USD", conversion_rate=D("0.0075"))
        assert whole.amount_cents == percent(10655_24, "0.75")
        assert whole.precise_amount_cents == D("7991.43")
        amounts = fee_amounts(of("5.5"), Usage(units=D(1)), "USD", conversion_rate=D("0.0075"))
        assert amounts.unit_amount_cents == 4
        assert amounts.precise_unit_amount == D("0.04125")

    @pytest.mark.parametrize(("currency", "cents"), [("EUR", 1500), ("JPY", 15), ("KWD", 15000)])
    def test_in_advance_major_units_are_converted(self, currency: str, cents: int) -> None:
        fee = advance_fee_amounts(D(30), D(10), currency, conversion_rate=D("0.5"))
        assert fee.amount_cents == cents
        assert fee.pricing_unit is not None
        assert (fee.pricing_unit.amount_cents, fee.pricing_unit.unit_amount_cents) == (30_00, 30_00 // 10)

    @given(amount=AMOUNTS, units=AMOUNTS, rate=RATES, currency=st.sampled_from(["EUR", "JPY", "KWD"]))
    def test_amounts_agree_with_their_pricing_unit(
        self, amount: Decimal, units: Decimal, rate: Decimal, currency: str
    ) -> None:
        usage = Usage(units=units)
        fee = fee_amounts(Price(amount=amount, divisor=units), usage, currency, conversion_rate=rate)
        assert fee.pricing_unit is not None
        assert abs(fee.amount_cents - fee.precise_amount_cents) <= D("0.5")
        subunits = {"EUR": 100, "JPY": 1, "KWD": 1000}[currency]
        assert abs(fee.precise_amount_cents - fee.pricing_unit.amount_cents * rate * subunits / 100) < D("1e-14")
        assert fee.unit_amount_cents <= fee.precise_unit_amount * subunits < fee.unit_amount_cents + 1

    @given(amount=AMOUNTS, units=AMOUNTS)
    def test_a_rate_of_one_changes_nothing_in_cents(self, amount: Decimal, units: Decimal) -> None:
        usage = Usage(units=units)
        plain = fee_amounts(Price(amount=amount, divisor=units), usage, "EUR")
        converted = fee_amounts(Price(amount=amount, divisor=units), usage, "EUR", conversion_rate=D(1))
        assert plain.amount_cents == converted.amount_cents
        assert plain.unit_amount_cents == converted.unit_amount_cents


class TestAdvance:
    def test_the_unit_amount_shares_the_rounded_amount(self) -> None:
        fee = advance_fee_amounts(D("0.075"), D(3), "EUR")
        assert (fee.amount_cents, fee.precise_amount_cents, fee.events_count) == (8, D("7.5"), 1)
        assert fee.precise_unit_amount == D("0.026666666666667")
        assert fee.unit_amount_cents == 2
        assert fee.units == fee.total_aggregated_units == 3

    def test_units_without_an_amount(self) -> None:
        fee = advance_fee_amounts(D("0.004"), D(1), "EUR")
        assert [fee.amount_cents, fee.unit_amount_cents, fee.precise_unit_amount] == [0, 0, 0]

    def test_an_amount_without_units(self) -> None:
        fee = advance_fee_amounts(D(1), D(0), "EUR")
        assert [fee.amount_cents, fee.unit_amount_cents, fee.precise_unit_amount] == [100, 0, 0]


class TestTrueUp:
    @pytest.mark.parametrize(
        ("minimum", "days", "duration", "used", "cents"),
        [
            (1000, 31, 31, 700, 300),
            (1000, 15, 31, 200, 284),
            (1000, 25, 28, 800, 93),
            (10000, 25, 28, 7000, 1929),
        ],
    )
    def test_the_missing_part_of_the_minimum(
        self, minimum: int, days: int, duration: int, used: int, cents: int
    ) -> None:
        missing = true_up(minimum, days, duration, used, D(used))
        assert missing is not None
        assert missing.amount_cents == cents

    def test_precise_cents_are_exact(self) -> None:
        missing = true_up(1000, 15, 31, 200, D(200))
        assert missing is not None
        assert missing.precise_amount_cents == D("283.870967741935484")

    def test_nothing_is_missing_once_the_minimum_is_reached(self) -> None:
        assert true_up(1000, 31, 31, 1000, D(1000)) is None
        assert true_up(1000, 0, 31, 0, D(0)) is None
        assert true_up(0, 31, 31, 0, D(0)) is None

    def test_the_fee(self) -> None:
        missing = true_up(1000, 31, 31, 700, D(700))
        assert missing is not None
        fee = true_up_fee_amounts(missing, "EUR")
        assert [fee.amount_cents, fee.unit_amount_cents, fee.precise_unit_amount] == [1000 - 700, 1000 - 700, 3]
        assert [fee.units, fee.total_aggregated_units, fee.events_count] == [1, 1, 0]
        assert fee.pricing_unit is None

    def test_a_minimum_in_a_pricing_unit(self) -> None:
        missing = true_up(1000, 31, 31, 700, D(700))
        assert missing is not None
        fee = true_up_fee_amounts(missing, "EUR", conversion_rate=D("0.25"))
        assert fee.amount_cents == 75
        assert fee.pricing_unit is not None
        assert fee.pricing_unit.amount_cents == 1000 - 700

    @given(
        minimum=st.integers(0, 10**9),
        period=st.integers(1, 366),
        days=st.integers(0, 366),
        used=st.integers(0, 10**9),
    )
    def test_usage_and_true_up_make_the_minimum(self, minimum: int, period: int, days: int, used: int) -> None:
        missing = true_up(minimum, days, period, used, D(used))
        due = used + (0 if missing is None else missing.amount_cents)
        assert due * period * 2 >= minimum * days * 2 - period
        if missing is not None:
            assert abs(due * period - minimum * days) * 2 <= period
