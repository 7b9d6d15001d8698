"""The required fields of requests, where the fields of their classes do not say it (`described(required=...)`)."""

from __future__ import annotations

from collections.abc import Mapping

# By operation, under its name in the library: those whose class serves others that require other fields.
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "billing_entities.create": ("name", "code"),
    "events.create": ("transaction_id", "code"),
    "events.estimate_fees": ("code", "external_subscription_id"),
    "events.estimate_instant_fees": ("code", "external_subscription_id"),
    "events.create_batch": ("events",),
    "events.estimate_batch_instant_fees": ("events",),
    "wallets.create": ("external_customer_id", "rate_amount"),
    "wallets.create_of_customer": ("rate_amount",),
}
# Classes with charges that always exist already and are named by `id`.
BY_ID = frozenset({"PlanOverridesInput"})
