"""Analytics over HTTP."""

from __future__ import annotations

from functools import partial

from usagebill.http.endpoints import Endpoint
from usagebill.rating.analytics import revenue, usage
from usagebill.rating.analytics.scope import AnalyticsFilters
from usagebill.views.analytics import (
    gross_revenues_view,
    invoice_collections_view,
    invoiced_usages_view,
    mrrs_view,
    overdue_balances_view,
    usages_view,
)

_by_month = partial(Endpoint, "GET", query=AnalyticsFilters)

ENDPOINTS = [
    _by_month(
        path="/analytics/gross_revenue",
        call=revenue.gross_revenue,
        returns="gross_revenues",
        view=gross_revenues_view,
        summary="Invoiced revenue by month",
    ),
    _by_month(
        path="/analytics/invoice_collection",
        call=revenue.invoice_collection,
        returns="invoice_collections",
        view=invoice_collections_view,
        summary="Invoices by month and payment status",
    ),
    _by_month(
        path="/analytics/invoiced_usage",
        call=revenue.invoiced_usage,
        returns="invoiced_usages",
        view=invoiced_usages_view,
        summary="Usage fees by month and metric",
    ),
    _by_month(
        path="/analytics/mrr",
        call=revenue.mrr,
        returns="mrrs",
        view=mrrs_view,
        summary="Monthly recurring revenue",
    ),
    _by_month(
        path="/analytics/overdue_balance",
        call=revenue.overdue_balance,
        returns="overdue_balances",
        view=overdue_balances_view,
        summary="Overdue balances by month of the due date",
    ),
    Endpoint(
        "GET",
        "/analytics/usage",
        usage.usage,
        query=usage.UsageFilters,
        returns="usages",
        view=usages_view,
        summary="Usage by day, week or month and metric",
    ),
]
