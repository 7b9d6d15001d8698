"""The life cycle of an invoice: states, events and transitions. The whole machine is `TRANSITIONS`.

A finalized invoice never changes except to be voided; it is numbered on finalization. Sets of states that other code
needs have names here, so a new state is classified in a single file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from usagebill.core.errors import NotAllowed
from usagebill.core.life_cycles import TransitionError, following


class InvoiceType(StrEnum):
    """The types of invoices."""

    SUBSCRIPTION = "subscription"
    ADVANCE_CHARGES = "advance_charges"  # fees paid before they were on an invoice
    PROGRESSIVE_BILLING = "progressive_billing"  # usage that passed a threshold
    ONE_OFF = "one_off"  # add-ons
    CREDIT = "credit"  # prepaid credits


# Types of invoices that use up coupons, credit notes and prepaid credits.
CONSUMING_TYPES = (InvoiceType.SUBSCRIPTION, InvoiceType.PROGRESSIVE_BILLING)
# Types of invoices that bill subscriptions.
SUBSCRIPTION_TYPES = (InvoiceType.SUBSCRIPTION, InvoiceType.ADVANCE_CHARGES, InvoiceType.PROGRESSIVE_BILLING)
# Types of invoices whose taxes are computed from the customer's.
TAXED_TYPES = (InvoiceType.SUBSCRIPTION, InvoiceType.PROGRESSIVE_BILLING, InvoiceType.ONE_OFF)


class InvoicingReason(StrEnum):
    """Why an invoice bills a subscription."""

    STARTING = "subscription_starting"
    PERIODIC = "subscription_periodic"
    TERMINATING = "subscription_terminating"
    IN_ADVANCE = "in_advance_charge"
    IN_ADVANCE_PERIODIC = "in_advance_charge_periodic"
    PROGRESSIVE_BILLING = "progressive_billing"


@dataclass(frozen=True, slots=True, kw_only=True)
class InArrears:
    """What a billing period bills of its closed windows. Fees in advance are billed by any that opens a period."""

    usage: bool = False  # of the charges window, less what progressive billing invoices have billed of it
    fixed_charges: bool = False
    commitment: bool = False


_NOTHING = InArrears()
_EVERYTHING = InArrears(usage=True, fixed_charges=True, commitment=True)
# A start bills what is due in advance, and so does the end of a trial: the windows that it shows are not billed.
IN_ARREARS: Mapping[InvoicingReason, InArrears] = {
    InvoicingReason.STARTING: _NOTHING,
    InvoicingReason.PERIODIC: _EVERYTHING,
    InvoicingReason.TERMINATING: _EVERYTHING,
    InvoicingReason.IN_ADVANCE: _NOTHING,
    InvoicingReason.IN_ADVANCE_PERIODIC: _NOTHING,
    InvoicingReason.PROGRESSIVE_BILLING: InArrears(usage=True),
}
# Billing periods of whole usage windows; those of single events and thresholds lie within them.
WHOLE_REASONS = (InvoicingReason.STARTING, InvoicingReason.PERIODIC, InvoicingReason.TERMINATING)


class InvoiceStatus(StrEnum):
    """The state of an invoice."""

    GENERATING = "generating"
    DRAFT = "draft"
    OPEN = "open"
    PENDING = "pending"
    FAILED = "failed"
    FINALIZED = "finalized"
    VOIDED = "voided"
    CLOSED = "closed"
    DELETED = "deleted"


class InvoiceEvent(StrEnum):
    """Events of an invoice."""

    DRAFT = "draft"  # its grace period begins
    AWAIT_TAXES = "await_taxes"  # its taxes are requested from a provider
    AWAIT_PAYMENT = "await_payment"  # it counts only once it is paid
    FINALIZE = "finalize"
    CLOSE = "close"  # not issued: nothing is owed, or it was not paid in time
    TAXES_FAILED = "taxes_failed"
    GENERATION_FAILED = "generation_failed"  # it could not be generated
    RETRY = "retry"
    DELETE = "delete"
    VOID = "void"


_S, _E = InvoiceStatus, InvoiceEvent

TRANSITIONS: Mapping[tuple[InvoiceStatus, InvoiceEvent], InvoiceStatus] = {
    (_S.GENERATING, _E.DRAFT): _S.DRAFT,
    (_S.GENERATING, _E.AWAIT_TAXES): _S.PENDING,
    (_S.GENERATING, _E.AWAIT_PAYMENT): _S.OPEN,
    (_S.GENERATING, _E.FINALIZE): _S.FINALIZED,
    (_S.GENERATING, _E.CLOSE): _S.CLOSED,
    (_S.GENERATING, _E.GENERATION_FAILED): _S.FAILED,
    (_S.DRAFT, _E.AWAIT_TAXES): _S.PENDING,
    (_S.DRAFT, _E.FINALIZE): _S.FINALIZED,
    (_S.DRAFT, _E.CLOSE): _S.CLOSED,
    (_S.DRAFT, _E.DELETE): _S.DELETED,
    (_S.PENDING, _E.FINALIZE): _S.FINALIZED,
    (_S.PENDING, _E.CLOSE): _S.CLOSED,
    (_S.PENDING, _E.TAXES_FAILED): _S.FAILED,
    (_S.PENDING, _E.GENERATION_FAILED): _S.FAILED,
    (_S.FAILED, _E.RETRY): _S.PENDING,
    (_S.FAILED, _E.CLOSE): _S.CLOSED,
    (_S.OPEN, _E.FINALIZE): _S.FINALIZED,
    (_S.OPEN, _E.CLOSE): _S.CLOSED,
    (_S.FINALIZED, _E.VOID): _S.VOIDED,
}

# Visible in lists and by id.
VISIBLE = (_S.DRAFT, _S.FINALIZED, _S.VOIDED, _S.FAILED, _S.PENDING)
# Has a number and documents, and appears in the books.
ISSUED = (_S.FINALIZED, _S.VOIDED)
# Not issued yet: its credit notes are drafts, which are issued with it.
NOT_YET_ISSUED = (_S.DRAFT, _S.PENDING, _S.FAILED)
# The coupons and progressive billing credits that the invoice used, and the periods it billed, are available again.
UNDONE = (_S.VOIDED, _S.CLOSED, _S.DELETED)
# No other invoice bills the same.
BILLED = (_S.DRAFT, _S.OPEN, _S.PENDING, _S.FAILED, _S.FINALIZED, _S.CLOSED)
# The same, including invoices that are being generated.
STANDING = (_S.GENERATING, *BILLED)
# Billed, and owed or paid; a closed invoice is neither.
BILLED_AND_KEPT = (_S.DRAFT, _S.OPEN, _S.PENDING, _S.FAILED, _S.FINALIZED)
# Its billed usage is credited on the period's invoice, for progressive billing invoices.
BILLED_AHEAD = (_S.FINALIZED, _S.FAILED, _S.PENDING)
# Events that arrive later do not count in its billed periods.
CLOSING_PERIODS = (_S.FINALIZED, _S.VOIDED, _S.CLOSED)
# Its usage counts toward the lifetime usage of a subscription.
COUNTED_IN_LIFETIME_USAGE = (_S.FINALIZED, _S.DRAFT, _S.FAILED, _S.PENDING)
# It can be credited. A void gives back what was received, so nothing is left of a voided one.
CREDITABLE = (_S.DRAFT, _S.FINALIZED)
# Payments can be recorded for it.
PAYABLE = (_S.FINALIZED, _S.OPEN)
# Not collectable: not due yet, or no longer.
NOT_COLLECTABLE = (_S.DRAFT, _S.VOIDED)
# Hidden from payment providers: it is incomplete, or gone.
UNSEEN_BY_PROVIDERS = (_S.GENERATING, _S.DELETED, _S.DRAFT)
# Collected amounts are given back, and nothing more is collected.
NOT_TO_BE_PAID = (_S.VOIDED, _S.CLOSED)
# A tax provider's answer still matters.
AWAITING_PROVIDER_TAXES = (_S.DRAFT, _S.PENDING)

# Error codes of actions that an invoice's state refuses.
REFUSALS: Mapping[InvoiceEvent, str] = {
    _E.DELETE: "not_deletable",
    _E.VOID: "not_voidable",
}


def transition(status: InvoiceStatus, event: InvoiceEvent) -> InvoiceStatus:
    """The next state. Raises `NotAllowed` for a transition that is not in the table."""
    try:
        return following(TRANSITIONS, status, event)
    except TransitionError as problem:
        raise NotAllowed(REFUSALS.get(event, "invalid_status"), status) from problem
