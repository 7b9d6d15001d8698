"""The fees that each subscription should come to, period by period, before discounts and taxes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from usagebill.simulation.oracle.days import DAY, local_day, midnight, parsed, period_of, run_of
from usagebill.simulation.oracle.prices import ZERO, Used, price, rounded
from usagebill.simulation.oracle.story import Customer, Event, Segment, Story
from usagebill.simulation.oracle.usage import Group, Window, buckets, groups, number, used
from usagebill.simulation.oracle.verdicts import Unsure, Verdict

SUBUNITS = {"JPY": 1, "KWD": 1000}


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What a fee is for: the subscription, its kind, the code of its charge, and the first day of its period."""

    segment: str
    kind: str
    code: str
    period: str
    filter: str = ""
    group: str = ""
    event: str = ""


@dataclass(slots=True)
class Owed:
    """Cents by fee, and what of them is not known: by subscription, kind, code and period, with the reason."""

    cents: dict[Key, int]
    unsure: dict[tuple[str, str, str, str], str]


def subunit(currency: str) -> int:
    """How many minor units make one."""
    return SUBUNITS.get(currency, 100)


def check_fees(story: Story, papers: Mapping[str, Any], verdict: Verdict) -> None:
    """Compare every fee that was billed with what is owed, and what is owed with what was billed."""
    names = names_of(story, papers["subscriptions"])
    owed = _Owed(story).all()
    shown: dict[Key, int] = defaultdict(int)
    invoices = {invoice["svc_id"]: invoice for invoice in papers["invoices"]}
    codes = {charge["svc_id"]: charge["code"] for plan in papers["plans"] for charge in plan.get("charges", ())}
    for fee in papers["fees"]:
        invoice = invoices.get(fee["svc_invoice_id"])
        if fee["item"]["type"] in ("credit", "add_on"):
            continue
        if invoice is not None and invoice["invoice_type"] == "progressive_billing":
            verdict.leave("fee", "billed by a threshold")
            continue
        segment = names.get(fee["svc_subscription_id"])
        if segment is None:
            verdict.differences.append(f"fee: of a subscription that nobody began: {fee['external_subscription_id']}")
            continue
        since = fee.get("from_date") or _since(invoice, fee)
        shown[_key(story, segment, fee, parsed(since), codes)] += fee["amount_cents"]
    for key in sorted({*shown, *owed.cents}):
        reason = owed.unsure.get((key.segment, key.kind, key.code, key.period))
        if reason is None:
            amount = owed.cents.get(key, 0)
            # Whether a fee of nothing is shown is no question of money.
            if amount or shown.get(key, 0) or key in shown:
                verdict.compare("fee", str(key), amount, shown.get(key, 0))
        elif key in shown:
            verdict.leave("fee", reason)


def names_of(story: Story, subscriptions: list[Mapping[str, Any]]) -> dict[str, Segment]:
    """The segments by the ids of their subscriptions: those of an external id, in the order of their starts."""
    by_external: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for one in subscriptions:
        if one["started_at"] is not None:
            by_external[one["external_id"]].append(one)
    names = {}
    for external_id, shown in by_external.items():
        ordered = sorted(shown, key=lambda one: (parsed(one["started_at"]), parsed(one["created_at"]), one["svc_id"]))
        for segment, one in zip(story.family(external_id), ordered, strict=False):
            names[one["svc_id"]] = segment
    return names


def _since(invoice: Mapping[str, Any] | None, fee: Mapping[str, Any]) -> str:
    """When the period of a fee begins that does not show it."""
    of_invoice = invoice["billing_periods"] if invoice else ()
    return next(
        str(one["subscription_from_datetime"])
        for one in of_invoice
        if one["svc_subscription_id"] == fee["svc_subscription_id"]
    )


def _key(story: Story, segment: Segment, fee: Mapping[str, Any], since: datetime, codes: Mapping[str, str]) -> Key:
    item, zone = fee["item"], story.customers[segment.customer].zone
    kind, code = str(item["type"]), item["code"]
    plan = story.plans[segment.plan][0][1]
    if kind == "charge":
        code = codes.get(fee["svc_charge_id"], "?")
    elif kind in ("subscription", "commitment"):
        code = ""
    day = local_day(since, zone)
    if kind == "charge" and fee["svc_true_up_parent_fee_id"]:
        kind = "minimum"
    begins, _ = period_of(
        usage_interval(plan) if kind in ("charge", "minimum") else plan["interval"], segment.anchor, day
    )
    filter = "" if not item["filters"] else _text(item["filters"])
    group = "" if not item["grouped_by"] or kind == "minimum" else _text(item["grouped_by"])
    in_advance = fee["event_transaction_id"] if fee["pay_in_advance"] and kind == "charge" else None
    return Key(segment.name, kind, code, str(begins), filter, group, in_advance or "")


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _group(group: Group) -> str:
    return _text(dict(group)) if group else ""


def usage_interval(plan: Mapping[str, Any]) -> str:
    """How often usage is billed."""
    return "monthly" if plan.get("bill_charges_monthly") else str(plan["interval"])


class _Owed:
    def __init__(self, story: Story) -> None:
        self.story = story
        self.owed = Owed({}, {})

    def all(self) -> Owed:
        for segment in self.story.segments:
            plan = self.story.plans[segment.plan][0][1]
            customer = self.story.customers[segment.customer]
            self._plan_fees(segment, plan, customer)
            for place in range(len(plan["charges"])):
                self._charge(segment, plan, customer, place)
            for fixed in plan.get("fixed_charges", ()):
                self._fixed(segment, plan, customer, fixed)
            self._commitment(segment, plan, customer)
        return self.owed

    def _add(self, segment: Segment, key: Key, cents: int) -> None:
        if segment.odd:
            self._leave(key, segment.odd)
        self.owed.cents[key] = self.owed.cents.get(key, 0) + cents

    def _leave(self, key: Key, reason: str) -> None:
        self.owed.unsure[key.segment, key.kind, key.code, key.period] = reason

    # Time

    def _periods(self, segment: Segment, interval: str, zone: ZoneInfo) -> Iterator[tuple[date, date]]:
        """The periods that the subscription lies in, whole, as far as the story goes."""
        day = segment.first
        end = segment.end or self.story.ends
        while True:
            start, following = period_of(interval, segment.anchor, day)
            yield start, following
            day = following
            if midnight(following, zone) >= end:
                return

    def _closed(self, segment: Segment, following: date, zone: ZoneInfo) -> datetime | None:
        """When a period is billed; None if that has not come."""
        run = run_of(following, zone)
        if segment.end is not None and segment.end < run and segment.ending != "downgrade":
            return segment.end
        return run if run <= self.story.ends else None

    def _issued(self, segment: Segment, closed: datetime, customer: Customer) -> datetime | None:
        """When its invoice is issued, until which late events count; None if that has not come."""
        if not customer.grace:
            return closed
        day = local_day(closed, customer.zone) + DAY * customer.grace
        issued = datetime.combine(day, time(0, 20), tzinfo=UTC)
        if customer.deleted is not None and customer.deleted < issued:
            raise Unsure("a draft when its customer is deleted")
        return issued if issued <= self.story.ends else None

    def _days(self, segment: Segment, start: date, following: date) -> tuple[date, date]:
        """The days that the subscription pays for in a period, the last inclusive."""
        last = following - DAY if segment.last is None else min(segment.last, following - DAY)
        return max(segment.first, start), last

    def _prices_at(self, segment: Segment, issued: datetime) -> Mapping[str, Any]:
        """Who has left pays what was agreed."""
        at = issued if segment.end is None else min(issued, segment.end)
        return self.story.plan(segment.plan, at)

    # Fees

    def _free_until(self, segment: Segment, plan: Mapping[str, Any], zone: ZoneInfo) -> date | None:
        if not plan.get("trial_period"):
            return None
        first = self.story.family(segment.external_id)[0]
        return local_day(first.start + timedelta(days=plan["trial_period"]), zone)

    def _plan_fees(self, segment: Segment, plan: Mapping[str, Any], customer: Customer) -> None:
        zone = customer.zone
        free_until = self._free_until(segment, plan, zone)
        for start, following in self._periods(segment, plan["interval"], zone):
            key = Key(segment.name, "subscription", "", str(start))
            first, last = self._days(segment, start, following)
            if plan["pay_in_advance"]:
                opened = segment.start if start <= segment.first else run_of(start, zone)
                if segment.end is not None and opened > segment.end and start > segment.first:
                    continue
                if opened > self.story.ends or (segment.ending == "downgrade" and start > (segment.last or start)):
                    continue
                last = following - DAY
                if free_until is not None and free_until > start:
                    self._leave(key, "a trial of a plan in advance")
            else:
                closed = self._closed(segment, following, zone)
                if closed is None:
                    continue
            if free_until is not None:
                first = max(first, free_until)
            days = max((last - first).days + 1, 0)
            self._add(segment, key, rounded(Fraction(plan["amount_cents"] * days, (following - start).days)))

    def _charge(self, segment: Segment, plan: Mapping[str, Any], customer: Customer, place: int) -> None:
        charge = plan["charges"][place]
        for start, following in self._periods(segment, usage_interval(plan), customer.zone):
            key = Key(segment.name, "charge", charge["code"], str(start))
            try:
                if charge.get("pay_in_advance"):
                    self._in_advance(segment, charge, customer, key, (start, following))
                else:
                    self._in_arrears(segment, place, customer, key, (start, following))
            except Unsure as problem:
                self._leave(key, str(problem))
                self._leave(Key(key.segment, "minimum", key.code, key.period), str(problem))

    def _window(self, segment: Segment, customer: Customer, start: date, following: date) -> Window:
        zone = customer.zone
        opens, closes = max(midnight(start, zone), segment.start), midnight(following, zone)
        if segment.end is not None:
            closes = min(closes, segment.end)
        first, last = self._days(segment, start, following)
        return Window(opens, closes, first, last, (following - start).days, zone)

    def _in_arrears(
        self, segment: Segment, place: int, customer: Customer, key: Key, period: tuple[date, date]
    ) -> None:
        start, following = period
        closed = self._closed(segment, following, customer.zone)
        issued = None if closed is None else self._issued(segment, closed, customer)
        if closed is None or issued is None:
            return
        charge = self._prices_at(segment, issued)["charges"][place]
        metric = self.story.metrics[charge["billable_metric_code"]]
        window = self._window(segment, customer, start, following)
        recurring, prorated = bool(metric.get("recurring")), bool(charge.get("prorated"))
        by_time = prorated or metric["aggregation_type"] == "weighted_sum_agg"
        if recurring and segment.ending == "upgrade" and window.closes == segment.end and not by_time:
            after = self.story.family(segment.external_id)[segment.number].plan
            codes = {one["billable_metric_code"] for one in self.story.plans[after][0][1]["charges"]}
            if metric["code"] in codes:
                return
        events = self._events(segment, metric, window, issued, recurring)
        if not window.days:
            if recurring:
                raise Unsure("a carried level on no day")
            if not events:
                return
        total = 0
        for values, terms, own in buckets(charge, metric, events):
            for group, of_group in groups(terms, own).items():
                found = used(metric, prorated, of_group, window)
                if group and of_group and prorated and found.parts == []:
                    continue  # a group to which nothing was ever added
                unit = subunit(customer.currency)
                counts = metric["aggregation_type"] in ("count_agg", "unique_count_agg")
                amount = price(charge["charge_model"], terms, found, counts, unit)
                cents = ZERO if found.units < 0 or amount < 0 else amount * unit
                billed = rounded(cents)
                total += billed
                full = Key(
                    key.segment,
                    "charge",
                    key.code,
                    key.period,
                    "" if values is None else _text(values),
                    _group(group),
                )
                self._add(segment, full, billed)
        if charge.get("min_amount_cents"):
            least = Fraction(charge["min_amount_cents"] * window.days, window.length)
            rest = rounded(least - total) if total < least else 0
            self._add(segment, Key(key.segment, "minimum", key.code, key.period), rest)

    def _events(
        self, segment: Segment, metric: Mapping[str, Any], window: Window, until: datetime, recurring: bool
    ) -> list[Event]:
        """The events that count: all of the past for what is carried over, else those of the window."""
        found = []
        for event in self.story.events:
            if event.subscription != segment.external_id or event.code != metric["code"]:
                continue
            if event.received >= until:
                continue
            for border in (segment.start, segment.end):
                if border is not None and abs(event.at - border) < timedelta(seconds=1):
                    raise Unsure("an event in the second of a change")
            if recurring and event.at < window.closes:
                self._is_known(segment, metric, event)
                found.append(event)
            elif window.opens <= event.at < window.closes:
                found.append(event)
        return found

    def _is_known(self, segment: Segment, metric: Mapping[str, Any], event: Event) -> None:
        if metric["aggregation_type"] != "weighted_sum_agg":
            return
        if event.at.date() != event.received.date():
            raise Unsure("a level that was changed late")
        ends = [other.end for other in self.story.family(segment.external_id) if other.ending == "end"]
        if any(end is not None and event.at < end <= segment.start for end in ends):
            raise Unsure("a level over seconds after an end and a new start")

    def _in_advance(
        self, segment: Segment, charge: Mapping[str, Any], customer: Customer, key: Key, period: tuple[date, date]
    ) -> None:
        start, following = period
        metric = self.story.metrics[charge["billable_metric_code"]]
        window = self._window(segment, customer, start, following)
        events = [
            event
            for event in self.story.events
            if event.subscription == segment.external_id
            and event.code == metric["code"]
            and window.opens <= event.at < window.closes
        ]
        if any(event.received >= window.closes or event.at > event.received for event in events):
            raise Unsure("an event in advance that came late or early")
        removes = any(event.properties.get("operation_type") == "remove" for event in events)
        if removes and metric["aggregation_type"] == "unique_count_agg":
            raise Unsure("a value removed that is paid in advance")
        if charge.get("filters"):
            raise Unsure("filters in advance")
        unit = subunit(customer.currency)
        for event in sorted(events, key=lambda event: event.place):
            value = event.properties.get("value")
            if metric["aggregation_type"] != "count_agg" and value in (None, "", False):
                continue
            terms = self._terms_at(segment, charge["code"], event.received)
            amount = self._marginal(terms, metric, event, events, window, unit)
            group = tuple((name, _value(event, name)) for name in terms["properties"].get("pricing_group_keys") or ())
            full = Key(key.segment, "charge", key.code, key.period, "", _group(group), event.id)
            self._add(segment, full, rounded(amount * unit))

    def _terms_at(self, segment: Segment, code: str, at: datetime) -> Mapping[str, Any]:
        plan = self.story.plan(segment.plan, at)
        return next(charge for charge in plan["charges"] if charge["code"] == code)

    def _marginal(
        self,
        charge: Mapping[str, Any],
        metric: Mapping[str, Any],
        event: Event,
        events: list[Event],
        window: Window,
        unit: int,
    ) -> Fraction:
        """What all events up to this one cost, less what they cost without it."""
        if any(other.at > event.at and other.place < event.place for other in events):
            raise Unsure("events in advance that came in another order")
        terms, plain = charge["properties"], {**metric, "rounding_function": None}
        names = terms.get("pricing_group_keys") or ()
        same = [
            other
            for other in events
            if other.place <= event.place and all(_value(other, name) == _value(event, name) for name in names)
        ]
        counts = metric["aggregation_type"] in ("count_agg", "unique_count_agg")
        if charge["charge_model"] == "percentage" and len(terms) > 1:
            raise Unsure("free units or limits of an event in advance")
        if number(event) is None and metric["aggregation_type"] == "sum_agg":
            raise Unsure("an event in advance whose value is no number")
        after = used(plain, False, same, window)
        before = used(plain, False, [other for other in same if other is not event], window)
        first = price(charge["charge_model"], terms, after, counts, unit)
        return first - (self._cost_of_nothing(charge, before, counts, unit))

    def _cost_of_nothing(self, charge: Mapping[str, Any], before: Used, counts: bool, unit: int) -> Fraction:
        if not before.units and charge["charge_model"].startswith("graduated"):
            return ZERO
        return price(charge["charge_model"], charge["properties"], before, counts, unit)

    def _fixed(self, segment: Segment, plan: Mapping[str, Any], customer: Customer, fixed: Mapping[str, Any]) -> None:
        zone, unit = customer.zone, subunit(customer.currency)
        for start, following in self._periods(segment, plan["interval"], zone):
            key = Key(segment.name, "fixed_charge", fixed["code"], str(start))
            first, last = self._days(segment, start, following)
            if fixed["pay_in_advance"]:
                opened = segment.start if start <= segment.first else run_of(start, zone)
                if segment.end is not None and opened > segment.end and start > segment.first:
                    continue
                if opened > self.story.ends or (segment.ending == "downgrade" and start > (segment.last or start)):
                    continue
                last = following - DAY
                if segment.begun_by == "upgrade" and start <= segment.first:
                    self._leave(key, "fixed charges in advance after an upgrade")
            elif self._closed(segment, following, zone) is None:
                continue
            days = (last - first).days + 1
            if days <= 0:
                self._leave(key, "a fixed charge on no day")
                continue
            share = Fraction(days, (following - start).days) if fixed["prorated"] else Fraction(1)
            full = Fraction(fixed["units"])
            parts = [(full, full * share)] if fixed["prorated"] else None
            amount = price(
                fixed["charge_model"], fixed["properties"], Used(full * share, full, parts=parts), False, unit
            )
            if plan.get("bill_charges_monthly"):
                self._leave(key, "fixed charges of a plan that is billed in parts")
            self._add(segment, key, rounded(amount * unit))

    def _commitment(self, segment: Segment, plan: Mapping[str, Any], customer: Customer) -> None:
        terms = plan.get("minimum_commitment")
        if not terms:
            return
        for start, following in self._periods(segment, plan["interval"], customer.zone):
            key = Key(segment.name, "commitment", "", str(start))
            closed = self._closed(segment, following, customer.zone)
            if closed is None:
                continue
            first, last = self._days(segment, start, following)
            days = max((last - first).days + 1, 0)
            kept = {
                name: reason
                for name, reason in self.owed.unsure.items()
                if name[0] == segment.name and str(start) <= name[3] < str(following)
            }
            ahead = [*plan["charges"], *plan.get("fixed_charges", ())]
            reason = f"a commitment beside: {next(iter(kept.values()))}" if kept else ""
            if plan["pay_in_advance"] or any(one.get("pay_in_advance") for one in ahead):
                reason = "a commitment of what is paid in advance"
                # At a downgrade it is shown with the period that would have come.
                self._leave(replace(key, period=str(following)), reason)
            if reason:
                self._leave(key, reason)
            due = rounded(Fraction(terms["amount_cents"] * days, (following - start).days))
            counted = sum(
                cents
                for one, cents in self.owed.cents.items()
                if one.segment == segment.name and str(start) <= one.period < str(following)
            )
            self._add(segment, key, max(due - counted, 0))


def _value(event: Event, name: str) -> str | None:
    value = event.properties.get(name)
    return None if value in (None, "") else str(value)
