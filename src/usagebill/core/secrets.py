"""Secrets: credentials on their way through functions that may fail."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is not shown by `repr` or by a traceback with the values of variables."""

    value: str = field(repr=False)
