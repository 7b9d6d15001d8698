"""Jobs: whatever happens later, as a record with an instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

__all__ = ["ATTEMPTS", "Job", "retry_delay"]

# How often a failing job is tried before it is left, with its error, for a person to retry.
ATTEMPTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Something to do at `due_at` (UTC). Its effects and its completion commit together.

    `key` is unique within the organization: writing the same job twice writes it once. The job acts as of `due_at`,
    whenever it really runs; `run_at` is the next attempt. `immediate` marks a job that follows at once from an
    operation, which does not wait for it. Jobs with a `lane` talk to somebody outside: they are leased, run outside a
    transaction, and are done at least once instead of exactly once. The lane names whom they talk to, so that a slow
    receiver holds up only its own lane.
    """

    id: str
    organization_id: str
    kind: str
    subject_id: str
    key: str
    due_at: datetime
    run_at: datetime
    created_at: datetime
    immediate: bool = False
    lane: str = ""
    payload: Mapping[str, object] = field(default_factory=dict)
    attempts: int = 0
    error: str | None = None
    failed: bool = False


def retry_delay(attempts: int) -> timedelta:
    """How long to wait after the given number of failed attempts: 1 minute, doubling, at most 1 hour."""
    return timedelta(minutes=min(60, 2 ** max(0, attempts - 1)))
