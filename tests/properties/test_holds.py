"""Whatever happens to holds, usage and credits, exactly what fits is allowed: against a count by hand of each price."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, strategies as st

from tests.examples import examples
from tests.scenarios import Scenario, charge_on, price_ranges

pytestmark = [pytest.mark.slow, pytest.mark.beyond_reference]

SUBSCRIPTIONS = ("one", "two")
ZERO = Decimal(0)
# Units of a hold, an event or a capture.
UNITS = [Decimal(text) for text in ("0.5", "1", "2", "3", "4.5", "7", "12")]

Price = Callable[[Decimal], Decimal]


def tiers(units: Decimal, *, first: Decimal, then: Decimal, bound: int = 10) -> Decimal:
    return min(units, Decimal(bound)) * first + max(ZERO, units - bound) * then


def volume(units: Decimal) -> Decimal:
    return units * (100 if units <= 10 else 60)


def packages(units: Decimal) -> Decimal:
    return (units / 5).to_integral_value(ROUND_CEILING) * 300


# Prices in cents of all units of a period; those in advance come to whole cents for each event.
MODELS: dict[str, tuple[str, dict[str, Any], Price]] = {
    "standard": ("standard", {"amount": "1"}, lambda units: units * 100),
    "fractions": ("standard", {"amount": "0.333"}, lambda units: units * Decimal("33.3")),
    "dearer": (
        "graduated",
        {"graduated_ranges": price_ranges((0, 10, "0.5", "0"), (11, None, "2", "0"))},
        lambda units: tiers(units, first=Decimal(50), then=Decimal(200)),
    ),
    "cheaper": (
        "graduated",
        {"graduated_ranges": price_ranges((0, 10, "2", "0"), (11, None, "0.5", "0"))},
        lambda units: tiers(units, first=Decimal(200), then=Decimal(50)),
    ),
    "package": ("package", {"amount": "3", "package_size": 5, "free_units": 0}, packages),
    "volume": ("volume", {"volume_ranges": price_ranges((0, 10, "1", "0"), (11, None, "0.6", "0"))}, volume),
}
IN_ADVANCE = ("standard", "dearer", "cheaper", "package")


def cents(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal(1), ROUND_HALF_UP)


@dataclass(slots=True)
class Held:
    """An open hold."""

    id: str
    name: str
    units: Decimal
    expires_at: datetime


@dataclass(slots=True)
class Ledger:
    """What a careful person would write down: units used by subscription and month, open holds, and credits."""

    price: Price
    in_advance: bool
    now: datetime
    credits: Decimal
    used: dict[tuple[str, int], Decimal] = field(default_factory=dict)
    holds: list[Held] = field(default_factory=list)

    def open(self) -> list[Held]:
        return [hold for hold in self.holds if hold.expires_at > self.now]

    def units(self, *, held: bool, more: tuple[str, int, Decimal] | None = None) -> dict[tuple[str, int], Decimal]:
        """Units by subscription and month."""
        whole = dict(self.used)
        if held:
            for hold in self.open():
                key = (hold.name, self.now.month)
                whole[key] = whole.get(key, ZERO) + hold.units
        if more is not None:
            whole[more[:2]] = whole.get(more[:2], ZERO) + more[2]
        return whole

    def spent(self, **which: Any) -> Decimal:
        """Against the limit of all time."""
        return sum(map(self.price, self.units(**which).values()), ZERO)

    def due(self, **which: Any) -> Decimal:
        """What credits are still to pay: of arrears the running month, in advance what comes on top of what is paid."""
        if self.in_advance:
            return self.spent(**which) - self.spent(held=False)
        running = [units for (_, month), units in self.units(**which).items() if month == self.now.month]
        return sum((cents(self.price(units)) for units in running), ZERO)

    def fits(self, name: str, month: int, units: Decimal, limit: Decimal, *, to_the_cent: bool) -> bool:
        more = (name, month, units)
        adds = self.spent(held=True, more=more) - self.spent(held=True)
        if adds > 0 and self.spent(held=True) + adds > limit:
            return False
        before = self.due(held=True)
        due = self.due(held=True, more=more) - before
        is_billed = self.in_advance or month == self.now.month
        # A fraction of a cent needs credits, too; where an event is stored, its bill decides.
        if is_billed and not to_the_cent:
            due = max(due, adds)
        return due <= 0 or due <= max(ZERO, self.credits - before)

    def use(self, name: str, month: int, units: Decimal) -> None:
        before = self.spent(held=False)
        key = (name, month)
        self.used[key] = self.used.get(key, ZERO) + units
        if self.in_advance:
            self.credits -= min(self.credits, self.spent(held=False) - before)

    def turn(self) -> None:
        """The month ends, and its invoices are paid."""
        if not self.in_advance:
            self.credits -= min(self.credits, self.due(held=False))


class Life:
    """A system, and the ledger it must agree with."""

    def __init__(self, box: Scenario, model: str, in_advance: bool, limit: int, credits: int) -> None:
        self.box = box
        name, properties, price = MODELS[model]
        box.customer()
        box.plan(charge_on(box.metric("gb"), name, pay_in_advance=in_advance, **properties))
        for external_id in SUBSCRIPTIONS:
            box.subscribe(external_id=external_id)
        self.limit = Decimal(limit)
        cap = {"code": "cap", "amount_cents": limit, "interval": "lifetime"}
        box.post("/customers/acme/spend_limits", spend_limit=cap)
        wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR"}
        granted = {**wallet, "granted_credits": str(Decimal(credits) / 100), "hard_stop": True}
        self.wallet = box.post("/wallets", wallet=granted)["wallet"]["svc_id"]
        self.ledger = Ledger(price=price, in_advance=in_advance, now=box.now, credits=Decimal(credits))
        self.sent = 0

    def _event(self, name: str, units: Decimal, month: int) -> dict[str, Any]:
        self.sent += 1
        event: dict[str, Any] = {"transaction_id": f"event-{self.sent}", "properties": {"value": str(units)}}
        if month < self.ledger.now.month:
            event["timestamp"] = int(datetime.fromisoformat(f"2024-{month:02d}-20T00:00:00+00:00").timestamp())
        return event

    def _month(self, late: bool) -> int:
        return max(3, self.ledger.now.month - 1) if late else self.ledger.now.month

    def hold(self, name: str, units: Decimal, minutes: int) -> None:
        body = {"external_subscription_id": name, "code": "gb", "units": str(units), "expires_in": minutes * 60}
        fits = self.ledger.fits(name, self.ledger.now.month, units, self.limit, to_the_cent=False)
        answer = self.box.post("/holds", 200 if fits else 402, hold=body)
        if fits:
            end = self.ledger.now + timedelta(minutes=minutes)
            self.ledger.holds.append(Held(answer["hold"]["svc_id"], name, units, end))

    def send(self, name: str, units: Decimal, late: bool) -> None:
        month = self._month(late)
        event = {**self._event(name, units, month), "external_subscription_id": name, "code": "gb"}
        fits = self.ledger.fits(name, month, units, self.limit, to_the_cent=True)
        self.box.post("/events?enforce=true", 200 if fits else 402, event=event)
        if fits:
            self.ledger.use(name, month, units)

    def capture(self, place: int, units: Decimal | None, late: bool) -> None:
        if self.ledger.holds:
            hold = self.ledger.holds.pop(place % len(self.ledger.holds))
            month = self._month(late)
            real = hold.units if units is None else units
            self.box.post(f"/holds/{hold.id}/capture", event=self._event(hold.name, real, month))
            self.ledger.use(hold.name, month, real)

    def release(self, place: int) -> None:
        if self.ledger.open():
            hold = self.ledger.open()[place % len(self.ledger.open())]
            self.box.post(f"/holds/{hold.id}/release")
            self.ledger.holds.remove(hold)

    def wait(self, minutes: int) -> None:
        self._travel(self.ledger.now + timedelta(minutes=minutes))

    def turn(self) -> None:
        """Into the next month, after its bills."""
        if self.ledger.now.month < 6:
            self.ledger.turn()
            self._travel(self.ledger.now.replace(month=self.ledger.now.month + 1, day=2, hour=0))

    def _travel(self, to: datetime) -> None:
        self.ledger.now = to
        self.box.travel_to(to)

    def top_up(self, credits: int) -> None:
        body = {"wallet_id": self.wallet, "granted_credits": str(credits)}
        self.box.post("/wallet_transactions", wallet_transaction=body)
        self.ledger.credits += credits * 100

    def take_back(self, credits: int) -> None:
        taken = min(Decimal(credits), self.ledger.credits // 100)
        if taken > 0:
            body = {"wallet_id": self.wallet, "voided_credits": str(taken)}
            self.box.post("/wallet_transactions", wallet_transaction=body)
            self.ledger.credits -= taken * 100

    def assert_agrees(self) -> None:
        """What the limit says is used, and held on top, is what the ledger says."""
        question = {"external_subscription_id": "one", "amount_cents": 0, "code": "gb"}
        (limit,) = self.box.post("/checks", check=question)["check"]["limits"]
        used = self.ledger.spent(held=False)
        assert Decimal(limit["used"]) == used
        assert Decimal(limit["held"]) == self.ledger.spent(held=True) - used


_units, _places, _late = st.sampled_from(UNITS), st.integers(0, 9), st.booleans()
_names = st.sampled_from(SUBSCRIPTIONS)
STEPS = st.one_of(
    st.tuples(st.just("hold"), _names, _units, st.sampled_from([1, 30, 600])),
    st.tuples(st.just("hold"), _names, _units, st.just(1440)),
    st.tuples(st.just("send"), _names, _units, _late),
    st.tuples(st.just("capture"), _places, st.none(), st.just(False)),
    st.tuples(st.just("capture"), _places, _units, _late),
    st.tuples(st.just("release"), _places),
    st.tuples(st.just("wait"), st.sampled_from([1, 29, 31, 700])),
    st.tuples(st.just("turn")),
    st.tuples(st.just("top_up"), st.integers(1, 10)),
    st.tuples(st.just("take_back"), st.integers(1, 10)),
)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[str, bool, int, int]:
    """A price, whether it is paid in advance, a limit and credits."""
    in_advance = draw(st.booleans())
    model = draw(st.sampled_from(IN_ADVANCE if in_advance else tuple(MODELS)))
    return model, in_advance, draw(st.sampled_from([1_000, 2_500, 10_000])), draw(st.sampled_from([500, 1_500, 20_000]))


@examples(25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(world=worlds(), steps=st.lists(STEPS, min_size=5, max_size=25))
def test_exactly_what_fits_is_allowed(world: tuple[str, bool, int, int], steps: list[tuple[Any, ...]]) -> None:
    with Scenario(now="2024-03-02T00:00:00Z") as box:
        life = Life(box, *world)
        for act, *arguments in steps:
            getattr(life, act)(*arguments)
            life.assert_agrees()
        assert box.billing.audit().findings == ()
