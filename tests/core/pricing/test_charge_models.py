"""Each charge model on agreed numbers: what a price list costs, and how the fee explains it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from tests.money import share

from usagebill.core.pricing import Price, amount_details, parse_properties, price
from usagebill.core.usage import ProrationStep, Usage

D = Decimal


def ranges(*rows: tuple[float, float | None, str, str], rate: str = "per_unit_amount") -> list[dict[str, object]]:
    return [{"from_value": a, "to_value": b, rate: unit, "flat_amount": flat} for a, b, unit, flat in rows]


def priced(model: str, properties: Mapping[str, object], usage: Usage, subunits: int = 100) -> Price:
    return price(model, parse_properties(model, properties, subunits=subunits), usage)


def details(model: str, properties: Mapping[str, object], usage: Usage) -> Any:
    return amount_details(model, parse_properties(model, properties, subunits=100), usage)


def units(value: str, full: str | None = None) -> Usage:
    return Usage(units=D(value), full_units=None if full is None else D(full))


def decimals(*values: str) -> tuple[Decimal, ...]:
    return tuple(D(value) for value in values)


class TestStandard:
    def test_units_times_amount(self) -> None:
        assert priced("standard", {"amount": "0.02"}, units("150")).amount == D("3")

    def test_prorated_units_are_priced_and_full_units_share_the_amount(self) -> None:
        result = priced("standard", {"amount": "5.12345"}, units("10", full="100"))
        assert result.amount == D("51.2345")
        assert result.unit_amount == D("0.512345")

    def test_no_units_cost_nothing_for_one_unit(self) -> None:
        assert priced("standard", {"amount": "7"}, units("0")).unit_amount == 0

    def test_has_no_details(self) -> None:
        assert details("standard", {"amount": "7"}, units("3")) == {}


GRADUATED = {"graduated_ranges": ranges((0, 10, "10", "2"), (11, 20, "5", "3"), (21, None, "5", "3"))}
TOUCHING = {"graduated_ranges": ranges((0, 0.1, "10", "0"), (0.1, 1, "5", "0"), (1, None, "2", "0"))}


class TestGraduated:
    @pytest.mark.parametrize(
        ("quantity", "amount", "unit_amount"),
        [
            ("0", "2", "0"),
            ("1", "12", "12"),
            ("10", "102", "10.2"),
            ("11", "110", "10"),
            ("12", "115", "9.58333"),
            ("21", "163", "7.7619"),
            ("10.5", "107.5", "10.2381"),
        ],
    )
    def test_each_range_prices_its_own_units(self, quantity: str, amount: str, unit_amount: str) -> None:
        result = priced("graduated", GRADUATED, units(quantity))
        assert result.amount == D(amount)
        assert abs(result.unit_amount - D(unit_amount)) < D("0.00001")

    def test_ranges_that_touch(self) -> None:
        assert priced("graduated", TOUCHING, units("0.5")).amount == D("3.0")
        assert [entry["units"] for entry in details("graduated", TOUCHING, units("0.5"))["graduated_ranges"]] == [
            "0.1",
            "0.4",
        ]

    def test_a_list_that_mixes_both_styles_prices_each_unit_once(self) -> None:
        mixed = {"graduated_ranges": ranges((0, 10, "1", "0"), (10, 20, "1", "0"), (21, None, "1", "0"))}
        assert priced("graduated", mixed, units("25")).amount == 25

    @pytest.mark.parametrize("first", [0, 1])
    def test_the_first_range_may_start_at_zero_or_one(self, first: int) -> None:
        properties = {"graduated_ranges": ranges((first, 10, "2", "0"), (11, None, "1", "0"))}
        assert priced("graduated", properties, units("12")).amount == 22

    def test_negative_units_stay_in_the_first_range(self) -> None:
        assert priced("graduated", GRADUATED, units("-3")).amount == -28

    def test_details_list_the_ranges_reached(self) -> None:
        assert details("graduated", GRADUATED, units("12")) == {
            "graduated_ranges": [
                {
                    "from_value": 0,
                    "to_value": 10,
                    "units": "10.0",
                    "per_unit_amount": "10.0",
                    "per_unit_total_amount": "100.0",
                    "flat_unit_amount": "2.0",
                    "total_with_flat_amount": "102.0",
                },
                {
                    "from_value": 11,
                    "to_value": 20,
                    "units": "2.0",
                    "per_unit_amount": "5.0",
                    "per_unit_total_amount": "10.0",
                    "flat_unit_amount": "3.0",
                    "total_with_flat_amount": "13.0",
                },
            ]
        }

    def test_details_of_nothing_used_show_the_flat_amount_alone(self) -> None:
        (entry,) = details("graduated", GRADUATED, units("0"))["graduated_ranges"]
        assert entry["units"] == entry["per_unit_amount"] == entry["per_unit_total_amount"] == "0.0"
        assert entry["flat_unit_amount"] == entry["total_with_flat_amount"] == "2.0"

    def test_details_show_bounds_as_numbers(self) -> None:
        first, second = details("graduated", TOUCHING, units("0.5"))["graduated_ranges"]
        assert (first["from_value"], first["to_value"]) == (0, D("0.1"))
        assert (second["from_value"], second["to_value"]) == (D("0.1"), 1)
        assert isinstance(first["from_value"], int)

    def test_units_below_zero_after_a_refund(self) -> None:
        properties = {"graduated_ranges": ranges((0, 2, "0", "0"), (3, None, "150", "0"))}
        assert priced("graduated", properties, units("1")).amount == 0


T2 = {"graduated_ranges": ranges((0, 5, "10", "100"), (6, None, "5", "50"))}
T3 = {"graduated_ranges": ranges((0, 5, "10", "100"), (6, 15, "5", "50"), (16, None, "2", "0"))}
SEATS = {"graduated_ranges": ranges((0, 1, "10", "100"), (2, None, "5", "50"))}


def prorated(full: tuple[str, ...], share: tuple[str, ...]) -> Usage:
    steps = tuple(ProrationStep(full=D(a), prorated=D(b)) for a, b in zip(full, share, strict=True))
    return Usage(
        units=sum((step.prorated for step in steps), D(0)),
        full_units=sum((step.full for step in steps), D(0)),
        stretches=steps,
    )


class TestProratedGraduated:
    @pytest.mark.parametrize(
        ("full", "share", "properties", "amount"),
        [
            (("5", "5", "10", "-6"), ("3.5", "2.66667", "2", "-2.2"), T2, "197.33"),
            (("2", "5", "10", "-6"), ("1.4", "2.66667", "2", "-2.2"), T2, "184.33"),
            (("1", "4", "1", "-5", "-1"), ("0.7097", "1.54839", "0.2258", "-0.80645", "-0.0645"), T2, "165.81"),
            (("5", "-100"), ("2", "-33.33"), T2, "0"),
            (("75",), ("75",), T3, "370"),
        ],
    )
    def test_full_units_choose_the_range_and_prorated_units_are_priced(
        self, full: tuple[str, ...], share: tuple[str, ...], properties: Mapping[str, object], amount: str
    ) -> None:
        assert round(priced("graduated", properties, prorated(full, share)).amount, 2) == D(amount)

    def test_the_unit_amount_is_shared_by_the_full_units(self) -> None:
        assert round(priced("graduated", T3, prorated(("75",), ("75",))).unit_amount, 5) == D("4.93333")
        nothing_left = prorated(("1", "4", "-5"), ("0.5", "1", "-0.5"))
        assert priced("graduated", T2, nothing_left).unit_amount == 0

    def test_a_month_of_changes(self) -> None:
        """September, events of 2, 5, -6, 10, 4 and 60: the amount in cents after each of them, and in October."""
        changes = [("2", 21), ("5", 15), ("-6", 11), ("10", 6), ("4", 5), ("60", 1)]
        steps = [ProrationStep(full=D(value), prorated=D(value) * days / 30) for value, days in changes]
        amounts = []
        for count in range(len(steps) + 1):
            so_far = tuple(steps[:count])
            usage = Usage(units=sum((step.prorated for step in so_far), D(0)), stretches=so_far)
            amounts.append(round(priced("graduated", T3, usage).amount * 100))
        # The flat amount of the first range, two units for 21 days, then the second range with its flat amount; a
        # removal gives back the units of the top, and no flat amount.
        first = 100_00 + share(2 * 10_00, 21, 30)
        second = first + 50_00 + share(3 * 10_00 + 2 * 5_00, 15, 30)
        third = second - share(4 * 10_00 + 2 * 5_00, 11, 30)
        fourth = third + share(4 * 10_00 + 6 * 5_00, 6, 30)
        fifth = fourth + share(4 * 5_00, 5, 30)
        assert amounts == [100_00, first, second, third, fourth, fifth, fifth + share(60 * 2_00, 1, 30)]
        persisted = ProrationStep(full=D(75), prorated=D(75))
        october = Usage(units=D(75), stretches=(persisted,))
        # 100.00 and 50.00 flat, 5 units at 10.00, 10 at 5.00 and 60 at 2.00.
        assert priced("graduated", T3, october).amount == 100 + 50 + 5 * 10 + 10 * 5 + 60 * 2
        more = ProrationStep(full=D(20), prorated=D(20) * 15 / 31)
        later = Usage(units=D(75) + more.prorated, stretches=(persisted, more))
        assert round(priced("graduated", T3, later).amount * 100) == 370_00 + share(20 * 2_00, 15, 31)

    def test_an_upgrade_in_the_middle_of_the_month(self) -> None:
        old = (ProrationStep(full=D(75), prorated=D(75) * 17 / 31), ProrationStep(full=D(20), prorated=D(20) * 2 / 31))
        before = Usage(units=sum((step.prorated for step in old), D(0)), stretches=old)
        assert round(priced("graduated", T3, before).amount * 100) == 150_00 + share(220_00 * 17 + 40_00 * 2, 1, 31)
        new = ProrationStep(full=D(95), prorated=D(95) * 14 / 31)
        after = Usage(units=new.prorated, stretches=(new,))
        assert round(priced("graduated", T3, after).amount * 100) == 150_00 + share(260_00, 14, 31)

    def test_seats_added_and_removed(self) -> None:
        """A added on the 10th, removed on the 12th, added on the 14th; B on the 15th; C on the 20th."""
        steps = [
            ProrationStep(full=D(1), prorated=D("0.7")),
            ProrationStep(full=D(1), prorated=D("0.1")),
            ProrationStep(full=D(-1), prorated=D(0)),
            ProrationStep(full=D(1), prorated=D("0.56667")),
            ProrationStep(full=D(1), prorated=D("0.53334")),
            ProrationStep(full=D(1), prorated=D("0.36667")),
        ]

        def cents(*positions: int) -> int:
            chosen = tuple(steps[position] for position in positions)
            usage = Usage(units=sum((step.prorated for step in chosen), D(0)), stretches=chosen)
            return int((priced("graduated", SEATS, usage).amount * 100).to_integral_value())

        # One seat costs 100.00 and 10.00 for its days; the second one opens a range of 50.00 and 5.00 a seat.
        assert cents(0) == 100_00 + share(10_00, 21, 30)
        assert cents(1, 2) == 100_00 + share(10_00, 3, 30)
        assert cents(1, 2, 3) == 100_00 + share(10_00, 3 + 17, 30)
        assert cents(1, 2, 3, 4) == 100_00 + 50_00 + share(10_00 * (3 + 17) + 5_00 * 16, 1, 30)
        assert cents(1, 2, 3, 4, 5) == 100_00 + 50_00 + share(10_00 * (3 + 17) + 5_00 * (16 + 11), 1, 30)
        october = Usage(units=D(3), stretches=tuple(ProrationStep(full=D(1), prorated=D(1)) for _ in range(3)))
        assert priced("graduated", SEATS, october).amount == 100 + 10 + 50 + 2 * 5

    def test_nothing_used_owes_the_first_flat_amount(self) -> None:
        assert priced("graduated", T2, Usage(units=D(0), stretches=())).amount == 100

    def test_has_no_details(self) -> None:
        assert details("graduated", T2, prorated(("5",), ("3.5",))) == {}


class TestGraduatedPercentage:
    PROPERTIES = {  # noqa: RUF012
        "graduated_percentage_ranges": ranges(
            (0, 10, "1", "200"), (11, 20, "2", "300"), (21, None, "3", "400"), rate="rate"
        )
    }

    @pytest.mark.parametrize(
        ("quantity", "amount"), [("0", "200"), ("1", "200.01"), ("10", "200.1"), ("11", "500.12"), ("21", "900.33")]
    )
    def test_each_range_takes_its_percentage(self, quantity: str, amount: str) -> None:
        assert priced("graduated_percentage", self.PROPERTIES, units(quantity)).amount == D(amount)

    def test_details(self) -> None:
        first, second = details("graduated_percentage", self.PROPERTIES, units("11"))["graduated_percentage_ranges"]
        assert first == {
            "from_value": 0,
            "to_value": 10,
            "units": "10.0",
            "rate": "1.0",
            "per_unit_total_amount": "0.1",
            "flat_unit_amount": "200.0",
            "total_with_flat_amount": "200.1",
        }
        assert second["units"] == "1.0"
        assert second["total_with_flat_amount"] == "300.02"

    def test_ranges_that_touch_charge_no_unit_twice(self) -> None:
        touching = {"graduated_percentage_ranges": ranges((0, 10, "10", "0"), (10, None, "10", "0"), rate="rate")}
        assert priced("graduated_percentage", touching, units("15")).amount == D("1.5")


class TestPackage:
    @pytest.mark.parametrize(
        ("free", "amount", "unit_amount"), [(0, "1300", "10.7438"), (10, "1200", "10.8108"), (200, "0", "0")]
    )
    def test_started_packages_count_whole(self, free: int, amount: str, unit_amount: str) -> None:
        result = priced("package", {"amount": "100", "free_units": free, "package_size": 10}, units("121"))
        assert result.amount == D(amount)
        assert abs(result.unit_amount - D(unit_amount)) < D("0.0001")

    @pytest.mark.parametrize(("quantity", "packages"), [("10", 1), ("10.0000000001", 2), ("20", 2), ("0.5", 1)])
    def test_a_package_is_full_at_its_size(self, quantity: str, packages: int) -> None:
        properties = {"amount": "1", "free_units": 0, "package_size": 10}
        assert priced("package", properties, units(quantity)).amount == packages

    def test_details(self) -> None:
        properties = {"amount": "100", "free_units": 10, "package_size": 10}
        assert details("package", properties, units("121")) == {
            "free_units": "10.0",
            "paid_units": "111.0",
            "per_package_size": 10,
            "per_package_unit_amount": "100.0",
        }
        assert details("package", properties, units("4"))["paid_units"] == "0.0"
        assert details("package", properties, units("0")) == {
            "free_units": "0.0",
            "paid_units": "0.0",
            "per_package_size": 0,
            "per_package_unit_amount": "0.0",
        }


class TestPercentage:
    USAGE = Usage(units=D(800), events_count=4, running_totals=decimals("50", "150", "400"))
    RATE = {"rate": "1.3", "fixed_amount": "2"}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("free", "amount"),
        [
            ({"free_units_per_events": 3, "free_units_per_total_aggregation": "250"}, "11.15"),
            ({"free_units_per_events": 3}, "7.2"),
            ({"free_units_per_total_aggregation": "250"}, "11.15"),
        ],
    )
    def test_free_units_end_with_whichever_limit_comes_first(self, free: dict[str, object], amount: str) -> None:
        assert priced("percentage", {**self.RATE, **free}, self.USAGE).amount == D(amount)

    def test_an_event_that_reaches_the_free_total_exactly_is_no_free_event(self) -> None:
        usage = Usage(units=D(300), events_count=3, running_totals=decimals("100", "250", "300"))
        shown = details("percentage", {**self.RATE, "free_units_per_total_aggregation": "250"}, usage)
        assert (shown["free_units"], shown["free_events"], shown["paid_events"]) == ("250.0", 1, 2)

    def test_without_free_units(self) -> None:
        usage = Usage(units=D(800), events_count=4)
        assert priced("percentage", self.RATE, usage).amount == D("18.4")
        assert priced("percentage", self.RATE, usage).unit_amount == D("0.023")

    def test_details(self) -> None:
        free = {"free_units_per_events": 3, "free_units_per_total_aggregation": "250"}
        assert details("percentage", {**self.RATE, **free}, self.USAGE) == {
            "units": "800.0",
            "free_units": "250.0",
            "free_events": 2,
            "paid_units": "550.0",
            "rate": "1.3",
            "per_unit_total_amount": "7.15",
            "paid_events": 2,
            "fixed_fee_unit_amount": "2.0",
            "fixed_fee_total_amount": "4.0",
            "min_max_adjustment_total_amount": "0.0",
        }

    @pytest.mark.parametrize(
        ("properties", "values", "totals", "cents"),
        [
            ({"free_units_per_events": 3}, ["10"] * 4, ["10", "20", "30"], [0, 0, 0, 510]),
            (
                {"free_units_per_total_aggregation": "15"},
                ["4", "4", "4", "4", "10"],
                ["4", "8", "12", "16"],
                [0, 0, 0, 501, 1011],
            ),
            (
                {"free_units_per_events": 3, "free_units_per_total_aggregation": "15"},
                ["10", "10", "10"],
                ["10", "20", "30"],
                [0, 505, 1015],
            ),
        ],
    )
    def test_usage_event_by_event(
        self, properties: dict[str, object], values: list[str], totals: list[str], cents: list[int]
    ) -> None:
        terms = {"rate": "1", "fixed_amount": "5", **properties}
        amounts = []
        for count in range(1, len(values) + 1):
            usage = Usage(
                units=sum((D(value) for value in values[:count]), D(0)),
                events_count=count,
                running_totals=decimals(*totals[:count]),
            )
            amounts.append(int(priced("percentage", terms, usage).amount * 100))
        assert amounts == cents

    @pytest.mark.parametrize(
        ("extra", "amount"),
        [
            ({}, "16.142"),
            ({"fixed_amount": "2"}, "18.691"),
            ({"free_units_per_events": 2}, "12"),
            ({"free_units_per_total_aggregation": "30"}, "13.794"),
            ({"free_units_per_events": 3, "free_units_per_total_aggregation": "10000"}, "2.691"),
        ],
    )
    def test_each_transaction_is_bounded(self, extra: dict[str, object], amount: str) -> None:
        bounds = {"rate": "2.99", "per_transaction_min_amount": "1.75", "per_transaction_max_amount": "12"}
        usage = Usage(units=D(10090), events_count=3, event_values=decimals("10", "80", "10000"))
        assert priced("percentage", {**bounds, **extra}, usage).amount == D(amount)

    def test_without_bounds(self) -> None:
        usage = Usage(units=D(10090), events_count=3, event_values=decimals("10", "80", "10000"))
        assert priced("percentage", {"rate": "2.99"}, usage).amount == D("301.691")

    def test_details_state_what_the_bounds_changed(self) -> None:
        bounds = {"rate": "2.99", "per_transaction_min_amount": "1.75", "per_transaction_max_amount": "12"}
        usage = Usage(units=D(10090), events_count=3, event_values=decimals("10", "80", "10000"))
        shown = details("percentage", bounds, usage)
        assert shown["per_unit_total_amount"] == "301.691"
        assert shown["min_max_adjustment_total_amount"] == "-285.549"

    def test_the_event_that_reaches_the_free_total_exactly_pays_the_minimum(self) -> None:
        terms = {"rate": "1", "free_units_per_total_aggregation": "10", "per_transaction_min_amount": "3"}
        usage = Usage(units=D(10), events_count=1, event_values=decimals("10"))
        assert priced("percentage", terms, usage).amount == 3


VOLUME = {"volume_ranges": ranges((0, 100, "2", "10"), (101, 200, "1", "0"), (201, None, "0.5", "50"))}


class TestVolume:
    @pytest.mark.parametrize(
        ("quantity", "amount"),
        [("0", "10"), ("1", "12"), ("100", "210"), ("100.5", "100.5"), ("101", "101"), ("300", "200"), ("-5", "0")],
    )
    def test_one_range_prices_all_units(self, quantity: str, amount: str) -> None:
        assert priced("volume", VOLUME, units(quantity)).amount == D(amount)

    def test_full_units_choose_the_range_of_prorated_units(self) -> None:
        usage = units("198.6", full="300")
        assert priced("volume", VOLUME, usage).amount == D("149.3")
        assert details("volume", VOLUME, usage) == {
            "flat_unit_amount": "50.0",
            "per_unit_amount": "0.331",
            "per_unit_total_amount": "99.3",
        }

    def test_details_of_nothing_used(self) -> None:
        assert details("volume", VOLUME, units("0")) == {
            "flat_unit_amount": "10.0",
            "per_unit_amount": "0.0",
            "per_unit_total_amount": "0.0",
        }


class TestDynamic:
    def test_events_bring_their_price(self) -> None:
        result = priced("dynamic", {}, Usage(units=D(20), amount_cents=D("40.2")))
        assert result.amount == D("0.402")
        assert result.unit_amount == D("0.0201")

    def test_units_that_cancel_out_cost_nothing(self) -> None:
        assert priced("dynamic", {}, Usage(units=D(0), amount_cents=D("40.2"))).amount == 0

    @pytest.mark.parametrize(("subunits", "amount"), [(1, "1234"), (100, "12.34"), (1000, "1.234")])
    def test_cents_are_those_of_the_currency(self, subunits: int, amount: str) -> None:
        assert priced("dynamic", {}, Usage(units=D(1), amount_cents=D(1234)), subunits).amount == D(amount)


def test_a_custom_metric_brings_its_amount() -> None:
    assert priced("custom", {}, Usage(units=D(4), amount_cents=D(250))).unit_amount == D("0.625")
