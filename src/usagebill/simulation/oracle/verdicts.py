"""What the oracle found: how often it had an opinion, of what it had none, and where it differs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


class Unsure(Exception):
    """The oracle has no opinion on this, for the reason given."""


@dataclass(slots=True)
class Verdict:
    """Opinions by kind, those it does not have by kind and reason, and the differences, each a sentence."""

    opinions: Counter[str] = field(default_factory=Counter)
    unsure: Counter[tuple[str, str]] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def compare(self, kind: str, what: str, expected: object, shown: object) -> None:
        """Have an opinion on something that is shown."""
        self.opinions[kind] += 1
        if expected != shown:
            self.differences.append(f"{kind}: {what}: {expected}, shown {shown}")

    def leave(self, kind: str, reason: str, times: int = 1) -> None:
        """Have none."""
        self.unsure[kind, reason] += times
