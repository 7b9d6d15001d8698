"""A life: a price list, a customer, and steps in time, all made from one seed.

Every life has only a few of the features (`FEATURES`), so that each of their combinations is tried. Instants are aimed
at borders: midnights, the first minutes of a billing day, the last second, the day of a change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/Los_Angeles",
    "Asia/Tokyo",
    "Asia/Kolkata",
    "Pacific/Auckland",
    "America/Sao_Paulo",
)
MONTHS: Mapping[str, int] = {"weekly": 0, "monthly": 1, "quarterly": 3, "semiannual": 6, "yearly": 12}
_A_YEAR: Mapping[str, int] = {"weekly": 52, "monthly": 12, "quarterly": 4, "semiannual": 2, "yearly": 1}
MICROSECOND = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)

# The charges that a plan may have, by code: the metric, then the terms. Prices are in units of the currency.
CHARGES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "gb": ("gb", {"charge_model": "standard", "price": 1}),
    "gb-min": ("gb", {"charge_model": "standard", "price": 1, "minimum": 100_00}),
    "gb-tiers": ("gb", {"charge_model": "graduated", "ranges": [(10, 2, 3), (None, 1, 0)]}),
    "gb-volume": ("gb", {"charge_model": "volume", "ranges": [(10, 2, 3), (None, 1, 0)]}),
    "gb-packs": ("gb", {"charge_model": "package", "price": 5, "size": 10, "free": 3}),
    "gb-share": ("gb", {"charge_model": "percentage", "rate": 10}),
    "gb-ahead": ("gb", {"charge_model": "standard", "price": 1, "ahead": True}),
    "gb-regions": ("gb", {"charge_model": "standard", "price": 1, "regions": {"eu": 3}}),
    "calls": ("calls", {"charge_model": "standard", "price": 1}),
    "calls-ahead": ("calls", {"charge_model": "standard", "price": 1, "ahead": True}),
    "peak": ("peak", {"charge_model": "standard", "price": 1}),
    "level": ("level", {"charge_model": "standard", "price": 1}),
    "users": ("users", {"charge_model": "standard", "price": 2}),
    "seats": ("seats", {"charge_model": "standard", "price": 31, "prorated": True}),
    "seats-whole": ("seats", {"charge_model": "standard", "price": 5}),
    "seats-ahead": ("seats", {"charge_model": "standard", "price": 31, "prorated": True, "ahead": True}),
    "seats-alone": (
        "seats",
        {"charge_model": "standard", "price": 31, "prorated": True, "ahead": True, "invoiceable": False},
    ),
    "stock": ("stock", {"charge_model": "standard", "price": 1}),
    "stock-days": ("stock", {"charge_model": "standard", "price": 31, "prorated": True}),
    "stock-ahead": ("stock", {"charge_model": "standard", "price": 31, "prorated": True, "ahead": True}),
    "hours": ("hours", {"charge_model": "standard", "price": 50}),
}
# Metrics whose quantity is carried over from period to period.
RECURRING = ("seats", "stock", "hours")
COUPONS: Mapping[str, Mapping[str, Any]] = {
    "five-once": {"coupon_type": "fixed_amount", "amount_cents": 500, "frequency": "once"},
    "much-once": {"coupon_type": "fixed_amount", "amount_cents": 77_77, "frequency": "once"},
    "three-twice": {"coupon_type": "fixed_amount", "amount_cents": 333, "frequency": "recurring", "duration": 2},
    "two-forever": {"coupon_type": "fixed_amount", "amount_cents": 200, "frequency": "forever"},
    "half-once": {"coupon_type": "percentage", "rate": "50", "frequency": "once"},
    "third-twice": {"coupon_type": "percentage", "rate": "33.33", "frequency": "recurring", "duration": 2},
    "half-forever": {"coupon_type": "percentage", "rate": "50", "frequency": "forever"},
}


def coupon_terms(code: str) -> tuple[Mapping[str, Any], str]:
    """The terms of a coupon, and what it is limited to: a metric, a plan (`p0`), or nothing. `five-once.gb` is
    `five-once` for the usage of `gb` alone.
    """
    name, _, target = code.partition(".")
    return COUPONS[name], target


# What a life may have; each with its chance.
FEATURES: Mapping[str, float] = {
    "usage": 0.75,
    "ahead": 0.3,
    "recurring": 0.35,
    "fixed": 0.3,
    "commitment": 0.2,
    "minimum": 0.2,
    "trial": 0.15,
    "thresholds": 0.3,
    "coupons": 0.3,
    "tax": 0.35,
    "wallet": 0.25,
    "grace": 0.25,
    "changes": 0.55,
    "end": 0.3,
    "notes": 0.3,
    "voids": 0.3,
    "payments": 0.3,
    "late events": 0.3,
    "downtime": 0.4,
    "edits": 0.25,
    "entity zone": 0.05,
    "second": 0.1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTerms:
    """A plan: `charges` are keys of `CHARGES`, amounts in cents. `fixed` is the price of two seats, None without."""

    interval: str
    amount: int
    ahead: bool = False
    split: bool = False
    trial: int = 0
    commitment: int = 0
    thresholds: tuple[int, ...] = ()
    recurring_threshold: int = 0
    charges: tuple[str, ...] = ()
    fixed: int | None = None
    fixed_ahead: bool = False
    fixed_prorated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something done at an instant; `what` and its numbers are explained in `play`."""

    at: datetime
    what: str
    code: str = ""
    number: int = 0
    back: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """Everything that happens to a customer. `beside` is the plan of a second subscription, from start to end."""

    start: datetime
    zone: str
    anniversary: bool = False
    grace: int = 0
    tax: str = ""
    coupons: tuple[str, ...] = ()
    wallet: int = 0
    plans: tuple[PlanTerms, ...] = ()
    beside: int | None = None
    steps: tuple[Step, ...] = ()
    end: datetime = field(kw_only=True)


def yearly_price(plan: PlanTerms) -> int:
    """The price by which a change of plan is an upgrade or a downgrade."""
    return plan.amount * _A_YEAR[plan.interval]


# From a seed


def life_of(seed: int) -> Life:
    """The life of a seed, always the same."""
    return _Maker(Random(seed)).life()


class _Maker:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.has = {name for name, odds in FEATURES.items() if chance.random() < odds}
        self.zone_name = chance.choice(ZONES)
        self.zone = ZoneInfo(self.zone_name)

    def life(self) -> Life:
        chance, has = self.chance, self.has
        first_day = date(2023, chance.randint(1, 12), 1) + DAY * chance.choice((0, 0, 9, 14, 27, chance.randint(0, 27)))
        start = self._instant(first_day)
        days = chance.choice((30, 45, 62, 62, 95, 120, 170))
        end = self._at(first_day + DAY * days, time(12))
        anniversary = chance.random() < 0.4
        plans = self._plans()
        life = Life(
            start=start,
            zone=self.zone_name,
            anniversary=anniversary,
            grace=chance.choice((1, 3, 5)) if "grace" in has else 0,
            tax=chance.choice(("20", "20", "7.7")) if "tax" in has else "",
            coupons=tuple(chance.sample(sorted(COUPONS), chance.choice((1, 1, 2)))) if "coupons" in has else (),
            wallet=chance.choice((10, 50, 1000)) if "wallet" in has else 0,
            plans=plans,
            end=end,
        )
        return self._limited(self._beside(replace(life, steps=self._steps(life, first_day, days))))

    def _beside(self, life: Life) -> Life:
        """The life with a second subscription that shares invoices, coupons and notes with the first."""
        chance = self.chance
        if not self.has & {"thresholds", "coupons"} or chance.random() > 0.2:
            return life
        place = chance.randrange(len(life.plans))
        steps = [*life.steps]
        for code in sorted({CHARGES[charge][0] for charge in life.plans[place].charges}):
            for number in range(chance.randint(1, 4)):
                at = life.start + (life.end - life.start) * chance.random()
                steps.append(
                    Step(at=at.replace(microsecond=0), what="beside", code=code, number=self._value(code, number))
                )
        ordered = sorted(steps, key=lambda step: step.at)
        return replace(life, beside=place, steps=tuple(step for step in ordered if step.at > life.start))

    def _limited(self, life: Life) -> Life:
        """The life with some of its coupons limited to a metric or a plan."""
        metrics = sorted({CHARGES[code][0] for plan in life.plans for code in plan.charges})
        targets = [*metrics, *(f"p{place}" for place in range(len(life.plans)))]

        def limited(code: str) -> str:
            return f"{code}.{self.chance.choice(targets)}" if self.chance.random() < 0.3 else code

        return replace(
            life,
            coupons=tuple(map(limited, life.coupons)),
            steps=tuple(
                replace(step, code=limited(step.code)) if step.what == "coupon" else step for step in life.steps
            ),
        )

    def _plans(self) -> tuple[PlanTerms, ...]:
        chance, has = self.chance, self.has
        wanted = [code for code, (metric, terms) in CHARGES.items() if self._wants(metric, terms)]
        common = tuple(self._of_each_metric(wanted, chance.randint(1, 3))) if wanted else ()
        one_interval = chance.random() < 0.6
        interval = self._interval()
        plans = []
        for place in range(3 if "changes" in has else 1):
            charges = (
                common if chance.random() < 0.7 or not wanted else self._of_each_metric(wanted, chance.randint(1, 3))
            )
            fixed = "fixed" in has and chance.random() < 0.8
            own = interval if one_interval else self._interval()
            thresholds = "thresholds" in has and any(self._in_arrears(code) for code in charges)
            plans.append(
                PlanTerms(
                    interval=own,
                    amount=chance.choice((0, 1000, 31_00, 62_00, 99_99)) * max(MONTHS[own], 1),
                    ahead=chance.random() < 0.4,
                    split=own in ("semiannual", "yearly") and chance.random() < 0.5,
                    trial=chance.choice((5, 10, 20, 31)) if "trial" in has and chance.random() < 0.8 else 0,
                    commitment=chance.choice((100_00, 310_00)) if "commitment" in has else 0,
                    thresholds=tuple(sorted(chance.sample((500, 1000, 2500), chance.randint(1, 2))))
                    if thresholds
                    else (),
                    recurring_threshold=chance.choice((0, 1000, 1500)) if thresholds else 0,
                    charges=tuple(charges),
                    fixed=chance.choice((3_00, 15_50)) + 100 * place if fixed else None,
                    fixed_ahead=fixed and chance.random() < 0.4,
                    fixed_prorated=fixed and chance.random() < 0.6,
                )
            )
        return tuple(plans)

    def _wants(self, metric: str, terms: Mapping[str, Any]) -> bool:
        if terms.get("ahead") and "ahead" not in self.has:
            return False
        if "minimum" in terms and "minimum" not in self.has:
            return False
        return ("recurring" if metric in RECURRING else "usage") in self.has

    def _in_arrears(self, code: str) -> bool:
        return not CHARGES[code][1].get("ahead")

    def _of_each_metric(self, codes: Sequence[str], count: int) -> tuple[str, ...]:
        """Some charges, seldom two of one metric."""
        picked: list[str] = []
        for code in self.chance.sample(list(codes), min(len(codes), count)):
            taken = any(CHARGES[code][0] == CHARGES[other][0] for other in picked)
            if not taken or self.chance.random() < 0.15:
                picked.append(code)
        return tuple(picked)

    def _interval(self) -> str:
        return self.chance.choice(("weekly", "monthly", "monthly", "monthly", "monthly", "quarterly", "yearly"))

    # Instants

    def _at(self, day: date, hour: time) -> datetime:
        return datetime.combine(day, hour, tzinfo=self.zone).astimezone(UTC)

    def _instant(self, day: date) -> datetime:
        """An instant of a day, mostly near its borders."""
        chance = self.chance
        midnight = self._at(day, time(0))
        near = (
            timedelta(0),
            MICROSECOND,
            SECOND,
            timedelta(minutes=3),
            timedelta(minutes=7),
            timedelta(minutes=10),
            timedelta(minutes=11),
            timedelta(hours=1),
            timedelta(hours=10),
            timedelta(hours=12),
            timedelta(hours=15, minutes=1, seconds=2),
            timedelta(hours=22, minutes=59),
        )
        if chance.random() < 0.3:
            return self._at(day + DAY, time(0)) - chance.choice((MICROSECOND, SECOND, SECOND, MINUTE))
        return midnight + chance.choice(near)

    def _days(self, life: Life, first_day: date, days: int) -> list[date]:
        """The days on which things happen: borders of periods, those next to them, and some others."""
        last = first_day + DAY * (days - 1)
        borders = {first_day, first_day + DAY}
        for plan in life.plans:
            day = first_day
            while day <= last:
                day += DAY
                opens = day.weekday() == 0 if plan.interval == "weekly" else day.day == 1
                if life.anniversary:
                    opens = (day - first_day).days % 7 == 0 if plan.interval == "weekly" else day.day == first_day.day
                if opens:
                    borders |= {day, day - DAY}
        usual = [first_day + DAY * self.chance.randint(1, days - 1) for _ in range(6)]
        return sorted(day for day in {*borders, *usual} if day <= last)

    # Steps

    def _steps(self, life: Life, first_day: date, days: int) -> tuple[Step, ...]:
        chance = self.chance
        candidates = self._days(life, first_day, days)
        # A few days on which much happens: what meets, meets there.
        busy = chance.sample(candidates, min(len(candidates), chance.randint(2, 5)))
        metrics = sorted({CHARGES[code][0] for plan in life.plans for code in plan.charges})
        steps: list[Step] = []

        def add(what: str, odds: float = 1, **rest: Any) -> None:
            if chance.random() < odds:
                day = chance.choice(busy if chance.random() < 0.6 else candidates)
                at = max(self._instant(day), life.start + MICROSECOND)
                if chance.random() < 0.15 and steps:
                    near = (timedelta(0), SECOND, -SECOND, MICROSECOND, MINUTE, timedelta(minutes=4))
                    at = max(chance.choice(steps).at + chance.choice(near), life.start + MICROSECOND)
                if at < life.end:
                    steps.append(Step(at=at, what=what, **rest))

        if "changes" in self.has:
            for _ in range(chance.choice((1, 1, 2, 3))):
                add("plan", number=chance.randint(1, 2))
        if "end" in self.has:
            add("end")
            add("plan", 0.5, number=chance.randint(0, len(life.plans) - 1))
        for metric in metrics:
            for number in range(chance.randint(1, 7)):
                add("use", code=metric, number=self._value(metric, number))
                if "late events" in self.has and chance.random() < 0.3:
                    back = chance.choice((MINUTE, timedelta(minutes=30), timedelta(hours=4), DAY, DAY * 3, DAY * 20))
                    add("use", code=metric, number=self._value(metric, number), back=back)
        if "notes" in self.has:
            for _ in range(chance.randint(1, 2)):
                add(
                    "note",
                    number=chance.randint(0, 99),
                    code=chance.choice(("whole", "parts", "part", "refund", "offset", "part offset")),
                )
        if "voids" in self.has:
            for _ in range(chance.randint(1, 2)):
                add("void", number=chance.randint(0, 99), code=chance.choice(("", "", "for good")))
        if "payments" in self.has:
            for _ in range(chance.randint(1, 3)):
                add("pay", number=chance.randint(0, 99), code=chance.choice(("part", "whole")))
        if "wallet" in self.has:
            add("top up", 0.7, number=chance.choice((5, 20, 100)), code=chance.choice(("granted", "paid")))
            add("pay", 0.6, number=chance.randint(0, 99), code="whole")
        if "coupons" in self.has:
            add("coupon", 0.4, code=chance.choice(sorted(COUPONS)))
            add("uncoupon", 0.25)
        if "downtime" in self.has:
            for _ in range(chance.choice((1, 1, 2))):
                add("down", number=chance.choice((1, 60, 60 * 26, 60 * 24 * 20, 60 * 24 * 60)))
        if "edits" in self.has:
            for what in ("override", "rename", "tax", "price", "finalize", "refresh", "filter"):
                add(what, 0.3, number=chance.randint(0, 99))
        return tuple(sorted(steps, key=lambda step: step.at))

    def _value(self, metric: str, number: int) -> int:
        """Powers of two where a sum is billed: the units of a fee say which events it counted."""
        if metric == "gb":
            return int(2**number)
        if metric == "seats":
            return (
                self.chance.choice((1, 1, 2, 3, -1, -2)) if "ahead" not in self.has else self.chance.choice((1, 2, 3))
            )
        if metric == "stock":
            return self.chance.choice((1, 2, 4, -1) if "ahead" not in self.has else (1, 2, 4))
        return self.chance.choice((1, 2, 3, 8))


# In words and as data


def story(life: Life) -> str:
    """The life in plain words, in local time."""
    zone = ZoneInfo(life.zone)

    def shown(instant: datetime) -> str:
        return f"{instant.astimezone(zone):%a %Y-%m-%d %H:%M:%S}" + (
            f".{instant.microsecond:06}" if instant.microsecond else ""
        )

    kind = "anniversary" if life.anniversary else "calendar"
    lines = [f"A customer in {life.zone}, {kind} billing, from {shown(life.start)} to {shown(life.end)}."]
    lines += [f"  grace period: {life.grace} days"] if life.grace else []
    lines += [f"  VAT {life.tax} %"] if life.tax else []
    lines += [f"  coupons: {', '.join(life.coupons)}"] if life.coupons else []
    lines += [f"  a second subscription, on plan {life.beside}"] if life.beside is not None else []
    lines += [f"  a wallet with {life.wallet} credits"] if life.wallet else []
    for place, plan in enumerate(life.plans):
        parts = [f"{plan.interval} {plan.amount / 100:.2f} in {'advance' if plan.ahead else 'arrears'}"]
        parts += ["charges monthly"] if plan.split else []
        parts += [f"trial of {plan.trial} days"] if plan.trial else []
        parts += [f"commitment {plan.commitment / 100:.2f}"] if plan.commitment else []
        parts += [f"thresholds {[cents / 100 for cents in plan.thresholds]}"] if plan.thresholds else []
        parts += [f"recurring threshold {plan.recurring_threshold / 100:.2f}"] if plan.recurring_threshold else []
        parts += [f"charges {', '.join(plan.charges)}"] if plan.charges else []
        if plan.fixed is not None:
            how = "in advance" if plan.fixed_ahead else "in arrears"
            parts += [f"2 fixed seats at {plan.fixed / 100:.2f} {how}{', prorated' if plan.fixed_prorated else ''}"]
        lines.append(f"  plan {place}: {'; '.join(parts)}")
    for step in life.steps:
        details = " ".join(
            [*([step.code] if step.code else []), *([str(step.number)] if step.number else [])]
            + ([f"(of {step.back} earlier)"] if step.back else [])
        )
        lines.append(f"  {shown(step.at)}  {step.what} {details}".rstrip())
    return "\n".join(lines)


def to_json(life: Life) -> str:
    """The life as text, for `from_json`."""

    def plain(value: object) -> Any:
        if isinstance(value, datetime):
            return value.isoformat()
        assert isinstance(value, timedelta)
        return value.total_seconds()

    return json.dumps(asdict(life), default=plain, indent=1)


def from_json(text: str) -> Life:
    """The life of `to_json`."""
    read = json.loads(text)
    plans = tuple(
        PlanTerms(**{**plan, "thresholds": tuple(plan["thresholds"]), "charges": tuple(plan["charges"])})
        for plan in read.pop("plans")
    )
    steps = tuple(
        Step(**{**step, "at": datetime.fromisoformat(step["at"]), "back": timedelta(seconds=step["back"])})
        for step in read.pop("steps")
    )
    start, end = datetime.fromisoformat(read.pop("start")), datetime.fromisoformat(read.pop("end"))
    return Life(**{**read, "coupons": tuple(read["coupons"])}, plans=plans, steps=steps, start=start, end=end)
