"""Wallet transactions: inbound and outbound credits, their life cycle, and the inbound credits behind outbound ones.

The life cycle of a transaction is `TRANSITIONS`; only inbound purchased ones ever wait. Outbound credits are drawn from
settled inbound transactions, with a `WalletConsumption` for each, so that every cent spent leads back to a grant or a
payment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from usagebill.core.copies import replace
from usagebill.core.life_cycles import following
from usagebill.core.numbers import total
from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.wallets import LOWEST_PRIORITY


class WalletTransactionStatus(StrEnum):
    """The state of a transaction."""

    PENDING = "pending"
    SETTLED = "settled"
    FAILED = "failed"


class WalletTransactionEvent(StrEnum):
    """Events of its top-up invoice that change its status."""

    PAID = "paid"
    PAYMENT_FAILED = "payment_failed"
    OFFSET = "offset"  # a credit note settled the invoice: nobody paid


# The invoice of the purchase is settled.
SETTLING = (WalletTransactionEvent.PAID, WalletTransactionEvent.OFFSET)

_S, _E = WalletTransactionStatus, WalletTransactionEvent

# A settled transaction stays settled: credits added by then are voided by hand.
TRANSITIONS: Mapping[tuple[WalletTransactionStatus, WalletTransactionEvent], WalletTransactionStatus] = {
    (_S.PENDING, _E.PAID): _S.SETTLED,
    (_S.PENDING, _E.PAYMENT_FAILED): _S.FAILED,
    (_S.PENDING, _E.OFFSET): _S.FAILED,
    (_S.FAILED, _E.PAID): _S.SETTLED,
    (_S.FAILED, _E.PAYMENT_FAILED): _S.FAILED,
    (_S.FAILED, _E.OFFSET): _S.FAILED,
    (_S.SETTLED, _E.PAID): _S.SETTLED,
    (_S.SETTLED, _E.PAYMENT_FAILED): _S.SETTLED,
    (_S.SETTLED, _E.OFFSET): _S.SETTLED,
}


def transition(status: WalletTransactionStatus, event: WalletTransactionEvent) -> WalletTransactionStatus:
    """The status that follows `event` by `TRANSITIONS`."""
    return following(TRANSITIONS, status, event)


class TransactionType(StrEnum):
    """The direction of credits."""

    INBOUND = "inbound"
    OUTBOUND = "outbound"


class TransactionKind(StrEnum):
    """The cause (`transaction_status` in the API): purchased and granted ones come in, the others go out."""

    PURCHASED = "purchased"
    GRANTED = "granted"
    VOIDED = "voided"
    INVOICED = "invoiced"


# The kinds of each direction.
KINDS: Mapping[TransactionType, tuple[TransactionKind, ...]] = {
    TransactionType.INBOUND: (TransactionKind.PURCHASED, TransactionKind.GRANTED),
    TransactionType.OUTBOUND: (TransactionKind.VOIDED, TransactionKind.INVOICED),
}


class TransactionSource(StrEnum):
    """The origin of a transaction: a request or an invoice, or a recurring rule with this trigger."""

    MANUAL = "manual"
    INTERVAL = "interval"
    THRESHOLD = "threshold"


# Created by recurring rules: nobody is waiting for them.
OF_RULES = (TransactionSource.INTERVAL, TransactionSource.THRESHOLD)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataPair:
    """A value that the caller stores with a transaction or a recurring rule."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidFee:
    """Cents of a fee that a wallet paid."""

    fee_id: str
    amount_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletTransaction:
    """Credits that came in or went out, and their worth in cents of the wallet's currency; neither is negative.

    `remaining_amount_cents` is the unused part of a settled inbound transaction; null for all others. `invoice_id` is
    the invoice of a purchase, or the one that was paid; `voided_invoice_id` the one whose void gave the credits back,
    `credit_note_id` the one that refunded them. `rule_id` is the recurring rule that created it. `paid_fees` are the
    amounts it paid of each fee of an invoice, in that order.
    """

    id: str
    organization_id: str
    wallet_id: str
    customer_id: str
    transaction_type: TransactionType
    transaction_status: TransactionKind
    status: WalletTransactionStatus
    amount_cents: int
    credit_amount: Decimal
    created_at: datetime
    updated_at: datetime
    source: TransactionSource = TransactionSource.MANUAL
    remaining_amount_cents: int | None = None
    priority: int = LOWEST_PRIORITY
    invoice_id: str | None = None
    credit_note_id: str | None = None
    voided_invoice_id: str | None = None
    billing_entity_id: str | None = None
    rule_id: str | None = None
    invoice_requires_successful_payment: bool = False
    name: str | None = None
    purchase_order_number: str | None = None
    metadata: tuple[MetadataPair, ...] = ()
    paid_fees: tuple[PaidFee, ...] = ()
    payment_method: PaymentMethodChoice | None = None
    skip_invoice_custom_sections: bool = False
    invoice_custom_section_ids: tuple[str, ...] = ()
    settled_at: datetime | None = None
    failed_at: datetime | None = None

    @property
    def is_inbound(self) -> bool:
        """Whether it adds credits."""
        return self.transaction_type == TransactionType.INBOUND


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletConsumption:
    """Cents that an outbound transaction took from an inbound one; a pair has at most one."""

    id: str
    organization_id: str
    wallet_id: str
    inbound_id: str
    outbound_id: str
    amount_cents: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Draw:
    """Cents to take from an inbound transaction."""

    inbound: WalletTransaction
    amount_cents: int


def paid(transaction: WalletTransaction, now: datetime) -> WalletTransaction:
    """The purchase after its invoice was paid; a settled one is unchanged."""
    status = transition(transaction.status, WalletTransactionEvent.PAID)
    if status == transaction.status:
        return transaction
    return replace(
        transaction, status=status, settled_at=now, remaining_amount_cents=transaction.amount_cents, updated_at=now
    )


def unpaid(transaction: WalletTransaction, event: WalletTransactionEvent, now: datetime) -> WalletTransaction:
    """The purchase after its payment failed, or its invoice was settled without one; only pending ones change."""
    status = transition(transaction.status, event)
    if status == transaction.status:
        return transaction
    return replace(transaction, status=status, failed_at=now, updated_at=now)


def returned(
    outbound: WalletTransaction, cents: int, credits: Decimal, *, voided_invoice_id: str, id: str, now: datetime
) -> WalletTransaction:
    """The grant that gives back `cents`, in `credits`, of what an outbound transaction paid for a voided invoice.

    It is a grant even if the credits had been purchased, as nobody pays for them again.
    """
    return WalletTransaction(
        id=id,
        organization_id=outbound.organization_id,
        wallet_id=outbound.wallet_id,
        customer_id=outbound.customer_id,
        transaction_type=TransactionType.INBOUND,
        transaction_status=TransactionKind.GRANTED,
        status=WalletTransactionStatus.SETTLED,
        amount_cents=cents,
        credit_amount=credits,
        remaining_amount_cents=cents,
        voided_invoice_id=voided_invoice_id,
        billing_entity_id=outbound.billing_entity_id,
        purchase_order_number=outbound.purchase_order_number,
        settled_at=now,
        created_at=now,
        updated_at=now,
    )


def refunding(
    purchase: WalletTransaction, cents: int, credits: Decimal, *, credit_note_id: str, id: str, now: datetime
) -> WalletTransaction:
    """The transaction that takes out bought credits that a credit note refunds."""
    return WalletTransaction(
        id=id,
        organization_id=purchase.organization_id,
        wallet_id=purchase.wallet_id,
        customer_id=purchase.customer_id,
        transaction_type=TransactionType.OUTBOUND,
        transaction_status=TransactionKind.VOIDED,
        status=WalletTransactionStatus.SETTLED,
        amount_cents=cents,
        credit_amount=credits,
        credit_note_id=credit_note_id,
        billing_entity_id=purchase.billing_entity_id,
        settled_at=now,
        created_at=now,
        updated_at=now,
    )


def consumption_order(inbound: Iterable[WalletTransaction]) -> list[WalletTransaction]:
    """The inbound transactions with credits left, in the order in which they are drawn from.

    By priority, granted before purchased, then older ones first.
    """
    return sorted(
        (transaction for transaction in inbound if (transaction.remaining_amount_cents or 0) > 0),
        key=lambda transaction: (
            transaction.priority,
            transaction.transaction_status != TransactionKind.GRANTED,
            transaction.created_at,
            transaction.id,
        ),
    )


def drawn(inbound: Iterable[WalletTransaction], amount_cents: int) -> list[Draw]:
    """The draws from inbound transactions, in order, that add up to `amount_cents`.

    Raises `ValueError` if less is left.
    """
    draws: list[Draw] = []
    missing = amount_cents
    for transaction in consumption_order(inbound):
        if missing <= 0:
            break
        part = min(missing, transaction.remaining_amount_cents or 0)
        draws.append(Draw(transaction, part))
        missing -= part
    if missing > 0:
        raise ValueError(f"{missing} of {amount_cents} cents are not there")
    return draws


def after_draw(draw: Draw, now: datetime) -> WalletTransaction:
    """The inbound transaction after the cents were taken."""
    remaining_cents = (draw.inbound.remaining_amount_cents or 0) - draw.amount_cents
    if remaining_cents < 0:
        raise ValueError(f"transaction {draw.inbound.id} has no {draw.amount_cents} cents left")
    return replace(draw.inbound, remaining_amount_cents=remaining_cents, updated_at=now)


def pending_credits(transactions: Sequence[WalletTransaction]) -> Decimal:
    """The credits of transactions that wait for their payment."""
    pending = WalletTransactionStatus.PENDING
    return total(transaction.credit_amount for transaction in transactions if transaction.status == pending)
