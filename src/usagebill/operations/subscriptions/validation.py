"""Validation of requests about subscriptions, and the fields they set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from usagebill.core.activation import ActivationRule, rule_errors
from usagebill.core.errors import Invalid
from usagebill.core.invoice_custom_sections import Selection, changed_selection
from usagebill.core.payment_methods import chosen_method
from usagebill.core.subscription_requests import date_problems, payer_problems
from usagebill.core.subscriptions import Subscription
from usagebill.operations.invoice_custom_sections import ids_of_codes
from usagebill.operations.plans.creation import sent_thresholds
from usagebill.operations.subscriptions.inputs import SubscriptionInput, SubscriptionUpdate, instant_of
from usagebill.queries.customers import find_customer
from usagebill.queries.payment_providers import method_chosen, names_method, payment_connection_of
from usagebill.requests.inputs import is_given, value_or
from usagebill.runtime.work import Reader

_LONGEST_PURCHASE_ORDER_NUMBER = 255


def request_errors(
    reader: Reader,
    request: SubscriptionInput | SubscriptionUpdate,
    subscription_at: object,
    customer_id: str | None,
) -> dict[str, object]:
    """Errors in the dates and the payment method of a request, by field.

    The method must belong to `customer_id`; None for a customer that does not exist yet, who has none.
    """
    starts = instant_of(subscription_at)
    has_ending = bool(request.ending_at)
    problems = date_problems(starts, instant_of(request.ending_at), reader.now, has_ending=has_ending)
    if not names_method(reader, request.payment_method, customer_id or ""):
        problems["payment_method"] = ["invalid_payment_method"]
    if request.activation_rules is not None and is_given(request.activation_rules):
        problems |= rule_errors(request.activation_rules) or _payer_errors(reader, request, customer_id)
    return problems


def _payer_errors(
    reader: Reader, request: SubscriptionInput | SubscriptionUpdate, customer_id: str | None
) -> dict[str, object]:
    """Errors if nobody can collect the first payment that an activation is to wait for."""
    if not request.activation_rules:
        return {}
    method = chosen_method(request.payment_method)
    customer = None if customer_id is None else find_customer(reader, customer_id)
    return payer_problems(
        method,
        has_provider=customer is not None and payment_connection_of(reader, customer) is not None,
        has_method=customer is not None and method_chosen(reader, customer.id, method) is not None,
    )


def _rules(reader: Reader, sent: object) -> tuple[ActivationRule, ...]:
    return tuple(
        ActivationRule(
            id=reader.new_id(),
            timeout_hours=rule.get("timeout_hours", 0),
            created_at=reader.now,
            updated_at=reader.now,
        )
        for rule in (sent if isinstance(sent, Sequence) else ())
    )


def choices_of(
    reader: Reader, request: SubscriptionInput | SubscriptionUpdate, before: Subscription | None
) -> dict[str, Any]:
    """The fields set by a request's payment method, custom sections, usage thresholds and activation rules."""
    fields: dict[str, Any] = {}
    method = chosen_method(request.payment_method)
    if method is not None:
        fields |= {"payment_method_type": method.kind, "payment_method_id": method.id}
    if request.usage_thresholds is not None and is_given(request.usage_thresholds):
        fields["usage_thresholds"] = sent_thresholds(reader, value_or(request.usage_thresholds, ()))
    if is_given(request.activation_rules):
        fields["activation_rules"] = _rules(reader, value_or(request.activation_rules, ()))
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
    """The number without surrounding blanks, None if empty. Raises `Invalid` beyond 255 characters."""
    text = value.strip() if isinstance(value, str) else ""
    if len(text) > _LONGEST_PURCHASE_ORDER_NUMBER:
        raise Invalid(purchase_order_number="value_is_too_long")
    return text or None
