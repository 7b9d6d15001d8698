"""Unused time: what is given back of a fee paid in advance when a subscription ends within its period."""

from __future__ import annotations

from usagebill.core.subscriptions import Subscription
from usagebill.operations import credit_notes
from usagebill.work import Work

__all__ = ["credit_unused_time"]


def credit_unused_time(work: Work, ended: Subscription, *, option: str) -> None:
    """Issue the credit note for the days that are left of the ended subscription's fee, as `option` says."""
    if option != "skip":
        credit_notes.on_termination(work, ended, option=option)
