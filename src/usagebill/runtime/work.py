"""The unit of work: one transaction for one organization, at one instant, with everything that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self, TypedDict, TypeVar

from usagebill.core.activity_logs import LIBRARY, SYSTEM, Actor, Change
from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.price_versions import PriceChange, is_new_version, kind_name, plan_id_of
from usagebill.core.provider_requests import ProviderFailure as PaymentFailure, Request
from usagebill.core.tasks import DeliverWebhook, Task
from usagebill.core.tax_providers import ProviderFailure, ProviderTaxes, TaxConnection, TaxQuestion
from usagebill.core.webhooks import OBJECT_TYPES, WebhookEndpoint, WebhookMessage, delivery_lane, listens_to
from usagebill.process.ids import Ids, new_ids
from usagebill.process.json_text import JsonObject, encode_json, with_prefix
from usagebill.process.settings import Settings
from usagebill.requests.inputs import Paging
from usagebill.runtime.ahead import Ahead, Count, Counting
from usagebill.storage import deadline
from usagebill.storage.conditions import Condition, Order, desc
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.jobs import job_of
from usagebill.storage.ports import Page, Snapshot, Transaction

T = TypeVar("T")
R = TypeVar("R")


class TaxesWanted(Exception):
    """The work needs a tax provider's answer, which is requested while no transaction is open."""

    def __init__(self, connection: TaxConnection, question: TaxQuestion, before: Sequence[Hashable]) -> None:
        super().__init__(f"{connection.kind} is to be asked for taxes")
        self.connection = connection
        self.question = question
        # The key of a request within one unit of work: its order and subject, not the amounts, as usage may go on
        # meanwhile.
        items = tuple((item.id, item.code) for item in question.items)
        self.key: Hashable = (len(before), connection.id, question.purpose, question.currency, question.party, items)


TaxAnswers = Mapping[Hashable, ProviderTaxes | ProviderFailure]


class DrawingWanted(Exception):
    """The work needs a file that takes long to render: it is rendered while no transaction is open."""

    def __init__(self, key: Hashable, draw: Callable[[], bytes]) -> None:
        super().__init__(f"{key} is to be drawn")
        self.key = key
        self.draw = draw


Drawings = Mapping[Hashable, bytes]

A = TypeVar("A")


class ProviderWanted(Exception):
    """The work needs a payment provider's answer, which is requested while no transaction is open."""

    def __init__(
        self,
        key: Hashable,
        connection: PaymentConnection,
        request: Request[Any],
        first: Callable[[Work], object] | None = None,
    ) -> None:
        super().__init__(f"{connection.kind} is to be asked")
        self.key = key
        self.connection = connection
        self.request = request
        self.first = first


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """A request to a payment provider, and its answer, or the reason why there is none."""

    request: Request[Any]
    answer: object | PaymentFailure


ProviderAnswers = Mapping[Hashable, ProviderAnswer]


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers of outside services, and rendered files, obtained while no transaction was open."""

    taxes: TaxAnswers = field(default_factory=dict)
    drawings: Drawings = field(default_factory=dict)
    payments: ProviderAnswers = field(default_factory=dict)


class TrialWanted(Exception):
    """The answer needs a dry run, and a snapshot cannot write: it is asked for again where one can be made."""


class _Undo(Exception):
    """Raised to roll back a dry run."""


class _CountedOnce:
    """Counts what is asked for, and answers the same question from memory; see `Reader.for_one_question`."""

    def __init__(self) -> None:
        self._known: list[tuple[object, Any]] = []

    def of(self, tx: Snapshot, queries: Sequence[EventQuery], make: Count[T], *, inputs: object) -> T:
        """See `Counting`."""
        for known, result in self._known:
            if known == inputs:
                counted: T = result
                return counted
        counted = make(tx.events)
        self._known.append((inputs, counted))
        return counted


class Reader:
    """A snapshot of an organization's records, at one instant, for queries; it cannot write.

    `now` is the instant of the query: for a job, the instant it was due. Bills count the events received up to
    `known_at`, which is `now` unless it is a job's (`perform`).
    """

    def __init__(
        self,
        tx: Snapshot,
        organization: Organization,
        now: datetime,
        settings: Settings,
        *,
        answers: Answers | None = None,
        counting: Counting | None = None,
        known_at: datetime | None = None,
        can_try: bool = True,
    ) -> None:
        self._tx = tx
        self.organization = organization
        self.now = now
        self.known_at = known_at or now
        self.settings = settings
        self._answers = answers or Answers()
        self._counting = counting
        self._ids: Ids | None = None
        # Whether the query can be run again where it can write (`tried`).
        self.can_try = can_try
        self._questions: list[Hashable] = []
        self._memory: dict[object, Any] = {}

    @property
    def tx(self) -> Snapshot:
        """The organization's records and events."""
        deadline.check()
        return self._tx

    def at(self, instant: datetime, *, known_at: datetime | None = None) -> Self:
        """The same at another instant: jobs act as of the instant they were due."""
        other = copy(self)
        other.now = instant
        other.known_at = known_at or instant
        return other

    @property
    def price_version(self) -> int:
        """The newest price version."""
        return self.tx.price_version

    def as_of(self, price_version: int | None) -> Reader:
        """A reader of all definitions as they stood in that price version; None: in the oldest that is known."""
        former = self.tx.as_of(price_version or 0)
        if former is self.tx:
            return self
        reader = Reader(former, self.organization, self.now, self.settings, known_at=self.known_at)
        reader._answers, reader._ids = self._answers, self._ids
        reader._memory = self.cached(("as of", price_version or 0), dict)
        return reader

    def without_memory(self) -> Self:
        """The same with an empty cache, for one item of a long iteration."""
        other = copy(self)
        other._memory = {}
        return other

    def for_one_question(self) -> Reader:
        """A reader of the same with an empty cache, which counts the same events once however often they are asked for:
        as long as nothing is written.
        """
        reader = Reader(
            self.tx,
            self.organization,
            self.now,
            self.settings,
            answers=self._answers,
            counting=_CountedOnce(),
            known_at=self.known_at,
        )
        reader._ids = self._ids
        return reader

    def new_id(self) -> str:
        """The id of a new record; later ids sort later."""
        return self.new_ids(1)[0]

    def new_ids(self, count: int) -> list[str]:
        """As many ids, in the order they sort."""
        return new_ids(self.now, count) if self._ids is None else self._ids.take(self.now, count)

    def cached(self, key: object, make: Callable[[], T]) -> T:
        """The result of `make`, cached under `key` for this unit of work."""
        if key not in self._memory:
            self._memory[key] = make()
        value: T = self._memory[key]
        return value

    def invalidate(self, key: object) -> None:
        """Drop what is cached under `key`."""
        self._memory.pop(key, None)

    def invalidate_all(self) -> None:
        """Drop the whole cache: it may hold results of a change that was rolled back."""
        self._memory.clear()

    def counted(self, queries: Sequence[EventQuery], make: Count[T], *, inputs: object) -> T:
        """The result of `make`, which depends only on the events of `queries` and on `inputs`.

        A change under the write lock has long counts made beforehand (`usagebill.runtime.ahead`).
        """
        if self._counting is None:
            return make(self.tx.events)
        return self._counting.of(self.tx, queries, make, inputs=inputs)

    def answer_to(self, connection: TaxConnection, question: TaxQuestion) -> ProviderTaxes | ProviderFailure:
        """A tax provider's current answer, for a document that is shown and not stored.

        Raises `TaxesWanted` if it has not been asked yet: the work is rolled back, and run again with the answer.
        """
        wanted = TaxesWanted(connection, question, self._questions)
        self._questions.append(wanted.key)
        if wanted.key not in self._answers.taxes:
            raise wanted
        return self._answers.taxes[wanted.key]

    def asked(
        self,
        key: Hashable,
        connection: PaymentConnection,
        request: Request[Any],
        first: Callable[[Work], object] | None = None,
    ) -> ProviderAnswer:
        """A payment provider's answer to the request of this key, with the request that was really sent: this one may
        have other ids, made when the work was run again. `first` runs before that, in its own transaction.

        Raises `ProviderWanted` if it has not been sent yet: the work is rolled back, and run again with the answer.
        """
        if key not in self._answers.payments:
            raise ProviderWanted(key, connection, request, first)
        return self._answers.payments[key]

    def answered(self, key: Hashable) -> ProviderAnswer | None:
        """A payment provider's answer to the request of this key in this unit of work; None without a request."""
        return self._answers.payments.get(key)

    def tried(self, act: Callable[[Work], T]) -> T:
        """The result of `act`, of which nothing remains (`Work.dry_run`).

        Raises `TrialWanted` on a snapshot: the query is run again in a unit of work that is rolled back.
        """
        raise TrialWanted

    def drawn(self, key: Hashable, prepare: Callable[[], Callable[[], bytes]]) -> bytes:
        """The file of this key; `prepare` reads its contents and returns a function that renders it from those alone.

        Raises `DrawingWanted` if it has not been rendered yet: the work is rolled back, and run again with the file.
        """
        if key not in self._answers.drawings:
            raise DrawingWanted(key, prepare())
        return self._answers.drawings[key]

    def page(
        self,
        kind: type[R],
        *conditions: Condition,
        paging: Paging,
        order: Sequence[Order] = (desc("created_at"),),
        deleted: bool = False,
    ) -> Page[R]:
        """One page of the matching records, newest first unless ordered otherwise."""
        limit, offset = paging.per_page, (paging.page - 1) * paging.per_page
        items, total = self.tx.page(kind, *conditions, order=order, limit=limit, offset=offset, deleted=deleted)
        return Page(
            items=items,
            page=paging.page,
            per_page=paging.per_page,
            total_count=total.count,
            total_count_is_exact=total.is_exact,
        )


class Terms(TypedDict):
    """The dependencies of every unit of work of a billing system."""

    perform: Callable[[Work, Job], None]
    log: Callable[[Work, Sequence[Change]], None] | None
    listening: bool
    mailing: bool
    clock: Callable[[], datetime] | None


class Work(Reader):
    """What an operation works with: a reader that can write.

    Messages, jobs and logs written here commit with the operation's effects, or not at all. `perform` runs a job of any
    kind; `log` logs the changes, made by `actor`. `mailing` says whether e-mails can be sent. `clock` gives the time
    now.
    """

    def __init__(
        self,
        tx: Transaction,
        organization: Organization,
        now: datetime,
        settings: Settings,
        *,
        perform: Callable[[Work, Job], None],
        actor: Actor = LIBRARY,
        log: Callable[[Work, Sequence[Change]], None] | None = None,
        listening: bool = False,
        mailing: bool = False,
        clock: Callable[[], datetime] | None = None,
        answers: Answers | None = None,
        ahead: Ahead | None = None,
        known_at: datetime | None = None,
    ) -> None:
        super().__init__(tx, organization, now, settings, answers=answers, known_at=known_at)
        self.clock = clock
        # Whether what came before it fares otherwise than what comes after: it has billed the usage of a period, on a
        # draft or for good, or has added or removed a charge in advance.
        self.divides_time = False
        self._transaction = tx
        self._ids = None if ahead is None else ahead.ids
        self._perform = perform
        self.actor = actor
        self._log = log
        self._ahead = ahead
        self.mailing = mailing
        self.messages: list[JsonObject] = []
        self._immediate: list[Job] = []
        self._listening = listening
        self._endpoints: list[WebhookEndpoint] | None = None

    @property
    def tx(self) -> Transaction:
        """Reads and writes the organization's records and events."""
        deadline.check()
        return self._transaction

    def perform(self, job: Job) -> None:
        """Run a job now, in this unit of work and at its instant. Its actor is the system, whoever else acts here."""
        self.log_changes()
        actor, self.actor = self.actor, SYSTEM
        try:
            self._perform(self, job)
            self.log_changes()
        finally:
            self.actor = actor

    def as_of(self, price_version: int | None) -> Reader:
        self._keep_versions()
        return super().as_of(price_version)

    @property
    def price_version(self) -> int:
        """The price version that bills of this unit of work are computed from, with what it has changed itself."""
        self._keep_versions()
        return self.tx.price_version

    def _keep_versions(self) -> None:
        """Make a price version of the definitions changed since the last call, if there are any."""
        changes = [change for change in self.tx.take_redefined() if is_new_version(change)]
        if not changes:
            return
        version, actor = self.tx.price_version + 1, self.actor
        self.tx.insert(
            *(
                PriceChange(
                    id=id,
                    organization_id=self.organization.id,
                    version=version,
                    kind=kind_name(change.record),
                    record_id=change.record.id,
                    plan_id=plan_id_of(change.record),
                    before=change.old,
                    created_at=self.now,
                    source=actor.source,
                    api_key_id=None if actor.api_key is None else actor.api_key.id,
                    user_email=actor.user_email,
                    request_id=actor.request_id,
                )
                for id, change in zip(self.new_ids(len(changes)), changes, strict=True)
            )
        )

    def log_changes(self) -> None:
        """Log the changes since the last call; `Billing` calls it at the end of a unit of work."""
        self._keep_versions()
        if self._log is not None:
            changes = self.tx.take_changes()
            if changes:
                self._log(self, changes)

    @property
    def immediate_kinds(self) -> frozenset[str]:
        """The kinds of immediate jobs: outside jobs by name, all others as ""."""
        return frozenset(job.kind if job.lane else "" for job in self._immediate)

    def computed(
        self,
        key: Hashable,
        make: Callable[[Reader], T],
        *,
        inputs: object,
        customer_id: str,
        subscriptions: Callable[[], int] = lambda: 1,
    ) -> T:
        """The result of `make`, which depends on `inputs`, on records of the customer and on those that all share.

        If it bills many `subscriptions` or counts many events, this unit of work is rolled back and run again with the
        result (`usagebill.runtime.ahead`).
        """
        if self._ahead is None:
            return make(self)
        return self._ahead.result(self, key, make, inputs=inputs, customer_id=customer_id, subscriptions=subscriptions)

    def estimated(self, key: Hashable, make: Callable[[Reader], T], *, inputs: object) -> T:
        """The result of `make`, of which nothing is stored: it is made on a snapshot, and holds whatever follows."""
        return make(self) if self._ahead is None else self._ahead.estimate(self, key, make, inputs=inputs)

    def counted(self, queries: Sequence[EventQuery], make: Count[T], *, inputs: object) -> T:
        if self._ahead is None:
            return super().counted(queries, make, inputs=inputs)
        return self._ahead.count(self, queries, make, inputs=inputs)

    def dry_run(self, act: Callable[[Work], T], *, counts_ahead: bool = True) -> T:
        """The result of `act` in a nested unit of work that is rolled back: no record, message or job remains.

        It counts under the lock unless `counts_ahead`: no snapshot has the events that it stores.
        """
        results: list[T] = []

        def play() -> None:
            alone = Work(
                self.tx,
                self.organization,
                self.now,
                self.settings,
                perform=self._perform,
                answers=self._answers,
                ahead=self._ahead if counts_ahead else None,
                clock=self.clock,
                known_at=self.known_at,
            )
            results.append(act(alone))
            raise _Undo

        with suppress(_Undo):
            self.tx.savepoint(play)
        return results[0]

    def tried(self, act: Callable[[Work], T]) -> T:
        return self.dry_run(act, counts_ahead=False)

    def attempt(self, act: Callable[[], T]) -> T:
        """The result of `act`; if it raises, nothing remains of its effects, and the exception propagates."""
        emitted = len(self.messages)
        try:
            return self.tx.savepoint(act)
        except BaseException:
            del self.messages[emitted:]
            self.invalidate_all()
            raise

    def is_heard(self, webhook_type: str) -> bool:
        """Whether any endpoint listens to this message type."""
        return self._listening or any(listens_to(endpoint, webhook_type) for endpoint in self._all_endpoints())

    def emit(self, webhook_type: str, view: Callable[[], Mapping[str, Any]], object_id: str | None = None) -> None:
        """Send a message to listeners. `view` gives the object as of now."""
        if not self.is_heard(webhook_type):
            return
        endpoints = [endpoint for endpoint in self._all_endpoints() if listens_to(endpoint, webhook_type)]
        object_type = OBJECT_TYPES[webhook_type]
        body: JsonObject = {
            "webhook_type": webhook_type,
            "object_type": object_type,
            "organization_id": self.organization.id,
            object_type: view(),
        }
        body = with_prefix(body, "svc_", self.settings.id_prefix)
        self.messages.append(body)
        payload = encode_json(body).decode()
        for endpoint in endpoints:
            message = WebhookMessage(
                id=self.new_id(),
                organization_id=self.organization.id,
                webhook_endpoint_id=endpoint.id,
                webhook_type=webhook_type,
                object_type=object_type,
                object_id=object_id,
                payload=payload,
                endpoint=endpoint.webhook_url,
                created_at=self.now,
                updated_at=self.now,
            )
            self.tx.insert(message)
            self.schedule(DeliverWebhook(message_id=message.id), self.now, lane=delivery_lane(endpoint.id))

    def _all_endpoints(self) -> list[WebhookEndpoint]:
        if self._endpoints is None:
            self._endpoints = self.tx.find(WebhookEndpoint)
        return self._endpoints

    def schedule(self, task: Task, due_at: datetime, *, lane: str | None = None) -> bool:
        """Schedule the task for `due_at`, immediately if that has come; False if a job with its key is already waiting.

        A leased job waits in the lane of its kind, unless another `lane` is named.
        """
        job = job_of(
            task,
            id=self.new_id(),
            organization_id=self.organization.id,
            due_at=due_at,
            created_at=self.now,
            lane=lane,
        )
        if job.immediate:
            self._immediate.append(job)
        return self.tx.jobs.add(job)

    def cancel(self, task: Task) -> None:
        """Cancel the task: drop the waiting job with its key, if there is one."""
        self.tx.jobs.cancel(task.key)
