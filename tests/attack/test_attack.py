"""A few requests of every operation, valid and invalid, none of which breaks what the OpenAPI document says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attack.fuzzing import Target, attack
from tests.scenarios import Scenario

PARTS, REQUESTS = 6, 3


@pytest.fixture
def target() -> Iterator[Target]:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        yield Target(box)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_answer_is_one_that_the_document_describes(
    target: Target, part: int, pytestconfig: pytest.Config
) -> None:
    of_files = int(pytestconfig.getoption("--hypothesis-seed") or 0)
    operations = target.operations[part::PARTS]
    assert attack(operations, target, REQUESTS, of_files) == []
    assert target.statuses.total() >= len(operations)
    # Enough of them were understood for the test to mean something.
    assert target.statuses[200] > len(operations) / 2


def test_an_answer_that_the_document_does_not_describe_is_found(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = next(operation for operation in target.operations if operation.label == "GET /api/v1/taxes")
    described = operation.definition.raw["responses"]["200"]["content"]["application/json"]["schema"]
    monkeypatch.setitem(described, "required", ["taxes", "meta", "bill"])
    assert any("bill" in fault for fault in attack([operation], target, 10, 0))
