"""Usage fees of a billing period."""

from __future__ import annotations

from usagebill.core.copies import replace
from usagebill.core.counted_usage import counted_usage
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import IN_ARREARS
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.periods import Window, is_empty, usage_windows
from usagebill.core.plans import PlanDefinition
from usagebill.queries.billing_periods import BillingContext
from usagebill.queries.plans import charges_then, plan_definition
from usagebill.queries.subscriptions import plan_id_at, successor_of
from usagebill.rating.charge_scope import usage_window
from usagebill.rating.fees import charges as usage
from usagebill.rating.handover import bill_of_end
from usagebill.runtime.work import Reader


def period_usage(reader: Reader, context: BillingContext) -> list[Fee]:
    """The usage charges that this billing period bills, in the order of the plan."""
    charges, whose = context.boundaries.charges, usage_to_bill(reader, context)
    if charges is None or whose is None or is_empty(charges.start, charges.end, context.cycle.tz, ends=context.ended):
        return []
    return usage.rated_usage(reader, whose) if IN_ARREARS[context.period.invoicing_reason].usage else []


def last_day_usage(reader: Reader, context: BillingContext) -> list[Fee]:
    """What was used on a billing day on which the subscription ended before the run (`usage_windows`). The day itself
    is free.
    """
    _, *days = usage_windows(context.cycle, context.boundaries) or (None,)
    return [
        fee
        for day in days
        for fee in usage.rated_usage(reader, replace(_usage_in(reader, context, day), used_only=True))
    ]


def with_counted_usage(reader: Reader, period: BillingPeriod, definition: PlanDefinition) -> BillingPeriod:
    """The period with what is counted for it now."""
    if period.charges_from_datetime is None:
        return period
    return replace(period, counted=counted_usage(definition.charges, definition.metrics, reader.known_at))


def usage_to_bill(reader: Reader, context: BillingContext) -> usage.UsageToBill | None:
    """The usage that the billing period bills, without that of a last day (`last_day_usage`); None if it bills none."""
    windows = usage_windows(context.cycle, context.boundaries)
    return _usage_in(reader, context, windows[0]) if windows else None


def _usage_in(reader: Reader, context: BillingContext, charges: Window) -> usage.UsageToBill:
    window = usage_window(charges, context.cycle.tz, context.subscription, ends=context.ended)
    return usage.UsageToBill(
        invoice=context.invoice,
        subscription=context.subscription,
        definition=context.definition,
        window=window,
        known_at=reader.known_at,
        billed_at=bill_of_end(context.period, reader.known_at) if context.ended else None,
        next_plan=_next_plan(reader, context) if window.ended_by_upgrade else None,
    )


def _next_plan(reader: Reader, context: BillingContext) -> PlanDefinition | None:
    """The plan that follows as it was when the invoice was made: what becomes of it concerns no draft."""
    following, at = successor_of(reader, context.subscription), context.invoice.created_at
    if following is None or not any(metric.recurring for metric in context.definition.metrics.values()):
        return None
    plan_id = plan_id_at(reader, following, at)
    return replace(plan_definition(reader, plan_id), charges=charges_then(reader, plan_id, at))
