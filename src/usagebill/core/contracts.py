"""Contracts: a subscription with the records that decide how it is billed, loaded once and passed on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer, dating_settings, finalizes_zero_amount_invoices, timezone
from usagebill.core.dates import DatingSettings
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.periods import Cycle, Succession, reenters_billed_period
from usagebill.core.periods.schedule import ending_at_instant
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription, cycle_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Parties:
    """The customer, its billing entity, and the entity that issues its invoices.

    The customer inherits the settings of its own `entity`, whoever the issuer is.
    """

    customer: Customer
    entity: BillingEntity
    issuer: BillingEntity

    @property
    def timezone(self) -> str:
        """The name of the time zone in which the customer's days begin and end."""
        return timezone(self.customer, self.entity)

    @property
    def dating(self) -> DatingSettings:
        """The settings for the dates of the customer's invoices."""
        return dating_settings(self.customer, self.entity)

    @property
    def sends_empty(self) -> bool:
        """Whether the customer is sent zero invoices."""
        return finalizes_zero_amount_invoices(self.customer, self.entity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """A subscription, its plan (or override), the parties of its invoices and the customer's time zone.

    `last_run` is the billing period of the subscription's latest run. It goes stale with the next run: load the
    contract again before asking what is billed next.
    """

    subscription: Subscription
    plan: Plan
    parties: Parties
    zone: tzinfo
    last_run: BillingPeriod | None = None

    @property
    def customer(self) -> Customer:
        """The customer of the subscription."""
        return self.parties.customer

    def of(self, subscription: Subscription) -> Contract:
        """The contract with a changed subscription, on the same plan and for the same customer."""
        return replace(self, subscription=subscription)

    def has_overdue_end(self, now: datetime) -> bool:
        """Whether the active subscription should have ended by now: the job that ends it has failed or is late.

        Nothing is billed beyond that end.
        """
        if self.customer.deleted_at is not None or self.plan.deleted_at is not None:
            return True
        ends_at = self.subscription.ends_at
        return ends_at is not None and ending_at_instant(ends_at, self.zone) < now

    def cycle(self, zone: tzinfo | None = None) -> Cycle:
        """The settings that decide the periods of a subscription that has started, in `zone` or else the customer's
        time zone.
        """
        subscription = self.subscription
        succession = Succession(subscription.succession) if subscription.succession else None
        cycle = cycle_of(subscription, self.plan, zone or self.zone, succession=succession)
        return cycle if subscription.billed_from is None else replace(cycle, started_at=subscription.billed_from)

    def cycle_at(self, at: datetime | None, *, run_tz: tzinfo | None) -> Cycle:
        """The periods that `at` belongs to, in the customer's time zone or in `run_tz`, that of the last run.

        For some hours, a customer who moved is back in a period that a run has closed: in the west because the local
        date is earlier, in the east because the anchor's local date is later. What happens in those hours belongs to
        the period that the run opened.
        """
        cycle, last = self.cycle(), self.last_run
        if at is None or last is None or run_tz is None or run_tz == cycle.tz:
            return cycle
        if reenters_billed_period(cycle, at, run_at=last.timestamp, run_tz=run_tz):
            return self.cycle(run_tz)
        return cycle
