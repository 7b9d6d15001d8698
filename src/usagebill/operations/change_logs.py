"""The ledger and the change logs, written at the end of each unit of work, in its transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from usagebill.core.activity_logs import Change
from usagebill.operations import activity_logs, ledger, security_logs
from usagebill.runtime.work import Work


def log_changes(work: Work, changes: Sequence[Change], written_at: datetime) -> None:
    """Post the changes of a unit of work to the ledger, and log them, each in its log."""
    ledger.post(work, changes)
    if work.settings.activity_log_days != 0:
        activity_logs.record(work, changes, written_at)
    if work.settings.security_log_days != 0:
        security_logs.record(work, changes, written_at)
