"""Subscriptions: a customer on a plan, from its first day to its last.

Its status is one of

    pending      starts on a later date, or takes over when a scheduled downgrade is applied
    incomplete   has started, and waits for its first payment
    active       is billed
    terminated   has ended
    canceled     never became active

and changes as `TRANSITIONS` says, in no other way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Protocol, TypeVar

from usagebill.core.activation import ActivationRule
from usagebill.core.days import local_date
from usagebill.core.events import cut_to_seconds
from usagebill.core.instants import MICROSECOND
from usagebill.core.life_cycles import following
from usagebill.core.periods import BillingTime, Cycle, Interval, Succession
from usagebill.core.plans import Plan, UsageThreshold

_END_OF_TIME = datetime(9999, 12, 30, tzinfo=UTC)


class BillFrom(StrEnum):
    """What is billed of the time between a start in the past and the creation of the subscription."""

    NOW = "now"  # nothing that is due already: the next run is the first
    CURRENT_PERIOD = "current_period"  # what has been due since the start of the open period
    START = "start"  # everything, as if the subscription had been created at its start


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """`subscription_at` is the anchor of anniversary periods, `started_at` the instant from which it is billed.

    Empty termination options mean credit and generate. `fixed_charge_units` are this subscription's own numbers of
    units, by fixed charge id. `origin` is the plan change (upgrade or downgrade) that created it, `succession` the one
    that ended it. `billed_from` is the instant up to which the previous plan was billed, None if that is `started_at`
    or there was no previous plan. `bill_from` says what is billed of the time before it was created. `phase_from` makes
    it a phase of the contract that began with an earlier plan: it takes over at the first period of its predecessor
    that begins on that local day or later.
    """

    id: str
    organization_id: str
    external_id: str
    customer_id: str
    plan_id: str
    status: SubscriptionStatus
    billing_time: str
    subscription_at: datetime
    created_at: datetime
    updated_at: datetime
    name: str | None = None
    started_at: datetime | None = None
    billed_from: datetime | None = None
    activated_at: datetime | None = None
    ending_at: datetime | None = None
    terminated_at: datetime | None = None
    canceled_at: datetime | None = None
    trial_ended_at: datetime | None = None
    cancellation_reason: str | None = None
    previous_subscription_id: str | None = None
    billing_entity_id: str | None = None
    on_termination_credit_note: str | None = None
    on_termination_invoice: str = "generate"
    consolidate_invoice: bool = True
    progressive_billing_disabled: bool = False
    purchase_order_number: str | None = None
    payment_method_type: str = "provider"
    payment_method_id: str | None = None
    skip_invoice_custom_sections: bool = False
    invoice_custom_section_ids: tuple[str, ...] = ()
    fixed_charge_units: Mapping[str, Decimal] = field(default_factory=dict)
    usage_thresholds: tuple[UsageThreshold, ...] = ()
    activation_rules: tuple[ActivationRule, ...] = ()
    origin: str | None = None
    succession: str | None = None
    termination_announced_at: datetime | None = None
    bill_from: BillFrom = BillFrom.NOW
    phase_from: date | None = None

    @property
    def ends_at(self) -> datetime | None:
        """`ending_at`, capped so that every time zone has a date for it."""
        return None if self.ending_at is None else min(self.ending_at, _END_OF_TIME)


def cycle_of(subscription: Subscription, plan: Plan, tz: tzinfo, *, succession: Succession | None = None) -> Cycle:
    """The settings that decide the periods of a subscription that has started; `ValueError` for one that has not.

    `tz` is the customer's applicable time zone, `succession` the plan change that ended the subscription, if one did.
    """
    if subscription.started_at is None:
        raise ValueError("a subscription has no periods before it starts")
    return Cycle(
        interval=Interval(plan.interval),
        billing_time=BillingTime(subscription.billing_time),
        pay_in_advance=plan.pay_in_advance,
        bill_charges_monthly=bool(plan.bill_charges_monthly),
        bill_fixed_charges_monthly=bool(plan.bill_fixed_charges_monthly),
        subscription_at=subscription.subscription_at,
        started_at=subscription.started_at,
        terminated_at=subscription.terminated_at,
        succession=succession,
        tz=tz,
    )


def begins_at(subscription: Subscribed) -> datetime | None:
    """The first instant that is the subscription's, None before its start: after a downgrade the local midnight, though
    a run has started it minutes later; after a plan that continued until the first payment, that payment.
    """
    return subscription.billed_from or subscription.started_at


def billed_since(subscription: Subscription) -> datetime:
    """Since when its fees are billed as if it had been there: since it was created, or started if its past is billed
    too.
    """
    if subscription.bill_from is BillFrom.NOW or subscription.started_at is None:
        return subscription.created_at
    return min(subscription.started_at, subscription.created_at)


def known_since(subscription: Subscription) -> datetime:
    """Since when runs bill a subscription: since it was created and active."""
    return max(subscription.created_at, subscription.activated_at or subscription.created_at)


def bills_at_once_since(subscription: Subscription) -> datetime:
    """The instant from which events are received that charges in advance bill as they come.

    What came at the very instant of a start by a request came before it; a start that was due comes first. What comes
    from the midnight of a downgrade on waits for the run that applies it.
    """
    begun, created_at = known_since(subscription), subscription.created_at
    if subscription.billed_from is not None and subscription.billed_from < begun:
        return subscription.billed_from
    was_due = created_at < begun == subscription.started_at
    return begun if was_due else begun + MICROSECOND


class SubscriptionStatus(StrEnum):
    """The state of a subscription, as named in the API."""

    PENDING = "pending"
    INCOMPLETE = "incomplete"
    ACTIVE = "active"
    TERMINATED = "terminated"
    CANCELED = "canceled"


class TerminationCredit(StrEnum):
    """The fate of the unused part of a fee paid in advance when its subscription ends."""

    CREDIT = "credit"  # it is credited to the customer
    REFUND = "refund"  # its paid part is refunded, the rest credited
    OFFSET = "offset"  # like a refund, but the rest first settles the invoice
    SKIP = "skip"


class TerminationInvoice(StrEnum):
    """Whether the last period is invoiced when a subscription ends."""

    GENERATE = "generate"
    SKIP = "skip"


# Billed now, or in the future.
UNENDED = (SubscriptionStatus.PENDING, SubscriptionStatus.ACTIVE)
# Not started or not paid yet.
NOT_ACTIVATED = (SubscriptionStatus.PENDING, SubscriptionStatus.INCOMPLETE)
# Is or was active: its usage is billed.
ACTIVATED = (SubscriptionStatus.ACTIVE, SubscriptionStatus.TERMINATED)
# Has started and has not ended, paid or not.
RUNNING = (SubscriptionStatus.ACTIVE, SubscriptionStatus.INCOMPLETE)
# Has been used, or is.
STARTED = (SubscriptionStatus.ACTIVE, SubscriptionStatus.TERMINATED)
# Holds its external id.
HOLDING_ID = (SubscriptionStatus.ACTIVE, SubscriptionStatus.PENDING, SubscriptionStatus.INCOMPLETE)


def is_unstarted_phase(subscription: Subscription) -> bool:
    """Whether it is a phase of a contract that has not taken over, or never will."""
    return subscription.phase_from is not None and subscription.status not in ACTIVATED


class Event(Enum):
    """Events that change the status of a subscription."""

    ACTIVATE = "activate"
    AWAIT_PAYMENT = "await_payment"
    PAYMENT_SUCCEEDED = "payment_succeeded"
    PAYMENT_FAILED = "payment_failed"
    PAYMENT_TIMED_OUT = "payment_timed_out"
    CANCEL = "cancel"
    TERMINATE = "terminate"


# Every subscription is created pending; one that starts at once is activated, or awaits its payment, immediately.
TRANSITIONS: Mapping[tuple[SubscriptionStatus, Event], SubscriptionStatus] = {
    (SubscriptionStatus.PENDING, Event.ACTIVATE): SubscriptionStatus.ACTIVE,
    (SubscriptionStatus.PENDING, Event.AWAIT_PAYMENT): SubscriptionStatus.INCOMPLETE,
    (SubscriptionStatus.PENDING, Event.CANCEL): SubscriptionStatus.CANCELED,
    (SubscriptionStatus.INCOMPLETE, Event.PAYMENT_SUCCEEDED): SubscriptionStatus.ACTIVE,
    (SubscriptionStatus.INCOMPLETE, Event.PAYMENT_FAILED): SubscriptionStatus.CANCELED,
    (SubscriptionStatus.INCOMPLETE, Event.PAYMENT_TIMED_OUT): SubscriptionStatus.CANCELED,
    (SubscriptionStatus.INCOMPLETE, Event.CANCEL): SubscriptionStatus.CANCELED,
    (SubscriptionStatus.ACTIVE, Event.TERMINATE): SubscriptionStatus.TERMINATED,
}


def transition(status: SubscriptionStatus, event: Event) -> SubscriptionStatus:
    """The status that follows `event`; raises `TransitionError` if `TRANSITIONS` has none."""
    return following(TRANSITIONS, status, event)


class Start(Enum):
    """When a new subscription starts, by local date."""

    PAST = "past"
    TODAY = "today"
    FUTURE = "future"


def start_of(subscription_at: datetime, now: datetime, tz: tzinfo) -> Start:
    """Whether a subscription requested at `now` starts on an earlier, the same or a later local date.

    Today it starts at `subscription_at` itself, even if that is later in the day, and is billed at once; in the past it
    is billed by the next run; in the future it stays pending.
    """
    start_day, today = local_date(subscription_at, tz), local_date(now, tz)
    if start_day == today:
        return Start.TODAY
    return Start.PAST if start_day < today else Start.FUTURE


def start_of_moved(subscription_at: datetime, now: datetime, *, has_rules: bool) -> Start:
    """The start of a pending subscription that is moved to `subscription_at`, by the date in UTC.

    Today it starts and is billed at once, in the past it is billed by the next run. In the future it stays pending; so
    does one of today with activation rules, which are evaluated when it is activated.
    """
    if subscription_at > now:
        return Start.FUTURE
    if subscription_at.astimezone(UTC).date() < now.astimezone(UTC).date():
        return Start.PAST
    return Start.FUTURE if has_rules else Start.TODAY


def started_in_past_at(subscription_at: datetime, billed_ends: Iterable[datetime]) -> datetime:
    """The start of a subscription whose `subscription_at` has come: not before the latest billed end of the
    subscriptions with the same external id, so that no time is billed twice.
    """
    return max([subscription_at, *billed_ends])


def yearly_amount(amount_cents: int, interval: Interval) -> int:
    """A plan's fee for a year of 52 weeks, 12 months, 4 quarters or 2 half-years."""
    return amount_cents * interval.per_year


def is_upgrade(current_cents: int, current: Interval, new_cents: int, new: Interval) -> bool:
    """Whether a plan change takes effect at once: the new plan's fee per year is at least the current one's.

    A lower one is a downgrade, applied when the current period ends.
    """
    return yearly_amount(new_cents, new) >= yearly_amount(current_cents, current)


class Subscribed(Protocol):
    """The fields of a subscription that decide whether an event belongs to it."""

    @property
    def started_at(self) -> datetime | None: ...

    @property
    def billed_from(self) -> datetime | None: ...

    @property
    def terminated_at(self) -> datetime | None: ...

    @property
    def status(self) -> str: ...


S = TypeVar("S", bound=Subscribed)

_BEGINNING = datetime.min.replace(tzinfo=UTC)


def subscription_at(subscriptions: Iterable[S], timestamp: datetime, received: datetime | None = None) -> S | None:
    """The one of `subscriptions` (all with the event's external id) to which an event at `timestamp` belongs.

    Begun (`begins_at`) at or before it and terminated, if at all, at or after it; those that wait for a first payment
    (`incomplete`) are left out. Of several: not terminated first, then the latest terminated, then the latest begun.

    Most senders use whole seconds, so a subscription owns the whole second in which it starts; events `received` before
    the start belong to the previous subscription, if there is one (None: just received).
    """
    seconds = [
        subscription
        for subscription in subscriptions
        if subscription.status != SubscriptionStatus.INCOMPLETE
        and (begins := begins_at(subscription)) is not None
        and cut_to_seconds(begins) <= timestamp
        and (subscription.terminated_at is None or subscription.terminated_at >= timestamp)
    ]
    exact = [candidate for candidate in seconds if (begins := begins_at(candidate)) is None or begins <= timestamp]
    later = [
        candidate
        for candidate in seconds
        if received is None or ((begins := begins_at(candidate)) is not None and begins < received)
    ]
    matching = [candidate for candidate in seconds if not exact or candidate in exact or candidate in later]
    return max(
        matching,
        key=lambda match: (match.terminated_at is None, match.terminated_at or _BEGINNING, begins_at(match)),
        default=None,
    )


def active_subscription(subscriptions: Iterable[S]) -> S | None:
    """The latest started active one of `subscriptions`.

    An event of a recurring metric that no subscription matches refreshes this one's usage; it is never billed in
    advance for it.
    """
    active = [subscription for subscription in subscriptions if subscription.status == SubscriptionStatus.ACTIVE]
    return max(active, key=lambda match: match.started_at or _BEGINNING, default=None)
