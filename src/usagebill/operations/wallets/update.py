"""Changes of wallets: sent fields are set, others stay."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.errors import Invalid
from usagebill.core.invoice_custom_sections import Selection
from usagebill.core.metadata import checked_metadata
from usagebill.core.recurring_rule_requests import check_limits
from usagebill.core.wallet_requests import (
    changed_wallet_problems,
    pays_for_other_usage,
    sent_expiration,
    sent_fee_types,
    wallet_as_sent,
)
from usagebill.core.wallets import Wallet, WalletStatus
from usagebill.operations.backlog import after_backlog, of_customer, of_record
from usagebill.operations.wallet_ledger import tell_wallet, want_refresh
from usagebill.operations.wallets.creation import entity_by_code, is_code_taken, metric_ids_of_codes
from usagebill.operations.wallets.inputs import WalletUpdate, selection_of
from usagebill.operations.wallets.rules import keep_rules, sent_rules
from usagebill.operations.wallets.termination import watch_expiration
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.payment_providers import names_method
from usagebill.queries.wallets import running_rule, wallet_by_code, wallet_by_id
from usagebill.requests.inputs import changes, is_given, value_or
from usagebill.runtime.work import Work


@after_backlog(of_record(Wallet))
def update(work: Work, wallet_id: str, request: WalletUpdate) -> Wallet:
    """Change the sent fields of an active wallet, never its currency, rate or credits.

    Raises `NotFound` and `Invalid`.
    """
    wallet = wallet_by_id(work, wallet_id)
    if wallet.status == WalletStatus.TERMINATED:
        raise Invalid(wallet_id="wallet_is_terminated")
    changed = wallet
    if is_given(request.expiration_at):
        changed = replace(changed, expiration_at=sent_expiration(request.expiration_at, work.now))
    rules = None
    if is_given(request.recurring_transaction_rules) and request.recurring_transaction_rules is not None:
        flag = request.invoice_requires_successful_payment
        gated = replace(wallet, invoice_requires_successful_payment=flag) if isinstance(flag, bool) else wallet
        rules = sent_rules(work, gated, value_or(request.recurring_transaction_rules, ()))
    changed = _limited(work, changed, request)
    if not names_method(work, value_or(request.payment_method, None), wallet.customer_id):
        raise Invalid(payment_method="invalid_payment_method")
    if is_given(request.billing_entity_code):
        code = request.billing_entity_code
        changed = replace(changed, billing_entity_id=entity_by_code(work, code).id if code else None)
    if is_given(request.metadata) and request.metadata is not None:
        changed = replace(changed, metadata=checked_metadata(request.metadata))
    selection = Selection(skip=wallet.skip_invoice_custom_sections, section_ids=wallet.invoice_custom_section_ids)
    selection = selection_of(work, request.invoice_custom_section, selection)
    changed = replace(wallet_as_sent(changed, changes(request), selection), updated_at=work.now)
    problems = changed_wallet_problems(wallet, changed, is_code_taken=is_code_taken(work, changed))
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
    if pays_for_other_usage(wallet, changed):
        want_refresh(work, changed.customer_id)
    return changed


@after_backlog(of_customer)
def update_of_customer(work: Work, external_id: str, code: str, request: WalletUpdate) -> Wallet:
    """Change the customer's wallet with this code. Raises `NotFound` and `Invalid`."""
    return update(work, wallet_by_code(work, customer_by_external_id(work, external_id), code).id, request)


def _limited(work: Work, wallet: Wallet, request: WalletUpdate) -> Wallet:
    """The wallet with the sent limitations; each sent list replaces the former one."""
    limits = request.applies_to
    if not limits:
        return wallet
    if is_given(limits.fee_types):
        wallet = replace(wallet, fee_types=sent_fee_types(value_or(limits.fee_types, ())))
    if is_given(limits.billable_metric_codes):
        metric_ids = metric_ids_of_codes(work, value_or(limits.billable_metric_codes, ()))
        if metric_ids is None:
            raise Invalid(billable_metrics="invalid_identifier")
        wallet = replace(wallet, billable_metric_ids=metric_ids)
    return wallet
