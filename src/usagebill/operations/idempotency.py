"""Answers to requests with an idempotency key: stored with the change, found again by its repeats, and forgotten."""

from __future__ import annotations

from datetime import timedelta

from usagebill.core.idempotency import KEPT, IdempotentAnswer, check_same_request, is_over
from usagebill.core.tasks import ForgetAnswers
from usagebill.runtime.work import Work
from usagebill.storage.conditions import asc, at_most, eq

# Answers are forgotten together, in so many transactions at the most.
_FORGOTTEN_EVERY = timedelta(hours=1)
_TOGETHER = 1000


def stored_answer(work: Work, key: str, fingerprint: str) -> str | None:
    """The answer that the request of this key had before; None if it is to be done now.

    Raises `Invalid` if the key was used for another request. An organization has one writer at a time, so nobody else
    is doing the same request now.
    """
    stored = work.tx.first(IdempotentAnswer, eq("key", key))
    if stored is None:
        return None
    if is_over(stored, work.now):
        work.tx.delete(stored)
        return None
    check_same_request(stored, fingerprint)
    return stored.body


def store_answer(work: Work, key: str, fingerprint: str, body: str) -> None:
    """Store the answer to a request that has been done in this unit of work."""
    work.tx.insert(
        IdempotentAnswer(
            id=work.new_id(),
            organization_id=work.organization.id,
            key=key,
            fingerprint=fingerprint,
            body=body,
            created_at=work.now,
        )
    )
    work.schedule(ForgetAnswers(organization_id=work.organization.id), work.now + KEPT)


def forget(work: Work, task: ForgetAnswers) -> None:
    """Job: remove the answers whose time is over, once an hour while there are any."""
    old = work.tx.find(IdempotentAnswer, at_most("created_at", work.now - KEPT), limit=_TOGETHER)
    work.tx.delete(*old)
    oldest = work.tx.first(IdempotentAnswer, order=[asc("created_at")])
    if oldest is not None:
        is_more = len(old) == _TOGETHER
        work.schedule(task, work.now if is_more else max(oldest.created_at + KEPT, work.now + _FORGOTTEN_EVERY))
