"""What a series of running states stores, and the series that queries lacked."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Pair", "Shape", "Wants"]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a series stores: a kind, the aggregated field, and the properties by which its states are keyed."""

    kind: str
    field: str | None
    keys: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, str, str]:
        """The columns `kind`, `field` and `keys`."""
        return self.kind, json.dumps(self.field), json.dumps(self.keys)


Pair: TypeAlias = tuple[str, str, str]  # organization, external subscription and code


class Wants:
    """Queries for which there was no series, since this process started or last created series."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: dict[tuple[Pair, Shape], None] = {}

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def note(self, organization_id: str, external_subscription_id: str, code: str, shape: Shape) -> None:
        """A series of the shape would have answered a query about this pair."""
        with self._lock:
            self._wanted[(organization_id, external_subscription_id, code), shape] = None

    def take(self, organization_id: str | None = None) -> list[tuple[Pair, Shape]]:
        """Remove and return all of them, or an organization's; the next query notes them again."""
        with self._lock:
            wanted = [item for item in self._wanted if organization_id in (None, item[0][0])]
            for item in wanted:
                del self._wanted[item]
        return wanted

    def organizations(self) -> list[str]:
        """Their organizations."""
        with self._lock:
            return list(dict.fromkeys(pair[0] for pair, _ in self._wanted))
