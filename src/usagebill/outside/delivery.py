"""Delivery of webhook messages: each endpoint at its own pace, so that none holds up another.

A window per endpoint limits the requests under way to it, and deliveries yield to the requests that this installation
serves. Charges and errands have a single, well-known endpoint per provider and go through `calls`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from usagebill.core.jobs import Job
from usagebill.core.tasks import DeliverWebhook
from usagebill.core.webhooks import DELIVERY_LANES, LONGEST_RESPONSE, MessageStatus, WebhookMessage
from usagebill.operations import organizations, webhooks
from usagebill.outside.bounded_http import Answer, Poster
from usagebill.outside.job_host import JobHost
from usagebill.process.logs import Log
from usagebill.process.throttle import Throttle
from usagebill.storage.jobs import task_of
from usagebill.storage.ports import Transaction

_Leased = tuple[Job, webhooks.Attempt]
_log = Log("usagebill.webhooks")

# Requests in flight at a time, and how many of them may go to endpoints that did not answer last time.
_AT_ONCE = 64
_UNPROVEN_AT_ONCE = 32
# Requests in flight to one endpoint: at first, and at most. A slow endpoint gets more, up to the maximum; one that does
# not answer gets one at a time.
_WINDOW = 4
_WIDEST = 32
# An endpoint is slow if delivering one message per this many seconds takes more requests in flight.
_PACE_SECONDS = 0.002
# Messages leased and signed ahead: for each request in flight to an endpoint that answers, and for all endpoints
# together.
_READY_EACH = 4
_READY_AT_MOST = 512
# Endpoints of which it is known how they answer. Beyond that, those without messages are forgotten.
_MOST_KNOWN = 1_000
# The seconds that results wait for others, to be stored in one commit.
_GATHER_SECONDS = 0.02
# Deliveries can wait, API requests cannot: if these take `_BUSY` of the time, or if other processes hold the lock
# `_TAKEN` of the time, deliveries are held below `_PART` of one processor. `_DISPATCHING` is the dispatching thread's
# share of the cost of a delivery.
_BUSY = 0.3
_TAKEN = 0.5
_PART = 0.08
_DISPATCHING = 0.7
_LONGEST_PAUSE = 0.5
_BUSY_SAMPLE_SECONDS = 0.1
_BETWEEN_WARNINGS = timedelta(hours=1)
# Statuses with which an endpoint asks for fewer requests.
_OVERLOADED = frozenset({429, 502, 503, 504})


class HttpCourier:
    """Posts messages over HTTP. `timeout` is in seconds, for all of one attempt."""

    def __init__(self, timeout: float) -> None:
        self._poster = Poster(timeout, LONGEST_RESPONSE * 4, at_once=_AT_ONCE)

    def send(self, attempt: webhooks.Attempt, headers: dict[str, str]) -> Future[Answer]:
        return self._poster.send(attempt.url, headers, attempt.body, public_only=attempt.public_only)

    def close(self) -> None:
        self._poster.close()


@dataclass(slots=True, eq=False)
class _Shipment:
    """A leased job with its delivery attempt and the outcome."""

    job: Job
    attempt: webhooks.Attempt
    headers: dict[str, str]
    send_before: float
    sent_at: float = 0.0
    is_unproven: bool = False
    http_status: int | None = None
    response: str = ""


@dataclass(slots=True, eq=False)
class _Endpoint:
    """The requests in flight to an endpoint, its limit, and the messages ready to be sent."""

    window: int = _WINDOW
    is_proven: bool = False
    under_way: int = 0
    ready: deque[_Shipment] = field(default_factory=deque)

    def room(self, ready_each: int) -> int:
        """The number of further messages to lease for it."""
        ready_wanted = self.window * ready_each if self.is_proven else 0
        return self.window + ready_wanted - self.under_way - len(self.ready)

    def learn(self, http_status: int | None, seconds: float) -> None:
        """Adjust the limit to the outcome of the last request."""
        if http_status is None:
            self.window, self.is_proven = 1, False
            return
        self.is_proven = True
        if http_status in _OVERLOADED:
            self.window = max(1, self.window // 2)
        elif self.window < _WINDOW:
            self.window = _WINDOW
        elif self.window < _WIDEST and seconds > self.window * _PACE_SECONDS:
            self.window += 1


class Deliveries:
    """Leases due messages, sends them and stores the outcomes, many in one commit.

    `step` does what can be done now, `wait` returns when there may be more to do. Requests continue in between. `close`
    gives back leased messages that were not sent; after a crash they are sent once their lease has expired.
    """

    def __init__(self, host: JobHost) -> None:
        self._host = host
        self._guard = threading.Lock()
        self._endpoints: dict[str, _Endpoint] = {}
        self._under_way = 0
        self._unproven = 0
        self._finished: list[_Shipment] = []
        self._unsent: list[_Shipment] = []
        self._news = threading.Event()
        self._hurry = threading.Event()
        self._closing = False
        self._next: datetime | None = None
        self._yields = False
        self._seen = (time.monotonic(), host.serving_seconds)
        # The CPU time of the waiting thread, which may not be the thread that created this object.
        self._spent: float | None = None
        self._stocked: dict[str, _Endpoint] = {}
        self._backlog: frozenset[str] = frozenset()
        self._warned = Throttle(_BETWEEN_WARNINGS)
        self.failures: list[tuple[Job, Exception]] = []
        self.tried = 0

    @property
    def is_busy(self) -> bool:
        """Whether requests are in flight, or results not stored yet."""
        with self._guard:
            return bool(self._under_way or self._finished or self._unsent)

    def wake(self) -> None:
        """End a `wait`."""
        self._news.set()
        self._hurry.set()

    def wait(self, seconds: float | None) -> None:
        """Wait until there may be something to do, at most this many seconds (None: while requests are in flight)."""
        if seconds is None:
            if not self._under_way:
                return
        else:
            self._yield_to_others()
        if seconds is not None and self._next is not None:
            seconds = min(seconds, max(0.0, (self._next - self._host.clock.now()).total_seconds()))
        self._news.wait(seconds)
        if self._under_way or seconds is not None:
            # Results that follow soon can share a commit, if nothing could be sent meanwhile.
            self._hurry.wait(_GATHER_SECONDS)
        self._news.clear()
        self._hurry.clear()

    def _yield_to_others(self) -> None:
        instant, served = time.monotonic(), self._host.serving_seconds
        elapsed = instant - self._seen[0]
        if elapsed >= _BUSY_SAMPLE_SECONDS:
            self._yields = (served - self._seen[1]) / elapsed >= _BUSY or self._host.contention >= _TAKEN
            self._seen = (instant, served)
        before, self._spent = self._spent, time.thread_time()
        if self._yields and before is not None:
            time.sleep(min(_LONGEST_PAUSE, (self._spent - before) / _DISPATCHING / _PART))

    def step(self, now: datetime | None = None, *, immediate: bool = False) -> int:
        """Store results and take messages due at `now` (by default the clock's); returns the number of both."""
        instant = now or self._host.clock.now()
        with self._guard:
            finished, unsent = self._finished[:], self._unsent[:]
        if not finished and not unsent and not self._may_lease(instant):
            return 0
        leased, failed = self._commit(finished, unsent, instant, immediate)
        for message in failed:
            self._warn(message, instant)
        self._sign_and_send(leased, instant)
        self.tried += len(leased)
        return len(finished) + len(leased)

    def _warn(self, message: WebhookMessage, instant: datetime) -> None:
        """Log each message that was given up, and a failing endpoint once an hour: more failures follow while it is
        down.
        """
        if message.status == MessageStatus.FAILED or self._warned.passes(message.webhook_endpoint_id, instant):
            _log_failure(message)

    def close(self) -> None:
        """Wait for the requests in flight, store their results, and give back the other messages."""
        with self._guard:
            self._closing = True
            for endpoint in self._stocked.values():
                self._unsent += endpoint.ready
                endpoint.ready.clear()
            self._stocked.clear()
        while self.is_busy:
            self.step()
            self.wait(None)

    # Leasing and storing

    def _may_lease(self, instant: datetime) -> bool:
        self._look_ahead(self._host.ask(lambda tx: tx.jobs.lanes(DELIVERY_LANES)), instant)
        return self._next is not None and self._next <= instant

    def _look_ahead(self, lanes: dict[str, datetime], instant: datetime) -> None:
        """Find the next instant with messages to lease, and the endpoints with more messages than room."""
        rooms = self._rooms(lanes)
        self._next = min((due for lane, due in lanes.items() if rooms.get(lane)), default=None)
        self._backlog = frozenset(lane for lane, due in lanes.items() if due <= instant)
        if len(self._endpoints) > _MOST_KNOWN:
            with self._guard:
                self._endpoints = {
                    lane: endpoint
                    for lane, endpoint in self._endpoints.items()
                    if lane in lanes or endpoint.under_way or endpoint.ready
                }

    def _rooms(self, lanes: Iterable[str]) -> dict[str, int]:
        """The number of messages to lease for each of these endpoints."""
        with self._guard:
            if self._closing:
                return {}
            stocked = self._stocked.values()
            left = _READY_AT_MOST - sum(len(endpoint.ready) for endpoint in stocked)
            unproven = _UNPROVEN_AT_ONCE - self._unproven
            unproven -= sum(len(endpoint.ready) for endpoint in stocked if not endpoint.is_proven)
            rooms: dict[str, int] = {}
            for lane in lanes:
                endpoint = self._endpoints.get(lane) or _Endpoint()
                room = min(endpoint.room(1 if self._yields else _READY_EACH), left)
                if not endpoint.is_proven:
                    room = min(room, unproven)
                    unproven -= max(0, room)
                rooms[lane] = max(0, room)
                left -= rooms[lane]
            return rooms

    def _commit(
        self, finished: list[_Shipment], unsent: list[_Shipment], instant: datetime, immediate: bool
    ) -> tuple[list[_Leased], list[WebhookMessage]]:
        """Store these results, give back these messages, and lease as many as there is room for, all in one commit."""

        def act(tx: Transaction) -> tuple[list[_Leased], list[WebhookMessage], list[tuple[Job, Exception]]]:
            failed = [message for shipment in finished if (message := self._note(tx, shipment)) is not None]
            tx.jobs.give_back([shipment.job for shipment in unsent])
            leased, failures = self._lease(tx, instant, immediate)
            return leased, failed, failures

        try:
            leased, failed, failures = self._host.transact(act)
        except Exception:
            if not finished:
                raise
            # One of them may have failed the commit: retry each by itself.
            return [], self._note_each(finished, instant)
        self._drop(finished, unsent)
        self.failures += failures
        return leased, failed

    def _note_each(self, finished: list[_Shipment], instant: datetime) -> list[WebhookMessage]:
        failed: list[WebhookMessage] = []
        for shipment in finished:
            try:
                message = self._host.transact(partial(self._note, shipment=shipment))
            except Exception as problem:
                self._postpone(shipment.job, instant, problem)
            else:
                failed += [] if message is None else [message]
            self._drop([shipment], [])
        return failed

    def _drop(self, finished: list[_Shipment], unsent: list[_Shipment]) -> None:
        with self._guard:
            self._finished = [shipment for shipment in self._finished if shipment not in finished]
            self._unsent = [shipment for shipment in self._unsent if shipment not in unsent]

    def _note(self, tx: Transaction, shipment: _Shipment) -> WebhookMessage | None:
        """Store the result of an attempt; returns the message if it failed."""
        scoped = tx.scoped(shipment.job.organization_id)
        work = self._host.work_of(scoped, shipment.job.organization_id, self._host.clock.now())
        message = webhooks.note_attempt(work, shipment.job, shipment.attempt, shipment.http_status, shipment.response)
        return message if message is not None and message.status != MessageStatus.SUCCEEDED else None

    def _postpone(self, job: Job, instant: datetime, problem: Exception) -> None:
        self._host.transact(lambda tx: self._host.postpone(tx, job, instant, problem))
        self.failures.append((job, problem))

    def _lease(
        self, tx: Transaction, instant: datetime, immediate: bool
    ) -> tuple[list[_Leased], list[tuple[Job, Exception]]]:
        lanes = [lane for lane, due in tx.jobs.lanes(DELIVERY_LANES).items() if due <= instant]
        until = max(instant, self._host.clock.now()) + self._host.lease_of(DeliverWebhook.kind)
        leased: list[_Leased] = []
        failures: list[tuple[Job, Exception]] = []
        for lane, room in self._rooms(lanes).items():
            for job in tx.jobs.lease(lane, instant, until, at_most=room, immediate=immediate) if room else ():
                scoped = tx.scoped(job.organization_id)
                try:
                    work = self._host.work_of(scoped, job.organization_id, instant)
                    organizations.check_enabled(work.organization)
                    attempt = webhooks.prepare(work, task_of(DeliverWebhook, job)) if self._host.delivers else None
                except Exception as problem:
                    self._host.postpone(tx, job, instant, problem)
                    failures.append((job, problem))
                    continue
                if attempt is None:
                    # Deleted, already delivered, or not to be delivered.
                    tx.jobs.complete(job)
                else:
                    leased.append((job, attempt))
        self._look_ahead(tx.jobs.lanes(DELIVERY_LANES), instant)
        return leased, failures

    # Sending

    def _sign_and_send(self, leased: list[_Leased], instant: datetime) -> None:
        send_before = time.monotonic() + self._host.lease_of(DeliverWebhook.kind).total_seconds() / 2
        for job, attempt in leased:
            try:
                keyed = self._keyed(job, attempt)
                shipment = _Shipment(job, keyed, webhooks.signed_headers(keyed), send_before)
            except Exception as problem:
                self._postpone(job, instant, problem)
                continue
            with self._guard:
                if self._closing:
                    self._unsent.append(shipment)
                    continue
                endpoint = self._endpoints.setdefault(job.lane, _Endpoint())
                endpoint.ready.append(shipment)
                self._stocked[job.lane] = endpoint
                chosen = self._choose()
            self._send(chosen)

    def _keyed(self, job: Job, attempt: webhooks.Attempt) -> webhooks.Attempt:
        """The attempt with its key pair, which is made for an organization's first message."""
        if attempt.keys:
            return attempt
        now = self._host.clock.now()
        owner = self._host.ask(lambda tx: self._host.work_of(tx, job.organization_id, now).organization)
        return replace(attempt, keys=(self._host.writing(webhooks.signing_key, owner),))

    def _choose(self) -> list[tuple[_Endpoint, _Shipment]]:
        """The messages to send now, taking the endpoints in turn; they count as in flight."""
        chosen: list[tuple[_Endpoint, _Shipment]] = []
        turns = deque(self._stocked)
        while turns and self._under_way < _AT_ONCE:
            lane = turns.popleft()
            endpoint = self._stocked[lane]
            if endpoint.under_way >= endpoint.window:
                continue
            if not endpoint.is_proven and self._unproven >= _UNPROVEN_AT_ONCE:
                continue
            shipment = endpoint.ready.popleft()
            # To the end of the queue: the next turn is another endpoint's.
            del self._stocked[lane]
            if endpoint.ready:
                self._stocked[lane] = endpoint
                turns.append(lane)
            shipment.sent_at = time.monotonic()
            if shipment.sent_at > shipment.send_before:
                # Its lease may expire before the answer comes, and another worker would send it too.
                self._unsent.append(shipment)
                self._news.set()
                continue
            shipment.is_unproven = not endpoint.is_proven
            endpoint.under_way += 1
            self._under_way += 1
            self._unproven += shipment.is_unproven
            chosen.append((endpoint, shipment))
        return chosen

    def _send(self, chosen: list[tuple[_Endpoint, _Shipment]]) -> None:
        # Outside the guard: a request that is already answered calls back at once, in this thread.
        for endpoint, shipment in chosen:
            answer = self._host.courier.send(shipment.attempt, shipment.headers)
            answer.add_done_callback(partial(self._arrived, endpoint, shipment))

    def _arrived(self, endpoint: _Endpoint, shipment: _Shipment, done: Future[Answer]) -> None:
        is_canceled = False
        try:
            answer = done.result()
            shipment.http_status = answer.status
            shipment.response = answer.body.decode(errors="replace").replace("\0", "")
        except CancelledError:
            is_canceled = True
        except Exception as problem:
            # Any error between here and the receiver is a failed attempt, never an endless one.
            shipment.response = f"{type(problem).__name__}: {problem}"
        with self._guard:
            endpoint.under_way -= 1
            self._under_way -= 1
            self._unproven -= shipment.is_unproven
            if is_canceled:
                # Cancelled by us, which says nothing about the receiver.
                self._unsent.append(shipment)
            else:
                self._finished.append(shipment)
                endpoint.learn(shipment.http_status, time.monotonic() - shipment.sent_at)
            if not endpoint.is_proven:
                # They would wait long: other workers may take them.
                self._unsent += endpoint.ready
                endpoint.ready.clear()
                self._stocked.pop(shipment.job.lane, None)
            chosen = self._choose()
            needs_more = shipment.job.lane in self._backlog and len(endpoint.ready) < endpoint.window
        self._send(chosen)
        self._news.set()
        if needs_more:
            self._hurry.set()


def _log_failure(message: WebhookMessage) -> None:
    _log.warning(
        "webhook_given_up" if message.status == MessageStatus.FAILED else "webhook_failing",
        message=message.id,
        webhook_type=message.webhook_type,
        endpoint=message.webhook_endpoint_id,
        attempts=message.retries,
        http_status=message.http_status,
    )
