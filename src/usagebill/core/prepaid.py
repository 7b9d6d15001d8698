"""Prepaid credits on an invoice: the amount that each wallet pays, the fees it pays for, and the grants it uses.

Fees are paid in buckets, one per fee type, metric and target wallet, largest first. Wallets pay in their order, each up
to its limits and balance; the sum that a wallet pays is rounded to whole cents once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from usagebill.core.fees import Fee, FeeType
from usagebill.core.numbers import ZERO, add, round_cents, subtract, total
from usagebill.core.taxes import net_of_coupons
from usagebill.core.wallet_transactions import (
    Draw,
    PaidFee,
    TransactionKind,
    TransactionType,
    WalletTransaction,
    WalletTransactionStatus,
    drawn,
)
from usagebill.core.wallets import Wallet, in_order_of_use, may_pay, taken_credits, target_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableWallet:
    """A wallet that may pay for an invoice, and its inbound transactions with remaining credits."""

    wallet: Wallet
    inbound: tuple[WalletTransaction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletShare:
    """The amounts that a wallet pays for an invoice, in whole cents: in total and by fee."""

    wallet: Wallet
    amount_cents: int
    fees: tuple[PaidFee, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeeFunding:
    """The cents of a fee that were paid from one inbound transaction."""

    fee_id: str
    inbound_id: str
    amount_cents: int


@dataclass(slots=True)
class _Line:
    """A fee, and its unpaid (fractions of) cents."""

    fee: Fee
    unpaid: Decimal


@dataclass(slots=True)
class _Bucket:
    """Lines that the same wallets may pay for, and their unpaid cents together."""

    lines: list[_Line] = field(default_factory=list)
    unpaid: Decimal = ZERO

    def put(self, fee: Fee, cents: Decimal) -> None:
        self.lines.append(_Line(fee, cents))
        self.unpaid = add(self.unpaid, cents)

    def take(self, amount: Decimal) -> list[tuple[Fee, Decimal]]:
        """Pay `amount` of the lines, one after another."""
        parts = []
        for line in self.lines:
            part = min(line.unpaid, amount)
            if part > ZERO:
                line.unpaid, amount = subtract(line.unpaid, part), subtract(amount, part)
                self.unpaid = subtract(self.unpaid, part)
                parts.append((line.fee, part))
        return parts


def payable(fee: Fee) -> Decimal:
    """The amount of a fee that wallets may pay, in (fractions of) cents: with taxes, less coupons and credit notes."""
    net = net_of_coupons(fee)
    if net == ZERO:
        return ZERO
    return max(ZERO, subtract(add(net, fee.taxes_precise_amount_cents), fee.precise_credit_notes_amount_cents))


def bucket_key(fee: Fee) -> tuple[str, str | None, str]:
    """The bucket of a fee: its type and, for usage, its metric and target wallet."""
    return fee.fee_type, fee.billable_metric_id if fee.fee_type == FeeType.CHARGE else None, target_of(fee)


def _buckets(fees: Iterable[Fee], total_cents: int) -> list[_Bucket]:
    """The buckets, largest first. The largest takes the rounding difference to the invoice's total."""
    by_key: dict[tuple[str, str | None, str], _Bucket] = {}
    for fee in fees:
        cap = payable(fee)
        if cap > ZERO:
            by_key.setdefault(bucket_key(fee), _Bucket()).put(fee, cap)
    buckets = sorted(by_key.values(), key=lambda bucket: bucket.unpaid, reverse=True)
    gap = subtract(Decimal(total_cents), total(bucket.unpaid for bucket in buckets))
    if ZERO < gap <= len(buckets):
        largest = buckets[0]
        last = largest.lines[-1]
        last.unpaid, largest.unpaid = add(last.unpaid, gap), add(largest.unpaid, gap)
    return buckets


def allocated(fees: Sequence[Fee], total_cents: int, wallets: Iterable[Wallet]) -> list[WalletShare]:
    """The shares of the customer's `wallets` in an invoice of `total_cents` before prepaid credits.

    Wallets pay in the order of their use, each for the fees that its limits allow and no more than its balance. All
    shares together are at most `total_cents`. The wallets must be in the invoice's currency.
    """
    buckets = _buckets(fees, total_cents)
    unpaid, remaining_cents = Decimal(total_cents), total_cents
    shares = []
    for wallet in in_order_of_use(wallets):
        held = Decimal(wallet.balance_cents)
        parts: list[tuple[Fee, Decimal]] = []
        for bucket in buckets:
            part = min(bucket.unpaid, held, unpaid)
            if part > ZERO and may_pay(wallet, bucket.lines[0].fee):
                parts += bucket.take(part)
                held, unpaid = subtract(held, part), subtract(unpaid, part)
        # Two wallets that both round half a cent up would pay a cent too many.
        cents = min(round_cents(total(part for _, part in parts)), remaining_cents)
        if cents > 0:
            remaining_cents -= cents
            shares.append(WalletShare(wallet=wallet, amount_cents=cents, fees=_in_whole_cents(parts, cents)))
    return shares


def _in_whole_cents(parts: Sequence[tuple[Fee, Decimal]], cents: int) -> tuple[PaidFee, ...]:
    """The parts in whole cents that add up to `cents`, rounded cumulatively."""
    paid = []
    end, before = ZERO, 0
    for position, (fee, part) in enumerate(parts, start=1):
        end = add(end, part)
        upto = cents if position == len(parts) else min(round_cents(end), cents)
        if upto > before:
            paid.append(PaidFee(fee_id=fee.id, amount_cents=upto - before))
        before = upto
    return tuple(paid)


def invoiced_transaction(
    share: WalletShare, *, invoice_id: str, now: datetime, new_id: Callable[[], str]
) -> WalletTransaction:
    """The transaction by which a wallet pays its share of an invoice."""
    wallet = share.wallet
    return WalletTransaction(
        id=new_id(),
        organization_id=wallet.organization_id,
        wallet_id=wallet.id,
        customer_id=wallet.customer_id,
        transaction_type=TransactionType.OUTBOUND,
        transaction_status=TransactionKind.INVOICED,
        status=WalletTransactionStatus.SETTLED,
        amount_cents=share.amount_cents,
        credit_amount=taken_credits(wallet, share.amount_cents),
        invoice_id=invoice_id,
        billing_entity_id=wallet.billing_entity_id,
        paid_fees=share.fees,
        settled_at=now,
        created_at=now,
        updated_at=now,
    )


def split_by_origin(shares: Iterable[WalletShare], wallets: Iterable[AvailableWallet]) -> tuple[int, int]:
    """The cents of the shares that come from granted credits, and those from purchased ones."""
    inbound = {available.wallet.id: available.inbound for available in wallets}
    granted = purchased = 0
    for share in shares:
        for draw in drawn(inbound[share.wallet.id], share.amount_cents):
            if draw.inbound.transaction_status == TransactionKind.GRANTED:
                granted += draw.amount_cents
            else:
                purchased += draw.amount_cents
    return granted, purchased


def fee_fundings(paid: Sequence[PaidFee], draws: Sequence[Draw]) -> list[FeeFunding]:
    """The fee and the grant behind each part of a transaction: fees in the order of payment, grants as drawn."""
    fundings = []
    undrawn = [(draw.inbound.id, draw.amount_cents) for draw in reversed(draws)]
    for part in paid:
        missing = part.amount_cents
        while missing > 0 and undrawn:
            inbound_id, available = undrawn.pop()
            cents = min(missing, available)
            fundings.append(FeeFunding(fee_id=part.fee_id, inbound_id=inbound_id, amount_cents=cents))
            missing -= cents
            if available > cents:
                undrawn.append((inbound_id, available - cents))
    return fundings
