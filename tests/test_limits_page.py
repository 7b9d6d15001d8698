"""The page of limits matches the code."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from usagebill.core.limits import TABLE

PAGE = Path(__file__).parents[1] / "docs" / "limits.md"


def shown(number: Decimal) -> str:
    if abs(number) > 10**17:
        return f"{'-' if number < 0 else ''}10^{number.adjusted()}"
    return f"10^{number.adjusted()}" if 0 < number < 1 else f"{int(number):,}"


def table() -> str:
    """The ranges as the page shows them."""
    rows = ["| What | Fields | Counted in | Least | Most | Decimals |", "| --- | --- | --- | --- | --- | --- |"]
    for limit in TABLE:
        cells = (limit.label, limit.fields, limit.unit, shown(limit.least), shown(limit.most), str(limit.decimals))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def test_the_page_shows_every_range_as_it_is() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")
