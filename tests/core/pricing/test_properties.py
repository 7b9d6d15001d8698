"""Which charge properties are accepted, how they are stored, and with which codes others are refused."""

from __future__ import annotations

from decimal import Decimal

import pytest

from usagebill.core.pricing import (
    MODELS,
    PropertiesError,
    displayed_properties,
    grouping_keys,
    normalized_properties,
    parse_properties,
    validate_properties,
)


def one_range(**fields: object) -> dict[str, object]:
    return {"from_value": 0, "to_value": None, "per_unit_amount": "1", "flat_amount": "0", **fields}


def bounds(key: str, *pairs: tuple[object, object]) -> dict[str, object]:
    rate = "rate" if key == "graduated_percentage_ranges" else "per_unit_amount"
    return {key: [{"from_value": a, "to_value": b, rate: "1", "flat_amount": "0"} for a, b in pairs]}


@pytest.mark.parametrize("model", list(MODELS))
def test_defaults_are_valid(model: str) -> None:
    stored = normalized_properties(model, None)
    assert stored == normalized_properties(model, {})
    assert validate_properties(model, stored) == ()
    parse_properties(model, stored, subunits=100)


def test_the_default_price_is_nothing() -> None:
    assert normalized_properties("standard", None) == {"amount": "0"}
    assert normalized_properties("package", {}) == {"amount": "0", "free_units": 0, "package_size": 1}
    assert normalized_properties("volume", {}) == {
        "volume_ranges": [{"from_value": 0, "to_value": None, "per_unit_amount": "0", "flat_amount": "0"}]
    }


def test_a_filter_has_no_default_price() -> None:
    assert normalized_properties("standard", {}, of_filter=True) == {}
    assert validate_properties("standard", {}) == ("invalid_amount",)


def test_properties_of_other_models_are_dropped() -> None:
    sent = {"amount": "1", "rate": "2", "graduated_ranges": [], "anything": 1}
    assert normalized_properties("standard", sent) == {"amount": "1"}


@pytest.mark.parametrize("amount", ["0", "0.00001", "12", "1e2", "+3", ".5", "5."])
def test_amounts_are_text_of_decimals(amount: str) -> None:
    assert validate_properties("standard", {"amount": amount}) == ()


@pytest.mark.parametrize("amount", [None, "", " ", 1, 1.5, Decimal(1), True, "-1", "NaN", "Infinity", "abc", "1,5", []])
def test_anything_else_is_no_amount(amount: object) -> None:
    assert validate_properties("standard", {"amount": amount}) == ("invalid_amount",)


@pytest.mark.parametrize(
    ("properties", "codes"),
    [
        ({"amount": "1", "free_units": 0, "package_size": 1}, ()),
        ({"amount": "1", "package_size": 1}, ("invalid_free_units",)),
        ({"amount": "1", "free_units": -1, "package_size": 0}, ("invalid_free_units", "invalid_package_size")),
        ({"amount": "1", "free_units": "1", "package_size": "1"}, ("invalid_free_units", "invalid_package_size")),
        ({"amount": "1", "free_units": True, "package_size": 1}, ("invalid_free_units",)),
        ({}, ("invalid_amount", "invalid_free_units", "invalid_package_size")),
    ],
)
def test_package(properties: dict[str, object], codes: tuple[str, ...]) -> None:
    assert validate_properties("package", properties) == codes


@pytest.mark.parametrize(
    ("properties", "codes"),
    [
        ({"rate": "1"}, ()),
        ({}, ("invalid_rate",)),
        ({"rate": 1}, ("invalid_rate",)),
        ({"rate": "1", "fixed_amount": None, "free_units_per_events": None}, ()),
        ({"rate": "1", "fixed_amount": ""}, ("invalid_fixed_amount",)),
        ({"rate": "1", "free_units_per_events": 0}, ("invalid_free_units_per_events",)),
        ({"rate": "1", "free_units_per_events": "1"}, ("invalid_free_units_per_events",)),
        ({"rate": "1", "free_units_per_total_aggregation": 10}, ("invalid_free_units_per_total_aggregation",)),
        ({"rate": "1", "per_transaction_min_amount": "", "per_transaction_max_amount": None}, ()),
        ({"rate": "1", "per_transaction_min_amount": "x", "per_transaction_max_amount": 3}, ("invalid_amount",) * 2),
        (
            {"rate": "1", "per_transaction_min_amount": "3", "per_transaction_max_amount": "2.99"},
            ("per_transaction_max_lower_than_per_transaction_min",),
        ),
        ({"rate": "1", "per_transaction_min_amount": "3", "per_transaction_max_amount": "3"}, ()),
        (
            {"rate": "-1", "fixed_amount": "x", "free_units_per_events": -1, "free_units_per_total_aggregation": "x"},
            (
                "invalid_rate",
                "invalid_fixed_amount",
                "invalid_free_units_per_events",
                "invalid_free_units_per_total_aggregation",
            ),
        ),
    ],
)
def test_percentage(properties: dict[str, object], codes: tuple[str, ...]) -> None:
    assert validate_properties("percentage", properties) == codes


RANGE_KEYS = {
    "graduated": "graduated_ranges",
    "graduated_percentage": "graduated_percentage_ranges",
    "volume": "volume_ranges",
}


@pytest.mark.parametrize("model", list(RANGE_KEYS))
@pytest.mark.parametrize("raw", [None, [], {}, "ranges", 3])
def test_ranges_are_mandatory(model: str, raw: object) -> None:
    assert validate_properties(model, {RANGE_KEYS[model]: raw}) == (f"missing_{RANGE_KEYS[model]}",)


@pytest.mark.parametrize("model", list(RANGE_KEYS))
@pytest.mark.parametrize(
    ("pairs", "errors"),
    [
        ([(0, None)], 0),
        ([(1, None)], 0),
        ([(0, 10), (11, None)], 0),
        ([(2, None)], 1),
        ([(0, 10)], 1),
        ([(0, 0), (1, None)], 1),
        ([(0, 10), (9, None)], 1),
        ([(0, 10), (13, None)], 1),
        ([(0, None), (1, None)], 2),
        ([(0, "10"), (11, None)], 2),
        ([("0", None)], 1),
        ([(None, None)], 1),
        ([(False, None)], 1),
    ],
)
def test_range_bounds_follow_each_other(model: str, pairs: list[tuple[object, object]], errors: int) -> None:
    key = RANGE_KEYS[model]
    assert validate_properties(model, bounds(key, *pairs)) == (f"invalid_{key}",) * errors


@pytest.mark.parametrize("pairs", [[(0, 10), (10, None)], [(0, 0.1), (0.1, 1), (1, None)], [(0, 1.5), (2.5, None)]])
def test_graduated_ranges_may_touch(pairs: list[tuple[object, object]]) -> None:
    assert validate_properties("graduated", bounds("graduated_ranges", *pairs)) == ()
    assert validate_properties("graduated_percentage", bounds("graduated_percentage_ranges", *pairs)) == ()


def test_volume_ranges_count_whole_units() -> None:
    touching = bounds("volume_ranges", (0, 10), (10, None))
    assert validate_properties("volume", touching) == ("invalid_volume_ranges",)
    assert validate_properties("volume", bounds("volume_ranges", (0, 10), (12, None))) == ()


def test_range_errors_come_range_by_range() -> None:
    properties = {
        "graduated_ranges": [
            one_range(per_unit_amount=1, flat_amount="-1", to_value=10),
            one_range(from_value=20, flat_amount=None),
        ]
    }
    assert validate_properties("graduated", properties) == (
        "invalid_amount",
        "invalid_amount",
        "invalid_amount",
        "invalid_graduated_ranges",
    )
    percentages = {"graduated_percentage_ranges": [{"from_value": 0, "to_value": None}]}
    assert validate_properties("graduated_percentage", percentages) == ("invalid_amount", "invalid_rate")
    assert "invalid_volume_ranges" in validate_properties("volume", {"volume_ranges": ["not a range"]})


@pytest.mark.parametrize(
    ("grouping", "codes"),
    [
        ({"pricing_group_keys": ["region", "cloud"]}, ()),
        ({"pricing_group_keys": []}, ()),
        ({"pricing_group_keys": "region"}, ("invalid_type",)),
        ({"pricing_group_keys": [""]}, ("invalid_type",)),
        ({"pricing_group_keys": [1]}, ("invalid_type",)),
        ({"grouped_by": ["region", ""]}, ()),
        ({"grouped_by": {"region": 1}}, ("invalid_type",)),
        ({"presentation_group_keys": [{"value": "region"}]}, ()),
        ({"presentation_group_keys": [{"value": "region", "options": {"display_in_invoice": True}}]}, ()),
        ({"presentation_group_keys": ["region"]}, ("invalid_type",)),
        ({"presentation_group_keys": [{"value": ""}]}, ("invalid_type",)),
        ({"presentation_group_keys": [{"value": "a", "other": 1}]}, ("invalid_type",)),
        ({"presentation_group_keys": [{"value": "a", "options": {"display_in_invoice": "yes"}}]}, ("invalid_type",)),
        ({"presentation_group_keys": [{"value": "a"}, {"value": "a"}]}, ("value_is_duplicated",)),
        (
            {"presentation_group_keys": [{"value": "a"}, {"value": "b"}, {"value": "a"}]},
            ("too_many_keys", "value_is_duplicated"),
        ),
    ],
)
def test_grouping_keys_of_any_model(grouping: dict[str, object], codes: tuple[str, ...]) -> None:
    assert validate_properties("standard", {"amount": "1", **grouping}) == codes
    assert validate_properties("standard", {"amount": 1, **grouping}) == ("invalid_amount", *codes)


def test_the_former_name_of_group_keys_is_stored_under_the_new_one() -> None:
    stored = normalized_properties("standard", {"amount": "1", "grouped_by": ["region", "", "cloud"]})
    assert stored == {"amount": "1", "pricing_group_keys": ["region", "cloud"]}
    assert displayed_properties(stored) == {**stored, "grouped_by": ["region", "cloud"]}
    assert grouping_keys(stored) == ("region", "cloud")
    both = {"amount": "1", "grouped_by": ["old"], "pricing_group_keys": ["new"]}
    assert grouping_keys(normalized_properties("standard", both)) == ("new",)
    assert grouping_keys(normalized_properties("standard", {"amount": "1"})) == ()


def test_presentation_keys_belong_to_charges_only() -> None:
    sent = {"amount": "1", "presentation_group_keys": [{"value": "region"}]}
    assert "presentation_group_keys" in normalized_properties("standard", sent)
    assert "presentation_group_keys" not in normalized_properties("standard", sent, of_filter=True)
    assert "presentation_group_keys" not in normalized_properties("standard", {**sent, "presentation_group_keys": []})


def test_properties_that_do_not_validate_are_not_read() -> None:
    with pytest.raises(PropertiesError) as refusal:
        parse_properties("percentage", {"fixed_amount": 1}, subunits=100)
    assert refusal.value.codes == ("invalid_rate", "invalid_fixed_amount")
