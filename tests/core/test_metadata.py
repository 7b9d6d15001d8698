"""Metadata: its limits, and how keys are set."""

from __future__ import annotations

from typing import Any

import pytest

from usagebill.core.errors import Invalid
from usagebill.core.metadata import checked_metadata, merged_metadata


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
    if count:
        with pytest.raises(Invalid) as refused:
            checked_metadata(metadata)
        problems: Any = refused.value.details["value"]
        assert len(problems) == count
    else:
        assert checked_metadata(metadata) == metadata


@pytest.mark.parametrize("sent", [5, "gold", [1], True])
def test_what_is_no_map_is_refused(sent: object) -> None:
    with pytest.raises(Invalid) as refused:
        checked_metadata(sent)
    assert refused.value.details == {"metadata": ["invalid_type"]}


@pytest.mark.parametrize("sent", [None, "", []])
def test_an_empty_map_has_several_forms(sent: object) -> None:
    assert checked_metadata(sent) == {}


def test_merging_sets_keys_and_keeps_others() -> None:
    assert merged_metadata({"a": "1", "b": "2"}, {"b": None, "c": "3"}) == {"a": "1", "b": None, "c": "3"}
    assert merged_metadata(None, {"a": "1"}) == {"a": "1"}
    assert merged_metadata(None, {}) is None
    assert merged_metadata({}, {}) == {}
