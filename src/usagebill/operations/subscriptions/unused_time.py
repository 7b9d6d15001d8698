"""Unused time: credit for the remaining days of a fee paid in advance when a subscription ends early."""

from __future__ import annotations

from usagebill.core.contracts import Contract
from usagebill.core.errors import NotAllowed
from usagebill.core.invoices.records import Invoice
from usagebill.core.statuses import TaxStatus
from usagebill.core.subscriptions import TerminationCredit
from usagebill.operations import credit_notes
from usagebill.runtime.work import Work


def credit_unused_time(work: Work, ended: Contract, *, option: str, by_request: bool = False) -> None:
    """Issue the credit note for the remaining days of the ended subscription's fee, as `option` says.

    While the taxes of the fee's invoice are unknown, the note waits for them with the invoice; an end by request is
    refused until then (`NotAllowed`).
    """
    if option == TerminationCredit.SKIP:
        return
    note = credit_notes.on_termination(work, ended, option=option)
    if by_request and note is not None:
        invoice = work.tx.get(Invoice, note.invoice_id)
        if invoice is not None and invoice.tax_status == TaxStatus.PENDING:
            raise NotAllowed("cannot_terminate_with_pending_taxes")
