"""Validation of requests about subscriptions, and the fields that they set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from usagebill.core.errors import Invalid
from usagebill.core.invoice_custom_sections import Selection, changed_selection
from usagebill.core.payment_methods import chosen_method
from usagebill.core.subscriptions import Subscription
from usagebill.inputs import is_given, value_or
from usagebill.operations.invoice_custom_sections import ids_of_codes
from usagebill.operations.plans.creation import sent_thresholds
from usagebill.operations.subscriptions.inputs import SubscriptionInput, SubscriptionUpdate, instant_of
from usagebill.queries.payment_providers import names_method
from usagebill.work import Reader

__all__ = ["choices_of", "purchase_order_number_of", "request_errors"]

_LONGEST_PURCHASE_ORDER_NUMBER = 255
# Periods before the first and after the last are asked for too, in any time zone.
_EARLIEST_YEAR, _LATEST_YEAR = 1900, 9998


def request_errors(
    reader: Reader,
    request: SubscriptionInput | SubscriptionUpdate,
    subscription_at: object,
    customer_id: str | None,
) -> dict[str, object]:
    """What is wrong with the dates and the payment method of a request, by field.

    `customer_id` is whose method it must be; null for a customer that does not exist yet, who has none.
    """
    problems: dict[str, object] = {}
    starts = instant_of(subscription_at)
    if starts is None or not _EARLIEST_YEAR <= starts.year <= _LATEST_YEAR:
        problems["subscription_at"] = ["invalid_date"]
    if request.ending_at and not _is_later(reader, instant_of(request.ending_at), starts):
        problems["ending_at"] = ["invalid_date"]
    if not names_method(reader, request.payment_method, customer_id or ""):
        problems["payment_method"] = ["invalid_payment_method"]
    if request.activation_rules is not None and is_given(request.activation_rules):
        problems |= _rule_errors(request.activation_rules, request.payment_method)
    return problems


def _is_later(reader: Reader, ending: datetime | None, starts: datetime | None) -> bool:
    if ending is None:
        return False
    day = ending.astimezone(UTC).date()
    return day > reader.now.astimezone(UTC).date() and (starts is None or day > starts.astimezone(UTC).date())


def _rule_errors(rules: object, method: object) -> dict[str, object]:
    """What is wrong with rules that an activation is to wait for. A first payment cannot be one of them: it would be
    asked of the customer's payment provider, and nobody is connected to one.
    """
    if not isinstance(rules, Sequence) or isinstance(rules, str):
        return {"activation_rules": ["invalid_format"]}
    if not all(isinstance(rule, Mapping) for rule in rules):
        return {"activation_rules": ["invalid_format"]}
    kinds = [rule.get("type") for rule in rules]
    if any(kind != "payment" for kind in kinds):
        return {"activation_rules": ["invalid_type"]}
    if len(kinds) > 1:
        return {"activation_rules": ["duplicated_type"]}
    if not all(_is_timeout(rule.get("timeout_hours", 0)) for rule in rules):
        return {"timeout_hours": ["value_must_be_positive_or_zero"]}
    if not rules:
        return {}
    if isinstance(method, Mapping) and method.get("payment_method_type") == "manual":
        return {"customer": ["manual_payment_method_invalid_for_payment_activation_rules"]}
    return {"customer": ["no_linked_payment_provider"]}


def _is_timeout(hours: object) -> bool:
    return isinstance(hours, int) and not isinstance(hours, bool) and hours >= 0


def choices_of(
    reader: Reader, request: SubscriptionInput | SubscriptionUpdate, before: Subscription | None
) -> dict[str, Any]:
    """The fields that a request's payment method, custom sections and usage thresholds set."""
    fields: dict[str, Any] = {}
    method = chosen_method(request.payment_method)
    if method is not None:
        fields |= {"payment_method_type": method.kind, "payment_method_id": method.id}
    if request.usage_thresholds is not None and is_given(request.usage_thresholds):
        fields["usage_thresholds"] = sent_thresholds(reader, value_or(request.usage_thresholds, ()))
    choice = request.invoice_custom_section
    if choice:
        codes = choice.invoice_custom_section_codes
        selection = changed_selection(
            Selection()
            if before is None
            else Selection(skip=before.skip_invoice_custom_sections, section_ids=before.invoice_custom_section_ids),
            skip=choice.skip_invoice_custom_sections if isinstance(choice.skip_invoice_custom_sections, bool) else None,
            section_ids=None if not is_given(codes) else ids_of_codes(reader, codes or ()),
        )
        fields["skip_invoice_custom_sections"] = selection.skip
        fields["invoice_custom_section_ids"] = selection.section_ids
    return fields


def purchase_order_number_of(value: object) -> str | None:
    """The number without blanks around it, None if nothing is left. Raises `Invalid` beyond 255 characters."""
    text = value.strip() if isinstance(value, str) else ""
    if len(text) > _LONGEST_PURCHASE_ORDER_NUMBER:
        raise Invalid(purchase_order_number="value_is_too_long")
    return text or None
