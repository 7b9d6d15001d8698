"""Jobs: which kind is done by which operation. Each row acts within the transaction that completes its job."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from usagebill.core.jobs import Job
from usagebill.work import Work

__all__ = ["HANDLERS", "Handler"]

Handler = Callable[[Work, Job], None]

# kind -> what does it. Jobs that talk to the outside (leased ones) stand in `billing.OUTSIDE`.
HANDLERS: Mapping[str, Handler] = {}
