"""Recounts of what credit notes gave back at a change of plan: of recurring usage that was paid in advance and the next
plan bills in arrears, and of days before a first payment that came late.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from usagebill.core.audit import Finding
from usagebill.core.credit_note_balance import Balance
from usagebill.core.credit_notes import CreditNote, CreditNoteReason
from usagebill.core.days import local_date
from usagebill.core.fees import Fee, FeeType
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.life_cycle import ISSUED, InvoicingReason
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.numbers import ZERO, subtract, total
from usagebill.core.periods import Succession
from usagebill.core.plans import Plan
from usagebill.core.recounts import CHANGED, INVOICES_CHANGED, UNUSED_TIME
from usagebill.core.subscriptions import Subscription, TerminationCredit
from usagebill.core.unused_time import carried_credit, late_activation_credit, plan_amount_of
from usagebill.queries.contracts import contract_of
from usagebill.queries.credit_note_balance import balance_of
from usagebill.rating.fees.paid_before import billed_again_in_arrears
from usagebill.rating.recounts.report import Recounts
from usagebill.rating.recounts.unused_time import contract_at_its_end
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, at_least, at_most, eq, within

# As of unused time: the note of a draft keeps its share of its fee, rounded to five decimals of a cent.
_PRECISE_ROUNDING = Decimal("0.001")


def recounted_carried_usage(reader: Reader, subscription: Subscription, notes: Recounts) -> Iterator[Finding]:
    """Recount what an upgrade from the subscription gave back of recurring usage that it had paid in advance."""
    at = subscription.terminated_at
    following = reader.tx.first(Subscription, eq("previous_subscription_id", subscription.id))
    if at is None or subscription.succession != Succession.UPGRADE or following is None:
        return
    made = [note for note in _made_at(reader, subscription, at) if _is_of_usage(reader, note)]
    last = _period_of_end(reader, subscription)
    then = None if last is None else reader.as_of(last.price_version).at(at)
    if last is None or then is None or _is_overridden(reader, following, at):
        for _ in made:
            notes.leave_kind(UNUSED_TIME, CHANGED)
        return
    ended = contract_at_its_end(reader, subscription)
    skips = subscription.on_termination_credit_note == TerminationCredit.SKIP

    def expected(known_at: datetime) -> dict[str, tuple[Fee, Decimal]]:
        parts = [] if skips else billed_again_in_arrears(then.at(at, known_at=known_at), ended, following)
        return {fee.id: (fee, amount) for fee, amount in parts}

    carried, before = expected(at), expected(at - MICROSECOND)
    given = {item.fee_id: (note, item.precise_amount_cents) for note in made for item in note.items}
    for fee_id in sorted({*carried, *before, *given}):
        fee = reader.tx.get(Fee, fee_id)
        invoice = None if fee is None else reader.tx.get(Invoice, fee.invoice_id or "")
        if fee is None or invoice is None or invoice.status not in ISSUED:
            continue
        note, amount = given.get(fee_id, (None, ZERO))
        balance = _before(balance_of(reader, invoice), note, at)
        owed = {_owed(balance, parts[fee_id]) if fee_id in parts else ZERO for parts in (carried, before)}
        if note is None and not any(owed):
            continue
        if any(_alike(amount, one) for one in owed):
            notes.count_kind(UNUSED_TIME)
        elif _are_fees_changed(reader, subscription, at):
            notes.leave_kind(UNUSED_TIME, INVOICES_CHANGED)
        else:
            notes.count_kind(UNUSED_TIME)
            right = _owed(balance, carried[fee_id]) if fee_id in carried else ZERO
            yield _finding(subscription, note, f"credit for usage paid in advance by fee {fee.id}", right, amount)


def recounted_late_activation(reader: Reader, subscription: Subscription, notes: Recounts) -> Iterator[Finding]:
    """Recount what was given back of the fee that activated the subscription, for days that the plan before it had."""
    at, started_at = subscription.activated_at, subscription.started_at
    if at is None or started_at is None or subscription.billed_from != at or started_at >= at:
        return
    fee = reader.tx.first(
        Fee,
        eq("subscription_id", subscription.id),
        eq("fee_type", FeeType.SUBSCRIPTION),
        order=[asc("from_datetime"), asc("created_at"), asc("id")],
    )
    invoice = None if fee is None else reader.tx.get(Invoice, fee.invoice_id or "")
    if fee is None or invoice is None or invoice.status not in ISSUED:
        return
    period = reader.tx.first(
        BillingPeriod, eq("invoice_id", invoice.id), eq("subscription_id", subscription.id), order=[asc("created_at")]
    )
    if period is None:
        return
    note = next(
        (
            note
            for note in _made_at(reader, subscription, at)
            if note.invoice_id == invoice.id and [item.fee_id for item in note.items] == [fee.id]
        ),
        None,
    )
    contract = contract_of(reader.as_of(period.price_version), replace(subscription, plan_id=period.plan_id))
    plan = contract.plan if period.definition is None else period.definition.plan
    cycle = replace(contract, plan=plan, zone=ZoneInfo(period.timezone)).cycle()
    balance = _before(balance_of(reader, invoice), note, at)
    credit = late_activation_credit(balance, fee, plan_amount_of(fee, plan), cycle, local_date(at, cycle.tz))
    expected, given = (ZERO if credit is None else credit.amount), _of_fee(note, fee)
    if note is not None or expected:
        notes.count_kind(UNUSED_TIME)
    if not _alike(expected, given):
        yield _finding(subscription, note, f"credit for days before the activation, of fee {fee.id}", expected, given)


def _made_at(reader: Reader, subscription: Subscription, at: datetime) -> list[CreditNote]:
    """The automatic notes of a change of plan that the customer was given at an instant."""
    return reader.tx.find(
        CreditNote,
        eq("customer_id", subscription.customer_id),
        eq("created_at", at),
        eq("reason", CreditNoteReason.ORDER_CHANGE),
        eq("automatic", True),
        order=[asc("id")],
    )


def _is_of_usage(reader: Reader, note: CreditNote) -> bool:
    fees = reader.tx.find(Fee, within("id", [item.fee_id for item in note.items]))
    return any(fee.fee_type == FeeType.CHARGE for fee in fees)


def _period_of_end(reader: Reader, subscription: Subscription) -> BillingPeriod | None:
    return reader.tx.first(
        BillingPeriod,
        eq("subscription_id", subscription.id),
        eq("invoicing_reason", InvoicingReason.TERMINATING),
        order=[asc("created_at"), asc("id")],
    )


def _is_overridden(reader: Reader, following: Subscription, at: datetime) -> bool:
    """Whether the next plan has been replaced by one of the subscription's own since."""
    plan = reader.tx.get(Plan, following.plan_id, deleted=True)
    return plan is None or plan.created_at > at


def _before(balance: Balance, made: CreditNote | None, at: datetime) -> Balance:
    """The balance of an invoice before a note; without one, at the instant at which it should have been made."""
    notes = tuple(
        note
        for note in balance.notes
        if (note.created_at <= at if made is None else note.sequential_id < made.sequential_id)
    )
    return replace(balance, notes=notes)


def _owed(balance: Balance, carried: tuple[Fee, Decimal]) -> Decimal:
    credit = carried_credit(balance, *carried)
    return ZERO if credit is None else credit.amount


def _of_fee(note: CreditNote | None, fee: Fee) -> Decimal:
    return total(item.precise_amount_cents for item in (note.items if note else ()) if item.fee_id == fee.id)


def _are_fees_changed(reader: Reader, subscription: Subscription, at: datetime) -> bool:
    """Whether what the customer had been billed by then was voided since, or fees were deleted."""
    of_customer = eq("customer_id", subscription.customer_id)
    voided = reader.tx.first(Invoice, of_customer, at_most("created_at", at), at_least("voided_at", at))
    deleted = reader.tx.first(Fee, of_customer, at_least("deleted_at", at), deleted=True)
    return voided is not None or deleted is not None


def _alike(amount: Decimal, other: Decimal) -> bool:
    return subtract(amount, other).copy_abs() <= _PRECISE_ROUNDING


def _finding(
    subscription: Subscription, note: CreditNote | None, detail: str, expected: Decimal, found: Decimal
) -> Finding:
    return Finding(
        check="credit_note",
        subject=f"credit note {note.number}" if note else f"subscription {subscription.external_id}",
        subject_id=note.id if note else subscription.id,
        detail=detail,
        expected=str(expected),
        found=str(found),
    )
