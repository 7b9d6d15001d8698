"""Explaining an invoice: the events behind each line, the arithmetic, the discounts and the taxes, up to the total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from itertools import islice

from usagebill.core.aggregation import AggregateResult, usage
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_parts import ChargePart, parsed_properties
from usagebill.core.coupons import AppliedCoupon, Coupon, Targets, targets_of
from usagebill.core.currencies import cents_from_major, subunits
from usagebill.core.events import Event
from usagebill.core.fees import Fee
from usagebill.core.grouping import Group, grouped
from usagebill.core.invoices.counting import counting, pricing, summary
from usagebill.core.invoices.explained import ExplainedFee, ExplainedInvoice, ExplainedPrepayment, ExplainedUsage
from usagebill.core.invoices.explanation import Discount, arithmetic, discounts, fee_taxes, invoice_steps
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.numbers import ZERO, decimal_text, parse_decimal, subtract
from usagebill.core.periods import Window, usage_windows
from usagebill.core.plans import Charge
from usagebill.core.prepaid import fee_fundings
from usagebill.core.pricing import parse_properties, price
from usagebill.core.pricing.fees import fee_amounts
from usagebill.core.pricing.fixed_charges import fixed_charge_usage
from usagebill.core.pricing.percentage import PercentageProperties
from usagebill.core.removed_events import RemovedEvents
from usagebill.core.usage import Usage
from usagebill.core.wallet_transactions import WalletTransaction
from usagebill.core.wallets import Wallet
from usagebill.queries.billing_periods import billing_context
from usagebill.queries.counted_usage import counted_by
from usagebill.queries.fees import charge_billed, fixed_charge_billed
from usagebill.queries.invoices import visible_invoice
from usagebill.queries.removed_events import removed_of
from usagebill.queries.wallets import draws_of, transactions_paying, wallet_of
from usagebill.rating.charge_scope import ChargeScope, usage_window
from usagebill.rating.fee_events import events_paid_in_advance, part_of, question_of
from usagebill.rating.settlement import coupon_plans, plans_of
from usagebill.rating.usage import initial_level_of, part_usages
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq

# The most events shown per line, earliest first; `fee_events` pages through all of them.
MOST_EVENTS = 100
# Above this many events, the arithmetic of a line shows their aggregate instead of each one.
MOST_COUNTED = 10_000
# The most events read for all groups of a charge together, earliest first.
MOST_GROUPED = 50_000
# Stored amounts have 15 decimals.
_SLACK = Decimal("0.000001")


def explain(reader: Reader, invoice_id: str) -> ExplainedInvoice:
    """An explanation of each line of the invoice and of its total. Raises `NotFound`.

    Amounts, discounts and taxes are the stored ones; charges and metrics are as they stood in the price version of each
    line. Events are looked up again: those of the line's
    period, filter and group that had been received when the line was computed.
    """
    invoice = visible_invoice(reader, invoice_id)
    fees = reader.tx.find(Fee, eq("invoice_id", invoice.id), order=[asc("created_at")])
    plans = coupon_plans(plans_of(reader, fees))
    discounts_by_fee = discounts(invoice, fees, _targets(reader, invoice), plans)
    paying = [(wallet_of(reader, transaction), transaction) for transaction in transactions_paying(reader, invoice.id)]
    prepaid = _prepaid(reader, paying)
    return ExplainedInvoice(
        invoice=invoice,
        fees=tuple(
            replace(
                _explained(reader.as_of(fee.price_version), invoice, fee, discounts_by_fee[fee.id]),
                prepaid=tuple(prepaid.get(fee.id, ())),
            )
            for fee in fees
        ),
        steps=invoice_steps(invoice, fees, [(wallet.code, transaction.amount_cents) for wallet, transaction in paying]),
    )


def _prepaid(
    reader: Reader, paying: Sequence[tuple[Wallet, WalletTransaction]]
) -> Mapping[str, Sequence[ExplainedPrepayment]]:
    """The wallet payments for each fee, with the grants that they were drawn from."""
    parts: dict[str, list[ExplainedPrepayment]] = {}
    for wallet, transaction in paying:
        draws = draws_of(reader, transaction)
        inbound = {draw.inbound.id: draw.inbound for draw in draws}
        for funding in fee_fundings(transaction.paid_fees, draws):
            parts.setdefault(funding.fee_id, []).append(
                ExplainedPrepayment(
                    wallet=wallet,
                    outbound=transaction,
                    inbound=inbound[funding.inbound_id],
                    amount_cents=funding.amount_cents,
                )
            )
    return parts


def _explained(reader: Reader, invoice: Invoice, fee: Fee, fee_discounts: tuple[Discount, ...]) -> ExplainedFee:
    usage, priced = _usage(reader, invoice, fee)
    return ExplainedFee(
        fee=fee,
        usage=usage,
        arithmetic=arithmetic(fee, priced or _fixed_charge_priced(reader, fee)),
        discounts=fee_discounts,
        taxes=fee_taxes(fee),
    )


def _targets(reader: Reader, invoice: Invoice) -> Mapping[str, Targets]:
    targets = {}
    for credit in invoice.credits:
        applied = reader.tx.get(AppliedCoupon, credit.source_id or "")
        coupon = None if applied is None else reader.tx.get(Coupon, applied.coupon_id, deleted=True)
        if applied is not None and coupon is not None:
            targets[applied.id] = targets_of(coupon)
    return targets


def _usage(reader: Reader, invoice: Invoice, fee: Fee) -> tuple[ExplainedUsage | None, tuple[str, ...]]:
    """The events of a usage fee, how they were counted and how that was priced.

    None for other fees and for true-ups. Steps that no longer lead to the fee are left out: its charge or metric had
    changed before price versions were kept.
    """
    if fee.charge_id is None or fee.billable_metric_id is None or fee.true_up_parent_fee_id is not None:
        return None, ()
    charge = charge_billed(reader, fee)
    metric = reader.tx.get(BillableMetric, fee.billable_metric_id, deleted=True)
    if charge is None or metric is None:
        return None, ()
    if (gone := removed_of(reader, fee)) is not None:
        return ExplainedUsage(charge=charge, metric=metric, events=(), complete=False, counting=_removed(*gone)), ()
    part = part_of(fee, charge, metric)
    fee_events, complete = _events(reader, fee, metric)
    counted: tuple[str, ...] = ()
    priced: tuple[str, ...] = ()
    if part is not None and fee.event_transaction_id is None:
        listed = fee_events if complete and len(fee_events) <= MOST_COUNTED else None
        counted, priced = _recomputed(reader, invoice, fee, charge, metric, part, listed)
    usage = ExplainedUsage(
        charge=charge,
        metric=metric,
        events=tuple(fee_events[:MOST_EVENTS]),
        complete=complete and len(fee_events) <= MOST_EVENTS,
        counting=counted,
    )
    return usage, priced


def _removed(at: datetime, series: RemovedEvents) -> tuple[str, ...]:
    """What is said in place of the events of a line that are no longer there."""
    summed = "" if series.field_name is None else f" with {series.field_name} {decimal_text(series.total)} in all"
    return (
        f"its events were removed on {at.date()}, when it was what they came to: of the period"
        f" {series.events_count} events{summed}, digest {series.digest or 'none'}",
    )


def _recomputed(
    reader: Reader,
    invoice: Invoice,
    fee: Fee,
    charge: Charge,
    metric: BillableMetric,
    part: ChargePart,
    events: list[Event] | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The steps that count and price the events; none if the result differs from the fee.

    `events` is None if there are too many: they are then aggregated as in billing, and summarized.
    """
    period = reader.tx.first(
        BillingPeriod, eq("invoice_id", invoice.id), eq("subscription_id", fee.subscription_id), order=[asc("id")]
    )
    start, end = fee.charges_from_datetime, fee.charges_to_datetime
    if period is None or start is None or end is None or period.charges_duration is None:
        return (), ()
    context = billing_context(reader, invoice, period)
    windows = {counted.start: counted for counted in usage_windows(context.cycle, context.boundaries)}
    span = replace(windows.get(start, Window(start=start, end=end, duration=period.charges_duration)), end=end)
    window = usage_window(span, context.cycle.tz, context.subscription, ends=context.ended)
    known_at = counted_by(reader, period, invoice).known_at
    scope = ChargeScope(subscription=context.subscription, currency=fee.currency, window=window, known_at=known_at)
    properties = parsed_properties(charge, part, fee.currency)
    # Renewals of charges in advance are never prorated.
    is_prorated = charge.prorated and not charge.pay_in_advance
    if events is None:
        rated = replace(charge, prorated=is_prorated)
        key = ("counted", charge.id, fee.charge_filter_id, scope.window, known_at)
        usages = reader.cached(key, lambda: part_usages(reader, rated, metric, part, scope))
        tally, recomputed = usages.get(tuple(fee.grouped_by.values()), (AggregateResult(), Usage(units=ZERO)))
        counted = summary(metric, tally, recomputed)
    else:
        level = initial_level_of(reader, charge, part, metric, scope, fee.grouped_by)
        terms = properties if isinstance(properties, PercentageProperties) else None
        recomputed = usage(
            metric,
            events,
            window,
            is_prorated=is_prorated,
            initial_level=level,
            free_events=None if terms is None else terms.free_events,
            free_units=None if terms is None else terms.free_total,
            with_event_values=terms is not None and terms.is_bounded,
        )
        counted = counting(metric, events, window, is_prorated=is_prorated, initial_level=level)
    unit = charge.applied_pricing_unit
    amounts = fee_amounts(
        price(charge.charge_model, properties, recomputed),
        recomputed,
        fee.currency,
        conversion_rate=None if unit is None else unit.conversion_rate,
    )
    if amounts.units != fee.units:
        return (), ()
    if amounts.precise_amount_cents != fee.precise_amount_cents:
        return counted, ()
    return counted, pricing(properties, recomputed, events)


def _fixed_charge_priced(reader: Reader, fee: Fee) -> tuple[str, ...]:
    """The steps that price the prorated units of a fixed charge; none if its price has changed since."""
    units = parse_decimal(str(fee.basis.get("prorated_units", "")))
    charge = fixed_charge_billed(reader, fee)
    if charge is None or units is None:
        return ()
    properties = parse_properties(charge.charge_model, charge.properties, subunits=subunits(fee.currency))
    charge_usage = fixed_charge_usage(charge.charge_model, units=units, full_units=fee.units)
    cents = cents_from_major(price(charge.charge_model, properties, charge_usage).amount, fee.currency)
    full_cents = Decimal(str(fee.basis.get("full_cents", fee.precise_amount_cents)))
    if subtract(cents, full_cents).copy_abs() > _SLACK:
        return ()
    return pricing(properties, charge_usage)


def _events(reader: Reader, fee: Fee, metric: BillableMetric) -> tuple[list[Event], bool]:
    """The events of a line by timestamp, and whether these are all of them; the groups of a charge share one read."""
    if fee.event_transaction_id is not None:
        return events_paid_in_advance(reader, fee), True
    question = question_of(reader, fee, metric)
    if question is None:
        return [], True
    keys = tuple(fee.grouped_by)

    def look() -> tuple[dict[Group, list[Event]], bool]:
        most = MOST_GROUPED if keys else MOST_COUNTED
        events = list(islice(reader.tx.events.scan(question), most + 1))
        return grouped(events[:most], keys), len(events) <= most

    span = (fee.external_subscription_id, fee.charges_from_datetime, fee.charges_to_datetime)
    groups, complete = reader.cached(("explained", fee.charge_id, fee.charge_filter_id, keys, span), look)
    return groups.get(tuple(fee.grouped_by.values()), []), complete
