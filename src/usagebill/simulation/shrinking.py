"""The shortest company that fails like another: steps are left out as long as it still does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from usagebill.simulation.companies import Company, Step, instant_of


def shrunk(company: Company, fails: Callable[[Company], bool], tries: int = 400) -> Company:
    """The company without whatever it fails without; after so many tries, as short as it got."""
    left = tries

    def still(steps: Sequence[Step]) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and fails(replace(company, steps=tuple(steps)))

    for cut in _ends(company):
        if left > 0 and fails(cut):
            company = cut
            break
    steps = list(company.steps)
    size = max(len(steps) // 2, 1)
    while left > 0:
        place, before = 0, len(steps)
        while place < len(steps) and left > 0:
            fewer = steps[:place] + steps[place + size :]
            if still(fewer):
                steps = fewer
            else:
                place += size
        if size == 1 and len(steps) == before:
            break
        size = max(size // 2, 1)
    return replace(company, steps=tuple(steps))


def _ends(company: Company) -> list[Company]:
    """The company, ended earlier: the earliest first."""
    span = company.end - company.start
    ends = [company.start + span * share / 8 for share in range(1, 8)]
    return [
        replace(company, end=end, steps=tuple(step for step in company.steps if instant_of(step["at"]) < end))
        for end in ends
    ]
