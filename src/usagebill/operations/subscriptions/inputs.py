"""Inputs of operations on subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated

from usagebill.core import limits
from usagebill.core.instants import parse_instant
from usagebill.core.subscriptions import SubscriptionStatus
from usagebill.operations.plans import PlanOverridesInput, UsageThresholdInput
from usagebill.requests.inputs import ABSENT, Input, Maybe, described


@Input
class CustomSectionChoice:
    """The custom sections of the subscription's invoices; with `skip` none at all."""

    skip_invoice_custom_sections: Maybe[bool] = ABSENT
    invoice_custom_section_codes: Maybe[tuple[str, ...]] = ABSENT


@Input
class PhaseInput:
    """A part of a contract with a plan of its own; the first is the subscription as it is now."""

    until: Maybe[object] = described(
        "The day, in the customer's time zone, from which the next phase counts: it takes over at the first period that"
        " begins on that day or later. The last phase has none.",
        example="2027-01-01",
    )
    plan_code: Maybe[str] = described("The plan, by code.", default="the plan of the subscription")
    plan_overrides: Maybe[PlanOverridesInput] = described("What this phase changes about its plan.")


@Input
class SubscriptionInput:
    """A subscription to create, or to change to another plan. Instants are ISO 8601 texts (or aware datetimes)."""

    external_customer_id: Maybe[str] = described(required="create")
    plan_code: Maybe[str] = described(required="create")
    external_id: Maybe[str] = described(
        "Your own id of the subscription, which events refer to. Another plan for it is an upgrade or a downgrade.",
        example="acme-1",
        required="create",
    )
    name: Maybe[str] = described("The name on invoices.", default="the name of the plan")
    billing_time: Maybe[str] = ABSENT
    subscription_at: Maybe[object] = ABSENT
    bill_from: Maybe[str] = ABSENT
    ending_at: Maybe[object] = ABSENT
    billing_entity_code: Maybe[str] = ABSENT
    plan_overrides: Maybe[PlanOverridesInput] = ABSENT
    usage_thresholds: Maybe[tuple[UsageThresholdInput, ...]] = ABSENT
    payment_method: Maybe[Mapping[str, object]] = ABSENT
    activation_rules: Maybe[object] = ABSENT
    consolidate_invoice: Maybe[bool] = ABSENT
    progressive_billing_disabled: Maybe[bool] = ABSENT
    purchase_order_number: Maybe[str] = ABSENT
    invoice_custom_section: Maybe[CustomSectionChoice] = ABSENT
    phases: Maybe[tuple[PhaseInput, ...]] = described(
        "Plans of a new subscription that follow one another on dates agreed on now, in order; the first is its own.",
        most=limits.MOST_PHASES,
    )


@Input
class AuthorizationInput:
    """An amount for Stripe to authorize on the customer's payment method: cents of a currency, above zero."""

    amount_cents: Maybe[Annotated[int, limits.AUTHORIZED_AMOUNT]] = ABSENT
    amount_currency: Maybe[str] = ABSENT


@Input
class AuthorizationOptions:
    """`authorization` is the amount to authorize before the subscription is created."""

    authorization: Maybe[AuthorizationInput] = described(
        "An amount that Stripe must authorize on the customer's payment method first; it is not charged."
    )


@Input
class SubscriptionUpdate:
    """The fields of a subscription that can change."""

    name: Maybe[str] = ABSENT
    subscription_at: Maybe[object] = ABSENT
    ending_at: Maybe[object] = ABSENT
    billing_entity_code: Maybe[str] = ABSENT
    plan_overrides: Maybe[PlanOverridesInput] = ABSENT
    usage_thresholds: Maybe[tuple[UsageThresholdInput, ...]] = ABSENT
    payment_method: Maybe[Mapping[str, object]] = ABSENT
    activation_rules: Maybe[object] = ABSENT
    consolidate_invoice: Maybe[bool] = ABSENT
    progressive_billing_disabled: Maybe[bool] = ABSENT
    purchase_order_number: Maybe[str] = ABSENT
    on_termination_credit_note: Maybe[str] = ABSENT
    on_termination_invoice: Maybe[str] = ABSENT
    invoice_custom_section: Maybe[CustomSectionChoice] = ABSENT
    phases: Maybe[tuple[PhaseInput, ...]] = described(
        "What the plan changes to, on dates agreed on now, in order; the first is the present one. They replace the"
        " phases to come and a scheduled downgrade; an empty list removes these.",
        most=limits.MOST_PHASES,
    )


@Input
class StatusOptions:
    """The status of the named subscription, if several share the external id; by default active."""

    status: Maybe[str] = described(
        "The status of the subscription, if several share the id.", values=tuple(SubscriptionStatus)
    )


@Input
class SubscriptionTermination:
    """Options of an end; `status` pending cancels the subscription that has not started."""

    status: Maybe[str] = described(
        "The status of the subscription to end, if several share the id.", values=tuple(SubscriptionStatus)
    )
    on_termination_credit_note: Maybe[str] = ABSENT
    on_termination_invoice: Maybe[str] = ABSENT


@Input
class SubscriptionFilters:
    """`status` defaults to active; an unknown value drops the filter."""

    status: Maybe[list[str]] = described(
        "Only those with these statuses.", values=tuple(SubscriptionStatus), default="active"
    )
    external_customer_id: Maybe[str] = ABSENT
    external_id: Maybe[str] = ABSENT
    plan_code: Maybe[str] = ABSENT
    currency: Maybe[str] = ABSENT
    overridden: Maybe[bool] = described("Whether the plan is an override for the subscription.")
    overriden: Maybe[bool] = described("Older spelling of `overridden`.")
    billing_entity_codes: Maybe[list[str]] = ABSENT


def instant_of(value: object) -> datetime | None:
    """The instant in an ISO 8601 text (or a datetime); None for anything else."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return parse_instant(value) if isinstance(value, str) else None
