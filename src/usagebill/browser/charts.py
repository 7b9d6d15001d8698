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


@dataclass(frozen=True, slots=True)
class Mark:
    """A level that is drawn across a chart, at its height in units of the drawing."""

    text: str
    y: float


@dataclass(frozen=True, slots=True)
class Share:
    """A row of a chart of parts: its share of the greatest, from 0 to 100, and what it stands for."""

    label: str
    texts: Sequence[str]
    width: float


def shares(values: Iterable[tuple[str, Decimal | int, Sequence[str]]]) -> Sequence[Share]:
    """The rows of (label, value, texts); values below zero have no bar."""
    rows = list(values)
    highest = max((value for _, value, _ in rows), default=0)
    return [
        Share(label, texts, round(float(value / highest) * 100, 2) if highest > 0 and value > 0 else 0.0)
        for label, value, texts in rows
    ]


def bars(values: Iterable[tuple[str, Decimal | int, str]]) -> Sequence[Bar]:
    """The bars of (label, value, value as text), the highest as high as the chart; values below zero have none."""
    return marked(values, ())[0]


def marked(
    values: Iterable[tuple[str, Decimal | int, str]], levels: Iterable[tuple[Decimal | int, str]]
) -> tuple[Sequence[Bar], Sequence[Mark]]:
    """The same bars with levels (value, text) above zero drawn across them: whichever is highest is as high as the
    chart.
    """
    rows, lines = list(values), [(value, text) for value, text in levels if value > 0]
    highest = max((value for value in (*(row[1] for row in rows), *(line[0] for line in lines))), default=0)
    room = WIDTH / max(1, len(rows))
    gap = min(6.0, room / 5)
    made = []
    for place, (label, value, text) in enumerate(rows):
        share = float(value / highest) if highest > 0 and value > 0 else 0.0
        height = max(2.0, share * HEIGHT) if value > 0 else 0.0
        made.append(
            Bar(label, text, round(place * room + gap / 2, 2), round(HEIGHT - height, 2), round(room - gap, 2), height)
        )
    return made, [Mark(text, round(HEIGHT * (1 - float(value / highest)), 2)) for value, text in lines]
