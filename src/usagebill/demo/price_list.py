"""A price list for New York's airports: one plan with every charge model, over every aggregation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from usagebill.billing import Billing

if TYPE_CHECKING:
    from usagebill.fields import ChargeFields, MetricFilterFields

PLAN = "airport"
CURRENCY = "USD"

# Event code -> the metric's name, its aggregation, and the property that it aggregates.
_METRICS: dict[str, tuple[str, Any, str | None]] = {
    "hop": ("Hops: flights", "count_agg", None),
    "commuter": ("Commuters: aircraft in use", "unique_count_agg", "tailnum"),
    "short_haul": ("Short hauls: miles flown", "sum_agg", "miles"),
    "medium_haul": ("Medium hauls: minutes in the air", "sum_agg", "air_time"),
    "long_haul": ("Long hauls: miles, at negotiated prices", "sum_agg", "miles"),
    "transcontinental": ("Transcontinental: longest flight in minutes", "max_agg", "air_time"),
    "coast_to_coast": ("Coast to coast: miles on account, by time", "weighted_sum_agg", "miles"),
    "island": ("Islands: minutes of the last flight", "latest_agg", "air_time"),
}


def _ranges(rate: str, *steps: tuple[int | None, str, str]) -> list[Any]:
    """Ranges up to each step, the last one open: the end, the price of a unit (or the rate), the flat amount."""
    ranges = []
    start = 0
    for end, price, flat in steps:
        ranges.append({"from_value": start, "to_value": end, rate: price, "flat_amount": flat})
        start = 0 if end is None else end + 1
    return ranges


_CHARGES: list[ChargeFields] = [
    {
        "billable_metric_code": "hop",
        "charge_model": "package",
        "invoice_display_name": "Hops, in tens",
        "properties": {"amount": "450", "package_size": 10, "free_units": 20},
    },
    {
        "billable_metric_code": "hop",
        "charge_model": "standard",
        "invoice_display_name": "Gates used by hops",
        "properties": {"amount": "18.50", "pricing_group_keys": ["origin"]},
    },
    {
        "billable_metric_code": "commuter",
        "charge_model": "volume",
        "invoice_display_name": "Parking of commuter aircraft",
        "properties": {
            "volume_ranges": _ranges("per_unit_amount", (20, "310", "0"), (100, "275", "0"), (None, "240", "0"))
        },
    },
    {
        "billable_metric_code": "short_haul",
        "charge_model": "graduated",
        "invoice_display_name": "Short-haul miles",
        "properties": {
            "graduated_ranges": _ranges(
                "per_unit_amount", (100_000, "0.042", "500"), (500_000, "0.035", "0"), (None, "0.0285", "0")
            )
        },
        "filters": [
            {
                "invoice_display_name": "Short-haul miles from JFK",
                "values": {"origin": ["JFK"]},
                "properties": {
                    "graduated_ranges": _ranges("per_unit_amount", (100_000, "0.051", "900"), (None, "0.0395", "0"))
                },
            }
        ],
    },
    {
        "billable_metric_code": "medium_haul",
        "charge_model": "percentage",
        "invoice_display_name": "Air time of medium hauls",
        "properties": {"rate": "35", "fixed_amount": "4.20", "free_units_per_events": 10},
    },
    {
        "billable_metric_code": "medium_haul",
        "charge_model": "graduated_percentage",
        "invoice_display_name": "Noise levy on medium hauls",
        "properties": {
            "graduated_percentage_ranges": _ranges("rate", (10_000, "12", "100"), (100_000, "9", "0"), (None, "7", "0"))
        },
    },
    {
        "billable_metric_code": "long_haul",
        "charge_model": "dynamic",
        "invoice_display_name": "Long hauls, as negotiated",
        "properties": {},
    },
    {
        "billable_metric_code": "transcontinental",
        "charge_model": "standard",
        "invoice_display_name": "Standby crew, by the longest flight",
        "properties": {"amount": "12.75"},
    },
    {
        "billable_metric_code": "coast_to_coast",
        "charge_model": "standard",
        "invoice_display_name": "Interest on miles not yet billed",
        "properties": {"amount": "0.00375"},
    },
    {
        "billable_metric_code": "island",
        "charge_model": "standard",
        "invoice_display_name": "Fuel reserve, by the last flight",
        "properties": {"amount": "2.20"},
    },
]


def set_up(billing: Billing) -> None:
    """Create the metrics, the tax, the add-on and the plan."""
    for code, (name, aggregation, field) in _METRICS.items():
        filters: list[MetricFilterFields] = (
            [{"key": "origin", "values": ["EWR", "JFK", "LGA"]}] if code == "short_haul" else []
        )
        billing.billable_metrics.create(
            name=name,
            code=code,
            aggregation_type=aggregation,
            field_name=field,
            filters=filters,
            weighted_interval="seconds" if aggregation == "weighted_sum_agg" else None,
        )
    billing.taxes.create(name="Sales tax", code="sales_tax", rate="8.875", applied_to_organization=True)
    billing.add_ons.create(name="Slot at the gate", code="slot", amount_cents=90_000, amount_currency=CURRENCY)
    billing.plans.create(
        name="Airport services",
        code=PLAN,
        interval="monthly",
        amount_cents=250_000,
        amount_currency=CURRENCY,
        pay_in_advance=False,
        charges=_CHARGES,
        fixed_charges=[
            {"add_on_code": "slot", "charge_model": "standard", "units": 2, "properties": {"amount": "900"}}
        ],
        minimum_commitment={"amount_cents": 1_000_000, "invoice_display_name": "Minimum of the month"},
    )
