"""Payment requests as payables: charged as one, with effects on their invoices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from usagebill.core.collection import Collectable
from usagebill.core.dunning import DunningCampaign
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.payment_states import FAILED_CHARGES, PaymentEvent, Telling, move as moved, request_event
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_requests import PaymentRequest, dues, is_ready, noted_payment, taken_back
from usagebill.core.payments import GIVEN_BACK, Payment
from usagebill.core.provider_requests import Payable, PayableLine, PayableType, ProviderFailure
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.operations import payment_receipts, refunds
from usagebill.operations.dunning_progress import paid_in
from usagebill.operations.emails.orders import email_request
from usagebill.operations.payment_status import due_changed, move_payment
from usagebill.queries.billing_entities import find_entity
from usagebill.queries.payment_requests import parts_of_request, request_of, requested_invoices
from usagebill.runtime.work import Reader, Work
from usagebill.views.payment_requests import payment_request_view, request_failure_view

_UPDATED = "payment_request.payment_status_updated"


class RequestPayables:
    """Payment requests; see `payables.Payables` for the methods."""

    def find(self, reader: Reader, id: str) -> Collectable | None:
        """The request with the amount now due on its invoices: less than requested if one was paid since.

        Nothing is due on voided ones. It cannot be charged while another one is being charged, or if all were voided.
        """
        request = reader.tx.get(PaymentRequest, id)
        if request is None:
            return None
        invoices = requested_invoices(reader, request)
        ready = is_ready(invoices)
        return Collectable(
            type=PayableType.PAYMENT_REQUEST,
            id=request.id,
            customer_id=request.customer_id,
            due_cents=sum(dues(invoices)),
            currency=request.currency,
            payment_status=request.payment_status,
            is_ready=ready,
            is_collectable=ready,
            is_gated=False,
            is_shown=True,
            payable=_payable(reader, request, invoices),
        )

    def attempt(self, work: Work, id: str) -> None:
        """Nothing is counted here: attempts of a campaign count when it asks."""

    def move(self, work: Work, id: str, event: PaymentEvent, payment: Payment | None) -> None:
        """Update the request, its invoices and the customer's dunning. The paid amount is spread over the invoices, up
        to the amount due on each; a successful payment gets its receipt. Amounts for voided invoices are given back.
        """
        request = request_of(work, id)
        succeeded = payment is not None and payment.payment_status == ChargeStatus.SUCCEEDED
        if payment is not None and event is PaymentEvent.RETURNED:
            for part in taken_back(payment.amount_cents, parts_of_request(work, request), work.now):
                work.tx.replace(part)
        if payment is not None and succeeded:
            payment = _note_paid(work, request, payment)
            if payment.status in GIVEN_BACK:
                event = PaymentEvent.RECOUNTED
        _move_invoices(work, request, event)
        _move_request(work, request, event)
        if payment is not None:
            payment_receipts.issue(work, payment)

    def tell_failure(self, work: Work, id: str, failure: ProviderFailure) -> None:
        """Send the message about the request, none about its invoices."""
        request = request_of(work, id)
        view = partial(request_failure_view, work, request, failure)
        work.emit("payment_request.payment_failure", view, request.id)

    def note(self, work: Work, id: str, failure: ProviderFailure | None) -> None:
        """Send a webhook and the customer's e-mail, because a request has no field to show it."""


def _payable(reader: Reader, request: PaymentRequest, invoices: Sequence[Invoice]) -> Payable:
    entity = find_entity(reader, request.billing_entity_id)
    reference = f"{'' if entity is None else entity.name} - Overdue invoices"
    if len(invoices) == 1:
        reference = f"{reference}: {invoices[0].number}"
    return Payable(
        type=PayableType.PAYMENT_REQUEST,
        id=request.id,
        reference=reference,
        billing_entity_id=request.billing_entity_id,
        lines=tuple(
            PayableLine(name=invoice.number, amount_cents=due)
            for invoice, due in zip(invoices, dues(invoices), strict=True)
            if due > 0
        ),
        created_at=request.created_at,
    )


def _note_paid(work: Work, request: PaymentRequest, payment: Payment) -> Payment:
    """The payment, marked if a part of it is to be given back."""
    invoices = {invoice.id: invoice for invoice in requested_invoices(work, request)}
    noted = noted_payment(payment.amount_cents, parts_of_request(work, request), invoices, work.now)
    for part in noted.parts:
        work.tx.replace(part)
        move_payment(work, invoices[part.invoice_id], PaymentEvent.RECOUNTED)
    if noted.unwanted:
        refunds.give_back(work, payment, noted.unwanted)
        payment = work.tx.get(Payment, payment.id) or payment
    return payment


def _move_invoices(work: Work, request: PaymentRequest, event: PaymentEvent) -> None:
    follows = request_event(event)
    if follows is None:
        return
    for invoice in requested_invoices(work, request):
        if invoice.status != InvoiceStatus.VOIDED:
            move_payment(work, invoice, follows)
        elif follows is PaymentEvent.RETURNED:
            move_payment(work, invoice, PaymentEvent.RECOUNTED)


def _move_request(work: Work, request: PaymentRequest, event: PaymentEvent) -> None:
    left_cents = sum(dues(requested_invoices(work, request)))
    made = moved(request.payment_status, event).with_left(left_cents)
    changed = request if made.status is None else replace(request, payment_status=made.status, updated_at=work.now)
    work.tx.replace(changed)
    if changed.payment_status != request.payment_status and made.tells is not Telling.NEVER:
        work.emit(_UPDATED, lambda: payment_request_view(work, changed), changed.id)
    if changed.payment_status == PaymentStatus.SUCCEEDED and request.payment_status != PaymentStatus.SUCCEEDED:
        for invoice in requested_invoices(work, request):
            due_changed(work, invoice)
        if request.dunning_campaign_id is not None:
            paid_in(work, request.customer_id, request.currency)
    if event in FAILED_CHARGES and request.payment_status != PaymentStatus.FAILED:
        # Sent once: a notice that repeats the response is no news to the customer.
        campaign = None
        if request.dunning_campaign_id is not None:
            campaign = work.tx.get(DunningCampaign, request.dunning_campaign_id)
        email_request(work, changed, bcc=() if campaign is None else campaign.bcc_emails)
