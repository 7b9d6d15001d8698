"""Phases of a subscription in the console: seen, entered, changed and removed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario, charge_on

pytestmark = pytest.mark.now("2024-01-15T10:00:00Z")

PATH = "/subscriptions/sub/phases"
FIRST = {"range-0-from": "2024-03-10", "range-0-plan_code": "basic", "range-0-amount_cents": "50.00"}
SECOND = {"range-1-from": "2024-06-01", "range-1-plan_code": "big"}


@pytest.fixture
def admin(box: Scenario) -> Visitor:
    box.customer()
    box.plan(charge_on(box.metric("gb"), amount="1", code="gb"), amount_cents=3100)
    box.plan(code="big", amount_cents=6200)
    box.subscribe()
    return Visitor(box.billing, invited(box.billing, "admin"))


def phases(box: Scenario) -> list[tuple[str, int, str, Any]]:
    return [
        (phase["plan_code"], phase["plan_amount_cents"], phase["begins_on"], phase["plan_overrides"])
        for phase in box.get("/subscriptions/sub")["subscription"]["phases"]
    ]


def test_phases_are_entered_seen_changed_and_removed(box: Scenario, admin: Visitor) -> None:
    assert "None: the plan goes on as it is." in admin.page("/subscriptions/sub")
    answer = admin.send_form(PATH, **FIRST, **SECOND, step="save")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/subscriptions/sub")
    assert phases(box) == [
        ("basic", 3100, "2024-01-15", None),
        ("basic", 5000, "2024-04-01", {"amount_cents": 5000}),
        ("big", 6200, "2024-06-01", None),
    ]
    page = admin.page("/subscriptions/sub")
    assert "€50.00" in page
    assert "the fee" in page
    form = admin.page(PATH)
    for text in ('value="2024-03-10"', 'value="50.00"', 'value="big"'):
        assert text in form, text
    admin.send_form(PATH, **{**FIRST, "range-0-amount_cents": "55.00"}, step="save")
    assert [cents for _, cents, _, _ in phases(box)] == [3100, 5500]
    admin.send_form(PATH, step="remove")
    assert phases(box) == []


def test_what_else_a_phase_changes_stays_with_it(box: Scenario, admin: Visitor) -> None:
    (charge,) = box.get("/plans/basic")["plan"]["charges"]
    own = {"charges": [{"id": charge["svc_id"], "properties": {"amount": "0.5"}}], "amount_cents": 4000}
    box.put("/subscriptions/sub", subscription={"phases": [{"until": "2024-03-10"}, {"plan_overrides": own}]})
    assert phases(box)[1][3] == own
    admin.send_form(PATH, **FIRST, step="save")
    assert phases(box)[1][3] == {**own, "amount_cents": 5000}
    # As it is shown, it can be sent again.
    shown = phases(box)[1][3]
    box.put("/subscriptions/sub", subscription={"phases": [{"until": "2024-03-10"}, {"plan_overrides": shown}]})
    assert phases(box)[1][3] == shown


def test_what_is_refused_is_said_beside_what_was_typed(box: Scenario, admin: Visitor) -> None:
    wrong = [
        {"range-0-plan_code": "big"},
        {"range-0-from": "2024-01-02", "range-0-plan_code": "big"},
        {"range-0-from": "2024-03-10", "range-0-amount_cents": "many"},
    ]
    for fields in wrong:
        answer = admin.send_form(PATH, **fields, step="save")
        assert answer.status_code == 422, fields
        assert 'role="alert"' in answer.text
        for text in fields.values():
            assert f'value="{text}"' in answer.text
    unknown = admin.send_form(PATH, **{"range-0-from": "2024-03-10", "range-0-plan_code": "none"}, step="save")
    assert unknown.status_code == 404
    assert phases(box) == []
