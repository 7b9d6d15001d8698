"""E-invoices: the figures of an invoice or credit note for its XML forms (UBL, CII).

Amounts here are (fractions of) cents; the forms write them in major units with two decimals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.days import local_date
from usagebill.core.documents.invoices import naming_of
from usagebill.core.documents.lines import fee_name
from usagebill.core.documents.locales import money_text, rate_text
from usagebill.core.documents.parties import Contact, customer_contact, entity_contact
from usagebill.core.documents.sources import CreditNoteSource, InvoiceSource
from usagebill.core.documents.words import words_of
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import InvoiceType
from usagebill.core.numbers import ZERO, add, divide, multiply, round_to, subtract, total
from usagebill.core.taxes import net_of_coupons, taxable

__all__ = [
    "COUNTRIES",
    "CREDIT_NOTE",
    "ElectronicDocument",
    "ElectronicLine",
    "Means",
    "TaxGroup",
    "credit_note_document",
    "invoice_document",
    "is_eligible",
]

COUNTRIES = ("FR", "DE")
INVOICE, CREDIT_INVOICE, SELF_BILLED, CREDIT_NOTE = "380", "386", "389", "381"
_STANDARD, _PREPAID, _CREDIT_NOTES = "1", "57", "97"
_HUNDRED = Decimal(100)
_RATE_DECIMALS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxGroup:
    """What is taxed at one rate (percent). `category`: S taxed, Z at rate zero, O outside the scope of the tax."""

    rate: Decimal
    category: str
    taxable: Decimal
    tax: Decimal
    allowance: Decimal = ZERO
    allowance_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectronicLine:
    """`price` is of one unit, in major units."""

    name: str
    description: str
    units: Decimal
    price: Decimal
    amount: Decimal
    rate: Decimal
    category: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """How an amount is paid: a code of UNTDID 4461, and the same in words."""

    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectronicDocument:
    """An invoice, or a credit note (type code 381), whose amounts and quantities are then negative.

    `payable_ubl` and `payable_cii` differ for credit notes, part of which may be refunded or settle its invoice.
    `corrects` is the number and issuing date of the invoice of a credit note.
    """

    id: str
    number: str
    type_code: str
    country: str
    currency: str
    issued: date
    notes: tuple[str, ...]
    buyer_reference: str | None
    order_number: str | None
    corrects: tuple[str, date] | None
    seller: Contact
    buyer: Contact
    seller_pays_tax: bool
    delivered: date
    means: tuple[Means, ...]
    terms: str
    due: date | None
    groups: tuple[TaxGroup, ...]
    taxes: Decimal
    line_total: Decimal
    allowances: Decimal
    charges: Decimal
    tax_exclusive: Decimal
    tax_inclusive: Decimal
    prepaid: Decimal
    payable_ubl: Decimal
    payable_cii: Decimal
    lines: tuple[ElectronicLine, ...]

    @property
    def is_credit_note(self) -> bool:
        return self.type_code == CREDIT_NOTE


def is_eligible(entity: BillingEntity) -> bool:
    """Whether documents of the entity get XML forms."""
    return entity.einvoicing and entity.country in COUNTRIES


def invoice_document(source: InvoiceSource) -> ElectronicDocument:
    """The e-invoice of an issued invoice."""
    invoice, words, locale = source.invoice, words_of(source.locale), source.locale
    credit = invoice.invoice_type == InvoiceType.CREDIT
    reductions = invoice.coupons_amount_cents + invoice.progressive_billing_credit_amount_cents
    prepaid, credited = invoice.prepaid_credit_amount_cents, invoice.credit_notes_amount_cents

    def money(cents: int) -> str:
        return money_text(cents, invoice.currency, locale)

    texts = [words.term.format(count=invoice.net_payment_term)]
    means = []
    if invoice.total_amount_cents > 0:
        means.append(Means(code=_STANDARD, text=words.payment_due.format(amount=money(invoice.total_amount_cents))))
    if prepaid > 0:
        texts.append(words.prepaid_applied.format(amount=money(prepaid)))
        means.append(Means(code=_PREPAID, text=texts[-1]))
    if credited > 0:
        texts.append(words.credit_notes_applied.format(amount=money(credited)))
        means.append(Means(code=_CREDIT_NOTES, text=texts[-1]))
    seller, buyer = _parties(source)
    return ElectronicDocument(
        id=invoice.id,
        number=invoice.number,
        type_code=SELF_BILLED if invoice.self_billed else CREDIT_INVOICE if credit else INVOICE,
        country=source.entity.country or "",
        currency=invoice.currency,
        issued=invoice.issuing_date,
        notes=(f"Invoice ID: {invoice.id}",),
        buyer_reference=_buyer_reference(source),
        order_number=invoice.purchase_order_number,
        corrects=None,
        seller=seller,
        buyer=buyer,
        seller_pays_tax=not credit,
        delivered=_delivered(source),
        means=tuple(means),
        terms=", ".join(texts),
        due=invoice.payment_due_date,
        groups=tuple(
            _invoice_group(rate, fees, source.fees, Decimal(reductions), credit, words.discount, locale)
            for rate, fees in _by_rate(source.fees).items()
        ),
        taxes=Decimal(invoice.taxes_amount_cents),
        line_total=Decimal(invoice.fees_amount_cents),
        allowances=Decimal(reductions),
        charges=ZERO,
        tax_exclusive=Decimal(invoice.sub_total_excluding_taxes_amount_cents),
        tax_inclusive=Decimal(invoice.sub_total_including_taxes_amount_cents),
        prepaid=Decimal(prepaid + credited),
        payable_ubl=Decimal(invoice.total_amount_cents),
        payable_cii=Decimal(invoice.total_amount_cents),
        lines=tuple(_invoice_lines(source, credit)),
    )


def _parties(source: InvoiceSource) -> tuple[Contact, Contact]:
    entity, customer = entity_contact(source.entity), customer_contact(source.customer)
    return (customer, entity) if source.invoice.self_billed else (entity, customer)


def _buyer_reference(source: InvoiceSource) -> str | None:
    return str(source.customer.get("external_id") or "") or None if source.entity.country == "DE" else None


def _delivered(source: InvoiceSource) -> date:
    """The start of the earliest period that is billed."""
    invoice = source.invoice
    starts: list[datetime] = []
    if invoice.invoice_type in (InvoiceType.SUBSCRIPTION, InvoiceType.PROGRESSIVE_BILLING, InvoiceType.ADVANCE_CHARGES):
        starts = [period.charges_from_datetime for period in source.periods if period.charges_from_datetime is not None]
    return local_date(min(starts, default=invoice.created_at), source.zone)


def _category(rate: Decimal, credit: bool) -> str:
    return "O" if credit else "Z" if rate.is_zero() else "S"


def _by_rate(fees: Sequence[Fee]) -> Mapping[Decimal, list[Fee]]:
    """Fees by their tax rate, the highest first."""
    by_rate: dict[Decimal, list[Fee]] = {}
    for fee in sorted(fees, key=_rate, reverse=True):
        by_rate.setdefault(_rate(fee), []).append(fee)
    return by_rate


def _rate(fee: Fee) -> Decimal:
    """The rate that the taxes of a fee come to on the whole of it.

    It is lower than that of its taxes if a provider taxes only a part of the fee, by more than a cent of rounding.
    """
    net = net_of_coupons(fee)
    untaxed = subtract(net, taxable(net, fee.taxes_base_rate))
    if multiply(untaxed, fee.taxes_rate).copy_abs() < _HUNDRED:
        return fee.taxes_rate
    return round_to(multiply(fee.taxes_rate, fee.taxes_base_rate), _RATE_DECIMALS)


def _invoice_group(
    rate: Decimal,
    fees: Sequence[Fee],
    all_fees: Sequence[Fee],
    reductions: Decimal,
    credit: bool,
    reason: str,
    locale: str,
) -> TaxGroup:
    gross = total(fee.precise_amount_cents for fee in fees)
    tax = total(fee.taxes_precise_amount_cents for fee in fees)
    if rate.is_zero():
        whole = total(fee.precise_amount_cents for fee in all_fees)
        allowance = ZERO if whole.is_zero() else divide(multiply(reductions, gross), whole)
    else:
        allowance = total(fee.precise_coupons_amount_cents for fee in fees)
    return TaxGroup(
        rate=rate,
        category=_category(rate, credit),
        taxable=subtract(gross, allowance),
        tax=tax,
        allowance=allowance,
        allowance_reason=reason.format(rate=rate_text(rate, locale)),
    )


def _invoice_lines(source: InvoiceSource, credit: bool) -> Iterable[ElectronicLine]:
    naming = naming_of(source)
    for fee in sorted(source.fees, key=lambda fee: (fee.amount_cents, fee.created_at, fee.id)):
        yield ElectronicLine(
            name=fee.item.name,
            description=fee_name(fee, naming),
            units=fee.units,
            price=fee.precise_unit_amount,
            amount=Decimal(fee.amount_cents),
            rate=_rate(fee),
            category=_category(_rate(fee), credit),
        )


def credit_note_document(source: CreditNoteSource) -> ElectronicDocument:
    """The electronic form of an issued credit note: what it takes back, in negative amounts."""
    note, of_invoice = source.note, source.invoice
    invoice, words = of_invoice.invoice, words_of(of_invoice.locale)
    credit = invoice.invoice_type == InvoiceType.CREDIT
    fees = {fee.id: fee for fee in of_invoice.fees}
    naming = naming_of(of_invoice)
    lines = []
    shares: dict[Decimal, tuple[Decimal, Decimal, Decimal]] = {}
    for item in sorted(note.items, key=lambda item: (item.amount_cents, item.id)):
        fee = fees.get(item.fee_id)
        if fee is None:
            continue
        part = ZERO if fee.amount_cents == 0 else divide(item.precise_amount_cents, Decimal(fee.amount_cents))
        coupons = multiply(fee.precise_coupons_amount_cents, part)
        base = taxable(subtract(item.precise_amount_cents, coupons), fee.taxes_base_rate)
        tax = divide(multiply(base, fee.taxes_rate), _HUNDRED)
        gross, reduced, taxes = shares.get(_rate(fee), (ZERO, ZERO, ZERO))
        shares[_rate(fee)] = (add(gross, item.precise_amount_cents), add(reduced, coupons), add(taxes, tax))
        lines.append(
            ElectronicLine(
                name=fee.item.name,
                description=fee_name(fee, naming),
                units=multiply(fee.units, part).copy_negate(),
                price=fee.precise_unit_amount,
                amount=Decimal(-item.amount_cents),
                rate=_rate(fee),
                category=_category(_rate(fee), credit),
            )
        )
    seller, buyer = _parties(of_invoice)
    coupons_cents = note.coupons_adjustment_amount_cents
    return ElectronicDocument(
        id=note.id,
        number=note.number,
        type_code=CREDIT_NOTE,
        country=of_invoice.entity.country or "",
        currency=note.currency,
        issued=note.issuing_date,
        notes=(f"Credit Note ID: {note.id}", f"Original Invoice: {invoice.number}", f"Reason: {note.reason}"),
        buyer_reference=_buyer_reference(of_invoice),
        order_number=note.purchase_order_number,
        corrects=(invoice.number, invoice.issuing_date),
        seller=seller,
        buyer=buyer,
        seller_pays_tax=not credit,
        delivered=local_date(note.created_at, of_invoice.zone),
        means=(Means(code=_STANDARD, text=words.settled_at_once),),
        terms=words.settled_at_once,
        due=None,
        groups=tuple(
            _note_group(rate, *shares[rate], credit, words.discount, of_invoice.locale)
            for rate in sorted(shares, reverse=True)
        ),
        taxes=Decimal(-note.taxes_amount_cents),
        line_total=Decimal(-sum(item.amount_cents for item in note.items)),
        allowances=ZERO,
        charges=Decimal(coupons_cents),
        tax_exclusive=Decimal(-note.sub_total_excluding_taxes_amount_cents),
        tax_inclusive=Decimal(-note.sub_total_excluding_taxes_amount_cents - note.taxes_amount_cents),
        prepaid=ZERO,
        payable_ubl=note.precise_total_amount_cents.copy_negate(),
        payable_cii=Decimal(-note.credit_amount_cents),
        lines=tuple(lines),
    )


def _note_group(
    rate: Decimal, gross: Decimal, reduced: Decimal, tax: Decimal, credit: bool, reason: str, locale: str
) -> TaxGroup:
    """What a note takes back at one rate; its share of the coupons is added as a charge."""
    return TaxGroup(
        rate=rate,
        category=_category(rate, credit),
        taxable=subtract(gross, reduced).copy_negate(),
        tax=tax.copy_negate(),
        allowance=reduced.copy_negate(),
        allowance_reason=reason.format(rate=rate_text(rate, locale)),
    )
