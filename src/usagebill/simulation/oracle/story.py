"""The log, told: who was subscribed to what and when, at which prices, and what was used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from usagebill.simulation.oracle.days import A_YEAR, DAY, local_day, midnight, parsed, period_of, run_of

Log = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Event:
    """An accepted event; `place` orders arrivals."""

    id: str
    code: str
    subscription: str
    at: datetime
    received: datetime
    place: int
    properties: Mapping[str, Any]
    cents: Fraction


@dataclass(slots=True)
class Segment:
    """A subscription from its start to its end; an upgrade or a downgrade begins another of the same external id."""

    customer: str
    external_id: str
    number: int
    plan: str
    anchor: date | None
    start: datetime
    first: date
    begun_by: str
    # Exclusive; `last` is the last day it pays for, the day before `first` if there is none.
    end: datetime | None = None
    last: date | None = None
    ending: str = ""
    # Why nothing can be said of it.
    odd: str = ""

    @property
    def name(self) -> str:
        return f"{self.external_id}/{self.number}"


@dataclass(slots=True)
class Customer:
    """A customer as it was created."""

    id: str
    zone: ZoneInfo
    currency: str
    grace: int
    taxes: Sequence[str]
    deleted: datetime | None = None


@dataclass(slots=True)
class Story:
    """What happened, by kind."""

    customers: dict[str, Customer] = field(default_factory=dict)
    metrics: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    # Each with the instant from which it holds.
    plans: dict[str, list[tuple[datetime, Mapping[str, Any]]]] = field(default_factory=dict)
    segments: list[Segment] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    ends: datetime = datetime(9999, 1, 1, tzinfo=UTC)

    def plan(self, code: str, at: datetime) -> Mapping[str, Any]:
        """The plan as a bill of that instant finds it: a change of the same instant comes after it."""
        versions = self.plans[code]
        return next((body for since, body in reversed(versions) if since < at), versions[0][1])

    def family(self, external_id: str) -> list[Segment]:
        """The subscriptions of an external id, in order."""
        return [segment for segment in self.segments if segment.external_id == external_id]


def told(log: Log) -> Story:
    """The story of a log."""
    story = Story()
    now: dict[str, Segment] = {}
    waiting: dict[str, tuple[str, date]] = {}

    def carry_out(at: datetime) -> None:
        """The downgrades whose run has come."""
        for id, (plan, due) in list(waiting.items()):
            old, zone = now[id], story.customers[now[id].customer].zone
            if run_of(due, zone) <= at:
                del waiting[id]
                begins = midnight(due, zone)
                old.end, old.last, old.ending = begins, due - DAY, "downgrade"
                begin(old, plan, begins, "downgrade")

    def begin(old: Segment, plan: str, at: datetime, by: str) -> None:
        zone = story.customers[old.customer].zone
        number = len(story.family(old.external_id)) + 1
        following = Segment(
            old.customer, old.external_id, number, plan, old.anchor, at, local_day(at, zone), by, odd=old.odd
        )
        now[old.external_id] = following
        story.segments.append(following)

    def subscribe(at: datetime, body: Mapping[str, Any]) -> None:
        id, plan = body["external_id"], body["plan_code"]
        zone = story.customers[body["external_customer_id"]].zone
        today = local_day(at, zone)
        old = now.get(id)
        if old is None:
            anchor = today if body["billing_time"] == "anniversary" else None
            number = len(story.family(id)) + 1
            segment = Segment(body["external_customer_id"], id, number, plan, anchor, at, today, "start")
            if story.customers[segment.customer].deleted:
                segment.odd = "a customer made anew after a deletion"
            now[id] = segment
            story.segments.append(segment)
        elif plan == old.plan:
            if id in waiting:
                old.odd = "its own plan again while a downgrade waits"
        elif _yearly(story.plan(plan, at)) >= _yearly(story.plan(old.plan, at)):
            waiting.pop(id, None)
            old.end, old.last, old.ending = at, today - DAY, "upgrade"
            begin(old, plan, at, "upgrade")
        else:
            _, due = period_of(story.plan(old.plan, at)["interval"], old.anchor, today)
            waiting[id] = plan, due

    def end(at: datetime, id: str) -> None:
        waiting.pop(id, None)
        old = now.pop(id, None)
        if old is not None:
            zone = story.customers[old.customer].zone
            old.end, old.last, old.ending = at, local_day(at, zone), "end"

    for place, entry in enumerate(log):
        at = parsed(entry["at"])
        story.ends = at
        if "call" not in entry or entry["refused"] is not None:
            continue
        carry_out(at)
        body = entry.get("with", {})
        call = entry["call"]
        if call == "customers.upsert":
            grace = body.get("billing_configuration", {}).get("invoice_grace_period", 0)
            zone = ZoneInfo(body["timezone"])
            story.customers[body["external_id"]] = Customer(
                body["external_id"], zone, body["currency"], grace, body.get("tax_codes", ())
            )
        elif call == "billable_metrics.create":
            story.metrics[body["code"]] = body
        elif call == "plans.create":
            story.plans[body["code"]] = [(at, body)]
        elif call == "plans.update_charge":
            plan, charge = entry["to"]
            story.plans[plan].append((at, _repriced(story.plans[plan][-1][1], charge, body)))
        elif call == "subscriptions.create":
            subscribe(at, body)
        elif call == "subscriptions.terminate":
            end(at, entry["to"][0])
        elif call == "customers.delete":
            gone = story.customers[entry["to"][0]]
            gone.deleted = at
            for id in [id for id, segment in now.items() if segment.customer == gone.id]:
                end(at, id)
        elif call == "events.create":
            story.events.append(_event(body, at, place))
    carry_out(story.ends)
    return story


def _event(body: Mapping[str, Any], at: datetime, place: int) -> Event:
    stamp = body.get("timestamp")
    when = at if stamp is None else datetime.fromtimestamp(float(stamp), UTC)
    return Event(
        body["transaction_id"],
        body["code"],
        body["external_subscription_id"],
        when,
        at,
        place,
        body.get("properties") or {},
        Fraction(body.get("precise_total_amount_cents") or 0),
    )


def _yearly(plan: Mapping[str, Any]) -> int:
    return int(plan["amount_cents"]) * A_YEAR[plan["interval"]]


def _repriced(plan: Mapping[str, Any], code: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    charges = [{**charge, **body} if charge["code"] == code else charge for charge in plan["charges"]]
    return {**plan, "charges": charges}


def bucket_terms(charge: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any] | None, Mapping[str, Any]]]:
    """The filters of a charge with their prices, and last what matches none."""
    for one in charge.get("filters", ()):
        yield one["values"], one["properties"]
    yield None, charge["properties"]
