"""A bill: a computed invoice, with everything that is stored together with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from usagebill.core.charge_ledger import LedgerEntry
from usagebill.core.contracts import Contract, Parties
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import InvoiceEvent, InvoiceStatus
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.invoices.totals import Surplus
from usagebill.core.payments import Payment
from usagebill.core.statuses import TaxStatus
from usagebill.core.wallet_transactions import WalletTransaction


class Step(Enum):
    """The fate of an invoice once its bill is stored."""

    STAY = "stay"  # unchanged: a recomputed draft
    DRAFT = "draft"  # a draft until the grace period is over
    AWAIT_PAYMENT = "await_payment"  # hidden until it is paid
    ISSUE = "issue"  # numbered and sent; or closed if it is empty, or kept until its taxes are known


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """An invoice with its totals, computed but not stored yet, and everything needed to store it.

    `parties` are the customer and the issuer, `contracts` the billed ones that were looked up. `periods` are those of a
    new invoice; a stored one keeps its own. `fees` are all of its lines, `standalone_fees` those of the same billing
    that are on no invoice. `ledger_entries` are the state of usage afterwards. `changed` are the coupons, credit notes
    and already paid fees that the invoice used, as updated. `prepaid` are the new transactions by which wallets pay for
    it. `surpluses` are what progressive billing invoices have to give back. If `tax_request_id` is set, the customer's
    tax provider is asked for the taxes.

    With `may_be_empty`, a zero invoice is closed unless its customer is sent such invoices. `message` is sent once it
    is issued.
    """

    invoice: Invoice
    parties: Parties
    contracts: tuple[Contract, ...] = ()
    step: Step = Step.ISSUE
    periods: tuple[BillingPeriod, ...] = ()
    fees: tuple[Fee, ...] = ()
    standalone_fees: tuple[Fee, ...] = ()
    ledger_entries: tuple[LedgerEntry, ...] = ()
    payment: Payment | None = None
    changed: tuple[object, ...] = ()
    prepaid: tuple[WalletTransaction, ...] = ()
    surpluses: tuple[Surplus, ...] = ()
    may_be_empty: bool = True
    message: str = "invoice.created"

    @property
    def is_new(self) -> bool:
        """Whether the invoice is not stored yet."""
        return self.invoice.status == InvoiceStatus.GENERATING


def issuing_event(invoice: Invoice, *, may_be_empty: bool, sends_empty: bool) -> InvoiceEvent:
    """The event of an invoice that is to be issued: it is closed, kept until its taxes are known, or finalized.

    A zero invoice is closed if it `may_be_empty` and its customer is not sent such invoices (`sends_empty`).
    """
    if may_be_empty and invoice.fees_amount_cents == 0 and not sends_empty:
        return InvoiceEvent.CLOSE
    return InvoiceEvent.AWAIT_TAXES if invoice.tax_status == TaxStatus.PENDING else InvoiceEvent.FINALIZE
