"""API keys: who may do what. The value of a key is shown once; only its hash is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

RESOURCES: tuple[str, ...] = (
    "activity_log",
    "add_on",
    "alert",
    "analytic",
    "api_key",
    "api_log",
    "applied_coupon",
    "billable_metric",
    "billing_entity",
    "coupon",
    "credit_note",
    "customer",
    "customer_usage",
    "event",
    "feature",
    "fee",
    "invoice",
    "invoice_custom_section",
    "lifetime_usage",
    "order",
    "order_form",
    "organization",
    "payment",
    "payment_method",
    "payment_receipt",
    "payment_request",
    "plan",
    "plan_rate_card",
    "product",
    "product_category",
    "quote",
    "rate_card",
    "security_log",
    "subscription",
    "tax",
    "wallet",
    "wallet_transaction",
    "webhook_endpoint",
    "webhook_jwt_public_key",
)
MODES = ("read", "write")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """`value_hash` is the SHA-256 of the key in hexadecimal; `value_ending` its last three characters, for lists."""

    id: str
    organization_id: str
    name: str | None
    value_hash: str = field(repr=False)
    value_ending: str
    permissions: Mapping[str, tuple[str, ...]]
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    # The key that this one replaces.
    rotated_from_id: str | None = None


def all_permissions() -> dict[str, tuple[str, ...]]:
    """Read and write on every resource, the default of a new key."""
    return dict.fromkeys(RESOURCES, MODES)


def is_valid(key: ApiKey, now: datetime) -> bool:
    """Whether the key is valid at `now`; `expires_at` itself is excluded."""
    return key.expires_at is None or key.expires_at > now


def is_allowed(key: ApiKey, resource: str, mode: str) -> bool:
    """Whether the key may `read` or `write` the resource; resources missing from its map are denied."""
    return mode in key.permissions.get(resource, ())


def surplus(permissions: Mapping[str, tuple[str, ...]], held: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The permissions in `permissions` beyond those `held`, as `resource:mode`."""
    return sorted(
        f"{resource}:{mode}"
        for resource, modes in permissions.items()
        for mode in modes
        if mode not in held.get(resource, ())
    )


def permission_errors(permissions: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Errors in a permission map, as codes; empty if there are none."""
    if not permissions:
        return ["value_is_mandatory"]
    unknown = sorted(set(permissions) - set(RESOURCES))
    if unknown:
        return [f"contains forbidden keys: {unknown}"]
    if any(mode not in MODES for modes in permissions.values() for mode in modes):
        return ["forbidden_values"]
    return []
