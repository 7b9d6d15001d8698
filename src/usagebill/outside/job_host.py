"""The environment of leased jobs: the billing system and the outside services it calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from usagebill.core.emails import Email
from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.provider_requests import Notice, Outcome, Request
from usagebill.core.sync_connections import Accepted, Push, SyncConnection
from usagebill.core.tax_providers import ProviderFailure, ProviderTaxes, Reported, TaxConnection, TaxQuestion
from usagebill.core.vat import NotRegistered, Registered, Unavailable, VatNumber
from usagebill.operations.webhooks import Attempt
from usagebill.outside.bounded_http import Answer
from usagebill.runtime.clock import Clock
from usagebill.runtime.work import Reader, Work
from usagebill.storage.ports import Transaction

A = TypeVar("A")
T = TypeVar("T")


class Courier(Protocol):
    """Sends webhook messages to their endpoints."""

    def send(self, attempt: Attempt, headers: dict[str, str]) -> Future[Answer]:
        """Start the attempt; returns a future of the answer."""


class Mailer(Protocol):
    """Sends e-mails: a mail server over SMTP (`SmtpMailer`), or a substitute."""

    def send(self, email: Email) -> Mapping[str, str]:
        """Send an e-mail to its `recipients`; returns the refused ones with the server's answer (`550 unknown`) if
        others were accepted. Raises `Undelivered` if none was.
        """


class PaymentProviders(Protocol):
    """All kinds of payment provider (`HttpPaymentProviders`), or a substitute.

    Nothing here is called while a transaction is open.
    """

    def ask(self, connection: PaymentConnection, request: Request[A]) -> A:
        """The answer of the connection's provider. Raises `ProviderFailed` and nothing else."""

    def notices(
        self, connection: PaymentConnection, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> tuple[Notice, ...]:
        """The events of an incoming message; names of `headers` are in lower case. Raises `NoticeRejected`."""

    def outcomes(self, connection: PaymentConnection, notice: Notice, now: datetime) -> tuple[Outcome, ...]:
        """The outcomes of an event; the provider may be asked for details. Raises `ProviderFailed`."""


class TaxProvider(Protocol):
    """Calculates customers' taxes."""

    def ask(self, connection: TaxConnection, question: TaxQuestion) -> ProviderTaxes | Reported | ProviderFailure:
        """The taxes of all items of a draft or finalized document; `Reported` for a document that is only reported."""


class Bridge(Protocol):
    """Posts documents to accounting systems and CRMs, and returns their ids there."""

    def push(self, connection: SyncConnection, push: Push) -> Accepted | ProviderFailure:
        """Post a document. The system must keep a document with the same id and version only once."""


class VatRegistry(Protocol):
    """Checks VAT numbers. `VIES` of the European Commission is one registry, over HTTP (`HttpVatRegistry`)."""

    def check(self, number: VatNumber) -> Registered | NotRegistered | Unavailable:
        """Whether the number is registered; `Unavailable` if that cannot be determined now."""


class JobHost(Protocol):
    """The billing system that leased jobs run for. A service is None if it is not configured."""

    @property
    def clock(self) -> Clock: ...
    @property
    def serving_seconds(self) -> float:
        """The total seconds that queries and changes of other callers have taken."""

    @property
    def contention(self) -> float:
        """The recent share of writes, from 0 to 1, for which another process held the write lock."""

    @property
    def delivers(self) -> bool:
        """Whether webhook messages are sent."""

    @property
    def courier(self) -> Courier: ...
    @property
    def mailer(self) -> Mailer | None: ...
    @property
    def payment_providers(self) -> PaymentProviders | None: ...
    @property
    def tax_provider(self) -> TaxProvider | None: ...
    @property
    def bridge(self) -> Bridge | None: ...
    @property
    def vat_registry(self) -> VatRegistry | None: ...

    def reading(self, question: Callable[[Reader], T], organization: Organization | None = None) -> T:
        """Run a query of an organization on one snapshot."""

    def writing(self, change: Callable[[Work], T], organization: Organization | None = None) -> T:
        """Make a change of an organization, all or nothing."""

    def transact(self, change: Callable[[Transaction], T]) -> T:
        """Make a change across organizations."""

    def share(self, change: Callable[[Transaction, datetime], tuple[T, Sequence[Work]]]) -> T:
        """Make a change across organizations at the instant passed to it, and announce the messages of its units of
        work.

        Raises `ClockRefused` if the machine's clock is behind the newest instant in the file, or far ahead of it.
        """

    def ask(self, question: Callable[[Transaction], T]) -> T:
        """Run a query across organizations."""

    def lease_of(self, kind: str) -> timedelta:
        """How long no other worker takes a leased job of this kind."""

    def work_of(self, tx: Transaction, organization_id: str, now: datetime) -> Work:
        """A unit of work of an organization, in its own transaction."""

    def postpone(self, tx: Transaction, job: Job, now: datetime, problem: Exception) -> None:
        """Schedule the retry of a failed job, or leave it to an operator once it has failed too often."""
