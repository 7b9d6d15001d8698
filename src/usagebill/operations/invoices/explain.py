"""Explaining an invoice: the events behind each line, the arithmetic, the discounts and the taxes, up to the total."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from usagebill.core.aggregation import lower_bound
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.coupons import AppliedCoupon, Coupon, Targets
from usagebill.core.events import Event
from usagebill.core.fees import Fee
from usagebill.core.invoices.explained import ExplainedFee, ExplainedInvoice, ExplainedUsage
from usagebill.core.invoices.explanation import arithmetic, discounts, fee_taxes, invoice_steps
from usagebill.core.invoices.records import Invoice
from usagebill.core.plans import Charge
from usagebill.operations.invoices.listing import get
from usagebill.operations.invoices.totals import plans_of, targets_of
from usagebill.operations.usage.charges import charge_parts
from usagebill.storage.conditions import asc, eq
from usagebill.storage.questions import EventQuestion
from usagebill.work import Work

__all__ = ["MOST_EVENTS", "explain"]

# An explanation of a line shows so many of its events, the earliest ones.
MOST_EVENTS = 100


def explain(work: Work, invoice_id: str) -> ExplainedInvoice:
    """How each line of the invoice and its total came about. Raises `NotFound`.

    Amounts, discounts and taxes are those that the invoice keeps. Events are looked up again: those of the line's
    period, filter and group that had been received when the line was computed.
    """
    invoice = get(work, invoice_id)
    fees = work.tx.find(Fee, eq("invoice_id", invoice.id), order=[asc("created_at")])
    taken = discounts(invoice, fees, _targets(work, invoice), plans_of(work, fees), _billed_before(work, invoice, fees))
    return ExplainedInvoice(
        invoice=invoice,
        fees=tuple(
            ExplainedFee(
                fee=fee,
                usage=_usage(work, invoice, fee),
                arithmetic=arithmetic(fee),
                discounts=taken[fee.id],
                taxes=fee_taxes(fee),
            )
            for fee in fees
        ),
        steps=invoice_steps(invoice, fees),
    )


def _targets(work: Work, invoice: Invoice) -> Mapping[str, Targets]:
    found = {}
    for credit in invoice.credits:
        applied = work.tx.get(AppliedCoupon, credit.source_id or "")
        coupon = None if applied is None else work.tx.get(Coupon, applied.coupon_id, deleted=True)
        if applied is not None and coupon is not None:
            found[applied.id] = targets_of(coupon)
    return found


def _billed_before(work: Work, invoice: Invoice, fees: Sequence[Fee]) -> Mapping[str, Mapping[str, int]]:
    """What each progressive billing invoice had billed of the same charge, filter and group, by fee here."""
    found = {}
    for credit in invoice.credits:
        if credit.item_type != "invoice" or credit.source_id is None:
            continue
        before = {_same(fee): fee.amount_cents for fee in work.tx.find(Fee, eq("invoice_id", credit.source_id))}
        found[credit.source_id] = {
            fee.id: before[_same(fee)]
            for fee in fees
            if fee.true_up_parent_fee_id is None
            and fee.subscription_id == credit.subscription_id
            and _same(fee) in before
        }
    return found


def _same(fee: Fee) -> tuple[object, ...]:
    return fee.charge_id, fee.charge_filter_id, tuple(sorted(fee.grouped_by.items()))


def _usage(work: Work, invoice: Invoice, fee: Fee) -> ExplainedUsage | None:
    """The events of a usage fee, and what of them was counted; None for other fees and for true-ups."""
    if fee.charge_id is None or fee.billable_metric_id is None or fee.true_up_parent_fee_id is not None:
        return None
    charge = work.tx.get(Charge, fee.charge_id, deleted=True)
    metric = work.tx.get(BillableMetric, fee.billable_metric_id, deleted=True)
    if charge is None or metric is None:
        return None
    known_at = invoice.finalized_at or work.now
    found = list(islice(_events(work, fee, charge, metric, known_at), MOST_EVENTS + 1))
    return ExplainedUsage(
        charge=charge,
        metric=metric,
        events=tuple(found[:MOST_EVENTS]),
        complete=len(found) <= MOST_EVENTS,
    )


def _events(work: Work, fee: Fee, charge: Charge, metric: BillableMetric, known_at: datetime) -> Iterable[Event]:
    external_id = fee.external_subscription_id
    if external_id is None:
        return []
    if fee.event_transaction_id is not None:
        return work.tx.events.named(external_id, [fee.event_transaction_id])
    if fee.charges_from_datetime is None:
        return []
    part = next(
        (
            one
            for one in charge_parts(charge, metric)
            if (one.filter.id if one.filter else None) == fee.charge_filter_id
        ),
        None,
    )
    question = EventQuestion(
        code=metric.code,
        external_subscription_id=external_id,
        earliest=lower_bound(metric.aggregation_type, recurring=metric.recurring, start=fee.charges_from_datetime),
        latest=fee.charges_to_datetime,
        only={key: (value,) for key, value in fee.grouped_by.items()},
    )
    if part is not None:
        question = replace(question, bucket=part.bucket)
    return (event for event in work.tx.events.scan(question) if event.created_at <= known_at)
