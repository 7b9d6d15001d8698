"""`docs/coverage.md` is true: what it says is built is, and the tests that it names ask for it."""

from __future__ import annotations

import pytest

from tests.cases import each
from tests.coverage_table import (
    EVERY_OPERATION,
    NOT_SENT,
    PAGE,
    SCENARIOS,
    SHAPES,
    asked_by,
    built,
    documented,
    own_operations,
    rows,
    sending,
)
from usagebill.core.webhooks import OBJECT_TYPES
from usagebill.resources import MESSAGES

ANEW = "write the page anew: python -m tests.coverage_table"


def is_known(test: str, tests: list[str]) -> bool:
    """Whether a row names one of the tests; scenarios count as they are where they are not at hand."""
    return test in (tests or ["none"]) or (test.startswith("scenarios/") and not SCENARIOS.exists())


@each("verb,path,is_built,test", rows("Operations"))
def test_an_operation_is_built_and_asked_as_the_page_says(verb: str, path: str, is_built: str, test: str) -> None:
    assert (is_built == "yes") == (built(verb, path) is not None), ANEW
    assert is_known(test, asked_by(verb, path)), ANEW


def test_every_operation_that_is_built_is_tested() -> None:
    assert [row for row in rows("Operations") if row[2] == "yes" and row[3] == "none"] == []


@pytest.mark.skipif(not SHAPES.exists(), reason="the interface's description is not beside this checkout")
def test_the_page_has_every_operation_of_the_interface() -> None:
    listed = [(verb, path) for verb, path, *_ in rows("Operations")]
    assert listed == documented(), ANEW
    assert len(listed) == 202


def test_the_page_has_all_that_is_answered_beyond_the_interface() -> None:
    assert [row[:2] for row in rows("Our own operations")] == [list(row[:2]) for row in own_operations()], ANEW
    for verb, path, _, test in rows("Our own operations"):
        assert is_known(test, asked_by(verb, path)), ANEW


@each("name", sorted(OBJECT_TYPES))
def test_a_type_of_message_is_sent_and_tested_or_the_reason_is_known(name: str) -> None:
    (row,) = [row for row in rows("Webhooks") if row[0] == name]
    _, is_sent, cause, test = row
    if name in MESSAGES:
        assert (is_sent, cause) == ("yes", MESSAGES[name].about), ANEW
        assert test != "none", f"no test names {name}"
        assert test == "none" or is_known(test, sending(name)), ANEW
    else:
        assert (is_sent, cause, test) == ("no", NOT_SENT[name], "none"), ANEW


def test_the_test_of_every_operation_is_there() -> None:
    file, name = EVERY_OPERATION.split("::")
    assert f"def {name}(" in (PAGE.parents[1] / file).read_text("utf-8")
