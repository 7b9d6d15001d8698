"""A random life: invoices of five customers, with all doors to pay them, while nothing between both books is sure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from threading import Thread
from typing import Any, TypeVar, cast

from tests.payment_lives.accounts import FAULTS, KINDS, OPEN, TAKEN, Account
from tests.payment_servers.server import Notice
from usagebill import Billing
from usagebill.core.errors import BillingError
from usagebill.core.invoices.life_cycle import NOT_TO_BE_PAID
from usagebill.core.invoices.records import Invoice
from usagebill.core.ledger import Account as LedgerAccount, Movement
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payment_requests import dues
from usagebill.core.payments import LIVE, Payment, PaymentPage, RefundAttempt
from usagebill.core.provider_metadata import ONE_TIME
from usagebill.core.provider_requests import OUTCOME_UNKNOWN, Charge, CheckoutUrl, PageUrl, PayableType, Request
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.fields import OneOffFeeFields
from usagebill.outside.payment_providers.kinds import HttpPaymentProviders
from usagebill.queries.payment_providers import notice_path
from usagebill.queries.payment_requests import Debt, debt_of
from usagebill.queries.payments import paid_invoices
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import within

A = TypeVar("A")
START = datetime(2024, 3, 5, 9, tzinfo=UTC)
_TROUBLE_LASTS = timedelta(hours=3)


class NothingThere(Exception):
    """There is nothing to do it with."""


class Killed(BaseException):
    """The process died between the provider's answer and our record of it."""


class Mortal(HttpPaymentProviders):
    """The providers, asked by a process that may die of the next answer. `watch` sees each one before the process, with
    the charges that there were before the request.
    """

    dies = False
    watch: Callable[[PaymentConnection, Request[Any], object, set[str]], None] | None = None
    charges: Callable[[PaymentConnection], set[str]] | None = None

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout)
        # Pages that nobody was handed, as the process died of the answer.
        self.orphans: set[str | None] = set()

    def ask(self, connection: PaymentConnection, request: Request[A]) -> A:
        before = set() if self.charges is None else self.charges(connection)
        answer = super().ask(connection, request)
        if self.watch is not None:
            self.watch(connection, request, answer, before)
        if self.dies:
            self.dies = False
            if isinstance(answer, PageUrl):
                self.orphans.add(answer.provider_page_id)
            raise Killed
        return answer


def _whole_debt(reader: Reader, payable_type: PayableType, payable_id: str) -> Debt:
    """The debt with all invoices and requests that hang together by requests over several invoices."""
    debt = debt_of(reader, payable_type, payable_id)
    while True:
        parts = [debt_of(reader, PayableType.PAYMENT_REQUEST, id) for id in debt.request_ids]
        whole = Debt(
            debt.invoice_ids.union(*(part.invoice_ids for part in parts)),
            debt.request_ids.union(*(part.request_ids for part in parts)),
        )
        if whole == debt:
            return debt
        debt = whole


class Life:
    """The life of a seed, `steps` long, in an empty database. Several `workers` share it; `told` has what happened."""

    def __init__(self, seed: int, database: str, *, workers: int = 1) -> None:
        self.chance = Random(seed)
        self.database, self.workers = database, workers
        self.clock = ManualClock(START)
        self.told: list[str] = []
        self.broken: list[str] = []
        self.accounts: list[Account[Any]] = []
        self.paths: dict[str, str] = {}
        self.waiting: list[tuple[Account[Any], Notice]] = []
        self.sent: list[tuple[Account[Any], Notice]] = []
        self.trouble_until = START
        self._closing = ExitStack()

    @contextmanager
    def _opened(self) -> Iterator[None]:
        with self._closing:
            self.providers = [Mortal(5) for _ in range(self.workers)]
            self.processes = [
                self._closing.enter_context(
                    Billing(self.database, clock=self.clock, deliver=False, payment_providers=providers)
                )
                for providers in self.providers
            ]
            for providers in self.providers:
                self._closing.callback(providers.close)
            if self.workers == 1:
                # Another worker would change what is due between the answer and the look at it.
                self.providers[0].watch = self._check_door
                self.providers[0].charges = lambda connection: set(self._account_of(connection).charges())
            yield

    @property
    def billing(self) -> Billing:
        return self.processes[0]

    def play(self, steps: int) -> list[str]:
        """What is broken at the end, in words."""
        with self._opened():
            self._begin()
            for _ in range(steps):
                self._step()
            self._settle()
            self._compare()
        return self.broken

    # The beginning

    def _begin(self) -> None:
        self.billing.billing_entities.update("default", name="Lumen", email="billing@lumen.example")
        for number, (kind, server_of) in enumerate(KINDS):
            server = self._closing.enter_context(server_of(now=self.clock.now))
            account = kind(f"{server.kind}-{number}", server, Random(self.chance.random()))
            account.is_kind = True
            self.accounts.append(account)
            made = self.billing.payment_connections.create(
                **cast(Any, {"kind": server.kind, "code": account.code, "url": server.url, **server.credentials})
            )
            self.paths[account.code] = notice_path(made)
            self.billing.customers.upsert(
                external_id=account.customer,
                email="pay@acme.example",
                currency=account.currency,
                net_payment_term=0,
                billing_configuration={
                    "payment_provider": cast(Any, server.kind),
                    "payment_provider_code": account.code,
                    "sync_with_provider": True,
                },
            )
        self.billing.add_ons.create(name="Setup", code="setup", amount_cents=1000, amount_currency="EUR")
        self._run()
        for account in self.accounts:
            self._deliver(account, account.method())
            account.is_kind = False
        self._run()

    # Steps

    def _step(self) -> None:
        acts = {
            self.bill: 12,
            self.page: 4,
            self.pay_page: 4,
            self.pay_by_hand: 1,
            self.credit: 2,
            self.offset: 1,
            self.void: 1,
            self.retry: 2,
            self.request: 2,
            self.give_back: 3,
            self.order_again: 1,
            self.move: 5,
            self.take_back: 2,
            self.win: 2,
            self.move_refund: 3,
            self.hear: 8,
            self.hear_again: 2,
            self.fail: 3,
            self.revoke: 1,
            self.mend: 2,
            self.die: 2,
            self.wait: 8,
        }
        # No two things happen at once: what a provider says later is dated later.
        self.clock.set(self.clock.now() + timedelta(seconds=1))
        act = self.chance.choices(list(acts), list(acts.values()))[0]
        account = self.chance.choice(self.accounts)
        self.told.append(f"{self.clock.now():%d %H:%M} {account.code} {act.__name__}")
        # What is refused, or cut short, changes nothing that the books do not say.
        try:
            act(account)
        except (BillingError, NothingThere, Killed) as problem:
            self.told[-1] += f": {type(problem).__name__} {problem}"
        self._run()
        self._check_offers(account)

    def _invoices(self, account: Account[Any]) -> list[Invoice]:
        return list(self.billing.invoices.list_of_customer(account.customer, per_page=1000).items)

    def _any(self, items: list[A]) -> A:
        """One of them; nothing happens if there are none."""
        if not items:
            raise NothingThere
        return self.chance.choice(items)

    def _unpaid(self, account: Account[Any]) -> Invoice:
        return self._any([item for item in self._invoices(account) if item.payment_status != PaymentStatus.SUCCEEDED])

    def bill(self, account: Account[Any]) -> None:
        fee: OneOffFeeFields = {"add_on_code": "setup", "unit_amount_cents": self.chance.randint(100, 2000), "units": 1}
        self.billing.invoices.create_one_off(
            external_customer_id=account.customer, currency=account.currency, fees=[fee]
        )

    def page(self, account: Account[Any]) -> None:
        self.billing.invoices.payment_url(self._unpaid(account).id)

    def pay_page(self, account: Account[Any]) -> None:
        page, cents = self._any(list(account.pages().items()))
        paid = cents if self.chance.random() < 0.7 else self.chance.randint(50, 2 * cents)
        self.told[-1] += f" {page} {paid} of {cents}"
        self.waiting.append((account, account.pay(page, paid)))

    def pay_by_hand(self, account: Account[Any]) -> None:
        invoice = self._unpaid(account)
        cents = self.chance.randint(1, max(1, invoice.due_cents))
        self.billing.payments.create(invoice_id=invoice.id, amount_cents=cents, reference="bank")

    def credit(self, account: Account[Any]) -> None:
        self._note(account, "refund_amount_cents")

    def offset(self, account: Account[Any]) -> None:
        self._note(account, "offset_amount_cents")

    def _note(self, account: Account[Any], kind: str) -> None:
        invoice = self._any(self._invoices(account))
        cents = self.chance.randint(1, max(1, invoice.total_amount_cents))
        fees = self.billing.fees.list(external_customer_id=account.customer, per_page=1000).items
        item = {"fee_id": next(fee.id for fee in fees if fee.invoice_id == invoice.id), "amount_cents": cents}
        note: dict[str, Any] = {"invoice_id": invoice.id, "reason": "other", "items": [item], kind: cents}
        self.billing.credit_notes.create(**note)

    def void(self, account: Account[Any]) -> None:
        self.billing.invoices.void(self._any(self._invoices(account)).id)

    def retry(self, account: Account[Any]) -> None:
        self.billing.invoices.retry_payment(self._unpaid(account).id)

    def request(self, account: Account[Any]) -> None:
        overdue = [item.id for item in self._invoices(account) if item.payment_overdue]
        some = self.chance.sample(overdue, self.chance.randint(min(1, len(overdue)), min(3, len(overdue))))
        self.billing.payment_requests.create(external_customer_id=account.customer, svc_invoice_ids=some)

    def give_back(self, account: Account[Any]) -> None:
        payments = [item for item in self._payments(account) if item.payment_status == ChargeStatus.SUCCEEDED]
        self.billing.payments.refund(self._any(payments).id)

    def order_again(self, account: Account[Any]) -> None:
        notes = self.billing.credit_notes.list_of_customer(account.customer, per_page=1000).items
        self.billing.credit_notes.retry_refund(self._any(list(notes)).id)

    def _of(self, account: Account[Any], state: str) -> str:
        return self._any([id for id, (is_in, _, _) in account.charges().items() if is_in == state])

    def move(self, account: Account[Any]) -> None:
        charge = self._of(account, OPEN)
        self.waiting.append((account, account.end(charge, well=self.chance.random() < 0.7)))

    def take_back(self, account: Account[Any]) -> None:
        # Of a charge that was refunded nothing can be taken back.
        charge = self._of(account, TAKEN)
        is_refunded = any(of == charge and state != "failed" for state, _, of in account.refunds().values())
        if charge not in account.disputed and not is_refunded:
            self.waiting.append((account, account.take_back(charge, disputed=self.chance.random() < 0.5)))

    def win(self, account: Account[Any]) -> None:
        self.waiting.append((account, account.win(self._any(sorted(account.disputed)))))

    def move_refund(self, account: Account[Any]) -> None:
        id, (state, _, _) = self._any([item for item in account.refunds().items() if item[1][0] != "failed"])
        # What has succeeded can only fail: its money comes back.
        well = state == "pending" and self.chance.random() < 0.7
        if state == "pending" or self.chance.random() < 0.3:
            self.waiting.append((account, account.end_refund(id, well=well)))

    def hear(self, account: Account[Any]) -> None:
        self._deliver(*self.waiting.pop(self.chance.randrange(len(self.waiting))) if self.waiting else self._any([]))

    def hear_again(self, account: Account[Any]) -> None:
        self._deliver(*self._any(self.sent))

    def _deliver(self, account: Account[Any], notice: Notice) -> None:
        _, _, kind, organization_id = self.paths[account.code].partition("?")[0].split("/")
        headers = account.sent_now(notice).headers
        if not self.billing.receive_notice(kind, organization_id, account.code, headers, notice.body):
            self.broken.append(f"a notice of {account.code} was refused: {notice.body[:200]!r}")
        self.sent.append((account, notice))

    def fail(self, account: Account[Any]) -> None:
        self.trouble_until = self.clock.now() + _TROUBLE_LASTS
        for _ in range(self.chance.randint(1, 3)):
            account.server.befall(*self.chance.choice(FAULTS))

    def revoke(self, account: Account[Any]) -> None:
        account.is_revoked = True

    def mend(self, account: Account[Any]) -> None:
        for other in self.accounts:
            if other.is_revoked:
                other.is_revoked = False
                self.trouble_until = self.clock.now() + _TROUBLE_LASTS

    def die(self, account: Account[Any]) -> None:
        self.trouble_until = self.clock.now() + _TROUBLE_LASTS
        self.chance.choice(self.providers).dies = True

    def wait(self, account: Account[Any]) -> None:
        self._travel(timedelta(minutes=self.chance.choice([1, 5, 20, 90, 600, 1500, 6000])))

    def _travel(self, time: timedelta) -> None:
        until = self.clock.now() + time
        while (due := self.billing.next_due()) is not None and due <= until:
            self.clock.set(max(due, self.clock.now()))
            self._run()
        self.clock.set(until)

    def _run(self) -> None:
        """All processes run what is due now, at once."""
        problems: list[BaseException] = []

        def work(billing: Billing) -> None:
            try:
                billing.run_due(strict=True)
            except Killed:
                pass
            except BaseException as problem:
                problems.append(problem)

        if self.workers == 1:
            work(self.billing)
        else:
            threads = [Thread(target=work, args=(billing,)) for billing in self.processes]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if problems:
            raise problems[0]

    # The end

    def _settle(self) -> None:
        """In the end everything works, everybody has said everything, and nothing is under way."""
        self.told.append(f"{self.clock.now():%d %H:%M} the end")
        for providers in self.providers:
            providers.dies = False
        for account in self.accounts:
            account.is_kind, account.is_revoked = True, False
            account.server.faults.clear()
        # What nobody can say is given up after that time, and followed when it is told after all.
        self._travel(timedelta(days=8))
        for account in self.accounts:
            known = {payment.provider_payment_id for payment in self._payments(account)}
            self.waiting += [
                (account, notice) for id in account.charges() if id not in known for notice in account.tell(id)
            ]
        for _ in range(4):
            self._travel(timedelta(hours=7))
            for account in self.accounts:
                for id, (state, _, _) in account.charges().items():
                    if state == OPEN:
                        self.waiting.append((account, account.end(id, well=self.chance.random() < 0.5)))
                for id, (state, _, _) in account.refunds().items():
                    if state == "pending":
                        self.waiting.append((account, account.end_refund(id, well=True)))
            self.chance.shuffle(self.waiting)
            while self.waiting:
                self._deliver(*self.waiting.pop())
                self._run()
            self._travel(timedelta(hours=2))

    def _check_offers(self, account: Account[Any]) -> None:
        """While nothing goes wrong, open pages and charges under way never come to more than is due."""
        if self.clock.now() < self.trouble_until or any(other.is_revoked for other in self.accounts):
            return
        if any(of is account for of, _ in self.waiting):
            return
        # Not every provider can cancel a charge under way.
        charges = account.charges().values() if account.server.kind == "stripe" else ()
        orphans = set().union(*(providers.orphans for providers in self.providers))
        pages = [cents for id, cents in account.pages().items() if id not in orphans]
        offered = sum(pages) + sum(cents for state, cents, _ in charges if state == OPEN)
        due = sum(
            max(0, item.due_cents)
            for item in self._invoices(account)
            if item.status not in NOT_TO_BE_PAID and item.payment_status != PaymentStatus.SUCCEEDED
        )
        if offered > due:
            doors = {**account.pages(), **{id: item for id, item in account.charges().items() if item[0] == OPEN}}
            dues = {item.number: (item.due_cents, item.status.value) for item in self._invoices(account)}
            self.told[-1] += f" offers {doors} of {dues}"
            self.broken.append(f"after step {len(self.told)} {account.code} offers {offered} of {due} due")

    def _account_of(self, connection: PaymentConnection) -> Account[Any]:
        return next(one for one in self.accounts if one.code == connection.code)

    def _check_door(
        self, connection: PaymentConnection, request: Request[Any], answer: object, before: set[str]
    ) -> None:
        """Whenever a charge is made or a page opened, all that may be taken for the same debt comes to what is due.

        Counted is what the provider has now: also what it took and we do not know of. A charge that is sent again is no
        new door if it was made before; a debit is canceled before it takes anything.
        """
        if not isinstance(request, Charge | CheckoutUrl):
            return
        account = self._account_of(connection)
        is_again = isinstance(request, Charge) and request.since is not None
        if is_again and (connection.traits.debits or before == set(account.charges())):
            return
        pages = account.pages()
        charges = {id: charge for id, charge in account.charges().items() if charge[0] in (OPEN, TAKEN)}

        def offered(reader: Reader) -> tuple[dict[str, int], int]:
            debt = _whole_debt(reader, request.payable.type, request.payable.id)
            known = {page.provider_page_id for page in reader.tx.find(PaymentPage, debt.payables)}
            if isinstance(answer, PageUrl):
                known.add(answer.provider_page_id)
            live = {
                item.id: item.provider_payment_id
                for item in reader.tx.find(Payment, debt.payables)
                if item.payment_status in LIVE
            }
            doors = {id: cents for id, cents in pages.items() if id in known}
            doors |= {
                id: cents
                for id, (_, cents, metadata) in charges.items()
                if id in live.values() or metadata.get("svc_payment_id") in live
            }
            # What was paid on a page, and not told yet.
            heard = {item.provider_payment_id for item in reader.tx.find(Payment)}
            doors |= {
                id: cents
                for id, (state, cents, metadata) in charges.items()
                if state == TAKEN and metadata.get("payment_type") == ONE_TIME and id not in heard
                if {metadata.get("svc_invoice_id"), metadata.get("svc_payable_id")}
                & {*debt.invoice_ids, *debt.request_ids}
            }
            invoices = reader.tx.find(Invoice, within("id", debt.invoice_ids))
            return doors, sum(dues(item for item in invoices if item.status not in NOT_TO_BE_PAID))

        doors, due = self.billing.reading(offered)
        if sum(doors.values()) > due:
            self.broken.append(
                f"in step {len(self.told)} {account.code} opened {type(request).__name__}: {doors} of {due} due"
            )

    def _payments(self, account: Account[Any]) -> list[Payment]:
        found: list[Payment] = self.billing.reading(lambda reader: reader.tx.find(Payment))
        return [payment for payment in found if payment.payment_provider_code == account.code]

    def _all(self, kind: type[A]) -> list[A]:
        return self.billing.reading(lambda reader: reader.tx.find(kind))

    def _differ(self, what: str, theirs: object, ours: object) -> None:
        if theirs != ours:
            self.broken.append(f"{what}: {theirs} there, {ours} here")

    def _compare(self) -> None:
        refunds, movements = self._all(RefundAttempt), self._all(Movement)
        for account in self.accounts:
            payments = {item.provider_payment_id: item for item in self._payments(account)}
            charges = account.charges()
            taken = {id: cents for id, (state, cents, _) in charges.items() if state == TAKEN}
            paid = {
                id: item.amount_cents for id, item in payments.items() if item.payment_status == ChargeStatus.SUCCEEDED
            }
            self._differ(f"charges of {account.code}", taken, paid)
            given = {id: cents for id, (state, cents, _) in account.refunds().items() if state == "succeeded"}
            ids = {item.id for item in payments.values()}
            succeeded = [item for item in refunds if item.payment_id in ids and item.refund_status == "succeeded"]
            back = {item.provider_refund_id: item.amount_cents for item in succeeded}
            self._differ(f"refunds of {account.code}", given, back)
            disputed = {id for id, item in payments.items() if item.status == "dispute_lost"}
            self._differ(f"disputes of {account.code}", account.disputed, disputed)
            # A refund may succeed although its charge was returned meanwhile.
            cash = sum(taken.get(id, 0) - account.refunded(id) for id in charges if id not in account.disputed)
            booked = [
                item.amount_cents
                for item in movements
                if item.account is LedgerAccount.CASH and item.provider == account.code
            ]
            self._differ(f"cash of {account.code}", cash, sum(booked))
            self._check_invoices(account, charges)
        for payment in self._all(Payment):
            if payment.unanswered:
                self.broken.append(f"payment {payment.id} has no answer")
        for found in self.billing.audit().findings:
            if found.check != "invoice_overpaid":
                self.broken.append(f"audit: {found}")

    def _check_invoices(self, account: Account[Any], charges: dict[str, tuple[str, int, dict[str, str]]]) -> None:
        """Nobody is charged twice: what was charged without the customer's doing comes to the total at most."""
        charged: dict[str, int] = {}
        for state, cents, metadata in charges.values():
            if state == TAKEN and "svc_payment_id" in metadata:
                id = metadata.get("svc_invoice_id", "")
                charged[id] = charged.get(id, 0) + cents
        payments = [item for item in self._payments(account) if item.provider_payment_id in account.disputed]
        lost = self.billing.reading(lambda reader: [paid_invoices(reader, payment) for payment in payments])
        disputed = {invoice.id for invoices in lost for invoice in invoices}
        # Where nobody could say what became of a charge, a person has charged again.
        unknown = {item.invoice_id for item in self._payments(account) if item.error_code == OUTCOME_UNKNOWN}
        for invoice in self._invoices(account):
            if charged.get(invoice.id, 0) > invoice.total_amount_cents and invoice.id not in unknown:
                self.broken.append(f"{invoice.number} over {invoice.total_amount_cents}: {charged[invoice.id]} charged")
            if (invoice.payment_dispute_lost_at is not None) != (invoice.id in disputed):
                self.broken.append(f"{invoice.number}: lost dispute {invoice.payment_dispute_lost_at}")
