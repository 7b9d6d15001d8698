"""Progressive credits: amounts that progressive billing invoices have already billed of an invoice's periods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from usagebill.core.credit_notes import CREDITED, CreditNote
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.life_cycle import (
    BILLED_AHEAD,
    IN_ARREARS,
    UNDONE,
    WHOLE_REASONS,
    InvoiceType,
    InvoicingReason,
)
from usagebill.core.invoices.progressive import billed_ahead_by, deducted_cents, discounts
from usagebill.core.invoices.records import BillingPeriod, CreditType, Invoice
from usagebill.core.invoices.totals import ProgressiveBilled
from usagebill.core.numbers import ZERO, add, subtract
from usagebill.core.progressive_billing import BilledAhead, ProgressiveFee, already_billed
from usagebill.core.sharing import sharing
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.taxes import net_of_part, tax_keys
from usagebill.queries.contracts import contracts_of
from usagebill.queries.coupons import available_coupon, coupons_of
from usagebill.queries.invoices import place_of
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import at_most, eq, has_item, less, more, ne, related, within


def billed_ahead(
    reader: Reader, invoice: Invoice, periods: Sequence[BillingPeriod], fees: Sequence[Fee]
) -> tuple[ProgressiveBilled, ...]:
    """For each usage window of the `periods` of `invoice`, the cents of its `fees` that progressive billing invoices
    have billed, and the last of these invoices.
    """
    credits = []
    for period in periods:
        if period.charges_from_datetime is None or not IN_ARREARS[period.invoicing_reason].usage:
            continue
        usage_cents, last_day = {period.charges_from_datetime: 0}, period.last_day_from
        for fee in fees:
            if fee.subscription_id == period.subscription_id and fee.fee_type == FeeType.CHARGE:
                start = period.charges_from_datetime
                if last_day is not None and fee.charges_from_datetime == last_day:
                    start = last_day
                usage_cents[start] = usage_cents.get(start, 0) + fee.amount_cents
        for start, cents in usage_cents.items():
            billed = _billed_of_window(reader, invoice, period.subscription_id, start, cents)
            if billed is not None:
                credits.append(billed)
    return tuple(credits)


def _billed_of_window(
    reader: Reader, invoice: Invoice, subscription_id: str, start: datetime, usage_cents: int
) -> ProgressiveBilled | None:
    others = [other for other in _progressive_invoices(reader, subscription_id, start) if other.id != invoice.id]
    standing = _in_force(reader, others)
    if not standing:
        return None
    place = place_of(reader, invoice)
    billed_cents = already_billed([ahead for ahead, _ in standing], place, usage_cents)
    if invoice.invoice_type != InvoiceType.PROGRESSIVE_BILLING:
        billed_cents = max(0, billed_cents - _deducted(reader, invoice, others))
    before = [billed for ahead, billed in standing if ahead.place < place]
    last = before[-1] if before else standing[-1][1]
    before = before if billed_cents > 0 else []
    return ProgressiveBilled(
        invoice_id=last.id,
        number=last.number,
        subscription_id=subscription_id,
        left_cents=billed_cents,
        fees=_progressive_fees(reader, [billed for _, billed in standing], last),
        before=tuple(before),
        coupons=tuple(available_coupon(reader, applied) for applied in coupons_of(reader, discounts(before))),
    )


def used_together(reader: Reader, invoice: Invoice, periods: Sequence[BillingPeriod]) -> list[Invoice]:
    """The other invoices in force that use a coupon together with this one, oldest first: those that it deducts and
    those that deduct it, also by way of others, and of ones that were undone or made again; and progressive billing
    invoices of subscriptions that will share the invoice of their period (`periods` are those of this one).
    """
    linked = [invoice, *billed_beside(reader, invoice, periods)]
    known = {one.id for one in linked}
    for one in linked:
        sources = [line.source_id for line in one.credits if line.item_type == CreditType.INVOICE]
        ids = [id for id in (*sources, one.voided_invoice_id) if id is not None]
        of_customer = eq("customer_id", one.customer_id)
        found = [
            *(reader.tx.find(Invoice, within("id", ids)) if ids else ()),
            *reader.tx.find(Invoice, of_customer, has_item("credits", source_id=one.id, item_type="invoice")),
            *reader.tx.find(Invoice, of_customer, eq("voided_invoice_id", one.id)),
        ]
        linked += {other.id: other for other in found if other.id not in known}.values()
        known |= {other.id for other in found}
    others = [other for other in linked[1:] if other.status not in UNDONE]
    return sorted(others, key=lambda other: (other.created_at, other.id))


def billed_beside(reader: Reader, invoice: Invoice, periods: Sequence[BillingPeriod]) -> list[Invoice]:
    """The progressive billing invoices in force of other subscriptions that will share an invoice with the subscription
    of this one when their periods end.
    """
    if invoice.invoice_type != InvoiceType.PROGRESSIVE_BILLING:
        return []
    of_customer = eq("customer_id", invoice.customer_id), eq("status", SubscriptionStatus.ACTIVE)
    beside = [
        other
        for period in periods
        for other in reader.tx.find(
            BillingPeriod,
            ne("subscription_id", period.subscription_id),
            eq("invoicing_reason", InvoicingReason.PROGRESSIVE_BILLING),
            eq("charges_to_datetime", period.charges_to_datetime),
            related(Subscription, "subscription_id", *of_customer),
        )
    ]
    if not beside:
        return []
    own = {period.subscription_id for period in periods}
    groups = sharing(contracts_of(reader, (*periods, *beside)))
    ids = {one.subscription.id for group in groups if any(c.subscription.id in own for c in group) for one in group}
    invoice_ids = [one.invoice_id for one in beside if one.subscription_id in ids]
    return reader.tx.find(Invoice, within("id", invoice_ids), within("status", BILLED_AHEAD))


def billed_together(reader: Reader, progressive: Invoice) -> list[Invoice]:
    """The progressive billing invoices in force of the same period, in the order of their places."""
    periods = reader.tx.find(BillingPeriod, eq("invoice_id", progressive.id))
    invoices = {progressive.id: progressive}
    for period in periods:
        if period.charges_from_datetime is not None:
            found = _progressive_invoices(reader, period.subscription_id, period.charges_from_datetime)
            invoices |= {invoice.id: invoice for invoice in found}
    return [invoice for _, invoice in _in_force(reader, invoices.values())]


def _progressive_invoices(reader: Reader, subscription_id: str, start: datetime) -> list[Invoice]:
    """The progressive billing invoices, whatever their status, of the usage window in which usage from `start` lies."""
    periods = reader.tx.find(
        BillingPeriod,
        eq("subscription_id", subscription_id),
        eq("invoicing_reason", InvoicingReason.PROGRESSIVE_BILLING),
        at_most("charges_from_datetime", start),
        more("charges_to_datetime", start),
    )
    if any(period.charges_from_datetime != start for period in periods):
        periods = _not_closed_before(reader, subscription_id, start, periods)
    if not periods:
        return []
    ids = [period.invoice_id for period in periods]
    return reader.tx.find(Invoice, within("id", ids), eq("invoice_type", InvoiceType.PROGRESSIVE_BILLING))


def _not_closed_before(
    reader: Reader, subscription_id: str, start: datetime, ahead: Sequence[BillingPeriod]
) -> list[BillingPeriod]:
    """The windows billed ahead, without those of usage periods that were billed and ended before `start`: a period ends
    earlier than what was billed ahead of it says once the customer's time zone has moved east.
    """
    closed = [
        period.charges_from_datetime
        for period in reader.tx.find(
            BillingPeriod,
            eq("subscription_id", subscription_id),
            within("invoicing_reason", [reason for reason in WHOLE_REASONS if IN_ARREARS[reason].usage]),
            less("charges_to_datetime", start),
        )
    ]
    return [period for period in ahead if period.charges_from_datetime not in closed]


def _in_force(reader: Reader, invoices: Iterable[Invoice]) -> list[tuple[BilledAhead, Invoice]]:
    """The progressive billing invoices in force, with what they bill, in the order of their places."""
    standing = [
        (
            BilledAhead(
                place=place_of(reader, invoice),
                usage_cents=invoice.fees_amount_cents,
                billed_cents=billed_ahead_by(invoice, _notes(reader, invoice)),
            ),
            invoice,
        )
        for invoice in invoices
        if invoice.status in BILLED_AHEAD
    ]
    return sorted(standing, key=lambda item: item[0].place)


def _notes(reader: Reader, invoice: Invoice) -> Sequence[CreditNote]:
    return reader.tx.find(CreditNote, eq("invoice_id", invoice.id), within("credit_status", CREDITED))


def _deducted(reader: Reader, invoice: Invoice, progressive: Sequence[Invoice]) -> int:
    """The cents that other invoices of the period have deducted for progressive billing invoices, voided ones too."""
    deducting = {
        other.id: other
        for billed in progressive
        for other in reader.tx.find(
            Invoice,
            eq("customer_id", billed.customer_id),
            ne("id", invoice.id),
            has_item("credits", source_id=billed.id, item_type="invoice"),
        )
    }
    return deducted_cents({billed.id for billed in progressive}, deducting.values())


def _progressive_fees(reader: Reader, invoices: Sequence[Invoice], last: Invoice) -> tuple[ProgressiveFee, ...]:
    """The fees of these progressive billing invoices."""
    fees = reader.tx.find(Fee, within("invoice_id", [invoice.id for invoice in invoices]))
    given_back: dict[str, Decimal] = {}
    for invoice in invoices:
        for note in _notes(reader, invoice):
            for item in note.items if note.automatic else ():
                given_back[item.fee_id] = add(given_back.get(item.fee_id, ZERO), item.precise_amount_cents)
    return tuple(
        ProgressiveFee(
            charge_id=fee.charge_id or "",
            charge_filter_id=fee.charge_filter_id,
            grouped_by=fee.grouped_by,
            amount_cents=fee.amount_cents if fee.invoice_id == last.id else 0,
            net_cents=net_of_part(fee, subtract(Decimal(fee.amount_cents), given_back.get(fee.id, ZERO))),
            given_back_cents=given_back.get(fee.id, ZERO),
            taxes=tax_keys(fee),
        )
        for fee in fees
    )
