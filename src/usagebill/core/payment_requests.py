"""Payment requests: a customer is asked to pay several overdue invoices at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.statuses import PaymentStatus

__all__ = [
    "NotedPayment",
    "PaymentRequest",
    "RequestedInvoice",
    "distributed",
    "dues",
    "dues_by_currency",
    "is_ready",
    "noted_payment",
    "request_refusal",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentRequest:
    """`amount_cents` is what was due of its invoices together when it was made; all of them have its currency and its
    billing entity. One that a dunning campaign made has the campaign's id. `email` may hold several addresses.
    """

    id: str
    organization_id: str
    customer_id: str
    billing_entity_id: str
    amount_cents: int
    currency: str
    created_at: datetime
    updated_at: datetime
    email: str | None = None
    payment_status: PaymentStatus = PaymentStatus.PENDING
    dunning_campaign_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedInvoice:
    """An invoice of a payment request: what was asked for it, and what a payment of the request paid of it."""

    id: str
    organization_id: str
    payment_request_id: str
    invoice_id: str
    amount_cents: int
    created_at: datetime
    updated_at: datetime
    paid_cents: int = 0


def request_refusal(invoices: Sequence[Invoice]) -> str | None:
    """Why these invoices of one customer cannot be requested together, as a code; None if they can."""
    if any(not invoice.payment_overdue for invoice in invoices):
        return "invoices_not_overdue"
    if len({invoice.currency for invoice in invoices}) > 1:
        return "invoices_have_different_currencies"
    if len({invoice.billing_entity_id for invoice in invoices}) > 1:
        return "invoices_have_different_billing_entities"
    if any(not invoice.ready_for_payment_processing for invoice in invoices):
        return "invoices_not_ready_for_payment_processing"
    return None


def dues(invoices: Iterable[Invoice]) -> list[int]:
    """The amount due on each invoice, in cents: nothing of one that was overpaid."""
    return [max(0, invoice.due_cents) for invoice in invoices]


def dues_by_currency(invoices: Iterable[Invoice]) -> dict[str, int]:
    """The amount due on invoices in each currency, in cents, in the order of currencies; none of which nothing is due.

    What was overpaid of one counts against the others.
    """
    due: dict[str, int] = {}
    for invoice in invoices:
        due[invoice.currency] = due.get(invoice.currency, 0) + invoice.due_cents
    return {currency: cents for currency, cents in sorted(due.items()) if cents > 0}


def is_ready(invoices: Iterable[Invoice]) -> bool:
    """Whether the request over these invoices can be charged: no other charge of one of them is under way.

    Voided invoices do not count, and there has to be another one.
    """
    wanted = [invoice for invoice in invoices if invoice.status != InvoiceStatus.VOIDED]
    return bool(wanted) and all(
        invoice.payment_status == PaymentStatus.SUCCEEDED
        or (invoice.ready_for_payment_processing and invoice.status == InvoiceStatus.FINALIZED)
        for invoice in wanted
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedPayment:
    """A payment of a request, noted on its parts and their invoices: both as they are then, where they change.

    `unwanted` is what came for voided invoices, in cents by invoice id, and is to be given back.
    """

    parts: tuple[RequestedInvoice, ...]
    invoices: tuple[Invoice, ...]
    unwanted: Mapping[str, int]


def noted_payment(
    amount_cents: int, parts: Sequence[RequestedInvoice], invoices: Mapping[str, Invoice], now: datetime
) -> NotedPayment:
    """What each invoice of a request gets of a payment of it (see `distributed`); `invoices` are by id."""
    voided = {
        place: part.amount_cents - part.paid_cents
        for place, part in enumerate(parts)
        if invoices[part.invoice_id].status == InvoiceStatus.VOIDED
    }
    shares = distributed(amount_cents, dues(invoices[part.invoice_id] for part in parts), voided)
    noted = [(part, invoices[part.invoice_id], share) for part, share in zip(parts, shares, strict=True) if share]
    return NotedPayment(
        parts=tuple(replace(part, paid_cents=part.paid_cents + share, updated_at=now) for part, _, share in noted),
        invoices=tuple(
            replace(invoice, total_paid_amount_cents=invoice.total_paid_amount_cents + share, updated_at=now)
            for _, invoice, share in noted
        ),
        unwanted={parts[place].invoice_id: shares[place] for place in voided if shares[place]},
    )


def distributed(amount_cents: int, dues: Sequence[int], voided: Mapping[int, int] | None = None) -> list[int]:
    """What each of several dues gets of an amount, in cents. Together they get all of it.

    Each gets what is due, in order, as far as the amount goes. `voided` are the places of those that nobody is to pay
    any more, with what was asked for them: they come next, for theirs is to be given back. What is left then goes to
    the last that is not voided: it was received, and can be refunded from there.
    """
    voided = voided or {}
    shares = [0] * len(dues)
    left = amount_cents
    for wanted in ({place: due for place, due in enumerate(dues) if place not in voided}, voided):
        for place, due in sorted(wanted.items()):
            shares[place] = min(max(due, 0), left)
            left -= shares[place]
    if shares:
        last = max((place for place in range(len(dues)) if place not in voided), default=len(dues) - 1)
        shares[last] += left
    return shares
