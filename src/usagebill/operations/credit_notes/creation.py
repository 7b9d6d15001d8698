"""Creation of credit notes: checked, computed, numbered, stored, with the effects on their invoice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from zoneinfo import ZoneInfo

from usagebill.core.credit_note_balance import Balance
from usagebill.core.credit_note_remainders import within, within_parts
from usagebill.core.credit_note_requests import fitting_parts, requested_items, takes_notes, takes_parts
from usagebill.core.credit_notes import (
    CreditNote,
    CreditNoteItem,
    CreditNoteReason,
    CreditNoteStatus,
    Parts,
    fitted_to,
    note_number,
    with_amounts,
    withdrawn,
)
from usagebill.core.days import local_date
from usagebill.core.errors import Invalid, NotAllowed, NotFound
from usagebill.core.fees import Fee
from usagebill.core.invoices.changes import with_offset
from usagebill.core.invoices.life_cycle import VISIBLE, InvoiceType
from usagebill.core.invoices.payment_states import PaymentEvent
from usagebill.core.invoices.records import Invoice
from usagebill.core.metadata import Metadata, checked_metadata
from usagebill.core.numbers import round_cents, round_to
from usagebill.core.statuses import PaymentStatus
from usagebill.core.tax_providers import TaxSubject
from usagebill.core.wallets import WalletStatus
from usagebill.operations import synced_documents
from usagebill.operations.backlog import after_backlog, of_record
from usagebill.operations.credit_notes.inputs import CreditNoteInput
from usagebill.operations.documents.orders import order_on_issue
from usagebill.operations.emails.orders import email_on_issue
from usagebill.operations.issuers import version_of
from usagebill.operations.payment_status import due_changed, move_payment
from usagebill.operations.refunds import order_refund
from usagebill.operations.tax_connections import ask_about
from usagebill.operations.wallet_ledger import refund
from usagebill.queries.contracts import parties_of
from usagebill.queries.credit_note_balance import balance_of
from usagebill.queries.wallets import transaction_of_invoice, wallet_of
from usagebill.requests.inputs import Maybe, is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq
from usagebill.views.credit_notes import issued_credit_note
from usagebill.views.customers import customer_summary


@after_backlog(of_record(Invoice, "invoice_id"))
def create(work: Work, request: CreditNoteInput) -> CreditNote:
    """A credit note over items of an invoice's fees, split into credit, refund and offset of the invoice itself.

    Without `items`, the three amounts are spread over all fees: each is credited by the same share of what is left.
    Raises `NotFound` for the invoice or a fee, `NotAllowed` if the invoice cannot be credited, and `Invalid`.
    """
    invoice = credited_invoice(work, request.invoice_id)
    parts = Parts(
        credit=value_or(request.credit_amount_cents, 0),
        refund=value_or(request.refund_amount_cents, 0),
        offset=value_or(request.offset_amount_cents, 0),
    )
    if not takes_parts(invoice.invoice_type, invoice.payment_status, parts):
        raise NotAllowed("invalid_type_or_status", f"a {invoice.invoice_type} invoice, {invoice.status}")
    reason = value_or(request.reason, CreditNoteReason.OTHER)
    if reason not in tuple(CreditNoteReason):
        raise Invalid(reason="value_is_invalid")
    metadata = sent_metadata(request.metadata)
    balance = balance_of(work, invoice)
    by_item = is_given(request.items)
    items = requested_items(balance, request.items) if by_item else balance.spread(parts.total)
    return make(
        work,
        balance,
        items,
        parts,
        reason=CreditNoteReason(reason),
        description=value_or(request.description, None),
        metadata=metadata,
        exact=not by_item,
    )


def credited_invoice(reader: Reader, invoice_id: Maybe[str]) -> Invoice:
    """The invoice to credit. Raises `NotFound`, and `NotAllowed` if it cannot be credited."""
    invoice = reader.tx.get(Invoice, invoice_id or "")
    if invoice is None or invoice.status not in VISIBLE:
        raise NotFound("invoice", invoice_id)
    is_top_up = invoice.invoice_type == InvoiceType.CREDIT
    purchase = transaction_of_invoice(reader, invoice.id) if is_top_up else None
    wallet_is_active = purchase is not None and wallet_of(reader, purchase).status == WalletStatus.ACTIVE
    if not takes_notes(invoice.status, invoice.version_number, invoice.invoice_type, wallet_is_active=wallet_is_active):
        raise NotAllowed("invalid_type_or_status", f"a {invoice.invoice_type} invoice, {invoice.status}")
    return invoice


def sent_metadata(request: Maybe[Mapping[str, object]]) -> Metadata | None:
    """The sent metadata, None if absent. Raises `Invalid` as `checked_metadata` does."""
    return None if not is_given(request) or request is None else checked_metadata(request)


def _stored_item(reader: Reader, invoice: Invoice, fee: Fee, amount: Decimal) -> CreditNoteItem:
    return CreditNoteItem(
        id=reader.new_id(),
        fee_id=fee.id,
        amount_cents=round_cents(amount),
        precise_amount_cents=round_to(amount, 5),
        amount_currency=invoice.currency,
        created_at=reader.now,
    )


def make(
    work: Work,
    balance: Balance,
    items: Sequence[tuple[Fee, Decimal]],
    parts: Parts | None,
    *,
    reason: CreditNoteReason,
    description: str | None = None,
    metadata: Metadata | None = None,
    automatic: bool = False,
    checked: bool = False,
    exact: bool = False,
    of_void: bool = False,
    void: bool = False,
) -> CreditNote:
    """Store a note over `items` and send its messages; a note on a draft is a draft itself, and announced later.

    Without `parts` the whole amount is credit. `checked` parts are kept as they are, as far as other notes leave enough
    of the invoice; `exact` ones are kept, or refused. `of_void` marks a note made by the void of its invoice; a `void`
    note never has a balance. Raises `Invalid` for parts that do not fit the items or the invoice.
    """
    invoice = balance.invoice
    note_id = work.new_id()
    stored = tuple(_stored_item(work, invoice, fee, amount) for fee, amount in items)
    result = balance.credited(items, stored, now=work.now, new_id=work.new_id)
    requested = Parts(credit=result.total_cents) if parts is None else parts
    if checked:
        request = within_parts(requested, balance.remainder)
        result = within(request, result, balance.remainder, now=work.now, new_id=work.new_id)
    else:
        request = fitting_parts(balance, requested, result, exact=exact)
        result = fitted_to(request, result)
    parties = parties_of(work, invoice)
    position = balance.next_position
    note = CreditNote(
        id=note_id,
        organization_id=invoice.organization_id,
        customer_id=invoice.customer_id,
        invoice_id=invoice.id,
        billing_entity_id=invoice.billing_entity_id,
        number=note_number(invoice.number, position),
        sequential_id=position,
        issuing_date=local_date(work.now, ZoneInfo(parties.timezone)),
        currency=invoice.currency,
        reason=reason,
        description=description,
        status=balance.status_of_notes,
        refund_status=PaymentStatus.PENDING if request.refund > 0 else None,
        items=stored,
        metadata=metadata,
        self_billed=invoice.self_billed,
        purchase_order_number=invoice.purchase_order_number,
        automatic=automatic,
        of_void=of_void,
        created_at=work.now,
        updated_at=work.now,
    )
    note = with_amounts(note, request, result)
    if void:
        note = withdrawn(note, note.balance_amount_cents, work.now)
    if note.status == CreditNoteStatus.FINALIZED:
        note = replace(
            note,
            customer_snapshot=customer_summary(work, parties.customer, parties.entity),
            issuer_version_id=version_of(work, parties.issuer),
        )
    work.tx.insert(note)
    if note.status == CreditNoteStatus.FINALIZED:
        settle_invoice(work, invoice, request.offset)
        purchase = transaction_of_invoice(work, invoice.id) if invoice.invoice_type == InvoiceType.CREDIT else None
        if purchase is not None and request.refund > 0:
            refund(work, purchase, note.id, request.refund)
        tell(work, note)
    return note


def tell(work: Work, note: CreditNote) -> None:
    """Send the message that the note has been issued."""
    work.emit("credit_note.created", lambda: issued_credit_note(work, note), note.id)
    order_on_issue(work, note)
    email_on_issue(work, note)
    order_refund(work, note)
    invoice = work.tx.get(Invoice, note.invoice_id)
    if invoice is not None and invoice.tax_connection_id is not None:
        ask_about(work, TaxSubject.CREDIT_NOTE, note.id)
    synced_documents.note_issued(work, note)


def settle_invoice(work: Work, invoice: Invoice, cents: int) -> Invoice:
    """The invoice after an issued note has offset `cents` of it: paid once nothing is due."""
    if cents == 0:
        return invoice
    current = work.tx.first(Invoice, eq("id", invoice.id)) or invoice
    settled = with_offset(current, cents, work.now)
    work.tx.replace(settled)
    moved = move_payment(work, settled, PaymentEvent.OFFSET)
    if moved.due_cents > 0:
        due_changed(work, moved)
    return moved
