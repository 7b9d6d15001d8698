"""A run: companies of seeds, each lived and judged, and what was seen over all of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from traceback import format_exc

from usagebill.simulation.companies import Company, company_of
from usagebill.simulation.conservation import imbalances
from usagebill.simulation.oracle.judging import judged
from usagebill.simulation.playing import play
from usagebill.simulation.sameness import unlike
from usagebill.simulation.shrinking import shrunk


@dataclass(slots=True)
class Seen:
    """What was done and checked: calls and refusals by operation, opinions of the oracle, and differences."""

    years: float = 0
    calls: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    jobs: Counter[str] = field(default_factory=Counter)
    opinions: Counter[str] = field(default_factory=Counter)
    unsure: Counter[tuple[str, str]] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def add(self, other: Seen) -> None:
        """Add what another run saw."""
        self.years += other.years
        self.calls += other.calls
        self.refused += other.refused
        self.jobs += other.jobs
        self.opinions += other.opinions
        self.unsure += other.unsure
        self.differences += other.differences

    @property
    def share(self) -> float:
        """How much of what is shown the oracle has an opinion on, in percent."""
        known, unknown = self.opinions.total(), self.unsure.total()
        return 100 * known / (known + unknown) if known + unknown else 100.0


def seen_in(company: Company, *, ways: bool = False) -> Seen:
    """Live a company and judge it; with `ways`, live it in every other way of working too. A crash is a difference."""
    seen = Seen(years=company.years)
    try:
        _look(company, seen, ways)
    except Exception:
        seen.differences.append(f"crash: {format_exc()[-1500:]}")
    return seen


def _look(company: Company, seen: Seen, ways: bool) -> None:
    played = play(company)
    for entry in played.log:
        if "call" in entry:
            seen.calls[entry["call"]] += 1
            seen.refused[entry["call"]] += entry["refused"] is not None
    seen.jobs += played.jobs
    verdict = judged(played.log, played.papers)
    seen.opinions, seen.unsure = verdict.opinions, verdict.unsure
    seen.differences += [f"oracle: {one}" for one in verdict.differences]
    seen.differences += [f"balance: {one}" for one in imbalances(played)]
    seen.differences += [f"audit: {one}" for one in played.findings]
    if ways:
        seen.differences += unlike(company, played)


def runs(first: int, companies: int, years: float, *, ways: bool = False) -> Iterator[tuple[int, Company, Seen]]:
    """The companies of successive seeds, each with what was seen in it."""
    for seed in range(first, first + companies):
        company = company_of(seed, years)
        yield seed, company, seen_in(company, ways=ways)


def shortest(
    company: Company, differences: list[str], look: Callable[..., Seen] = seen_in, *, ways: bool = False
) -> Company:
    """The shortest company with a difference of a kind of these."""
    wanted = set(map(kind_of, differences))
    return shrunk(company, lambda shorter: bool(wanted & set(map(kind_of, look(shorter, ways=ways).differences))))


def kind_of(difference: str) -> str:
    """What a difference is about: its first two parts."""
    return ":".join(re.split(": ?", difference, maxsplit=2)[:2])
