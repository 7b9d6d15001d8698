"""Wallets changed: what is sent is set, what is not sent stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from usagebill.core.errors import Invalid
from usagebill.core.invoice_custom_sections import Selection
from usagebill.core.payment_methods import chosen_method
from usagebill.core.wallet_checks import are_fee_types, priority_of, wallet_problems
from usagebill.core.wallets import Wallet, WalletStatus
from usagebill.inputs import changes, is_given, value_or
from usagebill.operations.backlog import settle_backlog
from usagebill.operations.wallet_ledger import tell_wallet, want_refresh
from usagebill.operations.wallets.creation import entity_by_code, is_code_taken, metric_ids_of_codes
from usagebill.operations.wallets.inputs import WalletUpdate, instant_of, order_number_of, selection_of
from usagebill.operations.wallets.metadata import checked_metadata
from usagebill.operations.wallets.rules import check_limits, keep_rules, sent_rules
from usagebill.operations.wallets.termination import watch_expiration
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.payment_providers import names_method
from usagebill.queries.wallets import running_rule, wallet_by_code, wallet_by_id
from usagebill.work import Work

__all__ = ["update", "update_of_customer"]

# Null clears these.
_CLEARED_BY_NULL = ("name", "paid_top_up_min_amount_cents", "paid_top_up_max_amount_cents")


def update(work: Work, wallet_id: str, request: WalletUpdate) -> Wallet:
    """Change an active wallet; its currency, rate and credits never change so.

    What was due of the customer before is billed first, with the wallet as it was. Raises `NotFound` and `Invalid`.
    """
    settle_backlog(work, wallet_by_id(work, wallet_id).customer_id, needed=False)
    wallet = wallet_by_id(work, wallet_id)
    if wallet.status == WalletStatus.TERMINATED:
        raise Invalid(wallet_id="wallet_is_terminated")
    fields = changes(request, *_CLEARED_BY_NULL)
    fields |= _expiration(work, request)
    rules = None
    if is_given(request.recurring_transaction_rules) and request.recurring_transaction_rules is not None:
        flag = request.invoice_requires_successful_payment
        gated = replace(wallet, invoice_requires_successful_payment=flag) if isinstance(flag, bool) else wallet
        rules = sent_rules(work, gated, value_or(request.recurring_transaction_rules, ()))
    fields |= _limitations(work, request)
    if not names_method(work, value_or(request.payment_method, None), wallet.customer_id):
        raise Invalid(payment_method="invalid_payment_method")
    fields |= _choices(work, request, wallet)
    changed = replace(wallet, **fields, updated_at=work.now)
    problems = wallet_problems(changed)
    if changed.code != wallet.code and is_code_taken(work, changed):
        problems["code"] = ["value_already_exist"]
    if problems:
        raise Invalid(problems)
    current = running_rule(work, wallet)
    check_limits(changed, rules if rules is not None else [] if current is None else [current])
    work.tx.replace(changed)
    if rules is not None:
        keep_rules(work, changed, rules)
    if changed.expiration_at != wallet.expiration_at:
        watch_expiration(work, changed)
    tell_wallet(work, "wallet.updated", changed)
    if _use(changed) != _use(wallet):
        want_refresh(work, changed.customer_id)
    return changed


def _use(wallet: Wallet) -> tuple[object, ...]:
    """What decides on the usage that the wallet is to pay for."""
    return wallet.code, wallet.priority, wallet.fee_types, wallet.billable_metric_ids


def update_of_customer(work: Work, external_id: str, code: str, request: WalletUpdate) -> Wallet:
    """Change the customer's wallet with this code. Raises `NotFound` and `Invalid`."""
    return update(work, wallet_by_code(work, customer_by_external_id(work, external_id), code).id, request)


def _expiration(work: Work, request: WalletUpdate) -> dict[str, Any]:
    sent = request.expiration_at
    if not is_given(sent):
        return {}
    if sent is None or sent == "":
        return {"expiration_at": None}
    instant = instant_of(sent)
    if instant is None or instant <= work.now:
        raise Invalid(expiration_at="invalid_date")
    return {"expiration_at": instant}


def _limitations(work: Work, request: WalletUpdate) -> dict[str, Any]:
    """What the wallet is limited to: each list that is sent takes the place of the former one."""
    sent = request.applies_to
    fields: dict[str, Any] = {}
    if not sent:
        return fields
    if is_given(sent.fee_types):
        fee_types = tuple(dict.fromkeys(value_or(sent.fee_types, ())))
        if not are_fee_types(fee_types):
            raise Invalid(allowed_fee_types="invalid_fee_types")
        fields["fee_types"] = fee_types
    if is_given(sent.billable_metric_codes):
        metric_ids = metric_ids_of_codes(work, value_or(sent.billable_metric_codes, ()))
        if metric_ids is None:
            raise Invalid(billable_metrics="invalid_identifier")
        fields["billable_metric_ids"] = metric_ids
    return fields


def _choices(work: Work, request: WalletUpdate, wallet: Wallet) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if is_given(request.billing_entity_code):
        code = request.billing_entity_code
        fields["billing_entity_id"] = entity_by_code(work, code).id if code else None
    if request.code:
        fields["code"] = request.code
    if is_given(request.priority) and request.priority is not None:
        fields["priority"] = priority_of(request.priority) or 0
    flag = request.invoice_requires_successful_payment
    if isinstance(flag, bool):
        fields["invoice_requires_successful_payment"] = flag
    if is_given(request.purchase_order_number):
        fields["purchase_order_number"] = order_number_of(request.purchase_order_number)
    if is_given(request.metadata) and request.metadata is not None:
        fields["metadata"] = checked_metadata(request.metadata)
    if is_given(request.payment_method):
        fields["payment_method"] = chosen_method(request.payment_method)
    before = Selection(skip=wallet.skip_invoice_custom_sections, section_ids=wallet.invoice_custom_section_ids)
    selection = selection_of(work, request.invoice_custom_section, before)
    fields["skip_invoice_custom_sections"] = selection.skip
    fields["invoice_custom_section_ids"] = selection.section_ids
    return fields
