"""Renewal fees: what recurring usage paid in advance comes to for the period that begins.

A recurring metric carries its quantity over. What joins it during a period is billed event by event; at each renewal
the whole quantity is billed for the next period, at its full price.
"""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.aggregation import Window
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.days import local_date
from usagebill.core.fees import Fee
from usagebill.core.periods import Succession, day_end, day_start
from usagebill.core.plans import Charge
from usagebill.core.taxes import taxed_fee
from usagebill.operations.invoices.billed import Billed
from usagebill.operations.invoices.totals import fee_taxes
from usagebill.operations.usage.charges import ChargeScope, charge_results
from usagebill.operations.usage.fees import UsageToBill, charge_fee
from usagebill.storage.conditions import eq, missing
from usagebill.views.fees import fee_view
from usagebill.views.subscriptions import customer_of
from usagebill.work import Work

__all__ = ["renew_without_invoice", "renewal_fees"]


def renewal_fees(work: Work, billed: Billed) -> list[Fee]:
    """The renewal fees that stand on the invoice; those of nothing are left out."""
    return [
        fee
        for charge, metric in _renewed(billed, invoiceable=True)
        for fee in _fees(work, billed, charge, metric)
        if fee.units or fee.amount_cents or fee.events_count
    ]


def renew_without_invoice(work: Work, billed: Billed) -> None:
    """Store the renewal fees of charges that are not invoiceable: at once, whether or not the invoice is a draft.

    They are kept even where nothing is carried over, and not made twice for one period.
    """
    customer = customer_of(work, billed.subscription)
    for charge, metric in _renewed(billed, invoiceable=False):
        for fee in _fees(work, billed, charge, metric):
            alone = replace(fee, invoice_id=None)
            if not _is_stored(work, alone):
                alone = taxed_fee(alone, fee_taxes(work, customer, alone), work.now, work.new_id)
                work.tx.insert(alone)
                work.emit("fee.created", lambda alone=alone: fee_view(work, alone), alone.id)  # type: ignore[misc]


def _renewed(billed: Billed, *, invoiceable: bool) -> list[tuple[Charge, BillableMetric]]:
    """The charges that are renewed with this billing period: none where it is the last, unless a downgrade follows."""
    window = billed.boundaries.charges
    if window is None or billed.invoice.skip_charges or window.start >= window.end:
        return []
    if billed.ended and billed.cycle.succession is not Succession.DOWNGRADE:
        return []
    metrics = billed.definition.metrics
    return [
        (charge, metrics[charge.billable_metric_id])
        for charge in billed.definition.charges
        if charge.pay_in_advance and charge.invoiceable is invoiceable and metrics[charge.billable_metric_id].recurring
    ]


def _fees(work: Work, billed: Billed, charge: Charge, metric: BillableMetric) -> list[Fee]:
    elapsed, subscription, tz = billed.boundaries.charges, billed.subscription, billed.cycle.tz
    if elapsed is None:
        return []
    window = Window(start=elapsed.start, end=elapsed.end, period_days=elapsed.duration, tz=tz)
    coming = billed.cycle.period(local_date(billed.boundaries.timestamp, tz), billed.cycle.charges_interval)
    scope = ChargeScope(
        subscription_id=subscription.id,
        external_subscription_id=subscription.external_id,
        currency=billed.plan.amount_currency,
        window=window,
        follows_another=subscription.previous_subscription_id is not None,
    )
    usage = UsageToBill(
        invoice_id=billed.invoice.id,
        subscription=subscription,
        definition=billed.definition,
        window=window,
        created_at=billed.invoice.created_at,
    )
    return [
        replace(
            charge_fee(work, usage, result),
            pay_in_advance=True,
            from_datetime=day_start(coming.start, tz),
            to_datetime=day_end(coming.end, tz),
        )
        for result in charge_results(work, replace(charge, prorated=False, pay_in_advance=False), metric, scope)
    ]


def _is_stored(work: Work, fee: Fee) -> bool:
    known = work.tx.find(
        Fee,
        eq("subscription_id", fee.subscription_id),
        eq("charge_id", fee.charge_id),
        eq("charges_from_datetime", fee.charges_from_datetime),
        eq("charges_to_datetime", fee.charges_to_datetime),
        missing("invoice_id"),
        missing("event_transaction_id"),
    )
    return any(
        each.charge_filter_id == fee.charge_filter_id and dict(each.grouped_by) == dict(fee.grouped_by)
        for each in known
    )
