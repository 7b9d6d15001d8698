"""Made by `python -m tests.library_stubs`."""

from datetime import date
from typing import ClassVar, Literal

from usagebill.bindings import Messages, Resource, Views
from usagebill.core.analytics import GrossRevenue, InvoiceCollection, InvoicedUsage, OverdueBalance, RecurringRevenue
from usagebill.records import UsageOfMetric

class Analytics(Resource):
    """Revenue, collection and usage by month and currency."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def gross_revenue(
        self,
        *,
        currency: str | None = ...,
        months: int | None = ...,
        external_customer_id: str | None = ...,
        billing_entity_code: str | None = ...,
    ) -> list[GrossRevenue]:
        """Totals of finalized invoices, by the month of their date, currency and billing entity; oldest first.

        Refunds are taken off the month of their invoice. Fees paid in advance without an invoice count in the month in
        which they were made, before taxes. Self-billed invoices and lost disputes are left out.

        currency: The currency, ISO 4217.
        months: The number of months, including the current one. In months. Default: 12.
        external_customer_id: The customer, by your own id.
        billing_entity_code: The billing entity that issues invoices, by code. Default: the default one.
        """

    def invoice_collection(
        self,
        *,
        currency: str | None = ...,
        months: int | None = ...,
        external_customer_id: str | None = ...,
        billing_entity_code: str | None = ...,
    ) -> list[InvoiceCollection]:
        """The finalized invoices of each month by payment status and currency, in that order; oldest month first.

        A month without invoices has an empty row, unless filtered by currency. Self-billed invoices and lost disputes are
        left out.

        currency: The currency, ISO 4217.
        months: The number of months, including the current one. In months. Default: 12.
        external_customer_id: The customer, by your own id.
        billing_entity_code: The billing entity that issues invoices, by code. Default: the default one.
        """

    def invoiced_usage(
        self,
        *,
        currency: str | None = ...,
        months: int | None = ...,
        external_customer_id: str | None = ...,
        billing_entity_code: str | None = ...,
    ) -> list[InvoicedUsage]:
        """Usage fees on invoices of any status, after coupons and before taxes, by the month in which they were made.

        Newest month first, then the largest amount. Self-billed invoices and lost disputes are left out.

        currency: The currency, ISO 4217.
        months: The number of months, including the current one. In months. Default: 12.
        external_customer_id: The customer, by your own id.
        billing_entity_code: The billing entity that issues invoices, by code. Default: the default one.
        """

    def mrr(
        self,
        *,
        currency: str | None = ...,
        months: int | None = ...,
        external_customer_id: str | None = ...,
        billing_entity_code: str | None = ...,
    ) -> list[RecurringRevenue]:
        """Monthly recurring revenue: subscription fees of finalized invoices after coupons, with taxes, spread over time.

        Oldest month first; a month without fees has an empty row, unless filtered by currency. Self-billed invoices and
        lost disputes are left out.

        currency: The currency, ISO 4217.
        months: The number of months, including the current one. In months. Default: 12.
        external_customer_id: The customer, by your own id.
        billing_entity_code: The billing entity that issues invoices, by code. Default: the default one.
        """

    def overdue_balance(
        self,
        *,
        currency: str | None = ...,
        months: int | None = ...,
        external_customer_id: str | None = ...,
        billing_entity_code: str | None = ...,
    ) -> list[OverdueBalance]:
        """The amount still due on overdue invoices, by the month in which they were due, currency and billing entity.

        Oldest month first. Payments and finalized offsets are taken off. Self-billed invoices are left out.

        currency: The currency, ISO 4217.
        months: The number of months, including the current one. In months. Default: 12.
        external_customer_id: The customer, by your own id.
        billing_entity_code: The billing entity that issues invoices, by code. Default: the default one.
        """

    def usage(
        self,
        *,
        time_granularity: Literal["daily", "weekly", "monthly"] | None = ...,
        currency: str | None = ...,
        from_date: date | str | None = ...,
        to_date: date | str | None = ...,
        customer_type: Literal["company", "individual"] | None = ...,
        external_customer_id: str | None = ...,
        customer_country: str | None = ...,
        external_subscription_id: str | None = ...,
        is_billable_metric_recurring: bool | None = ...,
        plan_code: str | None = ...,
        billable_metric_code: str | None = ...,
    ) -> list[UsageOfMetric]:
        """The usage of each metric and currency by day, week or month: oldest first, then by code.

        A metric without usage has no row. Raises `Invalid` for dates and granularities that make no sense, and for more
        than 400 periods.

        time_granularity: The length of a row's period. One of daily, weekly, monthly. Default: daily.
        currency: The currency, ISO 4217.
        from_date: Only those on or after this day.
        to_date: Only those on or before this day.
        customer_type: Whether it is a company or a person. One of company, individual.
        external_customer_id: The customer, by your own id.
        customer_country: Only usage of customers in this country.
        external_subscription_id: The subscription, by your own id.
        is_billable_metric_recurring: Only usage of recurring metrics, or only of others.
        plan_code: The plan, by code.
        billable_metric_code: The billable metric, by code.
        """
