"""Groups: the operations as a library user calls them, `billing.customers.upsert(external_id="acme")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.customers import Customer
from usagebill.operations import billable_metrics, customers
from usagebill.verbs import Group, reads, writes
from usagebill.views.billable_metrics import billable_metric_view
from usagebill.views.customers import customer_view
from usagebill.work import JsonObject, Work

__all__ = ["VIEWS", "BillableMetrics", "Customers"]


class BillableMetrics(Group):
    create = writes(billable_metrics.create)
    update = writes(billable_metrics.update)
    get = reads(billable_metrics.get)
    list = reads(billable_metrics.list_all)
    delete = writes(billable_metrics.delete)
    evaluate_expression = reads(billable_metrics.evaluate_expression)


class Customers(Group):
    upsert = writes(customers.upsert)
    get = reads(customers.get)
    list = reads(customers.list_all)
    delete = writes(customers.delete)


# Kind of record -> how it is shown as JSON.
VIEWS: Mapping[type, Callable[[Work, Any], JsonObject]] = {
    BillableMetric: billable_metric_view,
    Customer: customer_view,
}
