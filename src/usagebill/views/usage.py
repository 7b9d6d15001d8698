"""Usage as JSON: per charge its totals, then its filters and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import NotRequired, TypedDict

from usagebill.core.grouping import Breakdown
from usagebill.core.numbers import decimal_text, total
from usagebill.views.formats import Day, DecimalText, Id, Instant, date_text, instant_text


class PricingUnitUsageView(TypedDict):
    amount_cents: int
    short_name: str | None
    conversion_rate: DecimalText
    projected_amount_cents: NotRequired[int]


class BreakdownView(TypedDict):
    presentation_by: Mapping[str, str | None]
    units: DecimalText


class UsageNumbers(TypedDict):
    units: DecimalText
    events_count: int
    amount_cents: int
    pricing_unit_details: PricingUnitUsageView | None
    presentation_breakdowns: list[BreakdownView]
    total_aggregated_units: NotRequired[DecimalText]
    projected_units: NotRequired[DecimalText]
    projected_amount_cents: NotRequired[int]
    projected_presentation_breakdowns: NotRequired[list[BreakdownView]]


class FilterUsageView(UsageNumbers):
    invoice_display_name: str | None
    values: Mapping[str, list[str]] | None


class GroupUsageView(UsageNumbers):
    grouped_by: Mapping[str, str | None]
    filters: list[FilterUsageView]


class UsedChargeView(TypedDict):
    svc_id: Id
    charge_model: str
    invoice_display_name: str | None
    code: NotRequired[str]


class UsedMetricView(TypedDict):
    svc_id: Id
    name: str
    code: str
    aggregation_type: str


class HeldView(TypedDict):
    held_amount_cents: NotRequired[int]


class ChargeUsageView(UsageNumbers, HeldView):
    amount_currency: str
    charge: UsedChargeView
    billable_metric: UsedMetricView
    filters: list[FilterUsageView]
    grouped_usage: list[GroupUsageView]


class UsageView(HeldView):
    from_datetime: Instant | None
    to_datetime: Instant | None
    issuing_date: Day
    svc_invoice_id: Id | None
    currency: str
    amount_cents: int
    taxes_amount_cents: int
    total_amount_cents: int
    charges_usage: list[ChargeUsageView]
    projected_amount_cents: NotRequired[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownUsage:
    """One line of usage: a filter and group of a charge. `filter_id` and `values` are None for events that match no
    filter.

    `projected` has units and cents if usage is projected; `breakdown` the displayed units by presentation keys.
    """

    filter_id: str | None
    filter_name: str | None
    values: Mapping[str, Sequence[str]] | None
    grouped_by: Mapping[str, str | None]
    units: Decimal
    total_aggregated_units: Decimal
    events_count: int
    amount_cents: int
    pricing_unit_amount_cents: int | None = None
    projected: tuple[Decimal, int, int | None] | None = None
    breakdown: Breakdown = ()
    projected_breakdown: Breakdown = ()


def charge_usage_view(
    lines: Sequence[ShownUsage],
    *,
    charge: UsedChargeView,
    metric: UsedMetricView,
    currency: str,
    has_filters: bool,
    short_name: str | None,
    conversion_rate: Decimal | None,
    is_projected: bool = False,
    held_amount_cents: int | None = None,
) -> ChargeUsageView:
    """The usage of one charge: its totals, and an entry per filter and per group."""
    held: HeldView = {} if held_amount_cents is None else {"held_amount_cents": held_amount_cents}

    def numbers(group_lines: Sequence[ShownUsage], breakdown: Iterable[ShownUsage]) -> UsageNumbers:
        return _numbers(group_lines, breakdown, short_name, conversion_rate, is_projected=is_projected)

    grouped = any(line.grouped_by for line in lines)
    plain = [line for line in lines if not line.grouped_by and line.values is None]
    shown = numbers(lines, plain)
    return {
        **shown,
        **held,
        "amount_currency": currency,
        "charge": charge,
        "billable_metric": metric,
        "filters": _filters(lines, numbers) if has_filters else [],
        "grouped_usage": [
            {
                **numbers(group_lines, group_lines),
                "grouped_by": dict(group_lines[0].grouped_by),
                "filters": _filters(group_lines, numbers) if has_filters else [],
            }
            for group_lines in _gathered(lines, lambda line: tuple(line.grouped_by.items()))
        ]
        if grouped
        else [],
    }


def _gathered(lines: Sequence[ShownUsage], key: Callable[[ShownUsage], object]) -> list[list[ShownUsage]]:
    gathered: dict[object, list[ShownUsage]] = {}
    for line in lines:
        gathered.setdefault(key(line), []).append(line)
    return list(gathered.values())


def _filters(
    lines: Sequence[ShownUsage], numbers: Callable[[Sequence[ShownUsage], Iterable[ShownUsage]], UsageNumbers]
) -> list[FilterUsageView]:
    return [
        {
            **numbers(filter_lines, filter_lines),
            "invoice_display_name": filter_lines[0].filter_name,
            "values": _values(filter_lines[0]),
        }
        for filter_lines in _gathered(lines, lambda line: line.filter_id)
    ]


def _values(line: ShownUsage) -> Mapping[str, list[str]] | None:
    if line.values is None:
        # Projected usage of events that match no filter has empty values, current usage has none.
        return None if line.projected is None else {}
    return {key: list(values) for key, values in line.values.items()}


def _numbers(
    lines: Sequence[ShownUsage],
    breakdown: Iterable[ShownUsage],
    short_name: str | None,
    conversion_rate: Decimal | None,
    *,
    is_projected: bool,
) -> UsageNumbers:
    unit: PricingUnitUsageView | None = None
    if conversion_rate is not None:
        unit = {
            "amount_cents": sum(line.pricing_unit_amount_cents or 0 for line in lines),
            "short_name": short_name,
            "conversion_rate": decimal_text(conversion_rate),
        }
    broken_down = list(breakdown)
    shown: UsageNumbers = {
        "units": decimal_text(total(line.units for line in lines)),
        "events_count": sum(line.events_count for line in lines),
        "amount_cents": sum(line.amount_cents for line in lines),
        "pricing_unit_details": unit,
        "presentation_breakdowns": _rows(line.breakdown for line in broken_down),
    }
    if not is_projected:
        shown["total_aggregated_units"] = decimal_text(total(line.total_aggregated_units for line in lines))
        return shown
    shown["projected_units"] = decimal_text(total(line.projected[0] for line in lines if line.projected))
    shown["projected_amount_cents"] = sum(line.projected[1] for line in lines if line.projected)
    shown["projected_presentation_breakdowns"] = _rows(line.projected_breakdown for line in broken_down)
    if unit is not None:
        unit["projected_amount_cents"] = sum((line.projected[2] or 0) for line in lines if line.projected)
    return shown


def _rows(breakdowns: Iterable[Breakdown]) -> list[BreakdownView]:
    return [
        {"presentation_by": dict(by), "units": decimal_text(units)}
        for breakdown in breakdowns
        for by, units in breakdown
    ]


def usage_view(
    *,
    start: datetime | None,
    end: datetime | None,
    issuing_date: date,
    currency: str,
    invoice_id: str | None,
    amount_cents: int,
    taxes_amount_cents: int,
    charges_usage: list[ChargeUsageView],
    projected_amount_cents: int | None = None,
) -> UsageView:
    """The envelope of usage over a period."""
    shown: UsageView = {
        "from_datetime": instant_text(start),
        "to_datetime": instant_text(end),
        "issuing_date": date_text(issuing_date),
        "svc_invoice_id": invoice_id,
        "currency": currency,
        "amount_cents": amount_cents,
        "taxes_amount_cents": taxes_amount_cents,
        "total_amount_cents": amount_cents + taxes_amount_cents,
        "charges_usage": charges_usage,
    }
    if projected_amount_cents is not None:
        shown["projected_amount_cents"] = projected_amount_cents
    return shown
