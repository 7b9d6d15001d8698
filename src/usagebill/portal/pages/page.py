"""A page: its address below a customer's link, and what answers there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import Response

from usagebill.portal.visit import Visit


@dataclass(frozen=True, slots=True)
class Page:
    """`path` as Starlette has it. What `writes` may change something, or ask a provider."""

    path: str
    show: Callable[[Visit], Response]
    method: str = "GET"
    writes: bool = False
