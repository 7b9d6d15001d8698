"""A page: its address, and what answers there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import Response

from usagebill.console.visits import Visit


@dataclass(frozen=True, slots=True)
class Page:
    """`path` as Starlette has it. A form of `method` POST has been checked to come from the visitor's session."""

    path: str
    show: Callable[[Visit], Response]
    method: str = "GET"
