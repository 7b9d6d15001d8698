"""Revenue by month and currency, summed over invoices and their fees."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

from usagebill.core.analytics import (
    GrossRevenue,
    InvoiceCollection,
    InvoicedUsage,
    OverdueBalance,
    RecurringFee,
    RecurringRevenue,
    cents,
    recurring_revenue,
)
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import Customer
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import add, subtract
from usagebill.core.periods import Interval
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription
from usagebill.rating.analytics.scope import AnalyticsFilters, Scope, scope_of, stands
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, eq, missing, ne, related
from usagebill.storage.sums import GroupKey

_INVOICE = ((Invoice, "invoice_id"),)
_SUBSCRIPTION = ((Subscription, "subscription_id"),)
_PLAN = (*_SUBSCRIPTION, (Plan, "plan_id"))


def gross_revenue(reader: Reader, options: AnalyticsFilters) -> list[GrossRevenue]:
    """Totals of finalized invoices, by the month of their date, currency and billing entity; oldest first.

    Refunds are taken off the month of their invoice. Fees paid in advance without an invoice count in the month in
    which they were made, before taxes. Self-billed invoices and lost disputes are left out.
    """
    scope = scope_of(reader, options)
    amounts: dict[tuple[date, str, str], int] = defaultdict(int)
    counts: dict[tuple[date, str, str], int] = defaultdict(int)

    def count(key: Sequence[object], amount: Decimal, invoices: int = 0) -> None:
        month, currency, entity_id = scope.month(key[0]), str(key[1]), str(key[2])
        if month is not None:
            amounts[month, currency, entity_id] += int(amount)
            counts[month, currency, entity_id] += invoices

    keys = [GroupKey("issuing_date", month=True), GroupKey("currency"), GroupKey("billing_entity_id")]
    for group in reader.tx.grouped(Invoice, keys, ["total_amount_cents"], *stands(), *scope.of_record()):
        count(group.key, group.sums[0], group.count)
    keys = [GroupKey(key.column, _INVOICE, key.month) for key in keys]
    counted = related(Invoice, "invoice_id", *stands(), *scope.of_record())
    for group in reader.tx.grouped(CreditNote, keys, ["refund_amount_cents"], counted):
        count(group.key, -group.sums[0])
    keys = [
        GroupKey("created_at", month=True),
        GroupKey("currency"),
        GroupKey("billing_entity_id", _SUBSCRIPTION),
        GroupKey("billing_entity_id", ((Customer, "customer_id"),)),
    ]
    loose = eq("pay_in_advance", True), missing("invoice_id"), eq("self_billed", False)
    for group in reader.tx.grouped(Fee, keys, ["amount_cents"], *loose, *scope.of_record(entity=None)):
        month, currency, entity_id, customer_entity_id = group.key
        if scope.billing_entity_id in (None, entity_id or customer_entity_id):
            count((month, currency, entity_id or customer_entity_id), group.sums[0])
    return [
        GrossRevenue(
            month=month,
            currency=currency,
            billing_entity_id=entity_id,
            amount_cents=amounts[month, currency, entity_id],
            invoices_count=counts[month, currency, entity_id],
        )
        for month, currency, entity_id in sorted(amounts)
    ]


def invoice_collection(reader: Reader, options: AnalyticsFilters) -> list[InvoiceCollection]:
    """The finalized invoices of each month by payment status and currency, in that order; oldest month first.

    A month without invoices has an empty row, unless filtered by currency. Self-billed invoices and lost disputes are
    left out.
    """
    scope = scope_of(reader, options)
    keys = [GroupKey("issuing_date", month=True), GroupKey("payment_status"), GroupKey("currency")]
    rows: list[InvoiceCollection] = []
    for group in reader.tx.grouped(Invoice, keys, ["total_amount_cents"], *stands(), *scope.of_record()):
        month = scope.month(group.key[0])
        if month is not None:
            rows.append(
                InvoiceCollection(
                    month=month,
                    payment_status=str(group.key[1]),
                    currency=str(group.key[2]),
                    invoices_count=group.count,
                    amount_cents=int(group.sums[0]),
                )
            )
    rows += [
        InvoiceCollection(month=month, payment_status=None, currency=None, invoices_count=0, amount_cents=0)
        for month in _empty(scope, [row.month for row in rows])
    ]
    return sorted(rows, key=lambda row: (row.month, row.payment_status or "", row.currency or ""))


def _empty(scope: Scope, filled: Sequence[date]) -> list[date]:
    """The months without anything, which get an empty row."""
    return [] if scope.currency is not None else [month for month in scope.months if month not in set(filled)]


def invoiced_usage(reader: Reader, options: AnalyticsFilters) -> list[InvoicedUsage]:
    """Usage fees on invoices of any status, after coupons and before taxes, by the month in which they were made.

    Newest month first, then the largest amount. Self-billed invoices and lost disputes are left out.
    """
    scope = scope_of(reader, options)
    keys = [
        GroupKey("created_at", month=True),
        GroupKey("code", ((BillableMetric, "billable_metric_id"),)),
        GroupKey("currency"),
    ]
    on_invoice = related(
        Invoice, "invoice_id", missing("payment_dispute_lost_at"), eq("self_billed", False), *scope.of_invoice()
    )
    conditions = eq("fee_type", FeeType.CHARGE), *scope.of_record(entity=None), on_invoice
    rows = []
    for group in reader.tx.grouped(Fee, keys, ["amount_cents", "precise_coupons_amount_cents"], *conditions):
        month = scope.month(group.key[0])
        if month is not None:
            rows.append(
                InvoicedUsage(
                    month=month,
                    code=str(group.key[1]),
                    currency=str(group.key[2]),
                    amount_cents=cents(Fraction(subtract(*group.sums))),
                )
            )
    return sorted(rows, key=lambda row: (-row.month.toordinal(), -row.amount_cents, row.code, row.currency))


def mrr(reader: Reader, options: AnalyticsFilters) -> list[RecurringRevenue]:
    """Monthly recurring revenue: subscription fees of finalized invoices after coupons, with taxes, spread over time.

    Oldest month first; a month without fees has an empty row, unless filtered by currency. Self-billed invoices and
    lost disputes are left out.
    """
    scope = scope_of(reader, options)
    revenue = recurring_revenue(_recurring_fees(reader, scope))
    rows = [
        RecurringRevenue(month=month, currency=currency, amount_cents=cents(amount))
        for (month, currency), amount in revenue.items()
        if scope.shows(month)
    ]
    rows += [
        RecurringRevenue(month=month, currency=None, amount_cents=None)
        for month in _empty(scope, [row.month for row in rows])
    ]
    return sorted(rows, key=lambda row: (row.month, row.currency or ""))


def _recurring_fees(reader: Reader, scope: Scope) -> list[RecurringFee]:
    longer = ne("interval", Interval.WEEKLY)
    weekly = eq("interval", Interval.WEEKLY)
    return [
        *_recurring_fees_of(reader, scope, longer),
        *_recurring_fees_of(reader, scope, weekly, GroupKey("subscription_id")),
    ]


def _recurring_fees_of(reader: Reader, scope: Scope, on_plan: Condition, *more: GroupKey) -> list[RecurringFee]:
    keys = [
        GroupKey("issuing_date", _INVOICE),
        GroupKey("currency"),
        GroupKey("interval", _PLAN),
        GroupKey("pay_in_advance", _PLAN),
        GroupKey("from_datetime"),
        GroupKey("to_datetime"),
        *more,
    ]
    columns = ["amount_cents", "precise_coupons_amount_cents", "taxes_amount_cents"]
    on_invoice = related(Invoice, "invoice_id", *stands(), *scope.of_invoice())
    of_plan = related(Subscription, "subscription_id", related(Plan, "plan_id", on_plan))
    wanted = eq("fee_type", FeeType.SUBSCRIPTION), *scope.of_record(entity=None), on_invoice, of_plan
    fees = []
    for group in reader.tx.grouped(Fee, keys, columns, *wanted):
        issued, currency, interval, in_advance, start, end, *subscription_ids = group.key
        amount, coupons, taxes = group.sums
        fees.append(
            RecurringFee(
                issued=date.fromisoformat(str(issued)),
                currency=str(currency),
                interval=str(interval),
                in_advance=bool(in_advance),
                start=_instant(start),
                end=_instant(end),
                amount=add(subtract(amount, coupons), taxes),
                count=group.count,
                subscription_id=str(subscription_ids[0]) if subscription_ids else None,
            )
        )
    return fees


def _instant(text: object) -> datetime | None:
    return None if text is None else datetime.fromisoformat(str(text)).astimezone(UTC)


def overdue_balance(reader: Reader, options: AnalyticsFilters) -> list[OverdueBalance]:
    """The amount still due on overdue invoices, by the month in which they were due, currency and billing entity.

    Oldest month first. Payments and finalized offsets are taken off. Self-billed invoices are left out.
    """
    scope = scope_of(reader, options)
    keys = [
        GroupKey("payment_due_date", month=True),
        GroupKey("currency"),
        GroupKey("billing_entity_id"),
        GroupKey("id"),
    ]
    columns = ["total_amount_cents", "total_paid_amount_cents", "total_offset_amount_cents"]
    overdue = eq("payment_overdue", True), eq("self_billed", False), *scope.of_record()
    invoices: dict[tuple[date, str, str], list[tuple[str, int]]] = defaultdict(list)
    for group in reader.tx.grouped(Invoice, keys, columns, *overdue):
        text, currency, entity_id, id = group.key
        month = scope.month(text)
        if month is not None:
            total, paid, offset = map(int, group.sums)
            invoices[month, str(currency), str(entity_id)].append((str(id), total - paid - offset))
    return [
        OverdueBalance(
            month=month,
            currency=currency,
            billing_entity_id=entity_id,
            amount_cents=sum(due for _, due in due_of),
            invoice_ids=tuple(sorted(id for id, _ in due_of)),
        )
        for (month, currency, entity_id), due_of in sorted(invoices.items())
    ]
