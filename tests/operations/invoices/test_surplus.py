"""Progressive billing that billed more than usage came to in the end: what is given back, once and exactly."""

from __future__ import annotations

from typing import Any

import pytest
from tests.money import gross
from tests.scenarios import Scenario, charge_on


def _month(box: Scenario, *, grace: int = 0, tax: int | None = 20) -> list[Any]:
    """20.00 billed on the way, 5.00 at the end of the month: all invoices."""
    if tax is not None:
        box.tax(tax)
    configuration = {"invoice_grace_period": grace}
    box.customer(billing_configuration=configuration)
    metric_id = box.metric("units", field_name="n")
    box.plan(charge_on(metric_id, amount="1"), usage_thresholds=[{"amount_cents": 1500}])
    box.subscribe()
    for day, number in ((10, 20), (20, -15)):
        box.travel_to(f"2024-01-{day}T00:00:00Z")
        event = {
            "transaction_id": str(day),
            "code": "units",
            "external_subscription_id": "sub",
            "properties": {"n": number},
        }
        box.post("/events", event=event)
    box.travel_to("2024-02-01T01:00:00Z")
    return box.invoices()


@pytest.mark.parametrize(("tax", "credited"), [(None, 1500), (20, 1800)])
def test_what_was_billed_above_the_usage_is_given_back(tax: int | None, credited: int) -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        progressive, final = _month(box, tax=tax)
        assert (progressive["invoice_type"], progressive["fees_amount_cents"]) == ("progressive_billing", 20 * 100)
        assert (final["fees_amount_cents"], final["progressive_billing_credit_amount_cents"]) == (5 * 100, 5 * 100)
        (note,) = box.get("/credit_notes")["credit_notes"]
        assert (note["svc_invoice_id"], note["total_amount_cents"]) == (progressive["svc_id"], credited)
        assert (final["credit_notes_amount_cents"], final["total_amount_cents"]) == (0, 0)


def test_refreshing_a_draft_gives_nothing_back_again() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        _, draft = _month(box, grace=5)
        for _ in range(2):
            draft = box.put(f"/invoices/{draft['svc_id']}/refresh")["invoice"]
            assert draft["progressive_billing_credit_amount_cents"] == 5 * 100
        draft = box.put(f"/invoices/{draft['svc_id']}/finalize")["invoice"]
        assert (draft["progressive_billing_credit_amount_cents"], draft["total_amount_cents"]) == (5 * 100, 0)
        assert [note["total_amount_cents"] for note in box.get("/credit_notes")["credit_notes"]] == [
            gross((20 - 5) * 100, 20)
        ]
