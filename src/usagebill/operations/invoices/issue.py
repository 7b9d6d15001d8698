"""Issuing: a computed invoice becomes a draft, or a finalized invoice with number, dates and copies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from usagebill.core.bills import issuing_event
from usagebill.core.contracts import Contract, Parties
from usagebill.core.copies import replace
from usagebill.core.customers import Customer
from usagebill.core.dates import Occasion
from usagebill.core.fees import CHARGE_TYPES, Fee
from usagebill.core.invoices.changes import overdue_from
from usagebill.core.invoices.life_cycle import InvoiceEvent, InvoiceStatus, InvoiceType, transition
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.payment_tasks import AskPaymentProvider
from usagebill.core.payments import Payment
from usagebill.core.provider_requests import ProviderErrand
from usagebill.core.statuses import ChargeStatus, PaymentStatus, TaxStatus
from usagebill.core.tasks import MarkOverdue
from usagebill.operations import synced_documents
from usagebill.operations.credit_notes.drafts import issue_drafts
from usagebill.operations.documents.orders import order_on_issue
from usagebill.operations.draft_invoices import watch_draft
from usagebill.operations.dunning_progress import watch
from usagebill.operations.emails.orders import email_on_issue
from usagebill.operations.invoices.numbering import numbered
from usagebill.operations.issuers import version_of
from usagebill.operations.payment_orders import collect_on_issue
from usagebill.operations.payment_status import watch_payment
from usagebill.queries.contracts import contract_of, parties_of
from usagebill.queries.customers import customer_of
from usagebill.queries.invoices import occasion_among
from usagebill.queries.plans import find_plan
from usagebill.queries.subscriptions import find_subscription
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq
from usagebill.views.customers import customer_summary
from usagebill.views.fees import untaxed_fee_view
from usagebill.views.invoices import invoice_webhook_view, plan_as_billed
from usagebill.views.subscriptions import contract_view


def draft(work: Work, invoice: Invoice, contracts: Iterable[Contract] = ()) -> Invoice:
    """Store the computed invoice as a draft for its grace period. `contracts` are those it bills, if known."""
    invoice = replace(invoice, status=transition(invoice.status, InvoiceEvent.DRAFT), updated_at=work.now)
    work.tx.replace(invoice)
    copy_subscriptions(work, invoice, contracts)
    watch_draft(work, invoice)
    work.emit("invoice.drafted", lambda: invoice_webhook_view(work, "invoice.drafted", invoice), invoice.id)
    if invoice.tax_status != TaxStatus.PENDING:
        tell_ready(work, invoice)
    return invoice


def await_payment(work: Work, invoice: Invoice) -> Invoice:
    """Store the computed invoice, hidden until it is paid."""
    invoice = replace(invoice, status=transition(invoice.status, InvoiceEvent.AWAIT_PAYMENT), updated_at=work.now)
    work.tx.replace(invoice)
    collect_on_issue(work, invoice, customer_of(work, invoice))
    return invoice


def tell_ready(work: Work, draft: Invoice) -> None:
    """Send the message that the draft's taxes are known, or cannot be determined."""
    message = "invoice.ready_to_finalize"
    work.emit(message, lambda: invoice_webhook_view(work, message, draft), draft.id)


def issue(
    work: Work,
    invoice: Invoice,
    *,
    parties: Parties | None = None,
    contracts: Iterable[Contract] = (),
    periods: Sequence[BillingPeriod] | None = None,
    may_be_empty: bool = True,
    message: str = "invoice.created",
) -> Invoice:
    """Finalize a computed invoice: number it, copy the records that it shows, send its messages.

    With `may_be_empty`, an invoice of zero is closed instead if the customer is not sent such invoices: it takes no
    number and stays hidden. An invoice with unknown taxes is kept until they are known. `parties`, the billed
    `contracts` and `periods` are looked up unless passed.
    """
    parties = parties or parties_of(work, invoice)
    customer = parties.customer
    event = issuing_event(invoice, may_be_empty=may_be_empty, sends_empty=parties.sends_empty)
    was_hidden = invoice.status == InvoiceStatus.OPEN
    status = transition(invoice.status, event)
    if event is not InvoiceEvent.FINALIZE:
        kept = replace(invoice, status=status, updated_at=work.now)
        work.tx.replace(kept)
        if event is InvoiceEvent.AWAIT_TAXES:
            copy_subscriptions(work, kept, contracts, periods)
        return kept
    invoice = replace(
        numbered(work, invoice, customer, parties.issuer),
        status=status,
        finalized_at=work.now,
        updated_at=work.now,
        customer_snapshot=customer_summary(work, customer, parties.entity),
        issuer_version_id=version_of(work, parties.issuer),
        customer_search=search_text(customer),
    )
    work.tx.replace(invoice)
    periods = copy_subscriptions(work, invoice, contracts, periods)
    immediate = _is_immediate(invoice, periods)
    if invoice.payment_status != PaymentStatus.SUCCEEDED:
        watch_payment(work, invoice)
        collect_on_issue(work, invoice, customer)
    if was_hidden:
        _show_payments(work, invoice)
    for fee in work.tx.find(Fee, eq("invoice_id", invoice.id)) if immediate else ():
        if fee.pay_in_advance and fee.fee_type in CHARGE_TYPES:
            work.emit("fee.created", partial(untaxed_fee_view, work, fee), fee.id)
    work.emit(message, lambda: invoice_webhook_view(work, message, invoice), invoice.id)
    order_on_issue(work, invoice)
    email_on_issue(work, invoice)
    synced_documents.invoice_issued(work, invoice, customer)
    return issue_drafts(work, invoice)


def search_text(customer: Customer) -> str:
    """The text that invoice searches match, from the customer as the invoice shows it."""
    names = customer.name, customer.firstname, customer.lastname, customer.external_id, customer.email
    return " ".join(name for name in names if name)


def _is_immediate(invoice: Invoice, periods: Iterable[BillingPeriod]) -> bool:
    return invoice.invoice_type == InvoiceType.SUBSCRIPTION and occasion_among(invoice, periods) is Occasion.IMMEDIATE


def _show_payments(work: Work, invoice: Invoice) -> None:
    """Show the payments of an invoice that was hidden until now, and send its number to the provider."""
    for payment in work.tx.find(Payment, eq("invoice_id", invoice.id)):
        work.tx.replace(replace(payment, is_shown=True))
        if payment.provider_payment_id is not None and payment.payment_status == ChargeStatus.SUCCEEDED:
            work.schedule(AskPaymentProvider(errand=ProviderErrand.UPDATE_CHARGE, subject_id=payment.id), work.now)


def copy_subscriptions(
    work: Work,
    invoice: Invoice,
    contracts: Iterable[Contract] = (),
    periods: Sequence[BillingPeriod] | None = None,
) -> Sequence[BillingPeriod]:
    """Copy the shown fields of its subscriptions and plans to the invoice. Returns its billing periods.

    Subscriptions not among `contracts` are looked up; so are `periods`, unless passed.
    """
    by_subscription = {contract.subscription.id: contract for contract in contracts}
    if periods is None:
        periods = work.tx.find(BillingPeriod, eq("invoice_id", invoice.id))
    for period in periods:
        contract = by_subscription.get(period.subscription_id) or _contract(work, period)
        if contract is not None:
            shown = contract_view(work, contract)
            plan = contract.plan if contract.plan.id == period.plan_id else find_plan(work, period.plan_id)
            work.tx.replace(
                replace(period, subscription_snapshot=shown, plan=None if plan is None else plan_as_billed(plan))
            )
    return periods


def _contract(reader: Reader, period: BillingPeriod) -> Contract | None:
    subscription = find_subscription(reader, period.subscription_id)
    return None if subscription is None else contract_of(reader, subscription)


def mark_overdue(work: Work, task: MarkOverdue) -> None:
    """Job: mark an unpaid invoice as overdue after its due date, unless a dispute over it was lost."""
    invoice = work.tx.get(Invoice, task.invoice_id)
    due = None if invoice is None else overdue_from(invoice)
    if invoice is None or due is None:
        return
    if due > work.now:
        watch_payment(work, invoice)
        return
    overdue = replace(invoice, payment_overdue=True, updated_at=work.now)
    work.tx.replace(overdue)
    watch(work, invoice.customer_id)
    work.emit(
        "invoice.payment_overdue", lambda: invoice_webhook_view(work, "invoice.payment_overdue", overdue), invoice.id
    )
