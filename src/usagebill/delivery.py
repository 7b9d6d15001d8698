"""Delivery: what leaves this process over a network, while no transaction is open."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

import httpx
import structlog

from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.core.webhooks import LONGEST_RESPONSE
from usagebill.operations import webhooks
from usagebill.work import Work

__all__ = ["Courier", "Sender", "deliver_webhook"]

T = TypeVar("T")
_log = structlog.get_logger("usagebill.webhooks")


class Courier:
    """An HTTP client that follows no redirects and gives up on slow receivers.

    `timeout` is in seconds, for connecting, writing and each wait for a part of the answer; an answer that keeps
    trickling in is left after twice that long, or once there is more of it than is kept.
    """

    def __init__(self, timeout: float) -> None:
        self._patience = 2 * timeout
        self._client = httpx.Client(follow_redirects=False, timeout=timeout)

    def post(self, url: str, headers: dict[str, str], body: bytes) -> tuple[int | None, str]:
        """The status and the text of the answer; None and the reason where there is none. Raises nothing."""
        began = time.monotonic()
        try:
            with self._client.stream("POST", url, headers=headers, content=body) as answer:
                read = b""
                for part in answer.iter_bytes():
                    read += part
                    if len(read) >= 4 * LONGEST_RESPONSE or time.monotonic() - began > self._patience:
                        break
                return answer.status_code, read.decode(errors="replace").replace("\0", "")
        except Exception as problem:
            # Whatever goes wrong between here and a receiver is a failed attempt, never an endless one.
            return None, f"{type(problem).__name__}: {problem}"

    def close(self) -> None:
        self._client.close()


class Sender(Protocol):
    """What delivery needs of the billing system that it delivers for."""

    @property
    def courier(self) -> Courier: ...
    def writing(self, change: Callable[[Work], T], organization: Organization | None = None) -> T: ...


def deliver_webhook(sender: Sender, organization: Organization, job: Job) -> None:
    """Make one attempt to deliver the message that is the job's subject, and keep how it went."""

    def prepare(work: Work) -> webhooks.Attempt | None:
        # In a transaction that writes, since the first signature of an installation makes its key.
        made = webhooks.attempt(work, job.subject_id)
        if made is None:
            work.tx.jobs.complete(job)
        return made

    made = sender.writing(prepare, organization)
    if made is None:
        return
    status, response = sender.courier.post(made.url, made.headers, made.body)
    message = sender.writing(lambda work: webhooks.note_attempt(work, job, made, status, response), organization)
    if message is not None and message.status == "failed":
        _log.warning(
            "webhook_given_up",
            message=message.id,
            webhook_type=message.webhook_type,
            endpoint=message.webhook_endpoint_id,
            attempts=message.retries,
            http_status=message.http_status,
        )
