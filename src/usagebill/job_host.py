"""The environment of leased jobs: the billing system and the outside services it calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from usagebill.bounded_http import Answer
from usagebill.clock import Clock
from usagebill.core.emails import Email
from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.provider_requests import Notice, Outcome, Request
from usagebill.core.sync_connections import Accepted, Push, SyncConnection
from usagebill.core.tax_providers import ProviderFailure, ProviderTaxes, Reported, TaxConnection, TaxQuestion
from usagebill.core.vat import NotRegistered, Registered, Unavailable, VatNumber
from usagebill.operations.webhooks import Attempt
from usagebill.storage.ports import Transaction
from usagebill.work import Reader, Work

__all__ = ["Bridge", "Courier", "JobHost", "Mailer", "PaymentProviders", "TaxProvider", "VatRegistry"]

A = TypeVar("A")
T = TypeVar("T")


class Courier(Protocol):
    """Who takes webhook messages to their endpoints."""

    def send(self, attempt: Attempt, headers: dict[str, str]) -> Future[Answer]:
        """Make the attempt; its answer comes later."""


class Mailer(Protocol):
    """Who takes e-mails: a mail server over SMTP (`SmtpMailer`), or whatever stands in for one."""

    def send(self, email: Email) -> Mapping[str, str]:
        """Take an e-mail for its `recipients`; those who were refused, with the answer (`550 unknown`), if others
        were not. Raises `Undelivered` if nobody gets it.
        """


class PaymentProviders(Protocol):
    """Those who collect money: all kinds of payment provider (`HttpPaymentProviders`), or whatever stands in for them.

    Nothing here is called while a transaction is open.
    """

    def ask(self, connection: PaymentConnection, request: Request[A]) -> A:
        """The answer of the connection's provider. Raises `ProviderFailed` and nothing else."""

    def notices(
        self, connection: PaymentConnection, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> tuple[Notice, ...]:
        """The events of a message from outside; names of `headers` are in lower case. Raises `NoticeRejected`."""

    def outcomes(self, connection: PaymentConnection, notice: Notice, now: datetime) -> tuple[Outcome, ...]:
        """What follows from an event, for which the provider may be asked. Raises `ProviderFailed`."""


class TaxProvider(Protocol):
    """Who says what customers are taxed with."""

    def ask(self, connection: TaxConnection, question: TaxQuestion) -> ProviderTaxes | Reported | ProviderFailure:
        """The taxes of all items of a draft or finalized document; `Reported` for what is only to be noted."""


class Bridge(Protocol):
    """Who takes documents to accounting systems and CRMs, and says what they are called there."""

    def push(self, connection: SyncConnection, push: Push) -> Accepted | ProviderFailure:
        """Post a document. One that comes twice, with the same id and version, is to be kept once."""


class VatRegistry(Protocol):
    """Who knows which VAT numbers exist. `VIES` of the European Commission is one, over HTTP (`HttpVatRegistry`)."""

    def check(self, number: VatNumber) -> Registered | NotRegistered | Unavailable:
        """Whether the number is registered; `Unavailable` if that cannot be determined now."""


class JobHost(Protocol):
    """The billing system that leased jobs are done for. None stands for those whom it does not talk to."""

    @property
    def clock(self) -> Clock: ...
    @property
    def lease(self) -> timedelta:
        """How long a leased job is kept from other workers."""

    @property
    def serving_seconds(self) -> float:
        """How long questions and changes of others have taken, all together."""

    @property
    def contention(self) -> float:
        """How often of late, from 0 to 1, another process was writing when this one wanted to."""

    @property
    def delivers(self) -> bool:
        """Whether webhook messages are sent at all."""

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
        """Answer a question of an organization from one snapshot."""

    def writing(self, change: Callable[[Work], T], organization: Organization | None = None) -> T:
        """Make a change of an organization, all of it or nothing."""

    def transact(self, change: Callable[[Transaction], T]) -> T:
        """Make a change across organizations."""

    def share(self, change: Callable[[Transaction, datetime], tuple[T, Sequence[Work]]]) -> T:
        """Make a change across organizations at the instant it is given, and announce what its units of work emit.

        Raises `ClockRefused` if the machine's clock is behind what the file has seen, or far ahead of it.
        """

    def ask(self, question: Callable[[Transaction], T]) -> T:
        """Answer a question across organizations."""

    def work_of(self, tx: Transaction, organization_id: str, now: datetime) -> Work:
        """The work of an organization, in a transaction of its own."""

    def postpone(self, tx: Transaction, job: Job, now: datetime, problem: Exception) -> None:
        """Have a job that failed tried again later, or left for a person to look at."""
