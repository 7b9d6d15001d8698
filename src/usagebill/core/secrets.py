"""Secrets: values that let somebody in, on their way through functions that may fail."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Secret"]


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that neither `repr` nor a traceback with the values of variables shows."""

    value: str = field(repr=False)
