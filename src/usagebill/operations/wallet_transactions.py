"""Wallet transactions: credits topped up and voided by request, listed, and traced to fundings and consumptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from usagebill.core.errors import Invalid
from usagebill.core.invoice_custom_sections import Selection
from usagebill.core.numbers import ZERO
from usagebill.core.payment_methods import chosen_method
from usagebill.core.payments import PaymentPage
from usagebill.core.top_ups import TopUp, new_transaction
from usagebill.core.wallet_checks import (
    metadata_pairs,
    order_number_of,
    priority_of,
)
from usagebill.core.wallet_requests import TopUpRequest, sent_credits, top_up_problems, voided_amount
from usagebill.core.wallet_transactions import (
    TransactionKind,
    TransactionType,
    WalletConsumption,
    WalletTransaction,
    WalletTransactionStatus,
)
from usagebill.core.wallets import (
    LOWEST_PRIORITY,
    Wallet,
)
from usagebill.operations.backlog import Unrelated, after_backlog, of_record, without_backlog
from usagebill.operations.invoices.payment_links import page_of_invoice
from usagebill.operations.wallet_ledger import keep, take_out
from usagebill.operations.wallets.inputs import CustomSectionChoice, selection_of
from usagebill.operations.wallets.top_ups import top_up
from usagebill.queries.invoices import find_invoice
from usagebill.queries.payment_providers import names_method
from usagebill.queries.wallets import wallet_by_id, wallet_transaction_by_id
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, asc, desc, eq, has_item
from usagebill.storage.ports import Page


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUpPage:
    """The page on which purchased credits are paid."""

    transaction: WalletTransaction
    page: PaymentPage


@Input
class WalletTransactionInput:
    """Credits (texts) to buy, to grant and to void, in this order. A void takes from all, or from one transaction."""

    wallet_id: Maybe[str] = described(
        "The wallet, by id.", example="1a901a90-1a90-4a90-8a90-1a901a901a03", required="create"
    )
    paid_credits: Maybe[object] = ABSENT
    granted_credits: Maybe[object] = ABSENT
    voided_credits: Maybe[object] = described("Credits to void.", unit="credits")
    voided_transaction_id: Maybe[str] = described("The inbound transaction to void credits of, by id.")
    invoice_requires_successful_payment: Maybe[bool] = ABSENT
    ignore_paid_top_up_limits: Maybe[bool] = ABSENT
    name: Maybe[object] = ABSENT
    purchase_order_number: Maybe[str] = ABSENT
    priority: Maybe[object] = ABSENT
    metadata: Maybe[object] = ABSENT
    payment_method: Maybe[Mapping[str, object]] = ABSENT
    invoice_custom_section: Maybe[CustomSectionChoice] = ABSENT


@Input
class WalletTransactionFilters:
    """All sent filters must match; unknown values are ignored. `metadata` maps keys to values."""

    status: Maybe[str] = described("Only those with this status.", values=tuple(WalletTransactionStatus))
    transaction_type: Maybe[str] = described(
        "Only inbound transactions, or only outbound ones.", values=tuple(TransactionType)
    )
    transaction_status: Maybe[str] = described("Only transactions of this kind.", values=tuple(TransactionKind))
    metadata: Maybe[Mapping[str, object]] = ABSENT


@after_backlog(of_record(Wallet, "wallet_id"))
def create(work: Work, request: WalletTransactionInput) -> list[WalletTransaction]:
    """Buy, grant and void credits of a wallet, all or none. Returns the transactions, none for zero credits.

    Raises `Invalid`.
    """
    wallet = work.tx.get(Wallet, request.wallet_id or "")
    problems = top_up_problems(wallet, _sent(work, wallet, request))
    if problems or wallet is None:
        raise Invalid(problems)
    order = _order(work, wallet, request)
    transactions = top_up(work, wallet, order)
    void = _void(work, wallet_by_id(work, wallet.id), request, order)
    return transactions if void is None else [*transactions, void]


def _sent(reader: Reader, wallet: Wallet | None, request: WalletTransactionInput) -> TopUpRequest:
    target_id = request.voided_transaction_id or None
    method = value_or(request.payment_method, None)
    return TopUpRequest(
        paid_credits=value_or(request.paid_credits, None),
        granted_credits=value_or(request.granted_credits, None),
        voided_credits=value_or(request.voided_credits, None),
        voided_transaction_id=target_id,
        target=None if target_id is None else reader.tx.get(WalletTransaction, target_id),
        metadata=value_or(request.metadata, None),
        name=value_or(request.name, ""),
        knows_method=names_method(reader, method, "" if wallet is None else wallet.customer_id),
        priority=value_or(request.priority, LOWEST_PRIORITY),
        purchase_order_number=order_number_of(request.purchase_order_number),
    )


def _order(reader: Reader, wallet: Wallet, request: WalletTransactionInput) -> TopUp:
    return TopUp(
        paid=sent_credits(value_or(request.paid_credits, None)) or ZERO,
        granted=sent_credits(value_or(request.granted_credits, None)) or ZERO,
        ignore_limits=bool(value_or(request.ignore_paid_top_up_limits, False)),
        requires_payment=value_or(
            request.invoice_requires_successful_payment, wallet.invoice_requires_successful_payment
        ),
        priority=priority_of(value_or(request.priority, LOWEST_PRIORITY)) or LOWEST_PRIORITY,
        name=str(value_or(request.name, "")) or None,
        metadata=metadata_pairs(value_or(request.metadata, ())),
        purchase_order_number=order_number_of(request.purchase_order_number),
        payment_method=chosen_method(value_or(request.payment_method, None)),
        sections=selection_of(reader, request.invoice_custom_section, Selection()),
    )


def _void(work: Work, wallet: Wallet, request: WalletTransactionInput, order: TopUp) -> WalletTransaction | None:
    """Void credits of the whole wallet or of one inbound transaction; None for zero credits."""
    target = wallet_transaction_by_id(work, request.voided_transaction_id) if request.voided_transaction_id else None
    amount = voided_amount(wallet, target, value_or(request.voided_credits, None))
    if amount is None:
        return None
    cents, credits = amount
    void = new_transaction(wallet, order, TransactionKind.VOIDED, cents, credits, id=work.new_id(), now=work.now)
    if target is not None:
        void = replace(void, billing_entity_id=target.billing_entity_id or wallet.billing_entity_id)
    keep(work, void)
    take_out(work, void, source=target)
    return void


def get(work: Work, wallet_transaction_id: str) -> WalletTransaction:
    """The transaction with this id. Raises `NotFound`."""
    return wallet_transaction_by_id(work, wallet_transaction_id)


def list_of_wallet(
    work: Work, wallet_id: str, options: WalletTransactionFilters, paging: Paging
) -> Page[WalletTransaction]:
    """The transactions of a wallet, latest first. Raises `NotFound`."""
    conditions: list[Condition] = [eq("wallet_id", wallet_by_id(work, wallet_id).id)]
    for field, kind in (
        ("status", WalletTransactionStatus),
        ("transaction_type", TransactionType),
        ("transaction_status", TransactionKind),
    ):
        value = getattr(options, field)
        if value in list(kind):
            conditions.append(eq(field, value))
    for key, value in value_or(options.metadata, {}).items():
        if isinstance(value, str) and value:
            conditions.append(has_item("metadata", key=key, value=value))
    return work.page(WalletTransaction, *conditions, paging=paging, order=[desc("created_at"), asc("id")])


def consumptions(work: Work, wallet_transaction_id: str, paging: Paging) -> Page[WalletConsumption]:
    """The draws on an inbound transaction, latest first. Raises `NotFound`, and `Invalid` for an outbound one."""
    return _ledger(work, wallet_transaction_id, TransactionType.INBOUND, "inbound_id", paging)


def fundings(work: Work, wallet_transaction_id: str, paging: Paging) -> Page[WalletConsumption]:
    """The draws of an outbound transaction, latest first. Raises `NotFound`, and `Invalid` for an inbound one."""
    return _ledger(work, wallet_transaction_id, TransactionType.OUTBOUND, "outbound_id", paging)


def _ledger(
    work: Work, wallet_transaction_id: str, wanted: TransactionType, column: str, paging: Paging
) -> Page[WalletConsumption]:
    transaction = wallet_transaction_by_id(work, wallet_transaction_id)
    if transaction.transaction_type != wanted:
        raise Invalid(transaction_type="invalid_transaction_type")
    order = [desc("created_at"), asc("id")]
    return work.page(WalletConsumption, eq(column, transaction.id), paging=paging, order=order)


@without_backlog(Unrelated.CONNECTION)
def payment_url(work: Work, wallet_transaction_id: str) -> TopUpPage:
    """The page on which the customer pays for purchased credits at its provider.

    Raises `NotFound`, `Invalid` if there is no such page, and `ThirdPartyError` if the provider refuses.
    """
    transaction = wallet_transaction_by_id(work, wallet_transaction_id)
    if transaction.transaction_status != TransactionKind.PURCHASED:
        raise Invalid(base="wallet_transaction_not_purchased")
    if transaction.status == WalletTransactionStatus.SETTLED:
        raise Invalid(base="wallet_transaction_already_settled")
    invoice = None if transaction.invoice_id is None else find_invoice(work, transaction.invoice_id)
    if invoice is None:
        raise Invalid(base="wallet_transaction_has_no_attached_invoice")
    return TopUpPage(transaction=transaction, page=page_of_invoice(work, invoice))
