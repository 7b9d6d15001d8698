"""Wallet transactions as JSON, with their fundings and consumptions."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.currencies import major_from_cents
from usagebill.core.numbers import decimal_text, round_to
from usagebill.core.wallet_transactions import WalletConsumption, WalletTransaction
from usagebill.core.wallets import Wallet, exact_credits
from usagebill.queries.billing_entities import find_entity
from usagebill.queries.wallets import wallet_entity, wallet_of, wallet_transaction_by_id
from usagebill.runtime.work import Reader
from usagebill.views.formats import DecimalText, Id, Instant, instant_text
from usagebill.views.invoice_custom_sections import AppliedSectionView, applied_sections_view
from usagebill.views.payments import PaymentMethodView
from usagebill.views.wallets import (
    MetadataPairView,
    WalletSummary,
    metadata_pairs_view,
    payment_method_view,
    wallet_summary,
)

# At most conversion rates, unrounded credits have endless decimals.
_EXACT_DECIMALS = 15


class WalletTransactionView(TypedDict):
    svc_id: Id
    svc_wallet_id: Id
    svc_invoice_id: Id | None
    svc_credit_note_id: Id | None
    svc_voided_invoice_id: Id | None
    billing_entity_code: str
    status: str
    source: str
    transaction_status: str
    transaction_type: str
    amount: DecimalText
    credit_amount: DecimalText
    remaining_amount_cents: int | None
    remaining_credit_amount: DecimalText | None
    priority: int
    purchase_order_number: str | None
    settled_at: Instant | None
    failed_at: Instant | None
    created_at: Instant
    invoice_requires_successful_payment: bool
    metadata: list[MetadataPairView]
    name: str | None
    payment_method: PaymentMethodView


class WalletTransactionDetails(WalletTransactionView):
    applied_invoice_custom_sections: list[AppliedSectionView]


class WalletTransactionAnswer(WalletTransactionDetails):
    """The transaction's fields, and the same nested under its name: clients read either form."""

    wallet_transaction: WalletTransactionDetails


class WalletTransactionMessage(WalletTransactionView):
    """The message about a transaction."""

    wallet: WalletSummary


class ConsumptionView(TypedDict):
    svc_id: Id
    amount_cents: int
    credit_amount: DecimalText
    created_at: Instant
    wallet_transaction: WalletTransactionView


def _exact_credits(wallet: Wallet, cents: int) -> str:
    return decimal_text(round_to(exact_credits(cents, wallet.rate_amount, wallet.currency), _EXACT_DECIMALS))


def wallet_transaction_view(reader: Reader, transaction: WalletTransaction) -> WalletTransactionView:
    """A transaction, with the billing entity of its creation."""
    wallet = wallet_of(reader, transaction)
    entity_id = transaction.billing_entity_id
    entity = (None if entity_id is None else find_entity(reader, entity_id)) or wallet_entity(reader, wallet)
    remaining = transaction.remaining_amount_cents
    return {
        "svc_id": transaction.id,
        "svc_wallet_id": wallet.id,
        "svc_invoice_id": transaction.invoice_id,
        "svc_credit_note_id": transaction.credit_note_id,
        "svc_voided_invoice_id": transaction.voided_invoice_id,
        "billing_entity_code": entity.code,
        "status": transaction.status,
        "source": transaction.source,
        "transaction_status": transaction.transaction_status,
        "transaction_type": transaction.transaction_type,
        "amount": decimal_text(major_from_cents(transaction.amount_cents, wallet.currency)),
        "credit_amount": decimal_text(transaction.credit_amount),
        "remaining_amount_cents": remaining,
        "remaining_credit_amount": None if remaining is None else _exact_credits(wallet, remaining),
        "priority": transaction.priority,
        "purchase_order_number": transaction.purchase_order_number or wallet.purchase_order_number,
        "settled_at": instant_text(transaction.settled_at),
        "failed_at": instant_text(transaction.failed_at),
        "created_at": instant_text(transaction.created_at),
        "invoice_requires_successful_payment": transaction.invoice_requires_successful_payment,
        "metadata": metadata_pairs_view(transaction.metadata),
        "name": transaction.name,
        "payment_method": payment_method_view(transaction.payment_method),
    }


def wallet_transaction_details(reader: Reader, transaction: WalletTransaction) -> WalletTransactionDetails:
    """A transaction with the custom sections of its invoice."""
    sections = applied_sections_view(reader, transaction.invoice_custom_section_ids)
    return {**wallet_transaction_view(reader, transaction), "applied_invoice_custom_sections": sections}


def wallet_transaction_answer(reader: Reader, transaction: WalletTransaction) -> WalletTransactionAnswer:
    """The transaction as a single-record response shows it."""
    shown = wallet_transaction_details(reader, transaction)
    return {**shown, "wallet_transaction": shown}


def wallet_transaction_message(reader: Reader, transaction: WalletTransaction) -> WalletTransactionMessage:
    """A transaction with its current wallet."""
    wallet = wallet_summary(reader, wallet_of(reader, transaction))
    return {**wallet_transaction_view(reader, transaction), "wallet": wallet}


def _used(reader: Reader, consumption: WalletConsumption, other_id: str) -> ConsumptionView:
    other = wallet_transaction_by_id(reader, other_id)
    return {
        "svc_id": consumption.id,
        "amount_cents": consumption.amount_cents,
        "credit_amount": _exact_credits(wallet_of(reader, other), consumption.amount_cents),
        "created_at": instant_text(consumption.created_at),
        "wallet_transaction": wallet_transaction_view(reader, other),
    }


def consumption_view(reader: Reader, consumption: WalletConsumption) -> ConsumptionView:
    """A draw of an outbound transaction on an inbound one, seen from the inbound one."""
    return _used(reader, consumption, consumption.outbound_id)


def funding_view(reader: Reader, consumption: WalletConsumption) -> ConsumptionView:
    """A draw of an outbound transaction on an inbound one, seen from the outbound one."""
    return _used(reader, consumption, consumption.inbound_id)
