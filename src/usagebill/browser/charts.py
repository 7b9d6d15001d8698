"""Charts as bars, drawn by the server: they need no script, and every bar says its value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

WIDTH, HEIGHT = 720, 160


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart, in units of its drawing; `label` and `text` say what it stands for and its value."""

    label: str
    text: str
    x: float
    y: float
    width: float
    height: float


def bars(values: Iterable[tuple[str, Decimal | int, str]]) -> Sequence[Bar]:
    """The bars of (label, value, value as text), the highest as high as the chart; values below zero have none."""
    rows = list(values)
    highest = max((value for _, value, _ in rows), default=0)
    room = WIDTH / max(1, len(rows))
    gap = min(6.0, room / 5)
    made = []
    for place, (label, value, text) in enumerate(rows):
        share = float(value / highest) if highest > 0 and value > 0 else 0.0
        height = max(2.0, share * HEIGHT) if value > 0 else 0.0
        made.append(
            Bar(label, text, round(place * room + gap / 2, 2), round(HEIGHT - height, 2), round(room - gap, 2), height)
        )
    return made
