"""Invoices of top-ups: purchased credits enter the wallet once their invoice is paid."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.tasks import InvoiceTopUp, SettleTopUp
from usagebill.core.top_ups import purchase_event
from usagebill.core.wallet_transactions import SETTLING, WalletTransaction, WalletTransactionEvent, paid, unpaid
from usagebill.operations.backlog import catch_up_before
from usagebill.operations.invoices.issue import issue
from usagebill.operations.invoices.record import record
from usagebill.operations.wallet_ledger import bring_in, tell_transaction
from usagebill.queries.invoices import find_invoice
from usagebill.queries.wallets import transaction_of_invoice, wallet_of, wallet_transaction_by_id
from usagebill.rating.top_ups import paid_today, top_up_bill
from usagebill.runtime.work import Work

_ISSUED = "invoice.paid_credit_added"
_UPDATED = "wallet_transaction.updated"


def invoice_top_up(work: Work, task: InvoiceTopUp) -> None:
    """Job: invoice purchased credits."""
    purchase = wallet_transaction_by_id(work, task.wallet_transaction_id)
    if purchase.invoice_id is None:
        record(work, replace(top_up_bill(work, wallet_of(work, purchase), purchase), message=_ISSUED))


def settle_top_up(work: Work, task: SettleTopUp) -> None:
    """Job: settle the purchase of a top-up invoice that was paid, or whose payment failed, once.

    Only a payment brings credits: an invoice settled by a credit note, or voided unpaid, brings none. A hidden invoice
    is issued once it is paid. What was due before the payment comes first, so that the credits do not pay it.
    """
    catch_up_before(work, (task.customer_id,))
    invoice = find_invoice(work, task.invoice_id)
    purchase = None if invoice is None else transaction_of_invoice(work, invoice.id)
    if invoice is None or purchase is None:
        return
    event = purchase_event(task.payment_status, invoice)
    if event is WalletTransactionEvent.PAID:
        settled = paid(purchase, work.now)
        if settled is not purchase:
            work.tx.replace(settled)
            bring_in(work, settled, webhook_type=_UPDATED)
    elif event is not None:
        _fail(work, purchase, event)
    if event in SETTLING:
        _issue_if_kept(work, invoice)


def _fail(work: Work, purchase: WalletTransaction, event: WalletTransactionEvent) -> None:
    failed = unpaid(purchase, event, work.now)
    if failed is not purchase:
        work.tx.replace(failed)
        tell_transaction(work, _UPDATED, failed)


def _issue_if_kept(work: Work, invoice: Invoice) -> None:
    if invoice.status == InvoiceStatus.OPEN:
        issue(work, paid_today(work, invoice), may_be_empty=False, message=_ISSUED)
