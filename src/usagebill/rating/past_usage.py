"""Usage of closed periods as invoiced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from usagebill.core import limits
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.requests.inputs import ABSENT, MOST_PER_PAGE, Input, Maybe, Paging, described
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import desc, eq, present, related
from usagebill.storage.ports import Page


@Input
class PastUsageOptions:
    external_subscription_id: Maybe[str] = ABSENT
    billable_metric_code: Maybe[str] = ABSENT
    periods_count: Maybe[Annotated[int, limits.PAST_PERIODS]] = described("The number of past periods.", unit="periods")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastUsage:
    """A subscription's usage on one invoice. `invoice_fees` are all fees of the invoice, `fees` the usage fees."""

    period: BillingPeriod
    invoice: Invoice
    invoice_fees: Sequence[Fee]
    fees: Sequence[Fee]


def past(reader: Reader, external_customer_id: str, options: PastUsageOptions, paging: Paging) -> Page[PastUsage]:
    """The billed usage periods of a subscription, newest first; none for an unknown customer.

    `periods_count` replaces the page size.
    """
    external_id = options.external_subscription_id
    if not external_id:
        raise Invalid(external_subscription_id="value_is_mandatory")
    metric = None
    if options.billable_metric_code:
        metric = reader.tx.first(BillableMetric, eq("code", options.billable_metric_code))
        if metric is None:
            raise NotFound("billable_metric", options.billable_metric_code)
    customer = reader.tx.first(Customer, eq("external_id", external_customer_id))
    per_page = options.periods_count if options.periods_count and options.periods_count > 0 else paging.per_page
    limit = min(per_page, MOST_PER_PAGE)
    if customer is None:
        return Page(items=(), page=paging.page, per_page=limit, total_count=0)
    conditions = (
        eq("external_subscription_id", external_id),
        present("charges_from_datetime"),
        related(Invoice, "invoice_id", eq("customer_id", customer.id)),
    )
    periods = reader.tx.find(
        BillingPeriod,
        *conditions,
        order=[desc("charges_from_datetime"), desc("created_at")],
        limit=limit,
        offset=(paging.page - 1) * paging.per_page,
    )
    return Page(
        items=[_usage(reader, period, metric) for period in periods],
        page=paging.page,
        per_page=limit,
        total_count=reader.tx.count(BillingPeriod, *conditions),
    )


def _usage(reader: Reader, period: BillingPeriod, metric: BillableMetric | None) -> PastUsage:
    invoice = reader.tx.get(Invoice, period.invoice_id)
    if invoice is None:
        raise LookupError(f"no invoice {period.invoice_id}")
    fees = reader.tx.find(Fee, eq("invoice_id", invoice.id))
    usage_fees = [
        fee
        for fee in fees
        if fee.fee_type == FeeType.CHARGE
        and fee.subscription_id == period.subscription_id
        and (metric is None or fee.billable_metric_id == metric.id)
    ]
    return PastUsage(period=period, invoice=invoice, invoice_fees=fees, fees=usage_fees)
