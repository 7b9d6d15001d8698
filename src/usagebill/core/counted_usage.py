"""What a billing period counted: the metrics and filters of its charges as they were, whatever they become later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.filters import EventScope, FilterIndex
from usagebill.core.plans import Charge


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedCharge:
    """A charge as it was counted. `filters` is the definition of its filters (`FilterIndex.definition`), None without
    any; `filter_ids` are theirs, in the same order.
    """

    id: str
    code: str
    aggregation_type: str
    field_name: str | None
    recurring: bool
    pay_in_advance: bool
    filter_ids: tuple[str, ...] = ()
    filters: str | None = None

    def scope(self, filter_id: str | None) -> EventScope | None:
        """The events that the filter priced, or for None those that no filter did; None if there was no such filter."""
        if self.filters is None:
            return None if filter_id else EventScope(matches={})
        index = FilterIndex.of_definition(self.filters)
        if filter_id is None:
            return index.bucket(len(index))
        return index.bucket(self.filter_ids.index(filter_id)) if filter_id in self.filter_ids else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedUsage:
    """The charges that a billing period counted, from the events received up to `known_at`."""

    known_at: datetime
    charges: tuple[CountedCharge, ...] = ()

    def in_arrears(self, code: str) -> CountedCharge | None:
        """The first charge in arrears that counted events with this code."""
        return next((charge for charge in self.charges if charge.code == code and not charge.pay_in_advance), None)

    def renews(self, code: str) -> bool:
        """Whether a charge in advance goes on with what a recurring metric of this code had counted."""
        return any(charge.code == code and charge.recurring and charge.pay_in_advance for charge in self.charges)


def counted_usage(charges: Iterable[Charge], metrics: Mapping[str, BillableMetric], known_at: datetime) -> CountedUsage:
    """What is counted of these charges at `known_at`; `metrics` are by id."""
    return CountedUsage(
        known_at=known_at,
        charges=tuple(_counted(charge, metrics[charge.billable_metric_id]) for charge in charges),
    )


def _counted(charge: Charge, metric: BillableMetric) -> CountedCharge:
    return CountedCharge(
        id=charge.id,
        code=metric.code,
        aggregation_type=metric.aggregation_type,
        field_name=metric.field_name,
        recurring=metric.recurring,
        pay_in_advance=charge.pay_in_advance,
        filter_ids=tuple(charge_filter.id for charge_filter in charge.filters),
        filters=FilterIndex(charge.filters, {its.key: its.values for its in metric.filters}).definition
        if charge.filters
        else None,
    )
