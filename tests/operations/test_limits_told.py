"""Refusals say what refuses, over HTTP; messages of limits and holds come once each, also after downtime."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on

pytestmark = [pytest.mark.now("2024-03-05T10:00:00Z"), pytest.mark.usefixtures("acme")]

USAGE = {"external_subscription_id": "sub", "code": "gb"}


def capped(box: Scenario) -> None:
    box.post("/customers/acme/spend_limits", spend_limit={"code": "bound", "amount_cents": 500})


def of_credits(box: Scenario) -> None:
    wallet = {"external_customer_id": "acme", "code": "bound", "currency": "EUR", "rate_amount": "1"}
    box.post("/wallets", wallet={**wallet, "granted_credits": "5", "hard_stop": True})


def of_a_quota(box: Scenario) -> None:
    most = {"code": "max", "value_type": "integer", "billable_metric_code": "gb"}
    box.post("/features", feature={"code": "bound", "privileges": [most]})
    box.post("/plans/basic/entitlements", entitlements={"bound": {"max": 5}})


@pytest.mark.parametrize(
    ("bound", "code", "unit", "resets_at"),
    [
        (capped, "spend_limit_reached", 100, "2024-04-01T00:00:00Z"),
        (of_credits, "insufficient_credits", 100, None),
        (of_a_quota, "quota_reached", 1, "2024-04-01T00:00:00Z"),
    ],
    ids=["spend limit", "credits", "quota"],
)
def test_a_refusal_says_what_is_used_held_and_left_until_when(
    box: Scenario, bound: Any, code: str, unit: int, resets_at: str | None
) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    bound(box)
    box.event("gb", value=1)
    box.post("/holds", hold={**USAGE, "units": "2"})
    event = {**USAGE, "transaction_id": "beyond", "properties": {"value": 4}}
    refusals = (
        box.post("/holds", 402, hold={**USAGE, "units": "4"}),
        box.post("/events?enforce=true", 402, event=event),
    )
    expected = {"limit": 5, "used": 1, "held": 2, "adds": 4, "remaining": 2}
    for refusal in refusals:
        assert (refusal["status"], refusal["code"]) == (402, code)
        limit = refusal["error_details"]["limit"]
        assert {name: limit[name] for name in expected} == {
            name: f"{number * unit}.0" for name, number in expected.items()
        }
        assert (limit["refusal_code"], limit["allowed"], limit["resets_at"]) == (code, False, resets_at)
        assert limit["code"].partition(".")[0] == "bound"
        assert refusal["message"]
    (batch,) = box.post("/events/batch?enforce=true", events=[event])["refused"]
    assert (batch["code"], batch["limit"]) == (code, limit)
    # The list of holds has the one that stands, and no refusal has left another.
    assert [hold["units"] for hold in box.get("/holds?status=held")["holds"]] == ["2.0"]
    assert box.get("/holds?status=expired")["holds"] == []
    assert box.get("/events")["meta"]["total_count"] == 1


def told(box: Scenario) -> list[tuple[str, str]]:
    """The messages of limits and holds, and what they are about."""
    kinds = {"limit.reached": "reached_limit", "limit.reset": "reached_limit", "hold.expired": "hold"}
    messages = [message for message in box.webhooks if message["webhook_type"] in kinds]
    about = [message[kinds[message["webhook_type"]]] for message in messages]
    return sorted(
        (message["webhook_type"], one.get("code") or one["svc_id"])
        for message, one in zip(messages, about, strict=True)
    )


def test_after_days_without_a_worker_everything_is_told_once(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    box.post("/customers/acme/spend_limits", spend_limit={"code": "day", "amount_cents": 500, "interval": "day"})
    box.post("/customers/acme/spend_limits", spend_limit={"code": "ever", "amount_cents": 900, "interval": "lifetime"})
    holds = [box.post("/holds", hold={**USAGE, "units": "1", "expires_in": 60})["hold"]["svc_id"] for _ in range(2)]
    box.event("gb", value=5)
    box.jump_to(box.now + timedelta(days=1))
    box.event("gb", value=2)
    assert box.get("/holds?status=expired")["meta"]["total_count"] == 2
    box.jump_to(box.now + timedelta(days=1))
    # It happened, although late, and is billed on top: 5 + 2 + 2 are 9.
    box.post(f"/holds/{holds[0]}/capture", event={"transaction_id": "late", "properties": {"value": 2}})
    box.run_due()
    box.travel_to(box.now + timedelta(minutes=1))
    once = [
        *(("hold.expired", hold) for hold in sorted(holds)),
        *(("limit.reached", "day"), ("limit.reached", "ever"), ("limit.reset", "day")),
    ]
    assert told(box) == once
    box.travel_to(box.now + timedelta(days=3))
    assert told(box) == once
    assert box.get("/holds?status=held")["holds"] == []
