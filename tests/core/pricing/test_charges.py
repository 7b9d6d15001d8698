"""Which combinations a charge may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from usagebill.core.pricing import normalized_properties
from usagebill.core.pricing.charges import ChargeTerms, charge_errors, fixed_charge_errors, pricing_unit_errors


def errors(model: str | None, aggregation: str = "sum_agg", **terms: Any) -> Mapping[str, tuple[str, ...]]:
    properties = terms.pop("properties", None)
    if properties is None:
        properties = normalized_properties(model, None) if model in _MODELS else {}
    recurring = terms.pop("recurring", False)
    return charge_errors(
        ChargeTerms(
            charge_model=model, aggregation_type=aggregation, recurring=recurring, properties=properties, **terms
        )
    )


_MODELS = (
    "standard",
    "graduated",
    "graduated_percentage",
    "package",
    "percentage",
    "volume",
    "dynamic",
    "custom",
)


@pytest.mark.parametrize("model", [model for model in _MODELS if model != "custom"])
def test_every_model_prices_a_sum(model: str) -> None:
    assert errors(model) == {}


def test_the_model_must_exist() -> None:
    assert errors(None) == {"charge_model": ("value_is_mandatory",)}
    assert errors("free") == {"charge_model": ("value_is_invalid",)}


@pytest.mark.parametrize("aggregation", ["max_agg", "latest_agg", "weighted_sum_agg"])
def test_levels_cannot_be_paid_in_advance(aggregation: str) -> None:
    assert errors("standard", aggregation, pay_in_advance=True) == {
        "pay_in_advance": ("invalid_aggregation_type_or_charge_model",)
    }


@pytest.mark.parametrize("aggregation", ["count_agg", "sum_agg", "unique_count_agg", "custom_agg"])
def test_counts_and_sums_can_be_paid_in_advance(aggregation: str) -> None:
    assert errors("standard", aggregation, pay_in_advance=True) == {}


def test_volume_cannot_be_paid_in_advance() -> None:
    assert errors("volume", pay_in_advance=True) == {"pay_in_advance": ("invalid_aggregation_type_or_charge_model",)}


@pytest.mark.parametrize(
    ("model", "aggregation", "recurring", "pay_in_advance", "allowed"),
    [
        ("standard", "sum_agg", True, True, True),
        ("standard", "sum_agg", True, False, True),
        ("volume", "sum_agg", True, False, True),
        ("graduated", "unique_count_agg", True, False, True),
        ("graduated", "sum_agg", True, True, False),
        ("package", "sum_agg", True, False, False),
        ("percentage", "sum_agg", True, False, False),
        ("standard", "sum_agg", False, False, False),
        ("standard", "weighted_sum_agg", True, False, False),
    ],
)
def test_proration(model: str, aggregation: str, recurring: bool, pay_in_advance: bool, allowed: bool) -> None:
    codes = errors(model, aggregation, recurring=recurring, pay_in_advance=pay_in_advance, prorated=True)
    assert codes == ({} if allowed else {"prorated": ("invalid_billable_metric_or_charge_model",)})


def test_models_that_need_their_own_metric() -> None:
    code = {"charge_model": ("invalid_aggregation_type_or_charge_model",)}
    assert errors("dynamic", "count_agg") == code
    assert errors("custom", "sum_agg") == code
    assert errors("custom", "custom_agg") == {}


@pytest.mark.parametrize("model", ["percentage", "graduated_percentage"])
def test_percentages_of_a_latest_value_are_refused(model: str) -> None:
    assert errors(model, "latest_agg") == {"properties": ("invalid_value",)}


def test_minimum_amounts() -> None:
    assert errors("standard", min_amount_cents=1000) == {}
    assert errors("standard", min_amount_cents=-1) == {"min_amount_cents": ("value_is_out_of_range",)}
    assert errors("standard", min_amount_cents=1, pay_in_advance=True) == {
        "min_amount_cents": ("not_compatible_with_pay_in_advance",)
    }


def test_charges_outside_invoices() -> None:
    assert errors("standard", invoiceable=False) == {"invoiceable": ("must_be_true_unless_pay_in_advance",)}
    assert errors("standard", invoiceable=False, pay_in_advance=True, regroup_paid_fees="invoice") == {}
    assert errors("standard", pay_in_advance=True, regroup_paid_fees="invoice") == {
        "regroup_paid_fees": ("only_compatible_with_pay_in_advance_and_non_invoiceable",)
    }
    assert errors("standard", regroup_paid_fees="receipt") == {"regroup_paid_fees": ("value_is_invalid",)}


def test_all_errors_are_reported_together() -> None:
    assert errors("volume", "max_agg", properties={}, pay_in_advance=True, prorated=True, min_amount_cents=5) == {
        "properties": ("missing_volume_ranges",),
        "pay_in_advance": ("invalid_aggregation_type_or_charge_model",),
        "prorated": ("invalid_billable_metric_or_charge_model",),
        "min_amount_cents": ("not_compatible_with_pay_in_advance",),
    }


@pytest.mark.parametrize(
    ("rate", "codes"),
    [
        (None, ("value_is_mandatory", "is not a number")),
        ("x", ("is not a number",)),
        ("0", ("value_is_out_of_range",)),
        (-1, ("value_is_out_of_range",)),
        ("0.5", None),
        (2, None),
    ],
)
def test_conversion_rates(rate: object, codes: tuple[str, ...] | None) -> None:
    assert pricing_unit_errors(rate, is_known=True) == ({} if codes is None else {"conversion_rate": codes})


def test_an_unknown_pricing_unit() -> None:
    assert pricing_unit_errors("1", is_known=False) == {"pricing_unit": ("relation_must_exist",)}


class TestFixedCharges:
    def test_units(self) -> None:
        amount = {"amount": "1"}
        assert fixed_charge_errors("standard", amount, units="2.5") == {}
        assert fixed_charge_errors("standard", amount, units=-1) == {"units": ("value_is_out_of_range",)}
        assert fixed_charge_errors("standard", amount, units="many") == {"units": ("is not a number",)}
        assert fixed_charge_errors("standard", {}, units=1) == {"properties": ("invalid_amount",)}

    def test_models(self) -> None:
        volume, graduated = normalized_properties("volume", None), normalized_properties("graduated", None)
        assert fixed_charge_errors("package", {}, units=1) == {"charge_model": ("value_is_invalid",)}
        assert fixed_charge_errors("volume", volume, units=1, pay_in_advance=True) == {
            "pay_in_advance": ("invalid_charge_model",)
        }
        assert fixed_charge_errors("graduated", graduated, units=1, pay_in_advance=True, prorated=True) == {
            "prorated": ("invalid_charge_model",)
        }
        assert fixed_charge_errors("graduated", graduated, units=1, pay_in_advance=True) == {}
