"""Invoices as JSON.

An issued invoice shows its own copies of the customer, the subscriptions and everything else that may change later; a
draft shows their current state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NotRequired, TypedDict, TypeVar, cast

from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoiceType
from usagebill.core.invoices.records import BilledPlan, BillingPeriod, Credit, Invoice
from usagebill.core.plans import Plan
from usagebill.core.provider_requests import ProviderFailure
from usagebill.core.statuses import TaxStatus
from usagebill.process.json_text import JsonObject
from usagebill.queries.billing_entities import find_entity
from usagebill.queries.customers import customer_of, find_customer
from usagebill.queries.fees import fees_of_invoice
from usagebill.queries.invoices import periods_of
from usagebill.queries.plans import find_plan
from usagebill.queries.subscriptions import find_subscription
from usagebill.runtime.work import Reader
from usagebill.views.customers import (
    CustomerSummary,
    ErrorDetailView,
    customer_summary,
    error_detail_view,
    vat_errors,
)
from usagebill.views.documents import document_url
from usagebill.views.fees import AppliedTaxView, FeeView, applied_tax_view, fee_view
from usagebill.views.formats import Day, Id, Instant, date_text, instant_text, millisecond_text
from usagebill.views.plans import ThresholdView
from usagebill.views.subscriptions import SubscriptionView, subscription_view


class CreditItemView(TypedDict):
    svc_item_id: Id
    type: str
    code: str
    name: str
    description: str | None


class CreditedInvoiceView(TypedDict):
    svc_id: Id
    payment_status: str


class CreditView(TypedDict):
    svc_id: Id
    amount_cents: int
    amount_currency: str
    before_taxes: bool
    item: CreditItemView
    invoice: CreditedInvoiceView


class BillingPeriodView(TypedDict):
    svc_subscription_id: Id
    external_subscription_id: str
    svc_plan_id: Id
    subscription_from_datetime: Instant | None
    subscription_to_datetime: Instant | None
    charges_from_datetime: Instant | None
    charges_to_datetime: Instant | None
    fixed_charges_from_datetime: Instant | None
    fixed_charges_to_datetime: Instant | None
    invoicing_reason: str


class AppliedThresholdView(TypedDict):
    lifetime_usage_amount_cents: int
    created_at: Instant
    usage_threshold: ThresholdView


class InvoiceSectionView(TypedDict):
    svc_id: Id
    svc_invoice_id: Id
    code: str
    name: str
    details: str | None
    display_name: str | None
    created_at: Instant


class InvoiceMetadataView(TypedDict):
    svc_id: Id
    key: str
    value: str
    created_at: Instant


class InvoiceTaxView(AppliedTaxView):
    svc_invoice_id: Id
    fees_amount_cents: int


class InvoiceSummary(TypedDict):
    svc_id: Id
    billing_entity_code: str | None
    sequential_id: int | None
    number: str
    issuing_date: Day
    payment_due_date: Day
    net_payment_term: int
    invoice_type: str
    status: str
    payment_status: str
    payment_dispute_lost_at: Instant | None
    payment_overdue: bool
    tax_status: str | None
    currency: str
    fees_amount_cents: int
    progressive_billing_credit_amount_cents: int
    coupons_amount_cents: int
    taxes_amount_cents: int
    sub_total_excluding_taxes_amount_cents: int
    sub_total_including_taxes_amount_cents: int
    credit_notes_amount_cents: int
    prepaid_credit_amount_cents: int
    prepaid_granted_credit_amount_cents: int | None
    prepaid_purchased_credit_amount_cents: int | None
    total_amount_cents: int
    total_due_amount_cents: int
    total_paid_amount_cents: int
    total_offsetted_credit_note_amount_cents: int
    version_number: int
    self_billed: bool
    purchase_order_number: str | None
    file_url: str | None
    xml_url: str | None
    web_url: None
    created_at: Instant
    updated_at: Instant
    voided_at: Instant | None


class InvoiceOfCustomer(InvoiceSummary):
    customer: CustomerSummary | None
    applied_usage_thresholds: NotRequired[list[AppliedThresholdView]]


class ListedInvoiceView(InvoiceOfCustomer):
    metadata: list[InvoiceMetadataView]
    applied_taxes: list[InvoiceTaxView]


class InvoiceView(ListedInvoiceView):
    billing_periods: list[BillingPeriodView]
    subscriptions: list[SubscriptionView]
    fees: list[FeeView]
    credits: list[CreditView]
    error_details: list[ErrorDetailView]
    applied_invoice_custom_sections: list[InvoiceSectionView]


class InvoiceAndFees(InvoiceOfCustomer):
    """A message about the payment of an invoice."""

    fees: list[FeeView]


class TaxedInvoice(InvoiceAndFees):
    """The message about an overdue invoice."""

    applied_taxes: list[InvoiceTaxView]


class OneOffInvoice(TaxedInvoice):
    """The message about an issued invoice of add-ons, or of prepaid credits."""

    applied_invoice_custom_sections: list[InvoiceSectionView]


class BilledInvoice(TaxedInvoice):
    """The message about a voided or deleted invoice."""

    billing_periods: list[BillingPeriodView]
    subscriptions: list[SubscriptionView]
    credits: list[CreditView]


class DraftInvoice(BilledInvoice):
    """A message about a draft."""

    error_details: list[ErrorDetailView]


class IssuedInvoice(BilledInvoice):
    """The message about an issued invoice of subscriptions."""

    applied_invoice_custom_sections: list[InvoiceSectionView]


class PaymentDisputeLost(TypedDict):
    invoice: InvoiceOfCustomer
    provider_error: NotRequired[str]


class ProviderErrorView(TypedDict):
    message: str
    error_code: str | None


class PaymentFailure(TypedDict):
    svc_invoice_id: Id
    svc_customer_id: Id
    external_customer_id: str
    provider_customer_id: str | None
    payment_provider: str | None
    payment_provider_code: str | None
    provider_error: ProviderErrorView | None
    error_details: Mapping[str, object]


def invoice_summary(reader: Reader, invoice: Invoice) -> InvoiceSummary:
    """The invoice's own fields."""
    entity = find_entity(reader, invoice.billing_entity_id)
    return {
        "svc_id": invoice.id,
        "billing_entity_code": None if entity is None else entity.code,
        "sequential_id": invoice.sequential_id,
        "number": invoice.number,
        "issuing_date": date_text(invoice.issuing_date),
        "payment_due_date": date_text(invoice.payment_due_date),
        "net_payment_term": invoice.net_payment_term,
        "invoice_type": invoice.invoice_type,
        "status": invoice.status,
        "payment_status": invoice.payment_status,
        "payment_dispute_lost_at": millisecond_text(invoice.payment_dispute_lost_at),
        "payment_overdue": invoice.payment_overdue,
        "tax_status": invoice.tax_status,
        "currency": invoice.currency,
        "fees_amount_cents": invoice.fees_amount_cents,
        "progressive_billing_credit_amount_cents": invoice.progressive_billing_credit_amount_cents,
        "coupons_amount_cents": invoice.coupons_amount_cents,
        "taxes_amount_cents": invoice.taxes_amount_cents,
        "sub_total_excluding_taxes_amount_cents": invoice.sub_total_excluding_taxes_amount_cents,
        "sub_total_including_taxes_amount_cents": invoice.sub_total_including_taxes_amount_cents,
        "credit_notes_amount_cents": invoice.credit_notes_amount_cents,
        "prepaid_credit_amount_cents": invoice.prepaid_credit_amount_cents,
        "prepaid_granted_credit_amount_cents": invoice.prepaid_granted_credit_amount_cents,
        "prepaid_purchased_credit_amount_cents": invoice.prepaid_purchased_credit_amount_cents,
        "total_amount_cents": invoice.total_amount_cents,
        "total_due_amount_cents": invoice.due_cents,
        "total_paid_amount_cents": invoice.total_paid_amount_cents,
        "total_offsetted_credit_note_amount_cents": invoice.total_offset_amount_cents,
        "version_number": invoice.version_number,
        "self_billed": invoice.self_billed,
        "purchase_order_number": invoice.purchase_order_number,
        "file_url": document_url(reader, invoice.pdf_id),
        "xml_url": document_url(reader, invoice.xml_id),
        "web_url": None,
        "created_at": instant_text(invoice.created_at),
        "updated_at": instant_text(invoice.updated_at),
        "voided_at": instant_text(invoice.voided_at),
    }


def credit_view(credit: Credit, invoice: Invoice) -> CreditView:
    """A credit on `invoice`."""
    return {
        "svc_id": credit.id,
        "amount_cents": credit.amount_cents,
        "amount_currency": credit.amount_currency,
        "before_taxes": credit.before_taxes,
        "item": {
            "svc_item_id": credit.item_id,
            "type": credit.item_type,
            "code": credit.item_code,
            "name": credit.item_name,
            "description": credit.item_description,
        },
        "invoice": {"svc_id": invoice.id, "payment_status": invoice.payment_status},
    }


def _error_details(reader: Reader, invoice: Invoice) -> list[ErrorDetailView]:
    """The errors of the invoice, and the reason for unknown taxes."""
    kept = [error_detail_view(detail) for detail in invoice.error_details]
    if invoice.tax_status != TaxStatus.PENDING:
        return kept
    customer = find_customer(reader, invoice.customer_id)
    return kept if customer is None else [*kept, *vat_errors(customer)]


def _customer(reader: Reader, invoice: Invoice) -> CustomerSummary | None:
    if invoice.customer_snapshot is not None:
        return cast(CustomerSummary, dict(invoice.customer_snapshot))
    customer = find_customer(reader, invoice.customer_id)
    return None if customer is None else customer_summary(reader, customer)


def billed_plan(reader: Reader, period: BillingPeriod) -> BilledPlan | None:
    """The current plan of a billing period."""
    plan = find_plan(reader, period.plan_id)
    return None if plan is None else plan_as_billed(plan)


def plan_as_billed(plan: Plan) -> BilledPlan:
    """The plan's fields that an invoice keeps."""
    return BilledPlan(name=plan.name, interval=plan.interval, invoice_display_name=plan.invoice_display_name)


def subscription_name(reader: Reader, period: BillingPeriod, *, kept: bool) -> str:
    """The name of a billing period's subscription or plan: the one `kept` by the invoice, else the current one."""
    name: object
    if kept and period.subscription_snapshot:
        name = period.subscription_snapshot.get("name")
    else:
        subscription = find_subscription(reader, period.subscription_id)
        name = None if subscription is None else subscription.name
    plan = (period.plan if kept else None) or billed_plan(reader, period)
    return str(name or ("" if plan is None else plan.shown_name))


def _periods(reader: Reader, invoice: Invoice) -> list[BillingPeriod]:
    """The billing periods of the invoice, sorted by the shown name of their subscriptions."""

    kept = invoice.status != InvoiceStatus.DRAFT

    def name(period: BillingPeriod) -> str:
        return subscription_name(reader, period, kept=kept)

    return sorted(periods_of(reader, invoice), key=name)


def _period_view(period: BillingPeriod) -> BillingPeriodView:
    return {
        "svc_subscription_id": period.subscription_id,
        "external_subscription_id": period.external_subscription_id,
        "svc_plan_id": period.plan_id,
        "subscription_from_datetime": instant_text(period.subscription_from_datetime),
        "subscription_to_datetime": instant_text(period.subscription_to_datetime),
        "charges_from_datetime": instant_text(period.charges_from_datetime),
        "charges_to_datetime": instant_text(period.charges_to_datetime),
        "fixed_charges_from_datetime": instant_text(period.fixed_charges_from_datetime),
        "fixed_charges_to_datetime": instant_text(period.fixed_charges_to_datetime),
        "invoicing_reason": period.invoicing_reason,
    }


def _subscriptions(reader: Reader, invoice: Invoice) -> list[SubscriptionView]:
    shown: list[SubscriptionView] = []
    for period in _periods(reader, invoice):
        subscription = find_subscription(reader, period.subscription_id)
        if invoice.status == InvoiceStatus.DRAFT and subscription is not None:
            shown.append(subscription_view(reader, subscription))
        elif period.subscription_snapshot:
            shown.append(cast(SubscriptionView, dict(period.subscription_snapshot)))
    return shown


def _fees(reader: Reader, invoice: Invoice) -> list[FeeView]:
    return [fee_view(reader, fee) for fee in fees_of_invoice(reader, invoice)]


def _applied_thresholds(_: Reader, invoice: Invoice) -> list[AppliedThresholdView]:
    return [
        {
            "lifetime_usage_amount_cents": applied.lifetime_usage_amount_cents,
            "created_at": instant_text(applied.created_at),
            "usage_threshold": {
                "svc_id": applied.usage_threshold_id,
                "threshold_display_name": applied.threshold_display_name,
                "amount_cents": applied.amount_cents,
                "recurring": applied.recurring,
                "created_at": instant_text(applied.threshold_created_at),
                "updated_at": instant_text(applied.threshold_updated_at),
            },
        }
        for applied in invoice.applied_usage_thresholds
    ]


def _custom_sections(_: Reader, invoice: Invoice) -> list[InvoiceSectionView]:
    return [
        {
            "svc_id": section.id,
            "svc_invoice_id": invoice.id,
            "code": section.code,
            "name": section.name,
            "details": section.details,
            "display_name": section.display_name,
            "created_at": instant_text(section.created_at),
        }
        for section in invoice.applied_custom_sections
    ]


def _metadata(_: Reader, invoice: Invoice) -> list[InvoiceMetadataView]:
    return [
        {"svc_id": item.id, "key": item.key, "value": item.value, "created_at": instant_text(item.created_at)}
        for item in invoice.metadata
    ]


def _applied_taxes(_: Reader, invoice: Invoice) -> list[InvoiceTaxView]:
    return [
        {
            **applied_tax_view(line),
            "svc_invoice_id": invoice.id,
            "fees_amount_cents": line.base_amount_cents,
        }
        for line in invoice.applied_taxes
    ]


_PARTS: Mapping[str, Callable[[Reader, Invoice], object]] = {
    "customer": _customer,
    "metadata": _metadata,
    "applied_taxes": _applied_taxes,
    "billing_periods": lambda reader, invoice: [_period_view(period) for period in _periods(reader, invoice)],
    "subscriptions": _subscriptions,
    "fees": _fees,
    "credits": lambda _, invoice: [credit_view(credit, invoice) for credit in invoice.credits],
    "error_details": _error_details,
    "applied_invoice_custom_sections": _custom_sections,
}

_Shown = TypeVar("_Shown", bound=InvoiceOfCustomer)

# The parts of the invoice in each message.
INVOICE_MESSAGES: Mapping[str, type[InvoiceOfCustomer]] = {
    "invoice.created": IssuedInvoice,
    "invoice.one_off_created": OneOffInvoice,
    "invoice.paid_credit_added": OneOffInvoice,
    "invoice.generated": InvoiceOfCustomer,
    "invoice.drafted": DraftInvoice,
    "invoice.ready_to_finalize": DraftInvoice,
    "invoice.voided": BilledInvoice,
    "invoice.deleted": BilledInvoice,
    "invoice.payment_status_updated": InvoiceAndFees,
    "invoice.payment_overdue": TaxedInvoice,
    "invoice.payment_dispute_won": TaxedInvoice,
    "invoice.overpaid": TaxedInvoice,
    "invoice.resynced": BilledInvoice,
}


def _shown_as(reader: Reader, invoice: Invoice, kind: type[_Shown]) -> _Shown:
    """The invoice's fields, and the parts that `kind` has."""
    parts = {part: show(reader, invoice) for part, show in _PARTS.items() if part in kind.__annotations__}
    shown: JsonObject = {**invoice_summary(reader, invoice), **parts}
    if invoice.invoice_type == InvoiceType.PROGRESSIVE_BILLING:
        shown["applied_usage_thresholds"] = _applied_thresholds(reader, invoice)
    return cast(_Shown, shown)


def invoice_view(reader: Reader, invoice: Invoice) -> InvoiceView:
    """The invoice with all its parts, as a single-record response shows it."""
    return _shown_as(reader, invoice, InvoiceView)


def listed_invoice_view(reader: Reader, invoice: Invoice) -> ListedInvoiceView:
    """The invoice as lists show it: without fees, subscriptions and credits."""
    return _shown_as(reader, invoice, ListedInvoiceView)


def invoice_webhook_view(reader: Reader, webhook_type: str, invoice: Invoice) -> InvoiceOfCustomer:
    """The invoice as shown by messages of this type."""
    return _shown_as(reader, invoice, INVOICE_MESSAGES[webhook_type])


def payment_dispute_lost_view(reader: Reader, invoice: Invoice, reason: str | None = None) -> PaymentDisputeLost:
    """The message about a lost dispute, with the provider's reason, if any."""
    shown: PaymentDisputeLost = {"invoice": _shown_as(reader, invoice, InvoiceOfCustomer)}
    return shown if reason is None else {**shown, "provider_error": reason}


def payment_failure_view(
    reader: Reader, invoice: Invoice, details: JsonObject, failure: ProviderFailure | None = None
) -> PaymentFailure:
    """The message about a failed payment of an invoice, with the reason."""
    customer = customer_of(reader, invoice)
    error: ProviderErrorView | None = None
    if failure is not None:
        error = {"message": failure.message, "error_code": failure.code}
    return {
        "svc_invoice_id": invoice.id,
        "svc_customer_id": customer.id,
        "external_customer_id": customer.external_id,
        "provider_customer_id": customer.provider_customer_id,
        "payment_provider": customer.payment_provider,
        "payment_provider_code": customer.payment_provider_code,
        "provider_error": error,
        "error_details": details,
    }
