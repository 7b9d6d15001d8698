"""Prices a second, each charge model beside the same arithmetic written inline on plain Decimals.

For each model: what `usagebill.core.pricing` makes of usage after usage, what the inline arithmetic makes of the same,
and their ratio. Graduated pricing over three ranges should make at least 60,000 prices a second and keep at least 0.3
of the inline speed. Both sides see the same usages and must agree on every amount.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from usagebill.core.pricing import parse_properties, price
from usagebill.core.usage import Usage

USAGES = 20_000
ROUNDS = 5
GRADUATED_FLOOR_A_SECOND = 60_000
GRADUATED_FLOOR_RATIO = 0.3

Inline = Callable[[Usage], Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model with properties, and the arithmetic that a careful person would write for just these properties."""

    model: str
    properties: Mapping[str, object]
    inline: Inline


RANGES: list[dict[str, object]] = [
    {"from_value": 0, "to_value": 100, "per_unit_amount": "0.50", "flat_amount": "10"},
    {"from_value": 101, "to_value": 1000, "per_unit_amount": "0.25", "flat_amount": "5"},
    {"from_value": 1001, "to_value": None, "per_unit_amount": "0.125", "flat_amount": "0"},
]
PERCENTAGES: list[dict[str, object]] = [
    {"from_value": 0, "to_value": 100, "rate": "5", "flat_amount": "10"},
    {"from_value": 101, "to_value": 1000, "rate": "2.5", "flat_amount": "5"},
    {"from_value": 1001, "to_value": None, "rate": "1", "flat_amount": "0"},
]
D = Decimal
A, B, C = D("0.50"), D("0.25"), D("0.125")
HUNDRED, THOUSAND, TEN, FIVE = D(100), D(1000), D(10), D(5)


def _graduated(usage: Usage) -> Decimal:
    units = usage.units
    if units <= HUNDRED:
        return TEN + units * A
    if units <= THOUSAND:
        return TEN + HUNDRED * A + FIVE + (units - HUNDRED) * B
    return TEN + HUNDRED * A + FIVE + (THOUSAND - HUNDRED) * B + (units - THOUSAND) * C


def _graduated_percentage(usage: Usage) -> Decimal:
    units = usage.units
    if units <= HUNDRED:
        return TEN + units * D("5") / HUNDRED
    if units <= THOUSAND:
        return TEN + FIVE + FIVE + (units - HUNDRED) * D("2.5") / HUNDRED
    return TEN + FIVE + FIVE + D("22.5") + (units - THOUSAND) / HUNDRED


def _volume(usage: Usage) -> Decimal:
    units = usage.units
    rate, flat = (A, TEN) if units <= HUNDRED else (B, FIVE) if units <= THOUSAND else (C, D(0))
    return units * rate + flat


def _package(usage: Usage) -> Decimal:
    return ((usage.units - TEN) / HUNDRED).to_integral_value(ROUND_CEILING) * FIVE


def _percentage(usage: Usage) -> Decimal:
    return usage.units * D("1.5") / HUNDRED + usage.events_count * D("0.10")


CASES = [
    Case(model="standard", properties={"amount": "0.25"}, inline=lambda usage: usage.units * B),
    Case(model="graduated", properties={"graduated_ranges": RANGES}, inline=_graduated),
    Case(
        model="graduated_percentage",
        properties={"graduated_percentage_ranges": PERCENTAGES},
        inline=_graduated_percentage,
    ),
    Case(model="volume", properties={"volume_ranges": RANGES}, inline=_volume),
    Case(
        model="package",
        properties={"amount": "5", "package_size": 100, "free_units": 10},
        inline=_package,
    ),
    Case(model="percentage", properties={"rate": "1.5", "fixed_amount": "0.10"}, inline=_percentage),
    Case(model="dynamic", properties={}, inline=lambda usage: usage.amount_cents / HUNDRED),
]


def usages() -> list[Usage]:
    """Usages that reach every range, from eleven units up, with two decimals; the same in each run."""
    return [
        Usage(
            units=Decimal(11) + Decimal(number * 7919 % 300_000) / 100,
            events_count=number % 50,
            amount_cents=Decimal(number * 31 % 90_000),
        )
        for number in range(USAGES)
    ]


def a_second(act: Callable[[], object]) -> float:
    """How many usages a second the quickest of several rounds of `act` goes through."""
    spent = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        act()
        spent.append(time.perf_counter() - start)
    return USAGES / min(spent)


def main() -> None:
    sample = usages()
    print(f"{'model':22} {'prices/s':>10} {'inline/s':>10} {'ratio':>6}")
    for case in CASES:
        model, inline = case.model, case.inline
        properties = parse_properties(model, case.properties, subunits=100)
        for usage in sample:
            assert price(model, properties, usage).amount == inline(usage), (model, usage)
        ours = a_second(lambda: [price(model, properties, usage) for usage in sample])  # noqa: B023
        floor = a_second(lambda: [inline(usage) for usage in sample])  # noqa: B023
        print(f"{model:22} {ours:10,.0f} {floor:10,.0f} {ours / floor:6.2f}", end="")
        if model == "graduated":
            kept = ours >= GRADUATED_FLOOR_A_SECOND and ours / floor >= GRADUATED_FLOOR_RATIO
            print(
                f"  {'keeps' if kept else 'MISSES'} {GRADUATED_FLOOR_A_SECOND:,}/s and {GRADUATED_FLOOR_RATIO}", end=""
            )
        print()


if __name__ == "__main__":
    main()
