"""The report on lines that were recounted, and on those that were not."""

from __future__ import annotations

from dataclasses import dataclass, field

from usagebill.core.fees import Fee
from usagebill.core.recounts import Left, kind_of


@dataclass(slots=True)
class Recounts:
    """The number of recounted lines by kind, and of skipped ones by reason."""

    done: dict[str, int] = field(default_factory=dict)
    _left: dict[tuple[str, str], int] = field(default_factory=dict)

    def count(self, fee: Fee) -> None:
        kind = kind_of(fee)
        if kind is not None:
            self.count_kind(kind)

    def count_kind(self, kind: str) -> None:
        self.done[kind] = self.done.get(kind, 0) + 1

    def leave(self, fee: Fee, reason: str) -> None:
        kind = kind_of(fee)
        if kind is not None:
            self.leave_kind(kind, reason)

    def leave_kind(self, kind: str, reason: str) -> None:
        self._left[kind, reason] = self._left.get((kind, reason), 0) + 1

    @property
    def left(self) -> tuple[Left, ...]:
        """Lines that could not be recounted, by kind and reason."""
        return tuple(Left(kind=kind, reason=reason, count=count) for (kind, reason), count in self._left.items())
