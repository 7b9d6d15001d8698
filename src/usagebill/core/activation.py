"""Activation rules: conditions that a subscription waits for before it becomes active."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

# Conditions that a subscription can wait for.
RULE_TYPES = ("payment",)
# A hundred years.
_LONGEST_HOURS = 876_000


class RuleStatus(StrEnum):
    """The state of a rule."""

    INACTIVE = "inactive"
    PENDING = "pending"
    SATISFIED = "satisfied"
    DECLINED = "declined"  # no longer needed
    FAILED = "failed"
    EXPIRED = "expired"
    NOT_APPLICABLE = "not_applicable"


class CancellationReason(StrEnum):
    """Why a subscription that waited was canceled."""

    PAYMENT_FAILED = "payment_failed"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationRule:
    """The first invoice must be paid within `timeout_hours` of the start (0: no limit)."""

    id: str
    created_at: datetime
    updated_at: datetime
    timeout_hours: int = 0
    status: RuleStatus = RuleStatus.INACTIVE
    expires_at: datetime | None = None


def rule_errors(rules: object) -> dict[str, object]:
    """Errors in rules as sent, as field -> codes; empty if there are none."""
    if not isinstance(rules, Sequence) or isinstance(rules, str):
        return {"activation_rules": ["invalid_format"]}
    if not all(isinstance(rule, Mapping) for rule in rules):
        return {"activation_rules": ["invalid_format"]}
    kinds = [rule.get("type") for rule in rules]
    if any(kind not in RULE_TYPES for kind in kinds):
        return {"activation_rules": ["invalid_type"]}
    if len(kinds) > 1:
        return {"activation_rules": ["duplicated_type"]}
    if not all(_is_timeout(rule.get("timeout_hours", 0)) for rule in rules):
        return {"timeout_hours": ["value_must_be_positive_or_zero"]}
    return {}


def _is_timeout(hours: object) -> bool:
    return isinstance(hours, int) and not isinstance(hours, bool) and 0 <= hours <= _LONGEST_HOURS


def started_rules(rules: tuple[ActivationRule, ...], now: datetime, *, applies: bool) -> tuple[ActivationRule, ...]:
    """The rules when the subscription starts: pending if `applies` (there is something to pay), else not applicable."""
    if not applies:
        return tuple(replace(rule, status=RuleStatus.NOT_APPLICABLE, updated_at=now) for rule in rules)
    return tuple(
        replace(
            rule,
            status=RuleStatus.PENDING,
            expires_at=now + timedelta(hours=rule.timeout_hours) if rule.timeout_hours else None,
            updated_at=now,
        )
        for rule in rules
    )


def is_waiting(rules: Sequence[ActivationRule]) -> bool:
    """Whether any of the rules is pending."""
    return any(rule.status == RuleStatus.PENDING for rule in rules)


def settled_rules(rules: tuple[ActivationRule, ...], status: RuleStatus, now: datetime) -> tuple[ActivationRule, ...]:
    """The rules once their condition is met or can no longer be met."""
    return tuple(
        replace(rule, status=status, updated_at=now) if rule.status == RuleStatus.PENDING else rule for rule in rules
    )
