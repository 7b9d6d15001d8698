"""Amounts beyond what 64 bits hold are billed to the cent, as any other."""

from __future__ import annotations

import pytest
from tests.price_list import PriceList
from tests.scenarios import invoices_of

from usagebill.operations.audit import audit
from usagebill.testing import Sandbox


@pytest.mark.parametrize("pay_in_advance", [False, True])
def test_an_amount_above_64_bits_is_billed_exactly(pay_in_advance: bool) -> None:
    with Sandbox(now="2024-01-01T00:00:00Z") as box:
        list_ = PriceList(box)
        list_.post("/taxes", tax={"name": "VAT", "code": "vat", "rate": "20", "applied_to_organization": True})
        charge = {
            "billable_metric_id": list_.metric("wei"),
            "charge_model": "standard",
            "pay_in_advance": pay_in_advance,
            "properties": {"amount": "1"},
        }
        list_.plan(charge)
        list_.subscribe()
        list_.event("wei", value=10**30 + 7)
        assert list_.usage()["amount_cents"] == 10**32 + 700
        box.travel_to("2024-02-01T01:00:00Z")

        invoice = invoices_of(box)[0]
        [fee] = [fee for fee in invoice["fees"] if fee["item"]["type"] == "charge"]
        assert (fee["amount_cents"], fee["taxes_amount_cents"]) == (10**32 + 700, 2 * 10**31 + 140)
        assert (invoice["status"], invoice["total_amount_cents"]) == ("finalized", 12 * 10**31 + 840)
        listed = list_.get(f"/invoices?amount_from={12 * 10**31 + 840}&amount_to={12 * 10**31 + 840}")["invoices"]
        assert [found["svc_id"] for found in listed] == [invoice["svc_id"]]
        assert list_.get(f"/invoices?amount_from={12 * 10**31 + 841}")["invoices"] == []
        assert box.billing.reading(audit).findings == ()
