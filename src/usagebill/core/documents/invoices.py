"""The content of an invoice's document, from its title to its footer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, tzinfo
from decimal import Decimal

from usagebill.core.days import local_date
from usagebill.core.documents.content import Content, Page, Party, Row, Section, Table, Total
from usagebill.core.documents.lines import Naming, fee_name, fee_rows, ordered, shown_fees
from usagebill.core.documents.locales import date_text, money_text, rate_text
from usagebill.core.documents.parties import customer_contact, customer_facts, entity_contact, party
from usagebill.core.documents.sources import InvoiceSource
from usagebill.core.documents.words import Words, words_of
from usagebill.core.fees import AppliedTax, Fee, FeeType
from usagebill.core.invoices.life_cycle import InvoiceType
from usagebill.core.invoices.records import AppliedThreshold, Credit, CreditType
from usagebill.core.numbers import ZERO, divide, multiply, round_cents
from usagebill.core.vat import REVERSE_CHARGE, TAX_EXEMPT

_TAX_INVOICE_COUNTRIES = frozenset({"AU", "AE", "NZ", "ID", "SG"})
_TWO = 2


def naming_of(source: InvoiceSource) -> Naming:
    return Naming(
        words=words_of(source.locale),
        locale=source.locale,
        zone=source.zone,
        subscription_names=source.subscription_names,
        plans=source.plans,
        averaged=source.averaged,
        per_second=source.per_second,
    )


def invoice_content(source: InvoiceSource) -> Content:
    """The document of an issued invoice. Totals are the invoice's own: nothing is recomputed."""
    invoice, locale, words = source.invoice, source.locale, words_of(source.locale)
    issuer, recipient = parties(source, words.recipient)
    facts = [(words.number, invoice.number)]
    if invoice.purchase_order_number:
        facts.append((words.order_number, invoice.purchase_order_number))
    facts += [
        (words.issue_date, date_text(invoice.issuing_date, locale)),
        *_supply(source, words),
        (words.payment_term, words.days.format(count=invoice.net_payment_term)),
    ]
    return Content(
        locale=locale,
        title=_title(source, words),
        number=invoice.number,
        facts=tuple(facts),
        metadata=customer_facts(source.customer),
        issuer=issuer,
        recipient=recipient,
        amount=_money(source, invoice.total_amount_cents),
        about=(words.due.format(date=date_text(invoice.payment_due_date, locale)),),
        pages=tuple(_pages(source, naming_of(source))),
        notes=tuple(_notes(source, words)),
        sections=tuple(
            Section(title=section.display_name or section.name, text=section.details or "")
            for section in invoice.applied_custom_sections
        ),
        footer=words.self_billed if invoice.self_billed else source.entity.invoice_footer,
        logo=None if invoice.self_billed else source.entity.logo_url,
    )


def supplied(source: InvoiceSource) -> tuple[date, date] | None:
    """The first and the last day of what a one-off invoice bills, in the customer's time zone; None for others."""
    spans = [(fee.from_datetime, fee.to_datetime) for fee in source.fees]
    starts = [start for start, _ in spans if start is not None]
    ends = [end for _, end in spans if end is not None]
    if source.invoice.invoice_type != InvoiceType.ONE_OFF or not starts or not ends:
        return None
    return local_date(min(starts), source.zone), local_date(max(ends), source.zone)


def _supply(source: InvoiceSource, words: Words) -> Iterable[tuple[str, str]]:
    days = supplied(source)
    if days is not None:
        yield words.supply_date, " – ".join(date_text(day, source.locale) for day in dict.fromkeys(days))


def parties(source: InvoiceSource, recipient_heading: str) -> tuple[Party, Party]:
    """The issuer and the recipient of the document; a self-billed invoice is issued by the customer."""
    words = words_of(source.locale)
    contacts = [entity_contact(source.entity), customer_contact(source.customer)]
    if source.invoice.self_billed:
        contacts.reverse()
    issuer, recipient = contacts
    return (
        party(words.issuer, issuer, source.locale, source.country_names),
        party(recipient_heading, recipient, source.locale, source.country_names),
    )


def _title(source: InvoiceSource, words: Words) -> str:
    invoice = source.invoice
    if invoice.self_billed:
        return words.self_billing_invoice
    if invoice.invoice_type == InvoiceType.CREDIT:
        return words.advance_invoice
    paid = invoice.invoice_type == InvoiceType.ADVANCE_CHARGES
    if source.entity.country in _TAX_INVOICE_COUNTRIES:
        return words.paid_tax_invoice if paid else words.tax_invoice
    return words.paid_invoice if paid else words.invoice


def _money(source: InvoiceSource, cents: int) -> str:
    return money_text(cents, source.invoice.currency, source.locale)


# Pages


def _pages(source: InvoiceSource, naming: Naming) -> Iterable[Page]:
    invoice, fees = source.invoice, source.fees
    totals = tuple(_totals(source))
    listed = (InvoiceType.ONE_OFF, InvoiceType.CREDIT, InvoiceType.ADVANCE_CHARGES)
    if invoice.invoice_type in listed or _all_in_advance(fees):
        yield Page(tables=(_plain_table(source, naming),), totals=totals)
        return
    by_subscription = _by_subscription(source)
    if len(by_subscription) < _TWO:
        pages = [page for id in by_subscription for page in [_subscription_page(source, naming, id)]]
        tables = pages[0].tables if pages else ()
        yield Page(heading=pages[0].heading if pages else None, tables=tables, totals=totals)
        return
    yield Page(tables=(_summary(source, naming, by_subscription),), totals=totals)
    for id in by_subscription:
        yield _subscription_page(source, naming, id, with_total=True)


def _all_in_advance(fees: Sequence[Fee]) -> bool:
    return bool(fees) and all(fee.fee_type == FeeType.CHARGE and fee.pay_in_advance for fee in fees)


def _columns(words: Words, label: str | None = None) -> tuple[str, ...]:
    return (label or words.item, words.units, words.unit_price, words.tax_rate, words.amount)


def _plain_table(source: InvoiceSource, naming: Naming) -> Table:
    words = naming.words
    fees = list(source.fees)
    if source.invoice.invoice_type not in (InvoiceType.ONE_OFF, InvoiceType.CREDIT):
        # By time of payment; unpaid fees come last.
        fees.sort(
            key=lambda fee: (fee.succeeded_at is None, fee.succeeded_at or fee.created_at, fee.created_at, fee.id)
        )
    rows = [row for fee in fees for row in fee_rows(fee, naming)]
    if source.invoice.invoice_type == InvoiceType.ADVANCE_CHARGES:
        rows = [row for fee in fees for row in _dated(fee, naming)]
    return Table(columns=_columns(words), rows=tuple(rows))


def _dated(fee: Fee, naming: Naming) -> list[Row]:
    rows = fee_rows(fee, naming)
    if fee.succeeded_at is None or fee.invoiceable:
        return rows
    paid = naming.words.paid_on.format(date=_day(fee.succeeded_at, naming.zone, naming.locale))
    first = rows[0]
    noted = Row(
        name=first.name,
        units=first.units,
        unit_price=first.unit_price,
        tax_rate=first.tax_rate,
        amount=first.amount,
        notes=(paid, *first.notes),
        kind=first.kind,
    )
    return [noted, *rows[1:]]


def _by_subscription(source: InvoiceSource) -> dict[str, list[Fee]]:
    """The fees of each subscription of the invoice, subscriptions sorted by name."""
    ids = [period.subscription_id for period in source.periods] + [fee.subscription_id or "" for fee in source.fees]
    ids.sort(key=lambda id: (source.subscription_names.get(id, "").casefold(), id))
    return {id: [fee for fee in source.fees if (fee.subscription_id or "") == id] for id in dict.fromkeys(ids)}


def _summary(source: InvoiceSource, naming: Naming, fees: dict[str, list[Fee]]) -> Table:
    words = naming.words
    rows: list[Row] = []
    for id, subscription_fees in fees.items():
        other_fees = [fee for fee in subscription_fees if fee.fee_type != FeeType.COMMITMENT]
        name = _part_name(source, id)
        cents = sum(fee.amount_cents for fee in other_fees)
        rows.append(Row(name=name, amount=_money(source, cents), notes=tuple(_days(source, naming, subscription_fees))))
        rows += [
            Row(name=f"{name} - {fee_name(fee, naming)}", amount=_money(source, fee.amount_cents))
            for fee in subscription_fees
            if fee.fee_type == FeeType.COMMITMENT
        ]
    return Table(columns=(words.item, words.amount), rows=tuple(rows))


def _part_name(source: InvoiceSource, id: str) -> str:
    """The name of a subscription; with its plan if another one has the same name, as after an upgrade."""
    name = source.subscription_names.get(id, "")
    plan = source.plans.get(id)
    if plan is None or list(source.subscription_names.values()).count(name) < _TWO:
        return name
    return f"{name} - {plan.shown_name}" if name != plan.shown_name else name


def _days(source: InvoiceSource, naming: Naming, fees: Sequence[Fee]) -> Iterable[str]:
    """The days that the fees of a subscription are for."""
    shown = shown_fees(fees, progressive=source.invoice.invoice_type == InvoiceType.PROGRESSIVE_BILLING)
    windows = [window for window in (_window(source, fee, naming.zone) for fee in shown) if window is not None]
    if windows:
        start, end = min(first for first, _ in windows), max(last for _, last in windows)
        yield naming.words.period.format(start=date_text(start, naming.locale), end=date_text(end, naming.locale))


def _subscription_page(source: InvoiceSource, naming: Naming, id: str, *, with_total: bool = False) -> Page:
    words = naming.words
    fees = [fee for fee in source.fees if (fee.subscription_id or "") == id]
    shown = shown_fees(fees, progressive=source.invoice.invoice_type == InvoiceType.PROGRESSIVE_BILLING)
    windows: dict[tuple[date, date] | None, list[Fee]] = {}
    for fee in shown:
        windows.setdefault(_window(source, fee, naming.zone), []).append(fee)
    dated = sorted(window for window in windows if window is not None)
    tables = []
    for window in [*dated, *([None] if None in windows else [])]:
        label = None
        if window is not None:
            start, end = (date_text(day, naming.locale) for day in window)
            label = words.fees_of.format(start=start, end=end)
        rows = tuple(row for fee in ordered(windows[window], naming) for row in fee_rows(fee, naming))
        tables.append(Table(columns=_columns(words, label), rows=rows))
    totals: list[Total] = []
    if with_total:
        billed = [credit for credit in source.invoice.credits if _billed_of(credit, id)]
        cents = sum(fee.amount_cents for fee in fees) - sum(credit.amount_cents for credit in billed)
        totals += [Total(label=words.billed_already, amount=_money(source, -credit.amount_cents)) for credit in billed]
        totals.append(Total(label=words.total, amount=_money(source, cents), strong=True))
    name = _part_name(source, id)
    return Page(heading=words.details.format(name=name) if name else None, tables=tuple(tables), totals=tuple(totals))


def _billed_of(credit: Credit, subscription_id: str) -> bool:
    return credit.item_type == CreditType.INVOICE and credit.subscription_id == subscription_id


def _window(source: InvoiceSource, fee: Fee, zone: tzinfo) -> tuple[date, date] | None:
    start, end = fee.from_datetime, fee.to_datetime
    if start is None or end is None:
        return None
    if source.invoice.invoice_type == InvoiceType.PROGRESSIVE_BILLING:
        return local_date(start, zone), source.invoice.issuing_date
    return local_date(start, zone), local_date(end, zone)


def _day(instant: datetime, zone: tzinfo, locale: str) -> str:
    return date_text(local_date(instant, zone), locale)


# Totals


def _totals(source: InvoiceSource) -> Iterable[Total]:
    invoice, words = source.invoice, words_of(source.locale)

    def line(label: str, cents: int, *, strong: bool = False) -> Total:
        return Total(label=label, amount=_money(source, cents), strong=strong)

    kind = invoice.invoice_type
    last = line(
        words.paid_already if kind == InvoiceType.ADVANCE_CHARGES else words.total,
        invoice.total_amount_cents,
        strong=True,
    )
    if kind == InvoiceType.CREDIT:
        yield last
        return
    credited = kind is not InvoiceType.ONE_OFF
    if credited and invoice.progressive_billing_credit_amount_cents:
        yield line(words.billed_already, -invoice.progressive_billing_credit_amount_cents)
    for credit in invoice.credits if credited else ():
        if credit.item_type == CreditType.COUPON:
            yield line(_coupon(source, credit, words), -credit.amount_cents)
    yield line(words.excluding_taxes, invoice.sub_total_excluding_taxes_amount_cents)
    yield from tax_totals(invoice.applied_taxes, invoice.currency, source.locale)
    yield line(words.including_taxes, invoice.sub_total_including_taxes_amount_cents)
    if credited and invoice.credit_notes_amount_cents:
        yield line(words.credit_notes, -invoice.credit_notes_amount_cents)
    if credited and invoice.prepaid_credit_amount_cents:
        yield from _prepaid(source, words)
    yield last


def _coupon(source: InvoiceSource, credit: Credit, words: Words) -> str:
    applied = source.coupons.get(credit.source_id or "")
    if applied is None:
        return credit.item_name
    if applied.percentage_rate is not None:
        value = rate_text(applied.percentage_rate, source.locale, decimals=2)
    else:
        value = money_text(applied.amount_cents or 0, applied.amount_currency or source.invoice.currency, source.locale)
    return words.coupon.format(name=credit.item_name, value=value)


def _prepaid(source: InvoiceSource, words: Words) -> Iterable[Total]:
    invoice = source.invoice
    granted, purchased = invoice.prepaid_granted_credit_amount_cents, invoice.prepaid_purchased_credit_amount_cents
    if granted is None and purchased is None:
        yield Total(label=words.prepaid, amount=_money(source, -invoice.prepaid_credit_amount_cents))
        return
    for label, cents in ((words.free_credits, granted), (words.prepaid, purchased)):
        if cents:
            yield Total(label=label, amount=_money(source, -cents))


def tax_totals(lines: Sequence[AppliedTax], currency: str, locale: str) -> Iterable[Total]:
    """A row for each tax, the highest rate first; a single zero row if there are no taxes."""
    words = words_of(locale)
    if not lines:
        yield Total(label=words.no_tax.format(rate=rate_text(ZERO, locale)), amount=money_text(0, currency, locale))
    for applied in sorted(sorted(lines, key=lambda line: line.name), key=lambda line: line.rate, reverse=True):
        base = money_text(_base_cents(applied), currency, locale)
        label = words.tax_on.format(name=applied.name, rate=rate_text(applied.rate, locale), base=base)
        yield Total(label=label, amount=money_text(applied.amount_cents, currency, locale))


def _base_cents(applied: AppliedTax) -> int:
    """The base of the tax: less than the fees if a tax provider taxes only a part of them."""
    if applied.tax_id is not None or applied.rate.is_zero():
        return applied.base_amount_cents
    taxed = divide(multiply(applied.precise_amount_cents, Decimal(100)), applied.rate)
    return min(applied.base_amount_cents, round_cents(taxed))


# Notes


def tax_notes(source: InvoiceSource) -> Iterable[str]:
    """The reason why a sale carries no tax by EU rules, if the billing entity applies them."""
    words = words_of(source.locale)
    codes = {line.code for line in source.invoice.applied_taxes}
    if not source.entity.eu_tax_management:
        return
    if TAX_EXEMPT in codes:
        yield words.exempt_french if source.entity.country == "FR" else words.exempt
    if REVERSE_CHARGE in codes:
        yield words.reverse_charge


def _notes(source: InvoiceSource, words: Words) -> Iterable[str]:
    yield from tax_notes(source)
    passed = source.invoice.applied_usage_thresholds
    if source.invoice.invoice_type == InvoiceType.PROGRESSIVE_BILLING and passed:
        highest = max(passed, key=lambda threshold: (threshold.recurring, threshold.amount_cents))
        yield words.threshold.format(
            usage=_money(source, highest.lifetime_usage_amount_cents), threshold=_money(source, _passed(highest))
        )


def _passed(threshold: AppliedThreshold) -> int:
    usage = threshold.lifetime_usage_amount_cents
    return usage - usage % threshold.amount_cents if threshold.recurring else threshold.amount_cents
