"""Inputs of operations on wallets."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated

from usagebill.core import limits
from usagebill.core.invoice_custom_sections import Selection, changed_selection
from usagebill.core.wallets import FEE_TYPES
from usagebill.operations.invoice_custom_sections import ids_of_codes
from usagebill.requests.inputs import ABSENT, Input, Maybe, described, is_given
from usagebill.runtime.work import Reader


@Input
class CustomSectionChoice:
    """The custom sections of top-up invoices; with `skip` none at all."""

    skip_invoice_custom_sections: Maybe[bool] = ABSENT
    invoice_custom_section_codes: Maybe[tuple[str, ...]] = ABSENT


@Input
class AppliesToInput:
    """The fee types, or the metrics of charges, that the wallet pays for. Two empty lists: everything."""

    fee_types: Maybe[tuple[str, ...]] = described("The types of fees it pays for.", values=FEE_TYPES)
    billable_metric_codes: Maybe[tuple[str, ...]] = ABSENT


@Input
class RuleInput:
    """A recurring top-up, with credits as text; with the id of the wallet's rule it changes that."""

    svc_id: Maybe[str] = described("The id of an existing one; without it, a new one is added.")
    trigger: Maybe[str] = ABSENT
    method: Maybe[str] = ABSENT
    interval: Maybe[str] = ABSENT
    threshold_credits: Maybe[object] = ABSENT
    paid_credits: Maybe[object] = ABSENT
    granted_credits: Maybe[object] = ABSENT
    target_ongoing_balance: Maybe[object] = ABSENT
    grants_target_top_up: Maybe[object] = ABSENT
    started_at: Maybe[object] = described("When it starts.", default="now")
    expiration_at: Maybe[object] = described("When the rule expires.")
    invoice_requires_successful_payment: Maybe[bool] = ABSENT
    ignore_paid_top_up_limits: Maybe[bool] = ABSENT
    transaction_name: Maybe[object] = ABSENT
    transaction_metadata: Maybe[object] = ABSENT
    purchase_order_number: Maybe[str] = ABSENT
    payment_method: Maybe[Mapping[str, object]] = ABSENT
    invoice_custom_section: Maybe[CustomSectionChoice] = ABSENT


@Input
class WalletInput:
    """A wallet and its initial credits (as text). `rate_amount` is the value of a credit in major units."""

    external_customer_id: Maybe[str] = ABSENT
    rate_amount: Maybe[Annotated[Decimal, limits.WALLET_RATE]] = described(
        "The value of one credit.", unit="major units", example="1"
    )
    currency: Maybe[str] = ABSENT
    name: Maybe[str] = ABSENT
    code: Maybe[str] = ABSENT
    priority: Maybe[object] = ABSENT
    paid_credits: Maybe[object] = ABSENT
    granted_credits: Maybe[object] = ABSENT
    expiration_at: Maybe[object] = described("When its credits expire.")
    invoice_requires_successful_payment: Maybe[bool] = ABSENT
    paid_top_up_min_amount_cents: Maybe[Annotated[int, limits.TOP_UP_LIMIT]] = ABSENT
    paid_top_up_max_amount_cents: Maybe[Annotated[int, limits.TOP_UP_LIMIT]] = ABSENT
    ignore_paid_top_up_limits_on_creation: Maybe[bool] = described(
        "Whether the first top-up may exceed the limits.", default="false"
    )
    applies_to: Maybe[AppliesToInput] = ABSENT
    transaction_name: Maybe[object] = ABSENT
    transaction_metadata: Maybe[object] = ABSENT
    transaction_priority: Maybe[object] = described("The priority of the first credits, 1 to 50.", default="50")
    metadata: Maybe[Mapping[str, object]] = ABSENT
    hard_stop: Maybe[bool] = ABSENT
    purchase_order_number: Maybe[str] = ABSENT
    billing_entity_code: Maybe[str] = ABSENT
    billing_entity_id: Maybe[str] = described("The billing entity, by id; alternatively its code.")
    payment_method: Maybe[Mapping[str, object]] = ABSENT
    invoice_custom_section: Maybe[CustomSectionChoice] = ABSENT
    recurring_transaction_rules: Maybe[tuple[RuleInput, ...]] = ABSENT


@Input
class WalletUpdate:
    """The changeable fields of a wallet. A rule that is not listed ends."""

    name: Maybe[str] = ABSENT
    code: Maybe[str] = ABSENT
    priority: Maybe[object] = ABSENT
    expiration_at: Maybe[object] = described("When its credits expire.")
    invoice_requires_successful_payment: Maybe[bool] = ABSENT
    paid_top_up_min_amount_cents: Maybe[Annotated[int, limits.TOP_UP_LIMIT]] = ABSENT
    paid_top_up_max_amount_cents: Maybe[Annotated[int, limits.TOP_UP_LIMIT]] = ABSENT
    applies_to: Maybe[AppliesToInput] = ABSENT
    metadata: Maybe[Mapping[str, object]] = ABSENT
    hard_stop: Maybe[bool] = ABSENT
    purchase_order_number: Maybe[str] = ABSENT
    billing_entity_code: Maybe[str] = ABSENT
    payment_method: Maybe[Mapping[str, object]] = ABSENT
    invoice_custom_section: Maybe[CustomSectionChoice] = ABSENT
    recurring_transaction_rules: Maybe[tuple[RuleInput, ...]] = ABSENT


@Input
class WalletFilters:
    """Filters of lists of wallets. The billing entity is the wallet's own, else its customer's."""

    external_customer_id: Maybe[str] = ABSENT
    currency: Maybe[str] = described("Only those of this currency, ISO 4217.")
    billing_entity_codes: Maybe[tuple[str, ...]] = ABSENT


@Input
class WalletOptions:
    """With `current_ongoing_balance` the ongoing values are computed now, instead of taken from the last refresh."""

    current_ongoing_balance: Maybe[bool] = described("Whether to compute the ongoing balance now.", default="false")


@Input
class MetadataInput:
    metadata: Maybe[Mapping[str, object]] = ABSENT


def selection_of(reader: Reader, choice: Maybe[CustomSectionChoice], before: Selection) -> Selection:
    """The sections after a request. Unknown codes are ignored."""
    if not choice:
        return before
    codes = choice.invoice_custom_section_codes
    skip = choice.skip_invoice_custom_sections
    return changed_selection(
        before,
        skip=skip if isinstance(skip, bool) else None,
        section_ids=ids_of_codes(reader, codes or ()) if is_given(codes) else None,
    )
