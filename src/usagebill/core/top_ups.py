"""Top-ups: the order to add credits to a wallet, its transactions, and the effect of a payment on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from usagebill.core.invoice_custom_sections import Selection
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import ZERO
from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.statuses import PaymentStatus
from usagebill.core.wallet_transactions import (
    KINDS,
    MetadataPair,
    TransactionKind,
    TransactionSource,
    TransactionType,
    WalletTransaction,
    WalletTransactionEvent,
    WalletTransactionStatus,
)
from usagebill.core.wallets import LOWEST_PRIORITY, Wallet


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUp:
    """Credits to add to a wallet, and the fields of its transactions. `ignore_limits` applies to bought credits."""

    paid: Decimal = ZERO
    granted: Decimal = ZERO
    source: TransactionSource = TransactionSource.MANUAL
    rule_id: str | None = None
    ignore_limits: bool = False
    requires_payment: bool = False
    priority: int = LOWEST_PRIORITY
    name: str | None = None
    metadata: tuple[MetadataPair, ...] = ()
    purchase_order_number: str | None = None
    payment_method: PaymentMethodChoice | None = None
    sections: Selection = field(default_factory=Selection)


def new_transaction(
    wallet: Wallet, order: TopUp, kind: TransactionKind, cents: int, credits: Decimal, *, id: str, now: datetime
) -> WalletTransaction:
    """A transaction of the wallet; bought credits wait for their payment, all others are settled."""
    is_inbound = kind in KINDS[TransactionType.INBOUND]
    is_pending = kind == TransactionKind.PURCHASED
    return WalletTransaction(
        id=id,
        organization_id=wallet.organization_id,
        wallet_id=wallet.id,
        customer_id=wallet.customer_id,
        transaction_type=TransactionType.INBOUND if is_inbound else TransactionType.OUTBOUND,
        transaction_status=kind,
        status=WalletTransactionStatus.PENDING if is_pending else WalletTransactionStatus.SETTLED,
        amount_cents=cents,
        credit_amount=credits,
        remaining_amount_cents=cents if kind == TransactionKind.GRANTED else None,
        source=order.source,
        priority=order.priority,
        billing_entity_id=wallet.billing_entity_id,
        rule_id=order.rule_id,
        invoice_requires_successful_payment=order.requires_payment,
        name=order.name,
        purchase_order_number=order.purchase_order_number if is_inbound else None,
        metadata=order.metadata,
        skip_invoice_custom_sections=order.sections.skip,
        invoice_custom_section_ids=order.sections.section_ids,
        settled_at=None if is_pending else now,
        created_at=now,
        updated_at=now,
    )


def purchase_event(payment_status: str, invoice: Invoice) -> WalletTransactionEvent | None:
    """The event of bought credits whose invoice was paid or not, as `payment_status` says; None if nothing happens to
    them.

    An invoice that was voided before it was paid brings no credits, nor does one that a credit note has settled.
    """
    if payment_status == PaymentStatus.FAILED:
        return WalletTransactionEvent.PAYMENT_FAILED
    if invoice.status == InvoiceStatus.VOIDED and invoice.payment_status != PaymentStatus.SUCCEEDED:
        return None
    return WalletTransactionEvent.OFFSET if invoice.total_offset_amount_cents > 0 else WalletTransactionEvent.PAID
