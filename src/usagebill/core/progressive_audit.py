"""The audit of progressive billing: usage billed ahead is billed once, and its period deducts all of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from usagebill.core.audit import Finding
from usagebill.core.credit_notes import CREDITED, CreditNote
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.life_cycle import BILLED_AHEAD, InvoiceStatus
from usagebill.core.invoices.progressive import billed_ahead_by
from usagebill.core.invoices.records import CreditType, Invoice


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceOfPeriod:
    """An invoice with its fees and its credit notes of all statuses."""

    invoice: Invoice
    fees: Sequence[Fee]
    notes: Sequence[CreditNote] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressivePeriod:
    """A usage window of a subscription: the progressive billing invoices that billed it ahead, in order of creation and
    voided ones too, and those in force that bill the period itself.
    """

    subscription_id: str
    external_id: str
    ahead: Sequence[InvoiceOfPeriod]
    closing: Sequence[InvoiceOfPeriod]


def audited_progressive(period: ProgressivePeriod) -> Iterator[Finding]:
    """The invoices in force together bill no more than one of them lists, and the period's invoice deducts as much as
    they billed, or all of its usage if that is less: then what is left was given back.

    Nothing is said about a period once one of its invoices was voided after it had been deducted.
    """
    standing = [billed for billed in period.ahead if billed.invoice.status in BILLED_AHEAD]
    if not standing:
        return
    billed_cents = sum(
        billed_ahead_by(billed.invoice, [note for note in billed.notes if note.credit_status in CREDITED])
        for billed in standing
    )
    # A surplus cannot be given back where a note made by hand has credited it before.
    forgiven = sum(
        note.sub_total_excluding_taxes_amount_cents
        for billed in standing
        for note in billed.notes
        if not note.automatic
    )
    most = max(billed.invoice.fees_amount_cents for billed in standing)
    if billed_cents - forgiven > most:
        yield _finding(period, standing[-1].invoice, "usage billed ahead", f"at most {most}", billed_cents)
    deducting = [closing for closing in period.closing if closing.invoice.status == InvoiceStatus.FINALIZED]
    if len(period.closing) != 1 or not deducting or len(standing) != len(period.ahead):
        return
    (closing,) = deducting
    charges = {fee.charge_id for fee in standing[-1].fees}
    usage = sum(
        fee.amount_cents
        for fee in closing.fees
        if fee.subscription_id == period.subscription_id and fee.fee_type == FeeType.CHARGE and fee.charge_id in charges
    )
    expected, deducted = min(billed_cents, usage), _deducted(closing.invoice, period)
    if deducted != expected:
        yield _finding(period, closing.invoice, "deducted of usage billed ahead", expected, deducted)
    elif billed_cents - forgiven > deducted:
        yield _finding(
            period, closing.invoice, "usage billed ahead and not given back", f"at most {deducted}", billed_cents
        )


def _deducted(closing: Invoice, period: ProgressivePeriod) -> int:
    ids = {billed.invoice.id for billed in period.ahead}
    return sum(
        credit.amount_cents
        for credit in closing.credits
        if credit.item_type == CreditType.INVOICE and credit.source_id in ids
    )


def _finding(period: ProgressivePeriod, invoice: Invoice, detail: str, expected: object, found: object) -> Finding:
    return Finding(
        check="credits",
        subject=f"subscription {period.external_id}",
        subject_id=period.subscription_id,
        detail=f"{detail}, invoice {invoice.number}",
        expected=str(expected),
        found=str(found),
    )
