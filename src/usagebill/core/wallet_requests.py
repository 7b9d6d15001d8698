"""Requests about wallets: refused wallets, changes, top-ups and voids of credits, and their error codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from usagebill.core.errors import Invalid
from usagebill.core.instants import instant_of
from usagebill.core.invoice_custom_sections import Selection
from usagebill.core.numbers import ZERO
from usagebill.core.payment_methods import chosen_method
from usagebill.core.wallet_checks import (
    LONGEST_ORDER_NUMBER,
    LONGEST_TRANSACTION_NAME,
    MOST_PAIRS,
    MOST_PAIRS_OF_A_TOP_UP,
    are_fee_types,
    credit_amount,
    limit_code,
    metadata_pairs_code,
    order_number_of,
    priority_of,
    rounds_to_zero,
    wallet_problems,
)
from usagebill.core.wallet_transactions import WalletTransaction
from usagebill.core.wallets import (
    LOWEST_PRIORITY,
    MOST_ACTIVE_WALLETS,
    Wallet,
    WalletStatus,
    cents_of_credits,
    floored_credits,
    is_priority,
    taken_credits,
)

# Null clears these.
_CLEARED_BY_NULL = ("name", "paid_top_up_min_amount_cents", "paid_top_up_max_amount_cents")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWallet:
    """A request for a wallet, with facts about its customer.

    `active_wallets` counts those of the customer, None if there is no such customer. `paid` and `granted` are None if
    no valid amount of credits was sent. For all other fields, None means not sent.
    """

    active_wallets: int | None
    paid: Decimal | None = ZERO
    granted: Decimal | None = ZERO
    has_expiration: bool = False
    expires_at: datetime | None = None
    transaction_metadata: object = None
    knows_metrics: bool = True
    fee_types: Sequence[str] = ()
    knows_method: bool = True
    transaction_name: object = None
    transaction_priority: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUpRequest:
    """A request about a wallet's credits; None means not sent.

    `target` is the transaction from which credits are voided, if one with the id sent exists.
    """

    paid_credits: object = None
    granted_credits: object = None
    voided_credits: object = None
    voided_transaction_id: str | None = None
    target: WalletTransaction | None = None
    metadata: object = None
    name: object = ""
    knows_method: bool = True
    priority: object = LOWEST_PRIORITY
    purchase_order_number: str | None = None


def sent_credits(sent: object) -> Decimal | None:
    """The credits that were sent, zero if none were; None if they are no amount of credits."""
    return ZERO if sent is None else credit_amount(sent)


def new_wallet_problems(request: NewWallet, now: datetime) -> dict[str, object]:
    """The errors of a request for a wallet, as field -> codes; errors of the wallet itself come from
    `wallet_problems`.
    """
    problems: dict[str, object] = {}
    if request.active_wallets is None:
        problems["customer"] = ["customer_not_found"]
    elif request.active_wallets >= MOST_ACTIVE_WALLETS:
        problems["customer"] = ["wallet_limit_reached"]
    if request.paid is None:
        problems["paid_credits"] = ["invalid_paid_credits", "invalid_amount"]
    if request.granted is None:
        problems["granted_credits"] = ["invalid_granted_credits", "invalid_amount"]
    if request.has_expiration and (request.expires_at is None or request.expires_at <= now):
        problems["expiration_at"] = ["invalid_date"]
    if request.transaction_metadata is not None:
        code = metadata_pairs_code(request.transaction_metadata, MOST_PAIRS)
        if code is not None:
            problems["metadata"] = [code]
    if not request.knows_metrics or not are_fee_types(request.fee_types):
        problems["applies_to"] = ["invalid_limitations"]
    if not request.knows_method:
        problems["payment_method"] = ["invalid_payment_method"]
    name = request.transaction_name
    if name is not None and (not isinstance(name, str) or len(name) > LONGEST_TRANSACTION_NAME):
        problems["name"] = ["too_long" if isinstance(name, str) else "invalid_value"]
    if request.transaction_priority is not None and not is_priority(priority_of(request.transaction_priority) or 0):
        problems["transaction_priority"] = ["value_is_invalid"]
    return problems


def check_first_credits(wallet: Wallet, paid: Decimal, granted: Decimal, *, ignores_limits: bool) -> None:
    """Raises `Invalid` if the credits that a wallet starts with are worth nothing, or break its limits."""
    for field, credits in (("paid_credits", paid), ("granted_credits", granted)):
        if rounds_to_zero(wallet, credits):
            raise Invalid({field: ["amount_rounds_to_zero"]})
    if floored_credits(paid) > ZERO and not ignores_limits:
        problem = limit_code(wallet, paid)
        if problem is not None:
            raise Invalid(paid_credits=problem)


def sent_expiration(sent: object, now: datetime) -> datetime | None:
    """The instant at which a wallet is to expire, None for never. Raises `Invalid` for one that is not after `now`."""
    if sent is None or sent == "":
        return None
    instant = instant_of(sent)
    if instant is None or instant <= now:
        raise Invalid(expiration_at="invalid_date")
    return instant


def sent_fee_types(sent: Sequence[str]) -> tuple[str, ...]:
    """The types of fees that a wallet is limited to, each once. Raises `Invalid` for types that it cannot pay."""
    fee_types = tuple(dict.fromkeys(sent))
    if not are_fee_types(fee_types):
        raise Invalid(allowed_fee_types="invalid_fee_types")
    return fee_types


def wallet_as_sent(wallet: Wallet, sent: Mapping[str, object], selection: Selection) -> Wallet:
    """The wallet after a change of the fields that need no look-up: fields in `sent` are set, others stay.

    Null clears the name, both limits of top-ups, the order number and the payment method, and leaves other fields. Its
    custom sections become `selection`.
    """
    fields: dict[str, Any] = {name: sent[name] for name in _CLEARED_BY_NULL if name in sent}
    if sent.get("code"):
        fields["code"] = sent["code"]
    if sent.get("priority") is not None:
        fields["priority"] = priority_of(sent["priority"]) or 0
    gate = sent.get("invoice_requires_successful_payment")
    if isinstance(gate, bool):
        fields["invoice_requires_successful_payment"] = gate
    if isinstance(sent.get("hard_stop"), bool):
        fields["hard_stop"] = sent["hard_stop"]
    if "purchase_order_number" in sent:
        fields["purchase_order_number"] = order_number_of(sent["purchase_order_number"])
    if "payment_method" in sent:
        fields["payment_method"] = chosen_method(sent["payment_method"])
    return replace(
        wallet,
        **fields,
        skip_invoice_custom_sections=selection.skip,
        invoice_custom_section_ids=selection.section_ids,
    )


def changed_wallet_problems(before: Wallet, after: Wallet, *, is_code_taken: bool) -> dict[str, list[str]]:
    """The errors of a change of a wallet from `before` to `after`, as field -> codes. `is_code_taken` counts only if
    the code changes.
    """
    problems = wallet_problems(after)
    if after.code != before.code and is_code_taken:
        problems["code"] = ["value_already_exist"]
    return problems


def pays_for_other_usage(before: Wallet, after: Wallet) -> bool:
    """Whether a change affects which usage the wallet is to pay for, so that ongoing balances are out of date."""
    return _use(before) != _use(after)


def _use(wallet: Wallet) -> tuple[object, ...]:
    return wallet.code, wallet.priority, wallet.fee_types, wallet.billable_metric_ids


def top_up_problems(wallet: Wallet | None, request: TopUpRequest) -> dict[str, object]:
    """The errors of a request to buy, grant or void credits, as field -> codes; `wallet` is None if there is none."""
    problems: dict[str, object] = {}
    if wallet is None:
        problems["wallet_id"] = ["wallet_not_found"]
    elif wallet.status == WalletStatus.TERMINATED:
        problems["wallet_id"] = ["wallet_is_terminated"]
    for field in ("paid_credits", "granted_credits", "voided_credits"):
        credits = sent_credits(getattr(request, field))
        if credits is None:
            problems[field] = [f"invalid_{field}", "invalid_amount"]
        elif wallet is None:
            continue
        elif field != "voided_credits" and rounds_to_zero(wallet, credits):
            problems[field] = ["amount_rounds_to_zero"]
        elif field == "voided_credits" and floored_credits(credits) > wallet.credits_balance:
            problems[field] = ["insufficient_credits"]
    if request.voided_transaction_id and wallet is not None:
        code = _target_code(wallet, request.target)
        if code is not None:
            problems["voided_transaction_id"] = [code]
    return problems | _text_problems(request)


def _target_code(wallet: Wallet, target: WalletTransaction | None) -> str | None:
    if target is None or target.wallet_id != wallet.id or not target.is_inbound:
        return "wallet_transaction_not_found"
    return None if (target.remaining_amount_cents or 0) > 0 else "no_remaining_amount"


def _text_problems(request: TopUpRequest) -> dict[str, object]:
    problems: dict[str, object] = {}
    if request.metadata is not None and request.metadata != {}:
        code = metadata_pairs_code(request.metadata, MOST_PAIRS_OF_A_TOP_UP)
        if code is not None:
            problems["metadata"] = [code]
    if not isinstance(request.name, str):
        problems["name"] = ["invalid_value"]
    elif len(request.name) > LONGEST_TRANSACTION_NAME:
        problems["name"] = ["too_long"]
    if not request.knows_method:
        problems["payment_method"] = ["invalid_payment_method"]
    if not is_priority(priority_of(request.priority) or 0):
        problems["priority"] = ["value_is_invalid"]
    if len(request.purchase_order_number or "") > LONGEST_ORDER_NUMBER:
        problems["purchase_order_number"] = ["value_is_too_long"]
    return problems


def voided_amount(wallet: Wallet, target: WalletTransaction | None, sent: object) -> tuple[int, Decimal] | None:
    """The cents and credits that a request voids, of the whole wallet or of one inbound transaction, its `target`.

    Without an amount, everything left in the target. None for zero credits. Raises `Invalid` for more than there are.
    """
    if target is not None and sent is None:
        # A credit note or an overdue invoice may have just used it up.
        cents = target.remaining_amount_cents or 0
        credits = taken_credits(wallet, cents)
        if cents == 0:
            return None
    else:
        credits = floored_credits(sent_credits(sent) or ZERO)
        cents = cents_of_credits(credits, wallet.rate_amount, wallet.currency)
        if credits == ZERO:
            return None
    if target is not None and cents > (target.remaining_amount_cents or 0):
        raise Invalid(amount_cents="exceeds_remaining_transaction_amount")
    if cents > wallet.balance_cents:
        raise Invalid(amount_cents="exceeds_available_amount")
    return cents, credits
