"""Customers: upsert by external id, read, list, delete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from usagebill.core import limits
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.contacts import normalized_email, without_nul
from usagebill.core.coupons import AppliedCoupon
from usagebill.core.customers import (
    ACCOUNT_TYPES,
    METADATA_AT_MOST,
    ZERO_AMOUNT_OPTIONS,
    Address,
    Customer,
    MetadataItem,
    ZeroAmountInvoices,
    dating_settings,
    definition_errors,
    metadata_errors,
    timezone,
)
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.invoices.records import Invoice
from usagebill.core.organizations import Organization, check_customers
from usagebill.core.subscriptions import Subscription
from usagebill.core.tasks import EndCustomer, RescheduleCustomer
from usagebill.operations import (
    draft_invoices,
    dunning_progress,
    integration_customers,
    invoice_custom_sections,
    provider_customers,
    synced_documents,
    tax_connections,
    vat,
)
from usagebill.operations.backlog import after_backlog, of_customer
from usagebill.operations.customer_currency import with_kept_currency
from usagebill.operations.customer_lists import (
    CustomerFilters as CustomerFilters,
    list_all as list_all,
)
from usagebill.operations.integration_customers import IntegrationCustomerInput as IntegrationCustomerInput
from usagebill.operations.provider_customers import ProviderLinkInput
from usagebill.process.timezones import is_timezone
from usagebill.queries.billing_entities import default_entity as default_entity_or_none
from usagebill.queries.customers import customer_by_external_id, entity_of
from usagebill.queries.dunning import campaign_by_code
from usagebill.queries.organizations import limits_now
from usagebill.requests.inputs import ABSENT, Input, Maybe, changes, described, is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, missing, present
from usagebill.views.customers import customer_summary


@Input
class AddressInput:
    address_line1: Maybe[str] = ABSENT
    address_line2: Maybe[str] = ABSENT
    city: Maybe[str] = ABSENT
    state: Maybe[str] = ABSENT
    zipcode: Maybe[str] = ABSENT
    country: Maybe[str] = ABSENT


@Input
class BillingConfigurationInput:
    invoice_grace_period: Maybe[Annotated[int, limits.GRACE_PERIOD]] = ABSENT
    subscription_invoice_issuing_date_anchor: Maybe[str] = ABSENT
    subscription_invoice_issuing_date_adjustment: Maybe[str] = ABSENT
    document_locale: Maybe[str] = ABSENT
    payment_provider: Maybe[str] = ABSENT
    payment_provider_code: Maybe[str] = ABSENT
    provider_customer_id: Maybe[str] = ABSENT
    sync: Maybe[bool] = described("Whether the provider is called immediately.", default="false")
    sync_with_provider: Maybe[bool] = ABSENT
    provider_payment_methods: Maybe[tuple[str, ...]] = described(
        "The payment methods the customer may use.", example=["card"]
    )


@Input
class CustomerMetadataInput:
    id: Maybe[str] = ABSENT
    key: Maybe[str] = described(required="always")
    value: Maybe[str] = described(required="always")
    display_in_invoice: Maybe[bool] = described("Whether invoices show it.", default="false")


@Input
class CustomerInput:
    external_id: Maybe[str] = described(
        "Your own id of the customer; an existing id updates that customer.", example="acme", required="create"
    )
    billing_entity_code: Maybe[str] = ABSENT
    name: Maybe[str] = ABSENT
    firstname: Maybe[str] = described("The first name of the person.", example="Ada")
    lastname: Maybe[str] = described("The last name of the person.", example="Lovelace")
    customer_type: Maybe[str] = ABSENT
    account_type: Maybe[str] = described("Invoices of partners are self-billed.", values=ACCOUNT_TYPES)
    currency: Maybe[str] = ABSENT
    email: Maybe[str] = ABSENT
    phone: Maybe[str] = ABSENT
    url: Maybe[str] = described("The web site.", example="https://acme.example")
    logo_url: Maybe[str] = ABSENT
    legal_name: Maybe[str] = ABSENT
    legal_number: Maybe[str] = ABSENT
    tax_identification_number: Maybe[str] = described("The VAT or other tax number.", example="BE0123456749")
    address_line1: Maybe[str] = ABSENT
    address_line2: Maybe[str] = ABSENT
    city: Maybe[str] = ABSENT
    state: Maybe[str] = ABSENT
    zipcode: Maybe[str] = ABSENT
    country: Maybe[str] = ABSENT
    shipping_address: Maybe[AddressInput] = described("The delivery address; if present, it determines taxes.")
    timezone: Maybe[str] = ABSENT
    net_payment_term: Maybe[Annotated[int, limits.PAYMENT_TERM]] = ABSENT
    finalize_zero_amount_invoice: Maybe[str] = described(
        "Whether invoices with a total of 0 are issued.", values=ZERO_AMOUNT_OPTIONS, default="inherit"
    )
    skip_invoice_custom_sections: Maybe[bool] = ABSENT
    invoice_custom_section_codes: Maybe[tuple[str, ...]] = ABSENT
    billing_configuration: Maybe[BillingConfigurationInput] = ABSENT
    metadata: Maybe[tuple[CustomerMetadataInput, ...]] = described("Your own values, each with a key.")
    tax_codes: Maybe[tuple[str, ...]] = ABSENT
    integration_customers: Maybe[tuple[IntegrationCustomerInput, ...]] = described(
        "The systems that the customer is linked to. Links that are not sent are removed."
    )
    applied_dunning_campaign_code: Maybe[str] = ABSENT
    exclude_from_dunning_campaign: Maybe[bool] = described(
        "Whether dunning campaigns skip this customer.", default="false"
    )


_ADDRESS = ("address_line1", "address_line2", "city", "state", "zipcode", "country")
_PLAIN = (
    "name",
    "firstname",
    "lastname",
    "customer_type",
    "currency",
    "email",
    "phone",
    "url",
    "logo_url",
    "legal_name",
    "legal_number",
    "tax_identification_number",
    "timezone",
    "net_payment_term",
    *_ADDRESS,
)
_LINK = (
    "payment_provider",
    "payment_provider_code",
    "provider_customer_id",
    "sync_with_provider",
    "provider_payment_methods",
)
_INHERITED = (
    "invoice_grace_period",
    "subscription_invoice_issuing_date_anchor",
    "subscription_invoice_issuing_date_adjustment",
    "document_locale",
)


def default_entity(reader: Reader) -> BillingEntity:
    """The oldest active billing entity. Raises `NotFound`."""
    entity = default_entity_or_none(reader)
    if entity is None:
        raise NotFound("billing_entity")
    return entity


def _sent_id(request: CustomerInput) -> str:
    return without_nul(value_or(request.external_id, "")) or ""


def _of_sent(work: Work, request: CustomerInput) -> list[str]:
    return of_customer(work, _sent_id(request))


@after_backlog(_of_sent)
def upsert(work: Work, request: CustomerInput) -> Customer:
    """Create the customer with this external id, or change the sent fields of the existing one, all or nothing.

    `tax_codes`, `metadata` and the selection of custom sections are replaced. Raises `Invalid`, and
    `NotFound` for unknown billing entities and taxes.
    """
    entity = _entity(work, request)
    external_id = _sent_id(request)
    before = work.tx.first(Customer, eq("external_id", external_id)) if external_id else None
    _check_lists(request)
    if before is None and (allowed := limits_now(work)).customers is not None:
        check_customers(allowed, work.tx.count(Customer))
    customer = before or _new(work, external_id, entity)
    if is_given(request.billing_entity_code):
        customer = replace(customer, billing_entity_id=entity.id)
    customer = replace(customer, updated_at=work.now, **_fields(work, before, request))
    customer = replace(customer, shipping_address=_shipping_address(customer.shipping_address, request))
    problems = definition_errors(customer)
    if customer.timezone is not None and not is_timezone(customer.timezone):
        problems["timezone"] = ["invalid_timezone"]
    if problems:
        raise Invalid(problems)
    customer = vat.assign(
        work,
        before,
        customer,
        sent=changes(request, "country", "zipcode", "tax_identification_number"),
        tax_codes=None if request.tax_codes is ABSENT else request.tax_codes,
    )
    customer = _with_sections(work, customer, request)
    customer = replace(customer, metadata=_metadata(work, customer.metadata, request))
    customer = integration_customers.linked(work, customer, request.integration_customers)
    if before is not None:
        customer = with_kept_currency(work, before, customer)
    if before is not None and (
        _addresses(before) != _addresses(customer) or tax_connections.decided_by_another(before, customer)
    ):
        customer = replace(customer, tax_error=None)
    customer = provider_customers.linked(work, before, customer, _provider(request))
    if before is None:
        number = work.tx.next_number("customers")
        # Read again: the work may have been opened with an earlier state of it.
        organization = work.tx.get(Organization, work.organization.id) or work.organization
        slug = f"{organization.document_number_prefix}-{number:03d}"
        customer = replace(customer, sequential_id=number, slug=slug)
        work.tx.insert(customer)
        work.emit("customer.created", lambda: customer_summary(work, customer), customer.id)
        provider_customers.follow_link(work, None, customer)
        synced_documents.follow_customer(work, None, customer)
        return customer
    work.tx.replace(customer)
    _follow(work, before, customer, request)
    work.emit("customer.updated", lambda: customer_summary(work, customer), customer.id)
    provider_customers.follow_link(work, before, customer)
    synced_documents.follow_customer(work, before, customer)
    return customer


@after_backlog(of_customer, needed=True)
def delete(work: Work, external_id: str) -> Customer:
    """Delete the customer; its subscriptions, wallets and coupons end right after. Invoices stay, its id is free."""
    deleted = replace(customer_by_external_id(work, external_id), deleted_at=work.now, updated_at=work.now)
    work.tx.replace(deleted)
    work.schedule(EndCustomer(customer_id=deleted.id), work.now)
    return deleted


def _entity(reader: Reader, request: CustomerInput) -> BillingEntity:
    if not request.billing_entity_code:
        return default_entity(reader)
    entity = reader.tx.first(BillingEntity, eq("code", request.billing_entity_code), missing("archived_at"))
    if entity is None:
        raise NotFound("billing_entity", request.billing_entity_code)
    return entity


def _check_lists(request: CustomerInput) -> None:
    """Raises `Invalid` for the first list that no customer could have."""
    if len(value_or(request.metadata, ())) > METADATA_AT_MOST:
        raise Invalid(metadata="invalid_count")
    if value_or(request.finalize_zero_amount_invoice, ZeroAmountInvoices.INHERIT) not in ZERO_AMOUNT_OPTIONS:
        raise Invalid(finalize_zero_amount_invoice="invalid_value")
    kinds = [link.integration_type for link in value_or(request.integration_customers, ())]
    if len(set(kinds)) < len(kinds):
        raise Invalid(integration_customers="invalid_count_per_integration_type")
    if request.skip_invoice_custom_sections and request.invoice_custom_section_codes:
        raise Invalid(invoice_custom_sections="skip_sections_and_selected_ids_sent_together")


def _new(reader: Reader, external_id: str, entity: BillingEntity) -> Customer:
    return Customer(
        id=reader.new_id(),
        organization_id=reader.organization.id,
        external_id=external_id,
        billing_entity_id=entity.id,
        sequential_id=0,
        slug="",
        created_at=reader.now,
        updated_at=reader.now,
    )


def _fields(reader: Reader, before: Customer | None, request: CustomerInput) -> dict[str, Any]:
    """The sent plain fields, as stored."""
    fields = _texts(changes(request, *_PLAIN))
    if isinstance(fields.get("email"), str):
        fields["email"] = normalized_email(fields["email"])
    if is_given(request.finalize_zero_amount_invoice):
        fields["finalize_zero_amount_invoice"] = request.finalize_zero_amount_invoice or ZeroAmountInvoices.INHERIT
    if request.account_type and (before is None or _may_change_account_type(reader, before)):
        fields["account_type"] = request.account_type
    if is_given(request.applied_dunning_campaign_code):
        code = request.applied_dunning_campaign_code
        fields["applied_dunning_campaign_id"] = campaign_by_code(reader, code).id if code else None
    if is_given(request.exclude_from_dunning_campaign):
        fields["exclude_from_dunning_campaign"] = bool(request.exclude_from_dunning_campaign)
    settings = value_or(request.billing_configuration, BillingConfigurationInput())
    return {**fields, **changes(settings, *_INHERITED)}


def _texts(sent: Mapping[str, Any]) -> dict[str, Any]:
    """Texts without NUL characters, addresses without blanks, countries in capitals."""
    texts: dict[str, Any] = {
        name: without_nul(value) if isinstance(value, str) else value for name, value in sent.items()
    }
    texts |= {name: value or None for name, value in texts.items() if name in _ADDRESS}
    if texts.get("country"):
        texts["country"] = texts["country"].upper()
    return texts


def _shipping_address(address: Address, request: CustomerInput) -> Address:
    sent = value_or(request.shipping_address, AddressInput())
    return replace(address, **_texts(changes(sent)))


def _may_change_account_type(reader: Reader, customer: Customer) -> bool:
    """Whether nothing has been sold to the customer yet."""
    of_this_customer = eq("customer_id", customer.id)
    return not (
        reader.tx.count(Subscription, of_this_customer)
        or reader.tx.count(Invoice, of_this_customer)
        or reader.tx.count(AppliedCoupon, of_this_customer, present("amount_currency"))
    )


def _with_sections(reader: Reader, customer: Customer, request: CustomerInput) -> Customer:
    if request.skip_invoice_custom_sections:
        return replace(customer, skip_invoice_custom_sections=True, invoice_custom_section_ids=())
    if request.invoice_custom_section_codes is not None and request.invoice_custom_section_codes is not ABSENT:
        ids = invoice_custom_sections.ids_of_codes(reader, request.invoice_custom_section_codes)
        return replace(customer, skip_invoice_custom_sections=False, invoice_custom_section_ids=ids)
    if request.skip_invoice_custom_sections is False:
        return replace(customer, skip_invoice_custom_sections=False)
    return customer


def _metadata(reader: Reader, stored: tuple[MetadataItem, ...], request: CustomerInput) -> tuple[MetadataItem, ...]:
    """The items after a request: known ids are changed, others created, and then items that were not sent removed.

    So a key is taken while its item exists, even if the request leaves that item out.
    """
    if request.metadata is None or request.metadata is ABSENT:
        return stored
    items = {item.id: item for item in stored}
    kept: list[str] = []
    for sent in request.metadata:
        known = items.get(sent.id) if sent.id else None
        item = MetadataItem(
            id=reader.new_id() if known is None else known.id,
            key=_sent_text(sent.key, "" if known is None else known.key),
            value=_sent_text(sent.value, "" if known is None else known.value),
            display_in_invoice=value_or(sent.display_in_invoice, False),
            created_at=reader.now if known is None else known.created_at,
        )
        problems = metadata_errors(item, [other for other in items.values() if other.id != item.id])
        if problems:
            raise Invalid(problems)
        items[item.id] = item
        kept.append(item.id)
    return tuple(items[id] for id in dict.fromkeys(kept))


def _sent_text(sent: object, default: str) -> str:
    if sent is ABSENT:
        return default
    return without_nul(sent) or "" if isinstance(sent, str) else ""


def _provider(request: CustomerInput) -> ProviderLinkInput:
    settings = value_or(request.billing_configuration, BillingConfigurationInput())
    return ProviderLinkInput(**{name: getattr(settings, name) for name in _LINK})


def _addresses(customer: Customer) -> tuple[object, ...]:
    """The customer's shipping and billing addresses."""
    return customer.shipping_address, *(getattr(customer, name) for name in _ADDRESS)


def _follow(work: Work, before: Customer, after: Customer, request: CustomerInput) -> None:
    """Update the customer's drafts and schedule after a change of the customer."""
    old_entity, new_entity = entity_of(work, before), entity_of(work, after)
    tax_connections.follow(work, before, after)
    if before.tax_ids != after.tax_ids or (is_given(request.tax_codes) and request.tax_codes is not None):
        draft_invoices.flag(work, draft_invoices.drafts_of_customers([after.id]))
    if request.billing_configuration:
        old, new = dating_settings(before, old_entity), dating_settings(after, new_entity)
        draft_invoices.shift(work, after.id, old, new)
    _follow_campaign(work, before, after)
    if timezone(before, old_entity) != timezone(after, new_entity):
        work.schedule(RescheduleCustomer(customer_id=after.id), work.now)


def _follow_campaign(work: Work, before: Customer, after: Customer) -> None:
    """Reset the customer's dunning if another campaign applies now: attempts of the former one do not count."""
    if before.applied_dunning_campaign_id != after.applied_dunning_campaign_id:
        dunning_progress.clear(work, after)
    decides = ("applied_dunning_campaign_id", "exclude_from_dunning_campaign", "billing_entity_id")
    if any(getattr(before, name) != getattr(after, name) for name in decides):
        dunning_progress.watch(work, after.id)
