"""Progressive billing: an invoice as soon as usage passes a threshold; and lifetime usage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Annotated

from usagebill.core import limits
from usagebill.core.bills import Bill
from usagebill.core.contracts import Contract
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.events import Event
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.life_cycle import (
    BILLED_AHEAD,
    COUNTED_IN_LIFETIME_USAGE,
    InvoiceStatus,
    InvoiceType,
    InvoicingReason,
)
from usagebill.core.invoices.progressive import applied_threshold, billed_so_far, is_invoiced_already
from usagebill.core.invoices.records import AppliedThreshold, BillingPeriod, Invoice
from usagebill.core.periods import Boundaries
from usagebill.core.periods.schedule import awaited_run, run_after
from usagebill.core.plans import Plan, UsageThreshold
from usagebill.core.progressive_billing import (
    Completion,
    LifetimeUsage,
    completions,
    passed_thresholds,
)
from usagebill.core.subscriptions import UNENDED, Subscription, SubscriptionStatus
from usagebill.core.tasks import CheckUsageThresholds
from usagebill.operations.alert_watch import watch_subscription
from usagebill.operations.backlog import after_backlog, catch_up_before, of_subscriptions, settle_backlog
from usagebill.operations.invoices.record import record
from usagebill.operations.usage_so_far import amount_if, note_events, stop_watching
from usagebill.queries.billing_periods import cycle_at, running_boundaries
from usagebill.queries.contracts import contract_of
from usagebill.queries.subscriptions import applicable_thresholds
from usagebill.queries.takeovers import in_force, takeover, takeovers
from usagebill.rating.current_usage import usage_so_far
from usagebill.rating.invoice import progressive_bill
from usagebill.requests.inputs import ABSENT, Input, Maybe, described, is_given
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, at_least, desc, eq, ne, not_empty, related, within
from usagebill.views.subscriptions import threshold_reached_view


def follow_up(work: Work, events: Sequence[Event]) -> None:
    """Record the new events of subscriptions with thresholds, and schedule a check."""
    with_thresholds = not_empty("usage_thresholds")
    sent: dict[str, list[Event]] = {}
    for event in events:
        if event.external_subscription_id:
            sent.setdefault(event.external_subscription_id, []).append(event)
    conditions = [within("external_id", sent), within("status", UNENDED)]
    if work.tx.first(Plan, with_thresholds, deleted=True) is None:
        conditions.append(with_thresholds)
    for subscription in work.tx.find(Subscription, *conditions):
        # The start of one that is pending may be overdue: the check runs it first. A downgrade has its own instant.
        is_downgrade = subscription.status == SubscriptionStatus.PENDING and subscription.previous_subscription_id
        if not is_downgrade and applicable_thresholds(work, subscription):
            note_events(work, subscription, sent[subscription.external_id])
            work.schedule(CheckUsageThresholds(subscription_id=subscription.id), work.now)
    for due in takeovers(work, sent):
        if applicable_thresholds(work, due.following):
            note_events(work, due.following, sent[due.following.external_id])
            # Where the run is overdue, the check runs it first.
            work.schedule(CheckUsageThresholds(subscription_id=due.following.id), max(run_after(due.at), work.now))


def _check_after_run(work: Work, subscription: Subscription, midnight: datetime) -> None:
    work.schedule(CheckUsageThresholds(subscription_id=subscription.id), awaited_run(midnight, work.now))


def check(work: Work, task: CheckUsageThresholds) -> None:
    """Job: invoice the subscription's usage so far if it has passed a threshold since the last invoice.

    The customer's backlog is settled first, because a closed period or a plan change decides which usage is current,
    and whose; an overdue check of other thresholds bills the usage of its own instant. From the midnight on at which a
    period closes, the check waits for the run that bills it, or that applies a downgrade: lifetime usage includes it.
    """
    subscription = work.tx.get(Subscription, task.subscription_id)
    if subscription is None or subscription.status not in UNENDED:
        stop_watching(work, task.subscription_id)
        return
    catch_up_before(work, (subscription.customer_id,))
    subscription = work.tx.first(
        Subscription,
        eq("external_id", subscription.external_id),
        eq("customer_id", subscription.customer_id),
        eq("status", SubscriptionStatus.ACTIVE),
    )
    if subscription is None or subscription.id != task.subscription_id:
        stop_watching(work, task.subscription_id)
    if subscription is None:
        return
    if subscription.id != task.subscription_id:
        # The check of one that has just begun may be due at this instant itself.
        settle_backlog(work, subscription.customer_id, subscription.id, needed=False)
    thresholds = applicable_thresholds(work, subscription)
    if not thresholds:
        stop_watching(work, subscription.id)
        return
    contract = contract_of(work, subscription)
    due = takeover(work, contract)
    if due is not None:
        _check_after_run(work, due.following, due.at)
        return
    boundaries = running_boundaries(work, contract, cycle_at(contract, work.now), work.now)
    opened = None if boundaries.charges is None else boundaries.charges.start
    if opened is not None and contract.cycle().started_at < opened and work.now < run_after(opened):
        _check_after_run(work, subscription, opened)
        return
    billed = _billed_cents(work, subscription, boundaries)
    invoiced = _historical(work, subscription) + invoiced_cents(work, subscription)

    def passed_at(cents: int) -> list[UsageThreshold]:
        return passed_thresholds(thresholds, invoiced_cents=invoiced, current_cents=cents, billed_cents=billed)

    current = amount_if(work, subscription, lambda cents: bool(passed_at(cents)))
    if current is None:
        return
    reached = _Reached(
        contract=contract,
        boundaries=boundaries,
        passed=tuple(passed_at(current)),
        invoiced_cents=invoiced,
        current_cents=current,
        billed_cents=billed,
    )
    if not _is_billed(work, subscription, invoiced + billed, reached.passed):
        _bill(work, reached)


def _is_billed(reader: Reader, subscription: Subscription, invoiced: int, passed: Sequence[UsageThreshold]) -> bool:
    """Whether these thresholds have been invoiced before, even if the invoice was voided since."""
    periods = reader.tx.find(
        BillingPeriod,
        within("subscription_id", _life(reader, subscription)),
        eq("invoicing_reason", InvoicingReason.PROGRESSIVE_BILLING),
    )
    invoices = reader.tx.find(Invoice, within("id", [period.invoice_id for period in periods]))
    return is_invoiced_already(invoices, invoiced, passed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reached:
    """The thresholds that usage has passed in the running periods, and its amounts in cents: so far, invoiced before
    these periods, and billed within them.
    """

    contract: Contract
    boundaries: Boundaries
    passed: tuple[UsageThreshold, ...]
    invoiced_cents: int
    current_cents: int
    billed_cents: int

    def bill(self, reader: Reader) -> Bill | None:
        """The bill of all usage so far in the running charges period, less earlier progressive invoices."""
        applied = tuple(self._applied(reader, threshold) for threshold in self.passed)
        return progressive_bill(reader, self.contract, self.boundaries, applied)

    def _applied(self, reader: Reader, threshold: UsageThreshold) -> AppliedThreshold:
        return applied_threshold(
            threshold,
            id=reader.new_id(),
            now=reader.now,
            invoiced_cents=self.invoiced_cents,
            current_cents=self.current_cents,
            billed_cents=self.billed_cents,
        )


def _bill(work: Work, reached: _Reached) -> None:
    """Invoice the usage, and send a message per threshold."""
    subscription = reached.contract.subscription
    owed = work.computed(
        ("progressive bill", subscription.id), reached.bill, inputs=reached, customer_id=subscription.customer_id
    )
    if owed is None:
        return
    record(work, owed)
    for threshold in reached.passed:
        view = partial(threshold_reached_view, work, reached.contract.subscription, threshold)
        work.emit("subscription.usage_threshold_reached", view)


def _billed_cents(reader: Reader, subscription: Subscription, boundaries: Boundaries) -> int:
    """Usage of the running charges period, in cents, at its last progressive billing invoice.

    Besides the invoice's own amount it includes usage paid in advance, which also passes a threshold only once.
    """
    if boundaries.charges is None:
        return 0
    last = reader.tx.first(
        BillingPeriod,
        eq("subscription_id", subscription.id),
        eq("invoicing_reason", InvoicingReason.PROGRESSIVE_BILLING),
        eq("charges_from_datetime", boundaries.charges.start),
        related(Invoice, "invoice_id", within("status", BILLED_AHEAD)),
        order=[desc("timestamp"), desc("id")],
    )
    return billed_so_far(None if last is None else reader.tx.get(Invoice, last.invoice_id))


# Lifetime usage


def _life(reader: Reader, subscription: Subscription) -> list[str]:
    """The ids of the chain of subscriptions that this one continues, itself included."""
    return [
        other.id
        for other in reader.tx.find(
            Subscription, eq("external_id", subscription.external_id), eq("customer_id", subscription.customer_id)
        )
        if other.status != SubscriptionStatus.CANCELED and other.subscription_at == subscription.subscription_at
    ]


def invoiced_cents(reader: Reader, subscription: Subscription) -> int:
    """Cents of usage fees, before coupons and taxes, on valid subscription invoices in the subscription's life."""
    return reader.tx.total(Fee, "amount_cents", *_counted_fees(reader, subscription))


def _counted_fees(reader: Reader, subscription: Subscription) -> tuple[Condition, ...]:
    on_standing_invoice = related(
        Invoice,
        "invoice_id",
        eq("invoice_type", InvoiceType.SUBSCRIPTION),
        within("status", COUNTED_IN_LIFETIME_USAGE),
    )
    whose = within("subscription_id", _life(reader, subscription))
    return whose, eq("fee_type", FeeType.CHARGE), on_standing_invoice


def usage_before(reader: Reader, subscription: Subscription, start: datetime) -> int:
    """Lifetime usage from before the charges period that began at `start`, in cents: historical and billed.

    Usage of the period that was paid in advance is billed already, but counts with the period.
    """
    in_advance = _paid_in_advance(reader, subscription, start)
    return _historical(reader, subscription) + invoiced_cents(reader, subscription) - in_advance


def _paid_in_advance(reader: Reader, subscription: Subscription, start: datetime) -> int:
    """Usage since `start` that is invoiced already, in cents."""
    return reader.tx.total(
        Fee,
        "amount_cents",
        *_counted_fees(reader, subscription),
        eq("pay_in_advance", True),
        at_least("charges_from_datetime", start),
    )


def _stored(reader: Reader, subscription: Subscription) -> LifetimeUsage | None:
    """The stored lifetime usage of the subscription: an upgrade continues it, a new start does not."""
    return reader.tx.first(LifetimeUsage, within("subscription_id", _life(reader, subscription)))


def _historical(reader: Reader, subscription: Subscription) -> int:
    stored = _stored(reader, subscription)
    return 0 if stored is None else stored.external_historical_usage_amount_cents


@dataclass(frozen=True, slots=True, kw_only=True)
class LifetimeUsageNow:
    """The current lifetime usage of a subscription, in cents of its plan's currency."""

    record: LifetimeUsage
    subscription: Subscription
    invoiced_cents: int
    current_cents: int
    at: datetime
    completions: tuple[Completion, ...] | None


@Input
class LifetimeUsageInput:
    external_historical_usage_amount_cents: Maybe[Annotated[int, limits.HISTORICAL_USAGE]] = described(
        "Usage before the customer was billed by usagebill.", unit="cents"
    )


@Input
class LifetimeUsageOptions:
    subscription_status: Maybe[str] = ABSENT
    status: Maybe[str] = described("The same as `subscription_status`.", values=tuple(SubscriptionStatus))


def _subscription(reader: Reader, external_id: str, options: LifetimeUsageOptions) -> Subscription:
    status = options.subscription_status or options.status or "active"
    subscription = reader.tx.first(
        Subscription,
        eq("external_id", external_id),
        eq("status", status),
        order=[desc("terminated_at"), desc("started_at")],
    )
    if subscription is None:
        raise NotFound("subscription", external_id)
    return subscription


def get(reader: Reader, external_id: str, options: LifetimeUsageOptions) -> LifetimeUsageNow:
    """The lifetime usage of a subscription: historical, invoiced and current, with progress towards its thresholds."""
    subscription = _subscription(reader, external_id, options)
    if subscription.started_at is None:
        raise NotFound("lifetime_usage", external_id)
    record = _stored(reader, subscription) or _fresh(reader, subscription)
    invoiced, current = invoiced_cents(reader, subscription), 0
    if subscription.status == SubscriptionStatus.ACTIVE:
        window, usages = usage_so_far(reader, in_force(reader, subscription))
        current = sum(result.amounts.amount_cents for usage in usages for result in usage.results)
        invoiced -= _paid_in_advance(reader, subscription, window.start)
    thresholds = applicable_thresholds(reader, subscription)
    total = record.external_historical_usage_amount_cents + invoiced + current
    return LifetimeUsageNow(
        record=record,
        subscription=subscription,
        invoiced_cents=invoiced,
        current_cents=current,
        at=reader.now,
        completions=tuple(completions(thresholds, total, _reached(reader, subscription), reader.now))
        if thresholds
        else None,
    )


def _reached(reader: Reader, subscription: Subscription) -> dict[int, datetime]:
    """Lifetime usage at each progressive billing invoice, with the invoice's creation."""
    periods = reader.tx.find(
        BillingPeriod,
        within("subscription_id", _life(reader, subscription)),
        eq("invoicing_reason", InvoicingReason.PROGRESSIVE_BILLING),
        related(Invoice, "invoice_id", ne("status", InvoiceStatus.VOIDED)),
    )
    invoices = reader.tx.find(Invoice, within("id", [period.invoice_id for period in periods]))
    return {
        applied.lifetime_usage_amount_cents: applied.created_at
        for invoice in invoices
        for applied in invoice.applied_usage_thresholds
    }


def _fresh(reader: Reader, subscription: Subscription) -> LifetimeUsage:
    return LifetimeUsage(
        id=subscription.id,
        organization_id=reader.organization.id,
        subscription_id=subscription.id,
        external_subscription_id=subscription.external_id,
        created_at=subscription.started_at or reader.now,
        updated_at=subscription.started_at or reader.now,
    )


@after_backlog(of_subscriptions)
def put(work: Work, external_id: str, request: LifetimeUsageInput, options: LifetimeUsageOptions) -> LifetimeUsageNow:
    """Set the lifetime usage of a subscription from before it was imported."""
    subscription = _subscription(work, external_id, options)
    if is_given(request.external_historical_usage_amount_cents):
        amount = request.external_historical_usage_amount_cents or 0
        if not limits.HISTORICAL_USAGE.holds(amount):
            raise Invalid(historical_usage_amount_cents="value_is_out_of_range")
        stored = _stored(work, subscription)
        changed = replace(
            stored or _fresh(work, subscription),
            external_historical_usage_amount_cents=amount,
            subscription_id=subscription.id,
            updated_at=work.now,
        )
        if stored is None:
            work.tx.insert(changed)
        else:
            work.tx.replace(changed)
        watch_subscription(work, subscription)
    return get(work, external_id, options)
