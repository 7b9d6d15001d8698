"""The customer portal: links to it, and the contents of its pages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.derived_keys import Purpose, derived_key
from usagebill.core.documents.locales import written
from usagebill.core.errors import NotFound, Unauthorized
from usagebill.core.invoices.life_cycle import ISSUED, InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.organizations import Organization
from usagebill.core.payment_providers import KINDS
from usagebill.core.payment_requests import dues_by_currency
from usagebill.core.payments import PaymentPage
from usagebill.core.portal import is_good_token, portal_token, subject_of_token
from usagebill.core.statuses import PaymentStatus
from usagebill.core.wallets import Wallet
from usagebill.operations.documents import files as documents
from usagebill.operations.invoices.payment_links import payment_url
from usagebill.queries.customers import customer_by_external_id, entity_of, zone_of
from usagebill.queries.wallets import active_wallets
from usagebill.rating.ongoing_usage import refreshed_wallets, unbilled_nets
from usagebill.requests.inputs import Paging
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import desc, eq, ne, within
from usagebill.storage.ports import Page, Transaction

_PER_PAGE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Portal:
    """The contents of one customer's pages. `due` is the amount due on issued invoices: cents by currency.

    `zone` is the customer's time zone; `has_payment_pages` says whether its provider has pages to pay on.
    """

    customer: Customer
    entity: BillingEntity
    locale: str
    zone: ZoneInfo
    has_payment_pages: bool
    invoices: Page[Invoice]
    due: dict[str, int]
    wallets: tuple[Wallet, ...]


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


def portal(reader: Reader, customer_id: str, page: int) -> Portal:
    """The customer's pages: issued invoices, newest first, the amount due, and active wallets."""
    customer = _customer(reader, customer_id)
    entity = entity_of(reader, customer)
    wallets = active_wallets(reader, customer.id)
    unpaid = ne("payment_status", PaymentStatus.SUCCEEDED)
    owed = reader.tx.find(Invoice, eq("customer_id", customer.id), eq("status", InvoiceStatus.FINALIZED), unpaid)
    return Portal(
        customer=customer,
        entity=entity,
        locale=written(customer.document_locale or entity.document_locale, reader.settings.document_formats),
        zone=zone_of(reader, customer),
        has_payment_pages=customer.payment_connection_id is not None and KINDS[customer.payment_provider or ""].pages,
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


def payment_page(work: Work, customer_id: str, invoice_id: str) -> PaymentPage:
    """The provider's page to pay the customer's invoice. Raises `NotFound`, and as `payment_url` does."""
    return payment_url(work, invoice_of(work, customer_id, invoice_id).id)


def _key(organization: Organization) -> str:
    return derived_key(organization.root_key, Purpose.PORTAL_LINK)


def _customer(reader: Reader, customer_id: str) -> Customer:
    customer = reader.tx.get(Customer, customer_id)
    if customer is None:
        raise Unauthorized
    return customer
