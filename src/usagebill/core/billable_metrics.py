"""Billable metrics: which events count, and how they are aggregated into units."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["AGGREGATION_TYPES", "BillableMetric", "MetricFilter"]

AGGREGATION_TYPES = (
    "count_agg",
    "sum_agg",
    "max_agg",
    "unique_count_agg",
    "weighted_sum_agg",
    "latest_agg",
    "custom_agg",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFilter:
    """A property of events by which charges may price differently, with the values it declares."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BillableMetric:
    id: str
    organization_id: str
    name: str
    code: str
    aggregation_type: str
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    field_name: str | None = None
    recurring: bool = False
    weighted_interval: str | None = None
    rounding_function: str | None = None
    rounding_precision: int | None = None
    expression: str | None = None
    filters: tuple[MetricFilter, ...] = ()
    deleted_at: datetime | None = None
