"""The lines of usage charges: one per part and group with usage, and true-ups to minimums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from usagebill.core.aggregation import AGGREGATIONS, Accumulation, Window
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_parts import ChargePart
from usagebill.core.copies import replace
from usagebill.core.currencies import major_from_cents
from usagebill.core.fees import Fee, FeeItem, FeeType
from usagebill.core.invoices.opening import new_fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import decimal_text, divide, multiply, round_cents, total
from usagebill.core.plans import Charge, PlanDefinition
from usagebill.core.pricing import PRICING_UNIT_SUBUNITS
from usagebill.core.pricing.fees import FeeAmounts, true_up, true_up_fee_amounts
from usagebill.core.subscriptions import Subscription


def charge_item(charge: Charge, metric: BillableMetric, filter_name: str | None = None) -> FeeItem:
    """The item of a usage fee."""
    return FeeItem(
        type=FeeType.CHARGE,
        item_type="BillableMetric",
        id=metric.id,
        code=metric.code,
        name=metric.name,
        description=metric.description,
        invoice_display_name=charge.invoice_display_name or metric.name,
        filter_invoice_display_name=filter_name,
    )


def pricing_unit_object(charge: Charge, amounts: FeeAmounts) -> dict[str, object] | None:
    """The amounts of a fee in its charge's pricing unit, as the fee shows them; None without a pricing unit."""
    unit, priced = charge.applied_pricing_unit, amounts.pricing_unit
    if unit is None or priced is None:
        return None
    return {
        "svc_pricing_unit_id": unit.pricing_unit_id,
        "pricing_unit_code": unit.code,
        "short_name": unit.short_name,
        "amount_cents": priced.amount_cents,
        "precise_amount_cents": decimal_text(priced.precise_amount_cents),
        "unit_amount_cents": priced.unit_amount_cents,
        "precise_unit_amount": decimal_text(priced.precise_unit_amount),
        "conversion_rate": decimal_text(priced.conversion_rate),
    }


class UsageBilled(Protocol):
    """The subscription, plan and window of the usage to bill."""

    @property
    def subscription(self) -> Subscription: ...
    @property
    def definition(self) -> PlanDefinition: ...
    @property
    def window(self) -> Window: ...


class PricedUsage(Protocol):
    """The priced usage of one part and group of a charge."""

    @property
    def charge(self) -> Charge: ...
    @property
    def metric(self) -> BillableMetric: ...
    @property
    def part(self) -> ChargePart: ...
    @property
    def amounts(self) -> FeeAmounts: ...
    @property
    def grouped_by(self) -> Mapping[str, str | None]: ...


def charge_line(usage: UsageBilled, priced: PricedUsage, invoice: Invoice | None, *, id: str, now: datetime) -> Fee:
    """The fee of priced usage: everything that is the same in arrears and in advance, with or without an invoice."""
    charge, amounts, part, window = priced.charge, priced.amounts, priced.part, usage.window
    line = new_fee(
        id=id,
        invoice=invoice,
        subscription=usage.subscription,
        item=charge_item(charge, priced.metric, part.display_name),
        amount_cents=amounts.amount_cents,
        precise_amount_cents=amounts.precise_amount_cents,
        units=amounts.units,
        currency=usage.definition.plan.amount_currency,
        now=now,
    )
    return replace(
        line,
        charge_id=charge.id,
        charge_filter_id=part.filter.id if part.filter else None,
        billable_metric_id=priced.metric.id,
        total_aggregated_units=amounts.total_aggregated_units,
        unit_amount_cents=amounts.unit_amount_cents,
        precise_unit_amount=amounts.precise_unit_amount,
        events_count=amounts.events_count,
        invoiceable=charge.invoiceable,
        from_datetime=window.start,
        to_datetime=window.end,
        charges_from_datetime=window.start,
        charges_to_datetime=window.end,
        filters=part.filter.values if part.filter else None,
        grouped_by=priced.grouped_by,
        pricing_unit_details=pricing_unit_object(charge, amounts),
    )


def with_true_up(lines: Sequence[Fee], added: Fee | None) -> list[Fee]:
    """The lines of a charge as its invoice lists them: without empty ones, and with the true-up `added` last.

    The line that `added` refers to stays even if it is empty.
    """
    parent_id = None if added is None else added.true_up_parent_fee_id
    kept = [
        replace(line, true_up_fee_id=added.id) if added is not None and line.id == parent_id else line
        for line in lines
        if line.id == parent_id or not _is_empty(line)
    ]
    return kept if added is None else [*kept, added]


def _is_empty(line: Fee) -> bool:
    return line.units.is_zero() and line.amount_cents == 0 and not line.events_count


def true_up_fee(charge: Charge, window: Window, fees: Sequence[Fee], *, id: str) -> Fee | None:
    """The fee that brings the charge up to its minimum for the days of `window`; it refers to the first fee without a
    filter.

    `fees` are all other fees of the charge. None if they reach the minimum or there is no minimum.
    """
    if charge.min_amount_cents <= 0:
        return None
    used = [_own_amount(charge, fee) for fee in fees]
    used_cents = sum(cents for cents, _ in used)
    missing = true_up(
        charge.min_amount_cents,
        window.days,
        window.period_days,
        used_cents,
        total(precise for _, precise in used),
    )
    if missing is None:
        return None
    parent = next(fee for fee in fees if fee.charge_filter_id is None)
    unit = charge.applied_pricing_unit
    amounts = true_up_fee_amounts(
        missing, parent.currency, conversion_rate=None if unit is None else unit.conversion_rate
    )
    return replace(
        parent,
        id=id,
        true_up_parent_fee_id=parent.id,
        amount_cents=amounts.amount_cents,
        precise_amount_cents=amounts.precise_amount_cents,
        units=amounts.units,
        total_aggregated_units=amounts.total_aggregated_units,
        unit_amount_cents=amounts.unit_amount_cents,
        precise_unit_amount=amounts.precise_unit_amount,
        events_count=amounts.events_count,
        grouped_by={},
        amount_details={},
        basis={
            "minimum_cents": charge.min_amount_cents,
            "days": window.days,
            "period_days": window.period_days,
            "used_cents": used_cents,
        },
        pricing_unit_details=pricing_unit_object(charge, amounts),
        presentation_breakdowns=(),
    )


def _own_amount(charge: Charge, fee: Fee) -> tuple[int, Decimal]:
    """The amount of a fee, rounded and precise: in hundredths of its charge's pricing unit if it has one, else in
    cents.
    """
    unit, details = charge.applied_pricing_unit, fee.pricing_unit_details
    if unit is None:
        return fee.amount_cents, fee.precise_amount_cents
    if details is not None:
        return int(str(details["amount_cents"])), Decimal(str(details["precise_amount_cents"]))
    # A price set by hand is in the currency.
    major = divide(major_from_cents(fee.precise_amount_cents, fee.currency), unit.conversion_rate)
    precise = multiply(major, Decimal(PRICING_UNIT_SUBUNITS))
    return round_cents(precise), precise


def billed_by_next_plan(
    charge: Charge, metric: BillableMetric, window: Window, next_plan: PlanDefinition | None
) -> bool:
    """Whether the next plan bills usage that is carried over whole, because it charges for the same metric after an
    upgrade.

    A weighted sum is not carried over: its time before the upgrade is billed by the old plan.
    """
    if not window.ended_by_upgrade or not metric.recurring or charge.prorated or next_plan is None:
        return False
    if AGGREGATIONS[metric.aggregation_type].accumulation is Accumulation.LEVEL:
        return False
    return any(next_charge.billable_metric_id == metric.id for next_charge in next_plan.charges)
