"""Fees: the lines of invoices. A fee stores its own copy of every name and number that it shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from usagebill.core.statuses import PaymentStatus


class FeeType(StrEnum):
    """The kind of item a fee is for."""

    CHARGE = "charge"
    ADD_ON = "add_on"
    SUBSCRIPTION = "subscription"
    CREDIT = "credit"
    COMMITMENT = "commitment"
    FIXED_CHARGE = "fixed_charge"


# The fees of a plan's charges, for usage or for fixed units.
CHARGE_TYPES = (FeeType.CHARGE, FeeType.FIXED_CHARGE)
# The fees that count toward a plan's minimum commitment.
COMMITTED_TYPES = (FeeType.SUBSCRIPTION, *CHARGE_TYPES)
# Types of fees that may occur several times on an invoice for the same subscription and time.
REPEATABLE_TYPES = (FeeType.ADD_ON, FeeType.CREDIT)
# Types of fees that are earned day by day if they were billed ahead.
EARNED_BY_DAY = (FeeType.SUBSCRIPTION, FeeType.FIXED_CHARGE)


# The code and the rate of a tax.
TaxKey = tuple[str, Decimal]
# Those of all taxes on a fee.
TaxKeys = frozenset[TaxKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedTax:
    """A tax as it was applied. `base_amount_cents` is its base: the fees of an invoice (cut to whole cents), the fee
    itself, or the items of a credit note. `tax_id` is None for a provider's tax.
    """

    id: str
    tax_id: str | None
    name: str
    code: str
    rate: Decimal
    description: str | None
    amount_cents: int
    amount_currency: str
    created_at: datetime
    base_amount_cents: int = 0
    precise_amount_cents: Decimal = Decimal(0)

    @property
    def tax_code(self) -> str:
        """`code` under its API name, like `tax_name` and `tax_rate`."""
        return self.code

    @property
    def tax_name(self) -> str:
        return self.name

    @property
    def tax_rate(self) -> Decimal:
        return self.rate

    @property
    def key(self) -> TaxKey:
        """The key by which lines are summed. A provider may give one code several rates."""
        return self.code, self.rate


@dataclass(frozen=True, slots=True, kw_only=True)
class FeeItem:
    """The billed item, copied when the fee was created. `item_type` names the record."""

    type: FeeType
    item_type: str
    id: str
    code: str
    name: str
    description: str | None = None
    invoice_display_name: str | None = None
    filter_invoice_display_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fee:
    """One line. `amount_cents` is rounded once; `precise_amount_cents` has 15 decimals.

    `from_datetime` and `to_datetime` are the period shown; `charges_*` the usage window it was computed over.
    `precise_coupons_amount_cents` is the fee's share of coupons and progressive billing credits (5 decimals).
    `taxes_base_rate` is the taxed part of the fee, less than 1 only if a tax provider says so. A fee without
    `invoice_id` was created in advance for a charge that is not invoiceable. `basis` is for explanations, besides
    `amount_details`: days, minimums and the amounts that count toward them.
    """

    id: str
    organization_id: str
    customer_id: str
    fee_type: FeeType
    item: FeeItem
    amount_cents: int
    precise_amount_cents: Decimal
    currency: str
    units: Decimal
    created_at: datetime
    updated_at: datetime
    invoice_id: str | None = None
    subscription_id: str | None = None
    external_subscription_id: str | None = None
    charge_id: str | None = None
    charge_filter_id: str | None = None
    billable_metric_id: str | None = None
    fixed_charge_id: str | None = None
    add_on_id: str | None = None
    true_up_parent_fee_id: str | None = None
    true_up_fee_id: str | None = None
    original_fee_id: str | None = None
    total_aggregated_units: Decimal | None = None
    unit_amount_cents: int = 0
    precise_unit_amount: Decimal = Decimal(0)
    events_count: int | None = None
    pay_in_advance: bool = False
    invoiceable: bool = True
    self_billed: bool = False
    payment_status: PaymentStatus = PaymentStatus.PENDING
    succeeded_at: datetime | None = None
    failed_at: datetime | None = None
    refunded_at: datetime | None = None
    taxes_amount_cents: int = 0
    taxes_precise_amount_cents: Decimal = Decimal(0)
    taxes_rate: Decimal = Decimal(0)
    taxes_base_rate: Decimal = Decimal(1)
    applied_taxes: tuple[AppliedTax, ...] = ()
    precise_coupons_amount_cents: Decimal = Decimal(0)
    precise_credit_notes_amount_cents: Decimal = Decimal(0)
    from_datetime: datetime | None = None
    to_datetime: datetime | None = None
    charges_from_datetime: datetime | None = None
    charges_to_datetime: datetime | None = None
    event_transaction_id: str | None = None
    description: str | None = None
    filters: Mapping[str, tuple[str, ...]] | None = None
    grouped_by: Mapping[str, str | None] = field(default_factory=dict)
    amount_details: Mapping[str, object] = field(default_factory=dict)
    basis: Mapping[str, object] = field(default_factory=dict)
    pricing_unit_details: Mapping[str, object] | None = None
    presentation_breakdowns: tuple[Mapping[str, object], ...] = ()
    # The price version that it was computed from; None for a fee that was made before versions were kept.
    price_version: int | None = None
    deleted_at: datetime | None = None


def with_payment_status(fee: Fee, status: PaymentStatus, at: datetime) -> Fee:
    """The fee as paid, failed or refunded at that instant; pending clears all three instants."""
    return replace(
        fee,
        payment_status=status,
        succeeded_at=at if status == PaymentStatus.SUCCEEDED else None,
        failed_at=at if status == PaymentStatus.FAILED else None,
        refunded_at=at if status == PaymentStatus.REFUNDED else None,
    )
