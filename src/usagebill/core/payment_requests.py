"""Payment requests: a customer is asked to pay several overdue invoices at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.statuses import PaymentStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentRequest:
    """`amount_cents` is the sum due on its invoices when it was created; all of them have its currency and its billing
    entity. A request created by a dunning campaign has the campaign's id. `email` may hold several addresses.
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
    """An invoice of a payment request: the amount requested, and the amount that a payment of the request paid."""

    id: str
    organization_id: str
    payment_request_id: str
    invoice_id: str
    amount_cents: int
    created_at: datetime
    updated_at: datetime
    paid_cents: int = 0


def request_refusal(invoices: Sequence[Invoice]) -> str | None:
    """The code of the reason why these invoices of one customer cannot be requested together; None if they can."""
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
    """The amount due on each invoice, in cents; zero if it was overpaid, or somebody said that it is paid."""
    return [
        0 if invoice.payment_status == PaymentStatus.SUCCEEDED else max(0, invoice.due_cents) for invoice in invoices
    ]


def dues_by_currency(invoices: Iterable[Invoice]) -> dict[str, int]:
    """The amount due by currency, in cents, sorted by currency and without currencies in which nothing is due.

    Overpaid amounts count against the other invoices.
    """
    due: dict[str, int] = {}
    for invoice in invoices:
        due[invoice.currency] = due.get(invoice.currency, 0) + invoice.due_cents
    return {currency: cents for currency, cents in sorted(due.items()) if cents > 0}


def is_ready(invoices: Iterable[Invoice]) -> bool:
    """Whether the request for these invoices can be charged: no other charge of one of them is under way.

    Voided invoices do not count, but there has to be at least one other.
    """
    payable = [invoice for invoice in invoices if invoice.status != InvoiceStatus.VOIDED]
    return bool(payable) and all(
        invoice.payment_status == PaymentStatus.SUCCEEDED
        or (invoice.ready_for_payment_processing and invoice.status == InvoiceStatus.FINALIZED)
        for invoice in payable
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedPayment:
    """A payment of a request, recorded on its parts; only changed ones are included.

    `unwanted` are the cents paid for voided invoices, by invoice id, which are to be given back.
    """

    parts: tuple[RequestedInvoice, ...]
    unwanted: Mapping[str, int]


def noted_payment(
    amount_cents: int, parts: Sequence[RequestedInvoice], invoices: Mapping[str, Invoice], now: datetime
) -> NotedPayment:
    """The distribution of a payment of a request over its invoices (see `distributed`); `invoices` are by id."""
    voided = {
        place: part.amount_cents - part.paid_cents
        for place, part in enumerate(parts)
        if invoices[part.invoice_id].status == InvoiceStatus.VOIDED
    }
    shares = distributed(amount_cents, dues(invoices[part.invoice_id] for part in parts), voided)
    return NotedPayment(
        parts=tuple(
            replace(part, paid_cents=part.paid_cents + share, updated_at=now)
            for part, share in zip(parts, shares, strict=True)
            if share
        ),
        unwanted={parts[place].invoice_id: shares[place] for place in voided if shares[place]},
    )


def taken_back(amount_cents: int, parts: Sequence[RequestedInvoice], now: datetime) -> list[RequestedInvoice]:
    """The parts of a request whose payment over this amount was returned, from the last; only changed ones."""
    changed = []
    for part in reversed(parts):
        cents = min(amount_cents, part.paid_cents)
        if cents > 0:
            changed.append(replace(part, paid_cents=part.paid_cents - cents, updated_at=now))
            amount_cents -= cents
    return changed


def distributed(amount_cents: int, dues: Sequence[int], voided: Mapping[int, int] | None = None) -> list[int]:
    """The part of an amount that each of several dues gets, in cents. The parts add up to the amount.

    Each gets the amount due, in order, as far as the money goes. `voided` maps the positions of dues that are no longer
    to be paid to their requested cents: they come next, as their part is to be given back. The remainder goes to the
    last due that is not voided: it was received, and can be refunded from there.
    """
    voided = voided or {}
    shares = [0] * len(dues)
    remaining_cents = amount_cents
    for group in ({place: due for place, due in enumerate(dues) if place not in voided}, voided):
        for place, due in sorted(group.items()):
            shares[place] = min(max(due, 0), remaining_cents)
            remaining_cents -= shares[place]
    if shares:
        last = max((place for place in range(len(dues)) if place not in voided), default=len(dues) - 1)
        shares[last] += remaining_cents
    return shares
