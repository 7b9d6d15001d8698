"""Payment of an invoice through its customer's provider: charged again, or on a page."""

from __future__ import annotations

from collections.abc import Mapping

from usagebill.core.collection import is_open_to_payment
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotAllowed
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_methods import chosen_method
from usagebill.core.payments import PaymentPage
from usagebill.core.provider_requests import PayableType
from usagebill.operations.backlog import Unrelated, after_backlog, of_record, without_backlog
from usagebill.operations.payables import find_payable
from usagebill.operations.payment_orders import order_payment
from usagebill.operations.payment_pages import page_of
from usagebill.queries.customers import customer_of
from usagebill.queries.invoices import visible_invoice
from usagebill.queries.payment_requests import is_outcome_unknown
from usagebill.requests.inputs import ABSENT, Input, Maybe, value_or
from usagebill.runtime.work import Work
from usagebill.views.invoices import payment_failure_view


@Input
class PaymentRetry:
    """`payment_method` is used instead of the customer's default."""

    payment_method: Maybe[Mapping[str, object]] = ABSENT


@after_backlog(of_record(Invoice))
def retry_payment(work: Work, invoice_id: str, request: PaymentRetry) -> None:
    """Retry to collect an unpaid invoice. If no provider collects it, a message says so.

    Raises `NotFound`, and `NotAllowed` for a draft, voided or paid invoice, and while a charge is under way or of
    unknown outcome.
    """
    invoice = visible_invoice(work, invoice_id)
    if not is_open_to_payment(invoice):
        raise NotAllowed("invalid_status", f"{invoice.status}, its payment {invoice.payment_status}")
    collectable = find_payable(work, PayableType.INVOICE, invoice.id)
    if collectable is not None and is_outcome_unknown(work, collectable):
        raise NotAllowed("payment_outcome_unknown")
    if not invoice.ready_for_payment_processing:
        raise NotAllowed("payment_processor_is_currently_handling_payment")
    if customer_of(work, invoice).payment_connection_id is None:
        work.emit(
            "invoice.payment_failure",
            lambda: payment_failure_view(work, invoice, {"code": "customer_must_have_payment_provider"}),
            invoice.id,
        )
        return
    order_payment(work, PayableType.INVOICE, invoice.id, chosen_method(value_or(request.payment_method, None)))


@without_backlog(Unrelated.CONNECTION)
def payment_url(work: Work, invoice_id: str) -> PaymentPage:
    """The page on which the customer pays an invoice at its provider.

    Raises `NotFound`, `Invalid` if there is no such page, and `ThirdPartyError` if the provider refuses.
    """
    return page_of_invoice(work, visible_invoice(work, invoice_id))


def page_of_invoice(work: Work, invoice: Invoice) -> PaymentPage:
    """The page on which an invoice is paid, even a hidden one. Raises as `payment_url`."""
    customer: Customer = customer_of(work, invoice)
    if customer.payment_provider is None:
        raise Invalid(base="no_linked_payment_provider")
    if customer.payment_provider == "gocardless":
        raise Invalid(base="invalid_payment_provider")
    if not is_open_to_payment(invoice):
        raise Invalid(base="invalid_invoice_status_or_payment_status")
    collectable = find_payable(work, PayableType.INVOICE, invoice.id)
    if collectable is None or collectable.due_cents == 0:
        raise Invalid(base="invalid_invoice_status_or_payment_status")
    return page_of(work, customer, collectable)
