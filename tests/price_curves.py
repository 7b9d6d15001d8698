"""The price curves of docs/charge-models, drawn from the prices themselves: `python -m tests.price_curves` writes them.

A test fails if one of them is out of date.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

from usagebill.pricing import price

FOLDER = Path(__file__).parents[1] / "docs" / "charge-models"
WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 16, 44
LINE, GREY = "#00897b", "#808080"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A price list, drawn up to a number of units; `jumps` are the points at which it may jump."""

    charge_model: str
    properties: Mapping[str, Any]
    most: int
    step: int
    jumps: tuple[int, ...] = ()
    unit: str = "units"


def _ranges(rate: str, *rows: tuple[int | None, str, str]) -> list[dict[str, Any]]:
    ranges: list[dict[str, Any]] = []
    start = 0
    for end, amount, flat in rows:
        ranges.append({"from_value": start, "to_value": end, rate: amount, "flat_amount": flat})
        start = (end or 0) + 1
    return ranges


CURVES: Mapping[str, Curve] = {
    "standard": Curve(charge_model="standard", properties={"amount": "0.25"}, most=200, step=50),
    "graduated": Curve(
        charge_model="graduated",
        properties={"graduated_ranges": _ranges("per_unit_amount", (10, "2", "0"), (50, "1", "5"), (None, "0.5", "0"))},
        most=100,
        step=10,
        jumps=(0, 10, 50),
    ),
    "graduated-percentage": Curve(
        charge_model="graduated_percentage",
        properties={
            "graduated_percentage_ranges": _ranges("rate", (1000, "3", "0"), (5000, "2", "10"), (None, "1", "0"))
        },
        most=8000,
        step=1000,
        jumps=(0, 1000, 5000),
    ),
    "package": Curve(
        charge_model="package",
        properties={"amount": "5", "package_size": 100, "free_units": 100},
        most=600,
        step=100,
        jumps=tuple(range(0, 601, 100)),
    ),
    "percentage": Curve(
        charge_model="percentage", properties={"rate": "1.5", "fixed_amount": "0.30"}, most=200, step=50, jumps=(0,)
    ),
    "volume": Curve(
        charge_model="volume",
        properties={"volume_ranges": _ranges("per_unit_amount", (10, "2", "0"), (50, "1", "0"), (None, "0.5", "0"))},
        most=100,
        step=10,
        jumps=(10, 50),
    ),
}


def _points(curve: Curve) -> Iterator[list[tuple[Decimal, Decimal]]]:
    """The pieces of the curve between its jumps, each as points of units and amount."""
    tiny = Decimal("0.0001")
    ends = [*(end for end in curve.jumps if 0 < end < curve.most), curve.most]
    start = Decimal(0)
    if 0 in curve.jumps:
        yield [(Decimal(0), price(curve.charge_model, curve.properties, 0))]
        start = tiny
    for end in ends:
        units = [start, Decimal(end)]
        yield [(unit, price(curve.charge_model, curve.properties, unit)) for unit in units]
        start = Decimal(end) + tiny


def _nice(most: Decimal) -> list[Decimal]:
    """Four or five round ticks from zero to `most` or a little beyond."""
    scale = Decimal(10) ** (most.adjusted() - 1)
    step = next(step for step in (scale * k for k in (2, 5, 10, 20, 25, 50)) if step * 5 >= most)
    return [step * number for number in range(int(most / step) + 2) if step * (number - 1) < most]


def drawn(curve: Curve) -> str:
    """The curve as SVG."""
    pieces = list(_points(curve))
    ticks = _nice(max(amount for piece in pieces for _, amount in piece))

    def x(units: Decimal) -> str:
        return f"{LEFT + float(units) / curve.most * (WIDTH - LEFT - RIGHT):.1f}"

    def y(amount: Decimal) -> str:
        return f"{HEIGHT - BOTTOM - float(amount / ticks[-1]) * (HEIGHT - TOP - BOTTOM):.1f}"

    zero = Decimal(0)
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="12">',
        f"<title>The price of {curve.charge_model.replace('_', ' ')} by {curve.unit}</title>",
    ]
    for tick in ticks:
        rows.append(f'<path d="M{LEFT} {y(tick)}H{WIDTH - RIGHT}" stroke="{GREY}" stroke-opacity=".3"/>')
        place, text = f"{float(y(tick)) + 4:.1f}", f"{tick.normalize():f}"
        rows.append(f'<text x="{LEFT - 8}" y="{place}" text-anchor="end" fill="{GREY}">{text}</text>')
    for units in range(0, curve.most + 1, curve.step):
        place = x(Decimal(units))
        rows.append(f'<text x="{place}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="{GREY}">{units:,}</text>')
    rows.append(f'<path d="M{LEFT} {TOP}V{y(zero)}H{WIDTH - RIGHT}" fill="none" stroke="{GREY}"/>')
    for before, after in pairwise(pieces):
        end, start = before[-1], after[0]
        if end[1] != start[1]:
            rows.append(f'<path d="M{x(end[0])} {y(end[1])}V{y(start[1])}" stroke="{LINE}" stroke-dasharray="3 3"/>')
    for piece in pieces:
        path = "L".join(f"{x(units)} {y(amount)}" for units, amount in piece)
        rows.append(f'<path d="M{path}" fill="none" stroke="{LINE}" stroke-width="2.5" stroke-linecap="round"/>')
    middle = (HEIGHT - BOTTOM + TOP) / 2
    rows.append(
        f'<text x="{(WIDTH + LEFT) / 2}" y="{HEIGHT - 8}" text-anchor="middle" fill="{GREY}">{curve.unit}</text>'
    )
    rows.append(
        f'<text x="14" y="{middle}" text-anchor="middle" fill="{GREY}" transform="rotate(-90 14 {middle})">price</text>'
    )
    return "\n".join([*rows, "</svg>", ""])


if __name__ == "__main__":
    for name, curve in CURVES.items():
        (FOLDER / f"{name}.svg").write_text(drawn(curve), encoding="utf-8")
