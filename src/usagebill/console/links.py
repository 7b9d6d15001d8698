"""Where a field links to: one table for every page, so that everything links to everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

# The name of a field -> the folder of the page about the record that it names.
_PAGES: Mapping[str, str] = {
    "add_on_code": "add-ons",
    "activity_id": "activity",
    "billable_metric_code": "metrics",
    "billing_entity_code": "entities",
    "coupon_code": "coupons",
    "external_customer_id": "customers",
    "external_subscription_id": "subscriptions",
    "invoice_id": "invoices",
    "next_plan_code": "plans",
    "payment_provider_code": "payment-connections",
    "plan_code": "plans",
    "previous_plan_code": "plans",
    "svc_credit_note_id": "credit-notes",
    "svc_invoice_id": "invoices",
    "svc_payment_id": "payments",
    "svc_wallet_id": "wallets",
    "svc_webhook_endpoint_id": "endpoints",
    "tax_code": "taxes",
    "transaction_id": "events",
}


def address_of(root: str, field: str, value: object) -> str | None:
    """The address of the page about what a field names; None if there is none."""
    page = _PAGES.get(field)
    return f"{root}/{page}/{quote(str(value), safe='')}" if page and value not in (None, "") else None


# The kind of record that an activity is about -> the folder of its page, and the field of its object that names it; ""
# for the id of the record.
_ACTIVITIES: Mapping[str, tuple[str, str]] = {
    "BillableMetric": ("metrics", "code"),
    "BillingEntity": ("entities", "code"),
    "Coupon": ("coupons", "code"),
    "CreditNote": ("credit-notes", ""),
    "Customer": ("customers", "external_id"),
    "Feature": ("features", "code"),
    "Invoice": ("invoices", ""),
    "PaymentReceipt": ("receipts", ""),
    "PaymentRequest": ("payment-requests", ""),
    "Plan": ("plans", "code"),
    "Subscription": ("subscriptions", "external_id"),
    "Wallet": ("wallets", ""),
}


def subject_of(root: str, activity: Mapping[str, Any]) -> tuple[str, str] | None:
    """The address and the name of the record that an activity is about; None if it has no page."""
    folder, field = _ACTIVITIES.get(activity["resource_type"], ("", ""))
    shown = activity["activity_object"] or {}
    key = shown.get(field) if field else activity["resource_id"]
    if not folder or not key:
        return None
    name = shown.get("number") or next(iter(shown.get("invoice_numbers") or ()), None) or shown.get("name")
    return f"{root}/{folder}/{quote(str(key), safe='')}", str(
        name or shown.get("code") or shown.get("external_id") or "Open"
    )
