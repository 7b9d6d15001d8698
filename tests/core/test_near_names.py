"""Names that were mistyped."""

from __future__ import annotations

import pytest

from usagebill.core.near_names import near_name


@pytest.mark.parametrize(
    ("name", "near"),
    [("token", "tokens"), ("Tokens", "tokens"), ("calls", None), ("", None), ("model_nmae", "model_name")],
)
def test_names_a_letter_off_are_near(name: str, near: str | None) -> None:
    assert near_name(name, ["tokens", "model_name", "x"]) == near
