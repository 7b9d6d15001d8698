"""Comparing price lists: a past period of a subscription, priced by any plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal

from usagebill.core.aggregation import Window
from usagebill.core.contracts import Contract
from usagebill.core.currencies import subunits
from usagebill.core.days import days_billed
from usagebill.core.invoice_triggers import Trigger
from usagebill.core.numbers import ONE, ZERO, divide, multiply, round_cents
from usagebill.core.periods.calendar import day_end, day_start
from usagebill.core.plans import FixedCharge, PlanDefinition
from usagebill.core.price_comparisons import ComparedSubscription, LineKind, PricedLine, compared_lines, interval_days
from usagebill.core.pricing import parse_properties
from usagebill.core.pricing.fixed_charges import fixed_charge_amounts
from usagebill.rating.fees.charges import UsageToBill, rated_usage
from usagebill.rating.invoice import opened
from usagebill.runtime.work import Reader


def compared(
    reader: Reader, contract: Contract, old: PlanDefinition, new: PlanDefinition, start: date, end: date
) -> ComparedSubscription | None:
    """The subscription from `start` to `end` (local dates, both included) under both plans, as `priced` prices them.

    None if it was not active then.
    """
    subscription = contract.subscription
    if subscription.started_at is None:
        return None
    first, last = day_start(start, contract.zone), day_end(end, contract.zone)
    begin = max(first, subscription.started_at)
    finish = last if subscription.terminated_at is None else min(last, subscription.terminated_at)
    if begin > finish:
        return None
    before = priced(reader, contract, old, start, begin, finish)
    return ComparedSubscription(
        external_customer_id=contract.customer.external_id,
        external_subscription_id=subscription.external_id,
        start=begin.astimezone(contract.zone).date(),
        end=finish.astimezone(contract.zone).date(),
        currency=old.plan.amount_currency,
        overridden=old.plan.parent_id is not None,
        ending_at=subscription.ending_at,
        lines=compared_lines(before, before if new == old else priced(reader, contract, new, start, begin, finish)),
    )


def priced(
    reader: Reader, contract: Contract, definition: PlanDefinition, start: date, begin: datetime, finish: datetime
) -> list[PricedLine]:
    """The plan's charges for `begin` to `finish` (instants, both included) of a period that starts on `start`.

    Its fee, fixed charges and minimums are prorated by days of the plan's interval. All usage is priced as one period
    in arrears, including charges paid in advance. Trials, taxes, coupons and credits are left out.
    """
    plan, subscription = definition.plan, contract.subscription
    days, whole = days_billed(begin, finish, contract.zone), interval_days(start, plan.interval)
    share = divide(Decimal(days), Decimal(whole))
    lines = [
        PricedLine(
            kind=LineKind.PLAN,
            code="",
            units=ONE,
            amount_cents=round_cents(multiply(Decimal(plan.amount_cents), share)),
        )
    ]
    in_arrears = replace(
        definition,
        charges=tuple(replace(charge, pay_in_advance=False, invoiceable=True) for charge in definition.charges),
    )
    usage = UsageToBill(
        invoice=replace(opened(reader, contract, at=reader.now, trigger=Trigger.EVENT), currency=plan.amount_currency),
        subscription=subscription,
        definition=in_arrears,
        window=Window(start=begin, end=finish, period_days=whole, tz=contract.zone),
    )
    metric_of = {charge.id: definition.metrics[charge.billable_metric_id].code for charge in definition.charges}
    lines += [
        PricedLine(
            kind=LineKind.CHARGE,
            code=metric_of[fee.charge_id or ""],
            units=ZERO if fee.true_up_parent_fee_id else fee.units,
            amount_cents=fee.amount_cents,
        )
        for fee in rated_usage(reader, usage)
    ]
    for charge in definition.fixed_charges:
        units = subscription.fixed_charge_units.get(charge.id, charge.units)
        lines.append(_fixed(charge, definition, units, share, is_whole=days == whole))
    commitment = plan.minimum_commitment
    if commitment is not None and commitment.amount_cents > 0:
        due = round_cents(multiply(Decimal(commitment.amount_cents), share))
        missing = max(0, due - sum(line.amount_cents for line in lines))
        lines.append(PricedLine(kind=LineKind.MINIMUM_COMMITMENT, code="", units=ONE, amount_cents=missing))
    return lines


def _fixed(
    charge: FixedCharge, definition: PlanDefinition, units: Decimal, share: Decimal, *, is_whole: bool
) -> PricedLine:
    currency = definition.plan.amount_currency
    properties = parse_properties(charge.charge_model, charge.properties, subunits=subunits(currency))
    amounts = fixed_charge_amounts(
        charge.charge_model,
        properties,
        currency,
        units=units if is_whole or not charge.prorated else multiply(units, share),
        full_units=units if charge.prorated and not is_whole else None,
    )
    return PricedLine(
        kind=LineKind.FIXED_CHARGE,
        code=definition.add_ons[charge.add_on_id].code,
        units=units,
        amount_cents=amounts.amount_cents,
    )
