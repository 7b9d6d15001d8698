"""Manual corrections: adjusted lines of drafts, and regenerated invoices."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Annotated
from zoneinfo import ZoneInfo

from usagebill.core import limits
from usagebill.core.adjusted_fees import adjusted
from usagebill.core.bills import Bill
from usagebill.core.charge_ledger import group_text
from usagebill.core.dates import dates_at_creation
from usagebill.core.errors import Forbidden, Invalid, NotFound
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.opening import new_invoice
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.invoices.regeneration import copied_line, relinked
from usagebill.operations.backlog import Unrelated, after_backlog, of_record, without_backlog
from usagebill.operations.invoices import adjustments
from usagebill.operations.invoices.adjustments import AdjustedFeeInput
from usagebill.operations.invoices.carrying_over import carry_over, move_purchase, open_purchase
from usagebill.operations.invoices.record import record
from usagebill.operations.invoices.subscription import compute
from usagebill.queries.billing_periods import billing_context
from usagebill.queries.contracts import parties_of
from usagebill.queries.fees import definition_billed
from usagebill.queries.invoices import occasion_of, visible_invoice
from usagebill.rating.adjustments import empty_fee, repricing
from usagebill.rating.invoice import settled_bill
from usagebill.requests.inputs import ABSENT, Input, Maybe, described, is_given
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, desc, eq, ne


@after_backlog(of_record(Invoice))
def adjust_fee(work: Work, invoice_id: str, request: AdjustedFeeInput) -> Fee:
    """Change the units, price or name of a draft's line; the draft is recomputed.

    Raises `NotFound`, `Forbidden` and `Invalid`.
    """
    invoice, line = adjustments.prepare(work, invoice_id, request)
    compute(work, invoice, finalizing=False)
    adjusted_fee = next(
        (
            fee
            for fee in work.tx.find(Fee, eq("invoice_id", invoice.id), eq("subscription_id", line.subscription_id))
            if (fee.fee_type, fee.charge_id, fee.charge_filter_id, fee.fixed_charge_id, group_text(fee.grouped_by))
            == (line.fee_type, line.charge_id, line.charge_filter_id, line.fixed_charge_id, line.group)
            and fee.true_up_parent_fee_id is None
        ),
        None,
    )
    if adjusted_fee is None:
        # Its charge has been deleted since the draft was last computed.
        raise NotFound("fee")
    return adjusted_fee


@after_backlog(of_record(Invoice))
def reset_fee(work: Work, invoice_id: str, fee_id: str) -> Invoice:
    """Remove the adjustment of a line, and recompute the draft from usage and plan."""
    return compute(work, adjustments.removed(work, invoice_id, fee_id), finalizing=False)


@without_backlog(Unrelated.ROLLED_BACK)
def estimate_adjusted_fee(work: Work, invoice_id: str, request: AdjustedFeeInput) -> Fee:
    """The line, with taxes, that an adjustment would give; nothing is stored."""
    return work.dry_run(lambda trial: adjust_fee(trial, invoice_id, request))


@Input
class RegeneratedFeeInput:
    """A line of the voided invoice (`id`) to keep, with changes, or a new line.

    `unit_amount` is in major units of the currency.
    """

    id: Maybe[str] = ABSENT
    subscription_id: Maybe[str] = ABSENT
    charge_id: Maybe[str] = ABSENT
    charge_filter_id: Maybe[str] = ABSENT
    fixed_charge_id: Maybe[str] = ABSENT
    units: Maybe[Annotated[Decimal, limits.LINE_UNITS]] = ABSENT
    unit_amount: Maybe[Annotated[Decimal, limits.LINE_UNIT_PRICE]] = described(
        "The price of one unit.", unit="major units", example="1.25"
    )
    invoice_display_name: Maybe[str] = ABSENT


@Input
class RegenerationInput:
    """The lines of the new invoice; those not listed are dropped. An absent purchase order number is inherited."""

    fees: Maybe[tuple[RegeneratedFeeInput, ...]] = ABSENT
    purchase_order_number: Maybe[str] = ABSENT


@after_backlog(of_record(Invoice))
def regenerate(work: Work, invoice_id: str, request: RegenerationInput) -> Invoice:
    """Regenerate a voided invoice with these lines: with a new number, and today's coupons, taxes and credits.

    Credit notes that were made on the voided one are made anew over the lines that are kept. Its dates are computed
    from the creation of the voided one. Raises `NotFound`, `Invalid`, and `Forbidden` for one that is not voided, whose
    lines are billed by an invoice regenerated already, or that bought credits which have been paid.
    """
    voided = visible_invoice(work, invoice_id)
    again = work.tx.first(Invoice, eq("voided_invoice_id", voided.id), ne("status", InvoiceStatus.VOIDED))
    if voided.status != InvoiceStatus.VOIDED or again is not None:
        raise Forbidden("feature_unavailable")
    ids = [fee.id for fee in request.fees or () if fee.id]
    if len(set(ids)) < len(ids):
        raise Invalid(fees="duplicated_values")
    last = _last_voided(work, voided)
    purchase = open_purchase(work, last)
    invoice = record(work, _regenerated_bill(work, voided, request))
    if purchase is not None:
        move_purchase(work, purchase, invoice)
    return carry_over(work, last, invoice)


def _last_voided(reader: Reader, voided: Invoice) -> Invoice:
    """The last invoice that stood in this one's place, itself voided."""
    later = reader.tx.first(
        Invoice,
        eq("voided_invoice_id", voided.id),
        eq("status", InvoiceStatus.VOIDED),
        order=[desc("created_at"), desc("id")],
    )
    return voided if later is None else _last_voided(reader, later)


def _regenerated_bill(reader: Reader, voided: Invoice, request: RegenerationInput) -> Bill:
    invoice = _opened(reader, voided, request)
    periods = [
        replace(period, id=reader.new_id(), invoice_id=invoice.id, created_at=invoice.created_at)
        for period in reader.tx.find(BillingPeriod, eq("invoice_id", voided.id), order=[asc("id")])
    ]
    fees = relinked([(sent.id or None, _line(reader, voided, invoice, periods, sent)) for sent in request.fees or ()])
    return settled_bill(reader, invoice, periods, fees)


def _opened(reader: Reader, voided: Invoice, request: RegenerationInput) -> Invoice:
    parties = parties_of(reader, voided)
    settings = parties.dating
    number = voided.purchase_order_number
    if is_given(request.purchase_order_number):
        number = (request.purchase_order_number or "").strip() or None
    invoice = new_invoice(
        id=reader.new_id(),
        invoice_type=voided.invoice_type,
        customer=parties.customer,
        issuer=parties.issuer,
        currency=voided.currency,
        timezone=voided.timezone,
        dates=dates_at_creation(occasion_of(reader, voided), settings, voided.created_at, ZoneInfo(voided.timezone)),
        net_payment_term=settings.net_payment_term,
        now=reader.now,
        purchase_order_number=number,
    )
    return replace(invoice, voided_invoice_id=voided.id, applied_usage_thresholds=voided.applied_usage_thresholds)


def _line(
    reader: Reader, voided: Invoice, invoice: Invoice, periods: list[BillingPeriod], request: RegeneratedFeeInput
) -> Fee:
    if request.id:
        fee = _kept(reader, voided, invoice, request.id)
        period = next((period for period in periods if period.subscription_id == fee.subscription_id), None)
    else:
        period = next((period for period in periods if period.subscription_id == request.subscription_id), None)
        if period is None:
            raise NotFound("subscription", request.subscription_id)
        fee = _new(reader, invoice, period, request)
    adjustments.check_units(request.units, request.unit_amount)
    then = reader.as_of(fee.price_version)
    reprice = None if period is None else repricing(then, definition_billed(then, period.plan_id, fee), fee)
    return adjusted(
        fee,
        units=request.units if isinstance(request.units, Decimal) else None,
        unit_amount=request.unit_amount if isinstance(request.unit_amount, Decimal) else None,
        name=request.invoice_display_name or None,
        reprice=reprice,
    )


def _kept(reader: Reader, voided: Invoice, invoice: Invoice, id: str) -> Fee:
    """A copy of a line of the voided invoice, as if nothing had been taken off or paid."""
    fee = reader.tx.get(Fee, id)
    if fee is None or fee.invoice_id != voided.id:
        raise NotFound("fee", id)
    return copied_line(fee, invoice, id=reader.new_id(), now=reader.now)


def _new(reader: Reader, invoice: Invoice, period: BillingPeriod, sent_fields: RegeneratedFeeInput) -> Fee:
    request = AdjustedFeeInput(
        subscription_id=period.subscription_id,
        charge_id=sent_fields.charge_id,
        charge_filter_id=sent_fields.charge_filter_id,
        fixed_charge_id=sent_fields.fixed_charge_id,
    )
    then = reader.as_of(period.price_version)
    line = adjustments.line_in_period(then, invoice, period, request)
    fee = empty_fee(then, billing_context(then, invoice, period), line)
    if fee is None:
        raise NotFound("charge", sent_fields.charge_id)
    return replace(fee, price_version=period.price_version)
