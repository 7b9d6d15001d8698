"""Fees, taxes, coupons and credit notes from the numbers that matter to a test, the rest filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, TypeVar

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.contracts import Contract, Parties
from usagebill.core.coupons import AppliedCoupon, Coupon, CouponStatus, Targets
from usagebill.core.credit_notes import CreditNote, CreditNoteItem
from usagebill.core.customers import Customer
from usagebill.core.events import Event, JsonValue
from usagebill.core.fees import Fee, FeeItem, FeeType
from usagebill.core.invoices.records import Invoice
from usagebill.core.invoices.totals import AvailableCoupon, InvoiceInProgress, SettlementInputs, settled, taxed
from usagebill.core.plans import Plan
from usagebill.core.prepaid import AvailableWallet
from usagebill.core.subscriptions import Subscription
from usagebill.core.taxes import Tax
from usagebill.core.wallet_transactions import (
    TransactionKind,
    TransactionType,
    WalletTransaction,
    WalletTransactionStatus,
)
from usagebill.core.wallets import Wallet

T = TypeVar("T")

NOW = datetime(2024, 5, 1, tzinfo=UTC)


def ids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"id{next(numbers)}"


def fee(amount_cents: int, *, precise: str | None = None, **fields: Any) -> Fee:
    """A charge fee in euros. Its id is `fee` by default."""
    item = FeeItem(type=FeeType.CHARGE, item_type="BillableMetric", id="metric", code="calls", name="Calls")
    values: dict[str, Any] = {
        "id": "fee",
        "organization_id": "organization",
        "customer_id": "customer",
        "fee_type": "charge",
        "item": item,
        "amount_cents": amount_cents,
        "precise_amount_cents": Decimal(precise or amount_cents),
        "currency": "EUR",
        "units": Decimal(1),
        "created_at": NOW,
        "updated_at": NOW,
        **fields,
    }
    return Fee(**values)


def fees(*amounts: int, **fields: Any) -> list[Fee]:
    """Fees of these amounts, with ids f0, f1, ..."""
    return [fee(amount, id=f"f{place}", **fields) for place, amount in enumerate(amounts)]


def tax(rate: str, code: str | None = None) -> Tax:
    return Tax(
        id=f"tax-{code or rate}",
        organization_id="organization",
        name=code or rate,
        code=code or rate,
        rate=Decimal(rate),
        created_at=NOW,
        updated_at=NOW,
    )


def coupon(
    id: str = "coupon",
    *,
    cents: int | None = None,
    rate: str | None = None,
    frequency: str = "once",
    metrics: Sequence[str] | None = None,
    plans: Sequence[str] | None = None,
    left: int | None = None,
    at: int = 0,
    currency: str = "EUR",
    duration: int | None = None,
) -> AvailableCoupon:
    """A coupon of `cents` or of `rate` percent, `left` of it unused, applied `at` minutes after `NOW`."""
    when = NOW + timedelta(minutes=at)
    return AvailableCoupon(
        applied=AppliedCoupon(
            id=f"applied-{id}",
            organization_id="organization",
            coupon_id=id,
            customer_id="customer",
            status=CouponStatus.ACTIVE,
            frequency=frequency,
            created_at=when,
            updated_at=when,
            amount_cents=cents,
            amount_currency=None if cents is None else currency,
            percentage_rate=None if rate is None else Decimal(rate),
            frequency_duration=duration,
            frequency_duration_remaining=duration,
        ),
        coupon=Coupon(
            id=id,
            organization_id="organization",
            name=id,
            code=id,
            coupon_type="percentage" if cents is None else "fixed_amount",
            frequency=frequency,
            expiration="no_expiration",
            created_at=when,
            updated_at=when,
        ),
        targets=Targets(
            billable_metric_ids=None if metrics is None else frozenset(metrics),
            plan_ids=None if plans is None else frozenset(plans),
        ),
        remaining_cents=(cents or 0) if left is None else left,
    )


def note(id: str, balance_cents: int, *, at: int = 0, currency: str = "EUR", **fields: Any) -> CreditNote:
    """A finalized credit note with this balance."""
    when = NOW + timedelta(minutes=at)
    values: dict[str, Any] = {
        "id": id,
        "organization_id": "organization",
        "customer_id": "customer",
        "invoice_id": "another invoice",
        "billing_entity_id": "entity",
        "number": f"INV-001-{id}",
        "sequential_id": 1,
        "issuing_date": when.date(),
        "currency": currency,
        "reason": "other",
        "created_at": when,
        "updated_at": when,
        "balance_amount_cents": balance_cents,
        "credit_amount_cents": balance_cents,
        "total_amount_cents": balance_cents,
        **fields,
    }
    return CreditNote(**values)


def item(fee_id: str, amount: str) -> CreditNoteItem:
    precise = Decimal(amount)
    return CreditNoteItem(
        id=f"item-{fee_id}-{amount}",
        fee_id=fee_id,
        amount_cents=int(precise),
        precise_amount_cents=precise,
        amount_currency="EUR",
        created_at=NOW,
    )


def invoice(**fields: Any) -> Invoice:
    values: dict[str, Any] = {
        "id": "invoice",
        "organization_id": "organization",
        "customer_id": "customer",
        "billing_entity_id": "entity",
        "invoice_type": "subscription",
        "status": "generating",
        "currency": "EUR",
        "number": "INV-001",
        "issuing_date": NOW.date(),
        "payment_due_date": NOW.date(),
        "net_payment_term": 0,
        "created_at": NOW,
        "updated_at": NOW,
        **fields,
    }
    return Invoice(**values)


def stored_event(id: str, properties: Mapping[str, JsonValue], *, at: datetime = NOW, **fields: Any) -> Event:
    """An event of a subscription, received when it happened; its transaction id is its id."""
    values: dict[str, Any] = {
        "id": id,
        "organization_id": "org",
        "transaction_id": id,
        "code": "metric",
        "external_subscription_id": "sub",
        "timestamp": at,
        "properties": properties,
        "precise_total_amount_cents": None,
        "created_at": at,
        **fields,
    }
    return Event(**values)


def subscription(**fields: Any) -> Subscription:
    """An active subscription, of now."""
    values: dict[str, Any] = {
        "id": "subscription",
        "organization_id": "organization",
        "external_id": "sub",
        "customer_id": "customer",
        "plan_id": "plan",
        "status": "active",
        "billing_time": "calendar",
        "subscription_at": NOW,
        "started_at": NOW,
        "created_at": NOW,
        "updated_at": NOW,
        **fields,
    }
    return Subscription(**values)


def parties(*, issuer: str = "entity", entity: Mapping[str, Any] | None = None, **fields: Any) -> Parties:
    """A customer with these fields, of the billing entity `entity`, invoiced by the one with the id `issuer`."""
    shared = {"organization_id": "organization", "created_at": NOW, "updated_at": NOW}
    billing_entity = BillingEntity(
        **{
            "id": "entity",
            "code": "entity",
            "name": "Entity",
            "document_number_prefix": "E",
            **shared,
            **(entity or {}),
        }
    )
    customer: dict[str, Any] = {
        "id": "customer",
        "external_id": "acme",
        "billing_entity_id": billing_entity.id,
        "sequential_id": 1,
        "slug": "E-001",
        **shared,
        **fields,
    }
    other = billing_entity if issuer == billing_entity.id else replace(billing_entity, id=issuer, code=issuer)
    return Parties(customer=Customer(**customer), entity=billing_entity, issuer=other)


def contract(*, plan: Mapping[str, Any] | None = None, issuer: str = "entity", **fields: Any) -> Contract:
    """An active subscription with these fields on a monthly plan in euros, counted in UTC."""
    values: dict[str, Any] = {
        "id": "plan",
        "organization_id": "organization",
        "name": "Plan",
        "code": "plan",
        "interval": "monthly",
        "amount_cents": 100,
        "amount_currency": "EUR",
        "pay_in_advance": False,
        "created_at": NOW,
        "updated_at": NOW,
        **(plan or {}),
    }
    return Contract(subscription=subscription(**fields), plan=Plan(**values), parties=parties(issuer=issuer), zone=UTC)


def settle(
    fees: Sequence[Fee],
    taxes: Mapping[str, Sequence[Tax]] | Sequence[Tax] = (),
    *,
    coupons: Sequence[AvailableCoupon] = (),
    notes: Sequence[CreditNote] = (),
    wallets: Sequence[AvailableWallet] = (),
    plan_of: Mapping[str, str] | None = None,
    progressive: Sequence[Any] = (),
    waiting: bool = False,
    **fields: Any,
) -> InvoiceInProgress:
    """An invoice of `fees` with its totals. `taxes` are those of all fees, or of each by its id.

    With `waiting`, the taxes become known only after the invoice was made.
    """
    by_fee = taxes if isinstance(taxes, Mapping) else {fee.id: taxes for fee in fees}
    around = SettlementInputs(
        now=NOW,
        new_id=ids(),
        taxes=by_fee,
        plan_of=plan_of or {},
        progressive=tuple(progressive),
        available=(*coupons, *notes, *wallets),
    )
    if not waiting:
        return settled(invoice(**fields), fees, around)
    before = replace(around, taxes={}, available=tuple(coupons))
    made = settled(invoice(**fields, tax_status="pending"), fees, before)
    after = replace(around, progressive=(), available=(*notes, *wallets))
    finished = taxed(replace(made.invoice, tax_status=None), made.fees, after)
    return replace(finished, changed=(*made.changed, *finished.changed), surpluses=made.surpluses)


def changed(draft: InvoiceInProgress, kind: type[T]) -> list[T]:
    """The records of one kind that an invoice has used, as updated by it."""
    return [record for record in draft.changed if isinstance(record, kind)]


def wallet(id: str = "wallet", *, rate: str = "1", currency: str = "EUR", **fields: Any) -> Wallet:
    """An empty active wallet."""
    values: dict[str, Any] = {
        "id": id,
        "organization_id": "organization",
        "customer_id": "customer",
        "code": id,
        "currency": currency,
        "rate_amount": Decimal(rate),
        "created_at": NOW,
        "updated_at": NOW,
        **fields,
    }
    return Wallet(**values)


def inbound(id: str, cents: int, **fields: Any) -> WalletTransaction:
    """A settled, unused grant of this many cents at a rate of 1."""
    values: dict[str, Any] = {
        "id": id,
        "organization_id": "organization",
        "wallet_id": "wallet",
        "customer_id": "customer",
        "transaction_type": TransactionType.INBOUND,
        "transaction_status": TransactionKind.GRANTED,
        "status": WalletTransactionStatus.SETTLED,
        "amount_cents": cents,
        "credit_amount": Decimal(cents) / 100,
        "remaining_amount_cents": cents,
        "created_at": NOW,
        "updated_at": NOW,
        **fields,
    }
    return WalletTransaction(**values)
