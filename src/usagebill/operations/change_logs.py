"""Change logs, written at the end of each unit of work, in its transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from usagebill.core.activity_logs import Change
from usagebill.operations import activity_logs, security_logs
from usagebill.work import Work


def log_changes(work: Work, changes: Sequence[Change], written_at: datetime) -> None:
    """Log the changes of a unit of work, each in its log."""
    if work.settings.activity_log_days != 0:
        activity_logs.record(work, changes, written_at)
    if work.settings.security_log_days != 0:
        security_logs.record(work, changes, written_at)
