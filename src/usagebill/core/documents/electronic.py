"""E-invoices: the figures of an invoice or credit note for its XML forms (UBL, CII), as EN 16931 requires them.

Amounts here are major units with two decimals; prices and quantities are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal

from usagebill.core.billing_entities import BillingEntity, einvoicing_gaps
from usagebill.core.currencies import exponent, major_from_cents
from usagebill.core.days import local_date
from usagebill.core.documents.elements import cleaned, exact_text
from usagebill.core.documents.invoices import naming_of, supplied
from usagebill.core.documents.lines import fee_name
from usagebill.core.documents.locales import money_text, rate_text
from usagebill.core.documents.parties import Contact, customer_contact, entity_contact
from usagebill.core.documents.sources import CreditNoteSource, InvoiceSource
from usagebill.core.documents.stated import Kind, Line, Stated, stated
from usagebill.core.documents.words import Words, words_of
from usagebill.core.fees import AppliedTax, Fee
from usagebill.core.invoices.life_cycle import SUBSCRIPTION_TYPES, InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import ONE, ZERO, divide, multiply, round_to, subtract, total
from usagebill.core.taxes import net_of_coupons, taxable
from usagebill.core.vat import GOODS_EXPORT, REVERSE_CHARGE, STANDARD_RATES, TAX_EXEMPT, is_vat_number

COUNTRIES = ("FR", "DE")
INVOICE, CREDIT_INVOICE, SELF_BILLED, CREDIT_NOTE = "380", "386", "389", "381"
_STANDARD, _PREPAID, _CREDIT_NOTES = "1", "57", "97"
_TAXED, _ZERO_RATED, _EXEMPT, _REVERSE_CHARGE, _EXPORT, _OUTSIDE = "S", "Z", "E", "AE", "G", "O"
_HUNDRED = Decimal(100)
_RATE_DECIMALS = 6
_PRICE_DECIMALS = 15
# The reason why a category has no tax, as a VATEX code.
EXEMPTIONS = {_OUTSIDE: "VATEX-EU-O", _REVERSE_CHARGE: "VATEX-EU-AE", _EXPORT: "VATEX-EU-G"}
# The most that quantity times price may deviate from the amount of a line, in major units.
_LINE_TOLERANCE = Decimal("0.01")
_STATED_DECIMALS = 2
# Currencies missing from the code lists of EN 16931: there are no e-invoices in them.
_UNLISTED_CURRENCIES = frozenset({"ANG", "BGN", "HRK", "MRO", "SLL", "STD"})
_UNLISTED_COUNTRIES = frozenset({"SS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxGroup:
    """Lines taxed alike, at a rate in percent.

    `category`: S taxed, Z zero rate, E exempt, AE reverse charge, G goods exported from the EU, O outside the scope of
    the tax; `reason` says why there is no tax. `allowance` is the group's part of the reductions.
    """

    rate: Decimal
    category: str
    taxable: Decimal
    tax: Decimal
    reason: str = ""
    allowance: Decimal = ZERO
    allowance_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectronicLine:
    """`price` is the price of `base` units, or of one unit if `base` is null."""

    name: str
    description: str
    units: Decimal
    price: Decimal
    base: Decimal | None
    amount: Decimal
    rate: Decimal
    category: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """How an amount is paid: a code of UNTDID 4461, and its description."""

    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectronicDocument:
    """An invoice, or a credit note (type code 381), whose positive amounts are those it takes back.

    `corrects` is the number and issuing date of a credit note's invoice. `is_xrechnung`: it meets all requirements of
    XRechnung beyond EN 16931. Figures are described at `Stated`.
    """

    id: str
    number: str
    type_code: str
    currency: str
    issued: date
    notes: tuple[str, ...]
    is_xrechnung: bool
    buyer_reference: str | None
    order_number: str | None
    corrects: tuple[str, date] | None
    seller: Contact
    buyer: Contact
    seller_pays_tax: bool
    delivered: date
    means: Means | None
    terms: str
    due: date | None
    groups: tuple[TaxGroup, ...]
    taxes: Decimal
    line_total: Decimal
    allowances: Decimal
    tax_exclusive: Decimal
    tax_inclusive: Decimal
    prepaid: Decimal
    rounding: Decimal
    payable: Decimal
    lines: tuple[ElectronicLine, ...]

    @property
    def is_credit_note(self) -> bool:
        return self.type_code == CREDIT_NOTE


def is_eligible(entity: BillingEntity) -> bool:
    """Whether documents of the entity get XML forms."""
    return entity.einvoicing and entity.country in COUNTRIES


def gaps(source: InvoiceSource) -> dict[str, list[str]]:
    """The details that an invoice and its credit notes lack for EN 16931, as field -> codes; empty if there are none.

    Fields are those of `billing_entity`, `customer` and the invoice itself.
    """
    names = ("customer", "billing_entity") if source.invoice.self_billed else ("billing_entity", "customer")
    seller, buyer = _parties(source)
    problems: dict[str, list[str]] = {}
    for name, contact in zip(names, (seller, buyer), strict=True):
        if not contact.country:
            problems[f"{name}.country"] = ["value_is_mandatory"]
        elif contact.country in _UNLISTED_COUNTRIES:
            problems[f"{name}.country"] = ["country_not_supported"]
    if not cleaned(seller.tax_number):
        problems[f"{names[0]}.tax_identification_number"] = ["value_is_mandatory"]
    elif not is_vat_number(seller.tax_number):
        problems[f"{names[0]}.tax_identification_number"] = ["value_is_invalid"]
    if source.invoice.currency in _UNLISTED_CURRENCIES:
        problems["currency"] = ["value_is_invalid"]
    return problems


def type_code_of(invoice: Invoice) -> str:
    """The type code of the invoice, UNTDID 1001."""
    if invoice.self_billed:
        return SELF_BILLED
    return CREDIT_INVOICE if invoice.invoice_type == InvoiceType.CREDIT else INVOICE


def invoice_document(source: InvoiceSource) -> ElectronicDocument:
    """The e-invoice of an issued invoice."""
    invoice, words, locale = source.invoice, words_of(source.locale), source.locale
    prepaid, credited = invoice.prepaid_credit_amount_cents, invoice.credit_notes_amount_cents
    fees = sorted(source.fees, key=lambda fee: (fee.amount_cents, fee.created_at, fee.id))
    taxes = _taxes([(fee, net_of_coupons(fee)) for fee in fees], invoice.applied_taxes)
    kinds = kinds_of(source)
    figures = stated(
        [
            Line(
                kind=kinds(fee),
                amount=Decimal(fee.amount_cents),
                reduction=fee.precise_coupons_amount_cents,
                tax=tax,
            )
            for fee, tax in zip(fees, taxes, strict=True)
        ]
        or [_NOTHING],
        currency=invoice.currency,
        reductions=invoice.coupons_amount_cents + invoice.progressive_billing_credit_amount_cents,
        taxes=invoice.taxes_amount_cents,
        prepaid=prepaid + credited,
        payable=invoice.total_amount_cents,
    )
    texts = [words.term.format(count=invoice.net_payment_term)]
    if prepaid > 0:
        texts.append(words.prepaid_applied.format(amount=money_text(prepaid, invoice.currency, locale)))
    if credited > 0:
        texts.append(words.credit_notes_applied.format(amount=money_text(credited, invoice.currency, locale)))
    naming = naming_of(source)
    lines = (
        _line(source, fee, fee_name(fee, naming), fee.units, amount, kinds(fee))
        for fee, amount in zip(fees, figures.lines, strict=False)
    )
    seller, buyer = _parties(source)
    return ElectronicDocument(
        id=invoice.id,
        number=invoice.number,
        type_code=type_code_of(invoice),
        currency=invoice.currency,
        issued=invoice.issuing_date,
        notes=(f"Invoice ID: {invoice.id}", *_exact_amounts(source, invoice.total_amount_cents)),
        is_xrechnung=_is_xrechnung(source, seller, buyer),
        buyer_reference=_buyer_reference(source),
        order_number=invoice.purchase_order_number,
        corrects=None,
        seller=seller,
        buyer=buyer,
        seller_pays_tax=not _is_outside(source),
        delivered=_delivered(source),
        means=_means(source, words),
        terms=", ".join(texts),
        due=invoice.payment_due_date,
        groups=tuple(_groups(figures, words, source)),
        taxes=figures.taxes,
        line_total=figures.line_total,
        allowances=figures.reductions,
        tax_exclusive=figures.tax_exclusive,
        tax_inclusive=figures.tax_inclusive,
        prepaid=figures.prepaid,
        rounding=figures.rounding,
        payable=figures.payable,
        lines=tuple(lines) or (_empty_line(words),),
    )


# A zero invoice has a line too: the standard requires one.
_NOTHING = Line(kind=(_ZERO_RATED, ZERO), amount=ZERO, reduction=ZERO, tax=ZERO)


def _empty_line(words: Words) -> ElectronicLine:
    category, rate = _NOTHING.kind
    return ElectronicLine(
        name=words.invoice,
        description="",
        units=ONE,
        price=ZERO,
        base=None,
        amount=ZERO,
        rate=rate,
        category=category,
    )


def _means(source: InvoiceSource, words: Words) -> Means | None:
    """How the invoice is paid: the means for the amount due, else those it was paid by. The standard allows only
    one.
    """
    invoice = source.invoice

    def text(template: str, cents: int) -> str:
        return template.format(amount=money_text(cents, invoice.currency, source.locale))

    if invoice.total_amount_cents > 0:
        return Means(code=_STANDARD, text=text(words.payment_due, invoice.total_amount_cents))
    if invoice.prepaid_credit_amount_cents > 0:
        return Means(code=_PREPAID, text=text(words.prepaid_applied, invoice.prepaid_credit_amount_cents))
    if invoice.credit_notes_amount_cents > 0:
        return Means(code=_CREDIT_NOTES, text=text(words.credit_notes_applied, invoice.credit_notes_amount_cents))
    return None


def _exact_amounts(source: InvoiceSource, cents: int) -> Iterable[str]:
    """The exact total as text, if the two decimals of the standard cannot express it."""
    if exponent(source.invoice.currency) > _STATED_DECIMALS:
        total = exact_text(major_from_cents(cents, source.invoice.currency))
        yield f"Exact total: {total} {source.invoice.currency}"


def _parties(source: InvoiceSource) -> tuple[Contact, Contact]:
    entity, customer = _readable(entity_contact(source.entity)), _readable(customer_contact(source.customer))
    return (customer, entity) if source.invoice.self_billed else (entity, customer)


def _readable(contact: Contact) -> Contact:
    """The contact with a name that XML can represent."""
    name = cleaned(contact.display_name) or cleaned(contact.name) or cleaned(contact.code) or "-"
    return replace(contact, display_name=name, name=cleaned(contact.name) or name)


def _is_xrechnung(source: InvoiceSource, seller: Contact, buyer: Contact) -> bool:
    if source.entity.country != "DE" or not _buyer_reference(source):
        return False
    named = (seller.city, seller.zipcode, seller.phone, seller.email, buyer.city, buyer.zipcode, buyer.email)
    return all(cleaned(value) for value in named) and not einvoicing_gaps(source.entity)


def _buyer_reference(source: InvoiceSource) -> str | None:
    return cleaned(str(source.customer.get("external_id") or "")) or None if source.entity.country == "DE" else None


def _delivered(source: InvoiceSource) -> date:
    """The start of the earliest billed period, or the first day of a one-off's supply."""
    invoice, days = source.invoice, supplied(source)
    if days is not None:
        return days[0]
    starts: list[datetime] = []
    if invoice.invoice_type in SUBSCRIPTION_TYPES:
        starts = [period.charges_from_datetime for period in source.periods if period.charges_from_datetime is not None]
    return local_date(min(starts, default=invoice.created_at), source.zone)


def kinds_of(source: InvoiceSource) -> Callable[[Fee], Kind]:
    """The category and the rate of each fee of an invoice."""
    outside, leaves_the_eu = _is_outside(source), _leaves_the_eu(source)
    seller, buyer = _parties(source)
    reversible = is_vat_number(seller.tax_number) and is_vat_number(buyer.tax_number)

    def kind(fee: Fee) -> Kind:
        if outside:
            return _OUTSIDE, ZERO
        rate = _rate(fee)
        if rate > ZERO:
            return _TAXED, rate
        codes = {tax.code for tax in fee.applied_taxes}
        if REVERSE_CHARGE in codes and reversible:
            return _REVERSE_CHARGE, ZERO
        if leaves_the_eu and GOODS_EXPORT in codes:
            return _EXPORT, ZERO
        return (_EXEMPT if leaves_the_eu or TAX_EXEMPT in codes else _ZERO_RATED), ZERO

    return kind


def _is_outside(source: InvoiceSource) -> bool:
    """Whether the whole invoice lies outside the scope of the tax: prepaid credits, and services to a customer outside
    the EU.

    EN 16931 allows no other category beside O (BR-O-11): a service next to something taxed, or to goods, is exempt.
    """
    if source.invoice.invoice_type == InvoiceType.CREDIT:
        return True
    return (
        bool(source.fees)
        and _leaves_the_eu(source)
        and not any(
            _rate(fee) > ZERO or any(tax.code == GOODS_EXPORT for tax in fee.applied_taxes) for fee in source.fees
        )
    )


def _leaves_the_eu(source: InvoiceSource) -> bool:
    seller, buyer = _parties(source)
    return seller.country in STANDARD_RATES and bool(buyer.country) and buyer.country not in STANDARD_RATES


def _rate(fee: Fee) -> Decimal:
    """The rate of the fee's taxes on its whole amount.

    It is lower than the sum of the tax rates if a provider taxes only a part of the fee, by more than a cent of
    rounding.
    """
    net = net_of_coupons(fee)
    untaxed = subtract(net, taxable(net, fee.taxes_base_rate))
    if multiply(untaxed, fee.taxes_rate).copy_abs() < _HUNDRED:
        return fee.taxes_rate
    return round_to(multiply(fee.taxes_rate, fee.taxes_base_rate), _RATE_DECIMALS)


def _taxes(nets: Sequence[tuple[Fee, Decimal]], document: Sequence[AppliedTax]) -> list[Decimal]:
    """The taxes on the fees' net cents, so that those with a tax share its line of the document."""
    lines = {line.key: Decimal(line.amount_cents) for line in document}
    exact = [
        {
            line.key: divide(multiply(taxable(net, fee.taxes_base_rate), line.rate), _HUNDRED)
            for line in fee.applied_taxes
            if line.key in lines
        }
        for fee, net in nets
    ]
    sums = {key: total(taxes[key] for taxes in exact if key in taxes) for key in lines}
    return [
        total(divide(multiply(lines[key], tax), sums[key]) for key, tax in taxes.items() if not sums[key].is_zero())
        for taxes in exact
    ]


def _groups(figures: Stated, words: Words, source: InvoiceSource) -> Iterable[TaxGroup]:
    exempt = words.exempt_french if source.entity.country == "FR" else words.exempt
    reasons = {_REVERSE_CHARGE: words.reverse_charge, _EXEMPT: exempt}
    if source.invoice.invoice_type != InvoiceType.CREDIT:
        reasons[_OUTSIDE] = exempt
    for group in figures.groups:
        category, rate = group.kind
        yield TaxGroup(
            rate=rate,
            category=category,
            taxable=group.taxable,
            tax=group.tax,
            reason=reasons.get(category, ""),
            allowance=group.reduction,
            allowance_reason=words.discount.format(rate=rate_text(rate, source.locale)),
        )


def _line(
    source: InvoiceSource, fee: Fee, description: str, quantity: Decimal, amount: Decimal, kind: Kind
) -> ElectronicLine:
    """A line whose quantity times price is its amount: the price of all units together if the unit price is not
    exact.
    """
    units, price, base = round_to(quantity, _PRICE_DECIMALS), round_to(fee.precise_unit_amount, _PRICE_DECIMALS), None
    if price < ZERO or subtract(multiply(units, price), amount).copy_abs() > _LINE_TOLERANCE:
        if units.is_zero() or divide(amount, units) < ZERO:
            units = ONE.copy_sign(amount)
        else:
            base = units.copy_abs()
        price = amount.copy_abs()
    category, rate = kind
    return ElectronicLine(
        name=cleaned(fee.item.name) or cleaned(description) or cleaned(fee.item.code) or words_of(source.locale).item,
        description=description,
        units=units,
        price=price,
        base=base,
        amount=amount,
        rate=rate,
        category=category,
    )


def credit_note_document(source: CreditNoteSource) -> ElectronicDocument:
    """The electronic form of an issued credit note, with the amounts it takes back."""
    note, of_invoice = source.note, source.invoice
    invoice, words = of_invoice.invoice, words_of(of_invoice.locale)
    fees = {fee.id: fee for fee in of_invoice.fees}
    kinds = kinds_of(of_invoice)
    items = [
        (item, fees[item.fee_id])
        for item in sorted(note.items, key=lambda item: (item.amount_cents, item.id))
        if item.fee_id in fees
    ]
    parts = [
        ZERO if fee.amount_cents == 0 else divide(item.precise_amount_cents, Decimal(fee.amount_cents))
        for item, fee in items
    ]
    reductions = [multiply(fee.precise_coupons_amount_cents, part) for (_, fee), part in zip(items, parts, strict=True)]
    nets = [
        (fee, subtract(item.precise_amount_cents, reduction))
        for (item, fee), reduction in zip(items, reductions, strict=True)
    ]
    figures = stated(
        [
            Line(kind=kinds(fee), amount=Decimal(item.amount_cents), reduction=reduction, tax=tax)
            for (item, fee), reduction, tax in zip(items, reductions, _taxes(nets, note.applied_taxes), strict=True)
        ]
        or [_NOTHING],
        currency=note.currency,
        reductions=note.coupons_adjustment_amount_cents,
        taxes=note.taxes_amount_cents,
        prepaid=0,
        payable=note.total_amount_cents,
    )
    naming = naming_of(of_invoice)
    lines = (
        _line(of_invoice, fee, fee_name(fee, naming), multiply(fee.units, part), amount, kinds(fee))
        for (_, fee), part, amount in zip(items, parts, figures.lines, strict=False)
    )
    seller, buyer = _parties(of_invoice)
    return ElectronicDocument(
        id=note.id,
        number=note.number,
        type_code=CREDIT_NOTE,
        currency=note.currency,
        issued=note.issuing_date,
        notes=(
            f"Credit Note ID: {note.id}",
            f"Original Invoice: {invoice.number}",
            f"Reason: {note.reason}",
            *(text for text in [note.description or ""] if cleaned(text)),
            *_exact_amounts(of_invoice, note.total_amount_cents),
        ),
        is_xrechnung=_is_xrechnung(of_invoice, seller, buyer),
        buyer_reference=_buyer_reference(of_invoice),
        order_number=note.purchase_order_number,
        corrects=(invoice.number, invoice.issuing_date),
        seller=seller,
        buyer=buyer,
        seller_pays_tax=not _is_outside(of_invoice),
        delivered=local_date(note.created_at, of_invoice.zone),
        means=Means(code=_STANDARD, text=words.settled_at_once),
        terms=words.settled_at_once,
        due=None,
        groups=tuple(_groups(figures, words, of_invoice)),
        taxes=figures.taxes,
        line_total=figures.line_total,
        allowances=figures.reductions,
        tax_exclusive=figures.tax_exclusive,
        tax_inclusive=figures.tax_inclusive,
        prepaid=figures.prepaid,
        rounding=figures.rounding,
        payable=figures.payable,
        lines=tuple(lines) or (_empty_line(words),),
    )
