"""The e-mail of a payment request has a button that leads to its provider's page, if there is one."""

from __future__ import annotations

from typing import Any

import pytest
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario


@pytest.mark.parametrize("linked", [True, False])
def test_the_letter_about_a_declined_request_leads_to_a_page(linked: bool) -> None:
    with StripeServer() as server, Scenario(now="2024-03-05T12:00:00Z") as box:
        box.entity(name="Lumen", email="billing@lumen.example")
        link: dict[str, Any] = {}
        if linked:
            box.connect_payment_provider("stripe", code="main", url=server.url, **server.credentials)
            link = {"payment_provider": "stripe", "payment_provider_code": "main", "sync_with_provider": True}
        box.customer(name="Acme", email="anna@acme.example", billing_configuration=link)
        box.run_due()
        box.add_on("setup", 1_050)
        fees = [{"add_on_code": "setup"}]
        invoice = box.post("/invoices", invoice={"external_customer_id": "acme", "fees": fees})["invoice"]
        box.travel_to("2024-03-06T01:00:00Z")
        request = {"external_customer_id": "acme", "svc_invoice_ids": [invoice["svc_id"]]}
        box.post("/payment_requests", payment_request=request)
        box.run_due()
        email = box.emails[-1]
        assert email.subject == "Your overdue balance from Lumen"
        assert ("Pay now: http" in email.text) == linked
        assert (">Pay now</a>" in email.html) == linked
