"""What older plans were paid in advance: after an upgrade, it pays for those days on the new plan."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from decimal import Decimal

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_parts import charge_parts
from usagebill.core.contracts import Contract
from usagebill.core.credit_notes import CreditNote
from usagebill.core.days import days_billed
from usagebill.core.fees import Fee, FeeType
from usagebill.core.filters import EventScope, accepts_values
from usagebill.core.fixed_charges import days_paid_and_left
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.life_cycle import BILLED_AND_KEPT
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.numbers import ONE, ZERO, divide, multiply, total
from usagebill.core.paid_before import (
    PaidInAdvance,
    UnitsPaid,
    less_days_paid,
    less_paid_before,
    paid_before_cents,
    share_held,
    unit_days_paid,
    whole_units,
)
from usagebill.core.periods import Succession, Window
from usagebill.core.plans import Charge, PlanDefinition
from usagebill.core.pricing.standard import STANDARD
from usagebill.core.subscriptions import Subscription, begins_at
from usagebill.core.unused_time import carried_amount
from usagebill.queries.billing_periods import BillingContext
from usagebill.queries.fees import fees_before
from usagebill.queries.plans import plan_definition
from usagebill.queries.subscriptions import upgraded_from
from usagebill.rating.charge_scope import ChargeScope, usage_window
from usagebill.rating.usage import charge_results
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, any_of, asc, at_least, at_most, eq, missing, related, within


def less_what_older_plans_were_paid(reader: Reader, context: BillingContext, fee: Fee, earlier: Sequence[Fee]) -> Fee:
    """After an upgrade, deduct what older plans were paid in advance for the same add-on and days from the new plan's
    fee of a fixed charge, whether that is in advance or in arrears.

    Each day is deducted once: `earlier` are the fees of the invoice before this one.
    """
    if context.subscription.origin != Succession.UPGRADE:
        return fee
    paid = _paid_by_older_plans(reader, context, fee)
    return less_paid_before(fee, paid, [*_fees_of_these_days(reader, context, fee), *earlier]) if paid else fee


def less_days_of_older_plans(
    reader: Reader, context: BillingContext, charge: Charge, lines: Sequence[Fee]
) -> list[Fee]:
    """After an upgrade, the new plan's fees in advance for a recurring metric without the days that older plans were
    paid for; a fee without any day left is left out.
    """
    first, last = (lines[0].from_datetime, lines[0].to_datetime) if lines else (None, None)
    if first is None or last is None or context.subscription.origin != Succession.UPGRADE:
        return list(lines)
    tz, upgraded = context.cycle.tz, context.ended_by_upgrade
    paid = _paid_for_units(reader, context.subscription, lines[0], first, tz, until=last, upgraded=upgraded)
    if not paid:
        return list(lines)
    carried = _Carried(reader, context.subscription, charge, paid, tz)
    left: list[Fee] = []
    for line in lines:
        share, payments = carried.share_paid(line, days_billed(first, last, tz)), carried.payments(line)
        if share < ONE or not payments:
            left.append(less_days_paid(line, share, payments) if share else line)
    return left


def share_paid_before(reader: Reader, subscription: Subscription, fee: Fee, tz: tzinfo) -> Decimal:
    """The share of a fee in advance of `subscription` for recurring usage, from now on, that older plans were paid for:
    these days of its units are left out of it.
    """
    last, charge = fee.to_datetime, _charge_of(reader, fee)
    if last is None or charge is None or not paid_before_cents(fee):
        return ZERO
    paid = _paid_for_units(reader, subscription, fee, reader.now, tz, until=last)
    return _Carried(reader, subscription, charge, paid, tz).share_paid(fee, days_billed(reader.now, last, tz))


def fees_in_advance(reader: Reader, subscription: Subscription, of_item: Condition, *, since: datetime) -> list[Fee]:
    """The fees in advance of the subscription for an item that pay for days from `since` on, oldest first."""
    fees = reader.tx.find(
        Fee,
        eq("subscription_id", subscription.id),
        of_item,
        at_least("to_datetime", since),
        at_most("created_at", reader.known_at),
        any_of(missing("invoice_id"), related(Invoice, "invoice_id", within("status", BILLED_AND_KEPT))),
        order=[asc("created_at"), asc("id")],
    )
    return [fee for fee in fees if _is_in_advance(reader, fee)]


def paid_from(reader: Reader, fee: Fee) -> datetime:
    """The first day that a fee in advance pays for: that of its period, or if its price is for the days left, that on
    which it was billed.
    """
    first = fee.from_datetime or fee.created_at
    charge = _charge_of(reader, fee)
    if charge is not None and not charge.prorated:
        return first
    if fee.invoice_id is not None:
        period = reader.tx.first(
            BillingPeriod, eq("invoice_id", fee.invoice_id), eq("subscription_id", fee.subscription_id)
        )
        return max(first, fee.created_at if period is None else period.timestamp)
    if fee.event_transaction_id is None:
        return first
    named = reader.tx.events.named(fee.external_subscription_id or "", [fee.event_transaction_id])
    return max([first, *(event.timestamp for event in named if event.code == fee.item.code)])


def _paid_by_older_plans(reader: Reader, context: BillingContext, fee: Fee) -> list[PaidInAdvance]:
    """The payments in advance for the fee's add-on, by subscriptions that upgrades ended, for days of the fee's period.

    A day was paid by the last plan that billed it in advance; what that plan deducted counts as paid.
    """
    unpaid_from, last = fee.from_datetime, fee.to_datetime
    if unpaid_from is None or last is None:
        return []
    payments: list[PaidInAdvance] = []
    for older in upgraded_from(reader, context.subscription):
        if unpaid_from > last:
            break
        since = unpaid_from
        for old in fees_in_advance(reader, older, eq("add_on_id", fee.add_on_id), since=since):
            if old.invoice_id == fee.invoice_id or old.currency != fee.currency:
                continue
            payment = payment_for(reader, old, since, context.cycle.tz, until=last, upgraded=context.ended_by_upgrade)
            if payment.cents <= 0:
                continue
            if payment.days_left:
                payments.append(payment)
            unpaid_from = max(unpaid_from, (old.to_datetime or last) + MICROSECOND)
    return payments


def payment_for(
    reader: Reader, fee: Fee, since: datetime, tz: tzinfo, *, until: datetime | None = None, upgraded: bool = False
) -> PaidInAdvance:
    """The fee in advance as a payment for its days from `since` on, up to `until` if that is earlier. `upgraded`: an
    upgrade ends them there.
    """
    last = fee.to_datetime or since
    window = Window(start=since, end=until or last, duration=0)
    days, left = days_paid_and_left(paid_from(reader, fee), last, window, tz, upgraded=upgraded)
    return PaidInAdvance(
        cents=fee.amount_cents + paid_before_cents(fee),
        days=days,
        days_left=left,
        given_back=_given_back(reader, fee) if left else ZERO,
    )


_PaidFee = tuple[Fee, PaidInAdvance]


def _paid_for_units(
    reader: Reader,
    subscription: Subscription,
    fee: Fee,
    since: datetime,
    tz: tzinfo,
    *,
    until: datetime,
    upgraded: bool = False,
) -> list[list[_PaidFee]]:
    """What each plan before `subscription` was paid in advance for the metric of `fee`, the latest first; empty if that
    is for no day. What cost nothing was not paid.
    """
    of_metric = eq("billable_metric_id", fee.billable_metric_id)
    plans: list[list[_PaidFee]] = []
    for older in upgraded_from(reader, subscription):
        plan = [
            (paid, payment_for(reader, paid, since, tz, until=until, upgraded=upgraded))
            for paid in fees_in_advance(reader, older, of_metric, since=since)
        ]
        priced = {_place(paid) for paid, payment in plan if payment.cents > 0}
        plans.append([(paid, payment) for paid, payment in plan if _place(paid) in priced])
    return plans if any(payment.days_left for plan in plans for _, payment in plan) else []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """Units that all charges of a metric treat alike: `values` are those of the properties by which any of them has
    filters or groups.
    """

    values: Mapping[str, str | None]
    units: Decimal


_Places = Sequence[tuple[EventScope, Mapping[str, str | None]]]


class _Units:
    """The units of a recurring metric that are carried over an upgrade, told apart by what `fees` in advance were paid
    for and what the `charges` of the next plan price.
    """

    def __init__(
        self, reader: Reader, metric: BillableMetric, scope: ChargeScope, fees: Iterable[Fee], charges: Sequence[Charge]
    ) -> None:
        self._reader, self._metric, self._scope = reader, metric, scope
        self.fees = list(fees)
        self.older = {fee.charge_id: old for fee in self.fees if (old := _charge_of(reader, fee)) is not None}
        self._buckets = {_place(fee): _bucket_of(self.older.get(fee.charge_id), metric, fee) for fee in self.fees}
        keys = dict.fromkeys(
            key
            for charge in (*self.older.values(), *charges)
            for part in charge_parts(charge, metric)
            for key in (*part.filters.keys, *part.group_keys)
        )
        uncharged = next(iter((*charges, *self.older.values())))
        self.cells = [
            _Cell(values=result.grouped_by, units=result.amounts.units)
            for result in charge_results(reader, _by_values(uncharged, keys), metric, scope)
        ]

    def are_paid(self, cell: _Cell, fee: Fee) -> bool:
        """Whether the fee was paid for units of the cell."""
        return _is_in(cell, self._buckets[_place(fee)], fee.grouped_by)

    def of_line(self, charge: Charge, line: Fee) -> list[_Cell]:
        """The cells that a line of a charge prices."""
        bucket = _bucket_of(charge, self._metric, line)
        return [cell for cell in self.cells if _is_in(cell, bucket, line.grouped_by)]

    def priced_by(self, charges: Iterable[Charge]) -> list[_Places]:
        """The filters and groups in which each charge asks for money."""
        return [
            [
                (result.part.bucket, result.grouped_by)
                for result in charge_results(self._reader, replace(charge, prorated=False), self._metric, self._scope)
                if result.amounts.amount_cents > 0
            ]
            for charge in charges
        ]


class _Carried:
    """What a subscription took over at an upgrade, and which of its days older plans were `paid` for.

    What was paid for one filter or group pays for no other, and a day that is paid once pays for one charge: first for
    the one with the same code, then in the order of the plan.
    """

    def __init__(
        self,
        reader: Reader,
        subscription: Subscription,
        charge: Charge,
        paid: Sequence[Sequence[_PaidFee]],
        tz: tzinfo,
    ) -> None:
        definition = plan_definition(reader, subscription.plan_id)
        metric, begun = definition.metrics[charge.billable_metric_id], begins_at(subscription) or reader.now
        scope = ChargeScope(
            subscription=subscription,
            currency=definition.plan.amount_currency,
            window=usage_window(Window(start=begun, end=begun, duration=1), tz, subscription),
            known_at=reader.known_at,
            counted_until=begun - MICROSECOND,
        )
        self._charge, self._paid = charge, paid
        ours = _in_advance_for(definition, metric)
        self._units = units = _Units(reader, metric, scope, (fee for plan in paid for fee, _ in plan), [*ours, charge])
        ordered = _same_codes_first(ours, units.older.values())
        before = ordered[: ordered.index(charge)] if charge in ordered else []
        self._before = units.priced_by(before)
        gave_back = any(payment.given_back for plan in paid for _, payment in plan)
        self._ours = units.priced_by(ours) if gave_back else []

    def share_paid(self, line: Fee, days: int) -> Decimal:
        """The share of the units and of the `days` of a line that older plans were paid for."""
        billed = multiply(whole_units(line), Decimal(days))
        if billed <= ZERO:
            return ZERO
        return min(divide(total(map(self._unit_days_of, self._units.of_line(self._charge, line))), billed), ONE)

    def payments(self, line: Fee) -> list[PaidInAdvance]:
        """The payments for units of the line."""
        cells = self._units.of_line(self._charge, line)
        return [
            payment
            for plan in self._paid
            for fee, payment in plan
            if payment.days_left and any(self._units.are_paid(cell, fee) for cell in cells)
        ]

    def _unit_days_of(self, cell: _Cell) -> Decimal:
        taken = _times_priced(cell, self._before)
        plans = [
            [
                _units_paid(fee, payment, self._share_of(cell, fee, payment))
                for fee, payment in plan
                if self._units.are_paid(cell, fee)
            ]
            for plan in self._paid
        ]
        return unit_days_paid(plans, cell.units, taken=multiply(cell.units, Decimal(taken)))

    def _share_of(self, cell: _Cell, fee: Fee, payment: PaidInAdvance) -> Decimal:
        """The share of a cell in the units that are left of those of a fee. What was given back was for units that are
        not billed in advance again.
        """
        of_fee = [other for other in self._units.cells if self._units.are_paid(other, fee)]
        if payment.given_back:
            of_fee = [other for other in of_fee if _times_priced(other, self._ours)] or of_fee
        left = total(other.units for other in of_fee)
        return divide(cell.units, left) if left > ZERO and cell in of_fee else ZERO


def billed_again_in_arrears(reader: Reader, ended: Contract, following: Subscription) -> list[tuple[Fee, Decimal]]:
    """The fees on invoices that were paid in advance for recurring usage which `following`, after an upgrade, bills in
    arrears, each with its part for that: (fractions of) cents, whoever paid them.
    """
    definition = plan_definition(reader, ended.plan.id, ended.plan)
    recurring = (metric for metric in definition.metrics.values() if metric.recurring)
    paid_for = [metric for metric in recurring if _in_advance_for(definition, metric)]
    if not paid_for:
        return []
    next_plan, at = plan_definition(reader, following.plan_id), ended.subscription.terminated_at or reader.now
    reader = reader.at(at, known_at=reader.known_at)
    in_arrears = {one.billable_metric_id for one in next_plan.charges if one.invoiceable and not one.pay_in_advance}
    again: list[tuple[Fee, Decimal]] = []
    for metric in paid_for:
        if metric.id not in in_arrears:
            continue
        for paid in (ended.subscription, *upgraded_from(reader, ended.subscription)):
            fees = fees_in_advance(reader, paid, eq("billable_metric_id", metric.id), since=at)
            shares = _shares_billed_in_arrears(reader, ended, next_plan, metric, fees)
            # There are no credit notes over a fee without an invoice.
            for fee in (fee for fee in fees if fee.invoice_id is not None):
                charge, last = _charge_of(reader, fee), fee.to_datetime or at
                prorated = charge is None or charge.prorated
                amount = carried_amount(
                    fee,
                    days=days_billed(paid_from(reader, fee), last, ended.zone),
                    days_left=days_billed(at, last, ended.zone),
                    held=shares[fee.id],
                    prorated=prorated,
                    left_out=share_paid_before(reader, paid, fee, ended.zone) if prorated else ZERO,
                )
                again.append((fee, amount))
    return again


def _shares_billed_in_arrears(
    reader: Reader, ended: Contract, following: PlanDefinition, metric: BillableMetric, fees: Sequence[Fee]
) -> dict[str, Decimal]:
    """By id of each of the fees in advance for a recurring metric, the share of its units that are left and that the
    next plan does not bill in advance: a charge in advance deducts one payment.
    """
    if not fees:
        return {}
    scope = ChargeScope(
        subscription=ended.subscription,
        currency=ended.plan.amount_currency,
        window=usage_window(Window(start=reader.now, end=reader.now, duration=1), ended.zone, ended.subscription),
        known_at=reader.known_at,
        counted_until=reader.now,
    )
    ahead = _in_advance_for(following, metric)
    units = _Units(reader, metric, scope, fees, ahead)
    priced = units.priced_by(ahead)
    payers = _same_codes_first(list(units.older.values()), ahead)

    priced_places = {_place(fee) for fee in fees if fee.amount_cents + paid_before_cents(fee) > 0}
    paying = [fee for fee in fees if _place(fee) in priced_places]

    def is_left(cell: _Cell, fee: Fee) -> bool:
        of_cell = {paid.charge_id for paid in paying if units.are_paid(cell, paid)}
        left = [payer.id for payer in payers if payer.id in of_cell][_times_priced(cell, priced) :]
        return units.are_paid(cell, fee) and fee.charge_id in left

    return {
        fee.id: share_held(
            total(cell.units for cell in units.cells if is_left(cell, fee)),
            [paid for paid in fees if _place(paid) == _place(fee)],
        )
        for fee in fees
    }


def _in_advance_for(definition: PlanDefinition, metric: BillableMetric) -> list[Charge]:
    return [one for one in definition.charges if one.billable_metric_id == metric.id and one.pay_in_advance]


def _same_codes_first(charges: Sequence[Charge], others: Iterable[Charge]) -> list[Charge]:
    codes = {other.code for other in others}
    return sorted(charges, key=lambda charge: charge.code not in codes)


def _times_priced(cell: _Cell, charges: Sequence[_Places]) -> int:
    """How many of the charges ask for money for the cell."""
    return sum(any(_is_in(cell, *place) for place in places) for places in charges)


def _by_values(charge: Charge, keys: Iterable[str]) -> Charge:
    """A charge that counts by the values of these properties, at no price."""
    return replace(
        charge,
        charge_model=STANDARD.name,
        properties={"amount": "0", "pricing_group_keys": list(keys)},
        filters=(),
        prorated=False,
        accepts_target_wallet=False,
        applied_pricing_unit=None,
    )


def _is_in(cell: _Cell, bucket: EventScope, group: Mapping[str, str | None]) -> bool:
    return accepts_values(bucket, cell.values) and all(cell.values.get(key) == value for key, value in group.items())


def _bucket_of(charge: Charge | None, metric: BillableMetric, fee: Fee) -> EventScope:
    """The events that a fee of the charge prices; by the values on the fee if its filter is gone."""
    for part in () if charge is None else charge_parts(charge, metric):
        if fee.charge_filter_id == (part.filter.id if part.filter else None):
            return part.bucket
    return EventScope(matches=fee.filters or {})


def _place(fee: Fee) -> Hashable:
    """The charge, filter and group of a fee."""
    return fee.charge_id, fee.charge_filter_id, frozenset(fee.grouped_by.items())


def _units_paid(fee: Fee, payment: PaidInAdvance, share: Decimal) -> UnitsPaid:
    return UnitsPaid(
        units=multiply(multiply(whole_units(fee), payment.unused_share), share),
        days=payment.days_left,
        of_all=fee.event_transaction_id is None,
    )


def _given_back(reader: Reader, fee: Fee) -> Decimal:
    """The cents of the fee that credit notes have given back."""
    if fee.invoice_id is None:
        return ZERO
    notes = reader.tx.find(CreditNote, eq("invoice_id", fee.invoice_id), at_most("created_at", reader.known_at))
    return total(item.precise_amount_cents for note in notes for item in note.items if item.fee_id == fee.id)


def _charge_of(reader: Reader, fee: Fee) -> Charge | None:
    return reader.tx.get(Charge, fee.charge_id, deleted=True) if fee.charge_id else None


def _is_in_advance(reader: Reader, fee: Fee) -> bool:
    charge = _charge_of(reader, fee)
    return fee.pay_in_advance if charge is None else charge.pay_in_advance


def _fees_of_these_days(reader: Reader, context: BillingContext, fee: Fee) -> list[Fee]:
    """The subscription's fees for the same add-on on earlier invoices, for days of the fee's period."""
    return fees_before(
        reader,
        context,
        eq("fee_type", FeeType.FIXED_CHARGE),
        eq("add_on_id", fee.add_on_id),
        related(Invoice, "invoice_id", within("status", BILLED_AND_KEPT)),
    )
