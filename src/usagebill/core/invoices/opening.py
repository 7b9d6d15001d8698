"""New invoices and fees: their owner, dates and defaults, before amounts are computed."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import AccountType, Customer
from usagebill.core.dates import InvoiceDates
from usagebill.core.fees import Fee, FeeItem
from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.subscriptions import Subscription


def draft_number(entity: BillingEntity) -> str:
    """The number shown on an invoice that is not numbered yet."""
    return f"{entity.document_number_prefix}-DRAFT"


def new_invoice(
    *,
    id: str,
    invoice_type: InvoiceType,
    customer: Customer,
    issuer: BillingEntity,
    currency: str,
    timezone: str,
    dates: InvoiceDates,
    net_payment_term: int,
    now: datetime,
    purchase_order_number: str | None = None,
) -> Invoice:
    """An empty invoice of the customer by `issuer`, in the state `generating`. A partner's invoice is self-billed.

    `timezone` is that of its dates and periods; `net_payment_term` is in days.
    """
    return Invoice(
        id=id,
        organization_id=customer.organization_id,
        customer_id=customer.id,
        billing_entity_id=issuer.id,
        invoice_type=invoice_type,
        status=InvoiceStatus.GENERATING,
        currency=currency,
        number=draft_number(issuer),
        issuing_date=dates.issuing,
        payment_due_date=dates.payment_due,
        expected_finalization_date=dates.expected_finalization,
        net_payment_term=net_payment_term,
        timezone=timezone,
        purchase_order_number=purchase_order_number,
        self_billed=customer.account_type == AccountType.PARTNER,
        created_at=now,
        updated_at=now,
    )


def new_fee(
    *,
    id: str,
    invoice: Invoice | None,
    subscription: Subscription | None,
    item: FeeItem,
    amount_cents: int,
    precise_amount_cents: Decimal,
    units: Decimal,
    currency: str,
    now: datetime,
) -> Fee:
    """A line of `invoice`, with its creation time and self-billed if it is; without one, a fee of `subscription`
    created now.

    The fee's type is that of its item. ValueError with neither invoice nor subscription.
    """
    owner = subscription if invoice is None else invoice
    if owner is None:
        raise ValueError("a fee belongs to an invoice or to a subscription")
    return Fee(
        id=id,
        organization_id=owner.organization_id,
        customer_id=owner.customer_id,
        invoice_id=None if invoice is None else invoice.id,
        subscription_id=None if subscription is None else subscription.id,
        external_subscription_id=None if subscription is None else subscription.external_id,
        fee_type=item.type,
        item=item,
        amount_cents=amount_cents,
        precise_amount_cents=precise_amount_cents,
        units=units,
        currency=currency,
        self_billed=invoice is not None and invoice.self_billed,
        created_at=now if invoice is None else invoice.created_at,
        updated_at=now,
    )
