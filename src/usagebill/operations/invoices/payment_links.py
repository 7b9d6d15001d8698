"""Asking the customer's payment provider for what is due of an invoice; nobody is connected to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from usagebill.core.errors import Invalid, NotAllowed
from usagebill.core.invoices.life_cycle import NOT_COLLECTABLE
from usagebill.core.statuses import PaymentStatus
from usagebill.inputs import ABSENT, Input, Maybe
from usagebill.queries.invoices import visible_invoice
from usagebill.views.invoices import payment_failure_view
from usagebill.work import Reader, Work

__all__ = ["PaymentRetry", "payment_url", "retry_payment"]


@Input
class PaymentRetry:
    """`payment_method` is the one to pay with instead of the customer's own; only a payment provider has any."""

    payment_method: Maybe[Mapping[str, object]] = ABSENT


def retry_payment(work: Work, invoice_id: str, request: PaymentRetry) -> None:
    """Have another try at collecting an invoice that is not paid. It fails for want of a provider, as a message tells.

    The invoice stays as it is. Raises `NotFound`, and `NotAllowed` for a draft, voided or paid one.
    """
    invoice = visible_invoice(work, invoice_id)
    if invoice.status in NOT_COLLECTABLE or invoice.payment_status == PaymentStatus.SUCCEEDED:
        raise NotAllowed("invalid_status")
    work.emit(
        "invoice.payment_failure",
        lambda: payment_failure_view(work, invoice, {"code": "customer_must_have_payment_provider"}),
        invoice.id,
    )


def payment_url(reader: Reader, invoice_id: str) -> NoReturn:
    """Where the customer pays an invoice at its provider; refused, since nobody is connected to one."""
    visible_invoice(reader, invoice_id)
    raise Invalid(base="no_linked_payment_provider")
