"""The books of a company, half a year old, for the pages of the console."""

from __future__ import annotations

from tests.scenarios import Scenario, charge_on, fixed_charge_on, price_ranges

SCRIPT = "<svg class=owned onload=top.owned=1>"
NAMES = {
    "acme": "Acme",
    "mueller": "Straßenbau Müller & Söhne Verwaltungsgesellschaft mbH & Co. KG",
    "sakura/ソフト": "株式会社さくらソフトウェア開発",
    "nakheel": "شركة النخيل للتقنية والاستشارات",
    "long": "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 2,
    SCRIPT: SCRIPT,
}
BEGAN, NOW = "2024-01-01T08:00:00Z", "2024-06-20T10:30:00Z"


def books() -> Scenario:
    """Customers of many scripts on one plan, with usage, invoices, payments, credits and events that nobody is billed
    for; text that would run as a script in every field that takes one.
    """
    box = Scenario(now=BEGAN)
    box.entity(country="DE", name="Rechenzentrum Nord", net_payment_term=14, email="billing@nord.example")
    box.tax(19)
    requests = box.metric("requests", name="API requests")
    storage = box.metric(
        "storage", name=SCRIPT, description=SCRIPT, filters=[{"key": "tier", "values": ["hot", "cold"]}]
    )
    box.add_on("setup", 25_000, name=SCRIPT, description=SCRIPT)
    ranges = price_ranges((0, 1000, "0.02", "0"), (1001, None, "0.01", "5"))
    cold = [{"values": {"tier": ["cold"]}, "properties": {"amount": "0.1"}}]
    box.plan(
        charge_on(requests, "graduated", graduated_ranges=ranges),
        charge_on(storage, amount="0.5", filters=cold),
        name="Professional",
        amount_cents=4900,
        description=SCRIPT,
    )
    box.post(
        "/features",
        feature={"code": "seats", "name": SCRIPT, "privileges": [{"code": "most", "value_type": "integer"}]},
    )
    setup = box.get("/add_ons/setup")["add_on"]["svc_id"]
    box.plan(
        charge_on(storage, amount="0.5", invoice_display_name=SCRIPT, filters=cold),
        fixed_charges=[fixed_charge_on(setup, "volume", units="3", volume_ranges=ranges, invoice_display_name=SCRIPT)],
        minimum_commitment={"amount_cents": 10_000, "invoice_display_name": SCRIPT},
        usage_thresholds=[{"amount_cents": 50_000, "threshold_display_name": SCRIPT}],
        code="full",
    )
    box.post("/plans/full/entitlements", entitlements={"seats": {"most": 5}})
    for place, (external_id, name) in enumerate(NAMES.items()):
        box.customer(external_id, name=name, email=f"c{place}@customers.example", country="DE", city=SCRIPT)
        box.subscribe(external_id=f"sub-{place}", customer=external_id, name=name)
    box.coupon(1000, "mueller")
    box.post(
        "/wallets",
        wallet={
            "external_customer_id": "nakheel",
            "name": SCRIPT,
            "rate_amount": "1",
            "currency": "EUR",
            "granted_credits": "120",
        },
    )
    for month in range(1, 7):
        for day in (3, 9, 14, 18):
            box.travel_to(f"2024-{month:02}-{day:02}T12:00:00Z")
            for place in range(len(NAMES)):
                box.event("requests", f"sub-{place}", value=str(200 * (place + 1) + 90 * day))
                box.event("storage", f"sub-{place}", value=str(day), tier="cold" if day % 2 else "hot")
    box.travel_to(NOW)
    box.event(SCRIPT, "sub-0", value="1", note=SCRIPT)
    first = box.invoices("acme")[-1]
    paid = {"invoice_id": first["svc_id"], "amount_cents": first["total_amount_cents"], "reference": SCRIPT}
    box.post("/payments", payment=paid)
    one_off = {"external_customer_id": "acme", "fees": [{"add_on_code": "setup", "units": 1, "description": SCRIPT}]}
    box.post("/invoices", invoice=one_off)
    box.post("/webhook_endpoints", webhook_endpoint={"webhook_url": "https://listener.example/hooks", "name": SCRIPT})
    box.post("/api_keys", api_key={"name": SCRIPT})
    return box
