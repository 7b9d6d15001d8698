"""Amounts beyond what 64 bits hold are billed to the cent, as any other."""

from __future__ import annotations

import pytest
from tests.scenarios import Scenario, charge_on, fees_of

from usagebill.operations.audit import audit


@pytest.mark.parametrize("pay_in_advance", [False, True])
def test_an_amount_above_64_bits_is_billed_exactly(pay_in_advance: bool) -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        box.tax("20")
        charge = charge_on(box.metric("wei"), amount="1", pay_in_advance=pay_in_advance)
        box.plan(charge)
        box.subscribe()
        box.event("wei", value=10**30 + 7)
        assert box.usage()["amount_cents"] == 10**32 + 700
        box.travel_to("2024-02-01T01:00:00Z")

        invoice = box.invoices()[0]
        [fee] = fees_of(invoice, "charge")
        assert (fee["amount_cents"], fee["taxes_amount_cents"]) == (10**32 + 700, 2 * 10**31 + 140)
        assert (invoice["status"], invoice["total_amount_cents"]) == ("finalized", 12 * 10**31 + 840)
        listed = box.get(f"/invoices?amount_from={12 * 10**31 + 840}&amount_to={12 * 10**31 + 840}")["invoices"]
        assert [match["svc_id"] for match in listed] == [invoice["svc_id"]]
        assert box.get(f"/invoices?amount_from={12 * 10**31 + 841}")["invoices"] == []
        assert box.billing.reading(audit).findings == ()
