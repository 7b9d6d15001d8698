"""What customers do in the portal is the same on each engine."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from tests.asgi import send
from tests.scenarios import plan_fields

from usagebill import Billing
from usagebill.http.app import create_app
from usagebill.runtime.clock import ManualClock

NOW = datetime(2024, 3, 11, 9, tzinfo=UTC)


def test_plans_credits_and_alerts_are_the_same_on_each_engine(empty_database: str) -> None:
    mailer: Any = object()
    with Billing(empty_database, clock=ManualClock(NOW), deliver=False, mailer=mailer) as billing:
        billing.billing_entities.update(
            "default",
            email="billing@lumen.example",
            portal_color="#0b6e4f",
            portal_spend_limits=True,
            portal_frame_origins=["https://app.lumen.example"],
            email_texts=[{"kind": "invoice", "locale": "en", "subject": "{entity}: {number}"}],
        )
        assert billing.billing_entities.get("default").email_texts[0].subject == "{entity}: {number}"
        for code, cents in (("basic", 31_00), ("pro", 62_00)):
            fields = plan_fields(code=code, amount_cents=cents, pay_in_advance=True, offered_in_portal=True)
            billing.plans.create(**fields)
        billing.customers.upsert(external_id="acme", currency="EUR", email="pay@acme.example")
        billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="acme/1")
        wallet = billing.wallets.create(external_customer_id="acme", rate_amount="1", currency="EUR")
        app = create_app(billing)
        link = billing.customers.portal_url("acme").removeprefix("http://localhost:8000")

        def post(path: str, **form: str) -> int:
            return int(send(app, "POST", link + path, data=form).status_code)

        page = send(app, "GET", f"{link}/plans/acme%2F1?plan=pro")
        assert "€42.00" in page.text
        assert "frame-ancestors https://app.lumen.example" in page.headers["content-security-policy"]
        assert [post("/plans/acme%2F1", plan="pro") for _ in range(2)] == [303, 404]
        order = re.search(
            r'name="order" value="([^"]+)"', send(app, "GET", f"{link}/wallets/{wallet.id}?credits=5").text
        )
        assert order is not None
        assert [post(f"/wallets/{wallet.id}", credits="5", order=order[1]) for _ in range(2)] == [303, 303]
        assert [post("/usage/acme%2F1", amount=amount) for amount in ("10", "20", "10")] == [303, 303, 422]
        assert post("/usage/acme%2F1", remove="1000") == 303
        assert [post("/limits/acme%2F1", interval="month", amount=amount) for amount in ("10", "20")] == [303, 303]
        (limit,) = billing.spend_limits.list_of_subscription("acme/1").items
        assert (limit.set_by, limit.amount_cents) == ("customer", 2000)
        assert "€20.00" in send(app, "GET", f"{link}/limits/acme%2F1").text
        assert billing.subscriptions.get("acme/1").plan_id == billing.plans.get("pro").id
        assert sorted(invoice.fees_amount_cents for invoice in billing.invoices.list().items) == [5_00, 21_00, 42_00]
        (alert,) = billing.alerts.list("acme/1").items
        assert [int(level.value) for level in alert.thresholds] == [2000]
