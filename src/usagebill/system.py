"""`System`: the store, the clock, the services outside and the jobs behind a `Billing`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

from usagebill.core.activity_logs import LIBRARY, SYSTEM, Actor, Change
from usagebill.core.errors import BillingError, Forbidden, ThirdPartyError
from usagebill.core.jobs import ATTEMPTS, Job, retry_delay
from usagebill.core.organizations import Organization
from usagebill.core.payment_tasks import AskPaymentProvider, CollectPayment
from usagebill.core.sync_connections import PushDocument
from usagebill.core.tasks import AskTaxProvider, BillCustomer, CheckVatNumber, DeliverWebhook
from usagebill.operations import organizations
from usagebill.operations.change_logs import log_changes
from usagebill.operations.jobs import note_failure, perform
from usagebill.outside.answers import answering
from usagebill.outside.bridge import Bridge, HttpBridge
from usagebill.outside.calls import Calls
from usagebill.outside.delivery import Deliveries, HttpCourier
from usagebill.outside.handlers import CALLS, OUTSIDE
from usagebill.outside.job_batches import Batch, JobFailed
from usagebill.outside.job_host import PaymentProviders
from usagebill.outside.mail import Mailer, SmtpMailer, Undelivered
from usagebill.outside.payment_providers.kinds import HttpPaymentProviders
from usagebill.outside.tax_provider import HttpTaxProvider, TaxProvider
from usagebill.outside.vat_registry import HttpVatRegistry, VatRegistry
from usagebill.process.event_loops import warn_if_blocking
from usagebill.process.json_text import JsonObject, with_prefix
from usagebill.process.logs import Log, plain_traceback
from usagebill.process.settings import MailServer, Settings
from usagebill.queries import billing_runs
from usagebill.records import plain, presented, view_of
from usagebill.runtime.ahead import Ahead, Wanted
from usagebill.runtime.clock import Clock, ClockWatch, ManualClock, ServerClock, SystemClock
from usagebill.runtime.presence import Presence
from usagebill.runtime.runs import Runs, compute
from usagebill.runtime.work import Answers, Reader, Terms, TrialWanted, Work
from usagebill.storage.failures import failure_of
from usagebill.storage.ports import AS_NEEDED, Opening, Snapshot, Store, Transaction
from usagebill.storage.stores import store_at

T = TypeVar("T")

# The most jobs that share one commit.
_BATCH = 64
# The seconds that a batch may hold the write lock: if no writer of this process is waiting (waiters of other processes
# cannot be seen), and if one is; and for how long a worker then leaves it alone: those who wait for a file try every
# millisecond.
_LONGEST = 0.013
_OTHERS_WAIT = 0.01
_LEFT_ALONE = 0.002
# The least time for which no other worker takes a job that makes a request, and the time for one that draws, counts or
# sends e-mails: so long it waits after a crash.
_SHORT_LEASE = timedelta(minutes=1)
_LONG_LEASE = timedelta(minutes=5)
# When jobs of a disabled organization are tried again.
_STANDS_STILL = datetime(9999, 1, 1, tzinfo=UTC)
# The default actors: library callers, and the system while it runs leased jobs.
_ACTOR = ContextVar("usagebill_actor", default=LIBRARY)
_log = Log("usagebill.jobs")


class System:
    """A billing system at work, for the modules around `Billing` (which says what the arguments mean)."""

    def __init__(
        self,
        path: str | Path | Store = ":memory:",
        *,
        organization: str | None = None,
        schema: str | None = None,
        clock: Clock | None = None,
        settings: Settings | None = None,
        on_message: Callable[[JsonObject], None] | None = None,
        deliver: bool = True,
        vat_registry: VatRegistry | None = None,
        mailer: Mailer | None = None,
        tax_provider: TaxProvider | None = None,
        bridge: Bridge | None = None,
        payment_providers: PaymentProviders | None = None,
        read_only: bool = False,
        events: str | None = None,
        opening: Opening = AS_NEEDED,
        version: str,
    ) -> None:
        self.settings = settings or Settings()
        if isinstance(path, (str, Path)):
            path = store_at(path, schema=schema, read_only=read_only, events=events, opening=opening)
        elif schema is not None:
            raise ValueError("an open store has its schema")
        self.store: Store = path
        self._read_only = read_only
        shared = self.store.now
        self.clock: Clock = clock or (SystemClock() if shared is None else ServerClock(shared))
        self.roll_up_usage, self.ship_events = self.store.roll_up_usage, self.store.ship_events
        self.clock_watch = ClockWatch(self.store, self.clock, timedelta(days=self.settings.clock_ahead_days))
        self.presence = Presence(self.store, self.clock, version)
        self._on_message = on_message
        self.delivers = deliver
        self._courier: HttpCourier | None = None
        self._http_registry: HttpVatRegistry | None = None
        if vat_registry is None and deliver and self.settings.vat_registry_url:
            self._http_registry = HttpVatRegistry(self.settings.vat_registry_url, self.settings.vat_registry_timeout)
        self.vat_registry: VatRegistry | None = vat_registry or self._http_registry
        if mailer is None and deliver and self.settings.smtp_url:
            mailer = SmtpMailer(MailServer.at(self.settings.smtp_url), self.settings.smtp_timeout)
        self.mailer: Mailer | None = mailer
        self._http_tax_provider: HttpTaxProvider | None = None
        if tax_provider is None and deliver:
            self._http_tax_provider = HttpTaxProvider(self.settings.tax_provider_timeout)
        self.tax_provider: TaxProvider | None = tax_provider or self._http_tax_provider
        self._http_bridge: HttpBridge | None = None
        if bridge is None and deliver:
            self._http_bridge = HttpBridge(self.settings.bridge_timeout, self.settings.id_prefix)
        self.bridge: Bridge | None = bridge or self._http_bridge
        self._http_payment_providers: HttpPaymentProviders | None = None
        if payment_providers is None and deliver:
            self._http_payment_providers = HttpPaymentProviders(self.settings.payment_provider_timeout)
        self.payment_providers: PaymentProviders | None = payment_providers or self._http_payment_providers
        # The seconds of the longest request of a kind of job.
        self._longest_requests = {
            DeliverWebhook.kind: self.settings.webhook_timeout,
            CheckVatNumber.kind: self.settings.vat_registry_timeout,
            AskTaxProvider.kind: self.settings.tax_provider_timeout,
            PushDocument.kind: self.settings.bridge_timeout,
            CollectPayment.kind: self.settings.payment_provider_timeout,
            AskPaymentProvider.kind: self.settings.payment_provider_timeout,
        }
        self.serving_seconds = 0.0
        self._last_batch = 0
        self._wakes: list[tuple[Callable[[], None], str | None]] = []
        find = self.store.read if read_only else self.store.write
        opened = find(None, lambda tx: self._opened(tx, organization))
        self.organization = opened or find(None, self._founded)
        self.ship_events()
        self.clock_watch.problem()  # logged once, however the file is used

    def _opened(self, tx: Transaction, id: str | None) -> Organization | None:
        if id is not None:
            return self._organization(tx, id)
        return next(iter(organizations.find_all(tx)), None)

    def _founded(self, tx: Transaction) -> Organization:
        # Another process that opens the same empty database waits here until this one has created the organization.
        # Taken before the query, because a transaction does not repeat one.
        tx.next_number("organizations")
        oldest = next(iter(organizations.find_all(tx)), None)
        return oldest or organizations.create(tx, self.clock.now(), "Default organization")

    def _organization(self, tx: Snapshot, id: str) -> Organization:
        if (organization := tx.get(Organization, id)) is None:
            raise LookupError(f"no organization {id}")
        return organization

    def close(self) -> None:
        """Close the store; it cannot be used afterwards."""
        self.presence.end()
        clients = (self._courier, self._http_registry, self._http_tax_provider, self._http_bridge)
        for client in (*clients, self._http_payment_providers):
            if client is not None:
                client.close()
        self.store.close()

    @property
    def courier(self) -> HttpCourier:
        self._courier = self._courier or HttpCourier(self.settings.webhook_timeout)
        return self._courier

    def _work(
        self,
        tx: Transaction,
        organization: Organization,
        now: datetime,
        answers: Answers | None = None,
        ahead: Ahead | None = None,
        actor: Actor = SYSTEM,
    ) -> Work:
        return Work(
            tx,
            organization,
            now,
            self.settings,
            **self._terms(),
            actor=actor,
            answers=answers,
            ahead=ahead,
        )

    def _terms(self) -> Terms:
        listening, mailing = self._on_message is not None, self.mailer is not None
        return Terms(perform=perform, log=self._log_changes, listening=listening, mailing=mailing, clock=self.clock.now)

    def _log_changes(self, work: Work, changes: Sequence[Change]) -> None:
        log_changes(work, changes, self.clock.now())

    def _tell(self, messages: list[JsonObject]) -> None:
        if self._on_message is not None:
            for message in messages:
                self._on_message(message)

    @contextmanager
    def _serving(self) -> Iterator[None]:
        began = monotonic()
        try:
            yield
        finally:
            self.serving_seconds += monotonic() - began

    def reading(self, question: Callable[[Reader], T], organization: Organization | None = None) -> T:
        """Run a query on one consistent snapshot."""
        warn_if_blocking()
        chosen = organization or self.organization

        def ask(answers: Answers) -> T:
            def look(tx: Snapshot) -> T:
                now = self.clock.now()
                return question(Reader(tx, chosen, now, self.settings, answers=answers, can_try=not self._read_only))

            return self.store.read(chosen.id, look)

        def ask_in_trial(answers: Answers) -> T:
            def look(tx: Transaction) -> T:
                return self._work(tx, chosen, self.clock.now(), answers).dry_run(question)

            return self.store.write(chosen.id, look)

        with self._serving():
            try:
                return answering(ask, self, chosen)
            except TrialWanted:
                return answering(ask_in_trial, self, chosen)

    def writing(
        self, change: Callable[[Work], T], organization: Organization | None = None, *, actor: Actor | None = None
    ) -> T:
        """Make a change, all or nothing; durable once this returns. Logs say that the `actor` made it.

        Raises `ClockRefused` if the machine's clock is behind what the file has seen, or far ahead of it.
        """
        warn_if_blocking()
        self.clock_watch.check()
        self.presence.touch()
        chosen = organization or self.organization
        runs = Runs(self.store, self.settings, chosen)

        def attempt(answers: Answers) -> tuple[T, Work]:
            def act(tx: Transaction) -> tuple[T, Work]:
                now = self.clock.now()
                self.clock_watch.note(tx, now)
                organizations.check_enabled(tx.get(Organization, chosen.id))
                at = runs.begin(tx, now)
                acting = actor or _ACTOR.get()
                work = self._work(tx, chosen, at, answers, runs.ahead, actor=acting)
                try:
                    result = change(work)
                except Wanted as wanted:
                    runs.note(tx, wanted)
                    raise
                work.log_changes()
                return result, work

            return runs.repeated(lambda: self.store.write(chosen.id, act), answers)

        try:
            with self._serving():
                result, work = answering(attempt, self, chosen)
        except ThirdPartyError as problem:
            if problem.note is not None:
                self.writing(problem.note, chosen)
            raise
        self._pass(work.divides_time)
        self._tell(work.messages)
        self._wake(work.immediate_kinds)
        return result

    def _pass(self, divides_time: bool) -> None:
        """Let time pass after usage was billed or charges changed: what is received from now on came after that."""
        if divides_time and isinstance(self.clock, ManualClock):
            self.clock.tick()

    @property
    def entitling_commits(self) -> int:
        """The number of commits of this process that may have changed the entitlements of the organization's
        subscriptions.
        """
        return self.store.entitling_commits(self.organization.id)

    def view(self, record: object) -> Any:
        """The result of an operation as the HTTP API's JSON, ready for `json.dumps`; a page is a list.

        A number that a float cannot hold exactly becomes a string with all its digits.
        """

        shown = self.reading(lambda reader: view_of(reader, record))
        return plain(with_prefix(shown, "svc_", self.settings.id_prefix))

    def presented(self, result: Any, again: Callable[[int], Any]) -> Any:
        """The result of an operation as library users get it: records with all API fields, pages that continue."""
        return presented(self, result, again)

    # Jobs

    def on_immediate(self, wake: Callable[[], None], *, kind: str | None = None) -> Callable[[], None]:
        """Call `wake` after each change that leaves an immediate job, until the returned function is called.

        `kind` is a kind of outside job, or "" for all other jobs; without it, all count.
        """
        entry = (wake, kind)
        self._wakes.append(entry)
        return lambda: self._wakes.remove(entry)

    def _wake(self, kinds: Set[str]) -> None:
        for wake, kind in tuple(self._wakes):
            if kinds and (kind is None or kind in kinds):
                wake()

    def next_due(self, *, leased: bool | None = None, kind: str | None = None) -> datetime | None:
        """The instant when the next job is due (of the outside jobs only, or of the others only, if requested).

        `kind` limits it to one kind of outside job.
        """
        if kind is not None:
            return self.store.read(None, lambda tx: tx.jobs.earliest([kind])).get(kind)
        return self.store.read(None, lambda tx: tx.jobs.next_due(leased=leased))

    def run_due(
        self,
        now: datetime | None = None,
        *,
        immediate: bool = False,
        strict: bool = False,
        on_failure: Callable[[Job, Exception], None] | None = None,
    ) -> int:
        """Run every job that is due at `now` (by default the clock's), in order, and return how many were tried.

        `immediate` runs only jobs that follow directly from an operation. A job that fails is retried later and does
        not hold up the others; `on_failure` is called. `strict` raises `JobFailed` instead.
        """
        now = now or self.clock.now()
        done = 0
        while True:
            tried = self.run_batch(now, immediate=immediate, strict=strict, on_failure=on_failure)
            while self.reach_out(now, immediate=immediate, strict=strict, on_failure=on_failure):
                tried += 1
            tried += self._deliver_due(now, immediate=immediate, strict=strict, on_failure=on_failure)
            if not tried:
                while not immediate and (self.roll_up_usage() or self.ship_events()):
                    pass
                return done
            done += tried

    def run_batch(
        self,
        now: datetime | None = None,
        *,
        immediate: bool = False,
        strict: bool = False,
        on_failure: Callable[[Job, Exception], None] | None = None,
    ) -> int:
        """Run some of the due jobs in one commit; returns how many were tried, 0 if none was due.

        Many while no other writer waits, few otherwise, so that requests do not wait. Raises `ClockRefused` if the
        machine's clock is behind the newest instant in the file, or far ahead of it.
        """
        self.clock_watch.check()
        instant = now or self.clock.now()
        # What was computed for the job that comes first, by its id.
        computed: dict[str, Ahead] = {}

        def act(tx: Transaction) -> Batch:
            batch = Batch()
            start, spent = monotonic(), 0.0
            # The customers whose records have been read together.
            preloaded: set[str] = set()
            self.clock_watch.note(tx, self.clock.now())
            while batch.done < _BATCH:
                before, spent = spent, monotonic() - start + tx.unsent_seconds
                # The next jobs may take as long as the last. One is run in any case: zero would mean that none was due.
                if batch.done and (2 * spent - before > _LONGEST or (spent > _OTHERS_WAIT and self.store.is_awaited())):
                    batch.is_cut = True
                    break
                job = tx.jobs.claim(instant, immediate=immediate)
                if job is None:
                    break
                ahead = computed.get(job.id) or Ahead()
                act_on = partial(self._do, tx, job, ahead)
                if job.kind == BillCustomer.kind:
                    if job.subject_id not in preloaded:
                        preloaded |= self._preload(tx.scoped(job.organization_id), instant)
                    act_on = partial(tx.unchecked, act_on)
                try:
                    work = tx.savepoint(act_on)
                    batch.done += 1
                    batch.messages += work.messages
                    batch.kinds |= work.immediate_kinds
                    batch.divides_time |= job.immediate and work.divides_time
                except Wanted as wanted:
                    batch.wanted = job, ahead, wanted
                    break
                except Exception as problem:
                    if failure_of(problem) is not None:
                        # Of the database, not of the job, which is done as soon as it works again.
                        raise
                    batch.done += 1
                    # With what it wrote, the transaction has forgotten what it had read.
                    preloaded.clear()
                    if strict:
                        raise JobFailed(job) from problem
                    self.postpone(tx, job, instant, problem)
                    batch.failures.append((job, problem))
            return batch

        while True:
            due = self.next_due(leased=False)
            if due is None or due > instant:
                self.clock_watch.keep()
                return 0
            batch = self.store.write(None, act)
            self._last_batch = batch.done
            # Whatever a later one than the first wants, it wants again as the first of the next batch.
            if batch.done or batch.wanted is None:
                break
            job, ahead, wanted = batch.wanted
            self._compute(job, ahead, wanted)
            computed = {job.id: ahead}
        if batch.is_cut and self.store.reads_beside_writes:
            sleep(_LEFT_ALONE)
        self._pass(batch.divides_time)
        self._tell(batch.messages)
        if on_failure is not None:
            for job, problem in batch.failures:
                on_failure(job, problem)
        # A failed job may have left work to do too.
        self._wake(batch.kinds | {""} if batch.failures else batch.kinds)
        return batch.done

    def _preload(self, tx: Transaction, instant: datetime) -> set[str]:
        """Read at once what the next billing runs of an organization will ask for; returns their customers."""
        # As many as the last batch got to.
        ready = tx.jobs.ready(instant, self._last_batch)
        customers = {job.subject_id for job in ready if job.kind == BillCustomer.kind}
        if len(customers) > 1:
            billing_runs.preload(tx, sorted(customers))
        return customers

    def _do(self, tx: Transaction, job: Job, ahead: Ahead) -> Work:
        scoped = tx.scoped(job.organization_id)
        organization = self._organization(scoped, job.organization_id)
        organizations.check_enabled(organization)
        ahead.begin()
        # In memory, nothing is written during a count.
        work = self._work(scoped, organization, job.due_at, ahead=ahead if self.store.reads_beside_writes else None)
        perform(work, job)
        work.log_changes()
        return work

    def _compute(self, job: Job, ahead: Ahead, wanted: Wanted) -> None:
        """Compute on a snapshot what a job wants, for its next run."""
        organization = self.store.read(None, lambda tx: self._organization(tx, job.organization_id))
        compute(self.store, organization, self.settings, ahead, wanted, Answers())

    def postpone(self, tx: Transaction, job: Job, now: datetime, problem: Exception) -> None:
        """Schedule the retry of a failed job, or leave it to an operator once it has failed too often.

        A failure of the database is not the job's: the job is tried again soon, and no attempt is counted. Nor is it
        that its organization is disabled: the job waits until that is enabled again.
        """
        if isinstance(problem, Forbidden) and problem.code == organizations.DISABLED:
            tx.jobs.postpone(job, _STANDS_STILL, problem.code, counts=False)
            return
        if (failure := failure_of(problem)) is not None:
            tx.jobs.postpone(job, now + timedelta(seconds=failure.retry_after), str(failure), counts=False)
            return
        most = problem.ATTEMPTS if isinstance(problem, Undelivered) else ATTEMPTS
        failed = job.attempts + 1 >= most or (isinstance(problem, Undelivered) and problem.final)
        reason = f"{type(problem).__name__}: {problem}"
        tx.jobs.postpone(job, now + retry_delay(job.attempts + 1), reason, failed=failed)
        known: dict[str, object] = {"kind": job.kind, "subject": job.subject_id}
        known |= {"due_at": job.due_at.isoformat(), "attempt": job.attempts + 1}
        details = {} if isinstance(problem, (BillingError, Undelivered)) else {"exception": plain_traceback(problem)}
        _log.error("job_failed", **known, reason=reason, **details)
        try:
            tx.savepoint(partial(self._note_failure, tx, job, now, reason))
        except Exception as other:
            # Whatever failed the job may fail this entry too; the job and the log still show it.
            _log.error("failure_not_shown", **known, exception=plain_traceback(other))

    def _note_failure(self, tx: Transaction, job: Job, now: datetime, reason: str) -> None:
        scoped = tx.scoped(job.organization_id)
        work = self._work(scoped, self._organization(scoped, job.organization_id), now)
        note_failure(work, job, reason)
        work.log_changes()

    def reach_out(
        self,
        now: datetime | None = None,
        *,
        kinds: Iterable[str] | None = None,
        immediate: bool = False,
        strict: bool = False,
        on_failure: Callable[[Job, Exception], None] | None = None,
    ) -> int:
        """Run one due leased job while no transaction is open; returns 1, or 0 if none was due.

        It is of one of these kinds, by default any in `OUTSIDE` and `CALLS`. No other worker takes it unless this one
        dies.
        """
        self.clock_watch.check()
        instant = now or self.clock.now()
        wanted = (*OUTSIDE, *CALLS) if kinds is None else tuple(kinds)

        def due(tx: Transaction) -> list[str]:
            lanes = tx.jobs.earliest(wanted)
            return [lane for lane in sorted(lanes, key=lanes.__getitem__) if lanes[lane] <= instant]

        for lane in self.store.read(None, due):
            act = self._call if lane in CALLS else self._perform_leased
            done, failures = act(lane, instant, immediate)
            for job, problem in failures:
                if strict:
                    raise JobFailed(job) from problem
                if on_failure is not None:
                    on_failure(job, problem)
            if done:
                return 1
        return 0

    def _call(self, kind: str, instant: datetime, immediate: bool) -> tuple[int, list[tuple[Job, Exception]]]:
        calls = Calls(self, CALLS[kind])
        return calls.step(instant, immediate=immediate), calls.failures

    def _perform_leased(self, lane: str, instant: datetime, immediate: bool) -> tuple[int, list[tuple[Job, Exception]]]:
        # The instant may be the start of a long run of jobs.
        until = max(instant, self.clock.now()) + self.lease_of(lane)
        jobs = self.store.write(None, lambda tx: tx.jobs.lease(lane, instant, until, immediate=immediate))
        if not jobs:
            return 0, []
        job = jobs[0]
        try:
            organization = self.store.read(None, lambda tx: self._organization(tx, job.organization_id))
            organizations.check_enabled(organization)
            acting = _ACTOR.set(SYSTEM)
            try:
                OUTSIDE[job.kind].perform(self, organization, job)
            finally:
                _ACTOR.reset(acting)
        except Exception as problem:
            failure = problem
            self.store.write(None, lambda tx: self.postpone(tx, job, instant, failure))
            return 1, [(job, problem)]
        return 1, []

    def calls(self, kind: str, at_once: int) -> Calls:
        """The runner of one kind of `CALLS`, `at_once` at a time, driven step by step; the caller closes it."""
        return Calls(self, CALLS[kind], at_once=at_once)

    def deliveries(self) -> Deliveries:
        """The webhook sender, driven step by step; the caller closes it."""
        return Deliveries(self)

    def _deliver_due(
        self,
        now: datetime | None,
        *,
        immediate: bool,
        strict: bool,
        on_failure: Callable[[Job, Exception], None] | None,
    ) -> int:
        """Deliver every due message and wait for the answers; returns the number attempted."""
        deliveries = self.deliveries()
        try:
            while deliveries.step(now, immediate=immediate) or deliveries.is_busy:
                deliveries.wait(None)
        finally:
            deliveries.close()
        for job, problem in deliveries.failures:
            if strict:
                raise JobFailed(job) from problem
            if on_failure is not None:
                on_failure(job, problem)
        return deliveries.tried

    # The interface of leased jobs: `JobHost`

    def lease_of(self, kind: str) -> timedelta:
        """How long no other worker takes a leased job of this kind.

        A request is made in the first half of its lease, and answered in the second. Jobs that take several requests
        may outlast it: then the same requests are sent twice, with the same keys.
        """
        seconds = self._longest_requests.get(kind)
        return _LONG_LEASE if seconds is None else max(_SHORT_LEASE, timedelta(seconds=2 * seconds))

    def transact(self, change: Callable[[Transaction], T]) -> T:
        """Make a change across organizations."""
        return self.store.write(None, change)

    def share(self, change: Callable[[Transaction, datetime], tuple[T, Sequence[Work]]]) -> T:
        """Make a change across organizations, and announce the messages of its units of work once it is durable."""
        self.clock_watch.check()

        def act(tx: Transaction) -> tuple[T, Sequence[Work]]:
            now = self.clock.now()
            self.clock_watch.note(tx, now)
            return change(tx, now)

        result, works = self.store.write(None, act)
        self.announce(works)
        return result

    def announce(self, works: Sequence[Work]) -> None:
        """Pass durable messages to the listeners, and wake the workers of this process."""
        for work in works:
            self._tell(work.messages)
        self._wake({kind for work in works for kind in work.immediate_kinds})

    def ask(self, question: Callable[[Transaction], T]) -> T:
        """Run a query across organizations."""
        return self.store.read(None, question)

    @property
    def contention(self) -> float:
        """The recent share of writes, from 0 to 1, for which another process held the write lock."""
        return self.store.contention

    def work_of(self, tx: Transaction, organization_id: str, now: datetime, actor: Actor = SYSTEM) -> Work:
        """A unit of work of an organization, in its own transaction."""
        return self._work(tx, self._organization(tx, organization_id), now, actor=actor)
