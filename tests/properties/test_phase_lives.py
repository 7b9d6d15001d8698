"""Random contracts with phases: each period is billed once, by the phase in which it begins, whenever the work is done.

Phases are another plan or what they change about one; plans are in advance or in arrears, with usage of both kinds and
a fixed charge. Phases to come may be replaced on the way. What is owed is computed day by day, from the dates alone.
"""

from __future__ import annotations

from calendar import monthrange
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from itertools import count, pairwise, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, strategies as st

from tests.examples import body_of, examples
from tests.scenarios import Scenario, charge_on, fixed_charge_on
from usagebill.core.invoices.life_cycle import InvoicingReason
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.subscriptions import Subscription
from usagebill.storage.conditions import asc

pytestmark = pytest.mark.slow

ZONES = ("UTC", "America/Los_Angeles", "Asia/Tokyo", "Europe/Berlin", "Pacific/Auckland")
DAY = timedelta(days=1)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
MONTHS = {"monthly": 1, "quarterly": 3, "yearly": 12}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A plan: its fee, and what a unit of each kind of usage and a seat cost, all in cents."""

    amount: int
    in_advance: bool
    arrears: int
    advance: int
    seats: int
    seats_in_advance: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A later phase: it begins `periods` after the one before, and its date is up to `early` days before that."""

    periods: int
    early: int
    plan: int | None
    amount: int | None
    arrears: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rise:
    """Another fee of a plan, from the next period on or from a day so many days ahead."""

    plan: int
    amount: int
    days: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """So many units of usage, other phases or a rise, `wait` after the step before; `minutes` is a time around the next
    local midnight.
    """

    wait: timedelta
    minutes: int | None
    act: int | tuple[Phase, ...] | Rise


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    zone: str
    start: datetime
    interval: str
    anniversary: bool
    coupon: int
    offers: tuple[Offer, ...]
    phases: tuple[Phase, ...]
    steps: tuple[Step, ...]
    tail: int


offers = st.builds(
    Offer,
    amount=st.sampled_from((0, 1000, 3100, 9999)),
    in_advance=st.booleans(),
    arrears=st.integers(1, 9),
    advance=st.integers(1, 9),
    seats=st.sampled_from((0, 300, 700)),
    seats_in_advance=st.booleans(),
)
phases = st.lists(
    st.builds(
        Phase,
        periods=st.integers(1, 2),
        early=st.integers(0, 6),
        plan=st.sampled_from((None, 0, 1, 2)),
        amount=st.sampled_from((None, 0, 500, 20_000)),
        arrears=st.sampled_from((None, 11, 23)),
    ),
    max_size=3,
).map(tuple)
steps = st.builds(
    Step,
    wait=st.integers(1, 40 * 24 * 60).map(lambda minutes: timedelta(minutes=minutes)),
    minutes=st.none() | st.sampled_from((-1, 0, 1, 4, 5, 6, 12, 61)),
    act=st.integers(1, 9)
    | phases
    | st.builds(
        Rise,
        plan=st.integers(0, 2),
        amount=st.sampled_from((700, 40_000)),
        days=st.none() | st.integers(1, 50),
    ),
)
contracts = st.builds(
    Contract,
    zone=st.sampled_from(ZONES),
    start=st.integers(0, 70 * 24 * 60).map(
        lambda minutes: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    ),
    interval=st.sampled_from(("weekly", "monthly", "monthly", "quarterly", "yearly")),
    anniversary=st.booleans(),
    coupon=st.sampled_from((0, 0, 33)),
    offers=st.tuples(offers, offers, offers),
    phases=phases,
    steps=st.lists(steps, max_size=5).map(tuple),
    tail=st.integers(1, 120),
)


# The dates, from the calendar alone.


def first_day(contract: Contract) -> date:
    return contract.start.astimezone(ZoneInfo(contract.zone)).date()


def openings(contract: Contract) -> Iterator[date]:
    """The first days of the periods after the first one."""
    first = first_day(contract)
    return (day for day in (first + DAY * n for n in count(1)) if begins_period(contract, first, day))


def begins_period(contract: Contract, first: date, day: date) -> bool:
    if contract.interval == "weekly":
        return day.weekday() == (first.weekday() if contract.anniversary else 0)
    anchor = min(first.day, monthrange(day.year, day.month)[1]) if contract.anniversary else 1
    since = (day.month - first.month) if contract.anniversary else day.month - 1
    return day.day == anchor and since % MONTHS[contract.interval] == 0


def whole_days(contract: Contract, opens: date) -> int:
    """The days of the whole period that ends with the first opening."""
    if contract.interval == "weekly":
        return 7
    months = MONTHS[contract.interval]
    year, month = divmod(opens.year * 12 + opens.month - 1 - months, 12)
    return (opens - date(year, month + 1, 1)).days


@dataclass(slots=True)
class Prices:
    """The prices of a plan: its fee from each instant on, in order."""

    offer: Offer
    amounts: list[tuple[datetime, int]]

    def amount_of(self, opens: datetime) -> int:
        """The fee of a period that begins at this instant."""
        return [amount for begins, amount in self.amounts if begins <= opens][-1]

    def changed(self, phase: Phase) -> Prices:
        """A copy with what the phase changes; prices that wait are its own unless it has a fee of its own."""
        offer = self.offer if phase.arrears is None else replace(self.offer, arrears=phase.arrears)
        return Prices(offer, [*self.amounts] if phase.amount is None else [(LONG_AGO, phase.amount)])


@dataclass(slots=True)
class Ramp:
    """Which plan counts from which day on, and its prices."""

    contract: Contract
    plans: list[Prices]
    steps: list[tuple[date, int, Prices]]

    @classmethod
    def of(cls, contract: Contract) -> Ramp:
        plans = [Prices(offer, [(LONG_AGO, offer.amount)]) for offer in contract.offers]
        return cls(contract, plans, [(first_day(contract), 0, plans[0])])

    def prices_on(self, day: date) -> Prices:
        return [prices for begins, _, prices in self.steps if begins <= day][-1]

    def rises(self, rise: Rise, now: datetime) -> str:
        """Note the rise. Returns `effective` as it is sent."""
        zone = ZoneInfo(self.contract.zone)
        day = None if rise.days is None else now.astimezone(zone).date() + DAY * rise.days
        begins = now if day is None else datetime.combine(day, time(), zone)
        amounts = self.plans[rise.plan].amounts
        amounts.append((begins, rise.amount))
        amounts.sort(key=lambda one: one[0])
        return "next_period" if day is None else day.isoformat()

    def replaced(self, today: date, later: tuple[Phase, ...], charge_ids: list[str]) -> list[dict[str, Any]]:
        """Note the phases that replace those after today. Returns them as sent."""
        self.steps = [step for step in self.steps if step[0] <= today]
        if not later:
            return []
        present = self.steps[-1][1]
        coming = (day for day in openings(self.contract) if day > today)
        sent: list[dict[str, Any]] = [{}]
        before = today
        for phase in later:
            for _ in range(phase.periods - 1):
                before = next(coming)
            begins = next(coming)
            sent[-1]["until"] = max(begins - DAY * phase.early, before + DAY).isoformat()
            before = begins
            plan = present if phase.plan is None else phase.plan
            own = phase.amount is not None or phase.arrears is not None
            self.steps.append((begins, plan, self.plans[plan].changed(phase) if own else self.plans[plan]))
            sent.append(as_sent(phase, plan, charge_ids[plan]))
        return sent


def as_sent(phase: Phase, plan: int, charge_id: str) -> dict[str, Any]:
    overrides: dict[str, Any] = {}
    if phase.amount is not None:
        overrides["amount_cents"] = phase.amount
    if phase.arrears is not None:
        overrides["charges"] = [{"id": charge_id, "properties": {"amount": price(phase.arrears)}}]
    sent = {"plan_overrides": overrides} if overrides else {}
    return sent if phase.plan is None and overrides else {"plan_code": f"plan-{plan}", **sent}


def price(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"


# What happens, and what is billed.


@dataclass(slots=True)
class Lived:
    papers: list[object]
    billed: dict[tuple[str, str], int]
    owed: dict[tuple[str, str], int]
    windows: list[tuple[datetime, datetime]]
    unbilled: int
    findings: list[str]


def live(contract: Contract, *, late: bool = False) -> Lived:
    """Live the contract day by day; late, nothing runs until something is asked for."""
    with Scenario(now=contract.start) as box:
        return _lived(box, contract, late=late)


def _lived(box: Scenario, contract: Contract, *, late: bool) -> Lived:
    zone = ZoneInfo(contract.zone)
    box.entity(timezone=contract.zone)
    box.customer()
    charge_ids = _offered(box, contract)
    if contract.coupon:
        box.coupon(0, coupon_type="percentage", percentage_rate=contract.coupon, frequency="forever")
    ramp = Ramp.of(contract)
    box.subscribe(
        "plan-0",
        billing_time="anniversary" if contract.anniversary else "calendar",
        phases=ramp.replaced(first_day(contract), contract.phases, charge_ids),
    )
    move = box.jump_to if late else box.travel_to
    used: list[tuple[datetime, int]] = []
    now = contract.start
    for step in contract.steps:
        now += step.wait
        if step.minutes is not None:
            midnight = datetime.combine(now.astimezone(zone).date() + DAY, time(), zone).astimezone(UTC)
            now = max(midnight + timedelta(minutes=step.minutes), now)
        move(now)
        if isinstance(step.act, int):
            used.append((now, step.act))
            for code in ("arrears", "advance"):
                box.event(code, value=step.act)
        elif isinstance(step.act, Rise):
            effective = ramp.rises(step.act, now)
            # A plan that nobody is on yet forgets how it bills by the month unless the interval is sent.
            changed = {"amount_cents": step.act.amount, "interval": contract.interval, "effective": effective}
            box.put(f"/plans/plan-{step.act.plan}", plan=changed)
        else:
            sent = ramp.replaced(now.astimezone(zone).date(), step.act, charge_ids)
            box.put("/subscriptions/sub", subscription={"phases": sent})
    last = now.astimezone(zone).date() + DAY * contract.tail
    move(datetime.combine(last, time(12), zone).astimezone(UTC))
    box.run_due()
    invoices = box.invoices()
    return Lived(
        papers=[_paper(invoice) for invoice in invoices],
        billed=_billed(invoices, zone),
        owed=_owed(ramp, used, last),
        windows=box.billing.reading(_windows),
        unbilled=len(box.get("/events?unbilled=true")["events"]),
        findings=[str(finding) for finding in box.billing.audit().findings],
    )


def _offered(box: Scenario, contract: Contract) -> list[str]:
    """Make the plans. Returns the id of each one's charge in arrears."""
    arrears, advance, seat = box.metric("arrears"), box.metric("advance"), box.add_on("seat")
    ids = []
    for number, offer in enumerate(contract.offers):
        plan = box.plan(
            charge_on(arrears, amount=price(offer.arrears), code="arrears"),
            charge_on(advance, amount=price(offer.advance), code="advance", pay_in_advance=True),
            code=f"plan-{number}",
            interval=contract.interval,
            amount_cents=offer.amount,
            pay_in_advance=offer.in_advance,
            fixed_charges=[
                fixed_charge_on(seat, amount=price(offer.seats), units=1, pay_in_advance=offer.seats_in_advance)
            ],
        )
        ids += [charge["svc_id"] for charge in plan["charges"] if charge["code"] == "arrears"]
    return ids


def _paper(invoice: Any) -> object:
    fees = sorted(
        (
            fee["item"]["type"],
            fee["item"]["code"],
            fee["amount_cents"],
            str(fee["units"]),
            fee["from_date"],
            fee["to_date"],
        )
        for fee in invoice["fees"]
    )
    totals = invoice["fees_amount_cents"], invoice["coupons_amount_cents"], invoice["total_amount_cents"]
    return invoice["number"].rpartition("-")[2], invoice["issuing_date"], invoice["status"], totals, fees


def _billed(invoices: list[Any], zone: ZoneInfo) -> dict[tuple[str, str], int]:
    """The cents of what is billed, by what it is for and the first day of its period."""
    billed: Counter[tuple[str, str]] = Counter()
    for invoice in invoices:
        for fee in invoice["fees"]:
            kind = fee["item"]["code"] if fee["item"]["type"] in ("charge", "fixed_charge") else "plan"
            begins = datetime.fromisoformat(fee["from_date"]).astimezone(zone).date()
            billed[kind, str(begins)] += fee["amount_cents"]
    return {key: cents for key, cents in billed.items() if cents}


def _owed(ramp: Ramp, used: list[tuple[datetime, int]], last: date) -> dict[tuple[str, str], int]:
    """What is owed by noon of the last day: by period, as the phase says that counts on its first day."""
    contract = ramp.contract
    zone = ZoneInfo(contract.zone)
    begins = [first_day(contract), *takewhile(lambda day: day <= last, openings(contract))]
    following = next(day for day in openings(contract) if day > last)
    owes: Counter[tuple[str, str]] = Counter()
    for day, after in pairwise([*begins, following]):
        prices = ramp.prices_on(day)
        offer, closed = prices.offer, after <= last
        opens = contract.start if day == begins[0] else datetime.combine(day, time(), zone)
        amount = Fraction(prices.amount_of(opens))
        if day == begins[0] and not contract.anniversary:
            amount = amount * (after - day).days / whole_days(contract, after)
        if closed or offer.in_advance:
            owes["plan", str(day)] += int(amount + Fraction(1, 2))
        if closed or offer.seats_in_advance:
            owes["seat", str(day)] += offer.seats
        units = sum(units for at, units in used if day <= at.astimezone(zone).date() < after)
        owes["advance", str(day)] += units * offer.advance
        if closed:
            owes["arrears", str(day)] += units * offer.arrears
    return {key: cents for key, cents in owes.items() if cents}


def _windows(work: Any) -> list[tuple[datetime, datetime]]:
    """The usage that each billing period counts, in order, of whichever phase."""
    chain = {subscription.id for subscription in work.tx.find(Subscription)}
    return sorted(
        (period.charges_from_datetime, period.charges_to_datetime)
        for period in work.tx.find(BillingPeriod, order=[asc("created_at"), asc("id")])
        if period.subscription_id in chain
        and period.invoicing_reason != InvoicingReason.IN_ADVANCE
        and period.charges_from_datetime is not None
        and period.charges_from_datetime < period.charges_to_datetime
    )


@examples(25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(contracts)
def test_each_period_is_billed_once_by_the_phase_in_which_it_begins(contract: Contract) -> None:
    lived = live(contract)
    assert lived.billed == lived.owed
    assert lived.findings == []
    assert lived.unbilled == 0
    for (_, ends), (begins, _) in pairwise(lived.windows):
        assert timedelta() < begins - ends <= timedelta(seconds=1)


@examples(25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(contracts)
def test_working_late_gives_the_same_papers(contract: Contract) -> None:
    assert live(contract, late=True).papers == live(contract).papers


@examples(10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(contracts)
def test_one_jump_gives_the_same_papers(contract: Contract) -> None:
    undisturbed = replace(contract, steps=(), tail=contract.tail * 4)
    assert live(undisturbed, late=True).papers == live(undisturbed).papers


# Each kind of phase and of rise, with usage around midnights.
FIXED = Contract(
    zone="Asia/Tokyo",
    start=datetime(2024, 1, 10, 20, 30, tzinfo=UTC),
    interval="monthly",
    anniversary=True,
    coupon=33,
    offers=(
        Offer(amount=3100, in_advance=True, arrears=3, advance=5, seats=700, seats_in_advance=True),
        Offer(amount=1000, in_advance=False, arrears=7, advance=2, seats=300, seats_in_advance=False),
        Offer(amount=9999, in_advance=True, arrears=4, advance=1, seats=0, seats_in_advance=False),
    ),
    phases=(
        Phase(periods=1, early=3, plan=None, amount=500, arrears=11),
        Phase(periods=1, early=0, plan=1, amount=None, arrears=None),
        Phase(periods=2, early=6, plan=2, amount=None, arrears=23),
    ),
    steps=(
        Step(wait=timedelta(days=31), minutes=4, act=6),
        Step(wait=timedelta(days=2), minutes=None, act=Rise(plan=1, amount=700, days=40)),
        Step(wait=timedelta(days=20), minutes=0, act=3),
        Step(wait=timedelta(days=8), minutes=-1, act=2),
        Step(wait=timedelta(days=2), minutes=None, act=Rise(plan=0, amount=40_000, days=None)),
        Step(
            wait=timedelta(days=3),
            minutes=None,
            act=(
                Phase(periods=1, early=2, plan=0, amount=None, arrears=None),
                Phase(periods=1, early=0, plan=2, amount=None, arrears=None),
            ),
        ),
        Step(wait=timedelta(days=35), minutes=6, act=5),
    ),
    tail=70,
)


def test_a_fixed_contract_holds() -> None:
    body_of(test_each_period_is_billed_once_by_the_phase_in_which_it_begins)(FIXED)
    body_of(test_working_late_gives_the_same_papers)(FIXED)
