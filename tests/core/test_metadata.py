"""Metadata: its limits, and how keys are set."""

from __future__ import annotations

import pytest

from usagebill.core.metadata import merged_metadata, metadata_errors


@pytest.mark.parametrize(
    ("metadata", "count"),
    [
        ({}, 0),
        ({"a": "x", "b": None}, 0),
        ({f"k{i}": "v" for i in range(50)}, 0),
        ({f"k{i}": "v" for i in range(51)}, 1),
        ({"k" * 100: "v" * 255}, 0),
        ({"k" * 101: "v"}, 1),
        ({"k": "v" * 256}, 1),
        ({"k": 5, "l": ["x"]}, 2),
    ],
)
def test_limits_of_keys_and_values(metadata: dict[str, object], count: int) -> None:
    assert len(metadata_errors(metadata)) == count


def test_merging_sets_keys_and_keeps_others() -> None:
    assert merged_metadata({"a": "1", "b": "2"}, {"b": None, "c": "3"}) == {"a": "1", "b": None, "c": "3"}
    assert merged_metadata(None, {"a": "1"}) == {"a": "1"}
    assert merged_metadata(None, {}) is None
    assert merged_metadata({}, {}) == {}
