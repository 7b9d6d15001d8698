"""Events around an upgrade are each billed once, by the old plan or by the new one, or listed as too late."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios import Scenario, charge_in_advance_on, charge_on

pytestmark = pytest.mark.beyond_reference

SECOND_OF_UPGRADE = 1729080000  # 2024-10-16T12:00:00Z


def charge(metric: str, *, in_advance: bool) -> dict[str, Any]:
    priced = charge_in_advance_on if in_advance else charge_on
    return priced(metric, amount="1", code="calls", invoiceable=True)


@pytest.mark.parametrize("grace", [0, 3])
@pytest.mark.parametrize("after", [False, True], ids=["to arrears", "to advance"])
@pytest.mark.parametrize("before", [False, True], ids=["from arrears", "from advance"])
def test_a_count_is_billed_once_around_an_upgrade(before: bool, after: bool, grace: int) -> None:
    with Scenario("2024-10-01T00:00:00Z") as box:
        box.customer(billing_configuration={"invoice_grace_period": grace})
        calls = box.metric("calls", "count_agg")
        box.plan(charge(calls, in_advance=before), code="basic", amount_cents=1000)
        box.plan(charge(calls, in_advance=after), code="larger", amount_cents=2000)
        box.subscribe()

        def send(id: str, timestamp: int | None = None) -> None:
            dated = {} if timestamp is None else {"timestamp": timestamp}
            box.post(
                "/events", event={"transaction_id": id, "code": "calls", "external_subscription_id": "sub", **dated}
            )

        box.travel_to("2024-10-05T00:00:00Z")
        send("early")
        box.travel_to("2024-10-16T12:00:00.300Z")
        send("second of the upgrade", SECOND_OF_UPGRADE)
        box.travel_to("2024-10-16T12:00:00.500Z")
        send("instant of the upgrade")
        box.subscribe("larger")
        box.travel_to("2024-10-16T12:00:00.600Z")
        send("second of the upgrade, later", SECOND_OF_UPGRADE)
        send("of the old plan", SECOND_OF_UPGRADE - 1)
        box.travel_to("2024-10-25T00:00:00Z")
        send("of the old plan, days later", SECOND_OF_UPGRADE - 86400)
        box.travel_to("2024-11-09T01:00:00Z")
        fees = [fee for invoice in box.invoices() for fee in invoice["fees"] if fee["item"]["type"] == "charge"]
        listed = [event["transaction_id"] for event in box.get("/events?unbilled=true")["events"]]
        # Billed for good is the old plan's usage in arrears, at once or after its grace period.
        too_late = [] if before else ["of the old plan, days later", *([] if grace else ["of the old plan"])]
        assert sorted(listed) == sorted(too_late)
        assert sum(fee["amount_cents"] for fee in fees) == 100 * (6 - len(too_late))
        assert box.billing.audit().findings == ()
