"""The parts of a charge, each with its own price, and the usage of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.aggregation import AggregateResult
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.currencies import subunits
from usagebill.core.filters import EventScope, FilterIndex, display_name
from usagebill.core.grouping import Breakdown, charge_group_keys
from usagebill.core.numbers import ZERO, add
from usagebill.core.plans import Charge, ChargeFilter
from usagebill.core.pricing import (
    PRICING_UNIT_SUBUNITS,
    Price,
    Properties,
    amount_details,
    grouping_keys,
    parse_properties,
)
from usagebill.core.pricing.fees import FeeAmounts
from usagebill.core.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargePart:
    """One of the prices of a charge: that of a filter, or (None) of events that match no filter; `position` is its
    place.

    Usage is billed separately for each value of the properties `group_keys`.
    """

    filter: ChargeFilter | None
    position: int
    filters: FilterIndex
    raw_properties: Mapping[str, object]
    group_keys: tuple[str, ...]

    @property
    def bucket(self) -> EventScope:
        """The events that it prices."""
        return self.filters.bucket(self.position) if len(self.filters) else EventScope(matches={})

    @property
    def display_name(self) -> str | None:
        """The filter's own name, or its values; None without a filter."""
        if self.filter is None:
            return None
        return self.filter.invoice_display_name or display_name(self.filter.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeResult:
    """The usage of one charge, filter and group: counted, priced, and in cents.

    `tally` is what was counted before proration and metric rounding. `breakdown` splits the displayed units by the
    presentation keys of the charge.
    """

    charge: Charge
    metric: BillableMetric
    part: ChargePart
    grouped_by: Mapping[str, str | None]
    tally: AggregateResult
    usage: Usage
    price: Price
    properties: Properties
    amounts: FeeAmounts
    breakdown: Breakdown = ()

    @property
    def shown_breakdown(self) -> Breakdown:
        """The breakdown by the presentation keys that invoices show, with rows of equal values added up."""
        shown = presentation_keys(self.charge.properties, in_invoice=True)
        rows: dict[tuple[str | None, ...], Decimal] = {}
        for by, units in self.breakdown:
            shown_values = tuple(by.get(key) for key in shown)
            rows[shown_values] = add(rows.get(shown_values, ZERO), units)
        return (
            tuple((dict(zip(shown, shown_values, strict=True)), units) for shown_values, units in rows.items())
            if shown
            else ()
        )

    @property
    def amount_details(self) -> dict[str, object]:
        """The steps to the amount, ready for JSON."""
        return amount_details(self.charge.charge_model, self.properties, self.usage)


# (charge, filter, subunits) -> the JSON last parsed, and the result.
_parsed: dict[tuple[str, str | None, int], tuple[str, Mapping[str, object], Properties]] = {}
_PARSED_AT_MOST = 20_000


def parsed_properties(charge: Charge, part: ChargePart, currency: str) -> Properties:
    """The typed properties of a part of a charge; parsed again only if they have changed."""
    cents = subunits(currency) if charge.applied_pricing_unit is None else PRICING_UNIT_SUBUNITS
    model, raw = charge.charge_model, part.raw_properties
    key = (charge.id, part.filter.id if part.filter else None, cents)
    cached = _parsed.get(key)
    # `updated_at` is no key: a price may change twice at one instant.
    if cached is not None and cached[0] == model and (cached[1] is raw or cached[1] == raw):
        return cached[2]
    if len(_parsed) >= _PARSED_AT_MOST:
        _parsed.clear()
    parsed = parse_properties(model, raw, subunits=cents)
    _parsed[key] = (model, raw, parsed)
    return parsed


class _KnownParts:
    """A cache of the parts of charges with filters: building the index of 50 filters costs as much as pricing them."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[Charge, BillableMetric, tuple[ChargePart, ...]]] = {}
        self._filters = 0

    def of(self, charge: Charge, metric: BillableMetric) -> tuple[ChargePart, ...]:
        """The parts of the charge, rebuilt only if the charge or the metric's declared values have changed."""
        if not charge.filters:
            return _made_parts(charge, metric)
        cached = self._parts.get(charge.id)
        if cached is not None and _are_same(cached[0], charge) and cached[1].filters == metric.filters:
            return cached[2]
        parts = _made_parts(charge, metric)
        if self._filters >= _FILTERS_AT_MOST:
            self._parts, self._filters = {}, 0
        self._filters += len(parts)
        self._parts[charge.id] = charge, metric, parts
        return parts


def _are_same(cached: Charge, charge: Charge) -> bool:
    """Whether two versions of a charge are equal, including the order of filter keys, in which they are shown."""
    return cached == charge and all(
        list(before.values) == list(now.values) for before, now in zip(cached.filters, charge.filters, strict=True)
    )


_FILTERS_AT_MOST = 20_000
_known_parts = _KnownParts()


def charge_parts(charge: Charge, metric: BillableMetric) -> tuple[ChargePart, ...]:
    """The filters of a charge in order, then the part for events that match none."""
    return _known_parts.of(charge, metric)


def _made_parts(charge: Charge, metric: BillableMetric) -> tuple[ChargePart, ...]:
    index = FilterIndex(charge.filters, {item.key: item.values for item in metric.filters})
    priced = [(charge_filter, charge_filter.properties) for charge_filter in charge.filters]
    return tuple(
        ChargePart(
            filter=charge_filter,
            position=position,
            filters=index,
            raw_properties=raw,
            group_keys=charge_group_keys(grouping_keys(raw), accepts_target_wallet=charge.accepts_target_wallet),
        )
        for position, (charge_filter, raw) in enumerate([*priced, (None, charge.properties)])
    )


def presentation_keys(properties: Mapping[str, object], *, in_invoice: bool = False) -> tuple[str, ...]:
    """The properties by which the displayed units of a charge are split, without effect on its price.

    `in_invoice` limits them to those that invoices show.
    """
    keys = properties.get("presentation_group_keys")
    if not isinstance(keys, (list, tuple)):
        return ()
    listed = [key for key in keys if isinstance(key, Mapping)]
    if in_invoice:
        listed = [key for key in listed if (key.get("options") or {}).get("display_in_invoice")]
    return tuple(str(key["value"]) for key in listed)
