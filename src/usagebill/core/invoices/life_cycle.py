"""The life of an invoice: its states, what happens to it, and what follows. The whole machine is `TRANSITIONS`.

Draft, pending, failed, finalized and voided invoices are seen by the customer; the others are not. A finalized invoice
never changes but to be voided; a number is given only on the way to finalized.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from usagebill.core.errors import NotAllowed
from usagebill.core.life_cycles import TransitionError, following

__all__ = ["REFUSALS", "TRANSITIONS", "InvoiceEvent", "InvoiceStatus", "transition"]


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
    """What happens to an invoice."""

    DRAFT = "draft"  # its grace period begins
    AWAIT_TAXES = "await_taxes"  # its taxes are asked for outside
    AWAIT_PAYMENT = "await_payment"  # it counts only once it is paid
    FINALIZE = "finalize"
    CLOSE = "close"  # it is not issued: nothing is owed, or it was not paid in time
    TAXES_FAILED = "taxes_failed"
    GENERATION_FAILED = "generation_failed"  # it could not be made
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

# What is answered where the state of an invoice refuses an action that a caller may ask for.
REFUSALS: Mapping[InvoiceEvent, str] = {
    _E.DELETE: "not_deletable",
    _E.VOID: "not_voidable",
}


def transition(status: str, event: InvoiceEvent) -> str:
    """The state that follows. Raises `NotAllowed` for what the table does not hold."""
    try:
        return following(TRANSITIONS, InvoiceStatus(status), event).value
    except TransitionError as problem:
        raise NotAllowed(REFUSALS.get(event, "invalid_status")) from problem
