"""The lists of the console: one row each, with its operation, columns and filters; one page shows them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from usagebill.core.coupons import CouponStatus
from usagebill.core.credit_notes import CreditStatus
from usagebill.core.fees import FeeType
from usagebill.core.holds import HoldStatus
from usagebill.core.invoices.life_cycle import VISIBLE, InvoiceType
from usagebill.core.payments import NoticeStatus
from usagebill.core.security_logs import LOG_TYPES
from usagebill.core.statuses import INVOICE_PAYMENT_STATUSES, SyncStatus
from usagebill.core.subscriptions import SubscriptionStatus
from usagebill.core.sync_connections import SyncSubject
from usagebill.core.webhooks import MessageStatus


class Kind(StrEnum):
    """How a column is shown."""

    TEXT = "text"
    CODE = "code"
    MONEY = "money"
    NUMBER = "number"
    WHEN = "when"
    DAY = "day"
    STATUS = "status"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, and the field that it shows (`customer.name`). `currency` is the field with that of
    an amount. The first column links to the record itself; another where its name says (`links`), or where the field
    `target` would as one of the name `names`.
    """

    label: str
    field: str
    kind: Kind = Kind.TEXT
    currency: str = "currency"
    names: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter: the argument of the operation, and its values; without them it is typed in."""

    name: str
    label: str
    values: tuple[str, ...] = ()
    many: bool = False
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class List:
    """A list with its address, its operation (`customers.list`) and what it says when there is nothing. `key` is the
    field by which the operation `get` finds a record.
    """

    path: str
    title: str
    group: str
    operation: str
    columns: Sequence[Column]
    empty: str
    key: str = "svc_id"
    get: str = ""
    filters: Sequence[Filter] = ()
    searched: bool = False
    # What can be done again with a record: the operation, and the words for it.
    again: tuple[str, str] | None = None
    # Whether its rows take long to find, and are asked for after the page.
    is_slow: bool = False
    # Other lists about a record, each with the argument that names it.
    related: Sequence[tuple[str, str]] = ()


_CUSTOMER = Column("Customer", "external_customer_id")
_OF_CUSTOMER = Filter("external_customer_id", "Customer")
_SPAN = (Filter("from_date", "From", kind="date"), Filter("to_date", "To", kind="date"))
_CREATED = Column("Created", "created_at", Kind.WHEN)
_NAME, _CODE = Column("Name", "name"), Column("Code", "code", Kind.CODE)

CUSTOMERS, BILLING, CATALOG, USAGE, SYSTEM = "Customers", "Billing", "Catalog", "Usage", "System"

LISTS: Sequence[List] = (
    List(
        "customers",
        "Customers",
        CUSTOMERS,
        "customers.list",
        (
            _NAME,
            Column("Id", "external_id", Kind.CODE),
            Column("E-mail", "email"),
            Column("Country", "country"),
            Column("Currency", "currency"),
            _CREATED,
        ),
        "A customer is made by the first request that names it.",
        key="external_id",
        get="customers.get",
        searched=True,
    ),
    List(
        "subscriptions",
        "Subscriptions",
        CUSTOMERS,
        "subscriptions.list",
        (
            Column("Subscription", "external_id", Kind.CODE),
            Column("Name", "name"),
            _CUSTOMER,
            Column("Plan", "plan_code"),
            Column("Fee", "plan_amount_cents", Kind.MONEY, currency="plan_amount_currency"),
            Column("Status", "status", Kind.STATUS),
            Column("Started", "started_at", Kind.DAY),
            Column("Period ends", "current_billing_period_ending_at", Kind.DAY),
        ),
        "A subscription puts a customer on a plan.",
        key="external_id",
        get="subscriptions.get",
        filters=(
            Filter("status", "Status", tuple(SubscriptionStatus), many=True),
            _OF_CUSTOMER,
            Filter("plan_code", "Plan"),
        ),
    ),
    List(
        "wallets",
        "Wallets",
        CUSTOMERS,
        "wallets.list",
        (
            Column("Wallet", "code", Kind.CODE),
            Column("Name", "name"),
            _CUSTOMER,
            Column("Credits", "credits_balance", Kind.NUMBER),
            Column("Balance", "balance_cents", Kind.MONEY),
            Column("After usage so far", "ongoing_balance_cents", Kind.MONEY),
            Column("Status", "status", Kind.STATUS),
            Column("Expires", "expiration_at", Kind.DAY),
        ),
        "A wallet holds credits that a customer has paid for in advance.",
        get="wallets.get",
        filters=(_OF_CUSTOMER, Filter("currency", "Currency")),
    ),
    List(
        "invoices",
        "Invoices",
        BILLING,
        "invoices.list",
        (
            Column("Number", "number", Kind.CODE),
            Column("Customer", "customer.name"),
            Column("Customer id", "customer.external_id", names="external_customer_id"),
            Column("Date", "issuing_date", Kind.DAY),
            Column("Type", "invoice_type", Kind.STATUS),
            Column("Total", "total_amount_cents", Kind.MONEY),
            Column("Due", "total_due_amount_cents", Kind.MONEY),
            Column("Status", "status", Kind.STATUS),
            Column("Payment", "payment_status", Kind.STATUS),
        ),
        "An invoice is made when a billing period ends, or when one is asked for.",
        get="invoices.get",
        searched=True,
        filters=(
            Filter("status", "Status", tuple(VISIBLE)),
            Filter("payment_status", "Payment", tuple(INVOICE_PAYMENT_STATUSES)),
            Filter("payment_overdue", "Overdue", ("true", "false")),
            Filter("overpaid", "Overpaid", ("true", "false")),
            Filter("invoice_type", "Type", tuple(InvoiceType)),
            _OF_CUSTOMER,
            Filter("issuing_date_from", "From", kind="date"),
            Filter("issuing_date_to", "To", kind="date"),
        ),
    ),
    List(
        "credit-notes",
        "Credit notes",
        BILLING,
        "credit_notes.list",
        (
            Column("Number", "number", Kind.CODE),
            Column("Customer id", "customer.external_id", names="external_customer_id"),
            Column("Invoice", "invoice_number", names="svc_invoice_id", target="svc_invoice_id"),
            Column("Date", "issuing_date", Kind.DAY),
            Column("Reason", "reason", Kind.STATUS),
            Column("Total", "total_amount_cents", Kind.MONEY),
            Column("Balance", "balance_amount_cents", Kind.MONEY),
            Column("Credit", "credit_status", Kind.STATUS),
            Column("Refund", "refund_status", Kind.STATUS),
        ),
        "A credit note gives back part of an invoice.",
        get="credit_notes.get",
        searched=True,
        filters=(
            Filter("credit_status", "Credit", tuple(CreditStatus)),
            Filter("refund_status", "Refund", tuple(INVOICE_PAYMENT_STATUSES)),
            _OF_CUSTOMER,
        ),
    ),
    List(
        "payments",
        "Payments",
        BILLING,
        "payments.list",
        (
            Column("Payment", "svc_id", Kind.CODE),
            _CUSTOMER,
            Column("Amount", "amount_cents", Kind.MONEY, currency="amount_currency"),
            Column("Status", "payment_status", Kind.STATUS),
            # Its own words, such as a debit that was returned, or a dispute.
            Column("At the provider", "status", Kind.STATUS),
            Column("Type", "type", Kind.STATUS),
            Column("Reference", "reference"),
            _CREATED,
        ),
        "Payments are recorded by hand, or arrive from a payment provider.",
        get="payments.get",
        filters=(_OF_CUSTOMER, Filter("invoice_id", "Invoice id")),
    ),
    List(
        "receipts",
        "Receipts",
        BILLING,
        "payment_receipts.list",
        (Column("Number", "number", Kind.CODE), _CREATED),
        "A receipt is made for each payment, where a billing entity makes them.",
        get="payment_receipts.get",
        filters=(Filter("invoice_id", "Invoice id"),),
    ),
    List(
        "payment-requests",
        "Payment requests",
        BILLING,
        "payment_requests.list",
        (
            Column("Request", "svc_id", Kind.CODE),
            Column("Customer id", "customer.external_id", names="external_customer_id"),
            Column("Amount", "amount_cents", Kind.MONEY, currency="amount_currency"),
            Column("Payment", "payment_status", Kind.STATUS),
            _CREATED,
        ),
        "A payment request asks for several overdue invoices at once.",
        get="payment_requests.get",
        filters=(_OF_CUSTOMER,),
    ),
    List(
        "fees",
        "Fees",
        BILLING,
        "fees.list",
        (
            Column("Fee", "item.name"),
            Column("Type", "item.type", Kind.STATUS),
            _CUSTOMER,
            Column("Subscription", "external_subscription_id"),
            Column("Units", "units", Kind.NUMBER),
            Column("Amount", "amount_cents", Kind.MONEY, currency="amount_currency"),
            Column("Payment", "payment_status", Kind.STATUS),
            _CREATED,
        ),
        "Fees are the lines of invoices.",
        get="fees.get",
        filters=(
            Filter("fee_type", "Type", tuple(FeeType)),
            _OF_CUSTOMER,
            Filter("external_subscription_id", "Subscription"),
        ),
    ),
    List(
        "plans",
        "Plans",
        CATALOG,
        "plans.list",
        (
            _NAME,
            Column("Code", "code", Kind.CODE),
            Column("Interval", "interval", Kind.STATUS),
            Column("Fee", "amount_cents", Kind.MONEY, currency="amount_currency"),
            _CREATED,
        ),
        "A plan is a price list: a fee per period, and charges on usage.",
        key="code",
        get="plans.get",
    ),
    List(
        "metrics",
        "Billable metrics",
        CATALOG,
        "billable_metrics.list",
        (
            _NAME,
            Column("Code", "code", Kind.CODE),
            Column("Aggregation", "aggregation_type", Kind.STATUS),
            Column("Property", "field_name"),
            Column("Recurring", "recurring", Kind.STATUS),
            _CREATED,
        ),
        "A billable metric says how events are counted.",
        key="code",
        get="billable_metrics.get",
    ),
    List(
        "add-ons",
        "Add-ons",
        CATALOG,
        "add_ons.list",
        (
            _NAME,
            Column("Code", "code", Kind.CODE),
            Column("Price", "amount_cents", Kind.MONEY, currency="amount_currency"),
            _CREATED,
        ),
        "An add-on is sold by the unit: once, or with a plan.",
        key="code",
        get="add_ons.get",
    ),
    List(
        "coupons",
        "Coupons",
        CATALOG,
        "coupons.list",
        (
            _NAME,
            Column("Code", "code", Kind.CODE),
            Column("Type", "coupon_type", Kind.STATUS),
            Column("Amount", "amount_cents", Kind.MONEY, currency="amount_currency"),
            Column("Rate %", "percentage_rate", Kind.NUMBER),
            Column("Frequency", "frequency", Kind.STATUS),
            _CREATED,
        ),
        "A coupon takes an amount or a percentage off invoices.",
        key="code",
        get="coupons.get",
        related=(("applied-coupons", "coupon_code"),),
    ),
    List(
        "applied-coupons",
        "Applied coupons",
        CATALOG,
        "applied_coupons.list",
        (
            Column("Coupon", "coupon_code"),
            _CUSTOMER,
            Column("Amount", "amount_cents", Kind.MONEY, currency="amount_currency"),
            Column("Left", "amount_cents_remaining", Kind.MONEY, currency="amount_currency"),
            Column("Rate %", "percentage_rate", Kind.NUMBER),
            Column("Status", "status", Kind.STATUS),
            _CREATED,
        ),
        "A coupon is applied to a customer before it counts.",
        filters=(
            Filter("status", "Status", tuple(CouponStatus)),
            _OF_CUSTOMER,
            Filter("coupon_code", "Coupon", many=True),
        ),
    ),
    List(
        "taxes",
        "Taxes",
        CATALOG,
        "taxes.list",
        (
            _NAME,
            Column("Code", "code", Kind.CODE),
            Column("Rate %", "rate", Kind.NUMBER),
            Column("On everything", "applied_to_organization", Kind.STATUS),
            _CREATED,
        ),
        "A tax is applied to everything, or to customers, plans and charges that name it.",
        key="code",
        get="taxes.get",
    ),
    List(
        "features",
        "Features",
        CATALOG,
        "features.list",
        (_NAME, Column("Code", "code", Kind.CODE), Column("Description", "description"), _CREATED),
        "A feature is what a plan entitles its subscribers to.",
        key="code",
        get="features.get",
        searched=True,
    ),
    List(
        "events",
        "Events",
        USAGE,
        "events.list",
        (
            Column("Event", "transaction_id", Kind.CODE),
            Column("Metric", "code", names="billable_metric_code"),
            Column("Subscription", "external_subscription_id"),
            Column("Time", "timestamp", Kind.WHEN),
            Column("Received", "created_at", Kind.WHEN),
        ),
        "Events are sent by your product, one for each use.",
        key="transaction_id",
        get="events.get",
        filters=(Filter("code", "Metric"), Filter("external_subscription_id", "Subscription")),
    ),
    List(
        "unbilled",
        "Unbilled events",
        USAGE,
        "events.unbilled",
        (
            Column("Event", "transaction_id", Kind.CODE),
            Column("Why it is not billed", "unbilled.message"),
            Column("Metric", "code", names="billable_metric_code"),
            Column("Subscription", "external_subscription_id"),
            Column("Time", "timestamp", Kind.WHEN),
        ),
        "Every event is billed, or will be.",
        is_slow=True,
        filters=(Filter("code", "Metric"), Filter("external_subscription_id", "Subscription")),
    ),
    List(
        "refused-events",
        "Refused events",
        USAGE,
        "event_sources.refused",
        (
            Column("Source", "source"),
            Column("Part", "part"),
            Column("Position", "position", Kind.NUMBER),
            _CREATED,
        ),
        "Every entry of the files and brokers that are read is an event.",
        get="event_sources.get_refused",
        filters=(Filter("source", "Source"),),
    ),
    List(
        "holds",
        "Holds",
        USAGE,
        "holds.list",
        (
            Column("Hold", "svc_id", Kind.CODE),
            _CUSTOMER,
            Column("Subscription", "external_subscription_id"),
            Column("Metric", "billable_metric_code"),
            Column("Amount", "amount_cents", Kind.MONEY),
            Column("Captured", "captured_amount_cents", Kind.MONEY),
            Column("Status", "status", Kind.STATUS),
            Column("Ends", "expires_at", Kind.WHEN),
        ),
        "A hold reserves usage that may come, within what limits and credits leave.",
        get="holds.get",
        filters=(
            Filter("status", "Status", tuple(HoldStatus)),
            _OF_CUSTOMER,
            Filter("external_subscription_id", "Subscription"),
        ),
    ),
    List(
        "webhooks",
        "Webhooks",
        SYSTEM,
        "webhooks.list",
        (
            Column("Message", "webhook_type", Kind.CODE),
            Column("To", "endpoint"),
            Column("Status", "status", Kind.STATUS),
            Column("Answer", "http_status"),
            Column("Attempts", "retries", Kind.NUMBER),
            Column("Last attempt", "last_retried_at", Kind.WHEN),
            _CREATED,
        ),
        "A message is sent to your endpoints for each change that they listen to.",
        again=("webhooks.resend", "Resend"),
        get="webhooks.get",
        filters=(
            Filter("statuses", "Status", tuple(MessageStatus), many=True),
            Filter("event_types", "Type", many=True),
            Filter("http_statuses", "Answer", many=True),
            *_SPAN,
        ),
    ),
    List(
        "endpoints",
        "Webhook endpoints",
        SYSTEM,
        "webhook_endpoints.list",
        (
            Column("Address", "webhook_url"),
            Column("Name", "name"),
            Column("Signature", "signature_algo"),
            _CREATED,
        ),
        "An endpoint is the address that messages are sent to.",
        get="webhook_endpoints.get",
    ),
    List(
        "waiting-jobs",
        "Waiting jobs",
        SYSTEM,
        "jobs.list_waiting",
        (
            Column("Job", "kind", Kind.STATUS),
            _CUSTOMER,
            Column("Due", "due_at", Kind.WHEN),
            Column("Attempts", "attempts", Kind.NUMBER),
        ),
        "A job is what is done later, such as billing a customer when a period ends.",
        filters=(_OF_CUSTOMER,),
    ),
    List(
        "jobs",
        "Failed jobs",
        SYSTEM,
        "jobs.list_failed",
        (
            Column("Job", "kind", Kind.STATUS),
            _CUSTOMER,
            Column("Due", "due_at", Kind.WHEN),
            Column("Attempts", "attempts", Kind.NUMBER),
            Column("Next attempt", "next_try_at", Kind.WHEN),
            Column("Error", "error"),
        ),
        "Everything that was due has been done.",
        again=("jobs.retry", "Try again"),
    ),
    List(
        "dunning-campaigns",
        "Dunning campaigns",
        SYSTEM,
        "dunning_campaigns.list",
        (
            _NAME,
            Column("Code", "code", Kind.CODE),
            Column("Attempts", "max_attempts", Kind.NUMBER),
            Column("Days between them", "days_between_attempts", Kind.NUMBER),
            _CREATED,
        ),
        "A campaign asks customers again and again for what is overdue.",
        key="code",
        get="dunning_campaigns.get",
    ),
    List(
        "payment-connections",
        "Payment providers",
        SYSTEM,
        "payment_connections.list",
        (
            _NAME,
            _CODE,
            Column("Provider", "kind", Kind.STATUS),
            Column("Live", "live", Kind.STATUS),
            Column("Error", "connect_error"),
            _CREATED,
        ),
        "A payment provider collects invoices.",
        key="code",
        get="payment_connections.get",
    ),
    List(
        "notices",
        "Payment notices",
        SYSTEM,
        "payment_connections.notices",
        (
            Column("Notice", "type", Kind.CODE),
            Column("Provider", "payment_provider_code", names="payment_provider_code"),
            Column("Status", "status", Kind.STATUS),
            Column("Why", "reason"),
            _CREATED,
        ),
        "Payment providers send notices of what happens there.",
        filters=(Filter("status", "Status", tuple(NoticeStatus)),),
    ),
    List(
        "tax-connections",
        "Tax providers",
        SYSTEM,
        "tax_connections.list",
        (_NAME, _CODE, Column("Provider", "kind", Kind.STATUS), Column("Address", "url"), _CREATED),
        "A tax provider computes the taxes of invoices.",
        key="code",
        get="tax_connections.get",
    ),
    List(
        "sync-connections",
        "Accounting and CRM",
        SYSTEM,
        "sync_connections.list",
        (_NAME, _CODE, Column("System", "kind", Kind.STATUS), Column("Address", "url"), _CREATED),
        "An accounting system or CRM is sent customers, invoices, credit notes and payments.",
        key="code",
        get="sync_connections.get",
    ),
    List(
        "synced-documents",
        "Documents sent on",
        SYSTEM,
        "synced_documents.list",
        (
            Column("Document", "svc_id", Kind.CODE),
            Column("Of", "subject", Kind.STATUS),
            Column("To", "integration_code"),
            Column("Status", "status", Kind.STATUS),
            Column("Error", "error.message"),
            Column("Attempts", "attempts", Kind.NUMBER),
            _CREATED,
        ),
        "Nothing has been sent to an accounting system or CRM.",
        again=("synced_documents.resend", "Send again"),
        get="synced_documents.get",
        filters=(Filter("status", "Status", tuple(SyncStatus)), Filter("subject", "Of", tuple(SyncSubject))),
    ),
    List(
        "entities",
        "Billing entities",
        SYSTEM,
        "billing_entities.list",
        (
            _NAME,
            Column("Code", "code", Kind.CODE),
            Column("Country", "country"),
            Column("Currency", "default_currency"),
            _CREATED,
        ),
        "A billing entity is who invoices come from.",
        key="code",
        get="billing_entities.get",
    ),
    List(
        "keys",
        "API keys",
        SYSTEM,
        "api_keys.list",
        (
            _NAME,
            Column("Key", "value", Kind.CODE),
            Column("Last used", "last_used_at", Kind.WHEN),
            Column("Expires", "expires_at", Kind.WHEN),
            _CREATED,
        ),
        "A key lets a program call the API.",
        get="api_keys.get",
    ),
    List(
        "users",
        "Users",
        SYSTEM,
        "users.list",
        (
            Column("Address", "email"),
            Column("Role", "role", Kind.STATUS),
            _CREATED,
        ),
        "A user signs in to this console.",
        get="users.get",
    ),
    List(
        "activity",
        "Activity log",
        SYSTEM,
        "activity_logs.list",
        (
            Column("Activity", "activity_type", Kind.CODE),
            Column("By", "user_email"),
            Column("Source", "activity_source", Kind.STATUS),
            Column("Customer", "external_customer_id"),
            Column("Subscription", "external_subscription_id"),
            Column("Time", "logged_at", Kind.WHEN),
        ),
        "Each change is logged here with who made it.",
        key="activity_id",
        get="activity_logs.get",
        filters=(
            Filter("activity_types", "Type", many=True),
            _OF_CUSTOMER,
            Filter("external_subscription_id", "Subscription"),
            Filter("user_emails", "User", many=True),
            Filter("resource_ids", "Record id", many=True),
            *_SPAN,
        ),
    ),
    List(
        "requests",
        "API log",
        SYSTEM,
        "api_logs.list",
        (
            Column("Request", "request_path", Kind.CODE),
            Column("Verb", "http_method"),
            Column("Answer", "http_status"),
            Column("Client", "client"),
            Column("Time", "logged_at", Kind.WHEN),
        ),
        "Each request that changes something is logged here.",
        key="request_id",
        get="api_logs.get",
        filters=(
            Filter("http_methods", "Verb", ("post", "put", "patch", "delete"), many=True),
            Filter("http_statuses", "Answer", many=True),
            *_SPAN,
        ),
    ),
    List(
        "security",
        "Security log",
        SYSTEM,
        "security_logs.list",
        (
            Column("Event", "log_event", Kind.CODE),
            Column("By", "user_email"),
            Column("Time", "logged_at", Kind.WHEN),
        ),
        "Changes of keys, users, endpoints and connections are logged here.",
        key="log_id",
        get="security_logs.get",
        filters=(Filter("log_types", "Type", LOG_TYPES, many=True), *_SPAN),
    ),
)

BY_PATH: Mapping[str, List] = {listed.path: listed for listed in LISTS}
