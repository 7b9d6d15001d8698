"""Which facts trigger which invoice: `KINDS` is the whole table, the functions below decide the trigger.

Nothing is looked up here. Operations supply the facts, and create the invoice described by its kind.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from usagebill.core.bills import Step
from usagebill.core.dates import Occasion
from usagebill.core.invoices.life_cycle import TAXED_TYPES, InvoiceType, InvoicingReason
from usagebill.core.pricing.charges import REGROUPED
from usagebill.core.subscriptions import TerminationInvoice


class Trigger(Enum):
    """The occasions for an invoice."""

    RUN = "run"  # a billing day
    START = "start"  # a subscription starts, and its plan is paid in advance
    TRIAL_END = "trial_end"  # its trial ends, and its plan is paid in advance
    PLAN_CHANGE = "plan_change"  # a plan replaces another
    END = "end"  # a subscription ends
    ADDED_UNITS = "added_units"  # units added to fixed charges that are paid in advance
    EVENT = "event"  # usage that is paid in advance
    THRESHOLD = "threshold"  # usage so far has passed a threshold of progressive billing
    PAID_FEES = "paid_fees"  # fees without an invoice have been paid
    ONE_OFF = "one_off"  # add-ons are invoiced by hand
    PURCHASE = "purchase"  # prepaid credits are bought


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceKind:
    """An invoice as its trigger defines it.

    `reasons` are those of its billing periods. With `skip_charges` it bills no usage of the closing period. A zero
    invoice is closed if it `may_be_empty` and its customer is not sent such invoices.
    """

    invoice_type: InvoiceType
    occasion: Occasion
    reasons: tuple[InvoicingReason, ...] = ()
    skip_charges: bool = False
    may_be_empty: bool = True
    message: str = "invoice.created"


_IN_ADVANCE = InvoiceKind(
    invoice_type=InvoiceType.SUBSCRIPTION, occasion=Occasion.IMMEDIATE, reasons=(InvoicingReason.IN_ADVANCE,)
)
_STARTING = InvoiceKind(
    invoice_type=InvoiceType.SUBSCRIPTION,
    occasion=Occasion.SUBSCRIPTION,
    reasons=(InvoicingReason.STARTING,),
    skip_charges=True,
)
KINDS: Mapping[Trigger, InvoiceKind] = MappingProxyType(
    {
        Trigger.RUN: InvoiceKind(
            invoice_type=InvoiceType.SUBSCRIPTION, occasion=Occasion.PERIODIC, reasons=(InvoicingReason.PERIODIC,)
        ),
        Trigger.START: _STARTING,
        Trigger.TRIAL_END: _STARTING,
        Trigger.PLAN_CHANGE: InvoiceKind(
            invoice_type=InvoiceType.SUBSCRIPTION,
            occasion=Occasion.SUBSCRIPTION,
            reasons=(InvoicingReason.TERMINATING, InvoicingReason.STARTING),
        ),
        Trigger.END: InvoiceKind(
            invoice_type=InvoiceType.SUBSCRIPTION,
            occasion=Occasion.SUBSCRIPTION,
            reasons=(InvoicingReason.TERMINATING,),
        ),
        Trigger.ADDED_UNITS: _IN_ADVANCE,
        Trigger.EVENT: _IN_ADVANCE,
        Trigger.THRESHOLD: InvoiceKind(
            invoice_type=InvoiceType.PROGRESSIVE_BILLING,
            occasion=Occasion.IMMEDIATE,
            reasons=(InvoicingReason.PROGRESSIVE_BILLING,),
            may_be_empty=False,
        ),
        Trigger.PAID_FEES: InvoiceKind(
            invoice_type=InvoiceType.ADVANCE_CHARGES,
            occasion=Occasion.IMMEDIATE,
            reasons=(InvoicingReason.IN_ADVANCE_PERIODIC,),
            skip_charges=True,
        ),
        Trigger.ONE_OFF: InvoiceKind(
            invoice_type=InvoiceType.ONE_OFF, occasion=Occasion.IMMEDIATE, message="invoice.one_off_created"
        ),
        Trigger.PURCHASE: InvoiceKind(invoice_type=InvoiceType.CREDIT, occasion=Occasion.IMMEDIATE, may_be_empty=False),
    }
)


def at_start(*, pay_in_advance: bool, in_trial: bool, fixed_in_advance: bool) -> Trigger | None:
    """The trigger at the start of a subscription: for its fee and all fixed charges, for fixed charges alone, or None.

    `fixed_in_advance`: whether any fixed charge of the plan is paid in advance. A trial covers the fee only.
    """
    if pay_in_advance and not in_trial:
        return Trigger.START
    return Trigger.ADDED_UNITS if fixed_in_advance else None


def at_trial_end(*, pay_in_advance: bool, is_billed: bool) -> Trigger | None:
    """The trigger at the end of a trial: the rest of the period in which it ended is billed in advance, unless
    `is_billed`: the start or a run has done so.
    """
    return Trigger.TRIAL_END if pay_in_advance and not is_billed else None


def at_end(option: TerminationInvoice | str) -> Trigger | None:
    """The trigger at the end of a subscription; None if the end is not invoiced."""
    return Trigger.END if option == TerminationInvoice.GENERATE else None


def of_event(*, invoiceable: bool, regroup_paid_fees: str | None) -> Trigger | None:
    """The trigger for the fee of an event paid in advance: an invoice of its own, a later one for all paid fees, or
    None.
    """
    if invoiceable:
        return Trigger.EVENT
    return Trigger.PAID_FEES if regroup_paid_fees == REGROUPED else None


def step_of(trigger: Trigger, *, grace_period: int, hidden: bool = False) -> Step:
    """The fate of a computed invoice: only those of subscription periods have a grace period.

    `grace_period` is in days; `hidden`: nobody is to see the invoice until it is paid.
    """
    if hidden:
        return Step.AWAIT_PAYMENT
    waits = KINDS[trigger].occasion is not Occasion.IMMEDIATE and grace_period > 0
    return Step.DRAFT if waits else Step.ISSUE


def waits_for_taxes(invoice_type: InvoiceType, fee_cents: Sequence[int], *, sends_empty: bool) -> bool:
    """Whether an invoice of these fees is kept until a provider or a check has determined its taxes.

    A zero invoice is closed at once, unless its customer is sent such invoices (`sends_empty`).
    """
    return bool(fee_cents) and invoice_type in TAXED_TYPES and (sum(fee_cents) != 0 or sends_empty)


def occasion_of_reasons(invoice_type: InvoiceType, reasons: Container[InvoicingReason]) -> Occasion:
    """The occasion of a stored invoice, by the reasons of its billing periods."""
    if invoice_type != InvoiceType.SUBSCRIPTION or InvoicingReason.IN_ADVANCE in reasons:
        return Occasion.IMMEDIATE
    return Occasion.PERIODIC if InvoicingReason.PERIODIC in reasons else Occasion.SUBSCRIPTION
