"""Charges priced a second, each charge model against the same arithmetic written inline on Decimals.

Pricing a charge leads from usage to the numbers of a fee: the amount, rounded to cents and with 15 decimals, and the
unit amount, truncated to cents and with 15 decimals. For each model: how often a second `usagebill.core.pricing` does
it, how often the same arithmetic written out for just these properties in the same decimal context, and their ratio,
which should be at least 0.3; graduated pricing over three ranges should make at least 60,000 a second. Both sides see
the same usages and must agree on every number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal, localcontext
from statistics import median

from usagebill.core.numbers import CONTEXT
from usagebill.core.pricing import parse_properties, price
from usagebill.core.pricing.fees import fee_amounts
from usagebill.core.usage import Usage

USAGES = 20_000
TURNS = 15
GRADUATED_FLOOR_A_SECOND = 60_000
FLOOR_RATIO = 0.3

Inline = Callable[[Usage], Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model with properties, and the handwritten arithmetic for just these properties."""

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


CENT, FIFTEEN = D("0.01"), D("1e-15")
Numbers = tuple[int, Decimal, int, Decimal]


def fee(amount: Decimal, divisor: Decimal) -> Numbers:
    """The numbers of a fee, inline: whole cents, precise cents, unit cents, precise unit amount."""
    unit = amount / divisor if divisor else D(0)
    return (
        int(amount.quantize(CENT, ROUND_HALF_UP) * HUNDRED),
        (amount * HUNDRED).quantize(FIFTEEN, ROUND_HALF_UP),
        int(unit * HUNDRED),
        unit.quantize(FIFTEEN, ROUND_HALF_UP),
    )


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def measure(case: Case, sample: list[Usage]) -> None:
    model, inline = case.model, case.inline
    properties = parse_properties(model, case.properties, subunits=100)

    def divisor(usage: Usage) -> Decimal:
        return usage.units - TEN if model == "package" else usage.units

    for usage in sample:
        made = fee_amounts(price(model, properties, usage), usage, "EUR")
        mine = made.amount_cents, made.precise_amount_cents, made.unit_amount_cents, made.precise_unit_amount
        assert mine == fee(inline(usage), divisor(usage)), (model, usage)
    # Alternating, and the median ratio counts: other load on the machine slows both sides.
    turns = [
        (
            seconds(lambda: [fee(inline(usage), divisor(usage)) for usage in sample]),
            seconds(lambda: [fee_amounts(price(model, properties, usage), usage, "EUR") for usage in sample]),
        )
        for _ in range(TURNS)
    ]
    floor, ours = (USAGES / min(side) for side in zip(*turns, strict=True))
    ratio = median(theirs / mine for theirs, mine in turns)
    kept = ratio >= FLOOR_RATIO and (model != "graduated" or ours >= GRADUATED_FLOOR_A_SECOND)
    print(f"{model:22} {ours:10,.0f} {floor:10,.0f} {ratio:6.2f}  {'keeps' if kept else 'MISSES'} {FLOOR_RATIO}")


def main() -> None:
    sample = usages()
    print(f"{'model':22} {'ours/s':>10} {'inline/s':>10} {'ratio':>6}")
    with localcontext(CONTEXT):
        for case in CASES:
            measure(case, sample)


if __name__ == "__main__":
    main()
