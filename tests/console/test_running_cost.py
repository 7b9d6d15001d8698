"""The cost of a running period, as a subscription's page draws it."""

from __future__ import annotations

import re

from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario, charge_on


def test_the_cost_grows_day_by_day_beside_alerts_thresholds_and_where_it_leads() -> None:
    with Scenario(now="2024-04-01T00:00:00Z") as box:
        box.plan(
            charge_on(box.metric("calls", name="API calls"), amount="1"),
            usage_thresholds=[{"amount_cents": 100_00}],
        )
        box.customer()
        box.subscribe(external_id="s/1")
        box.post(
            "/subscriptions/s%2F1/alerts",
            alert={
                "alert_type": "current_usage_amount",
                "code": "half",
                "name": "Half",
                "thresholds": [{"code": "warn", "value": "4000"}],
            },
        )
        for day, value in ((1, "5"), (3, "10"), (5, "5")):
            box.travel_to(f"2024-04-{day:02}T12:00:00Z")
            box.event("calls", "s/1", value=value)
        box.travel_to("2024-04-05T23:59:59Z")
        page = Visitor(box.billing, invited(box.billing, "read_only")).page("/subscriptions/s%2F1")
        section = page.partition("Cost of this period")[2].partition("</section>")[0]
        bars = re.findall(r"<title>Apr (\d), 2024: €([\d.]+)</title>", section)
        assert bars == [("1", "5.00"), ("2", "5.00"), ("3", "15.00"), ("4", "15.00"), ("5", "20.00")]
        assert "<title>Half: €40.00</title>" in section
        # The alert is the highest: 20.00 of 40.00 is half of the chart's 160.
        assert 'y2="0.0"' in section
        assert 'height="80.0"' in section
        # 20.00 in 5 of 30 days.
        assert "€120.00 at its end, at this pace" in section
        assert "Billed ahead at €100.00 of lifetime usage: 20 % reached" in section


def test_without_alerts_and_thresholds_there_is_the_cost_alone() -> None:
    with Scenario(now="2024-04-01T00:00:00Z") as box:
        box.plan(charge_on(box.metric("calls"), amount="1"))
        box.customer()
        box.subscribe(external_id="s")
        page = Visitor(box.billing, invited(box.billing, "admin")).page("/subscriptions/s")
        section = page.partition("Cost of this period")[2].partition("</section>")[0]
        assert "<title>Apr 1, 2024: €0.00</title>" in section
        assert "Alerts:" not in section
        assert "Billed ahead" not in section


def test_the_next_invoice_is_opened_down_to_events_proration_and_taxes() -> None:
    with Scenario(now="2024-04-16T00:00:00Z") as box:
        box.tax("20")
        box.plan(charge_on(box.metric("calls", name="API calls"), amount="0.5"), amount_cents=3000)
        box.customer()
        box.subscribe(external_id="s/1")
        box.event("calls", "s/1", value="4")
        reader = Visitor(box.billing, invited(box.billing, "read_only"))
        for page in ("/subscriptions/s%2F1", "/customers/acme"):
            assert 'href="/console/next-invoice/s%2F1"' in reader.page(page)
        page = reader.page("/next-invoice/s%2F1")
        # 15 of 30 days, and four calls; 17.00 with 20 % of taxes.
        assert "plan amount 30.0 x 15 / 30 days" in page
        assert "sum of value: 4.0" in page
        assert "4.0 units x 0.5 each" in page
        assert 'href="/console/events/t1"' in page
        assert '<dd class="total">€20.40</dd>' in page
        assert box.invoices() == []
        reader.page("/next-invoice/nobody", status=404)


def test_what_is_held_is_told_beside_the_usage() -> None:
    with Scenario(now="2024-04-01T00:00:00Z") as box:
        box.plan(charge_on(box.metric("calls"), amount="1"))
        box.customer()
        box.subscribe(external_id="s")
        visitor = Visitor(box.billing, invited(box.billing, "admin"))
        assert "held for calls" not in visitor.page("/customers/acme")
        with box.billing.holds.hold("s", "calls", units=3):
            assert "€3.00 more held for calls under way" in visitor.page("/customers/acme")
