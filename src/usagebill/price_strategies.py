"""Hypothesis strategies for price lists and quantities, so that a property test of a price list is a few lines.

`usagebill.testing` has them too. Hypothesis is imported when a strategy is made, and only then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


class PriceList(NamedTuple):
    """A charge model and its properties, in the order in which `usagebill.pricing.price` takes them."""

    charge_model: str
    properties: dict[str, Any]


def quantities(least: Decimal | int = 0, most: Decimal | int = 10**6, *, decimals: int = 4) -> SearchStrategy[Decimal]:
    """Quantities from `least` to `most`, both included."""
    from hypothesis import strategies as st

    step = 10**decimals
    return st.integers(int(least * step), int(most * step)).map(lambda number: Decimal(number).scaleb(-decimals))


def amounts(most: int = 1000, *, decimals: int = 6) -> SearchStrategy[str]:
    """Amounts from zero to `most` as a price list has them: texts."""
    return quantities(0, most, decimals=decimals).map(lambda amount: format(amount, "f"))


def price_lists(*charge_models: str) -> SearchStrategy[PriceList]:
    """Valid price lists of these charge models, by default of all that depend on units alone."""
    from hypothesis import strategies as st

    chosen = charge_models or tuple(_PROPERTIES)
    unknown = [model for model in chosen if model not in _PROPERTIES]
    if unknown:
        raise ValueError(f"no price lists of {unknown[0]}: there are those of {', '.join(_PROPERTIES)}")
    return st.one_of([_of(model) for model in chosen])


def _of(charge_model: str) -> SearchStrategy[PriceList]:
    return _PROPERTIES[charge_model]().map(lambda properties: PriceList(charge_model, properties))


def _of_standard() -> SearchStrategy[dict[str, Any]]:
    from hypothesis import strategies as st

    return st.fixed_dictionaries({"amount": amounts()})


def _of_package() -> SearchStrategy[dict[str, Any]]:
    from hypothesis import strategies as st

    free, size = st.integers(0, 100), st.integers(1, 1000)
    return st.fixed_dictionaries({"amount": amounts(), "free_units": free, "package_size": size})


def _of_percentage() -> SearchStrategy[dict[str, Any]]:
    from hypothesis import strategies as st

    return st.fixed_dictionaries(
        {"rate": amounts(100)},
        optional={
            "fixed_amount": amounts(10),
            "free_units_per_events": st.integers(1, 5),
            "free_units_per_total_aggregation": amounts(100),
        },
    )


def _of_ranges(properties_key: str, rate_key: str, most: int) -> SearchStrategy[dict[str, Any]]:
    return _ranges(rate_key, most).map(lambda ranges: {properties_key: ranges})


def _ranges(rate_key: str, most: int) -> SearchStrategy[list[dict[str, Any]]]:
    """One to five ranges that count whole units (0-10, 11-20), the last one open."""
    from hypothesis import strategies as st

    ends = st.sets(st.integers(1, 10_000), max_size=4).map(sorted)
    prices = st.lists(st.tuples(amounts(most), amounts()), min_size=5, max_size=5)

    def joined(ends: list[int], prices: list[tuple[str, str]]) -> list[dict[str, Any]]:
        ranges: list[dict[str, Any]] = []
        start = 0
        for end, (rate, flat_amount) in zip([*ends, None], prices, strict=False):
            if end is None or end > start:
                ranges.append({"from_value": start, "to_value": end, rate_key: rate, "flat_amount": flat_amount})
                start = start if end is None else end + 1
        return ranges

    return st.builds(joined, ends, prices)


_PROPERTIES: Mapping[str, Callable[[], SearchStrategy[dict[str, Any]]]] = {
    "standard": _of_standard,
    "graduated": partial(_of_ranges, "graduated_ranges", "per_unit_amount", 1000),
    "graduated_percentage": partial(_of_ranges, "graduated_percentage_ranges", "rate", 100),
    "volume": partial(_of_ranges, "volume_ranges", "per_unit_amount", 1000),
    "package": _of_package,
    "percentage": _of_percentage,
}
