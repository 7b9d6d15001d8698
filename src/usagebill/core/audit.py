"""The audit: identities that issued invoices, their numbers, billed periods and used credits must satisfy.

Each check states an identity and yields a `Finding` for every record that breaks it. Nothing is repaired. Amounts are
recomputed here from the records alone, independently of the code that first computed them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from usagebill.core.credit_notes import CreditNote, CreditStatus
from usagebill.core.currencies import cents_from_major
from usagebill.core.fees import REPEATABLE_TYPES, AppliedTax, Fee, FeeType, TaxKey
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.life_cycle import WHOLE_REASONS, InvoiceStatus, InvoiceType
from usagebill.core.invoices.records import BillingPeriod, Invoice
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
from usagebill.core.progressive_billing import NOTHING
from usagebill.core.statuses import PaymentStatus

# The subjects of findings.
CHECKS = (
    "fee",
    "fee_taxes",
    "fee_repeated",
    "fee_period",
    "fee_recount",
    "fee_missing",
    "invoice_total",
    "invoice_taxes",
    "invoice_paid",
    "invoice_overpaid",
    "invoice_voided",
    "due_date",
    "number",
    "number_gap",
    "number_repeated",
    "period_billed_twice",
    "period_never_billed",
    "credit_note",
    "credits",
    "coupon",
    "wallet",
    "wallet_transaction",
    "wallet_funding",
    "prepaid",
    "hold",
    "usage_states",
    "list_counts",
    "receipt",
    "payment_request",
    "payment",
    "refund",
    "ledger",
)
_HUNDRED = Decimal(100)
_DECIMALS = 15
_RATE_DECIMALS = 5
_PRECISE_ROUNDING = Decimal("0.00001")
_RATE_ROUNDING = Decimal("0.00001")
# Requested parts may differ from the items' total by a cent; rounding it and the taxes may add another.
_NOTE_ROUNDING = 2
# The unit price is off by at most half of its last decimal.
_HALF_A_DECIMAL = Decimal((0, (5,), -_DECIMALS - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A broken identity: `check` names it (`CHECKS`); amounts are in cents."""

    check: str
    subject: str
    subject_id: str
    detail: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.check}: {self.subject} {self.detail}: expected {self.expected}, found {self.found}"


def _finding(check: str, subject: str, id: str, detail: str, expected: object, actual: object) -> Finding:
    return Finding(
        check=check, subject=subject, subject_id=id, detail=detail, expected=str(expected), found=str(actual)
    )


def _share(base: Decimal, rate: Decimal) -> Decimal:
    return divide(multiply(base, rate), _HUNDRED)


# Invoices and their fees


def audited_invoice(
    invoice: Invoice, fees: Sequence[Fee], periods: Sequence[BillingPeriod] = (), *, paid_cents: int | None = None
) -> Iterator[Finding]:
    """Recompute one issued invoice from its fees, its credits and the tax rates on its fees.

    `periods` are its billing periods, which say the windows of its usage fees. `paid_cents` is the sum of its payments.
    """
    credited = dict.fromkeys(("invoice", "coupon", "credit_note"), 0)
    for line in invoice.credits:
        credited[line.item_type] = credited.get(line.item_type, 0) + line.amount_cents
    fees_cents = sum(fee.amount_cents for fee in fees)
    net = fees_cents - credited["invoice"] - credited["coupon"]
    taxes = _invoice_taxes(invoice, fees)
    due = net + taxes - credited["credit_note"] - invoice.prepaid_credit_amount_cents
    expected = {
        "fees_amount_cents": fees_cents,
        "progressive_billing_credit_amount_cents": credited["invoice"],
        "coupons_amount_cents": credited["coupon"],
        "sub_total_excluding_taxes_amount_cents": net,
        "taxes_amount_cents": taxes,
        "sub_total_including_taxes_amount_cents": net + taxes,
        "credit_notes_amount_cents": credited["credit_note"],
        "total_amount_cents": due,
    }
    subject = f"invoice {invoice.number}"
    for name, amount in expected.items():
        stored = getattr(invoice, name)
        if stored != amount:
            yield _finding("invoice_total", subject, invoice.id, name, amount, stored)
    for name in ("sub_total_excluding_taxes_amount_cents", "total_amount_cents"):
        if expected[name] < 0:
            yield _finding("invoice_total", subject, invoice.id, name, "at least 0", expected[name])
    for line in invoice.credits:
        if line.amount_cents < 0 or line.amount_currency != invoice.currency:
            detail = f"credit {line.item_code}"
            stored = f"{line.amount_cents} {line.amount_currency}"
            yield _finding("invoice_total", subject, invoice.id, detail, f"cents of {invoice.currency}", stored)
    if paid_cents is not None and invoice.total_paid_amount_cents != paid_cents:
        found_cents = invoice.total_paid_amount_cents
        yield _finding("invoice_paid", subject, invoice.id, "total_paid_amount_cents", paid_cents, found_cents)
    is_settled = invoice.total_amount_cents > 0 and invoice.due_cents <= 0 and invoice.status == InvoiceStatus.FINALIZED
    if is_settled and invoice.payment_status != PaymentStatus.SUCCEEDED:
        status = invoice.payment_status
        yield _finding("invoice_paid", subject, invoice.id, "payment_status", PaymentStatus.SUCCEEDED, status)
    if invoice.overpaid_cents:
        detail = "was paid beyond what is due: refund one of its payments, cents"
        yield _finding("invoice_overpaid", subject, invoice.id, detail, 0, invoice.overpaid_cents)
    due_on = invoice.issuing_date + timedelta(days=invoice.net_payment_term)
    if invoice.invoice_type != InvoiceType.CREDIT and invoice.payment_due_date != due_on:
        yield _finding("due_date", subject, invoice.id, "payment_due_date", due_on, invoice.payment_due_date)
    yield from _audited_tax_lines(invoice, fees)
    yield from _audited_shares(invoice, fees, credited["coupon"], credited["invoice"])
    for fee in fees:
        yield from _audited_fee(invoice, fee)
    yield from _minima(invoice, fees)
    yield from _repeated_fees(invoice, fees)
    yield from _fee_periods(invoice, fees, periods)


def _net(fee: Fee) -> Decimal:
    return subtract(Decimal(fee.amount_cents), fee.precise_coupons_amount_cents)


def _taxed(fee: Fee) -> Decimal:
    """The base of the fee's taxes."""
    return round_to(multiply(_net(fee), fee.taxes_base_rate), _DECIMALS)


def _invoice_taxes(invoice: Invoice, fees: Sequence[Fee]) -> int:
    if invoice.invoice_type == InvoiceType.ADVANCE_CHARGES:
        return sum(fee.taxes_amount_cents for fee in fees)
    return round_cents(total(_share(_taxed(fee), line.rate) for fee in fees for line in fee.applied_taxes))


def _in_cents(exact: Sequence[Decimal], found: Sequence[int]) -> list[int]:
    """Lines of tax in whole cents: as `found`, if they add up to their sum rounded once and no cent could be on a line
    that is closer to the next one; else each rounded by itself, as earlier versions did.
    """
    off = [subtract(part, Decimal(cents)) for part, cents in zip(exact, found, strict=True)]
    if off and sum(found) == round_cents(total(exact)) and subtract(max(off), min(off)) <= ONE:
        return list(found)
    return [round_cents(part) for part in exact]


def _audited_tax_lines(invoice: Invoice, fees: Sequence[Fee]) -> Iterator[Finding]:
    """Each tax line of the invoice is its rate times the fees that carry it (`_in_cents`), or the sum of their already
    paid taxes.
    """
    summed = invoice.invoice_type == InvoiceType.ADVANCE_CHARGES
    carried: dict[TaxKey, list[tuple[Fee, AppliedTax]]] = {}
    for fee in fees:
        for line in fee.applied_taxes:
            carried.setdefault(line.key, []).append((fee, line))
    expected: dict[TaxKey, tuple[int, int]] = {}
    exact: dict[TaxKey, Decimal] = {}
    listed = {line.key: (line.base_amount_cents, line.amount_cents) for line in invoice.applied_taxes}
    weighed = []
    for key, lines in carried.items():
        rate = key[1]
        base = total(_net(fee) for fee, _ in lines)
        if summed:
            gross = sum(fee.amount_cents for fee, _ in lines)
            expected[key] = (gross, sum(line.amount_cents for _, line in lines))
        else:
            taxed = total(_taxed(fee) for fee, _ in lines)
            exact[key] = _share(taxed, rate)
            expected[key] = (truncate_cents(base), 0)
        weighed.append(multiply(rate, base if _weighs(invoice) else Decimal(len(lines))))
    found = [listed[key][1] if key in listed else 0 for key in exact]
    for key, cents in zip(exact, _in_cents(list(exact.values()), found), strict=True):
        expected[key] = (expected[key][0], cents)
    subject = f"invoice {invoice.number}"
    for key in dict.fromkeys((*expected, *listed)):
        if expected.get(key) != listed.get(key):
            detail = f"tax {key[0]} at {key[1]} % (base, amount)"
            yield _finding(
                "invoice_taxes", subject, invoice.id, detail, _line_text(expected, key), _line_text(listed, key)
            )
    if not summed and fees:
        over = invoice.sub_total_excluding_taxes_amount_cents if _weighs(invoice) else len(fees)
        average = round_to(divide(total(weighed), Decimal(over)), _RATE_DECIMALS)
        if subtract(average, invoice.taxes_rate).copy_abs() > _RATE_ROUNDING:
            yield _finding("invoice_taxes", subject, invoice.id, "taxes_rate", average, invoice.taxes_rate)


def _weighs(invoice: Invoice) -> bool:
    """Whether the average rate is weighted by amounts; if nothing is left to tax, each fee weighs the same."""
    return invoice.sub_total_excluding_taxes_amount_cents > 0


def _line_text(lines: Mapping[TaxKey, tuple[int, int]], key: TaxKey) -> str:
    return ", ".join(str(part) for part in lines[key]) if key in lines else "no such tax"


def _audited_shares(invoice: Invoice, fees: Sequence[Fee], coupons: int, progressive: int) -> Iterator[Finding]:
    """Coupons and progressive billing credits are spread over the fees, up to fractions of a cent."""
    shares = total(fee.precise_coupons_amount_cents for fee in fees)
    lines = sum(line.before_taxes for line in invoice.credits)
    credited = Decimal(coupons + progressive)
    most = add(credited, divide(Decimal(len(fees)), Decimal(1000)))
    # A fee that was billed ahead comes to no less than then: so little of a coupon finds no other fee.
    rounded = add(divide(Decimal(len(fees) * max(lines, 1)), Decimal(1000)), multiply(NOTHING, Decimal(lines)))
    least = subtract(credited, rounded)
    if not least <= shares <= most:
        subject = f"invoice {invoice.number}"
        yield _finding("coupon", subject, invoice.id, "shares of its fees", coupons + progressive, shares)


def _audited_fee(invoice: Invoice, fee: Fee) -> Iterator[Finding]:
    subject, detail = f"invoice {invoice.number}", f"fee {fee.id} ({fee.item.code})"
    if fee.currency != invoice.currency:
        yield _finding("fee", subject, invoice.id, f"{detail} currency", invoice.currency, fee.currency)
    if not min(fee.amount_cents, 0) <= fee.precise_coupons_amount_cents <= max(fee.amount_cents, 0):
        allowed = f"0 to {fee.amount_cents}"
        yield _finding("coupon", subject, invoice.id, f"{detail} coupons", allowed, fee.precise_coupons_amount_cents)
    taxes = round_cents(total(_share(_taxed(fee), line.rate) for line in fee.applied_taxes))
    if taxes != fee.taxes_amount_cents:
        yield _finding("fee_taxes", subject, invoice.id, f"{detail} taxes_amount_cents", taxes, fee.taxes_amount_cents)
    yield from _fee_tax_lines(invoice, fee)
    rate = total(line.rate for line in fee.applied_taxes)
    if rate != fee.taxes_rate:
        yield _finding("fee_taxes", subject, invoice.id, f"{detail} taxes_rate", rate, fee.taxes_rate)
    # A pricing unit is rounded in its own cents first. A true-up fills the minimum in whole cents: `_minima` checks it.
    rounded_cents = round_cents(fee.precise_amount_cents)
    lone = fee.pricing_unit_details is None and fee.fee_type != FeeType.COMMITMENT and fee.true_up_parent_fee_id is None
    # Cents are rounded once, from more decimals than are stored: at a half, either cent can be right.
    nearby = {round_cents(add(fee.precise_amount_cents, off)) for off in (-_HALF_A_DECIMAL, _HALF_A_DECIMAL)}
    if lone and fee.amount_cents not in nearby:
        yield _finding("fee", subject, invoice.id, f"{detail} amount_cents", rounded_cents, fee.amount_cents)
    worth = _worth(fee)
    if worth is not None and subtract(worth, Decimal(fee.amount_cents)).copy_abs() > _unit_rounding(fee):
        rounded_worth = round_to(worth, 2)
        yield _finding("fee", subject, invoice.id, f"{detail} units at their price", rounded_worth, fee.amount_cents)
    priced = _priced(fee)
    if priced is not None and subtract(priced, fee.precise_amount_cents).copy_abs() > Decimal("0.00001"):
        precise = round_to(priced, _DECIMALS)
        yield _finding("fee", subject, invoice.id, f"{detail} precise_amount_cents", precise, fee.precise_amount_cents)


def _fee_tax_lines(invoice: Invoice, fee: Fee) -> Iterator[Finding]:
    """Each tax line of a fee is its rate times the discounted fee, in whole cents and precisely."""
    net = subtract(fee.precise_amount_cents, fee.precise_coupons_amount_cents)
    precise = round_to(multiply(net, fee.taxes_base_rate), _DECIMALS)
    shares = [_share(_taxed(fee), line.rate) for line in fee.applied_taxes]
    whole = _in_cents(shares, [line.amount_cents for line in fee.applied_taxes])
    for line, cents in zip(fee.applied_taxes, whole, strict=True):
        stored = (line.base_amount_cents, line.amount_cents, line.precise_amount_cents)
        expected = (
            truncate_cents(_net(fee)),
            cents,
            round_to(_share(precise, line.rate), _DECIMALS),
        )
        if stored != expected:
            detail = f"fee {fee.id} ({fee.item.code}) tax {line.code} (base, amount, precise)"
            shown = [", ".join(str(part) for part in parts) for parts in (expected, stored)]
            yield _finding("fee_taxes", f"invoice {invoice.number}", invoice.id, detail, *shown)
    taxes = round_to(total(_share(precise, line.rate) for line in fee.applied_taxes), _DECIMALS)
    if taxes != fee.taxes_precise_amount_cents:
        detail = f"fee {fee.id} ({fee.item.code}) taxes_precise_amount_cents"
        stored_taxes = fee.taxes_precise_amount_cents
        yield _finding("fee_taxes", f"invoice {invoice.number}", invoice.id, detail, taxes, stored_taxes)


def _worth(fee: Fee) -> Decimal | None:
    """The fee's units times its unit price (in cents); None if no unit has a price."""
    # A deduction for what is already paid lowers a fee, but not its unit price.
    paid_before = "paid_before_cents" in fee.basis or (fee.fee_type == FeeType.FIXED_CHARGE and fee.pay_in_advance)
    if fee.pricing_unit_details is not None or fee.units.is_zero() or paid_before:
        return None
    # Free units of packages have no price; those of a percentage share it.
    packages = "per_package_size" in fee.amount_details
    units = fee.amount_details.get("paid_units", fee.units) if packages else fee.units
    return cents_from_major(multiply(Decimal(str(units)), fee.precise_unit_amount), fee.currency)


def _unit_rounding(fee: Fee) -> Decimal:
    """The cents by which a fee may differ from units times unit price: both are rounded, the price once per unit."""
    return add(ONE, cents_from_major(multiply(fee.units.copy_abs(), _HALF_A_DECIMAL), fee.currency))


def _minima(invoice: Invoice, fees: Sequence[Fee]) -> Iterator[Finding]:
    """A charge with a minimum reaches it: its fees and their true-up are rounded once, together."""
    for fee in fees:
        if fee.true_up_parent_fee_id is None or fee.pricing_unit_details is not None:
            continue
        whole = [
            line for line in fees if (line.subscription_id, line.charge_id) == (fee.subscription_id, fee.charge_id)
        ]
        expected = round_cents(total(part.precise_amount_cents for part in whole))
        billed = sum(part.amount_cents for part in whole)
        if expected != billed:
            detail = f"minimum of {fee.item.code}"
            yield _finding("fee", f"invoice {invoice.number}", invoice.id, detail, expected, billed)


def _priced(fee: Fee) -> Decimal | None:
    """The sum of the fee's own details in cents; None if they are incomplete."""
    details = fee.amount_details
    parts: object = None
    for ranges in ("graduated_ranges", "graduated_percentage_ranges"):
        parts = details.get(ranges, parts)
    if fee.pricing_unit_details is not None or fee.pay_in_advance or not isinstance(parts, (list, tuple)):
        return None
    if fee.events_count == 0:
        # Units adjusted by hand come from no events; the details still show the actual usage.
        return None
    shown = [part for part in parts if isinstance(part, Mapping)]
    amounts = [part.get("total_with_flat_amount") for part in shown]
    if not amounts or any(amount is None for amount in amounts):
        return None
    amount = total(Decimal(str(amount)) for amount in amounts)
    units = total(Decimal(str(part.get("units", 0))) for part in shown)
    # Nobody owes for a quantity below zero, or an amount: the details still show them.
    return ZERO if units < ZERO or amount < ZERO else cents_from_major(amount, fee.currency)


def _repeated_fees(invoice: Invoice, fees: Sequence[Fee]) -> Iterator[Finding]:
    """No usage is billed on two lines of an invoice."""
    keys: set[object] = set()
    for fee in fees:
        if fee.subscription_id is None or fee.fee_type in REPEATABLE_TYPES:
            continue
        key = (
            fee.subscription_id,
            fee.fee_type,
            fee.charge_id,
            fee.charge_filter_id,
            fee.fixed_charge_id,
            tuple(sorted((name, value or "") for name, value in fee.grouped_by.items())),
            fee.true_up_parent_fee_id is not None,
            fee.event_transaction_id,
            fee.from_datetime,
            fee.original_fee_id,
        )
        if key in keys:
            detail = f"fee {fee.id} ({fee.item.code})"
            yield _finding("fee_repeated", f"invoice {invoice.number}", invoice.id, detail, "one such fee", "another")
        keys.add(key)


def _fee_periods(invoice: Invoice, fees: Sequence[Fee], periods: Sequence[BillingPeriod]) -> Iterator[Finding]:
    """A usage fee in arrears bills the usage window of its subscription's billing period, or a part of it that is
    counted by itself.
    """
    windows = {
        period.subscription_id: _fee_windows(period) for period in periods if period.invoicing_reason in WHOLE_REASONS
    }
    for fee in fees:
        allowed = windows.get(fee.subscription_id or "")
        if fee.fee_type != FeeType.CHARGE or fee.pay_in_advance or allowed is None:
            continue
        stored = (fee.charges_from_datetime, fee.charges_to_datetime)
        if stored not in allowed:
            detail = f"fee {fee.id} ({fee.item.code}) window"
            yield _finding(
                "fee_period", f"invoice {invoice.number}", invoice.id, detail, _shown(*allowed[0]), _shown(*stored)
            )


def _fee_windows(period: BillingPeriod) -> list[tuple[datetime | None, datetime | None]]:
    start, end, last_day = period.charges_from_datetime, period.charges_to_datetime, period.last_day_from
    parts = [] if last_day is None else [(start, last_day - MICROSECOND), (last_day, end)]
    return [(start, end), *parts]


def _shown(start: datetime | None, end: datetime | None) -> str:
    return f"{start.isoformat() if start else None} to {end.isoformat() if end else None}"


# Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """The position of an issued invoice in a number series."""

    id: str
    number: str
    series: str
    position: int


def audited_numbers(numbered: Iterable[Numbered]) -> Iterator[Finding]:
    """Each series counts 1, 2, 3 ... without a gap or a repeat. The invoices come in order of series and position."""
    last_series, last = None, 0
    for invoice in numbered:
        if invoice.series != last_series:
            last_series, last = invoice.series, 0
        if invoice.position != last + 1:
            check = "number_repeated" if invoice.position <= last else "number_gap"
            detail = f"position in the series of {invoice.series}"
            yield _finding(check, f"invoice {invoice.number}", invoice.id, detail, last + 1, invoice.position)
        last = max(last, invoice.position)


# Periods


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledWindow:
    """The window that an invoice bills for a subscription, both instants included. `number` is the invoice's.

    If `stands` is false, a voided invoice billed it: it may be billed again, but need not be. A window of a single
    instant bills that instant if it `ends` the subscription, and nothing at a start.
    """

    start: datetime
    end: datetime
    number: str
    stands: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The span over which a subscription must have been billed: from `billed_from`, at least until `billed_until`; None
    for no bound.
    """

    subscription_id: str
    external_id: str
    billed_from: datetime | None
    billed_until: datetime | None


def audited_windows(
    kind: str, windows: Iterable[BilledWindow], life: Life, *, slack: timedelta = timedelta(0), may_pause: bool = False
) -> Iterator[Finding]:
    """The windows of one kind tile the subscription's life: every instant is billed exactly once.

    Windows may overlap or be apart by `slack`, the shift caused by changes of the time zone. With `may_pause`, time
    between two windows may be unbilled.
    """
    subject = f"subscription {life.external_id}"
    reach: datetime | None = None
    number = ""
    standing: BilledWindow | None = None
    for window in sorted(windows, key=lambda window: (window.start, window.end)):
        if window.start > window.end:
            continue
        if standing is not None and window.stands and window.start <= standing.end - slack:
            detail = f"{kind} of invoices {standing.number} and {window.number}"
            expected = f"after {standing.end.isoformat()}"
            yield _finding(
                "period_billed_twice", subject, life.subscription_id, detail, expected, window.start.isoformat()
            )
        if reach is None:
            late = life.billed_from is not None and window.start > life.billed_from + slack
            before = f"before invoice {window.number}"
            due = life.billed_from
        else:
            late = window.start > reach + MICROSECOND + slack
            before = f"between invoices {number} and {window.number}"
            due = reach + MICROSECOND
        if late and due is not None and not may_pause:
            covered = f"from {window.start.isoformat()}"
            expected = f"from {due.isoformat()}"
            yield _finding("period_never_billed", subject, life.subscription_id, f"{kind} {before}", expected, covered)
        if reach is None or window.end >= reach:
            reach, number = window.end, window.number
        if window.stands and (standing is None or window.end >= standing.end):
            standing = window
    if life.billed_until is not None and (reach is None or reach + slack < life.billed_until):
        detail = f"{kind} after invoice {number}" if number else kind
        expected = f"until {life.billed_until.isoformat()}"
        covered = "nothing" if reach is None else f"until {reach.isoformat()}"
        yield _finding("period_never_billed", subject, life.subscription_id, detail, expected, covered)


# Credits that invoices use


def audited_credit_note(note: CreditNote, used_cents: int) -> Iterator[Finding]:
    """The parts of a note add up to its total, and its balance is its credit less the amounts that invoices have used,
    and those voided or withdrawn.

    `used_cents` is the sum that invoices in force took from it.
    """

    def differs(detail: str, expected: object, actual: object) -> Iterator[Finding]:
        if expected != actual:
            yield _finding("credit_note", f"credit note {note.number}", note.id, detail, expected, actual)

    parts = note.credit_amount_cents + note.refund_amount_cents + note.offset_amount_cents
    yield from differs("credit, refund and offset", note.total_amount_cents, parts)
    yield from differs(
        "total_amount_cents",
        note.sub_total_excluding_taxes_amount_cents + note.taxes_amount_cents,
        note.total_amount_cents,
    )
    items = total(item.precise_amount_cents for item in note.items)
    net = round_cents(subtract(items, note.precise_coupons_adjustment_amount_cents))
    # A void credits the remaining whole cents of fees that earlier notes credited in fractions.
    # Cents that earlier notes of the invoice have gained or lost by rounding are missing from, or left to, later ones.
    if (
        abs(net - note.sub_total_excluding_taxes_amount_cents)
        > _NOTE_ROUNDING + len(note.items) + note.sequential_id - 1
    ):
        # If the parts of a note are fixed, the rounding cents go to the amount before taxes.
        yield from differs("sub_total_excluding_taxes_amount_cents", net, note.sub_total_excluding_taxes_amount_cents)
    adjustment = round_cents(note.precise_coupons_adjustment_amount_cents)
    yield from differs("coupons_adjustment_amount_cents", adjustment, note.coupons_adjustment_amount_cents)
    precise = add(subtract(items, note.precise_coupons_adjustment_amount_cents), note.precise_taxes_amount_cents)
    if subtract(precise, note.precise_total_amount_cents).copy_abs() > _PRECISE_ROUNDING:
        yield from differs("precise_total_amount_cents", precise, note.precise_total_amount_cents)
    for item in note.items:
        rounded = round_cents(item.precise_amount_cents)
        yield from differs(f"item of fee {item.fee_id}", rounded, item.amount_cents)
    for name in ("credit_amount_cents", "refund_amount_cents", "offset_amount_cents", "balance_amount_cents"):
        if getattr(note, name) < 0:
            yield from differs(name, "at least 0", getattr(note, name))
    if used_cents > note.credit_amount_cents:
        yield from differs("used by invoices", f"at most {note.credit_amount_cents}", used_cents)
    gone = note.voided_amount_cents + note.withdrawn_amount_cents
    balance = note.credit_amount_cents - used_cents - gone
    if note.credit_status == CreditStatus.VOIDED and gone == 0:
        # Earlier versions did not note how much was voided.
        balance = 0
    yield from differs("balance_amount_cents", balance, note.balance_amount_cents)
    if note.credit_status != CreditStatus.VOIDED and note.credit_amount_cents > 0:
        status = "consumed" if balance == 0 else "available"
        yield from differs("credit_status", status, note.credit_status)


def audited_notes_of_invoice(invoice: Invoice, fees: Sequence[Fee], notes: Sequence[CreditNote]) -> Iterator[Finding]:
    """All notes of an invoice together credit no more than the invoice, and each of its fees, billed."""
    subject = f"invoice {invoice.number}"
    credited_by_fee: dict[str, int] = {}
    for note in notes:
        for item in note.items:
            credited_by_fee[item.fee_id] = credited_by_fee.get(item.fee_id, 0) + item.amount_cents
    for position, note in enumerate(sorted(notes, key=lambda note: (note.sequential_id, note.id)), 1):
        number = f"{invoice.number}-CN{position:03d}"
        if (note.sequential_id, note.number) != (position, number):
            check = "number_gap" if note.sequential_id > position else "number_repeated"
            detail = f"credit note {position}"
            yield _finding(check, subject, invoice.id, detail, number, f"{note.number} ({note.sequential_id})")
    billed = {fee.id: fee for fee in fees}
    for fee_id, amount in credited_by_fee.items():
        fee = billed.get(fee_id)
        most = 0 if fee is None else fee.amount_cents
        if amount > most:
            detail = f"credited of fee {fee_id}"
            yield _finding("credits", subject, invoice.id, detail, f"at most {most}", amount)
    credited = sum(note.total_amount_cents for note in notes)
    gross = sum(fee.amount_cents for fee in fees)
    gross += round_cents(total(_share(Decimal(fee.amount_cents), fee.taxes_rate) for fee in fees))
    most_in_all = (
        gross if invoice.invoice_type == InvoiceType.CREDIT else invoice.sub_total_including_taxes_amount_cents
    )
    if credited > most_in_all:
        yield _finding("credits", subject, invoice.id, "credited in all", f"at most {most_in_all}", credited)
    for note in notes:
        if note.taxes_amount_cents < 0:
            detail = f"taxes of {note.number}"
            yield _finding("credits", subject, invoice.id, detail, "at least 0", note.taxes_amount_cents)
    # Voiding a note drops its balance, not what it has paid for.
    offset = sum(note.offset_amount_cents for note in notes)
    if offset != invoice.total_offset_amount_cents:
        stored = invoice.total_offset_amount_cents
        yield _finding("credits", subject, invoice.id, "total_offset_amount_cents", offset, stored)
