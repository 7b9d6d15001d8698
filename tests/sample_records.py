"""One record of most kinds, and for each operation a request that it accepts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.scenarios import Scenario, charge_on, price_ranges
from usagebill.core.billing_entities import EMAIL_SETTINGS
from usagebill.core.organizations import Organization
from usagebill.core.provider_requests import MethodDetails
from usagebill.http.app import endpoints
from usagebill.http.endpoints import Endpoint
from usagebill.operations import payment_connections, sync_connections
from usagebill.operations.event_sources import Arrival, get_refused, take
from usagebill.operations.payment_connections import PaymentConnectionInput
from usagebill.operations.payment_methods import keep_method
from usagebill.operations.sync_connections import SyncConnectionInput
from usagebill.queries.customers import customer_by_external_id
from usagebill.runtime.work import Work

AMOUNT = {"amount": "1"}


def world(box: Scenario) -> dict[str, str]:
    """One record of most kinds; path parameters by name, with the resource if the name alone is ambiguous."""
    box.tax("20", applied_to_organization=False)
    box.customer()
    cloud = [{"key": "cloud", "values": ["aws", "gcp"]}]
    metric_id = box.metric("gb", filters=cloud)
    box.add_on("seat", 100)
    shown = box.post("/plans", plan=plan("basic", metric_id))["plan"]
    box.post("/plans", plan=plan("unused", metric_id))
    for external_id in ("sub", "sub2"):
        box.subscribe(external_id=external_id)
    box.post("/events", event=event("t1"))
    coupon = {"name": "C", "code": "ten", "coupon_type": "percentage", "percentage_rate": "10", "frequency": "forever"}
    box.post("/coupons", coupon={**coupon, "expiration": "no_expiration"})
    applied = {"external_customer_id": "acme", "coupon_code": "ten"}
    applied_id = box.post("/applied_coupons", applied_coupon=applied)["applied_coupon"]["svc_id"]
    one_off = {"external_customer_id": "acme", "fees": [{"add_on_code": "seat", "units": 2}]}
    invoice = box.post("/invoices", invoice=one_off)["invoice"]
    levels = {"code": "level", "value_type": "select", "config": {"select_options": ["basic", "gold"]}}
    allowed = [{"code": "most", "value_type": "integer"}, {"code": "root", "value_type": "boolean"}, levels]
    box.post("/features", feature={"code": "seats", "name": "Seats", "privileges": allowed})
    box.post("/features", feature={"code": "sso", "privileges": [{"code": "provider"}]})
    box.post("/plans/basic/entitlements", entitlements={"seats": {"most": 5, "level": "basic", "root": True}})
    box.ask("PATCH", "/subscriptions/sub/entitlements", {"entitlements": {"seats": {"most": 9}}})
    listener = box.post(
        "/webhook_endpoints", webhook_endpoint={"webhook_url": "https://listener.example", "signature_algo": "hmac"}
    )
    sending = {"email": "billing@seller.example", "email_settings": list(EMAIL_SETTINGS)}
    box.put("/billing_entities/default", billing_entity=sending)
    campaign = {"name": "Standard", "code": "standard", "thresholds": [{"amount_cents": 10**9, "currency": "EUR"}]}
    box.post("/dunning_campaigns", dunning_campaign=campaign)
    for owner in ("/customers/acme", "/subscriptions/sub", "/plans/basic"):
        box.post(f"{owner}/spend_limits", spend_limit={"code": "cap", "amount_cents": 10**9})
    held_id = _held(box)
    watch = {"alert_type": "current_usage_amount", "code": "watch", "thresholds": [{"value": 100_000}]}
    box.post("/subscriptions/sub/alerts", alert=watch)
    charge = shown["charges"][0]
    later = box.put("/plans/basic", plan={"amount_cents": shown["amount_cents"] + 1, "effective": "2040-01-01"})
    # A wallet identified by code in paths, and one by id.
    wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "metadata": {"tier": "gold"}}
    box.post("/wallets", wallet={**wallet, "code": "acme"})
    watch = {"alert_type": "wallet_balance_amount", "code": "acme", "thresholds": [{"value": 5}]}
    box.post("/customers/acme/wallets/acme/alerts", alert=watch)
    wallet_id = box.post("/wallets", wallet=wallet)["wallet"]["svc_id"]
    moved = {"wallet_id": wallet_id, "granted_credits": "10"}
    granted = box.post("/wallet_transactions", wallet_transaction=moved)["wallet_transactions"][0]
    moved = {"wallet_id": wallet_id, "voided_credits": "1"}
    void = box.post("/wallet_transactions", wallet_transaction=moved)["wallet_transactions"][0]
    rate = box.post("/exchange_rates", exchange_rate={"currency": "CHF", "rate": "1.05"})["exchange_rate"]
    synced_id = _synced(box)
    refused_id, unreadable_id = _refused(box)
    activity = box.get("/activity_logs?per_page=1")["activity_logs"][0]
    return {
        "webhooks": box.get("/webhooks?per_page=1")["webhooks"][0]["svc_id"],
        "payment_method_id": _payment_method(box),
        "synced_document_id": synced_id,
        "refused_event_id": refused_id,
        "unreadable_id": unreadable_id,
        "metric": metric_id,
        "activity_id": activity["activity_id"],
        "api_keys": box.post("/api_keys", api_key={"name": "spare"})["api_key"]["svc_id"],
        "request_id": box.get("/api_logs?per_page=1")["api_logs"][0]["request_id"],
        "log_id": box.get("/security_logs?to_date=2100-01-01")["security_logs"][0]["log_id"],
        "add_ons": "seat",
        "billable_metrics": "gb",
        "billing_entities": "default",
        "coupons": "ten",
        "customers": "acme",
        "dunning_campaigns": "standard",
        "features": "seats",
        "plans": "basic",
        "subscriptions": "sub",
        "taxes": "vat",
        "webhook_endpoints": listener["webhook_endpoint"]["svc_id"],
        "charge_code": charge["code"],
        "version": str(later["plan"]["scheduled_prices"][0]["version"]),
        "filter_id": charge["filters"][0]["svc_id"],
        "fixed_charge_code": "seats",
        "feature_code": "seats",
        "privilege_code": "most",
        "spend_limit_code": "cap",
        "hold_id": held_id,
        "exchange_rate_id": rate["svc_id"],
        "transaction_id": "t1",
        "applied_coupon_id": applied_id,
        "invoice_id": invoice["svc_id"],
        "fee_id": invoice["fees"][0]["svc_id"],
        "key": "tier",
        "wallet_id": wallet_id,
        "wallet_transaction_id": granted["svc_id"],
        "void_id": void["svc_id"],
    }


def _synced(box: Scenario) -> str:
    """A document to be pushed to acme's accounting system, which does not answer."""
    known = box.get("/organizations")["organization"]["svc_id"]
    organization = box.billing.store.read(None, lambda tx: tx.get(Organization, known))
    wanted = SyncConnectionInput(kind="xero", code="books", url="https://books.example")
    box.billing.writing(lambda work: sync_connections.create(work, wanted), organization)
    link = {"integration_type": "xero", "integration_code": "books", "sync_with_provider": True}
    box.customer(integration_customers=[link])
    return str(box.get("/synced_documents")["synced_documents"][0]["svc_id"])


def _refused(box: Scenario) -> tuple[str, str]:
    """Messages of a topic: an event with a code that did not exist then, and a message that is not an event."""
    known = box.get("/organizations")["organization"]["svc_id"]
    organization = box.billing.store.read(None, lambda tx: tx.get(Organization, known))
    arrivals = [Arrival(0, "{}", {"transaction_id": "t0"}), Arrival(1, "?", problem={"payload": ["value_is_invalid"]})]
    box.billing.writing(lambda work: take(work, "kafka:usage", "0", arrivals, position=2), organization)
    first, second = (refused["svc_id"] for refused in box.get("/refused_events")["refused_events"])

    def complete(work: Work) -> None:
        record = get_refused(work, first)
        work.tx.replace(replace(record, event={**(record.event or {}), "code": "gb"}))

    box.billing.writing(complete, organization)
    return str(first), str(second)


def _payment_method(box: Scenario) -> str:
    """A card of acme's; its provider is linked to no customer, so nothing is charged."""
    known = box.get("/organizations")["organization"]["svc_id"]

    def make(work: Work) -> str:
        wanted = PaymentConnectionInput(kind="stripe", code="cards", secret_key="sk", webhook_secret="wh")
        cards = payment_connections.create(work, wanted)
        acme = customer_by_external_id(work, "acme")
        return keep_method(work, acme, cards, MethodDetails(provider_method_id="pm_1", type="card")).id

    organization = box.billing.store.read(None, lambda tx: tx.get(Organization, known))
    return box.billing.writing(make, organization)


def plan(code: str, metric_id: str) -> dict[str, Any]:
    filters = [{"values": {"cloud": ["aws"]}, "properties": AMOUNT}]
    return {
        "name": "Plan",
        "code": code,
        "interval": "monthly",
        "amount_cents": 1000,
        "amount_currency": "EUR",
        "pay_in_advance": False,
        "tax_codes": ["vat"],
        "metadata": {"tier": "gold"},
        "minimum_commitment": {"amount_cents": 500, "tax_codes": ["vat"]},
        "usage_thresholds": [{"amount_cents": 100_000, "recurring": False}],
        "charges": [
            charge_on(metric_id, **AMOUNT, filters=filters),
            charge_on(metric_id, "package", **AMOUNT, package_size=5, free_units=1),
            charge_on(metric_id, "graduated", graduated_ranges=price_ranges((0, None, "1", "0"))),
            charge_on(metric_id, "percentage", rate="1", free_units_per_events=1, pay_in_advance=True),
        ],
        "fixed_charges": [
            {"add_on_code": "seat", "code": "seats", "charge_model": "standard", "units": 3, "properties": AMOUNT}
        ],
    }


def event(transaction_id: str) -> dict[str, Any]:
    used = {"value": "5", "cloud": "aws"}
    return {"transaction_id": transaction_id, "code": "gb", "external_subscription_id": "sub", "properties": used}


def valid_bodies(world: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Valid bodies by input class."""
    whole = plan("other", world["metric"])
    return {
        "AddOnInput": {"name": "A", "code": "a", "amount_cents": 100, "amount_currency": "EUR", "tax_codes": ["vat"]},
        "BillableMetricInput": {"name": "M", "code": "m", "aggregation_type": "sum_agg", "field_name": "u"},
        "ExpressionInput": {"expression": "event.properties.a + 1", "event": {"properties": {"a": "1"}}},
        "CouponInput": {
            "name": "C",
            "code": "c",
            "coupon_type": "fixed_amount",
            "amount_cents": 100,
            "amount_currency": "EUR",
            "frequency": "once",
            "expiration": "no_expiration",
            "applies_to": {"plan_codes": ["basic"]},
        },
        "AlertsRequest": {
            "alert": {
                "alert_type": "billable_metric_current_usage_units",
                "code": "units",
                "billable_metric_code": "gb",
                "thresholds": [{"value": 100, "code": "warn"}, {"value": 50, "recurring": True}],
            }
        },
        "ApiKeyInput": {"name": "renamed", "permissions": {"customer": ["read"], "event": ["read", "write"]}},
        "RotationInput": {"name": "successor", "expires_at": "2100-01-01T00:00:00Z"},
        "AlertUpdate": {"code": "watch", "name": "Usage", "thresholds": [{"value": 200}]},
        "AppliedCouponInput": {"external_customer_id": "acme", "coupon_code": "ten"},
        "CreditNoteInput": {
            "invoice_id": world["invoice_id"],
            "credit_amount_cents": 10,
            "items": [{"fee_id": world["fee_id"], "amount_cents": 10}],
        },
        "CreditNoteEstimateInput": {
            "invoice_id": world["invoice_id"],
            "items": [{"fee_id": world["fee_id"], "amount_cents": 10}],
        },
        "CustomerInput": {"external_id": "acme", "metadata": [{"key": "k", "value": "v"}]},
        "SpendLimitInput": {
            "code": "units",
            "units": "1000000000",
            "billable_metric_code": "gb",
            "group": {"cloud": ["aws"]},
        },
        "CheckInput": {"external_subscription_id": "sub", "code": "gb", "properties": {"value": 2, "cloud": "aws"}},
        "ExchangeRateInput": {"currency": "GBP", "rate": "1.25"},
        "HoldInput": {"external_subscription_id": "sub", "code": "gb", "units": "2"},
        "CaptureInput": {"transaction_id": "captured", "timestamp": 1},
        "EntitlementsInput": {"entitlements": {"seats": {"most": 7, "level": "gold"}}},
        "EventInput": event("t2"),
        "EventsInput": {"events": [event("t3")]},
        "CloudEventsInput": {
            "specversion": "1.0",
            "id": "t4",
            "source": "/meter",
            "type": "gb",
            "subject": "sub",
            "data": {"value": "5", "cloud": "aws"},
        },
        "FeatureInput": {
            "code": "storage",
            "name": "Storage",
            "privileges": [
                {"code": "gb", "name": "Gigabytes", "value_type": "integer"},
                {"code": "tier", "value_type": "select", "config": {"select_options": ["hot", "cold"]}},
            ],
        },
        "OneOffInput": {"external_customer_id": "acme", "fees": [{"add_on_code": "seat", "units": 2}]},
        "PreviewInput": {"customer": {"external_id": "acme"}, "plan_code": "basic", "billing_time": "anniversary"},
        "CourseInput": {"customer": {"external_id": "acme"}, "plan_code": "basic", "billing_time": "anniversary"},
        "PlanInput": whole,
        "PlanUpdate": whole,
        "ChargeInput": {**whole["charges"][0], "code": "new"},
        "ChargeUpdate": {**whole["charges"][0], "code": "new"},
        "ChargeFilterInput": whole["charges"][0]["filters"][0],
        "ChargeFilterUpdate": whole["charges"][0]["filters"][0],
        "FixedChargeInput": whole["fixed_charges"][0],
        "FixedChargeUpdate": whole["fixed_charges"][0],
        "SubscriptionInput": {"external_customer_id": "acme", "plan_code": "basic", "external_id": "new"},
        "TaxInput": {"name": "T", "code": "t", "rate": "10"},
        "WebhookEndpointInput": {"webhook_url": "https://other.example"},
        "PaymentInput": {"invoice_id": world["invoice_id"], "amount_cents": 5, "reference": "bank"},
        "PaymentRequestInput": {
            "external_customer_id": "acme",
            "email": "books@acme.example",
            "svc_invoice_ids": [world["invoice_id"]],
        },
        "DunningCampaignInput": {
            "name": "Late",
            "code": "late",
            "bcc_emails": ["books@seller.example"],
            "days_between_attempts": 3,
            "max_attempts": 2,
            "thresholds": [{"amount_cents": 100_000_000, "currency": "EUR"}],
        },
        "WalletInput": {"external_customer_id": "acme", "rate_amount": "2", "currency": "EUR", "paid_credits": "10"},
        "WalletUpdate": {"priority": 7, "applies_to": {"fee_types": ["charge"], "billable_metric_codes": ["gb"]}},
        "WalletTransactionInput": {"wallet_id": world["wallet_id"], "paid_credits": "10", "granted_credits": "1"},
        "MetadataInput": {"metadata": {"tier": "gold"}},
        "ResendInput": {"to": ["anna@acme.example"], "cc": ["bob@acme.example"], "bcc": ["books@seller.example"]},
    }


def path_of(endpoint: Endpoint, world: Mapping[str, str], odd: Mapping[str, str]) -> str:
    resource = endpoint.path.split("/")[1]

    def filled(match: re.Match[str]) -> str:
        name = match.group(1)
        return odd.get(name) or world.get(name) or world.get(resource) or "00000000-0000-0000-0000-000000000000"

    return "/api/v1" + re.sub(r"{(\w+)}", filled, endpoint.path)


VERBS = [
    (verb, endpoint)
    for endpoint in endpoints()
    for verb in (("PUT", "PATCH") if endpoint.method == "PUT" and not endpoint.one_verb else (endpoint.method,))
]


def invoiced(box: Scenario, known: dict[str, str]) -> None:
    """Add the results of some months: a paid and credited invoice, a draft, and a fee without an invoice."""
    box.customer("leaver")
    for customer in ("acme", "waiting", "patient"):
        if customer != "acme":
            box.customer(customer, billing_configuration={"invoice_grace_period": 3})
        box.subscribe(external_id=f"of-{customer}", customer=customer)
    single = charge_on(known["metric"], amount="1", code="single", pay_in_advance=True, invoiceable=False)
    box.post("/plans/basic/charges", charge=single)
    box.post("/events", event=event("t9"))
    box.travel_to("2024-04-01T02:00:00Z")
    drafts = box.get("/invoices?status=draft")["invoices"]
    known["draft_id"], known["other_draft_id"] = drafts[0]["svc_id"], drafts[1]["svc_id"]
    note = valid_bodies(known)["CreditNoteInput"]
    known["credit_note_id"] = box.post("/credit_notes", credit_note=note)["credit_note"]["svc_id"]
    box.put(f"/credit_notes/{known['credit_note_id']}", credit_note={"metadata": {"tier": "gold"}})
    payment = valid_bodies(known)["PaymentInput"]
    known["payment_id"] = box.post("/payments", payment=payment)["payment"]["svc_id"]
    request = valid_bodies(known)["PaymentRequestInput"]
    known["payment_request_id"] = box.post("/payment_requests", payment_request=request)["payment_request"]["svc_id"]
    known["payment_receipt_id"] = box.get("/payment_receipts")["payment_receipts"][0]["svc_id"]
    free = [fee for fee in box.get("/fees")["fees"] if fee["svc_invoice_id"] is None]
    known["free_fee_id"] = free[0]["svc_id"]
    # The one before has expired.
    known["hold_id"], known["other_hold_id"] = _held(box), _held(box)


def _held(box: Scenario) -> str:
    hold = {"external_subscription_id": "sub", "code": "gb", "units": 1, "expires_in": 86_400}
    return str(box.post("/holds", hold=hold)["hold"]["svc_id"])


# Requests for which the general rules of this module are not enough.
PATHS = {
    "/customers/{external_id}/anonymize": "/customers/leaver/anonymize",
    "/holds/{hold_id}/release": "/holds/{other_hold_id}/release",
    "GET /security_logs": "/security_logs?to_date=2100-01-01",
    "/subscriptions/{external_id}/alerts/{code}": "/subscriptions/sub/alerts/watch",
    "/customers/{external_customer_id}/current_usage": "/customers/acme/current_usage?external_subscription_id=sub",
    "/customers/{external_customer_id}/projected_usage": "/customers/acme/projected_usage?external_subscription_id=sub",
    "/customers/{external_customer_id}/past_usage": "/customers/acme/past_usage?external_subscription_id=sub",
    "/invoices/{invoice_id}/finalize": "/invoices/{draft_id}/finalize",
    "/invoices/{invoice_id}/refresh": "/invoices/{draft_id}/refresh",
    "DELETE /invoices/{invoice_id}": "/invoices/{other_draft_id}",
    "/wallet_transactions/{wallet_transaction_id}/fundings": "/wallet_transactions/{void_id}/fundings",
    "DELETE /refused_events/{refused_event_id}": "/refused_events/{unreadable_id}",
    "PUT /fees/{fee_id}": "/fees/{free_fee_id}",
    "PATCH /fees/{fee_id}": "/fees/{free_fee_id}",
    "DELETE /fees/{fee_id}": "/fees/{free_fee_id}",
}
FILTER = {"filter": {"values": {"cloud": ["gcp"]}, "properties": {"amount": "2"}}}
BODIES: dict[str, Any] = {
    "POST /customers/{external_customer_id}/wallets/{wallet_code}/alerts": {
        "alert": {"alert_type": "wallet_credits_balance", "code": "credits", "thresholds": [{"value": "2.5"}]}
    },
    "BillingEntityInput": {"name": "Other", "code": "other"},
    "OrganizationInput": {"name": "Us"},
    "CreditNoteUpdate": {"metadata": {"tier": "silver"}},
    "FeeInput": {"payment_status": "succeeded"},
    "InvoiceUpdate": {"metadata": [{"key": "po", "value": "7"}]},
    "InvoiceVoid": {},
    "PaymentRetry": {},
    "LifetimeUsageInput": {"external_historical_usage_amount_cents": 7},
    "ScheduledPricesUpdate": {"effective_on": "2041-01-01"},
    "SubscriptionUpdate": {"name": "Seats"},
    "POST /plans/{code}/charges/{charge_code}/filters": FILTER,
    "POST /subscriptions/{external_id}/charges/{charge_code}/filters": FILTER,
    "PUT /webhook_endpoints/{id}": {"webhook_endpoint": {"name": "Ours"}},
    "PATCH /webhook_endpoints/{id}": {"webhook_endpoint": {"name": "Theirs"}},
    "POST /plans/{code}/fixed_charges": {
        "fixed_charge": {
            "add_on_code": "seat",
            "code": "more",
            "charge_model": "standard",
            "units": 1,
            "properties": {"amount": "1"},
        }
    },
}
# Requests that cannot succeed in this world: three need a payment provider, one a failed invoice.
NEVER = {
    ("POST", "/customers/{external_id}/checkout_url"),
    ("POST", "/invoices/{invoice_id}/payment_url"),
    ("POST", "/invoices/{invoice_id}/retry"),
    ("POST", "/credit_notes/{credit_note_id}/retry_refund"),
    ("POST", "/payments/{payment_id}/refund"),
    ("POST", "/wallet_transactions/{wallet_transaction_id}/payment_url"),
}
# Requests that delete records come last, those of the outermost records at the very end.
ENDS = ("/void", "/finalize", "/lose_dispute")


def in_order(row: tuple[str, Endpoint]) -> tuple[int, int, bool]:
    verb, endpoint = row
    ending = verb == "DELETE" or endpoint.path.endswith(ENDS)
    return (
        2 if ending else 0 if verb == "GET" else 1,
        -endpoint.path.count("/"),
        endpoint.path.startswith(("/customers", "/plans")),
    )


def request_of(verb: str, endpoint: Endpoint, known: dict[str, str]) -> tuple[str, Any]:
    """An address and a body with which the operation succeeds."""
    parameters = PATHS.get(f"{verb} {endpoint.path}") or PATHS.get(endpoint.path)
    path = "/api/v1" + parameters.format(**known) if parameters else path_of(endpoint, known, {})
    if endpoint.body is None:
        return path, None
    if f"{verb} {endpoint.path}" in BODIES:
        return path, BODIES[f"{verb} {endpoint.path}"]
    fields = {**BODIES, **valid_bodies(known)}.get(endpoint.body.__name__, {})
    if verb in ("PUT", "PATCH") and endpoint.body.__name__ not in BODIES:
        # The code stays: other requests use it.
        fields = {name: value for name, value in fields.items() if name != "code"}
    if endpoint.body.__name__ == "EventInput":
        fields = {**fields, "transaction_id": endpoint.path}
    return path, fields if endpoint.root is None else {endpoint.root: fields}
