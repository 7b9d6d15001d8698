"""Wallets and their recurring rules as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from usagebill.core.metadata import Metadata
from usagebill.core.numbers import decimal_text, round_cents
from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.recurring_rules import RecurringTransactionRule
from usagebill.core.wallet_transactions import MetadataPair
from usagebill.core.wallets import Wallet
from usagebill.queries.customers import customer_of
from usagebill.queries.holds import held_of_wallet
from usagebill.queries.wallets import lost_credits, metrics_of, running_rule, wallet_entity
from usagebill.runtime.work import Reader
from usagebill.views.formats import (
    DecimalText,
    Id,
    Instant,
    instant_text,
    millisecond_text,
    optional_decimal as optional,
)
from usagebill.views.invoice_custom_sections import AppliedSectionView, applied_sections_view
from usagebill.views.payments import PaymentMethodView


class MetadataPairView(TypedDict):
    key: str
    value: str


class RecurringRuleView(TypedDict):
    svc_id: Id
    trigger: str
    method: str
    interval: str | None
    status: str
    threshold_credits: DecimalText
    paid_credits: DecimalText
    granted_credits: DecimalText
    target_ongoing_balance: DecimalText | None
    grants_target_top_up: bool
    started_at: Instant | None
    created_at: Instant
    expiration_at: Instant | None
    invoice_requires_successful_payment: bool
    ignore_paid_top_up_limits: bool
    transaction_name: str | None
    transaction_metadata: list[MetadataPairView]
    purchase_order_number: str | None
    payment_method: PaymentMethodView
    applied_invoice_custom_sections: list[AppliedSectionView]


class AppliesToView(TypedDict):
    fee_types: list[str]
    billable_metric_codes: list[str]


class WalletSummary(TypedDict):
    """A wallet within its transactions."""

    svc_id: Id
    svc_customer_id: Id
    external_customer_id: str
    billing_entity_code: str
    status: str
    currency: str
    name: str | None
    code: str
    priority: int
    rate_amount: DecimalText
    credits_balance: DecimalText
    credits_ongoing_balance: DecimalText
    credits_ongoing_usage_balance: DecimalText
    balance_cents: int
    ongoing_balance_cents: int
    ongoing_usage_balance_cents: int
    consumed_credits: DecimalText
    created_at: Instant
    expiration_at: Instant | None
    last_balance_sync_at: Instant | None
    last_consumed_credit_at: Instant | None
    terminated_at: Instant | None
    invoice_requires_successful_payment: bool
    paid_top_up_min_amount_cents: int | None
    paid_top_up_max_amount_cents: int | None
    hard_stop: bool
    purchase_order_number: str | None
    payment_method: PaymentMethodView
    applied_invoice_custom_sections: list[AppliedSectionView]
    metadata: NotRequired[Metadata]


class WalletMessage(WalletSummary):
    """The message about a wallet."""

    recurring_transaction_rules: list[RecurringRuleView]


class LostCreditsView(TypedDict):
    lost_credits: NotRequired[DecimalText]


class WalletView(WalletMessage, LostCreditsView):
    held_amount_cents: int
    available_balance_cents: int
    applies_to: AppliesToView


def payment_method_view(choice: PaymentMethodChoice | None) -> PaymentMethodView:
    """The payment method of top-ups, by default the customer's provider."""
    choice = choice or PaymentMethodChoice()
    return {"payment_method_type": choice.kind, "payment_method_id": choice.id}


def metadata_pairs_view(pairs: Sequence[MetadataPair]) -> list[MetadataPairView]:
    """Pairs in the order they were sent."""
    return [{"key": pair.key, "value": pair.value} for pair in pairs]


def _rule_view(reader: Reader, rule: RecurringTransactionRule) -> RecurringRuleView:
    return {
        "svc_id": rule.id,
        "trigger": rule.trigger,
        "method": rule.method,
        "interval": rule.interval,
        "status": rule.status,
        "threshold_credits": decimal_text(rule.threshold_credits),
        "paid_credits": decimal_text(rule.paid_credits),
        "granted_credits": decimal_text(rule.granted_credits),
        "target_ongoing_balance": optional(rule.target_ongoing_balance),
        "grants_target_top_up": rule.grants_target_top_up,
        "started_at": instant_text(rule.started_at),
        "created_at": instant_text(rule.created_at),
        "expiration_at": instant_text(rule.expiration_at),
        "invoice_requires_successful_payment": rule.invoice_requires_successful_payment,
        "ignore_paid_top_up_limits": rule.ignore_paid_top_up_limits,
        "transaction_name": rule.transaction_name,
        "transaction_metadata": metadata_pairs_view(rule.transaction_metadata),
        "purchase_order_number": rule.purchase_order_number,
        "payment_method": payment_method_view(rule.payment_method),
        "applied_invoice_custom_sections": applied_sections_view(reader, rule.invoice_custom_section_ids),
    }


def wallet_summary(reader: Reader, wallet: Wallet) -> WalletSummary:
    """The wallet without its rules and limitations. `metadata` is present only if the wallet has any."""
    customer = customer_of(reader, wallet)
    shown: WalletSummary = {
        "svc_id": wallet.id,
        "svc_customer_id": customer.id,
        "external_customer_id": customer.external_id,
        "billing_entity_code": wallet_entity(reader, wallet).code,
        "status": wallet.status,
        "currency": wallet.currency,
        "name": wallet.name,
        "code": wallet.code,
        "priority": wallet.priority,
        "rate_amount": decimal_text(wallet.rate_amount),
        "credits_balance": decimal_text(wallet.credits_balance),
        "credits_ongoing_balance": decimal_text(wallet.credits_ongoing_balance),
        "credits_ongoing_usage_balance": decimal_text(wallet.credits_ongoing_usage_balance),
        "balance_cents": wallet.balance_cents,
        "ongoing_balance_cents": wallet.ongoing_balance_cents,
        "ongoing_usage_balance_cents": wallet.ongoing_usage_balance_cents,
        "consumed_credits": decimal_text(wallet.consumed_credits),
        "created_at": instant_text(wallet.created_at),
        "expiration_at": instant_text(wallet.expiration_at),
        "last_balance_sync_at": instant_text(wallet.last_balance_sync_at),
        "last_consumed_credit_at": instant_text(wallet.last_consumed_credit_at),
        "terminated_at": millisecond_text(wallet.terminated_at),
        "invoice_requires_successful_payment": wallet.invoice_requires_successful_payment,
        "paid_top_up_min_amount_cents": wallet.paid_top_up_min_amount_cents,
        "paid_top_up_max_amount_cents": wallet.paid_top_up_max_amount_cents,
        "hard_stop": wallet.hard_stop,
        "purchase_order_number": wallet.purchase_order_number,
        "payment_method": payment_method_view(wallet.payment_method),
        "applied_invoice_custom_sections": applied_sections_view(reader, wallet.invoice_custom_section_ids),
    }
    if wallet.metadata is not None:
        shown["metadata"] = wallet.metadata
    return shown


def wallet_message(reader: Reader, wallet: Wallet) -> WalletMessage:
    """The wallet with its recurring rule, if one is running."""
    rule = running_rule(reader, wallet)
    rules = [] if rule is None else [_rule_view(reader, rule)]
    return {**wallet_summary(reader, wallet), "recurring_transaction_rules": rules}


def wallet_view(reader: Reader, wallet: Wallet) -> WalletView:
    """The wallet with its rule and limitations. `lost_credits` is present only if its end lost some."""
    metrics = metrics_of(reader, wallet)
    lost = lost_credits(reader, wallet)
    held = held_of_wallet(reader, wallet)
    shown_if_lost: LostCreditsView = {"lost_credits": decimal_text(lost)} if lost else {}
    return {
        **wallet_message(reader, wallet),
        "held_amount_cents": round_cents(held),
        "available_balance_cents": wallet.ongoing_balance_cents - round_cents(held),
        "applies_to": {
            "fee_types": list(wallet.fee_types),
            "billable_metric_codes": [metric.code for metric in metrics],
        },
        **shown_if_lost,
    }
