"""An example body for every operation that takes one.

They form one sequence: sent in this order, each is accepted. Their ids stand for those in earlier answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Stand for the ids of records that earlier answers returned.
IDS: Mapping[str, str] = {
    name: f"1a901a90-1a90-4a90-8a90-1a901a901a{number:02}"
    for number, name in enumerate(
        ("billable_metric", "invoice", "fee", "wallet", "draft", "free_fee", "credit_note", "payment_receipt"), 1
    )
}
_AMOUNT = {"amount": "0.25"}
_EVENT = {
    "transaction_id": "2024-03-05-1",
    "code": "storage",
    "external_subscription_id": "acme-1",
    "timestamp": 1709632800,
    "properties": {"gb": 46.5, "region": "eu"},
}
_MAIL = {"to": ["books@acme.example"], "cc": ["anna@acme.example"]}
_METADATA = {"metadata": {"team": "growth"}}
_CREDITED = [{"fee_id": IDS["fee"], "amount_cents": 1000}]
_RANGES = [
    {"from_value": 0, "to_value": 10, "per_unit_amount": "2", "flat_amount": "0"},
    {"from_value": 11, "to_value": None, "per_unit_amount": "0.5", "flat_amount": "5"},
]
_FILTER = {"values": {"region": ["eu"]}, "invoice_display_name": "Europe", "properties": {"amount": "0.20"}}

# METHOD path -> body.
EXAMPLES: Mapping[str, Any] = {
    "PUT /organizations": {"organization": {"legal_name": "Seller NV", "timezone": "Europe/Brussels"}},
    "POST /billing_entities": {"billing_entity": {"name": "Seller Inc.", "code": "us", "default_currency": "USD"}},
    "PUT /billing_entities/{code}": {
        "billing_entity": {
            "name": "Seller NV",
            "email": "billing@seller.example",
            "email_settings": ["invoice.finalized", "credit_note.created", "payment_receipt.created"],
            "billing_configuration": {"document_locale": "en"},
        }
    },
    "POST /taxes": {"tax": {"name": "VAT", "code": "vat", "rate": "21"}},
    "PUT /taxes/{code}": {"tax": {"name": "VAT of Belgium"}},
    "POST /add_ons": {
        "add_on": {"name": "Onboarding", "code": "setup", "amount_cents": 5000, "amount_currency": "EUR"}
    },
    "PUT /add_ons/{code}": {"add_on": {"amount_cents": 6000}},
    "POST /billable_metrics": {
        "billable_metric": {
            "name": "Storage",
            "code": "storage",
            "aggregation_type": "sum_agg",
            "field_name": "gb",
            "filters": [{"key": "region", "values": ["us", "eu"]}],
        }
    },
    "PUT /billable_metrics/{code}": {"billable_metric": {"name": "Storage in gigabytes"}},
    "POST /billable_metrics/evaluate_expression": {
        "expression": "event.properties.gb * event.properties.hours",
        "event": {"code": "storage", "properties": {"gb": "2", "hours": "3"}},
    },
    "POST /plans": {
        "plan": {
            "name": "Pro",
            "code": "pro",
            "interval": "monthly",
            "amount_cents": 4900,
            "amount_currency": "EUR",
            "pay_in_advance": False,
            "tax_codes": ["vat"],
            "charges": [
                {
                    "billable_metric_code": "storage",
                    "code": "storage",
                    "charge_model": "standard",
                    "properties": _AMOUNT,
                }
            ],
        }
    },
    "PUT /plans/{code}": {"plan": {"name": "Professional", "amount_cents": 5900}},
    "POST /plans/{code}/preview_change": {"plan": {"amount_cents": 5900}},
    "POST /plans/{code}/metadata": _METADATA,
    "PUT /plans/{code}/metadata": _METADATA,
    "POST /plans/{code}/charges": {
        "charge": {
            "billable_metric_code": "storage",
            "code": "tiers",
            "charge_model": "graduated",
            "properties": {"graduated_ranges": _RANGES},
        }
    },
    "PUT /plans/{code}/charges/{charge_code}": {
        "charge": {"charge_model": "standard", "properties": {"amount": "0.30"}, "invoice_display_name": "Storage"}
    },
    "POST /plans/{code}/charges/{charge_code}/filters": {"filter": _FILTER},
    "PUT /plans/{code}/charges/{charge_code}/filters/{filter_id}": {"filter": {"properties": {"amount": "0.22"}}},
    "POST /plans/{code}/fixed_charges": {
        "fixed_charge": {
            "add_on_code": "setup",
            "code": "support",
            "charge_model": "standard",
            "units": "1",
            "properties": {"amount": "20"},
        }
    },
    "PUT /plans/{code}/fixed_charges/{fixed_charge_code}": {
        "fixed_charge": {"charge_model": "standard", "units": "2", "properties": {"amount": "20"}}
    },
    "PUT /plans/{code}/scheduled_prices/{version}": {"scheduled_prices": {"effective_on": "2030-01-01"}},
    "POST /features": {
        "feature": {
            "code": "seats",
            "name": "Seats",
            "privileges": [
                {"code": "most", "value_type": "integer"},
                {"code": "level", "value_type": "select", "config": {"select_options": ["basic", "gold"]}},
            ],
        }
    },
    "PUT /features/{code}": {"feature": {"name": "Seats of a team"}},
    "POST /plans/{code}/entitlements": {"entitlements": {"seats": {"most": 5, "level": "basic"}}},
    "PATCH /plans/{code}/entitlements": {"entitlements": {"seats": {"most": 10}}},
    "POST /coupons": {
        "coupon": {
            "name": "Welcome",
            "code": "welcome",
            "coupon_type": "percentage",
            "percentage_rate": "10",
            "frequency": "once",
            "expiration": "no_expiration",
        }
    },
    "PUT /coupons/{code}": {"coupon": {"name": "Welcome to usagebill"}},
    "POST /dunning_campaigns": {
        "dunning_campaign": {
            "name": "Reminders",
            "code": "reminders",
            "days_between_attempts": 7,
            "max_attempts": 3,
            "thresholds": [{"amount_cents": 100_000_000, "currency": "EUR"}],
        }
    },
    "PUT /dunning_campaigns/{code}": {"dunning_campaign": {"max_attempts": 4}},
    "POST /webhook_endpoints": {
        "webhook_endpoint": {"webhook_url": "https://hooks.acme.example/usagebill", "signature_algo": "hmac"}
    },
    "PUT /webhook_endpoints/{id}": {"webhook_endpoint": {"event_types": ["invoice.created"]}},
    "POST /webhooks/resend_failed": {"event_types": ["invoice.created"]},
    "POST /api_keys": {
        "api_key": {"name": "Ingestion", "permissions": {"event": ["write"], "customer_usage": ["read"]}}
    },
    "PUT /api_keys/{api_key_id}": {"api_key": {"name": "Events"}},
    "POST /api_keys/{api_key_id}/rotate": {"name": "Events, from July on", "expires_at": "2100-01-01T00:00:00Z"},
    "POST /webhooks/rotate_key": {"old_key_expires_at": "2100-01-01T00:00:00Z"},
    "POST /webhook_endpoints/{id}/rotate_secret": {"old_secret_expires_at": "2100-01-01T00:00:00Z"},
    "POST /customers": {
        "customer": {
            "external_id": "acme",
            "name": "Acme",
            "email": "billing@acme.example",
            "currency": "EUR",
            "country": "BE",
            "timezone": "Europe/Brussels",
            "net_payment_term": 30,
        }
    },
    "POST /customers/{external_id}/anonymize": {"event_properties": ["user_email"]},
    "POST /applied_coupons": {"applied_coupon": {"external_customer_id": "acme", "coupon_code": "welcome"}},
    "POST /subscriptions": {
        "subscription": {"external_customer_id": "acme", "plan_code": "pro", "external_id": "acme-1"}
    },
    "PUT /subscriptions/{external_id}": {"subscription": {"name": "Production"}},
    "PATCH /subscriptions/{external_id}/entitlements": {"entitlements": {"seats": {"most": 12}}},
    "POST /subscriptions/{external_id}/alerts": {
        "alert": {
            "alert_type": "current_usage_amount",
            "code": "watch",
            "thresholds": [{"value": "10000", "code": "warn"}, {"value": "20000", "code": "stop"}],
        }
    },
    "PUT /subscriptions/{external_id}/alerts/{code}": {"alert": {"thresholds": [{"value": "15000"}]}},
    "POST /subscriptions/{external_id}/spend_limits": {
        "spend_limit": {"code": "monthly", "amount_cents": 5000, "interval": "month", "grace_percent": "10"}
    },
    "PUT /subscriptions/{external_id}/spend_limits/{spend_limit_code}": {"spend_limit": {"amount_cents": 8000}},
    "POST /customers/{external_id}/spend_limits": {"spend_limit": {"code": "budget", "amount_cents": 10000}},
    "PUT /customers/{external_id}/spend_limits/{spend_limit_code}": {"spend_limit": {"amount_cents": 20000}},
    "POST /plans/{code}/spend_limits": {
        "spend_limit": {"code": "free", "units": "1000", "billable_metric_code": "storage", "interval": "day"}
    },
    "PUT /plans/{code}/spend_limits/{spend_limit_code}": {"spend_limit": {"units": "2000"}},
    "POST /exchange_rates": {"exchange_rate": {"currency": "GBP", "rate": "1.1712", "valid_from": "2024-03-01"}},
    "POST /holds": {
        "hold": {"external_subscription_id": "acme-1", "code": "storage", "properties": {"gb": 2}, "expires_in": 60}
    },
    "POST /holds/{hold_id}/capture": {"event": {"transaction_id": "call-1", "properties": {"gb": 1.5}}},
    "POST /checks": {"check": {"external_subscription_id": "acme-1", "code": "storage", "properties": {"gb": 1.5}}},
    "PUT /subscriptions/{external_id}/lifetime_usage": {
        "lifetime_usage": {"external_historical_usage_amount_cents": 12000}
    },
    "PUT /subscriptions/{external_id}/charges/{charge_code}": {
        "charge": {"charge_model": "standard", "properties": {"amount": "0.24"}}
    },
    "POST /subscriptions/{external_id}/charges/{charge_code}/filters": {
        "filter": {**_FILTER, "values": {"region": ["us"]}}
    },
    "PUT /subscriptions/{external_id}/charges/{charge_code}/filters/{filter_id}": {
        "filter": {"properties": {"amount": "0.19"}}
    },
    "PUT /subscriptions/{external_id}/fixed_charges/{fixed_charge_code}": {
        "fixed_charge": {"charge_model": "standard", "units": "3", "properties": {"amount": "20"}}
    },
    "POST /events": {"event": _EVENT},
    "POST /events/cloudevents": [
        {
            "specversion": "1.0",
            "id": "2024-03-05-3",
            "source": "/meter/eu",
            "type": "storage",
            "subject": "acme-1",
            "time": "2024-03-05T10:00:00Z",
            "data": {"gb": 46.5, "region": "eu"},
        }
    ],
    "POST /events/batch": {"events": [{**_EVENT, "transaction_id": "2024-03-05-2"}]},
    "POST /events/estimate_fees": {
        "event": {"code": "storage", "external_subscription_id": "acme-2", "properties": {"gb": 10, "region": "eu"}}
    },
    "POST /events/estimate_instant_fees": {
        "event": {"code": "storage", "external_subscription_id": "acme-2", "properties": {"gb": 10, "region": "eu"}}
    },
    "POST /events/batch_estimate_instant_fees": {"events": [{**_EVENT, "external_subscription_id": "acme-2"}]},
    "POST /wallets": {
        "wallet": {
            "external_customer_id": "acme",
            "name": "Prepaid",
            "rate_amount": "1",
            "currency": "EUR",
            "granted_credits": "10",
        }
    },
    "PUT /wallets/{wallet_id}": {"wallet": {"priority": 1}},
    "POST /wallets/{wallet_id}/metadata": _METADATA,
    "PUT /wallets/{wallet_id}/metadata": _METADATA,
    "POST /wallet_transactions": {
        "wallet_transaction": {"wallet_id": IDS["wallet"], "paid_credits": "20", "granted_credits": "2"}
    },
    "POST /customers/{external_id}/wallets": {"wallet": {"code": "second", "rate_amount": "1", "currency": "EUR"}},
    "PUT /customers/{external_id}/wallets/{code}": {"wallet": {"name": "Second"}},
    "POST /customers/{external_id}/wallets/{code}/metadata": _METADATA,
    "PUT /customers/{external_id}/wallets/{code}/metadata": _METADATA,
    "POST /customers/{external_customer_id}/wallets/{wallet_code}/alerts": {
        "alert": {"alert_type": "wallet_credits_balance", "code": "low", "thresholds": [{"value": "2"}]}
    },
    "PUT /customers/{external_customer_id}/wallets/{wallet_code}/alerts/{code}": {
        "alert": {"thresholds": [{"value": "3"}]}
    },
    "POST /invoices/preview": {
        "customer": {"external_id": "acme"},
        "subscriptions": {"external_ids": ["acme-1"]},
    },
    "POST /invoices/preview/all": {
        "customer": {"external_id": "acme"},
        "subscriptions": {"external_ids": ["acme-1"]},
        "until": "2027-01-01",
    },
    "POST /invoices/preview/explain": {
        "customer": {"external_id": "acme"},
        "subscriptions": {"external_ids": ["acme-1"]},
    },
    "POST /invoices": {
        "invoice": {
            "external_customer_id": "acme",
            "currency": "EUR",
            "fees": [{"add_on_code": "setup", "units": "2", "description": "Two teams"}],
        }
    },
    "PUT /invoices/{invoice_id}": {"invoice": {"metadata": [{"key": "project", "value": "Atlas"}]}},
    "PUT /fees/{fee_id}": {"fee": {"payment_status": "succeeded"}},
    "POST /invoices/{invoice_id}/resend_email": _MAIL,
    "POST /invoices/{invoice_id}/retry_payment": {"payment_method": {"payment_method_type": "provider"}},
    "POST /credit_notes/estimate": {"credit_note": {"invoice_id": IDS["invoice"], "items": _CREDITED}},
    "POST /credit_notes": {
        "credit_note": {
            "invoice_id": IDS["invoice"],
            "reason": "order_change",
            "credit_amount_cents": 1000,
            "items": _CREDITED,
        }
    },
    "PUT /credit_notes/{credit_note_id}": {"credit_note": _METADATA},
    "POST /credit_notes/{credit_note_id}/metadata": _METADATA,
    "PUT /credit_notes/{credit_note_id}/metadata": _METADATA,
    "POST /credit_notes/{credit_note_id}/resend_email": _MAIL,
    "POST /payments": {"payment": {"invoice_id": IDS["invoice"], "amount_cents": 500, "reference": "bank transfer 17"}},
    "POST /payments/{payment_id}/refund": {"amount_cents": 500},
    "POST /payment_receipts/{payment_receipt_id}/resend_email": _MAIL,
    "POST /payment_requests": {
        "payment_request": {
            "external_customer_id": "acme",
            "email": "books@acme.example",
            "svc_invoice_ids": [IDS["invoice"]],
        }
    },
    "POST /invoices/{invoice_id}/void": {},
    "DELETE /plans/{code}/charges/{charge_code}/filters/{filter_id}": {"filter": {"cascade_updates": True}},
    "DELETE /plans/{code}/charges/{charge_code}": {"charge": {"cascade_updates": True}},
    "DELETE /plans/{code}/fixed_charges/{fixed_charge_code}": {"fixed_charge": {"cascade_updates": True}},
}
