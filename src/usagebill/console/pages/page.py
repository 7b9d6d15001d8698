"""A page: its address, and what answers there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import Response

from usagebill.console.visits import Visit
from usagebill.core.errors import BillingError, Forbidden


@dataclass(frozen=True, slots=True)
class Page:
    """`path` as Starlette has it. A form of `method` POST has been checked to come from the visitor's session.

    `again` shows a form that was refused once more, with the reason and its status.
    """

    path: str
    show: Callable[[Visit], Response]
    method: str = "GET"
    again: Callable[[Visit, str, int], Response] | None = None

    def answer(self, visit: Visit) -> Response:
        """The page, or the form again that it refuses; what a role may not do is refused for good."""
        try:
            return self.show(visit)
        except Forbidden:
            raise
        except BillingError as refusal:
            if self.again is None:
                raise
            return self.again(visit, refusal.message or refusal.code, refusal.status)
