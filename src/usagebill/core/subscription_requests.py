"""Requests about subscriptions: their effect, and the error codes of refused ones."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import Enum

from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.subscriptions import Subscription, SubscriptionStatus, TerminationCredit, TerminationInvoice

# A year beyond these, periods before the first and after the last can still be computed, in any time zone.
_EARLIEST_YEAR, _LATEST_YEAR = 1900, 9998


class RequestEffect(Enum):
    """The effect of a request to put a customer on a plan."""

    NEW = "new"  # a new subscription
    NOTHING = "nothing"  # it already has that plan
    OTHER_PLAN_AT_START = "other_plan_at_start"  # it has not started yet, and starts on another plan
    PLAN_CHANGE = "plan_change"  # an upgrade or a downgrade


def effect_of_request(current: Subscription | None, plan_id: str) -> RequestEffect:
    """The effect of a request for a plan; `current` is the live subscription with the external id, if there is one."""
    if current is None:
        return RequestEffect.NEW
    if current.plan_id == plan_id:
        return RequestEffect.NOTHING
    is_pending = current.status == SubscriptionStatus.PENDING
    return RequestEffect.OTHER_PLAN_AT_START if is_pending else RequestEffect.PLAN_CHANGE


def date_problems(
    starts: datetime | None, ending_at: datetime | None, now: datetime, *, has_ending: bool
) -> dict[str, object]:
    """Errors in the dates of a request, by field; None means an invalid date.

    A subscription ends on a later day (in UTC) than it starts, and than today.
    """
    problems: dict[str, object] = {}
    if starts is None or not _EARLIEST_YEAR <= starts.year <= _LATEST_YEAR:
        problems["subscription_at"] = ["invalid_date"]
    if has_ending and not _is_later(ending_at, starts, now):
        problems["ending_at"] = ["invalid_date"]
    return problems


def _is_later(ending_at: datetime | None, starts: datetime | None, now: datetime) -> bool:
    if ending_at is None:
        return False
    day = ending_at.astimezone(UTC).date()
    return day > now.astimezone(UTC).date() and (starts is None or day > starts.astimezone(UTC).date())


def payer_problems(method: PaymentMethodChoice | None, *, has_provider: bool, has_method: bool) -> dict[str, object]:
    """Errors if nobody can collect the first payment that an activation waits for; empty if somebody can.

    `has_provider`: a payment provider collects from the customer; `has_method`: it has the chosen payment method, or a
    default one.
    """
    if method is not None and method.is_by_hand:
        return {"customer": ["manual_payment_method_invalid_for_payment_activation_rules"]}
    if not has_provider:
        return {"customer": ["no_linked_payment_provider"]}
    if not has_method:
        missing = "no_default_payment_method" if method is None or method.id is None else "payment_method_not_found"
        return {"customer": [missing]}
    return {}


def termination_problems(credit_note: object, invoice: object, *, pay_in_advance: bool) -> dict[str, object]:
    """The options for an end that do not exist. In arrears there is nothing to credit, whatever is requested."""
    problems: dict[str, object] = {}
    if pay_in_advance and credit_note is not None and credit_note not in tuple(TerminationCredit):
        problems["on_termination_credit_note"] = ["invalid_value"]
    if invoice is not None and invoice not in tuple(TerminationInvoice):
        problems["on_termination_invoice"] = ["invalid_value"]
    return problems


def preview_problem(
    currencies: Iterable[str], billing_entity_ids: Iterable[str | None], runs: Iterable[datetime]
) -> str | None:
    """The reason why no single invoice bills all of these subscriptions next; None if one does.

    `runs` are the instants of their next runs.
    """
    if len(set(currencies)) > 1:
        return "subscription_currencies_does_not_match"
    if len(set(billing_entity_ids)) > 1:
        return "subscription_billing_entities_do_not_match"
    return "billing_periods_does_not_match" if len(set(runs)) > 1 else None
