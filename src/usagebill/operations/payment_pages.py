"""Pages at payment providers, to set up a payment method or to pay."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from usagebill.core.collection import Collectable
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotAllowed, ThirdPartyError
from usagebill.core.look_ups import PAID_WITHOUT_NOTICE, page_question
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payment_requests import PaymentRequest
from usagebill.core.payments import Payment, PaymentPage
from usagebill.core.provider_metadata import page_metadata
from usagebill.core.provider_requests import (
    TEMPORARY_FAILURES,
    Charged,
    CheckoutUrl,
    ExpirePage,
    FailureKind,
    PageUrl,
    PayableType,
    PaymentMoved,
    ProviderFailure,
    SetupUrl,
)
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.operations.payables import cancellation, find_payable, follow_cancellation, tell_failure
from usagebill.operations.payment_orders import order_page_look_up
from usagebill.operations.payment_status import cancel_charge, end_page, has_ended, is_being_ended
from usagebill.operations.provider_customers import needs_set_up
from usagebill.process.logs import Log
from usagebill.queries.customers import customer_by_external_id, customer_of
from usagebill.queries.payment_providers import find_connection, payer_of, payment_connection_of
from usagebill.queries.payment_requests import charges_under_way, ended_pages, is_outcome_unknown, open_pages
from usagebill.runtime.work import Work

_VALID = timedelta(hours=24)
# Stripe wants an end at most 24 hours ahead of its own clock.
_MARGIN = timedelta(minutes=1)
# No method is kept: Indian cards need the customer each time.
_ALWAYS_THERE = "IN"
_log = Log("usagebill.payments")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupPage:
    """A page on which a customer sets up a payment method."""

    customer: Customer
    connection: PaymentConnection
    url: str


@without_backlog(Unrelated.CONNECTION)
def checkout_url(work: Work, external_id: str) -> SetupPage:
    """A page on which the customer sets up a payment method at its provider.

    Raises `NotFound`, `Invalid` if the customer has no provider or needs no setup, `NotAllowed` if the provider has no
    such pages, and `ThirdPartyError` if it refuses.
    """
    customer = customer_by_external_id(work, external_id)
    connection = payment_connection_of(work, customer)
    if connection is None:
        raise Invalid(base="no_linked_payment_provider")
    if not connection.traits.sets_up:
        raise NotAllowed("feature_not_supported")
    if not needs_set_up(customer):
        raise Invalid(provider_payment_methods="no_payment_methods_to_setup_available")
    if connection.traits.creates_customers and not customer.provider_customer_id:
        raise Invalid(base="missing_payment_provider_customer")
    payer = payer_of(work, customer, connection)
    request = SetupUrl(payer=payer, key=f"setup-{work.new_id()}", at=work.now)
    answer = work.asked(("setup", customer.id), connection, request).answer
    if isinstance(answer, ProviderFailure):
        raise ThirdPartyError(connection.traits.title, answer.message)
    assert isinstance(answer, PageUrl)
    return SetupPage(customer=customer, connection=connection, url=answer.url)


def page_of(work: Work, customer: Customer, collectable: Collectable) -> PaymentPage:
    """The page on which the payable can be paid: the existing one, else a new one. Others for the same debt are ended.

    Raises `Invalid` if the provider has none, `ThirdPartyError` if it refuses, which a webhook reports, and
    `NotAllowed` while a charge for the same debt is under way or of unknown outcome: the customer must not pay twice.
    """
    connection = payment_connection_of(work, customer)
    if connection is None:
        raise Invalid(base="missing_payment_provider")
    if connection.traits.charges and not customer.provider_customer_id:
        raise Invalid(base="missing_payment_provider_customer")
    for payment in charges_under_way(work, collectable.type, collectable.id):
        # What waits for nobody but the customer, who is here to pay on a page instead, is canceled.
        if not payment.next_action or not _is_canceled(work, payment):
            raise NotAllowed("payment_processor_is_currently_handling_payment")
    if is_outcome_unknown(work, collectable):
        raise NotAllowed("payment_outcome_unknown")
    wanted_page: PaymentPage | None = None
    for page in open_pages(work, collectable.type, collectable.id):
        if _is_for(page, collectable, connection) and wanted_page is None:
            wanted_page = page
        else:
            _end(work, page)
    for page in ended_pages(work, collectable.type, collectable.id):
        if is_being_ended(work, page):
            _end(work, page)
    if wanted_page is not None:
        return wanted_page
    page_id = work.new_id()
    payer = payer_of(work, customer, connection, collectable.currency)
    wanted = CheckoutUrl(
        page_id=page_id,
        key=page_id,
        amount_cents=collectable.due_cents,
        currency=collectable.currency,
        payer=payer,
        payable=collectable.payable,
        metadata=page_metadata(collectable.payable, payer),
        at=work.now,
        # An e-mail may be read late: the page of a request ends only when its provider's pages do.
        expires_at=None if collectable.payment_request_id is not None else work.now + _VALID - _MARGIN,
        keeps_method=customer.country != _ALWAYS_THERE and "crypto" not in customer.provider_payment_methods,
    )
    # What is due may change while the provider is asked: then it is asked for another page, and nobody gets this one.
    asked = work.asked(("page", collectable.id, collectable.due_cents), connection, wanted)
    answer, sent = asked.answer, asked.request
    if isinstance(answer, ProviderFailure):
        note = partial(tell_failure, collectable=collectable, failure=answer)
        raise ThirdPartyError(connection.traits.title, answer.message, note)
    assert isinstance(answer, PageUrl)
    assert isinstance(sent, CheckoutUrl)
    if not answer.url:
        raise Invalid(base="payment_provider_error")
    page = PaymentPage(
        id=sent.page_id,
        organization_id=work.organization.id,
        customer_id=customer.id,
        connection_id=connection.id,
        amount_cents=sent.amount_cents,
        currency=sent.currency,
        url=answer.url,
        provider_page_id=answer.provider_page_id,
        created_at=work.now,
        expires_at=answer.expires_at or sent.at + _VALID,
        invoice_id=collectable.invoice_id,
        payment_request_id=collectable.payment_request_id,
    )
    work.tx.insert(page)
    order_page_look_up(work, page)
    return page


def pay_url_of(work: Work, request: PaymentRequest) -> str | None:
    """The page on which a payment request can be paid; None if its customer's provider has none now."""
    customer = customer_of(work, request)
    connection = payment_connection_of(work, customer)
    collectable = find_payable(work, PayableType.PAYMENT_REQUEST, request.id)
    if connection is None or not connection.traits.request_pages or collectable is None:
        return None
    if not collectable.is_collectable or collectable.due_cents == 0:
        return None
    try:
        return page_of(work, customer, collectable).url
    except (Invalid, NotAllowed, ThirdPartyError) as problem:
        # The e-mail goes out without a button.
        _log.warning("no_page_for_request", request=request.id, connection=connection.code, reason=str(problem))
        return None


def _is_canceled(work: Work, payment: Payment) -> bool:
    """Whether the provider has canceled a charge before a page opens for the same debt."""
    prepared = cancellation(work, payment)
    if prepared is None:
        return False
    # Ordered as well, should the process die of the answer.
    answer = work.asked(("cancel", payment.id), *prepared, lambda first: cancel_charge(first, payment)).answer
    if not isinstance(answer, Charged):
        return False
    follow_cancellation(work, payment, answer)
    return True


def _end(work: Work, page: PaymentPage) -> None:
    """Have its provider end a page before another opens for the same debt.

    Raises `ThirdPartyError` if it does not, and `NotAllowed` if the page was paid before: its notice is under way.
    """
    connection = find_connection(work, page.connection_id)
    if connection is None or page.provider_page_id is None:
        end_page(work, page)
        return
    request = ExpirePage(provider_page_id=page.provider_page_id)
    answer = work.asked(("end", page.id), connection, request, lambda first: end_page(first, page)).answer
    if isinstance(answer, ProviderFailure) and answer.kind in TEMPORARY_FAILURES:
        raise ThirdPartyError(connection.traits.title, answer.message)
    paid = work.asked(("paid", page.id), connection, page_question(page)).answer
    if isinstance(paid, PaymentMoved) or (isinstance(paid, ProviderFailure) and paid.code == PAID_WITHOUT_NOTICE):
        raise NotAllowed("payment_processor_is_currently_handling_payment")
    if isinstance(paid, ProviderFailure) and paid.kind in (*TEMPORARY_FAILURES, FailureKind.UNAUTHORIZED):
        raise ThirdPartyError(connection.traits.title, paid.message)
    has_ended(work, page)


def _is_for(page: PaymentPage, collectable: Collectable, connection: PaymentConnection) -> bool:
    return (
        collectable.id in (page.invoice_id, page.payment_request_id)
        and page.connection_id == connection.id
        and page.amount_cents == collectable.due_cents
    )
