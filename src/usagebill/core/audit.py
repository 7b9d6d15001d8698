"""The audit: what must hold of issued invoices, their numbers, the periods they bill and what they used up.

Each check states an identity and gives a `Finding` for every place where it does not hold. Nothing is mended. Amounts
are recomputed here from what the records say, not by the steps that computed them first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from usagebill.core.coupons import AppliedCoupon
from usagebill.core.credit_notes import CreditNote
from usagebill.core.currencies import cents_from_major
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.numbers import (
    ZERO,
    add,
    divide,
    multiply,
    round_cents,
    round_to,
    subtract,
    total,
)

__all__ = [
    "CHECKS",
    "WHOLE_REASONS",
    "BilledWindow",
    "Finding",
    "Life",
    "Numbered",
    "audited_coupon",
    "audited_credit_note",
    "audited_invoice",
    "audited_notes_of_invoice",
    "audited_numbers",
    "audited_progressive",
    "audited_windows",
]

# What a finding can be about.
CHECKS = (
    "fee",
    "fee_taxes",
    "fee_repeated",
    "fee_period",
    "invoice_total",
    "invoice_taxes",
    "number",
    "number_gap",
    "number_repeated",
    "period_billed_twice",
    "period_never_billed",
    "credit_note",
    "credits",
    "coupon",
)
# The billing periods that bill whole windows of usage; those of single events and thresholds lie within them.
WHOLE_REASONS = ("subscription_starting", "subscription_periodic", "subscription_terminating")
_HUNDRED = Decimal(100)
_DECIMALS = 15
_INSTANT = timedelta(microseconds=1)
# The parts asked for may be a cent off what the items come to; rounding that and the taxes makes another.
_NOTE_ROUNDING = 2
# Days of the subscription fee move with the time zone; no move is wider than this.
_WIDEST_MOVE = timedelta(hours=26)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it must be. `check` names the identity (`CHECKS`); amounts are in cents."""

    check: str
    subject: str
    subject_id: str
    detail: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.check}: {self.subject} {self.detail}: expected {self.expected}, found {self.found}"


def _finding(check: str, subject: str, id: str, what: str, expected: object, found: object) -> Finding:
    return Finding(check=check, subject=subject, subject_id=id, detail=what, expected=str(expected), found=str(found))


def _share(base: Decimal, rate: Decimal) -> Decimal:
    return divide(multiply(base, rate), _HUNDRED)


# Invoices and their fees


def audited_invoice(invoice: Invoice, fees: Sequence[Fee], periods: Sequence[BillingPeriod] = ()) -> Iterator[Finding]:
    """Recompute one issued invoice from its fees, its credits and the tax rates on its fees.

    `periods` are its billing periods: usage fees bill their windows.
    """
    taken = dict.fromkeys(("invoice", "coupon", "credit_note"), 0)
    for line in invoice.credits:
        taken[line.item_type] = taken.get(line.item_type, 0) + line.amount_cents
    fees_cents = sum(fee.amount_cents for fee in fees)
    net = fees_cents - taken["invoice"] - taken["coupon"]
    taxes = _invoice_taxes(invoice, fees)
    due = net + taxes - taken["credit_note"] - invoice.prepaid_credit_amount_cents
    expected = {
        "fees_amount_cents": fees_cents,
        "progressive_billing_credit_amount_cents": taken["invoice"],
        "coupons_amount_cents": taken["coupon"],
        "sub_total_excluding_taxes_amount_cents": net,
        "taxes_amount_cents": taxes,
        "sub_total_including_taxes_amount_cents": net + taxes,
        "credit_notes_amount_cents": taken["credit_note"],
        "total_amount_cents": due,
    }
    subject = f"invoice {invoice.number}"
    for name, amount in expected.items():
        found = getattr(invoice, name)
        if found != amount:
            yield _finding("invoice_total", subject, invoice.id, name, amount, found)
    for name in ("sub_total_excluding_taxes_amount_cents", "total_amount_cents"):
        if expected[name] < 0:
            yield _finding("invoice_total", subject, invoice.id, name, "at least 0", expected[name])
    for line in invoice.credits:
        if line.amount_cents < 0 or line.amount_currency != invoice.currency:
            what = f"credit {line.item_code}"
            found = f"{line.amount_cents} {line.amount_currency}"
            yield _finding("invoice_total", subject, invoice.id, what, f"cents of {invoice.currency}", found)
    yield from _audited_tax_lines(invoice, fees)
    yield from _audited_shares(invoice, fees, taken["coupon"], taken["invoice"])
    for fee in fees:
        yield from _audited_fee(invoice, fee, len(fees))
    yield from _repeated_fees(invoice, fees)
    yield from _fee_periods(invoice, fees, periods)


def _net(fee: Fee) -> Decimal:
    return subtract(Decimal(fee.amount_cents), fee.precise_coupons_amount_cents)


def _invoice_taxes(invoice: Invoice, fees: Sequence[Fee]) -> int:
    if invoice.invoice_type == "advance_charges":
        return sum(fee.taxes_amount_cents for fee in fees)
    return round_cents(total(_share(_net(fee), line.rate) for fee in fees for line in fee.applied_taxes))


def _audited_tax_lines(invoice: Invoice, fees: Sequence[Fee]) -> Iterator[Finding]:
    """Each tax line of the invoice is its rate of the fees that carry it."""
    bases: dict[str, Decimal] = {}
    summed: dict[str, int] = {}
    rates: dict[str, Decimal] = {}
    for fee in fees:
        for line in fee.applied_taxes:
            bases[line.code] = add(bases.get(line.code, ZERO), _net(fee))
            summed[line.code] = summed.get(line.code, 0) + line.amount_cents
            rates.setdefault(line.code, line.rate)
    listed = {line.code: line.amount_cents for line in invoice.applied_taxes}
    if invoice.invoice_type == "advance_charges":
        expected = summed
    else:
        expected = {code: round_cents(_share(base, rates[code])) for code, base in bases.items()}
    for code in dict.fromkeys((*expected, *listed)):
        if expected.get(code) != listed.get(code):
            subject = f"invoice {invoice.number}"
            yield _finding("invoice_taxes", subject, invoice.id, f"tax {code}", expected.get(code), listed.get(code))


def _audited_shares(invoice: Invoice, fees: Sequence[Fee], coupons: int, progressive: int) -> Iterator[Finding]:
    """What coupons took off the invoice is spread over its fees: to the fraction of a cent that each was cut by."""
    shares = total(fee.precise_coupons_amount_cents for fee in fees)
    lines = sum(line.item_type == "coupon" for line in invoice.credits)
    most = Decimal(coupons + progressive + lines)
    # A progressive billing credit finds no share where its group was not used again.
    least = Decimal(coupons) - Decimal(len(fees) * max(lines, 1)) / 1000 if not progressive else ZERO
    if not least <= shares <= most + Decimal(len(fees)) / 1000:
        subject = f"invoice {invoice.number}"
        yield _finding("coupon", subject, invoice.id, "shares of its fees", coupons + progressive, shares)


def _audited_fee(invoice: Invoice, fee: Fee, number_of_fees: int) -> Iterator[Finding]:
    subject, what = f"invoice {invoice.number}", f"fee {fee.id} ({fee.item.code})"
    if fee.currency != invoice.currency:
        yield _finding("fee", subject, invoice.id, f"{what} currency", invoice.currency, fee.currency)
    if not ZERO <= fee.precise_coupons_amount_cents <= Decimal(max(fee.amount_cents, 0)):
        wanted = f"0 to {fee.amount_cents}"
        yield _finding("coupon", subject, invoice.id, f"{what} coupons", wanted, fee.precise_coupons_amount_cents)
    taxes = round_cents(total(_share(_net(fee), line.rate) for line in fee.applied_taxes))
    if taxes != fee.taxes_amount_cents:
        yield _finding("fee_taxes", subject, invoice.id, f"{what} taxes_amount_cents", taxes, fee.taxes_amount_cents)
    rate = total(line.rate for line in fee.applied_taxes)
    if rate != fee.taxes_rate:
        yield _finding("fee_taxes", subject, invoice.id, f"{what} taxes_rate", rate, fee.taxes_rate)
    # A pricing unit is rounded in its own cents first; what was paid before is taken off in whole cents. A true-up is
    # what the rounded fees of its charge leave of the minimum, and precisely what these are before they are rounded.
    wanted_cents = round_cents(fee.precise_amount_cents)
    most = 0 if fee.true_up_parent_fee_id is None else number_of_fees
    if fee.pricing_unit_details is None and abs(wanted_cents - fee.amount_cents) > most:
        yield _finding("fee", subject, invoice.id, f"{what} amount_cents", wanted_cents, fee.amount_cents)
    priced = _priced(fee)
    if priced is not None and abs(subtract(priced, fee.precise_amount_cents)) > Decimal("0.00001"):
        precise = round_to(priced, _DECIMALS)
        yield _finding("fee", subject, invoice.id, f"{what} precise_amount_cents", precise, fee.precise_amount_cents)


def _priced(fee: Fee) -> Decimal | None:
    """What the fee's own details add up to (in cents), where they say it all."""
    details = fee.amount_details
    parts: object = None
    for ranges in ("graduated_ranges", "graduated_percentage_ranges"):
        parts = details.get(ranges, parts)
    if fee.pricing_unit_details is not None or fee.pay_in_advance or not isinstance(parts, (list, tuple)):
        return None
    amounts = [part.get("total_with_flat_amount") for part in parts if isinstance(part, Mapping)]
    if not amounts or any(amount is None for amount in amounts):
        return None
    return cents_from_major(total(Decimal(str(amount)) for amount in amounts), fee.currency)


def _repeated_fees(invoice: Invoice, fees: Sequence[Fee]) -> Iterator[Finding]:
    """An invoice has one line for each thing that it bills."""
    seen: set[object] = set()
    for fee in fees:
        if fee.subscription_id is None or fee.fee_type in ("add_on", "credit"):
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
        )
        if key in seen:
            what = f"fee {fee.id} ({fee.item.code})"
            yield _finding("fee_repeated", f"invoice {invoice.number}", invoice.id, what, "one such fee", "another")
        seen.add(key)


def _fee_periods(invoice: Invoice, fees: Sequence[Fee], periods: Sequence[BillingPeriod]) -> Iterator[Finding]:
    """A usage fee in arrears bills the usage window of its subscription's billing period."""
    windows = {
        period.subscription_id: (period.charges_from_datetime, period.charges_to_datetime)
        for period in periods
        if period.invoicing_reason in WHOLE_REASONS
    }
    for fee in fees:
        window = windows.get(fee.subscription_id or "")
        if fee.fee_type != "charge" or fee.pay_in_advance or window is None:
            continue
        own = (fee.charges_from_datetime, fee.charges_to_datetime)
        if own != window:
            what = f"fee {fee.id} ({fee.item.code}) window"
            yield _finding("fee_period", f"invoice {invoice.number}", invoice.id, what, _shown(*window), _shown(*own))


def _shown(start: datetime | None, end: datetime | None) -> str:
    return f"{start.isoformat() if start else None} to {end.isoformat() if end else None}"


# Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """An issued invoice as far as its number goes: its position in a series."""

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
            what = f"position in the series of {invoice.series}"
            yield _finding(check, f"invoice {invoice.number}", invoice.id, what, last + 1, invoice.position)
        last = max(last, invoice.position)


# Periods


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledWindow:
    """What an invoice bills of a subscription: two instants, both included. `number` is the invoice's.

    A window that does not stand was billed by an invoice that is void: it may be billed again, and need not be. One of
    a single instant bills it where it `ends` the subscription, and nothing at a start.
    """

    start: datetime
    end: datetime
    number: str
    stands: bool = True
    ends: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """From when on, and until when at least, a subscription must have been billed. None asks for nothing."""

    subscription_id: str
    external_id: str
    billed_from: datetime | None
    billed_until: datetime | None


def audited_windows(
    kind: str, windows: Iterable[BilledWindow], life: Life, *, exact: bool = True, may_pause: bool = False
) -> Iterator[Finding]:
    """The windows of one kind tile the subscription's life: no instant of it is billed twice, or never.

    Unless `exact`, windows may overlap or part by what a change of time zone moves them. With `may_pause`, what lies
    between two windows may be free.
    """
    slack = timedelta(0) if exact else _WIDEST_MOVE
    subject = f"subscription {life.external_id}"
    reach: datetime | None = None
    number = ""
    standing: BilledWindow | None = None
    for window in sorted(windows, key=lambda window: (window.start, window.end)):
        if window.start > window.end or (window.start == window.end and not window.ends):
            continue
        if standing is not None and window.stands and window.start <= standing.end - slack:
            what = f"{kind} of invoices {standing.number} and {window.number}"
            wanted = f"after {standing.end.isoformat()}"
            yield _finding("period_billed_twice", subject, life.subscription_id, what, wanted, window.start.isoformat())
        if reach is None:
            late = life.billed_from is not None and window.start > life.billed_from + slack
            before = f"before invoice {window.number}"
            due = life.billed_from
        else:
            late = window.start > reach + _INSTANT + slack
            before = f"between invoices {number} and {window.number}"
            due = reach + _INSTANT
        if late and due is not None and not may_pause:
            found = f"from {window.start.isoformat()}"
            wanted = f"from {due.isoformat()}"
            yield _finding("period_never_billed", subject, life.subscription_id, f"{kind} {before}", wanted, found)
        if reach is None or window.end >= reach:
            reach, number = window.end, window.number
        if window.stands and (standing is None or window.end >= standing.end):
            standing = window
    if life.billed_until is not None and (reach is None or reach + slack < life.billed_until):
        what = f"{kind} after invoice {number}" if number else kind
        wanted = f"until {life.billed_until.isoformat()}"
        found = "nothing" if reach is None else f"until {reach.isoformat()}"
        yield _finding("period_never_billed", subject, life.subscription_id, what, wanted, found)


# What invoices use up


def audited_credit_note(note: CreditNote, used_cents: int) -> Iterator[Finding]:
    """The parts of a note add up to its total, and its balance is what invoices have not used of its credit.

    `used_cents` is what invoices that stand took of it.
    """

    def differs(what: str, expected: object, found: object) -> Iterator[Finding]:
        if expected != found:
            yield _finding("credit_note", f"credit note {note.number}", note.id, what, expected, found)

    parts = note.credit_amount_cents + note.refund_amount_cents + note.offset_amount_cents
    yield from differs("credit, refund and offset", note.total_amount_cents, parts)
    yield from differs(
        "total_amount_cents",
        note.sub_total_excluding_taxes_amount_cents + note.taxes_amount_cents,
        note.total_amount_cents,
    )
    items = total(item.precise_amount_cents for item in note.items)
    net = round_cents(subtract(items, note.precise_coupons_adjustment_amount_cents))
    # Items of the remainder of a void are what is left in whole cents of fees that were given back in fractions.
    if abs(net - note.sub_total_excluding_taxes_amount_cents) > _NOTE_ROUNDING + len(note.items):
        # Where the parts of a note are fixed, the cents of rounding are on what it comes to before taxes.
        yield from differs("sub_total_excluding_taxes_amount_cents", net, note.sub_total_excluding_taxes_amount_cents)
    for name in ("credit_amount_cents", "refund_amount_cents", "offset_amount_cents", "balance_amount_cents"):
        if getattr(note, name) < 0:
            yield from differs(name, "at least 0", getattr(note, name))
    if used_cents > note.credit_amount_cents:
        yield from differs("used by invoices", f"at most {note.credit_amount_cents}", used_cents)
    balance = 0 if note.credit_status == "voided" else note.credit_amount_cents - used_cents
    yield from differs("balance_amount_cents", balance, note.balance_amount_cents)
    if note.credit_status != "voided" and note.credit_amount_cents > 0:
        status = "consumed" if balance == 0 else "available"
        yield from differs("credit_status", status, note.credit_status)


def audited_notes_of_invoice(invoice: Invoice, fees: Sequence[Fee], notes: Sequence[CreditNote]) -> Iterator[Finding]:
    """All notes of an invoice together give back no more of it, and of each of its fees, than was billed."""
    subject = f"invoice {invoice.number}"
    given: dict[str, int] = {}
    for note in notes:
        for item in note.items:
            given[item.fee_id] = given.get(item.fee_id, 0) + item.amount_cents
    billed = {fee.id: fee for fee in fees}
    for fee_id, amount in given.items():
        fee = billed.get(fee_id)
        most = 0 if fee is None else fee.amount_cents
        if amount > most:
            what = f"credited of fee {fee_id}"
            yield _finding("credits", subject, invoice.id, what, f"at most {most}", amount)
    credited = sum(note.total_amount_cents for note in notes)
    gross = sum(fee.amount_cents for fee in fees)
    gross += round_cents(total(_share(Decimal(fee.amount_cents), fee.taxes_rate) for fee in fees))
    if credited > gross + 1:
        yield _finding("credits", subject, invoice.id, "credited in all", f"at most {gross}", credited)
    # A void takes the balance of a note, not what it has settled.
    offset = sum(note.offset_amount_cents for note in notes)
    if offset != invoice.total_offset_amount_cents:
        found = invoice.total_offset_amount_cents
        yield _finding("credits", subject, invoice.id, "total_offset_amount_cents", offset, found)


def audited_progressive(invoice: Invoice, used_cents: int) -> Iterator[Finding]:
    """What later invoices take off for a progressive billing invoice is never more than it billed."""
    most = invoice.fees_amount_cents - invoice.coupons_amount_cents
    if used_cents > most:
        what = "credited by later invoices"
        yield _finding("credits", f"invoice {invoice.number}", invoice.id, what, f"at most {most}", used_cents)


def audited_coupon(applied: AppliedCoupon, code: str, uses: Sequence[int]) -> Iterator[Finding]:
    """A coupon takes off no more than its amount and not more often than it may.

    `uses` are the cents that each invoice that stands took of it.
    """
    subject = f"applied coupon {code}"
    fixed = applied.amount_cents if applied.percentage_rate is None else None
    if fixed is not None and applied.frequency == "once" and sum(uses) > fixed:
        yield _finding("coupon", subject, applied.id, "used in all", f"at most {fixed}", sum(uses))
    if fixed is not None and max(uses, default=0) > fixed:
        yield _finding("coupon", subject, applied.id, "used by one invoice", f"at most {fixed}", max(uses))
    if fixed is None and applied.frequency == "once" and len(uses) > 1:
        yield _finding("coupon", subject, applied.id, "invoices", "at most 1", len(uses))
    if applied.frequency == "recurring" and applied.frequency_duration is not None:
        if len(uses) > applied.frequency_duration:
            most = f"at most {applied.frequency_duration}"
            yield _finding("coupon", subject, applied.id, "invoices", most, len(uses))
        left = applied.frequency_duration - len(uses)
        if applied.frequency_duration_remaining not in (None, left):
            found = applied.frequency_duration_remaining
            yield _finding("coupon", subject, applied.id, "frequency_duration_remaining", left, found)
