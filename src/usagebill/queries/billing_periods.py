"""The billing period of a subscription on an invoice, with everything its fees depend on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from usagebill.core.commitments import settled_from
from usagebill.core.contracts import Contract
from usagebill.core.days import local_date
from usagebill.core.invoices.life_cycle import BILLED, InvoicingReason
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.periods import (
    Boundaries,
    Cycle,
    Window,
    advance_window,
    billed_through,
    billing_boundaries,
    current_boundaries,
    day_before_next,
    day_end,
    day_start,
    ended_on_boundary_day,
    ends_with_upgrade,
    with_days,
)
from usagebill.core.periods.continuation import BilledWindow, continued
from usagebill.core.plans import Plan, PlanDefinition
from usagebill.core.subscriptions import BillFrom, Subscription
from usagebill.queries.contracts import contract_of
from usagebill.queries.plans import plan_definition
from usagebill.queries.subscriptions import definition_for, find_subscription
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import desc, eq, present, related, within


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingContext:
    """A billing period of an invoice in progress, with its current subscription and plan."""

    invoice: Invoice
    period: BillingPeriod
    boundaries: Boundaries
    contract: Contract
    definition: PlanDefinition
    cycle: Cycle

    @property
    def subscription(self) -> Subscription:
        """The subscription that the period bills."""
        return self.contract.subscription

    @property
    def plan(self) -> Plan:
        """The plan that is billed."""
        return self.definition.plan

    @property
    def ended(self) -> bool:
        """Whether this is the billing period of the subscription's end."""
        return self.period.invoicing_reason == InvoicingReason.TERMINATING

    def follows(self, created_at: datetime, invoice_id: str | None) -> bool:
        """Whether the invoice comes after what another invoice (or none) created at `created_at`.

        A change can create several invoices at one instant: they come in order of their ids.
        """
        return (created_at, invoice_id or "") < (self.invoice.created_at, self.invoice.id)

    @property
    def ended_by_upgrade(self) -> bool:
        """Whether the period ends with an upgrade, whose day is the new plan's; one that closed before does not."""
        return self.ended and ends_with_upgrade(self.cycle, self.boundaries.subscription)

    @property
    def ended_after_invoice(self) -> bool:
        """Whether the subscription ended after this invoice was made: a draft that is recomputed."""
        return self.subscription.terminated_at is not None and not self.ended


def billing_period(
    reader: Reader,
    invoice: Invoice,
    subscription: Subscription,
    boundaries: Boundaries,
    reason: InvoicingReason,
) -> BillingPeriod:
    """The billing period of the subscription on `invoice`, with its `invoicing_reason`; not stored yet."""
    charges, fixed = boundaries.charges, boundaries.fixed_charges
    return BillingPeriod(
        id=reader.new_id(),
        organization_id=invoice.organization_id,
        invoice_id=invoice.id,
        subscription_id=subscription.id,
        external_subscription_id=subscription.external_id,
        plan_id=subscription.plan_id,
        invoicing_reason=reason,
        recurring=reason == InvoicingReason.PERIODIC,
        timezone=invoice.timezone,
        timestamp=boundaries.timestamp,
        opens_interval=boundaries.opens_interval,
        subscription_from_datetime=boundaries.subscription.start,
        subscription_to_datetime=boundaries.subscription.end,
        subscription_duration=boundaries.subscription.duration,
        charges_from_datetime=charges.start if charges else None,
        charges_to_datetime=charges.end if charges else None,
        charges_duration=charges.duration if charges else None,
        fixed_charges_from_datetime=fixed.start if fixed else None,
        fixed_charges_to_datetime=fixed.end if fixed else None,
        fixed_charges_duration=fixed.duration if fixed else None,
        created_at=invoice.created_at,
    )


def boundaries_of(period: BillingPeriod) -> Boundaries:
    """The boundaries of a stored billing period."""
    subscription = _window(
        period.subscription_from_datetime, period.subscription_to_datetime, period.subscription_duration
    )
    if subscription is None:
        raise LookupError(f"billing period {period.id} has no boundaries")
    return Boundaries(
        timestamp=period.timestamp,
        subscription=subscription,
        charges=_window(period.charges_from_datetime, period.charges_to_datetime, period.charges_duration),
        fixed_charges=_window(
            period.fixed_charges_from_datetime, period.fixed_charges_to_datetime, period.fixed_charges_duration
        ),
        opens_interval=period.opens_interval,
    )


def _window(start: datetime | None, end: datetime | None, duration: int | None) -> Window | None:
    if start is None or end is None or duration is None:
        return None
    return Window(start=start, end=end, duration=duration)


def billing_context(
    reader: Reader, invoice: Invoice, period: BillingPeriod, contract: Contract | None = None
) -> BillingContext:
    """`period` of `invoice` with everything its fees depend on; `contract` is looked up unless passed.

    The plan is the subscription's current one, for a draft of a subscription that has ended the one it had then; days
    are counted in the time zone that the period was billed in. Only the last billing period depends on the
    subscription's end: earlier ones do not change when they are recomputed.
    """
    if contract is None:
        subscription = find_subscription(reader, period.subscription_id)
        if subscription is None:
            raise LookupError(f"no subscription {period.subscription_id}")
        contract = contract_of(reader, subscription)
    if period.definition is not None:
        contract = replace(contract, plan=period.definition.plan)
    periods = contract.cycle(ZoneInfo(period.timezone))
    if period.invoicing_reason != InvoicingReason.TERMINATING:
        periods = replace(periods, terminated_at=None, succession=None)
    boundaries = with_days(periods, boundaries_of(period))
    return BillingContext(
        invoice=invoice,
        period=period,
        boundaries=boundaries,
        contract=contract,
        definition=period.definition or _definition(reader, contract, periods, boundaries),
        cycle=periods,
    )


def _definition(reader: Reader, contract: Contract, cycle: Cycle, record: Boundaries) -> PlanDefinition:
    """The contract's plan with the prices that `record` bills: each part by those of the period it is billed for, in
    advance that of the billing timestamp.
    """
    current = plan_definition(reader, contract.plan.id, contract.plan)
    if current.plan.has_one_price:
        return current

    def priced(start: datetime) -> PlanDefinition:
        return definition_for(reader, contract.subscription, start, contract.plan, tz=cycle.tz)

    charges, fixed_charges = record.charges or record.subscription, record.fixed_charges or record.subscription
    opened = cycle.period(local_date(record.timestamp, cycle.tz), cycle.charges_interval)
    closed, ahead = priced(charges.start), priced(day_start(opened.start, cycle.tz))
    fixed_closed, fixed_ahead = priced(fixed_charges.start), priced(advance_window(cycle, record.timestamp).start)
    return replace(
        current,
        plan=replace(
            current.plan,
            amount_cents=priced(record.subscription.start).plan.amount_cents,
            minimum_commitment=priced(settled_from(cycle, record)).plan.minimum_commitment,
        ),
        charges=tuple(
            later if later.pay_in_advance else earlier
            for earlier, later in zip(closed.charges, ahead.charges, strict=True)
        ),
        fixed_charges=tuple(
            later if later.pay_in_advance else earlier
            for earlier, later in zip(fixed_closed.fixed_charges, fixed_ahead.fixed_charges, strict=True)
        ),
    )


def cycle_at_end(contract: Contract) -> Cycle:
    """The subscription's periods; those that its end belongs to if it has ended."""
    return cycle_at(contract, contract.subscription.terminated_at)


def cycle_at(contract: Contract, at: datetime | None) -> Cycle:
    """The periods that `at` belongs to, in the customer's time zone or the last run's (`Contract.cycle_at`)."""
    last = contract.last_run
    return contract.cycle_at(at, run_tz=None if last is None else ZoneInfo(last.timezone))


def running_boundaries(reader: Reader, contract: Contract, periods: Cycle, at: datetime) -> Boundaries:
    """The periods open at `at`, as the run that closes them will bill them. `periods` is `cycle_at(at)`."""
    return _continued(reader, contract, periods, current_boundaries(periods, at))


def _continued(reader: Reader, contract: Contract, periods: Cycle, fresh: Boundaries) -> Boundaries:
    if contract.subscription.started_at is None:
        return fresh
    charges = _last_billed(reader, contract, "charges") if fresh.charges else None
    fixed_charges = _last_billed(reader, contract, "fixed_charges") if fresh.fixed_charges else None
    record = continued(
        periods,
        fresh,
        created_at=contract.subscription.created_at,
        fee=_billed_window(contract.last_run, lambda boundaries: boundaries.subscription),
        charges=_billed_window(charges, lambda boundaries: boundaries.charges),
        fixed_charges=_billed_window(fixed_charges, lambda boundaries: boundaries.fixed_charges),
    )
    return with_days(periods, record)


def _billed_window(run: BillingPeriod | None, kind: Callable[[Boundaries], Window | None]) -> BilledWindow | None:
    window = None if run is None else kind(boundaries_of(run))
    return None if run is None or window is None else BilledWindow(window=window, tz=ZoneInfo(run.timezone))


def _last_billed(reader: Reader, contract: Contract, kind: str) -> BillingPeriod | None:
    """The last run that billed a window of `kind`. If a plan bills one part monthly, most runs lack the other."""
    last = contract.last_run
    column = f"{kind}_from_datetime"
    if last is None or getattr(last, column) is not None:
        return last
    return reader.tx.first(
        BillingPeriod,
        eq("subscription_id", contract.subscription.id),
        eq("recurring", True),
        present(column),
        order=[desc("timestamp")],
    )


def last_billed_charges(reader: Reader, contract: Contract) -> Window | None:
    """The charges window of the last run that billed one, None before the first."""
    last = _last_billed(reader, contract, "charges")
    return None if last is None else boundaries_of(last).charges


def billed_through_day(reader: Reader, contract: Contract, periods: Cycle) -> date | None:
    """The local date by `periods` up to which runs have billed the subscription, None before the first run; that of
    the period open at its creation if nothing before is to be billed.

    If the start was billed in advance in another time zone, nothing is left to bill until its first period ends (a
    month if the plan bills one part monthly).
    """
    last = contract.last_run
    if last is not None:
        return billed_through(periods, run_at=last.timestamp, run_tz=ZoneInfo(last.timezone))
    if contract.subscription.bill_from is BillFrom.CURRENT_PERIOD:
        opened_on = periods.period(local_date(contract.subscription.created_at, periods.tz), periods.billing_interval)
        return opened_on.start if opened_on.start > periods.start_date else None
    started = None
    if contract.plan.pay_in_advance:
        started = reader.tx.first(
            BillingPeriod,
            eq("subscription_id", contract.subscription.id),
            eq("invoicing_reason", InvoicingReason.STARTING),
        )
    if started is None or ZoneInfo(started.timezone) == periods.tz:
        return None
    before = contract.cycle(ZoneInfo(started.timezone))
    first = before.period(local_date(started.timestamp, before.tz), before.billing_interval)
    return day_before_next(periods, day_end(first.end, before.tz))


def boundaries_to_bill(reader: Reader, contract: Contract, at: datetime) -> Boundaries:
    """The boundaries to bill for the subscription at billing timestamp `at`."""
    periods = cycle_at_end(contract)
    billed = ended_on_boundary_day(periods) and _closed_period_is_billed(reader, contract, periods)
    fresh = billing_boundaries(periods, at, period_billed=billed)
    return _continued(reader, contract, periods, fresh)


def used_until(reader: Reader, contract: Contract) -> datetime | None:
    """The end of the time that the fee of an ended plan pays for: the last instant of the day before, if it ended on a
    billing day before its run. None while it goes on. The day of an upgrade is not the plan's in any case.
    """
    periods = cycle_at_end(contract)
    ended = periods.terminated_at
    if ended is None or periods.succession is not None or not ended_on_boundary_day(periods):
        return ended
    if _closed_period_is_billed(reader, contract, periods):
        return ended
    return day_end(local_date(ended, periods.tz) - timedelta(days=1), periods.tz)


def _closed_period_is_billed(reader: Reader, contract: Contract, periods: Cycle) -> bool:
    """Whether a run has billed the period that closed just before the day the subscription ended."""
    billed, ended = billed_through_day(reader, contract, periods), periods.terminated_at
    return billed is not None and ended is not None and billed >= local_date(ended, periods.tz)


def is_billed(reader: Reader, period: BillingPeriod) -> bool:
    """Whether a run has already billed the same windows of the subscription."""
    return (
        reader.tx.first(
            BillingPeriod,
            eq("subscription_id", period.subscription_id),
            eq("recurring", True),
            eq("subscription_from_datetime", period.subscription_from_datetime),
            eq("subscription_to_datetime", period.subscription_to_datetime),
            eq("charges_from_datetime", period.charges_from_datetime),
            eq("charges_to_datetime", period.charges_to_datetime),
            eq("fixed_charges_from_datetime", period.fixed_charges_from_datetime),
            eq("fixed_charges_to_datetime", period.fixed_charges_to_datetime),
            related(Invoice, "invoice_id", within("status", BILLED)),
        )
        is not None
    )
