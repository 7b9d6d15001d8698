"""Wallet transactions: credits topped up and voided by request, listed, and traced to what funded or consumed them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from usagebill.core.errors import Invalid
from usagebill.core.invoice_custom_sections import Selection
from usagebill.core.numbers import ZERO
from usagebill.core.payment_methods import chosen_method
from usagebill.core.payments import PaymentPage
from usagebill.core.wallet_checks import (
    LONGEST_ORDER_NUMBER,
    LONGEST_TRANSACTION_NAME,
    MOST_PAIRS_OF_A_TOP_UP,
    credit_amount,
    metadata_pairs,
    metadata_pairs_code,
    priority_of,
    rounds_to_zero,
)
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
    WalletStatus,
    cents_of_credits,
    floored_credits,
    is_priority,
    taken_credits,
)
from usagebill.inputs import ABSENT, Input, Maybe, Paging, is_given, value_or
from usagebill.operations.backlog import settle_backlog
from usagebill.operations.invoices.payment_links import page_of_invoice
from usagebill.operations.wallet_ledger import keep, take_out
from usagebill.operations.wallets.inputs import CustomSectionChoice, order_number_of, selection_of
from usagebill.operations.wallets.top_ups import TopUp, new_transaction, top_up
from usagebill.queries.invoices import find_invoice
from usagebill.queries.payment_providers import names_method
from usagebill.queries.wallets import wallet_by_id, wallet_transaction_by_id
from usagebill.storage.conditions import Condition, asc, desc, eq, has_item
from usagebill.storage.ports import Page
from usagebill.work import Reader, Work

__all__ = [
    "TopUpPage",
    "WalletTransactionFilters",
    "WalletTransactionInput",
    "consumptions",
    "create",
    "fundings",
    "get",
    "list_of_wallet",
    "payment_url",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUpPage:
    """Where bought credits are paid."""

    transaction: WalletTransaction
    page: PaymentPage


@Input
class WalletTransactionInput:
    """Credits (texts) to buy, to grant and to void, in this order. A void takes from all, or from one transaction."""

    wallet_id: Maybe[str] = ABSENT
    paid_credits: Maybe[object] = ABSENT
    granted_credits: Maybe[object] = ABSENT
    voided_credits: Maybe[object] = ABSENT
    voided_transaction_id: Maybe[str] = ABSENT
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
    """All that are sent must hold; unknown values count for nothing. `metadata` maps keys to values."""

    status: Maybe[str] = ABSENT
    transaction_type: Maybe[str] = ABSENT
    transaction_status: Maybe[str] = ABSENT
    metadata: Maybe[Mapping[str, object]] = ABSENT


def create(work: Work, request: WalletTransactionInput) -> list[WalletTransaction]:
    """Buy, grant and void credits of a wallet, all or nothing: the transactions made, none for zero credits.

    What was due of the customer before is billed first. Raises `Invalid`.
    """
    wallet = work.tx.get(Wallet, request.wallet_id or "")
    if wallet is not None:
        settle_backlog(work, wallet.customer_id, needed=False)
        wallet = wallet_by_id(work, wallet.id)
    problems = _problems(work, wallet, request)
    if problems or wallet is None:
        raise Invalid(problems)
    order = _order(work, wallet, request)
    made = top_up(work, wallet, order)
    void = _void(work, wallet_by_id(work, wallet.id), request, order)
    return made if void is None else [*made, void]


def _credits(sent: Maybe[object]) -> Decimal | None:
    """The credits that were sent, zero for none; None if they are no amount of credits."""
    return ZERO if sent is None or not is_given(sent) else credit_amount(sent)


def _problems(reader: Reader, wallet: Wallet | None, request: WalletTransactionInput) -> dict[str, object]:
    problems: dict[str, object] = {}
    if wallet is None:
        problems["wallet_id"] = ["wallet_not_found"]
    elif wallet.status == WalletStatus.TERMINATED:
        problems["wallet_id"] = ["wallet_is_terminated"]
    for field in ("paid_credits", "granted_credits", "voided_credits"):
        credits = _credits(getattr(request, field))
        if credits is None:
            problems[field] = [f"invalid_{field}", "invalid_amount"]
        elif wallet is None:
            continue
        elif field != "voided_credits" and rounds_to_zero(wallet, credits):
            problems[field] = ["amount_rounds_to_zero"]
        elif field == "voided_credits" and floored_credits(credits) > wallet.credits_balance:
            problems[field] = ["insufficient_credits"]
    if request.voided_transaction_id and wallet is not None:
        code = _target_code(reader, wallet, request.voided_transaction_id)
        if code is not None:
            problems["voided_transaction_id"] = [code]
    return problems | _problems_of_words(reader, request, wallet)


def _target_code(reader: Reader, wallet: Wallet, transaction_id: str) -> str | None:
    target = reader.tx.get(WalletTransaction, transaction_id)
    if target is None or target.wallet_id != wallet.id or not target.is_inbound:
        return "wallet_transaction_not_found"
    return None if (target.remaining_amount_cents or 0) > 0 else "no_remaining_amount"


def _problems_of_words(reader: Reader, request: WalletTransactionInput, wallet: Wallet | None) -> dict[str, object]:
    """What is wrong with what the transactions are to say."""
    problems: dict[str, object] = {}
    if request.metadata is not None and is_given(request.metadata) and request.metadata != {}:
        code = metadata_pairs_code(request.metadata, MOST_PAIRS_OF_A_TOP_UP)
        if code is not None:
            problems["metadata"] = [code]
    name = value_or(request.name, "")
    if not isinstance(name, str):
        problems["name"] = ["invalid_value"]
    elif len(name) > LONGEST_TRANSACTION_NAME:
        problems["name"] = ["too_long"]
    if not names_method(reader, value_or(request.payment_method, None), "" if wallet is None else wallet.customer_id):
        problems["payment_method"] = ["invalid_payment_method"]
    if not is_priority(priority_of(value_or(request.priority, LOWEST_PRIORITY)) or 0):
        problems["priority"] = ["value_is_invalid"]
    if len(order_number_of(request.purchase_order_number) or "") > LONGEST_ORDER_NUMBER:
        problems["purchase_order_number"] = ["value_is_too_long"]
    return problems


def _order(reader: Reader, wallet: Wallet, request: WalletTransactionInput) -> TopUp:
    return TopUp(
        paid=_credits(request.paid_credits) or ZERO,
        granted=_credits(request.granted_credits) or ZERO,
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
    """Take credits away, from the whole wallet or from one inbound transaction; None for no credits at all."""
    target = wallet_transaction_by_id(work, request.voided_transaction_id) if request.voided_transaction_id else None
    if target is not None and value_or(request.voided_credits, None) is None:
        # A credit note or an overdue invoice may have used it up just now.
        cents = target.remaining_amount_cents or 0
        credits = taken_credits(wallet, cents)
        nothing = cents == 0
    else:
        credits = floored_credits(_credits(request.voided_credits) or ZERO)
        cents = cents_of_credits(credits, wallet.rate_amount, wallet.currency)
        nothing = credits == ZERO
    if nothing:
        return None
    if target is not None and cents > (target.remaining_amount_cents or 0):
        raise Invalid(amount_cents="exceeds_remaining_transaction_amount")
    if cents > wallet.balance_cents:
        raise Invalid(amount_cents="exceeds_available_amount")
    void = new_transaction(work, wallet, order, TransactionKind.VOIDED, cents, credits)
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
    """What was taken from an inbound transaction, latest first. Raises `NotFound`; `Invalid` for an outbound one."""
    return _ledger(work, wallet_transaction_id, TransactionType.INBOUND, "inbound_id", paging)


def fundings(work: Work, wallet_transaction_id: str, paging: Paging) -> Page[WalletConsumption]:
    """What an outbound transaction was paid with, latest first. Raises `NotFound`, `Invalid` for an inbound one."""
    return _ledger(work, wallet_transaction_id, TransactionType.OUTBOUND, "outbound_id", paging)


def _ledger(
    work: Work, wallet_transaction_id: str, wanted: TransactionType, column: str, paging: Paging
) -> Page[WalletConsumption]:
    transaction = wallet_transaction_by_id(work, wallet_transaction_id)
    if transaction.transaction_type != wanted:
        raise Invalid(transaction_type="invalid_transaction_type")
    order = [desc("created_at"), asc("id")]
    return work.page(WalletConsumption, eq(column, transaction.id), paging=paging, order=order)


def payment_url(work: Work, wallet_transaction_id: str) -> TopUpPage:
    """The page on which the customer pays for bought credits at its provider.

    Raises `NotFound`, `Invalid` where there is no such page, and `ThirdPartyError` where the provider refuses.
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
