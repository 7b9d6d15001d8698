"""Analytics as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TypedDict

from usagebill.core.analytics import (
    GrossRevenue,
    InvoiceCollection,
    InvoicedUsage,
    OverdueBalance,
    RecurringRevenue,
    UsageOfMetric,
)
from usagebill.core.numbers import decimal_text
from usagebill.runtime.work import Reader
from usagebill.views.formats import Day, DecimalText, Id, Instant, date_text


class GrossRevenueView(TypedDict):
    month: Instant
    amount_cents: int
    currency: str
    invoices_count: int
    billing_entity_id: Id


class InvoiceCollectionView(TypedDict):
    month: Instant
    payment_status: str | None
    invoices_count: int
    amount_cents: int
    currency: str | None


class InvoicedUsageView(TypedDict):
    month: Instant
    code: str
    currency: str
    amount_cents: int


class MrrView(TypedDict):
    month: Instant
    amount_cents: int | None
    currency: str | None


class OverdueBalanceView(TypedDict):
    month: Instant
    amount_cents: int
    currency: str
    svc_invoice_ids: list[Id]
    billing_entity_id: Id


class UsageOfMetricView(TypedDict):
    organization_id: Id
    start_of_period_dt: Day
    end_of_period_dt: Day
    billable_metric_code: str
    is_billable_metric_deleted: bool
    amount_currency: str
    amount_cents: int
    units: DecimalText


def _month_text(month: date) -> str:
    return f"{month.isoformat()}T00:00:00.000Z"


def gross_revenue_view(reader: Reader, row: GrossRevenue) -> GrossRevenueView:
    """The amount invoiced in a month."""
    return {
        "month": _month_text(row.month),
        "amount_cents": row.amount_cents,
        "currency": row.currency,
        "invoices_count": row.invoices_count,
        "billing_entity_id": row.billing_entity_id,
    }


def invoice_collection_view(reader: Reader, row: InvoiceCollection) -> InvoiceCollectionView:
    """The invoices of a month with one payment status."""
    return {
        "month": _month_text(row.month),
        "payment_status": row.payment_status,
        "invoices_count": row.invoices_count,
        "amount_cents": row.amount_cents,
        "currency": row.currency,
    }


def invoiced_usage_view(reader: Reader, row: InvoicedUsage) -> InvoicedUsageView:
    """The invoiced usage of a metric in a month."""
    return {
        "month": _month_text(row.month),
        "code": row.code,
        "currency": row.currency,
        "amount_cents": row.amount_cents,
    }


def mrr_view(reader: Reader, row: RecurringRevenue) -> MrrView:
    """The recurring revenue of a month."""
    return {"month": _month_text(row.month), "amount_cents": row.amount_cents, "currency": row.currency}


def overdue_balance_view(reader: Reader, row: OverdueBalance) -> OverdueBalanceView:
    """The overdue amount of invoices that were due in a month."""
    return {
        "month": _month_text(row.month),
        "amount_cents": row.amount_cents,
        "currency": row.currency,
        "svc_invoice_ids": list(row.invoice_ids),
        "billing_entity_id": row.billing_entity_id,
    }


def usage_of_metric_view(reader: Reader, row: UsageOfMetric) -> UsageOfMetricView:
    """The usage of a metric in a period."""
    return {
        "organization_id": reader.organization.id,
        "start_of_period_dt": date_text(row.start),
        "end_of_period_dt": date_text(row.end),
        "billable_metric_code": row.code,
        "is_billable_metric_deleted": row.is_deleted,
        "amount_currency": row.currency,
        "amount_cents": row.amount_cents,
        "units": decimal_text(row.units),
    }


def gross_revenues_view(reader: Reader, rows: Sequence[GrossRevenue]) -> list[GrossRevenueView]:
    """Invoiced amounts by month."""
    return [gross_revenue_view(reader, row) for row in rows]


def invoice_collections_view(reader: Reader, rows: Sequence[InvoiceCollection]) -> list[InvoiceCollectionView]:
    """Invoices by month and payment status."""
    return [invoice_collection_view(reader, row) for row in rows]


def invoiced_usages_view(reader: Reader, rows: Sequence[InvoicedUsage]) -> list[InvoicedUsageView]:
    """Usage fees by month and metric."""
    return [invoiced_usage_view(reader, row) for row in rows]


def mrrs_view(reader: Reader, rows: Sequence[RecurringRevenue]) -> list[MrrView]:
    """Recurring revenue by month."""
    return [mrr_view(reader, row) for row in rows]


def overdue_balances_view(reader: Reader, rows: Sequence[OverdueBalance]) -> list[OverdueBalanceView]:
    """Overdue amounts by the month in which they were due."""
    return [overdue_balance_view(reader, row) for row in rows]


def usages_view(reader: Reader, rows: Sequence[UsageOfMetric]) -> list[UsageOfMetricView]:
    """Usage by period and metric."""
    return [usage_of_metric_view(reader, row) for row in rows]
