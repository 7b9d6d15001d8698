"""Random lives of a subscription, and how to play them in a sandbox.

A life is a script: a customer, three plans, and steps in time. It is played by travelling through it (every job runs
at its own instant) or by jumping (nothing runs until an operation or the end needs the backlog).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from tests.provider import Provider
from tests.scenarios import Scenario, charge_on, fixed_charge_on
from usagebill.core.coupons import AppliedCoupon
from usagebill.core.credit_notes import CreditNote
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.tax_providers import ProviderFailure, ProviderTaxes, Reported, TaxConnection, TaxQuestion
from usagebill.storage.conditions import asc, eq
from usagebill.storage.failures import Reachability
from usagebill.storage.ports import Connections, Store, Transaction

EXTERNAL_ID = "sub"
_LINK = {"integration_type": "anrok", "integration_code": "main", "sync_with_provider": True}
ZONES = ("UTC", "America/Los_Angeles", "Asia/Tokyo", "Europe/Berlin", "Pacific/Auckland", "America/Sao_Paulo")
FIRST_DAY = datetime(2023, 12, 28, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOffer:
    """A plan of a life: its usage costs 1.00 a unit, in arrears, in advance, and in arrears with late events."""

    interval: str
    amount_cents: int
    pay_in_advance: bool
    monthly_usage: bool
    monthly_fixed: bool
    fixed_in_advance: bool
    prorated: bool
    trial_days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An action, `wait` after the previous one; `to_midnight` waits on until around the start of a month.

    `what`: usage, late usage, plan, end, begin or zone. `number` is its amount or its target.
    """

    wait: timedelta
    to_midnight: int | None
    what: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A customer, its plans, and the steps."""

    start: datetime
    zone: str
    grace_days: int
    anniversary: bool
    plans: tuple[PlanOffer, ...]
    steps: tuple[Step, ...]
    rest: timedelta


_plans = st.builds(
    PlanOffer,
    interval=st.sampled_from(("weekly", "monthly", "monthly", "quarterly", "semiannual", "yearly")),
    amount_cents=st.sampled_from((0, 1000, 3100, 9999)),
    pay_in_advance=st.booleans(),
    monthly_usage=st.booleans(),
    monthly_fixed=st.booleans(),
    fixed_in_advance=st.booleans(),
    prorated=st.booleans(),
    trial_days=st.sampled_from((0, 0, 0, 10, 45)),
)
_waits = st.one_of(
    st.just(timedelta(seconds=1)),
    st.integers(1, 240).map(lambda minutes: timedelta(minutes=minutes)),
    st.integers(1, 40).map(lambda days: timedelta(days=days)),
    st.integers(1, 90 * 24).map(lambda hours: timedelta(hours=hours)),
)
_steps = st.builds(
    Step,
    wait=_waits,
    to_midnight=st.one_of(st.none(), st.none(), st.none(), st.integers(-20, 20)),
    what=st.sampled_from(("usage",) * 5 + ("late",) * 2 + ("plan",) * 3 + ("end", "begin", "begin", "zone")),
    number=st.integers(0, 11),
)


# Also around ends of months, where the day of an anniversary depends on the time zone: it is the 28th to the 31st, or
# the first.
_starts = st.one_of(
    st.integers(0, 70 * 24 * 60).map(lambda minutes: FIRST_DAY + timedelta(minutes=minutes)),
    st.builds(
        lambda month, hours: month + timedelta(hours=hours),
        st.sampled_from(
            [datetime(2024, month, 1, tzinfo=UTC) for month in (2, 3, 3, 5)] + [datetime(2023, 3, 1, tzinfo=UTC)]
        ),
        st.integers(-16, 16),
    ),
)


def lives(steps: int = 12) -> st.SearchStrategy[Life]:
    """Lives of at most this many steps."""
    return st.builds(
        Life,
        start=_starts,
        zone=st.sampled_from(ZONES),
        grace_days=st.sampled_from((0, 0, 3)),
        anniversary=st.booleans(),
        plans=st.tuples(_plans, _plans, _plans),
        steps=st.lists(_steps, min_size=1, max_size=steps).map(tuple),
        rest=st.sampled_from((timedelta(seconds=1), timedelta(days=3), timedelta(days=40), timedelta(days=400))),
    )


class Crash(BaseException):
    """The process dies: everything uncommitted is lost."""


class CrashingStore:
    """A store with a process that dies right before some commits of due jobs."""

    def __init__(self, store: Store, dies: Callable[[], bool]) -> None:
        self.store = store
        self._dies = dies

    def read(self, organization_id: str | None, question: Callable[[Transaction], Any]) -> Any:
        return self.store.read(organization_id, question)

    def write(self, organization_id: str | None, change: Callable[[Transaction], Any]) -> Any:
        def fatal(tx: Transaction) -> Any:
            done = change(tx)
            if organization_id is None and self._dies():
                raise Crash
            return done

        return self.store.write(organization_id, fatal)

    @property
    def reachability(self) -> Reachability:
        return self.store.reachability

    def look(self) -> None:
        self.store.look()

    @property
    def connections(self) -> Connections | None:
        return self.store.connections

    @property
    def free_bytes(self) -> int | None:
        return self.store.free_bytes

    @property
    def now(self) -> Callable[[], datetime] | None:
        return self.store.now

    @property
    def schema(self) -> int:
        return self.store.schema

    @property
    def identity(self) -> str | None:
        return self.store.identity

    @property
    def reads_beside_writes(self) -> bool:
        # So that it also dies while computing before the lock is taken.
        return True

    def is_awaited(self) -> bool:
        return self.store.is_awaited()

    def entitling_commits(self, organization_id: str) -> int:
        return self.store.entitling_commits(organization_id)

    def roll_up_usage(self) -> bool:
        return self.store.roll_up_usage()

    def ship_events(self) -> bool:
        return self.store.ship_events()

    @property
    def contention(self) -> float:
        return self.store.contention

    def close(self) -> None:
        self.store.close()


@dataclass(slots=True)
class Played:
    """The result of a life: units sent by metric, and all invoices and fees without their ids."""

    sent: dict[str, int] = field(default_factory=dict)
    invoices: list[Mapping[str, Any]] = field(default_factory=list)
    billed: dict[str, Decimal] = field(default_factory=dict)
    taxed: list[tuple[object, ...]] = field(default_factory=list)
    notes: list[tuple[object, ...]] = field(default_factory=list)
    coupons: list[tuple[object, ...]] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)


def play(
    life: Life,
    *,
    jump: bool = False,
    dies: Callable[[], bool] | None = None,
    provider: UnsteadyProvider | None = None,
    check: Callable[[Scenario], None] | None = None,
) -> Played:
    """Play `life` and then whatever is due. `dies` is asked before each commit of due jobs; what died is run again.
    `check` gets the sandbox at the end.

    With a `provider` the customer is linked to it and has coupons; before each change or end of the subscription, and
    at the end, it answers everything.
    """
    with Scenario(now=life.start, tax_provider=provider) as box:
        if dies is not None:
            box.billing._system.store = CrashingStore(box.billing.store, dies)
        player = _Player(box, life, jump=jump, provider=provider)
        player.act()
        if check is not None:
            check(box)
        return player.played


class UnsteadyProvider(Provider):
    """A provider that is sometimes down, throttles, or refuses; `fails` chooses the next failure, if any."""

    def __init__(self, fails: Callable[[], ProviderFailure | None]) -> None:
        super().__init__("0.07")
        self.fails = fails
        self.steady = False

    def ask(self, connection: TaxConnection, question: TaxQuestion) -> ProviderTaxes | Reported | ProviderFailure:
        failure = None if self.steady else self.fails()
        return super().ask(connection, question) if failure is None else failure


class _Player:
    def __init__(self, box: Scenario, life: Life, *, jump: bool, provider: UnsteadyProvider | None) -> None:
        self.box = box
        self.life = life
        self.jump = jump
        self.provider = provider
        self.played = Played()
        self._events = count(1)
        self._zone = life.zone

    def _ask(self, method: str, path: str, json: object = None, status: int = 200) -> Any:
        # A crash undoes only the jobs of a request, never the request itself, which was durable before.
        return self._alive(lambda: self.box.ask(method, path, json, status=status), self.box.run_due)

    def _alive(self, first: Callable[[], Any], again: Callable[[], Any]) -> Any:
        try:
            return first()
        except Crash:
            pass
        while True:
            try:
                return again()
            except Crash:
                continue

    def act(self) -> None:
        if self.provider is not None:
            self.box.billing.tax_connections.create(kind="anrok", code="main", url="https://tax.example")
        self._prepare()
        if self.provider is not None:
            self._give_coupons()
        self._begin(0)
        for step in self.life.steps:
            self._move(self._next_instant(step))
            self._do(step)
        self._move(self._now + self.life.rest)
        if self._active():
            self._end(0)
        self._move(self._now + timedelta(days=5), travel=True)
        self._ask_again()
        self._note()

    def _give_coupons(self) -> None:
        """Apply a coupon that is soon used up, and one that never is."""
        once = {"amount_cents": 1234, "amount_currency": "EUR", "coupon_type": "fixed_amount", "frequency": "once"}
        always = {"percentage_rate": 12.5, "coupon_type": "percentage", "frequency": "forever"}
        for code, terms in (("once", once), ("always", always)):
            self._ask(
                "POST", "/coupons", {"coupon": {"name": code, "code": code, "expiration": "no_expiration", **terms}}
            )
            self._ask(
                "POST", "/applied_coupons", {"applied_coupon": {"external_customer_id": "acme", "coupon_code": code}}
            )

    def _wait_for_taxes(self) -> None:
        """Invoices get their taxes within the hour: the subscription cannot end before."""
        if self.provider is not None:
            self.provider.steady = True
            self._move(self._now + timedelta(hours=1), travel=True)
            self.provider.steady = False

    def _ask_again(self) -> None:
        """Retry until every invoice has its taxes."""
        if self.provider is None:
            return
        self.provider.steady = True
        self._move(self._now + timedelta(hours=1), travel=True)
        for invoice in self._ask("GET", "/invoices?status=failed&per_page=100")["invoices"]:
            self._ask("POST", f"/invoices/{invoice['svc_id']}/retry")

    def _do(self, step: Step) -> None:
        acts = {
            "usage": self._usage,
            "late": self._late_usage,
            "plan": self._plan,
            "end": self._end,
            "begin": self._begin,
            "zone": self._travel,
        }
        acts[step.what](step.number)

    def _next_instant(self, step: Step) -> datetime:
        then = self._now + step.wait
        if step.to_midnight is None:
            return then
        zone = ZoneInfo(self._zone)
        local = then.astimezone(zone)
        year, month = (local.year, local.month + 1) if local.month < 12 else (local.year + 1, 1)
        around = datetime(year, month, 1, tzinfo=zone).astimezone(UTC) + timedelta(minutes=step.to_midnight)
        return max(around, self._now + timedelta(seconds=1))

    @property
    def _now(self) -> datetime:
        """The instant last travelled to; the clock itself moves by a microsecond with each bill."""
        return self.box.clock.last_set

    def _move(self, instant: datetime, *, travel: bool = False) -> None:
        if self.jump and not travel:
            self.box.jump_to(instant)
        else:
            self._alive(lambda: self.box.travel_to(instant), lambda: self.box.travel_to(instant))

    def _prepare(self) -> None:
        life = self.life
        self._ask(
            "POST",
            "/customers",
            {
                "customer": {
                    "external_id": "acme",
                    "currency": "EUR",
                    "timezone": life.zone,
                    "billing_configuration": {"invoice_grace_period": life.grace_days},
                    **({} if self.provider is None else {"integration_customers": [_LINK]}),
                }
            },
        )
        ids = {}
        for code in ("arrears", "advance", "late"):
            body = {"name": code, "code": code, "aggregation_type": "sum_agg", "field_name": "value"}
            ids[code] = self._ask("POST", "/billable_metrics", {"billable_metric": body})["billable_metric"]["svc_id"]
        seat = {"name": "Seat", "code": "seat", "amount_cents": 100, "amount_currency": "EUR"}
        add_on = self._ask("POST", "/add_ons", {"add_on": seat})["add_on"]["svc_id"]
        for place, offer in enumerate(life.plans):
            long = offer.interval in ("yearly", "semiannual")
            charges = [charge_on(id, amount="1", pay_in_advance=code == "advance") for code, id in ids.items()]
            fixed = fixed_charge_on(
                add_on, amount="3", units=2, pay_in_advance=offer.fixed_in_advance, prorated=offer.prorated
            )
            plan = {
                "name": f"Plan {place}",
                "code": f"plan-{place}",
                "interval": offer.interval,
                "amount_cents": offer.amount_cents,
                "amount_currency": "EUR",
                "pay_in_advance": offer.pay_in_advance,
                "trial_period": offer.trial_days,
                "charges": charges,
                "fixed_charges": [fixed],
            }
            if long:
                plan |= {"bill_charges_monthly": offer.monthly_usage, "bill_fixed_charges_monthly": offer.monthly_fixed}
            self._ask("POST", "/plans", {"plan": plan})

    def _active(self) -> Any:
        status, body = self.box.request("GET", f"/api/v1/subscriptions/{EXTERNAL_ID}")
        return body["subscription"] if status == 200 else None

    def _subscribe(self, plan: int) -> None:
        body = {
            "external_customer_id": "acme",
            "external_id": EXTERNAL_ID,
            "plan_code": f"plan-{plan % 3}",
            "billing_time": "anniversary" if self.life.anniversary else "calendar",
        }
        self._ask("POST", "/subscriptions", {"subscription": body})

    def _begin(self, number: int) -> None:
        if not self._active():
            self._subscribe(number)

    def _plan(self, number: int) -> None:
        self._wait_for_taxes()
        if self._active():
            self._subscribe(number)

    def _end(self, number: int) -> None:
        self._wait_for_taxes()
        local = self._now.astimezone(ZoneInfo(self._zone))
        if local.hour == 0 and local.minute < 15:
            # If a subscription ends before the run of a boundary day, usage of that day is free.
            self._move(self._now + timedelta(minutes=15))
        if self._active():
            self._ask("DELETE", f"/subscriptions/{EXTERNAL_ID}")

    def _travel(self, number: int) -> None:
        self._zone = ZONES[number % len(ZONES)]
        self._ask("POST", "/customers", {"customer": {"external_id": "acme", "timezone": self._zone}})

    def _usage(self, number: int) -> None:
        active = self._active()
        if not active:
            return
        self._send("advance" if number % 4 == 3 else "arrears", number + 1, self.box.now)

    def _late_usage(self, number: int) -> None:
        # After minutes, hours or days: into a period that is open, a draft, an issued invoice or none at all.
        self._send("late", number + 1, self.box.now - timedelta(minutes=7 ** (number % 6)))

    def _send(self, code: str, value: int, timestamp: datetime) -> None:
        body = {
            "transaction_id": f"t{next(self._events)}",
            "code": code,
            "external_subscription_id": EXTERNAL_ID,
            "timestamp": str(timestamp.timestamp()),
            "properties": {"value": value},
        }
        self._ask("POST", "/events", {"event": body})
        self.played.sent[code] = self.played.sent.get(code, 0) + value

    def _note(self) -> None:
        def invoices(work: Any) -> Any:
            invoices_with_fees = []
            for invoice in work.tx.find(Invoice, order=[asc("created_at"), asc("id")]):
                fees = work.tx.find(Fee, eq("invoice_id", invoice.id))
                invoices_with_fees.append((invoice, fees))
            return invoices_with_fees

        played = self.played
        for invoice, fees in self.box.billing.reading(invoices):
            if invoice.status in ("voided", "deleted"):
                continue
            for fee in fees:
                if fee.fee_type == "charge":
                    code = fee.item.code
                    played.billed[code] = played.billed.get(code, Decimal(0)) + fee.units
            played.invoices.append(_shown(invoice, fees))
            played.taxed.append(_taxed(invoice, fees))
        # Immediate invoices may be numbered before those that were overdue then.
        played.invoices.sort(key=repr)
        played.taxed.sort(key=repr)
        for note in self.box.billing.reading(lambda work: work.tx.find(CreditNote)):
            amounts = (note.total_amount_cents, note.credit_amount_cents, note.sub_total_excluding_taxes_amount_cents)
            played.notes.append((note.status, *amounts, note.taxes_amount_cents))
        played.notes.sort()
        for held in self.box.billing.reading(lambda work: work.tx.find(AppliedCoupon)):
            played.coupons.append((held.frequency, held.status))
        played.coupons.sort()
        played.findings = [str(finding) for finding in self.box.billing.audit().findings]


def _taxed(invoice: Invoice, fees: Sequence[Fee]) -> tuple[object, ...]:
    """The total of an invoice before credit notes, and its parts, whenever its taxes became known."""
    return (
        invoice.invoice_type,
        invoice.status,
        invoice.coupons_amount_cents,
        invoice.taxes_amount_cents,
        invoice.sub_total_including_taxes_amount_cents,
        sorted((line.code, str(line.rate.normalize()), line.amount_cents) for line in invoice.applied_taxes),
        sorted(
            (fee.item.code, fee.amount_cents, str(fee.precise_coupons_amount_cents.normalize()), fee.taxes_amount_cents)
            for fee in fees
        ),
    )


def _shown(invoice: Invoice, fees: Sequence[Fee]) -> Mapping[str, Any]:
    return {
        "type": invoice.invoice_type,
        "status": invoice.status,
        "issuing_date": invoice.issuing_date,
        "created_at": invoice.created_at,
        "total": invoice.total_amount_cents,
        "credits": sorted((line.item_type, line.amount_cents) for line in invoice.credits),
        "fees": sorted(
            (
                fee.fee_type,
                fee.item.code,
                str(fee.units.normalize()),
                fee.amount_cents,
                str(fee.from_datetime),
                str(fee.to_datetime),
            )
            for fee in fees
        ),
    }
