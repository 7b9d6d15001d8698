"""A billing system in memory, with a clock that you move: try a price list on a year of usage."""

from __future__ import annotations

import json as json_text
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

from usagebill.billing import Billing
from usagebill.core.emails import Email
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.provider_requests import FailureKind, ProviderFailed, ProviderFailure, Request as ProviderRequest
from usagebill.http.api import Answer, Api, Request
from usagebill.http.app import endpoints, routes
from usagebill.http.notices import notice_answer
from usagebill.http.prefix import check_prefix
from usagebill.operations import api_keys
from usagebill.outside.bridge import Bridge
from usagebill.outside.job_host import PaymentProviders
from usagebill.outside.payment_providers.kinds import HttpPaymentProviders
from usagebill.outside.tax_provider import TaxProvider
from usagebill.outside.vat_registry import VatRegistry
from usagebill.price_strategies import (
    PriceList as PriceList,
    amounts as amounts,
    price_lists as price_lists,
    quantities as quantities,
)
from usagebill.process.json_text import JsonObject
from usagebill.process.settings import Settings
from usagebill.queries.payment_providers import notice_path
from usagebill.runtime.clock import ManualClock
from usagebill.storage.sqlite import ReusedMemory
from usagebill.storage.stores import emptied, emptied_events

A = TypeVar("A")


def _instant(text: str | datetime) -> datetime:
    parsed = text if isinstance(text, datetime) else datetime.fromisoformat(text)
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


class _Outbox:
    """A mailer that keeps its e-mails."""

    def __init__(self, emails: list[Email]) -> None:
        self._emails = emails

    def send(self, email: Email) -> dict[str, str]:
        self._emails.append(email)
        return {}


class _NamedPlacesOnly(HttpPaymentProviders):
    """Payment providers that are called only at addresses named by a connection."""

    def ask(self, connection: PaymentConnection, request: ProviderRequest[A]) -> A:
        if connection.url is None:
            message = "a sandbox speaks to providers only where `url` says that one is"
            raise ProviderFailed(ProviderFailure(kind=FailureKind.REFUSED, code="no_url", message=message))
        return super().ask(connection, request)


class _NoPlaces(HttpPaymentProviders):
    """Payment providers that are never called: the connections of a copy are those of the original."""

    def ask(self, connection: PaymentConnection, request: ProviderRequest[A]) -> A:
        message = "a copy speaks to no provider, whose accounts belong to the original"
        raise ProviderFailed(ProviderFailure(kind=FailureKind.REFUSED, code="copy", message=message))


class Sandbox:
    """One organization in memory, one API key with all permissions, and the HTTP API without a network.

        with Sandbox(now="2024-01-01T00:00:00Z") as box:
            status, body = box.request("POST", "/api/v1/customers", json={"customer": {"external_id": "acme"}})
            box.travel_to("2024-02-01T00:10:00Z")

    `billing` is the same system for library calls. Webhook messages are kept in `webhooks`, oldest first, whether or
    not an endpoint listens, and e-mails in `emails`; nothing is sent over a network. `vat_registry` replaces that of
    the EU; without one, no VAT number is known. `tax_provider` replaces those that customers are linked to; without
    one, none answers. `bridge` replaces accounting systems and CRMs.

    `database` (or the environment variable `USAGEBILL_SANDBOX_DATABASE`) is the URL of a PostgreSQL server to use
    instead of memory, `postgresql://...`: in a database of its own, so the user must be allowed to create databases.
    `events` (or `USAGEBILL_SANDBOX_EVENTS`) is that of a ClickHouse server that counts events beside it,
    `clickhouse://...` or `chdb:///folder`, in a database of its own too.

    With `copy_of` it begins as a copy of that SQLite file, which stays as it is, and speaks to no payment provider. A
    job that fails raises, unless it is not `strict`: then it is tried again later.
    """

    def __init__(
        self,
        now: str | datetime,
        settings: Settings | None = None,
        *,
        vat_registry: VatRegistry | None = None,
        tax_provider: TaxProvider | None = None,
        bridge: Bridge | None = None,
        payment_providers: PaymentProviders | None = None,
        database: str | None = None,
        events: str | None = None,
        copy_of: str | None = None,
        strict: bool = True,
    ) -> None:
        if settings is not None:
            check_prefix(settings.id_prefix, endpoints())
        self._closing = ExitStack()
        server = os.environ.get("USAGEBILL_SANDBOX_DATABASE") if database is None else database
        events_server = os.environ.get("USAGEBILL_SANDBOX_EVENTS") if events is None else events
        # Left after the store is closed: first in, last out.
        events = self._closing.enter_context(emptied_events(events_server)) if events_server else None
        self.webhooks: list[JsonObject] = []
        self.emails: list[Email] = []
        self.clock = ManualClock(_instant(now))
        providers = _NamedPlacesOnly if copy_of is None else _NoPlaces
        self._payment_providers = providers((settings or Settings()).payment_provider_timeout)
        self.billing = Billing(
            self._opened(server, events, copy_of),
            clock=self.clock,
            settings=settings,
            on_message=self.webhooks.append,
            deliver=False,
            vat_registry=vat_registry,
            mailer=_Outbox(self.emails),
            tax_provider=tax_provider,
            bridge=bridge,
            payment_providers=payment_providers or self._payment_providers,
            events=events,
        )
        _, self.api_key = self.billing.writing(lambda work: api_keys.create(work))
        self._api = Api(self.billing, routes())
        self._busy = False
        self._strict = strict
        self._traveling = Lock()
        self.billing.on_immediate(self._follow)

    def _opened(self, server: str | None, events: str | None, copy_of: str | None) -> str | ReusedMemory:
        """What the billing system is opened with."""
        if copy_of is not None:
            path = Path(self._closing.enter_context(TemporaryDirectory())) / "sandbox.db"
            with closing(sqlite3.connect(copy_of)) as original, closing(sqlite3.connect(path)) as copy:
                original.backup(copy)
            return str(path)
        if server:
            return self._closing.enter_context(emptied(server))
        return ":memory:" if events else ReusedMemory()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release everything; nothing remains."""
        self.billing.close()
        self._payment_providers.close()
        self._closing.close()

    def _follow(self) -> None:
        # Immediate jobs of a library call are done before the call returns.
        if not self._busy:
            with self._undisturbed():
                self.billing.run_due(immediate=True, strict=self._strict)

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    @property
    def now(self) -> datetime:
        """The current time of the clock."""
        return self.clock.now()

    def request(
        self, method: str, path: str, json: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send an authenticated request and run its immediate jobs; returns the status and the parsed body.

        The body is None if it is empty, and text or bytes if it is not JSON.
        """
        target, _, query = path.partition("?")
        with self._undisturbed():
            answer = self._answer(method, target, query, json, headers)
            self._api.note_use(answer)
            self.billing.run_due(immediate=True, strict=True)
            self.billing._system.ship_events()
        if not answer.body:
            return answer.status, None
        kind = answer.headers["content-type"]
        if not kind.startswith("application/json"):
            return answer.status, answer.body.decode() if kind.startswith("text/") else answer.body
        return answer.status, json_text.loads(answer.body)

    def _answer(self, method: str, target: str, query: str, json: object, headers: dict[str, str] | None) -> Answer:
        return self._api.answer(
            Request(
                method=method,
                path=quote(target, safe="/%:@!$&'()*+,;=~-._"),
                query=quote(query, safe="/%:@!$&'()*+,;=~-._?[]"),
                headers={"authorization": f"Bearer {self.api_key}", **(headers or {})},
                body=b"" if json is None else json_text.dumps(json).encode(),
            )
        )

    def connect_payment_provider(self, kind: str, *, code: str, url: str, **settings: Any) -> str:
        """Connect to an account of a payment provider with its API at `url`; returns the path for its messages.

        `settings` are credentials and other fields of `usagebill.operations.payment_connections`.
        """
        with self._undisturbed():
            made = self.billing.payment_connections.create(kind=kind, code=code, url=url, **settings)
            self.billing.run_due(immediate=True, strict=True)
        return notice_path(made)

    def receive(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> int:
        """Receive an incoming message, without an API key, and run its immediate jobs; returns the status of the
        answer.
        """
        parts = urlsplit(path)
        _, _, kind, organization_id = parts.path.split("/")
        code = dict(parse_qsl(parts.query)).get("code")
        lower = {name.lower(): value for name, value in (headers or {}).items()}
        with self._undisturbed():
            accepted = self.billing.receive_notice(kind, organization_id, code, lower, body)
            self.billing.run_due(immediate=True, strict=True)
        return notice_answer(kind, accepted=accepted).status_code

    def jump_to(self, now: str | datetime) -> None:
        """Move the clock and run nothing."""
        self.clock.set(_instant(now))

    def travel_to(self, now: str | datetime) -> None:
        """Move the clock through every instant at which a job is due, running each job at its own instant.

        Raises ValueError for an instant in the past, where nothing would run: use `jump_to`.
        """
        target = _instant(now)
        if target < self.clock.last_set:
            raise ValueError(f"cannot travel back from {self.clock.now().isoformat()} to {target.isoformat()}")
        with self._traveling, self._undisturbed():
            while (due := self.billing.next_due()) is not None and due <= target:
                if due > self.clock.now():
                    self.clock.set(due)
                self.billing.run_due(strict=self._strict)
        if target > self.clock.now():
            self.clock.set(target)

    def run_due(self) -> None:
        """Run the jobs due now without moving the clock: each as of the instant it was due."""
        with self._undisturbed():
            self.billing.run_due(strict=True)
