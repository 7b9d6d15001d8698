"""Credit notes: how much of an invoice can be credited, the amounts of a note, and the use of its balance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from usagebill.core.error_details import ErrorDetail
from usagebill.core.fees import AppliedTax, Fee, TaxKey
from usagebill.core.life_cycles import following
from usagebill.core.numbers import (
    ONE,
    ZERO,
    add,
    divide,
    multiply,
    round_cents,
    round_to,
    subtract,
    total,
    truncate_cents,
)
from usagebill.core.statuses import PaymentStatus
from usagebill.core.taxes import lines_in_cents, net_of_coupons, taxable

_DECIMALS = 5
_HUNDRED = Decimal(100)


class CreditNoteReason(StrEnum):
    """The reason for a credit."""

    DUPLICATED_CHARGE = "duplicated_charge"
    PRODUCT_UNSATISFACTORY = "product_unsatisfactory"
    ORDER_CHANGE = "order_change"
    ORDER_CANCELLATION = "order_cancellation"
    FRAUDULENT_CHARGE = "fraudulent_charge"
    OTHER = "other"


class CreditNoteStatus(StrEnum):
    """The state of a note: a draft while its invoice is one."""

    DRAFT = "draft"
    FINALIZED = "finalized"
    DELETED = "deleted"


class CreditStatus(StrEnum):
    """The state of a note's balance."""

    AVAILABLE = "available"
    CONSUMED = "consumed"
    VOIDED = "voided"


# Notes in these states reduce the amount billed.
CREDITED = (CreditStatus.AVAILABLE, CreditStatus.CONSUMED)


class CreditNoteEvent(StrEnum):
    """Events that change the status of a note's balance."""

    USE_UP = "use_up"
    VOID = "void"
    RESTORE = "restore"  # an invoice that had used it was undone


TRANSITIONS: Mapping[tuple[CreditStatus, CreditNoteEvent], CreditStatus] = {
    (CreditStatus.AVAILABLE, CreditNoteEvent.USE_UP): CreditStatus.CONSUMED,
    (CreditStatus.AVAILABLE, CreditNoteEvent.VOID): CreditStatus.VOIDED,
    (CreditStatus.AVAILABLE, CreditNoteEvent.RESTORE): CreditStatus.AVAILABLE,
    (CreditStatus.CONSUMED, CreditNoteEvent.RESTORE): CreditStatus.AVAILABLE,
    (CreditStatus.VOIDED, CreditNoteEvent.RESTORE): CreditStatus.AVAILABLE,
}


def transition(status: CreditStatus, event: CreditNoteEvent) -> CreditStatus:
    """The status that follows `event`; raises `TransitionError` if `TRANSITIONS` has none."""
    return following(TRANSITIONS, status, event)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditNoteItem:
    """Part of a fee, before taxes and coupons. `precise_amount_cents` has 5 decimals."""

    id: str
    fee_id: str
    amount_cents: int
    precise_amount_cents: Decimal
    amount_currency: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditNote:
    """The total is credit + refund + offset; the balance is the unused part of the credit.

    `voided_amount_cents` is the part of the credit that a person voided, `withdrawn_amount_cents` the part that was
    withdrawn when the note's own invoice was voided, for lines that nobody had paid. `of_void` says that the note was
    made by such a void. Amounts are whole cents of `currency`, taxes included and coupons taken off.
    """

    id: str
    organization_id: str
    customer_id: str
    invoice_id: str
    billing_entity_id: str
    number: str
    sequential_id: int
    issuing_date: date
    currency: str
    reason: CreditNoteReason
    created_at: datetime
    updated_at: datetime
    status: CreditNoteStatus = CreditNoteStatus.FINALIZED
    credit_status: CreditStatus = CreditStatus.AVAILABLE
    refund_status: PaymentStatus | None = None
    description: str | None = None
    total_amount_cents: int = 0
    credit_amount_cents: int = 0
    refund_amount_cents: int = 0
    offset_amount_cents: int = 0
    balance_amount_cents: int = 0
    voided_amount_cents: int = 0
    withdrawn_amount_cents: int = 0
    taxes_amount_cents: int = 0
    precise_taxes_amount_cents: Decimal = Decimal(0)
    taxes_rate: Decimal = Decimal(0)
    sub_total_excluding_taxes_amount_cents: int = 0
    coupons_adjustment_amount_cents: int = 0
    precise_coupons_adjustment_amount_cents: Decimal = Decimal(0)
    precise_total_amount_cents: Decimal = Decimal(0)
    items: tuple[CreditNoteItem, ...] = ()
    applied_taxes: tuple[AppliedTax, ...] = ()
    metadata: Mapping[str, str | None] | None = None
    self_billed: bool = False
    purchase_order_number: str | None = None
    voided_at: datetime | None = None
    refunded_at: datetime | None = None
    automatic: bool = False
    of_void: bool = False
    error_details: tuple[ErrorDetail, ...] = ()
    customer_snapshot: Mapping[str, object] | None = None
    # The billing entity at the time of issue (a `BillingEntityVersion`).
    issuer_version_id: str | None = None
    # Its documents.
    pdf_id: str | None = None
    xml_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The split of a note's total: balance for later invoices, refund, or offset of its own invoice (cents)."""

    credit: int = 0
    refund: int = 0
    offset: int = 0

    @property
    def total(self) -> int:
        """All parts together, in cents."""
        return self.credit + self.refund + self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Credited:
    """The amounts of a set of items. `precise_*` have 5 decimals, the rest are whole cents.

    With `limited` other notes leave less (or, for the last one, more) of the invoice than the items come to: the
    amounts are what they leave.
    """

    items_precise: Decimal
    coupons_adjustment_precise: Decimal
    taxes_precise: Decimal
    taxes_cents: int
    taxes_rate: Decimal
    sub_total_cents: int
    lines: tuple[AppliedTax, ...]
    limited: bool = False

    @property
    def coupons_adjustment_cents(self) -> int:
        """The discount of coupons on the items, in whole cents."""
        return round_cents(self.coupons_adjustment_precise)

    @property
    def precise_total(self) -> Decimal:
        """Items less coupons plus taxes, in fractions of cents."""
        return add(subtract(self.items_precise, self.coupons_adjustment_precise), self.taxes_precise)

    @property
    def total_cents(self) -> int:
        """The same, rounded once; if `limited`, what the other notes leave."""
        return self.sub_total_cents + self.taxes_cents if self.limited else round_cents(self.precise_total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The most that a note could credit, in whole cents, and the taxes in it."""

    max_creditable_cents: int
    max_refundable_cents: int
    taxes_cents: int


def creditable_fee(fee: Fee, items: Sequence[CreditNoteItem]) -> int:
    """The creditable amount of a fee (cents, before taxes and coupons); items of all notes count, voided ones too."""
    return fee.amount_cents - sum(item.amount_cents for item in items if item.fee_id == fee.id)


def creditable_invoice(
    fees: Sequence[Fee], items: Sequence[CreditNoteItem], reductions_cents: int, fees_amount_cents: int
) -> Decimal:
    """The creditable amount of an invoice, taxes included, in (fractions of) cents.

    `items` are those of all its notes; `reductions_cents` its coupons and progressive billing credits together. The
    rest of a fee is worth its amount less its own share of these.
    """
    creditable = {fee.id: creditable_fee(fee, items) for fee in fees}
    if sum(creditable.values()) == 0 or fees_amount_cents == 0:
        return ZERO
    # Reductions that no fee holds are spread evenly: fractions of a cent, and progressive billing credits
    # for usage that this invoice does not bill.
    unheld = subtract(Decimal(reductions_cents), total(fee.precise_coupons_amount_cents for fee in fees))
    whole = tax = ZERO
    for fee in fees:
        if fee.amount_cents == 0:
            continue
        evenly = divide(multiply(unheld, Decimal(fee.amount_cents)), Decimal(fees_amount_cents))
        net_of_fee = subtract(net_of_coupons(fee), evenly)
        net = divide(multiply(net_of_fee, Decimal(creditable[fee.id])), Decimal(fee.amount_cents))
        whole = add(whole, net)
        tax = add(tax, _tax_of(net, fee))
    return add(round_to(whole, _DECIMALS), Decimal(round_cents(tax)))


def _tax_of(net: Decimal, fee: Fee) -> Decimal:
    """The tax on `net` cents of the fee."""
    return divide(multiply(taxable(net, fee.taxes_base_rate), fee.taxes_rate), _HUNDRED)


def refundable_invoice(creditable: Decimal, paid_cents: int, refunded_cents: int) -> int:
    """The refundable amount of an invoice in cents: at most the paid amount not refunded yet, and at most what is
    creditable.
    """
    return max(0, truncate_cents(min(Decimal(paid_cents - refunded_cents), creditable)))


def credited(
    items: Sequence[tuple[Fee, Decimal]],
    invoice_lines: Sequence[AppliedTax],
    *,
    last_note_excess: Decimal | None,
    currency: str,
    now: datetime,
    new_id: Callable[[], str],
) -> Credited:
    """The amounts of items (fee, precise amount before taxes and coupons), with coupons and taxes in proportion to the
    fee.

    Rates and names come from the invoice's own tax lines. `last_note_excess` is set for the note that uses up the
    invoice: the sum, over the other notes, of rounded less precise taxes; subtracting it makes the notes' taxes add up
    to the invoice's.
    """
    lines_by_key = {line.key: line for line in invoice_lines}
    items_precise = total(amount for _, amount in items)
    bases: dict[TaxKey, Decimal] = {}
    taxed: dict[TaxKey, Decimal] = {}
    adjustment = ZERO
    for fee, amount in items:
        share = ZERO if fee.amount_cents == 0 else divide(amount, Decimal(fee.amount_cents))
        coupon_share = multiply(fee.precise_coupons_amount_cents, share)
        adjustment = add(adjustment, coupon_share)
        for line in fee.applied_taxes:
            net_of_item = subtract(amount, coupon_share)
            bases[line.key] = add(bases.get(line.key, ZERO), net_of_item)
            taxed[line.key] = add(taxed.get(line.key, ZERO), taxable(net_of_item, fee.taxes_base_rate))
    adjustment = round_to(adjustment, _DECIMALS)
    net = subtract(items_precise, adjustment)
    sources = [(key, lines_by_key[key]) for key in bases if key in lines_by_key]
    rates = [ZERO if net == ZERO else multiply(divide(bases[key], net), source.rate) for key, source in sources]
    exact = [divide(multiply(taxed[key], source.rate), _HUNDRED) for key, source in sources]
    taxes = total(exact)
    lines = [
        replace(
            source,
            id=new_id(),
            amount_cents=cents,
            amount_currency=currency,
            created_at=now,
            base_amount_cents=round_cents(taxed[key]),
            precise_amount_cents=round_to(raw, _DECIMALS),
        )
        for (key, source), raw, cents in zip(sources, exact, lines_in_cents(exact, round_cents(taxes)), strict=True)
    ]
    if last_note_excess is not None:
        taxes = subtract(taxes, last_note_excess)
    taxes = round_to(taxes, _DECIMALS)
    return Credited(
        items_precise=items_precise,
        coupons_adjustment_precise=adjustment,
        taxes_precise=taxes,
        taxes_cents=round_cents(taxes),
        taxes_rate=round_to(total(rates), _DECIMALS),
        sub_total_cents=round_cents(net),
        lines=tuple(lines),
    )


def adjusted_parts(parts: Parts, result: Credited, most: Parts | None = None) -> Parts:
    """The parts as stored, moved by the cent or two that separate them from the rounded subtotal and taxes.

    The credit is moved if there is any, else the larger of refund and offset, so a note that is all refund or all
    offset stays so. No part is raised beyond `most` or lowered below zero: then the parts stay, and the subtotal takes
    the cents (`fitted_to`).
    """
    step = result.sub_total_cents + result.taxes_cents - parts.total
    if step == 0:
        return parts
    if parts.credit > 0 or not parts.total:
        name, limit = "credit", None if most is None else most.credit
    elif parts.refund >= parts.offset:
        name, limit = "refund", None if most is None else most.refund
    else:
        name, limit = "offset", None if most is None else most.offset
    amount = getattr(parts, name) + step
    if amount < 0 or (step > 0 and limit is not None and amount > limit):
        return parts
    return replace(parts, **{name: amount})


def fitted_to(parts: Parts, result: Credited) -> Credited:
    """The amounts of items; rounding cents go to the amount before taxes, so that it and the taxes equal `parts`."""
    return replace(result, sub_total_cents=parts.total - result.taxes_cents)


def note_number(invoice_number: str, position: int) -> str:
    """The number of an invoice's note at this position, from 1: `<number of the invoice>-CN001`."""
    return f"{invoice_number}-CN{position:03d}"


def largest_parts(parts: Parts, of_other_notes: Parts, *, gross_cents: int, total_cents: int, paid_cents: int) -> Parts:
    """The most that each of `parts` may be raised to while the other two stay; see `validation_errors`."""
    room_cents = gross_cents - of_other_notes.total + 1 - parts.total
    return Parts(
        credit=parts.credit + room_cents,
        refund=min(parts.refund + room_cents, paid_cents - of_other_notes.refund),
        offset=min(parts.offset + room_cents, total_cents - paid_cents - of_other_notes.offset),
    )


def estimated(result: Credited, refundable_cents: int) -> Estimate:
    """The most that a note over these items could credit; `refundable_cents` is what the invoice may still refund.

    If subtotal and taxes add up to a cent more than their sum rounded once, the estimate lowers the taxes, while a
    note that is created raises its total (`adjusted_parts`).
    """
    creditable, taxes = result.total_cents, result.taxes_cents
    refundable = min(creditable, refundable_cents)
    net = creditable - taxes
    if net > result.sub_total_cents:
        creditable -= 1
    elif net < result.sub_total_cents and taxes > 0:
        taxes -= 1
    return Estimate(max_creditable_cents=creditable, max_refundable_cents=refundable, taxes_cents=taxes)


def gross_total(fees: Sequence[Fee]) -> int:
    """The invoice's fees with their taxes, before coupons: the ceiling for all credit notes."""
    amount = sum(fee.amount_cents for fee in fees)
    taxes = total(_tax_of(Decimal(fee.amount_cents), fee) for fee in fees)
    return amount + round_cents(taxes)


def validation_errors(
    parts: Parts,
    result: Credited,
    *,
    gross_cents: int,
    total_cents: int,
    paid_cents: int,
    payment_succeeded: bool,
    of_other_notes: Parts,
    top_up: bool = False,
) -> dict[str, list[str]]:
    """The errors of a note with these parts: field -> codes, empty if it is valid.

    `of_other_notes` sums the parts of the invoice's other finalized notes (voided ones included); `gross_cents` is
    `gross_total`, `total_cents` the invoice's total and `paid_cents` the amount paid. A `top_up` of a wallet can only
    be refunded, or offset as a whole while nothing is paid.
    """
    errors: dict[str, list[str]] = {}

    def refuse(field: str, code: str) -> None:
        if code not in errors.setdefault(field, []):
            errors[field].append(code)

    for field, cents in (
        ("credit_amount_cents", parts.credit),
        ("refund_amount_cents", parts.refund),
        ("offset_amount_cents", parts.offset),
    ):
        if cents < 0:
            refuse(field, "invalid_value")
    if parts.refund > 0 and (paid_cents <= 0 or (not payment_succeeded and paid_cents == total_cents)):
        refuse("refund_amount_cents", "cannot_refund_unpaid_invoice")
    if parts.refund > max(0, paid_cents - of_other_notes.refund):
        refuse("refund_amount_cents", "higher_than_remaining_invoice_amount")
    if top_up and parts.credit > 0:
        refuse("credit_amount_cents", "cannot_credit_invoice")
    if parts.credit > gross_cents - of_other_notes.credit - of_other_notes.offset + 1:
        refuse("credit_amount_cents", "higher_than_remaining_invoice_amount")
    if top_up and parts.offset > 0 and paid_cents > 0:
        refuse("offset_amount_cents", "cannot_apply_to_paid_invoice")
    if top_up and parts.offset not in (0, total_cents):
        refuse("offset_amount_cents", "not_equal_to_total_amount")
    due = total_cents - paid_cents - of_other_notes.offset
    if parts.offset > max(0, min(due, gross_cents - of_other_notes.credit - of_other_notes.offset)):
        refuse("offset_amount_cents", "higher_than_remaining_invoice_amount")
    worth = {result.total_cents, round_cents(result.precise_total)}
    if all(abs(parts.total - cents) > 1 for cents in worth):
        refuse("base", "does_not_match_item_amounts")
    if parts.total > gross_cents - of_other_notes.total + 1:
        refuse("base", "higher_than_remaining_invoice_amount")
    if parts.total <= 0:
        refuse("base", "total_amount_must_be_positive")
    return errors


def after_use(note: CreditNote, amount_cents: int, now: datetime) -> CreditNote:
    """The note after `amount_cents` of its balance went to an invoice."""
    balance = note.balance_amount_cents - amount_cents
    if balance < 0:
        raise ValueError(f"{amount_cents} of a balance of {note.balance_amount_cents}")
    status = note.credit_status if balance else transition(note.credit_status, CreditNoteEvent.USE_UP)
    return replace(note, balance_amount_cents=balance, credit_status=status, updated_at=now)


def restored(note: CreditNote, amount_cents: int, now: datetime) -> CreditNote:
    """The note after `amount_cents` of its balance came back from an invoice that was voided, or never issued.

    They come back even if what had been left of the note was voided meanwhile.
    """
    return replace(
        note,
        balance_amount_cents=note.balance_amount_cents + amount_cents,
        credit_status=transition(note.credit_status, CreditNoteEvent.RESTORE),
        updated_at=now,
    )


def withdrawn(note: CreditNote, amount_cents: int, now: datetime) -> CreditNote:
    """The note after `amount_cents` of its balance were withdrawn, because its invoice was voided and had not been
    paid.
    """
    balance = note.balance_amount_cents - amount_cents
    if balance < 0:
        raise ValueError(f"{amount_cents} of a balance of {note.balance_amount_cents}")
    return replace(
        note,
        balance_amount_cents=balance,
        withdrawn_amount_cents=note.withdrawn_amount_cents + amount_cents,
        credit_status=note.credit_status if balance else transition(note.credit_status, CreditNoteEvent.VOID),
        voided_at=note.voided_at if balance else now,
        updated_at=now,
    )


def voided(note: CreditNote, now: datetime) -> CreditNote:
    """The note without its balance."""
    return replace(
        note,
        credit_status=transition(note.credit_status, CreditNoteEvent.VOID),
        balance_amount_cents=0,
        voided_amount_cents=note.voided_amount_cents + note.balance_amount_cents,
        voided_at=now,
        updated_at=now,
    )


def with_amounts(note: CreditNote, parts: Parts, result: Credited) -> CreditNote:
    """The note split into `parts`, with the amounts of its items."""
    return replace(
        note,
        total_amount_cents=parts.total,
        credit_amount_cents=parts.credit,
        refund_amount_cents=parts.refund,
        offset_amount_cents=parts.offset,
        balance_amount_cents=parts.credit,
        taxes_amount_cents=result.taxes_cents,
        precise_taxes_amount_cents=result.taxes_precise,
        taxes_rate=result.taxes_rate,
        sub_total_excluding_taxes_amount_cents=result.sub_total_cents,
        coupons_adjustment_amount_cents=result.coupons_adjustment_cents,
        precise_coupons_adjustment_amount_cents=result.coupons_adjustment_precise,
        precise_total_amount_cents=result.precise_total,
        applied_taxes=result.lines,
    )


def share_over_fees(fees: Sequence[Fee], credit_cents: int, remaining_cents: int) -> list[Fee]:
    """The fees with their shares of a credit note of `credit_cents` on an invoice with `remaining_cents` due."""
    if remaining_cents <= 0:
        return list(fees)
    shared = []
    for fee in fees:
        after_tax = add(net_of_coupons(fee), Decimal(fee.taxes_amount_cents))
        remaining = subtract(after_tax, fee.precise_credit_notes_amount_cents)
        part = divide(multiply(Decimal(credit_cents), remaining), Decimal(remaining_cents))
        credited = round_to(add(fee.precise_credit_notes_amount_cents, part), _DECIMALS)
        shared.append(replace(fee, precise_credit_notes_amount_cents=min(credited, after_tax)))
    return shared


def surplus_items(fees: Sequence[Fee], creditable: Mapping[str, int], cents: int) -> list[tuple[Fee, Decimal, int]]:
    """Items that credit `cents` of the fees, before taxes and less their shares of coupons and progressive billing
    credits, largest fees first: fee, amount of the item (before these shares), and cents taken.

    `creditable` is the remaining creditable amount of each fee, before these shares.
    """
    items = []
    for fee in sorted(fees, key=lambda fee: (-net_of_coupons(fee), fee.id)):
        whole, net = Decimal(fee.amount_cents), net_of_coupons(fee)
        room = 0
        if fee.amount_cents > 0:
            room = truncate_cents(divide(multiply(net, Decimal(creditable[fee.id])), whole))
        moved = min(cents, room)
        if moved > 0:
            items.append((fee, round_to(divide(multiply(Decimal(moved), whole), net), _DECIMALS), moved))
            cents -= moved
    return items


def proportional_items(creditable: Mapping[str, int], wanted_cents: int, base_cents: int) -> dict[str, Decimal]:
    """Items that credit `wanted_cents` of `base_cents` over all fees: fee id -> amount, without zero amounts.

    Amounts have the 5 decimals that items are stored with.
    """
    part, base = (Decimal(wanted_cents), Decimal(base_cents)) if base_cents else (ONE, ONE)
    return {
        fee_id: round_to(divide(multiply(Decimal(cents), part), base), _DECIMALS)
        for fee_id, cents in creditable.items()
        if cents > 0
    }
