"""Automatic credit notes: for an early end, a surplus of progressive billing, or a void."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from usagebill.core.contracts import Contract
from usagebill.core.credit_note_remainders import within_parts
from usagebill.core.credit_note_requests import takes_void_parts
from usagebill.core.credit_notes import CreditNote, CreditNoteReason, Parts, proportional_items, surplus_items
from usagebill.core.errors import Invalid
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.life_cycle import UNDONE, InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.invoices.totals import Surplus
from usagebill.core.numbers import round_cents
from usagebill.core.subscriptions import Subscription, TerminationCredit
from usagebill.core.taxes import tax_keys
from usagebill.core.unused_time import (
    carried_credit,
    late_activation_credit,
    plan_amount_of,
    termination_credit,
)
from usagebill.operations.credit_notes.creation import make
from usagebill.queries.billing_periods import cycle_at_end, used_until
from usagebill.queries.credit_note_balance import balance_of
from usagebill.queries.progressive_credits import billed_together
from usagebill.rating.fees.paid_before import billed_again_in_arrears
from usagebill.rating.fees.subscription import end_of_trial
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, desc, eq, ne, related


def on_termination(work: Work, contract: Contract, *, option: str = TerminationCredit.CREDIT) -> CreditNote | None:
    """Credit the unused days of the fee that an ended subscription paid in advance.

    `option` is credit, refund (the paid part is paid back) or offset (the unpaid part settles the invoice itself). None
    if nothing is unused, or the period of the end was not billed. The note on a draft invoice is a draft.
    """
    ended, plan, until = contract.subscription, contract.plan, used_until(work, contract)
    fee = _last_fee(work, ended)
    if fee is None or until is None or fee.invoice_id is None:
        return None
    invoice = work.tx.get(Invoice, fee.invoice_id)
    if invoice is None or invoice.status in UNDONE:
        return None
    balance = balance_of(work, invoice)
    owed = termination_credit(
        balance,
        fee,
        plan_amount_of(fee, plan),
        cycle_at_end(contract),
        until,
        option=option,
        trial_end=end_of_trial(work, ended, plan.trial_period),
    )
    if owed is None:
        return None
    items = [(owed.fee, owed.amount)]
    return make(work, balance, items, owed.parts, reason=CreditNoteReason.ORDER_CANCELLATION)


def on_late_activation(work: Work, contract: Contract, until: date) -> CreditNote | None:
    """Credit the days before `until` of the fee that a subscription paid to be activated.

    Its predecessor was billed for these days. None if it has paid no such fee.
    """
    fee = work.tx.first(
        Fee,
        eq("subscription_id", contract.subscription.id),
        eq("fee_type", FeeType.SUBSCRIPTION),
        order=[asc("from_datetime"), asc("created_at"), asc("id")],
    )
    invoice = None if fee is None else work.tx.get(Invoice, fee.invoice_id or "")
    if fee is None or invoice is None:
        return None
    balance = balance_of(work, invoice)
    owed = late_activation_credit(balance, fee, plan_amount_of(fee, contract.plan), contract.cycle(), until)
    if owed is None:
        return None
    items = [(owed.fee, owed.amount)]
    return make(work, balance, items, None, reason=CreditNoteReason.ORDER_CHANGE, automatic=True)


def on_carried_usage(work: Work, ended: Contract, following: Subscription) -> list[CreditNote]:
    """Credit what was paid in advance for recurring usage that `following`, after an upgrade, is billed in arrears: the
    days left, or without proration the whole price, of the units that are left and not billed in advance again.
    """
    items: dict[str, list[tuple[Fee, Decimal]]] = {}
    for fee, amount in billed_again_in_arrears(work, ended, following):
        owed = carried_credit(balance_of(work, _invoice_of(work, fee)), fee, amount)
        if owed is not None:
            items.setdefault(fee.invoice_id or "", []).append((owed.fee, owed.amount))
    return [
        make(
            work,
            balance_of(work, _invoice_of(work, credited[0][0])),
            credited,
            None,
            reason=CreditNoteReason.ORDER_CHANGE,
            automatic=True,
        )
        for credited in items.values()
    ]


def _invoice_of(reader: Reader, fee: Fee) -> Invoice:
    invoice = reader.tx.get(Invoice, fee.invoice_id or "")
    if invoice is None:
        raise LookupError(f"no invoice {fee.invoice_id}")
    return invoice


def _last_fee(reader: Reader, subscription: Subscription) -> Fee | None:
    """The subscription fee of the last billed period; if its invoice was regenerated after a void, the later one."""
    fee = reader.tx.first(
        Fee,
        eq("subscription_id", subscription.id),
        eq("fee_type", FeeType.SUBSCRIPTION),
        related(Invoice, "invoice_id", ne("status", InvoiceStatus.DELETED)),
        order=[desc("from_datetime"), desc("created_at"), desc("id")],
    )
    return None if fee is None or fee.amount_cents == 0 else fee


def on_surplus(work: Work, progressive: Invoice, surplus: Surplus) -> list[CreditNote]:
    """Credit the surplus that progressive billing invoices billed over the period's usage.

    It is taken from the uncredited fees with its taxes on the invoices of the same period as `progressive`: the latest
    first, the largest fees first, each no further than it billed itself.
    """
    made: list[CreditNote] = []
    cents = surplus.cents
    for billed in reversed(billed_together(work, progressive)):
        balance = balance_of(work, billed)
        fees = [fee for fee in balance.fees if surplus.taxes in (None, tax_keys(fee))]
        pieces = surplus_items(fees, balance.creditable_cents_by_fee(), cents)
        items = [(fee, amount) for fee, amount, _ in pieces]
        if items and balance.worth(items) > 0:
            made.append(make(work, balance, items, None, reason=CreditNoteReason.OTHER, automatic=True))
        cents -= sum(piece_cents for _, _, piece_cents in pieces)
    return made


def check_void_amounts(reader: Reader, invoice: Invoice, *, credit_cents: int, refund_cents: int) -> None:
    """Raises `Invalid` if a void would give back more than the invoice allows, or what the bank has taken back."""
    if refund_cents > 0 and invoice.payment_dispute_lost_at is not None:
        raise Invalid(refund_amount="dispute_lost")
    parts = Parts(credit=credit_cents, refund=refund_cents)
    if not takes_void_parts(balance_of(reader, invoice), parts):
        raise Invalid(credit_refund_amount="total_amount_exceeds_invoice_amount")


def on_void(work: Work, invoice: Invoice, *, credit_cents: int, refund_cents: int) -> list[CreditNote]:
    """Credit the requested parts of a voided invoice, and put the remainder on a second note that is voided at once.

    The amounts, in cents with taxes, have been checked by `check_void_amounts`. The invoice's notes then add up to its
    total; a requested amount shrinks by the cents that the rounding of earlier notes took too much.
    """
    reason, text = CreditNoteReason.OTHER, f"Credit note created due to voided invoice {invoice.id}"
    notes = []
    balance = balance_of(work, invoice)
    requested = within_parts(Parts(credit=credit_cents, refund=refund_cents), balance.remainder)
    whole = balance.worth(balance.creditable_items())
    if requested.total > 0:
        shares = proportional_items(balance.creditable_cents_by_fee(), requested.total, whole)
        items = [(fee, shares[fee.id]) for fee in balance.fees if fee.id in shares]
        notes.append(make(work, balance, items, requested, reason=reason, description=text, checked=True, of_void=True))
        balance = balance_of(work, invoice)
    remainder = Parts(credit=balance.remainder.total_cents)
    if round_cents(balance.creditable()) > 0 and remainder.total > 0:
        creditable = balance.creditable_items()
        notes.append(
            make(
                work,
                balance,
                creditable,
                remainder,
                reason=reason,
                description=text,
                checked=True,
                of_void=True,
                void=True,
            )
        )
    return notes
