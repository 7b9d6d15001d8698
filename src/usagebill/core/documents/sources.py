"""Sources: the records behind a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.coupons import AppliedCoupon
from usagebill.core.credit_notes import CreditNote
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BilledPlan, BillingPeriod, Invoice
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.payments import Payment


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceSource:
    """An invoice and all other records that its documents show.

    `customer` is the customer as stored with the invoice, `locale` one of `FORMATS`, `zone` the time zone of its days.
    `subscription_names` and `plans` are keyed by subscription id, `coupons` by applied coupon id, `country_names` by
    country code. `averaged` holds the ids of fees whose unit price is an average, since units were there for a part of
    the period, and `per_second` those of charges whose units are weighted by the second.
    """

    invoice: Invoice
    fees: tuple[Fee, ...]
    entity: BillingEntity
    customer: Mapping[str, object]
    locale: str
    zone: tzinfo
    periods: tuple[BillingPeriod, ...] = ()
    subscription_names: Mapping[str, str] = field(default_factory=dict)
    plans: Mapping[str, BilledPlan] = field(default_factory=dict)
    coupons: Mapping[str, AppliedCoupon] = field(default_factory=dict)
    country_names: Mapping[str, str] = field(default_factory=dict)
    averaged: frozenset[str] = frozenset()
    per_second: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditNoteSource:
    """A credit note with the source of its invoice, whose `locale` is the note's too."""

    note: CreditNote
    invoice: InvoiceSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptSource:
    """A payment receipt with the paid invoices, a single one unless the payment is `of_request`.

    `customer` and `entity` are as stored with the receipt; the other fields are those of `InvoiceSource`.
    """

    receipt: PaymentReceipt
    payment: Payment
    invoices: tuple[InvoiceSource, ...]
    entity: BillingEntity
    customer: Mapping[str, object]
    locale: str
    zone: tzinfo
    country_names: Mapping[str, str] = field(default_factory=dict)
    of_request: bool = False
