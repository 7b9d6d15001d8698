"""Operations inside the caller's own transaction: an order and its usage event commit together or not at all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import count
from typing import Any, Protocol, TypeVar

from usagebill.core.activity_logs import LIBRARY, Actor
from usagebill.core.organizations import Organization
from usagebill.operations import organizations
from usagebill.process.json_text import JsonObject, with_prefix
from usagebill.process.settings import Settings
from usagebill.records import plain, presented, view_of
from usagebill.resources import Resources
from usagebill.runtime.clock import Clock, ClockWatch
from usagebill.runtime.work import DrawingWanted, ProviderWanted, Reader, TaxesWanted, TrialWanted, Work
from usagebill.storage.ports import CallersTransaction, Store, Transaction, UnusableTransaction
from usagebill.storage.stores import within

T = TypeVar("T")


class Host(Protocol):
    """The billing system: `Billing`."""

    organization: Organization
    settings: Settings
    clock: Clock
    clock_watch: ClockWatch
    store: Store

    def work_of(self, tx: Transaction, organization_id: str, now: datetime, actor: Actor) -> Work: ...
    def reading(self, question: Callable[[Reader], T]) -> T: ...
    def announce(self, works: list[Work]) -> None: ...


class Within(Resources):
    """A billing system inside the caller's transaction (`Billing.within`).

    An operation that raises is undone by itself; everything else commits or rolls back with the caller's transaction.
    Operations that call an outside service or render a PDF raise `UnusableTransaction`, since the organization would be
    locked meanwhile.
    """

    def __init__(self, host: Host, connection: object) -> None:
        self._host = host
        self._transaction: CallersTransaction = within(host.store, connection)
        self._works: list[Work] = []
        self._looks = count()
        super().__init__(self)

    def reading(self, question: Callable[[Reader], T]) -> T:
        """Run a query. It sees the transaction's own changes; without a transaction, what is committed."""
        host = self._host
        if not self._transaction.is_open():
            return host.reading(question)

        def look(tx: Transaction) -> T:
            return question(Reader(tx, host.organization, host.clock.now(), host.settings))

        def look_in_trial(tx: Transaction) -> T:
            return host.work_of(tx, host.organization.id, host.clock.now(), LIBRARY).dry_run(question)

        try:
            return self._run(look)
        except TrialWanted:
            return self._run(look_in_trial)

    def writing(self, change: Callable[[Work], T]) -> T:
        """Make a change; it is durable once the caller has committed."""
        host = self._host
        host.clock_watch.check()

        def act(tx: Transaction) -> tuple[T, Work]:
            now = host.clock.now()
            host.clock_watch.note(tx, now)
            work = host.work_of(tx, host.organization.id, now, LIBRARY)
            organizations.check_enabled(work.organization)
            result = change(work)
            work.log_changes()
            return result, work

        result, work = self._run(act)
        self._works.append(work)
        return result

    def _run(self, change: Callable[[Transaction], T]) -> T:
        try:
            return self._transaction.run(self._host.organization.id, change)
        except (TaxesWanted, DrawingWanted, ProviderWanted) as problem:
            raise UnusableTransaction(
                "this calls an outside service or draws a document, which takes long: call it outside your transaction"
            ) from problem

    def committed(self) -> None:
        """Call this after the commit to wake this process's worker and `on_message` at once.

        Otherwise a worker sees new jobs when it next polls, within a second, and `on_message` is not called.
        """
        works, self._works = self._works, []
        self._host.announce(works)

    @property
    def entitling_commits(self) -> int:
        """A new number each time, so that nothing read in this transaction is cached."""
        return next(self._looks)

    def roll_up_usage(self) -> bool:
        """Does nothing: usage is not rolled up inside the caller's transaction."""
        return False

    def view(self, record: object) -> Any:
        """The result of an operation as the HTTP API's JSON (`Billing.view`)."""
        shown: JsonObject = self.reading(lambda reader: view_of(reader, record))
        return plain(with_prefix(shown, "svc_", self._host.settings.id_prefix))

    def presented(self, result: Any, again: Callable[[int], Any]) -> Any:
        """The result of an operation as library users get it."""
        return presented(self, result, again)
