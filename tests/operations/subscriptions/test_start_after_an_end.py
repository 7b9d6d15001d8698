"""An end is no change of plan: its day is paid, and so is the day of a start, also if these are one day."""

from __future__ import annotations

import pytest
from tests.scenarios import Scenario, charge_on, fixed_charge_on


@pytest.mark.parametrize("again", ["sub", "other"], ids=["with the same id", "with another id"])
@pytest.mark.parametrize("in_advance", [False, True], ids=["in arrears", "in advance"])
def test_the_day_of_an_end_and_a_start_is_paid_on_both(in_advance: bool, again: str) -> None:
    with Scenario("2024-10-01T00:00:00Z") as box:
        box.customer()
        seats = charge_on(box.metric("seats", "unique_count_agg", recurring=True), amount="31", prorated=True)
        desk = fixed_charge_on(box.add_on(), amount="31", units="1", prorated=True, pay_in_advance=in_advance)
        box.plan(seats, amount_cents=3100, pay_in_advance=in_advance, fixed_charges=[desk])
        box.subscribe()
        box.event("seats", value="a")
        box.travel_to("2024-10-10T12:00:00Z")
        box.unsubscribe()
        box.travel_to("2024-10-10T15:00:00Z")
        box.subscribe(external_id=again)
        if again != "sub":
            box.event("seats", external_id=again, value="a")
        box.travel_to("2024-11-01T01:00:00Z")
        fees: dict[str, int] = {}
        for invoice in box.invoices():
            for fee in invoice["fees"]:
                if fee["from_date"] < "2024-11":
                    fees[fee["item"]["type"]] = fees.get(fee["item"]["type"], 0) + fee["amount_cents"]
        credited = sum(note["total_amount_cents"] for note in box.get("/credit_notes")["credit_notes"])
        # What was paid in advance of a fixed charge is not given back at an end.
        fixed = 3100 + 2200 if in_advance else 3200
        assert fees.pop("fixed_charge") == fixed
        assert (fees.pop("subscription") - credited, fees.pop("charge")) == (3200, 3200)
        assert box.billing.audit().findings == ()
