"""Subscriptions: a customer on a plan, from its first day to its last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

__all__ = ["Subscription"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """`subscription_at` is the anchor of anniversary periods, `started_at` the instant from which it is billed.

    `status`: pending, incomplete, active, terminated or canceled. Empty termination options mean credit and generate.
    `fixed_charge_units` are this subscription's own numbers of units, by fixed charge id.
    """

    id: str
    organization_id: str
    external_id: str
    customer_id: str
    plan_id: str
    status: str
    billing_time: str
    subscription_at: datetime
    created_at: datetime
    updated_at: datetime
    name: str | None = None
    started_at: datetime | None = None
    activated_at: datetime | None = None
    ending_at: datetime | None = None
    terminated_at: datetime | None = None
    canceled_at: datetime | None = None
    trial_ended_at: datetime | None = None
    cancellation_reason: str | None = None
    previous_subscription_id: str | None = None
    billing_entity_id: str | None = None
    on_termination_credit_note: str | None = None
    on_termination_invoice: str = "generate"
    consolidate_invoice: bool = True
    progressive_billing_disabled: bool = False
    purchase_order_number: str | None = None
    payment_method_type: str = "provider"
    payment_method_id: str | None = None
    skip_invoice_custom_sections: bool = False
    invoice_custom_section_ids: tuple[str, ...] = ()
    fixed_charge_units: Mapping[str, Decimal] = field(default_factory=dict)
