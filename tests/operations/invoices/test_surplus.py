"""Progressive billing that billed more than usage came to in the end: what is given back, once and exactly."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios import ask, invoices_of, subscribe

from usagebill.testing import Sandbox


def _month(box: Sandbox, *, grace: int = 0, tax: int | None = 20) -> list[Any]:
    """20.00 billed on the way, 5.00 at the end of the month: all invoices."""
    if tax is not None:
        vat = {"name": "VAT", "code": "vat", "rate": tax, "applied_to_organization": True}
        ask(box, "POST", "/taxes", {"tax": vat})
    configuration = {"invoice_grace_period": grace}
    customer = {"external_id": "acme", "currency": "EUR", "billing_configuration": configuration}
    ask(box, "POST", "/customers", {"customer": customer})
    metric = {"name": "Units", "code": "units", "aggregation_type": "sum_agg", "field_name": "n"}
    metric_id = ask(box, "POST", "/billable_metrics", {"billable_metric": metric})["billable_metric"]["svc_id"]
    plan = {
        "name": "Basic",
        "code": "basic",
        "interval": "monthly",
        "amount_cents": 0,
        "amount_currency": "EUR",
        "pay_in_advance": False,
        "charges": [{"billable_metric_id": metric_id, "charge_model": "standard", "properties": {"amount": "1"}}],
        "usage_thresholds": [{"amount_cents": 1500}],
    }
    ask(box, "POST", "/plans", {"plan": plan})
    subscribe(box)
    for day, number in ((10, 20), (20, -15)):
        box.travel_to(f"2024-01-{day}T00:00:00Z")
        event = {
            "transaction_id": str(day),
            "code": "units",
            "external_subscription_id": "sub",
            "properties": {"n": number},
        }
        ask(box, "POST", "/events", {"event": event})
    box.travel_to("2024-02-01T01:00:00Z")
    return invoices_of(box)


@pytest.mark.parametrize(("tax", "given"), [(None, 1500), (20, 1800)])
def test_what_was_billed_above_the_usage_is_given_back(tax: int | None, given: int) -> None:
    with Sandbox(now="2024-01-01T00:00:00Z") as box:
        progressive, final = _month(box, tax=tax)
        assert (progressive["invoice_type"], progressive["fees_amount_cents"]) == ("progressive_billing", 2000)
        assert (final["fees_amount_cents"], final["progressive_billing_credit_amount_cents"]) == (500, 500)
        (note,) = ask(box, "GET", "/credit_notes")["credit_notes"]
        assert (note["svc_invoice_id"], note["total_amount_cents"]) == (progressive["svc_id"], given)
        assert (final["credit_notes_amount_cents"], final["total_amount_cents"]) == (0, 0)


def test_refreshing_a_draft_gives_nothing_back_again() -> None:
    with Sandbox(now="2024-01-01T00:00:00Z") as box:
        _, draft = _month(box, grace=5)
        for _ in range(2):
            draft = ask(box, "PUT", f"/invoices/{draft['svc_id']}/refresh")["invoice"]
            assert draft["progressive_billing_credit_amount_cents"] == 500
        draft = ask(box, "PUT", f"/invoices/{draft['svc_id']}/finalize")["invoice"]
        assert (draft["progressive_billing_credit_amount_cents"], draft["total_amount_cents"]) == (500, 0)
        assert [note["total_amount_cents"] for note in ask(box, "GET", "/credit_notes")["credit_notes"]] == [1800]
