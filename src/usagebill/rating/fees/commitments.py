"""The commitment fee: the shortfall of an interval's fees against its minimum commitment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from usagebill.core.commitments import (
    COMMITMENT_NAME,
    commitment_due,
    fee_counts,
    settlement,
    true_up,
    true_up_precise,
)
from usagebill.core.credit_notes import CREDITED, CreditNote, CreditNoteItem
from usagebill.core.currencies import major_from_cents
from usagebill.core.days import local_date
from usagebill.core.fees import COMMITTED_TYPES, Fee, FeeType
from usagebill.core.invoices.life_cycle import BILLED, IN_ARREARS, InvoiceStatus, InvoiceType
from usagebill.core.invoices.opening import new_fee
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.numbers import ONE, ZERO, add, round_cents, round_to, subtract, total
from usagebill.core.paid_before import deducted_next, paid_before_cents
from usagebill.core.periods import Succession, day_start
from usagebill.core.subscriptions import TerminationCredit
from usagebill.core.unused_time import plan_amount_of, unused_amount
from usagebill.queries.billing_periods import BillingContext, cycle_at_end, used_until
from usagebill.queries.contracts import contract_of
from usagebill.queries.fees import fees_before
from usagebill.queries.subscriptions import definition_for, successor_of
from usagebill.rating.fees.fixed_charges import price_of_days
from usagebill.rating.fees.paid_before import billed_again_in_arrears, payment_for
from usagebill.rating.fees.subscription import end_of_trial, subscription_item
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import at_most, desc, eq, has, ne, related, within


def commitment_fee(reader: Reader, context: BillingContext, fees: Sequence[Fee]) -> Fee | None:
    """The fee for the shortfall of `fees` (of this billing period) and earlier invoices; None if there is none."""
    commitment = context.plan.minimum_commitment
    if commitment is None or commitment.amount_cents <= 0 or not IN_ARREARS[context.period.invoicing_reason].commitment:
        return None
    settled = settlement(context.cycle, context.boundaries, last_fee_at=_last_fee_at(reader, context))
    if settled is None:
        return None
    due = commitment_due(commitment.amount_cents, settled, context.cycle.tz)
    counting = [fee for fee in (*_earlier_fees(reader, context), *fees) if fee_counts(fee, settled.period)]
    counted = _less_unused_time(reader, context, counting)
    counted_cents = sum(fee.amount_cents for fee in counted)
    cents = true_up(due, [counted_cents])
    if cents == 0:
        return None
    precise: Decimal = true_up_precise(due, (fee.precise_amount_cents for fee in counted))
    invoice, subscription = context.invoice, context.subscription
    line = new_fee(
        id=reader.new_id(),
        invoice=invoice,
        subscription=subscription,
        item=subscription_item(context, FeeType.COMMITMENT, commitment.invoice_display_name or COMMITMENT_NAME),
        amount_cents=cents,
        precise_amount_cents=round_to(precise, 15),
        units=ONE,
        currency=invoice.currency,
        now=reader.now,
    )
    return replace(
        line,
        unit_amount_cents=cents,
        precise_unit_amount=major_from_cents(cents, invoice.currency),
        basis={
            "minimum_cents": commitment.amount_cents,
            "days": settled.days(context.cycle.tz),
            "period_days": settled.window.duration,
            "due_cents": due,
            "used_cents": counted_cents,
        },
        from_datetime=settled.window.start,
        to_datetime=settled.window.end,
    )


def _last_fee_at(reader: Reader, context: BillingContext) -> datetime | None:
    """When the latest earlier billing period was billed whose invoice carries a subscription fee: its timestamp, or
    the beginning of the same date if that was another customer's time zone.
    """
    of_subscription = eq("subscription_id", context.subscription.id)
    last = reader.tx.first(
        BillingPeriod,
        of_subscription,
        ne("invoice_id", context.invoice.id),
        at_most("created_at", context.invoice.created_at),
        related(
            Invoice,
            "invoice_id",
            ne("status", InvoiceStatus.DELETED),
            has(Fee, "invoice_id", of_subscription, eq("fee_type", FeeType.SUBSCRIPTION)),
        ),
        order=[desc("timestamp")],
    )
    if last is None or last.timezone == context.period.timezone:
        return None if last is None else last.timestamp
    # The fee paid for the period that began on that date there, whose run was on the day before here.
    return day_start(local_date(last.timestamp, ZoneInfo(last.timezone)), context.cycle.tz)


def _earlier_fees(reader: Reader, context: BillingContext) -> list[Fee]:
    """The subscription's fees on other invoices that count, and those without an invoice."""
    fees = fees_before(reader, context, within("fee_type", COMMITTED_TYPES))
    return [fee for fee in fees if fee.invoice_id is None or _is_in_force(reader, fee.invoice_id)]


def _less_unused_time(reader: Reader, context: BillingContext, fees: Sequence[Fee]) -> list[Fee]:
    """The fees less the days on which the subscription was not active, whether those were credited, a coupon had paid
    for them, or the next plan deducts them. The part of a fixed charge's fee that an older plan was paid in advance
    counts.
    """
    invoice_ids = {fee.invoice_id for fee in fees if fee.invoice_id is not None}
    notes = reader.tx.find(CreditNote, within("invoice_id", invoice_ids)) if invoice_ids else []
    given_back = [item for note in notes if note.automatic and note.credit_status in CREDITED for item in note.items]
    credited = {item.fee_id for note in notes if note.automatic for item in note.items}
    deducted, again = _deducted_by_next_plan(reader, context, fees), _billed_again(reader, context)

    def unused(fee: Fee) -> Decimal:
        # What a note gave back of usage that is billed again is among its items.
        carried = ZERO if fee.id in credited else again.get(fee.id, ZERO)
        return total([_unused(reader, context, fee), Decimal(deducted.get(fee.id, 0)), carried])

    return [_less(fee, given_back, unused(fee)) for fee in fees]


def _less(fee: Fee, items: Sequence[CreditNoteItem], unused: Decimal) -> Fee:
    own = [item for item in items if item.fee_id == fee.id]
    # What an older plan was paid for recurring usage counts there alone.
    paid_cents = paid_before_cents(fee) if fee.fee_type == FeeType.FIXED_CHARGE else 0
    less = add(total(item.precise_amount_cents for item in own), unused)
    return replace(
        fee,
        amount_cents=fee.amount_cents + paid_cents - sum(item.amount_cents for item in own) - round_cents(unused),
        precise_amount_cents=subtract(add(fee.precise_amount_cents, Decimal(paid_cents)), less),
    )


def _unused(reader: Reader, context: BillingContext, fee: Fee) -> Decimal:
    """The price of the days after the subscription's end that a plan fee in advance was to pay for."""
    ended = context.subscription
    is_paid_time = fee.fee_type == FeeType.SUBSCRIPTION and fee.pay_in_advance
    skips = ended.on_termination_credit_note == TerminationCredit.SKIP
    until = used_until(reader, context.contract) if context.ended and is_paid_time and not skips else None
    if until is None:
        return ZERO
    return unused_amount(
        fee,
        plan_amount_of(fee, context.plan),
        cycle_at_end(context.contract),
        until,
        credited_cents=ZERO,
        trial_end=end_of_trial(reader, ended, context.plan.trial_period),
    )


def _deducted_by_next_plan(reader: Reader, context: BillingContext, fees: Sequence[Fee]) -> dict[str, int]:
    """By id, the cents of fixed charges in advance that the plan after an upgrade deducts: it is brought in by that
    plan, and each cent counts once. Of a payment for more than the next plan asks, the rest was charged for this one.
    """
    at, tz = context.subscription.terminated_at, context.cycle.tz
    following = successor_of(reader, context.subscription) if context.cycle.succession is Succession.UPGRADE else None
    ahead = [fee for fee in fees if fee.fee_type == FeeType.FIXED_CHARGE and fee.pay_in_advance]
    if at is None or following is None or not ahead:
        return {}
    contract, deducted = contract_of(reader, following), dict[str, int]()
    for charge in definition_for(reader, following, at).fixed_charges:
        own = [fee for fee in ahead if fee.add_on_id == charge.add_on_id and fee.id not in deducted]
        if not charge.prorated or not own:
            continue
        paid = [payment_for(reader, fee, at, tz) for fee in own]
        asked = price_of_days(contract, charge, at, max(payment.days_left for payment in paid))
        deducted.update(zip((fee.id for fee in own), deducted_next(paid, asked), strict=True))
    return deducted


def _billed_again(reader: Reader, context: BillingContext) -> dict[str, Decimal]:
    """By id of fees in advance for recurring usage, the cents that the plan after an upgrade bills again in arrears,
    whether they were credited or a coupon had paid them.
    """
    ended = context.subscription
    skips = ended.on_termination_credit_note == TerminationCredit.SKIP
    following = (
        successor_of(reader, ended) if context.ended and context.cycle.succession is Succession.UPGRADE else None
    )
    if following is None or skips:
        return {}
    return {fee.id: amount for fee, amount in billed_again_in_arrears(reader, context.contract, following)}


def _is_in_force(reader: Reader, invoice_id: str) -> bool:
    invoice = reader.tx.get(Invoice, invoice_id)
    if invoice is None or invoice.invoice_type == InvoiceType.PROGRESSIVE_BILLING:
        # The period's invoice bills that usage too, and credits what was billed progressively.
        return False
    return invoice.status in BILLED
