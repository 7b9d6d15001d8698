"""Holds of customers."""

from __future__ import annotations

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.customers import Customer
from usagebill.core.errors import NotFound
from usagebill.core.holds import Hold, HoldStatus
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, asc, eq, more


def are_open(reader: Reader) -> tuple[Condition, ...]:
    """Conditions for holds that count at the reader's instant."""
    return eq("status", HoldStatus.HELD), more("expires_at", reader.now)


def open_holds(reader: Reader, customer: Customer) -> list[Hold]:
    """The customer's holds that count now, oldest first."""
    return reader.tx.find(Hold, eq("customer_id", customer.id), *are_open(reader), order=[asc("created_at"), asc("id")])


def hold_by_id(reader: Reader, hold_id: str) -> Hold:
    """The hold with this id. Raises `NotFound`."""
    hold = reader.tx.get(Hold, hold_id)
    if hold is None:
        raise NotFound("hold", hold_id)
    return hold


def metric_of_hold(reader: Reader, hold: Hold) -> BillableMetric | None:
    """The metric whose usage is held; None for a bare amount."""
    if hold.billable_metric_id is None:
        return None
    return reader.tx.get(BillableMetric, hold.billable_metric_id, deleted=True)
