"""Reports on invoices and usage."""

from __future__ import annotations

from typing import ClassVar

from usagebill.core.analytics import (
    GrossRevenue,
    InvoiceCollection,
    InvoicedUsage,
    OverdueBalance,
    RecurringRevenue,
    UsageOfMetric,
)
from usagebill.rating.analytics import revenue, usage
from usagebill.resources.bindings import Resource, Views, query
from usagebill.views.analytics import (
    gross_revenue_view,
    invoice_collection_view,
    invoiced_usage_view,
    mrr_view,
    overdue_balance_view,
    usage_of_metric_view,
)


class Analytics(Resource):
    """Revenue, collection and usage by month and currency."""

    permission = "analytic"

    views: ClassVar[Views] = {
        GrossRevenue: gross_revenue_view,
        InvoiceCollection: invoice_collection_view,
        InvoicedUsage: invoiced_usage_view,
        RecurringRevenue: mrr_view,
        OverdueBalance: overdue_balance_view,
        UsageOfMetric: usage_of_metric_view,
    }

    gross_revenue = query(revenue.gross_revenue)
    invoice_collection = query(revenue.invoice_collection)
    invoiced_usage = query(revenue.invoiced_usage)
    mrr = query(revenue.mrr)
    overdue_balance = query(revenue.overdue_balance)
    usage = query(usage.usage)
