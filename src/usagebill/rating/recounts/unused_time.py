"""Recounts of what credit notes gave back for the time after a subscription's end that was paid in advance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from zoneinfo import ZoneInfo

from usagebill.core.audit import Finding
from usagebill.core.contracts import Contract
from usagebill.core.credit_note_balance import Balance
from usagebill.core.credit_notes import CreditNote, CreditNoteReason
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.life_cycle import ISSUED, InvoiceStatus, InvoicingReason
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.numbers import ZERO, subtract, total
from usagebill.core.recounts import INVOICES_CHANGED, UNUSED_TIME
from usagebill.core.subscriptions import Subscription, TerminationCredit
from usagebill.core.unused_time import plan_amount_of, unused_amount
from usagebill.queries.billing_periods import cycle_at_end, used_until
from usagebill.queries.contracts import contract_of
from usagebill.queries.credit_note_balance import balance_of
from usagebill.rating.fees.subscription import end_of_trial
from usagebill.rating.recounts.report import Recounts
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, at_most, desc, eq, ne, related

# The note of a draft keeps its share of its fee, rounded to five decimals of a cent each time the draft is recomputed.
_PRECISE_ROUNDING = Decimal("0.001")


def recounted_unused_time(reader: Reader, subscription: Subscription, notes: Recounts) -> Iterator[Finding]:
    """Recount what was given back when the subscription ended, for the days after it of the plan fee that it had paid
    in advance.
    """
    if subscription.started_at is None or subscription.terminated_at is None:
        return
    ended, fee = contract_at_its_end(reader, subscription), _last_fee(reader, subscription)
    invoice = None if fee is None else reader.tx.get(Invoice, fee.invoice_id or "")
    if fee is None or invoice is None or invoice.status not in ISSUED or not ended.plan.pay_in_advance:
        return
    if invoice.voided_at == subscription.terminated_at:
        notes.leave_kind(UNUSED_TIME, INVOICES_CHANGED)
        return
    balance = balance_of(reader, invoice)
    made = next((note for note in balance.notes if _is_of_end(note, fee, subscription)), None)
    before = tuple(note for note in balance.notes if _is_before(note, made, subscription))
    expected, given = (
        _expected(reader, ended, replace(balance, notes=before), fee),
        _given(fee, (made,) if made else ()),
    )
    if made or expected:
        notes.count_kind(UNUSED_TIME)
    if subtract(expected, given).copy_abs() > _PRECISE_ROUNDING:
        yield Finding(
            check="credit_note",
            subject=f"credit note {made.number}" if made else f"subscription {subscription.external_id}",
            subject_id=made.id if made else subscription.id,
            detail=f"credit for unused time of fee {fee.id}",
            expected=str(expected),
            found=str(given),
        )


def contract_at_its_end(reader: Reader, subscription: Subscription) -> Contract:
    """The contract as its end was billed."""
    last = reader.tx.first(
        BillingPeriod,
        eq("subscription_id", subscription.id),
        eq("invoicing_reason", InvoicingReason.TERMINATING),
        order=[asc("created_at"), asc("id")],
    )
    if last is None:
        return contract_of(reader, subscription)
    contract = contract_of(reader.as_of(last.price_version), replace(subscription, plan_id=last.plan_id))
    plan = contract.plan if last.definition is None else last.definition.plan
    return replace(contract, plan=plan, zone=ZoneInfo(last.timezone))


def _last_fee(reader: Reader, subscription: Subscription) -> Fee | None:
    """The plan fee that the end gave back a part of: the latest that was billed by then."""
    fee = reader.tx.first(
        Fee,
        eq("subscription_id", subscription.id),
        eq("fee_type", FeeType.SUBSCRIPTION),
        at_most("created_at", subscription.terminated_at),
        related(Invoice, "invoice_id", ne("status", InvoiceStatus.DELETED)),
        order=[desc("from_datetime"), desc("created_at"), desc("id")],
    )
    return None if fee is None or fee.amount_cents == 0 else fee


def _is_of_end(note: CreditNote, fee: Fee, subscription: Subscription) -> bool:
    is_automatic = note.reason == CreditNoteReason.ORDER_CANCELLATION and not note.of_void
    of_fee = [item.fee_id for item in note.items] == [fee.id]
    return is_automatic and of_fee and note.created_at == subscription.terminated_at


def _is_before(note: CreditNote, made: CreditNote | None, subscription: Subscription) -> bool:
    if made is not None:
        return note.sequential_id < made.sequential_id
    return subscription.terminated_at is not None and note.created_at <= subscription.terminated_at


def _expected(reader: Reader, ended: Contract, balance: Balance, fee: Fee) -> Decimal:
    """What the end gives back of the fee, in (fractions of) cents; `balance` is that of its invoice before it does."""
    subscription, invoice, until = ended.subscription, balance.invoice, used_until(reader, ended)
    skips = subscription.on_termination_credit_note == TerminationCredit.SKIP
    was_void = invoice.voided_at is not None and invoice.voided_at < (subscription.terminated_at or invoice.voided_at)
    if until is None or skips or was_void:
        return ZERO
    amount = unused_amount(
        fee,
        plan_amount_of(fee, ended.plan),
        cycle_at_end(ended),
        until,
        credited_cents=_given(fee, balance.notes),
        trial_end=end_of_trial(reader, subscription, ended.plan.trial_period),
    )
    return amount if balance.worth([(fee, amount)]) > 0 else ZERO


def _given(fee: Fee, notes: Sequence[CreditNote]) -> Decimal:
    return total(item.precise_amount_cents for note in notes for item in note.items if item.fee_id == fee.id)
