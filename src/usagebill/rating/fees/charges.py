"""Fees for usage in arrears: one line per filter and group with usage, and true-ups to minimums."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from usagebill.core.aggregation import Window, counts_history
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_lines import billed_by_next_plan, charge_line, true_up_fee, with_true_up
from usagebill.core.charge_parts import ChargeResult
from usagebill.core.copies import replace
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import decimal_text
from usagebill.core.plans import Charge, PlanDefinition
from usagebill.core.subscriptions import Subscription
from usagebill.rating.charge_scope import ChargeScope
from usagebill.rating.handover import Neighbours
from usagebill.rating.usage import charge_results
from usagebill.runtime.work import Reader
from usagebill.storage.event_queries import Arrival


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageToBill:
    """The usage that an invoice bills for a subscription over a window.

    `next_plan` is the plan that an upgrade moved to. Without `with_minimum` no charge is brought up to its minimum
    (progressive billing). Events received after `known_at` are left out, and so are those at the very instant of the
    subscription's end that were received after `billed_at`. With `used_only` the window is not paid for by days: what
    was used in it is billed, but no level carried over, no minimum, and no flat price of a charge without usage.
    """

    invoice: Invoice
    subscription: Subscription
    definition: PlanDefinition
    window: Window
    known_at: datetime | None = None
    billed_at: Arrival | None = None
    next_plan: PlanDefinition | None = None
    with_minimum: bool = True
    used_only: bool = False


def rated_usage(reader: Reader, usage: UsageToBill) -> list[Fee]:
    """The usage fees, charge by charge in the order of the plan; empty ones are left out.

    Charges paid in advance are left out, and so are those that the next plan continues to bill after an upgrade.
    """
    if usage.window.start > usage.window.end:
        return []
    scope = ChargeScope(
        subscription=usage.subscription,
        currency=usage.definition.plan.amount_currency,
        window=usage.window,
        known_at=usage.known_at,
        billed_at=usage.billed_at,
        neighbours=Neighbours(reader, usage.subscription),
    )
    fees: list[Fee] = []
    charges = [
        (charge, metric)
        for charge in usage.definition.charges
        for metric in (usage.definition.metrics[charge.billable_metric_id],)
        if charge.invoiceable
        and not charge.pay_in_advance
        and not billed_by_next_plan(charge, metric, usage.window, usage.next_plan)
        and not (usage.used_only and counts_history(metric.aggregation_type, recurring=metric.recurring))
    ]
    for charge, metric in charges:
        fees += _rated_charge(reader, usage, scope, charge, metric)
    return fees


def _rated_charge(
    reader: Reader, usage: UsageToBill, scope: ChargeScope, charge: Charge, metric: BillableMetric
) -> list[Fee]:
    results = charge_results(reader, charge, metric, scope)
    lines = [charge_fee(reader, usage, result) for result in results]
    if usage.used_only:
        return [line for line in lines if line.units or line.events_count]
    added = true_up_fee(charge, usage.window, lines, id=reader.new_id()) if usage.with_minimum else None
    return with_true_up(lines, added)


def charge_fee(reader: Reader, usage: UsageToBill, result: ChargeResult) -> Fee:
    """The fee for one result."""
    return replace(
        charge_line(usage, result, usage.invoice, id=reader.new_id(), now=reader.now),
        amount_details=result.amount_details,
        presentation_breakdowns=tuple(
            {"presentation_by": dict(by), "units": decimal_text(units)} for by, units in result.shown_breakdown
        ),
    )
