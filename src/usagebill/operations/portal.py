"""The customer portal: links to it, and the contents of its pages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from usagebill.core.aggregation import Window
from usagebill.core.analytics import UsageOfMetric
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.charge_lines import charge_line
from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.customers import Customer
from usagebill.core.days import local_date
from usagebill.core.derived_keys import Purpose, derived_key
from usagebill.core.documents.locales import written
from usagebill.core.errors import NotAllowed, NotFound, Unauthorized
from usagebill.core.events import Event
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import ISSUED, InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.organizations import Organization
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.payment_requests import dues_by_currency
from usagebill.core.payments import Payment, PaymentPage
from usagebill.core.plans import Plan, PlanDefinition
from usagebill.core.portal import is_good_token, portal_token, subject_of_token
from usagebill.core.statuses import PaymentStatus
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.wallets import Wallet
from usagebill.operations.documents import files as documents
from usagebill.operations.invoices.payment_links import payment_url
from usagebill.operations.usage_with_holds import current
from usagebill.queries.customers import customer_by_external_id, entity_of, zone_of
from usagebill.queries.payment_providers import has_payment_pages
from usagebill.queries.payments import payment_of_receipt
from usagebill.queries.subscriptions import definition_for
from usagebill.queries.wallets import active_wallets
from usagebill.rating.analytics.usage import UsageFilters, usage as usage_by_day
from usagebill.rating.current_usage import CurrentUsage, UsageOptions, running_window
from usagebill.rating.ongoing_usage import refreshed_wallets, unbilled_nets
from usagebill.requests.inputs import Paging
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, desc, eq, ne, within
from usagebill.storage.event_queries import EventFilter
from usagebill.storage.ports import Page, Transaction

_PER_PAGE = 20
_MOST_DOCUMENTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A customer with whom it buys from, and the language and time zone of its pages."""

    customer: Customer
    entity: BillingEntity
    locale: str
    zone: ZoneInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a customer owes and has. `due` is the amount due on issued invoices: cents by currency.

    `has_payment_pages` says whether its provider has pages to pay on.
    """

    has_payment_pages: bool
    invoices: Page[Invoice]
    due: dict[str, int]
    wallets: tuple[Wallet, ...]


@dataclass(frozen=True, slots=True)
class _Billed:
    """The usage whose lines are shown."""

    subscription: Subscription
    definition: PlanDefinition
    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningUsage:
    """A subscription's usage in its running period.

    `lines` are the fees that it comes to so far, each as if it were billed now, and `amounts` the cents of each metric
    and day of the customer's.
    """

    subscription: Subscription
    plan: Plan
    usage: CurrentUsage
    lines: tuple[Fee, ...]
    amounts: tuple[UsageOfMetric, ...]


def portal_url(reader: Reader, external_customer_id: str) -> str:
    """A new link to the customer's pages, valid for 12 hours. Raises `NotFound`."""
    customer = customer_by_external_id(reader, external_customer_id)
    token = portal_token(_key(reader.organization), customer.id, reader.now)
    return f"{reader.settings.public_url.rstrip('/')}/customer-portal/{token}"


def opened(tx: Transaction, token: str, now: datetime) -> tuple[Organization, str]:
    """The organization and customer id of a link; it may be any organization's.

    Raises `Unauthorized` if the link was altered or has expired, or its customer was deleted.
    """
    customer = tx.get(Customer, subject_of_token(token))
    organization = None if customer is None else tx.get(Organization, customer.organization_id)
    if customer is None or organization is None or not is_good_token(_key(organization), token, now):
        raise Unauthorized
    return organization, customer.id


def place(reader: Reader, customer_id: str) -> Place:
    """The customer, its seller, and how its pages are written. Raises `Unauthorized`."""
    customer = reader.tx.get(Customer, customer_id)
    if customer is None:
        raise Unauthorized
    entity = entity_of(reader, customer)
    return Place(
        customer=customer,
        entity=entity,
        locale=written(customer.document_locale or entity.document_locale, reader.settings.document_formats),
        zone=zone_of(reader, customer),
    )


def account(reader: Reader, customer: Customer, page: int) -> Account:
    """Issued invoices, newest first, the amount due, and active wallets."""
    wallets = active_wallets(reader, customer.id)
    unpaid = ne("payment_status", PaymentStatus.SUCCEEDED)
    owed = reader.tx.find(Invoice, eq("customer_id", customer.id), eq("status", InvoiceStatus.FINALIZED), unpaid)
    return Account(
        has_payment_pages=has_payment_pages(customer),
        invoices=reader.page(
            Invoice,
            eq("customer_id", customer.id),
            within("status", ISSUED),
            paging=Paging(page=page, per_page=_PER_PAGE),
            order=[desc("issuing_date"), desc("created_at"), desc("id")],
        ),
        due=dues_by_currency(owed),
        wallets=tuple(refreshed_wallets(reader, wallets, unbilled_nets(reader, customer)) if wallets else ()),
    )


def running_subscriptions(reader: Reader, customer: Customer) -> list[Subscription]:
    """The customer's active subscriptions, in the order in which they started."""
    active = eq("customer_id", customer.id), eq("status", SubscriptionStatus.ACTIVE)
    return reader.tx.find(Subscription, *active, order=[asc("started_at"), asc("id")])


def running_usage(reader: Reader, customer: Customer, external_id: str) -> RunningUsage:
    """The usage of one of the customer's active subscriptions. Raises `NotFound`, also for another customer's."""
    options = UsageOptions(external_subscription_id=external_id)
    try:
        used = current(reader, customer.external_id, options)
    except NotAllowed:
        raise NotFound("subscription", external_id) from None
    subscription = next(found for found in running_subscriptions(reader, customer) if found.external_id == external_id)
    window = running_window(reader, subscription)
    definition = definition_for(reader, subscription, window.start)
    billed = _Billed(subscription, definition, window)
    lines = [
        replace(charge_line(billed, result, None, id="", now=reader.now), amount_details=result.amount_details)
        for charge in used.charges
        for result in charge.results
    ]
    zone = zone_of(reader, customer)
    days = UsageFilters(
        external_customer_id=customer.external_id,
        external_subscription_id=external_id,
        from_date=local_date(used.start, zone).isoformat(),
        to_date=local_date(min(used.end, reader.now), zone).isoformat(),
    )
    return RunningUsage(
        subscription=subscription,
        plan=definition.plan,
        usage=used,
        lines=tuple(line for line in lines if line.units or line.amount_cents or line.events_count),
        amounts=tuple(usage_by_day(reader, days)),
    )


def events_of(reader: Reader, running: RunningUsage, *, at_most: int) -> list[Event]:
    """The latest events of the running period."""
    period = EventFilter(
        external_subscription_id=running.subscription.external_id,
        timestamp_from=running.usage.start,
        timestamp_to=running.usage.end,
    )
    return reader.tx.events.find(period, limit=at_most)


def invoice_of(reader: Reader, customer_id: str, invoice_id: str) -> Invoice:
    """The finalized invoice of this customer. Raises `NotFound`, also for another customer's."""
    invoice = reader.tx.get(Invoice, invoice_id)
    if invoice is None or invoice.customer_id != customer_id or invoice.status != InvoiceStatus.FINALIZED:
        raise NotFound("invoice", invoice_id)
    return invoice


def invoice_pdf(work: Work, customer_id: str, invoice_id: str) -> tuple[Invoice, bytes]:
    """The PDF of an invoice of this customer, generated now if it does not exist. Raises `NotFound`."""
    invoice = invoice_of(work, customer_id, invoice_id)
    return invoice, documents.invoice_pdf(work, invoice.id)


def credit_notes(reader: Reader, customer: Customer) -> list[CreditNote]:
    """The latest 100 issued credit notes of the customer, newest first."""
    issued = eq("customer_id", customer.id), eq("status", CreditNoteStatus.FINALIZED)
    order = [desc("issuing_date"), desc("created_at"), desc("id")]
    return reader.tx.find(CreditNote, *issued, order=order, limit=_MOST_DOCUMENTS)


def credit_note_pdf(work: Work, customer_id: str, credit_note_id: str) -> tuple[CreditNote, bytes]:
    """The PDF of a credit note of this customer. Raises `NotFound`."""
    note = work.tx.get(CreditNote, credit_note_id)
    if note is None or note.customer_id != customer_id or note.status != CreditNoteStatus.FINALIZED:
        raise NotFound("credit_note", credit_note_id)
    return note, documents.credit_note_pdf(work, note.id)


def receipts(reader: Reader, customer: Customer) -> list[tuple[PaymentReceipt, Payment]]:
    """The latest 100 receipts of the customer with their payments, newest first."""
    found = reader.tx.find(
        PaymentReceipt,
        eq("customer_id", customer.id),
        order=[desc("created_at"), desc("id")],
        limit=_MOST_DOCUMENTS,
    )
    return [(receipt, payment_of_receipt(reader, receipt)) for receipt in found]


def receipt_pdf(work: Work, customer_id: str, receipt_id: str) -> tuple[PaymentReceipt, bytes]:
    """The PDF of a receipt of this customer. Raises `NotFound`."""
    receipt = work.tx.get(PaymentReceipt, receipt_id)
    if receipt is None or receipt.customer_id != customer_id:
        raise NotFound("payment_receipt", receipt_id)
    return receipt, documents.receipt_pdf(work, receipt.id)


def payment_page(work: Work, customer_id: str, invoice_id: str) -> PaymentPage:
    """The provider's page to pay the customer's invoice. Raises `NotFound`, and as `payment_url` does."""
    return payment_url(work, invoice_of(work, customer_id, invoice_id).id)


def _key(organization: Organization) -> str:
    return derived_key(organization.root_key, Purpose.PORTAL_LINK)
