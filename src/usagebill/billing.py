"""`Billing`, the object that a library user opens; the HTTP service, workers and tests build on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from usagebill import __version__
from usagebill.core.activity_logs import Actor
from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.outside.bridge import Bridge
from usagebill.outside.job_host import PaymentProviders
from usagebill.outside.mail import Mailer
from usagebill.outside.provider_calls import receive_notice
from usagebill.outside.tax_provider import TaxProvider
from usagebill.outside.vat_registry import VatRegistry
from usagebill.process.json_text import JsonObject
from usagebill.process.settings import Settings
from usagebill.resources import Resources
from usagebill.runtime.clock import Clock
from usagebill.runtime.work import Reader, Work
from usagebill.storage.ports import AS_NEEDED, Opening, Store
from usagebill.system import System
from usagebill.within import Within

if TYPE_CHECKING:
    from usagebill.aio import Aio
    from usagebill.operations.audit import AuditReport

T = TypeVar("T")


class Billing(Resources):
    """A billing system in one file (in memory, or in a PostgreSQL database), seen by one of its organizations.

    `path` is a file, `:memory:`, `postgresql://...`, or an open store. `schema` names the schema of a PostgreSQL
    database in which our tables are, beside others; it is made if it is missing. `organization` is an id; without one,
    the oldest organization of the file is used, and a new file gets one named `Default organization`. `events` lists
    the URLs of ClickHouse servers that count events beside it. `on_message` receives the body of every webhook message
    once the change that caused it is durable; without `deliver` nothing is sent over a network. `vat_registry`,
    `mailer`, `tax_provider` and `payment_providers` replace those configured elsewhere. `read_only` writes nothing.
    `opening` says what may be done to the schema; by default an older one is upgraded, unless other processes are seen
    that could not go on. The operations are grouped by resource: `billing.customers.upsert(external_id="acme")`.
    """

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
    ) -> None:
        # For the modules of this package.
        self._system = System(
            path,
            organization=organization,
            schema=schema,
            clock=clock,
            settings=settings,
            on_message=on_message,
            deliver=deliver,
            vat_registry=vat_registry,
            mailer=mailer,
            tax_provider=tax_provider,
            bridge=bridge,
            payment_providers=payment_providers,
            read_only=read_only,
            events=events,
            opening=opening,
            version=__version__,
        )
        super().__init__(self._system)

    def __enter__(self) -> Billing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; it cannot be used afterwards."""
        if "aio" in self.__dict__:
            self.aio.stop()
        self._system.close()

    @property
    def settings(self) -> Settings:
        """What may be set from outside."""
        return self._system.settings

    @property
    def clock(self) -> Clock:
        """What tells the time; a `ManualClock` is moved by its owner."""
        return self._system.clock

    @property
    def organization(self) -> Organization:
        """Whose records these are."""
        return self._system.organization

    @property
    def store(self) -> Store:
        """The file or the database."""
        return self._system.store

    def reading(self, question: Callable[[Reader], T], organization: Organization | None = None) -> T:
        """Run a query on one consistent snapshot."""
        return self._system.reading(question, organization)

    def writing(
        self, change: Callable[[Work], T], organization: Organization | None = None, *, actor: Actor | None = None
    ) -> T:
        """Make a change, all or nothing; durable once this returns. Logs say that the `actor` made it.

        Raises `ClockRefused` if the machine's clock is behind what the file has seen, or far ahead of it.
        """
        return self._system.writing(change, organization, actor=actor)

    @cached_property
    def aio(self) -> Aio:
        """Every operation as a coroutine, for asynchronous programs: `await billing.aio.events.create(...)`."""
        # Most programs have no event loop.
        from usagebill.aio import Aio

        return Aio(self)

    def within(self, connection: object) -> Within:
        """The operations in a transaction of your own, open on a connection of psycopg 3 or SQLAlchemy (PostgreSQL)."""
        return Within(self._system, connection)

    def view(self, record: object) -> Any:
        """The result of an operation as the HTTP API's JSON, ready for `json.dumps`; a page is a list.

        A number that a float cannot hold exactly becomes a string with all its digits.
        """
        return self._system.view(record)

    def receive_notice(
        self, kind: str, organization_id: str, code: str | None, headers: Mapping[str, str], body: bytes
    ) -> bool:
        """Store a message from a payment provider; False if it is not genuine.

        `headers` have lower-case names; `code` names the connection if there are several of the kind.
        """
        return receive_notice(self._system, kind, organization_id, code, headers, body)

    def audit(self, *, at_most: int = 1000, recount: bool = True) -> AuditReport:
        """Recompute every issued invoice from its own records, and check numbers, periods, coupons and credit notes.

        With `recount`, each fee is also recounted from its events, its plan and its days. Nothing is changed.
        At most `at_most` findings are returned; all are counted.
        """
        # Most processes never audit.
        from usagebill.operations.audit import audit

        return self.reading(lambda work: audit(work, at_most=at_most, recount=recount))

    def on_immediate(self, wake: Callable[[], None], *, kind: str | None = None) -> Callable[[], None]:
        """Call `wake` after each change that leaves an immediate job, until the returned function is called.

        `kind` is a kind of outside job, or "" for all other jobs; without it, all count.
        """
        return self._system.on_immediate(wake, kind=kind)

    def next_due(self, *, leased: bool | None = None, kind: str | None = None) -> datetime | None:
        """The instant when the next job is due (of the outside jobs only, or of the others only, if requested).

        `kind` limits it to one kind of outside job.
        """
        return self._system.next_due(leased=leased, kind=kind)

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
        return self._system.run_due(now, immediate=immediate, strict=strict, on_failure=on_failure)
