"""Recurring top-up rules: when a wallet is topped up by itself, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from usagebill.core.numbers import ZERO
from usagebill.core.wallet_transactions import MetadataPair
from usagebill.core.wallets import PaymentMethodChoice

__all__ = ["RecurringTransactionRule", "RuleInterval", "RuleMethod", "RuleStatus", "RuleTrigger", "is_running"]


class RuleStatus(StrEnum):
    """The state of a rule."""

    ACTIVE = "active"
    TERMINATED = "terminated"


class RuleTrigger(StrEnum):
    """What makes a rule top up: a day of the calendar, or an ongoing balance that is low."""

    INTERVAL = "interval"
    THRESHOLD = "threshold"


class RuleMethod(StrEnum):
    """By how much: its own credits, or what is missing to a target."""

    FIXED = "fixed"
    TARGET = "target"


class RuleInterval(StrEnum):
    """How often a rule with the interval trigger tops up."""

    WEEKLY = "weekly"
    MONTHLY = "monthly"
    QUARTERLY = "quarterly"
    SEMIANNUAL = "semiannual"
    YEARLY = "yearly"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurringTransactionRule:
    """Tops up a wallet at an interval, or when its ongoing balance is at or below `threshold_credits`.

    A fixed rule adds `paid_credits` and `granted_credits`; a target rule what is missing to `target_ongoing_balance`,
    bought, or granted if `grants_target_top_up`. `started_at` is the anchor of an interval rule, the creation of the
    wallet where it is null. `expiration_at` is the first instant at which it no longer acts.
    """

    id: str
    organization_id: str
    wallet_id: str
    trigger: RuleTrigger
    created_at: datetime
    updated_at: datetime
    status: RuleStatus = RuleStatus.ACTIVE
    method: RuleMethod = RuleMethod.FIXED
    interval: RuleInterval | None = None
    threshold_credits: Decimal = ZERO
    paid_credits: Decimal = ZERO
    granted_credits: Decimal = ZERO
    target_ongoing_balance: Decimal | None = None
    grants_target_top_up: bool = False
    started_at: datetime | None = None
    expiration_at: datetime | None = None
    terminated_at: datetime | None = None
    invoice_requires_successful_payment: bool = False
    ignore_paid_top_up_limits: bool = False
    transaction_name: str | None = None
    transaction_metadata: tuple[MetadataPair, ...] = ()
    purchase_order_number: str | None = None
    payment_method: PaymentMethodChoice | None = None
    skip_invoice_custom_sections: bool = False
    invoice_custom_section_ids: tuple[str, ...] = ()


def is_running(rule: RecurringTransactionRule, now: datetime) -> bool:
    """Whether the rule acts at `now`: neither terminated nor expired."""
    return rule.status == RuleStatus.ACTIVE and (rule.expiration_at is None or now < rule.expiration_at)
