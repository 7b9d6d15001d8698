"""A test of many cases tries them all, and names each one that fails."""

from __future__ import annotations

from inspect import signature

import pytest

from tests.cases import each


def test_every_case_is_tried_and_each_that_fails_is_named() -> None:
    tried = []

    @each("number,double", [(number, 2 * number) for number in range(4)], ids=lambda case: f"case {case[0]}")
    def odd(number: int, double: int, box: str) -> None:
        tried.append((number, double, box))
        assert number % 2, f"{number} is even"

    assert list(signature(odd).parameters) == ["box"]
    with pytest.raises(BaseExceptionGroup) as caught:
        odd(box="the fixture")
    assert tried == [(number, 2 * number, "the fixture") for number in range(4)]
    first, *named = caught.value.message.splitlines()
    assert first == "2 of 4 cases failed:"
    assert [line for line in named if line.startswith("case")] == [
        "case 0: 0 is even",
        "case 2: 2 is even",
    ]


def test_no_case_is_no_success() -> None:
    @each("number", [])
    def never(number: int) -> None:
        raise AssertionError(number)

    with pytest.raises(AssertionError, match="there is no case"):
        never()
