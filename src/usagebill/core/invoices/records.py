"""The records of an invoice. A finalized invoice never changes: it stores its own copies of other records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from usagebill.core.counted_usage import CountedUsage
from usagebill.core.error_details import ErrorDetail
from usagebill.core.fees import AppliedTax
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoiceType, InvoicingReason
from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.plans import PlanDefinition
from usagebill.core.removed_events import RemovedEvents
from usagebill.core.statuses import PaymentStatus, TaxStatus


class CreditType(StrEnum):
    """The source of a credit line; `INVOICE` is a progressive billing invoice."""

    COUPON = "coupon"
    INVOICE = "invoice"
    CREDIT_NOTE = "credit_note"


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceMetadata:
    """A value that the caller stores with an invoice."""

    id: str
    key: str
    value: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """A credit line, which reduces the invoice."""

    id: str
    amount_cents: int
    amount_currency: str
    before_taxes: bool
    item_id: str
    item_type: CreditType
    item_code: str
    item_name: str
    created_at: datetime
    item_description: str | None = None
    # Its source: the applied coupon, credit note or progressive billing invoice.
    source_id: str | None = None
    subscription_id: str | None = None
    # Whether it continues a coupon's use by the progressive billing invoices that this invoice credits: it is one use.
    continues: bool = False
    # Whether that use is its own by now, as the invoice that it continued is undone.
    inherits_use: bool = False
    # The part that went back to its source: to a credit note when the invoice was voided, to a coupon when the usage
    # that it had discounted fell.
    returned_cents: int = 0

    @property
    def used_cents(self) -> int:
        """The cents of its source that it uses up: what it took, less what went back."""
        return self.amount_cents - self.returned_cents

    @property
    def is_use(self) -> bool:
        """Whether it counts as a use of its coupon."""
        return not self.continues or self.inherits_use

    @property
    def is_given_back(self) -> bool:
        """Whether all that it took went back to its source."""
        return self.returned_cents > 0 and self.used_cents <= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedCustomSection:
    """A text at the end of an invoice, copied when the invoice was created."""

    id: str
    code: str
    name: str
    details: str | None
    display_name: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedThreshold:
    """A threshold that triggered a progressive billing invoice, in cents."""

    id: str
    usage_threshold_id: str
    amount_cents: int
    recurring: bool
    threshold_display_name: str | None
    lifetime_usage_amount_cents: int
    created_at: datetime
    threshold_created_at: datetime
    threshold_updated_at: datetime
    # The amount invoiced before, and all usage of the running period.
    invoiced_usage_amount_cents: int | None = None
    current_usage_amount_cents: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoice:
    """`tax_status` is null if taxes are computed at once. While a tax provider's answer is awaited, `tax_request_id`
    identifies the request; `tax_connection_id` is the provider whose taxes it has.

    All amounts are whole cents of `currency`. `customer_snapshot` is the customer as shown when the invoice was issued,
    null while it is a draft.
    """

    id: str
    organization_id: str
    customer_id: str
    billing_entity_id: str
    invoice_type: InvoiceType
    status: InvoiceStatus
    currency: str
    number: str
    issuing_date: date
    payment_due_date: date
    net_payment_term: int
    created_at: datetime
    updated_at: datetime
    timezone: str = "UTC"
    sequential_id: int | None = None
    entity_sequential_id: int | None = None
    expected_finalization_date: date | None = None
    payment_status: PaymentStatus = PaymentStatus.PENDING
    tax_status: TaxStatus | None = None
    tax_request_id: str | None = None
    tax_connection_id: str | None = None
    fees_amount_cents: int = 0
    progressive_billing_credit_amount_cents: int = 0
    coupons_amount_cents: int = 0
    sub_total_excluding_taxes_amount_cents: int = 0
    taxes_amount_cents: int = 0
    taxes_rate: Decimal = Decimal(0)
    sub_total_including_taxes_amount_cents: int = 0
    credit_notes_amount_cents: int = 0
    prepaid_credit_amount_cents: int = 0
    prepaid_granted_credit_amount_cents: int | None = None
    prepaid_purchased_credit_amount_cents: int | None = None
    total_amount_cents: int = 0
    total_paid_amount_cents: int = 0
    # The amount that its own credit notes offset.
    total_offset_amount_cents: int = 0
    version_number: int = 4
    self_billed: bool = False
    skip_charges: bool = False
    skip_automatic_payment: bool = False
    ready_for_payment_processing: bool = True
    payment_attempts: int = 0
    # How it is to be collected, if not with the customer's default method.
    payment_method: PaymentMethodChoice | None = None
    payment_overdue: bool = False
    payment_dispute_lost_at: datetime | None = None
    finalized_at: datetime | None = None
    voided_at: datetime | None = None
    voided_invoice_id: str | None = None
    purchase_order_number: str | None = None
    refresh_wanted: bool = False
    applied_taxes: tuple[AppliedTax, ...] = ()
    credits: tuple[Credit, ...] = ()
    metadata: tuple[InvoiceMetadata, ...] = ()
    applied_custom_sections: tuple[AppliedCustomSection, ...] = ()
    applied_usage_thresholds: tuple[AppliedThreshold, ...] = ()
    error_details: tuple[ErrorDetail, ...] = ()
    # The job that failed to generate this invoice.
    failed_job_id: str | None = None
    customer_snapshot: Mapping[str, object] | None = None
    # The billing entity at the time of issue (a `BillingEntityVersion`).
    issuer_version_id: str | None = None
    # Its documents.
    pdf_id: str | None = None
    xml_id: str | None = None
    # Search looks at the customer as printed on the invoice.
    customer_search: str | None = None

    @property
    def finalization_day(self) -> date:
        """The day on which it is finalized if it is a draft."""
        return self.expected_finalization_date or self.issuing_date

    @property
    def due_cents(self) -> int:
        """The amount still due in cents: neither paid nor offset by credit notes; zero once voided."""
        if self.status == InvoiceStatus.VOIDED:
            return 0
        return self.total_amount_cents - self.total_paid_amount_cents - self.total_offset_amount_cents

    @property
    def overpaid_cents(self) -> int:
        """The cents paid beyond what is due, which can be given back; zero once voided."""
        return max(0, -self.due_cents)


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledPlan:
    """The plan as shown on an invoice."""

    name: str
    interval: str
    invoice_display_name: str | None = None

    @property
    def shown_name(self) -> str:
        """The plan's name on invoices."""
        return self.invoice_display_name or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingPeriod:
    """The part of an invoice that bills one subscription. `recurring` only for periodic records; null windows bill
    nothing.

    The durations are the days of the whole periods; `timezone` is the one in which they began and ended when billed.
    `opens_interval` is false in the later months of a yearly or semiannual plan with monthly parts.
    """

    id: str
    organization_id: str
    invoice_id: str
    subscription_id: str
    external_subscription_id: str
    plan_id: str
    timestamp: datetime
    invoicing_reason: InvoicingReason
    created_at: datetime
    recurring: bool = False
    subscription_from_datetime: datetime | None = None
    subscription_to_datetime: datetime | None = None
    charges_from_datetime: datetime | None = None
    charges_to_datetime: datetime | None = None
    fixed_charges_from_datetime: datetime | None = None
    fixed_charges_to_datetime: datetime | None = None
    timezone: str = "UTC"
    opens_interval: bool = True
    subscription_duration: int | None = None
    charges_duration: int | None = None
    fixed_charges_duration: int | None = None
    subscription_snapshot: Mapping[str, object] = field(default_factory=dict)
    # The plan at the time of issue.
    plan: BilledPlan | None = None
    # What its usage was counted by; None if it has none, and for periods that were billed before this was kept.
    counted: CountedUsage | None = None
    # What a draft of a subscription that has ended bills, whatever its plan becomes; None if that is the plan as it is.
    definition: PlanDefinition | None = None
    # The price version that its fees were computed from; None for a period billed before versions were kept.
    price_version: int | None = None
    # Since when its events are no longer all there, and what is kept of those that were removed.
    events_removed_at: datetime | None = None
    removed: tuple[RemovedEvents, ...] = ()

    def has_removed(self, external_subscription_id: str | None, code: str, at: datetime) -> bool:
        """Whether events of that subscription id, code and instant were removed."""
        start, end = self.charges_from_datetime, self.charges_to_datetime
        is_of_window = start is not None and end is not None and start <= at <= end
        is_own = is_of_window and external_subscription_id == self.external_subscription_id
        return is_own and any(series.code == code for series in self.removed)

    @property
    def last_day_from(self) -> datetime | None:
        """The midnight of a billing day on which the subscription ended before the run: of that day usage alone is
        billed. None for any other end.
        """
        start, end, closes = self.charges_from_datetime, self.charges_to_datetime, self.subscription_to_datetime
        if self.invoicing_reason != InvoicingReason.TERMINATING or start is None or end is None or closes is None:
            return None
        return closes + MICROSECOND if start <= closes < end else None
