"""What a life costs, from first principles: days, events and prices, in fractions of a cent.

Nothing here is shared with the code under test. The day of a change of plan belongs to the new plan, the day of an end
to the plan that ends; an event belongs to the plan that is active at its instant, or that was when it arrived if both
fall into one second. Where two rules could be right, the amount is left out (`unsure`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from tests.lives.life import CHARGES, MONTHS, RECURRING, Life, PlanTerms, yearly_price
from tests.lives.play import Lived, Sent

DAY = timedelta(days=1)
RUN = timedelta(minutes=10)
# The reasons for which an event is listed that came after its period had been billed.
TOO_LATE = ("period_already_billed", "period_closed")


@dataclass(slots=True)
class Segment:
    """The time of one subscription: `last` is its last day, which may lie before `first`. Ends are exclusive."""

    plan: PlanTerms
    anchor: date
    start: datetime
    first: date
    place: int
    end: datetime | None = None
    last: date | None = None
    end_place: int = 0
    ending: str = ""


@dataclass(slots=True)
class Bill:
    """Cents by (number of the subscription, what), with the number of roundings of each."""

    amounts: dict[tuple[int, str], Fraction] = field(default_factory=dict)
    roundings: dict[tuple[int, str], int] = field(default_factory=dict)
    unsure: set[tuple[int, str]] = field(default_factory=set)

    def add(self, key: tuple[int, str], cents: Fraction, roundings: int = 1) -> None:
        self.amounts[key] = self.amounts.get(key, Fraction(0)) + cents
        self.roundings[key] = self.roundings.get(key, 0) + roundings


class Unsure(Exception):
    """Two rules could be right here."""


# Days


def _month(day: date, months: int, anchor_day: int) -> date:
    """The day `anchor_day`, or the month's last, that many months after the month of `day`."""
    index = day.year * 12 + day.month - 1 + months
    year, month = divmod(index, 12)
    following = date(year + (month == 11), (month + 1) % 12 + 1, 1)
    return date(year, month + 1, min(anchor_day, (following - DAY).day))


def period(interval: str, anniversary: bool, anchor: date, day: date) -> tuple[date, date]:
    """The first day of the period that contains `day`, and that of the next one."""
    if interval == "weekly":
        start = day - DAY * ((day - anchor).days % 7 if anniversary else day.weekday())
        return start, start + DAY * 7
    months = MONTHS[interval]
    base, anchor_day = (anchor, anchor.day) if anniversary else (date(2000, 1, 1), 1)
    since = (day.year - base.year) * 12 + day.month - base.month
    number = since // months
    start = _month(base, number * months, anchor_day)
    if start > day:
        number -= 1
    return _month(base, number * months, anchor_day), _month(base, (number + 1) * months, anchor_day)


def periods(life: Life, segment: Segment, interval: str) -> Iterator[tuple[date, date]]:
    """The periods that the days of a segment lie in, whole."""
    assert segment.last is not None
    day = segment.first
    while day <= segment.last:
        start, following = period(interval, life.anniversary, segment.anchor, day)
        yield start, following
        day = following


# Who was subscribed to what, when


def segments_of(lived: Lived) -> list[Segment]:
    """The subscriptions of the life, in order."""
    life = lived.life
    zone = ZoneInfo(life.zone)
    done: list[Segment] = []
    now: Segment | None = None
    pending: PlanTerms | None = None

    def midnight(day: date) -> datetime:
        return datetime.combine(day, time(0), tzinfo=zone).astimezone(UTC)

    def close(at: datetime, last: date, place: int, ending: str) -> None:
        nonlocal now, pending
        assert now is not None
        now.end, now.last, now.end_place, now.ending = at, last, place, ending
        now = pending = None

    def begin(plan: PlanTerms, anchor: date, at: datetime, place: int) -> None:
        nonlocal now
        now = Segment(plan=plan, anchor=anchor, start=at, first=at.astimezone(zone).date(), place=place)
        done.append(now)

    due: date | None = None
    for act in lived.acts:
        if act.what not in ("plan", "end"):
            continue
        today = act.at.astimezone(zone).date()
        if now is not None and pending is not None and due is not None and act.at >= midnight(due):
            if act.at < midnight(due) + RUN:
                raise Unsure("a command between the midnight of a downgrade and its run")
            following, anchor = pending, now.anchor
            close(midnight(due), due - DAY, 0, "downgrade")
            begin(following, anchor, midnight(due), 0)
        if act.what == "end":
            if now is None:
                continue
            opens, _ = period(_billed(now.plan), life.anniversary, now.anchor, today)
            before_run = opens == today and today > now.first and act.at < midnight(today) + RUN
            close(act.at, today - DAY if before_run else today, act.place, "end")
            continue
        plan = life.plans[act.number]
        if now is None:
            begin(plan, today, act.at, act.place)
        elif plan is now.plan:
            if pending is not None:
                raise Unsure("the same plan again while a downgrade waits")
        elif yearly_price(plan) >= yearly_price(now.plan):
            anchor = now.anchor
            close(act.at, today - DAY, act.place, "upgrade")
            begin(plan, anchor, act.at, act.place)
        else:
            pending = plan
            opens, due = period(now.plan.interval, life.anniversary, now.anchor, today)
            if opens == today and today > now.first and act.at < midnight(today) + RUN:
                raise Unsure("a downgrade asked for before the run of a billing day")
    if now is not None:
        raise Unsure("the life goes on")
    return done


def _billed(plan: PlanTerms) -> str:
    return "monthly" if plan.split else plan.interval


# Amounts


def in_arrears_too(plan: PlanTerms, metric: str) -> bool:
    """Whether a plan has a charge of the metric that is not billed in advance."""
    return any(of == metric and not terms.get("ahead") for of, terms in map(CHARGES.__getitem__, plan.charges))


def bill_of(lived: Lived) -> Bill:
    """What the life costs before discounts and taxes; raises `Unsure`."""
    return _Owed(lived).bill()


class _Owed:
    def __init__(self, lived: Lived) -> None:
        self.lived = lived
        self.life = lived.life
        self.zone = ZoneInfo(lived.life.zone)
        self.segments = segments_of(lived)
        self.result = Bill()
        # By subscription, its fixed seats paid in advance: first day, the day after the last, cents.
        self.paid_ahead: dict[int, list[tuple[date, date, Fraction]]] = {}
        # By subscription and recurring metric, what was paid in advance for each day: units and cents.
        self.paid_days: dict[tuple[int, str], dict[date, tuple[Fraction, Fraction]]] = {}
        # Metrics in advance of which more than one amount could be right.
        self.unknown: set[str] = set()

    def bill(self) -> Bill:
        for number, segment in enumerate(self.segments):
            self._plan_fee(number, segment)
            for code in segment.plan.charges:
                self._charge(number, segment, code)
            if segment.plan.fixed is not None:
                self._fixed(number, segment)
            if segment.plan.commitment:
                self._commitment(number, segment)
        return self.result

    def _midnight(self, day: date) -> datetime:
        return datetime.combine(day, time(0), tzinfo=self.zone).astimezone(UTC)

    def _local(self, instant: datetime) -> date:
        return instant.astimezone(self.zone).date()

    def _days(self, segment: Segment, start: date, following: date) -> int:
        """The days of the segment in a period."""
        assert segment.last is not None
        return max((min(segment.last + DAY, following) - max(segment.first, start)).days, 0)

    def _free_until(self, segment: Segment) -> date:
        """The first day that is not in the trial."""
        return self._local(self.segments[0].start + DAY * segment.plan.trial)

    def _plan_fee_in(self, segment: Segment, start: date, following: date) -> Fraction:
        free_until = self._free_until(segment) if segment.plan.trial else None
        paid_from = max(start, free_until or start)
        days = self._days(segment, paid_from, following) if paid_from < following else 0
        if segment.plan.ahead and segment.ending == "end" and segment.last == free_until:
            # Who ends a plan in advance on the day that its trial ends gets all of the fee back.
            days = 0
        return Fraction(segment.plan.amount * days, (following - start).days)

    def _plan_fee(self, number: int, segment: Segment) -> None:
        for start, following in periods(self.life, segment, segment.plan.interval):
            # In advance, the fee and the credit for what is left of it are rounded each.
            self.result.add((number, "plan"), self._plan_fee_in(segment, start, following), 2)

    def _fixed(self, number: int, segment: Segment) -> None:
        plan, key = segment.plan, (number, "fixed")
        assert plan.fixed is not None
        assert segment.last is not None
        for start, following in self._fixed_periods(segment):
            first, after = max(start, segment.first), min(following, segment.last + DAY)
            if plan.fixed_ahead:
                after = following
            if after <= first and plan.fixed_prorated:
                continue
            share = Fraction((after - first).days, (following - start).days) if plan.fixed_prorated else Fraction(1)
            cents = 2 * plan.fixed * share
            if plan.fixed_ahead:
                self.paid_ahead.setdefault(number, []).append((first, after, cents))
            before = self._paid_before(number, first, after) if plan.fixed_prorated else []
            self.result.add(key, max(cents - sum(before), Fraction(0)), 1 + len(before))

    def _fixed_periods(self, segment: Segment) -> Iterator[tuple[date, date]]:
        """The periods of the days of a plan; in advance, those that began with it or whose run came before its end."""
        assert segment.end is not None
        if not segment.plan.fixed_ahead:
            yield from periods(self.life, segment, _billed(segment.plan))
            return
        start, following = period(_billed(segment.plan), self.life.anniversary, segment.anchor, segment.first)
        yield start, following
        while self._midnight(following) + RUN <= segment.end:
            start, following = period(_billed(segment.plan), self.life.anniversary, segment.anchor, following)
            yield start, following

    def _paid_before(self, number: int, first: date, after: date) -> list[Fraction]:
        """What older plans were paid in advance for days of a plan that an upgrade began; the last of them counts."""
        shares = []
        for older in self._upgraded_from(number):
            unpaid = first
            for since, until, cents in self.paid_ahead.get(older, []):
                days = (min(after, until) - max(first, since)).days
                if days > 0:
                    shares.append(cents * Fraction(days, (until - since).days))
                    unpaid = max(unpaid, until)
            first = unpaid
        return shares

    def _upgraded_from(self, number: int) -> Iterator[int]:
        while number and self.segments[number - 1].ending == "upgrade":
            number -= 1
            yield number

    def _commitment(self, number: int, segment: Segment) -> None:
        """Filled up to its share of each period; exact only where everything else is."""
        plan, key = segment.plan, (number, "commitment")
        charged = [CHARGES[code] for code in plan.charges]
        if any(terms.get("ahead") for _, terms in charged) or plan.fixed_ahead:
            self.result.unsure.add(key)
        for start, following in periods(self.life, segment, plan.interval):
            assert segment.last is not None
            if plan.ahead and plan.trial and min(following, segment.last + DAY) <= self._free_until(segment):
                # In advance, a commitment goes with a fee, and a period inside the trial has none.
                continue
            days = self._days(segment, start, following)
            due = Fraction(plan.commitment * days, (following - start).days)
            rest = due - self._plan_fee_in(segment, start, following)
            inner = Bill()
            for code in plan.charges:
                self._charge(number, segment, code, within=(start, following), into=inner)
            self.result.unsure |= {key for _, what in inner.unsure if what}
            rest -= sum(inner.amounts.values(), Fraction(0))
            if plan.fixed is not None:
                for first, after in periods(self.life, segment, _billed(plan)):
                    if start <= first < following:
                        days = self._days(segment, first, after)
                        rest -= 2 * plan.fixed * (Fraction(days, (after - first).days) if plan.fixed_prorated else 1)
            self.result.add(key, max(rest, Fraction(0)), 3 + len(plan.charges) * 2)

    # Usage

    def _owner(self, event: Sent) -> int | None:
        """The number of the subscription that an event belongs to."""
        for number, segment in enumerate(self.segments):
            assert segment.end is not None
            if segment.ending == "end" and self._arrived_at_end(event, number):
                return number
            if self._starts_before(event, number) and not self._after(event, segment.end, segment.end_place):
                return number
        return None

    def _starts_before(self, event: Sent, number: int) -> bool:
        """Whether the event lies after a start; the whole second of one that is no change is its own."""
        segment = self.segments[number]
        if number and self.segments[number - 1].ending != "end":
            return self._after(event, segment.start, segment.place)
        return event.at >= segment.start.replace(microsecond=0)

    def _arrived_at_end(self, event: Sent, number: int) -> bool:
        """An event of the last second that arrives after an end belongs to what ended, if nothing follows at once."""
        segment = self.segments[number]
        assert segment.end is not None
        following = self.segments[number + 1 :]
        second = segment.end.replace(microsecond=0)
        at_once = following and following[0].start.replace(microsecond=0) == second
        return not at_once and segment.start <= event.at <= segment.end and event.at >= second

    def _after(self, event: Sent, border: datetime, place: int) -> bool:
        """Whether the event lies after a change; arrival decides in the second of one made by hand."""
        if place and event.at.replace(microsecond=0) == border.replace(microsecond=0):
            if event.at.microsecond and event.at != border:
                return event.at > border
            return event.place > place
        return event.at >= border

    def _counted(self, metric: str, plan: PlanTerms | None = None, *, ahead: bool = False) -> list[Sent]:
        """The events of a metric that are not listed as unbilled, by time.

        A charge in advance counts those too that came too late for a charge of the same metric in arrears alone.
        """
        late = ahead and plan is not None and in_arrears_too(plan, metric)
        events = [
            event
            for event in self.lived.events
            if event.metric == metric
            and (event.id not in self.lived.unbilled or (late and self.lived.unbilled[event.id] in TOO_LATE))
        ]
        return sorted(events, key=lambda event: (event.at, event.place))

    def _windows(self, segment: Segment, plan: PlanTerms) -> Iterator[tuple[date, date, datetime, datetime]]:
        """The periods of usage: whole, and from when to when the segment counts in them."""
        assert segment.end is not None
        day = segment.first
        end = segment.end
        while True:
            start, following = period(_billed(plan), self.life.anniversary, segment.anchor, day)
            opens, closes = max(self._midnight(start), segment.start), min(self._midnight(following), end)
            yield start, following, opens, closes
            day = following
            if self._midnight(following) > end or (segment.ending == "downgrade" and self._midnight(following) == end):
                return

    def _charge(
        self,
        number: int,
        segment: Segment,
        code: str,
        within: tuple[date, date] | None = None,
        into: Bill | None = None,
    ) -> None:
        bill = self.result if into is None else into
        metric, terms = CHARGES[code]
        key = (number, f"charge {code}")
        recurring = metric in RECURRING
        late = any(event.at < event.received for event in self.lived.events if event.metric == metric)
        if (recurring and late) or (terms.get("ahead") and within):
            bill.unsure.add(key)
            return
        if recurring and terms.get("ahead"):
            self._recurring_ahead(number, segment, key, metric)
            return
        if metric == "hours" and len(self.segments) > 1:
            bill.unsure.add(key)
            return
        events = self._counted(metric, segment.plan, ahead=bool(terms.get("ahead")))
        own = [event for event in events if self._owner(event) == number]
        for start, following, opens, closes in self._windows(segment, segment.plan):
            if within is not None and not within[0] <= start < within[1]:
                continue
            days = self._days(segment, start, following)
            if recurring:
                if segment.ending == "upgrade" and closes == segment.end and not terms.get("prorated"):
                    following_plan = self.segments[number + 1].plan
                    if any(CHARGES[other][0] == metric for other in following_plan.charges):
                        continue  # the level is the next plan's
                if not days and not terms.get("prorated"):
                    bill.unsure.add(key)
                    continue
                cents = self._recurring(metric, terms, events, segment, start, following, opens, closes)
                # The units of each seat or change are rounded up to 5 decimals before the price.
                bill.add(key, cents, 2 if terms.get("prorated") else 1)
                continue
            inside = [event for event in own if self._local_in(event, start, following)]
            if not days and not inside:
                # Whether the flat price of no units is due for no day.
                bill.unsure |= {key} if "ranges" in terms else set()
                continue
            cents = Fraction(0)
            parts = [inside]
            roundings = len(inside) + 1 if terms.get("ahead") else 2
            if "regions" in terms:
                parts = [[event for event in inside if event.region == region] for region in ("eu", "us")]
                for region, part in zip(("eu", "us"), parts, strict=True):
                    cost = terms["regions"].get(region, terms["price"])
                    cents += 100 * cost * _aggregated(metric, part)
            else:
                cents = 100 * _priced(terms, _aggregated(metric, inside))
            if "minimum" in terms:
                cents = max(cents, Fraction(terms["minimum"] * days, (following - start).days))
            bill.add(key, cents, roundings)

    def _recurring_ahead(self, number: int, segment: Segment, key: tuple[int, str], metric: str) -> None:
        """Each time for the days left: what a change of plan begins with, what is added, and what each run renews."""
        events, plan = self._counted(metric), segment.plan
        owners = [self._owner(event) for event in events]
        if None in owners or any(event.value < 0 for event in events) or self._is_charged_twice(metric):
            # A level that falls, is nobody's or is charged for twice.
            self.unknown.add(metric)
        if metric in self.unknown:
            self.result.unsure.add(key)
            return
        held: dict[int, int] = {}
        added: list[tuple[datetime, int]] = []
        for event, owner in zip(events, owners, strict=True):
            if metric == "seats" and event.value in held:
                continue
            units = 1 if metric == "seats" else event.value
            if owner is not None and owner <= number:
                held[event.value if metric == "seats" else len(held)] = units
            if owner == number:
                added.append((event.at, units))
        before = sum(held.values()) - sum(units for _, units in added)
        if number and before and self.segments[number - 1].ending == "end":
            # What is held after an end is renewed, but no start pays for it.
            self.unknown.add(metric)
            self.result.unsure.add(key)
            return
        interval = _billed(plan)

        def of(day: date) -> tuple[date, date]:
            return period(interval, self.life.anniversary, segment.anchor, day)

        price = 100 * Fraction(CHARGES[key[1].removeprefix("charge ")][1]["price"])

        own = self.paid_days.setdefault((number, metric), {})

        def pay(first: date, units: int, *, whole: bool) -> None:
            """The units for the days of a period from `first` on, less those that older plans were paid for."""
            start, following = of(first)
            day, cents, a_day = first, Fraction(0), price / (following - start).days
            while day < following and units:
                before = sum(
                    (self.paid_days.get((older, metric), {}).get(day, (Fraction(0),))[0] for older in older_plans),
                    Fraction(0),
                )
                due = Fraction(units) if whole else max(units - before, Fraction(0))
                paid_units, paid_cents = own.get(day, (Fraction(0), Fraction(0)))
                own[day] = paid_units + due, paid_cents + due * a_day
                cents, day = cents + due * a_day, day + DAY
            # Of an event, the units are rounded up to 5 decimals before the price.
            self.result.add(key, cents, 2)

        older_plans = tuple(self._upgraded_from(number))
        pay(segment.first, before, whole=False)
        _, renewed = of(segment.first)
        assert segment.end is not None
        while self._midnight(renewed) + RUN <= segment.end:
            units = before + sum(units for at, units in added if at < self._midnight(renewed))
            pay(renewed, units, whole=False)
            _, renewed = of(renewed)
        for at, units in added:
            pay(self._local(at), units, whole=True)
        if segment.ending == "upgrade" and self._bills_in_arrears(self.segments[number + 1].plan, metric):
            self._give_back(number, metric, self.segments[number + 1].first)

    def _is_charged_twice(self, metric: str) -> bool:
        """Whether a plan has several charges for a metric."""
        return any(sum(CHARGES[code][0] == metric for code in segment.plan.charges) > 1 for segment in self.segments)

    def _bills_in_arrears(self, plan: PlanTerms, metric: str) -> bool:
        return any(CHARGES[code][0] == metric and not CHARGES[code][1].get("ahead") for code in plan.charges)

    def _give_back(self, number: int, metric: str, day: date) -> None:
        """The next plan bills the days left again; only what is on an invoice can be credited."""
        for older in (number, *self._upgraded_from(number)):
            code = next((code for code in self.segments[older].plan.charges if CHARGES[code][0] == metric), None)
            if code is None or not CHARGES[code][1].get("invoiceable", True):
                continue
            paid, key = self.paid_days.get((older, metric), {}), (older, f"charge {code}")
            for later in [later for later in paid if later >= day]:
                _, cents = paid.pop(later)
                self.result.add(key, -cents, 0)
            self.result.roundings[key] = 2 * self.result.roundings.get(key, 1)

    def _local_in(self, event: Sent, start: date, following: date) -> bool:
        return self._midnight(start) <= event.at < self._midnight(following)

    def _recurring(
        self,
        metric: str,
        terms: Mapping[str, Any],
        events: Sequence[Sent],
        segment: Segment,
        start: date,
        following: date,
        opens: datetime,
        closes: datetime,
    ) -> Fraction:
        """A level is carried over from everything before, also to a subscription of the same id after an end."""
        number = self.segments.index(segment)
        known = [
            event for event in events if (self._owner(event) or 0) <= number and event.at < self._midnight(following)
        ]
        if any(self._owner(event) is None for event in events):
            raise Unsure("a level was set without a subscription")
        price = 100 * Fraction(terms["price"])
        assert segment.last is not None
        first = max(start, segment.first)
        last = min(segment.last, following - DAY)
        length = (following - start).days
        if metric == "hours":
            return price * self._held(known, opens, closes, start, following)
        if metric == "stock":
            if not terms.get("prorated"):
                level = sum(event.value for event in known)
                return price * max(level, 0) if opens < closes or known else Fraction(0)
            area = Fraction(0)
            for event in known:
                day = max(self._local(event.at), first)
                area += event.value * max((last - day).days + 1, 0)
            return price * max(area, Fraction(0)) / length
        seats: dict[int, list[tuple[date, date]]] = {}
        active: dict[int, date] = {}
        for event in known:
            seat, day = abs(event.value), self._local(event.at)
            if event.value > 0:
                active.setdefault(seat, day)
            elif seat in active:
                seats.setdefault(seat, []).append((active.pop(seat), day))
        if not terms.get("prorated"):
            return price * len(active)
        for seat, day in active.items():
            seats.setdefault(seat, []).append((day, last))
        held = 0
        for stretches in seats.values():
            days: set[date] = set()
            for since, until in stretches:
                since, until = max(since, first), min(until, last)
                days |= {since + DAY * step for step in range((until - since).days + 1)}
            held += len(days)
        return price * held / length

    def _held(self, known: Sequence[Sent], opens: datetime, closes: datetime, start: date, following: date) -> Fraction:
        # Days have 86,400 seconds, also where clocks change (docs/guides/metrics-and-filters.md).
        whole = following - start
        area, level, since = Fraction(0), 0, opens
        for event in known:
            at = min(max(event.at, opens), closes)
            area += level * Fraction((at - since) // timedelta(microseconds=1))
            level, since = level + event.value, at
        area += level * Fraction((closes - since) // timedelta(microseconds=1))
        return area / Fraction(whole // timedelta(microseconds=1))


def _aggregated(metric: str, events: Sequence[Sent]) -> Fraction:
    if metric == "calls":
        return Fraction(len(events))
    if metric == "users":
        active: set[int] = set()
        for event in events:
            active.add(event.value)
        return Fraction(len(active))
    values = [event.value for event in events]
    if metric == "peak":
        return Fraction(max(values, default=0))
    if metric == "level":
        return Fraction(values[-1] if values else 0)
    return Fraction(sum(values))


def _priced(terms: Mapping[str, Any], units: Fraction) -> Fraction:
    """The price of units, in units of the currency."""
    cost, below = Fraction(0), Fraction(0)
    model = terms["charge_model"]
    if model == "graduated":
        for to, price, flat in terms["ranges"]:
            if units > below or (units == below == 0):
                inside = (units if to is None else min(units, Fraction(to))) - below
                cost += inside * price + flat
            below = Fraction(to or 0)
        return cost
    if model == "volume":
        for to, price, flat in terms["ranges"]:
            if to is None or units <= to:
                return units * Fraction(price) + Fraction(flat)
    if model == "package":
        beyond = max(units - Fraction(terms["free"]), Fraction(0))
        return -(-beyond // int(terms["size"])) * Fraction(terms["price"])
    if model == "percentage":
        return units * Fraction(terms["rate"]) / 100
    return units * Fraction(terms["price"])
