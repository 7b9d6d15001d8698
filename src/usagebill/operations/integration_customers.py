"""Links of customers to tax providers, accounting systems and CRMs, as requested with a customer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from usagebill.core.customers import (
    INTEGRATION_CATEGORIES,
    AccountType,
    Customer,
    IntegrationCategory,
    IntegrationCustomer,
)
from usagebill.core.sync_connections import SyncConnection, targeted_object
from usagebill.core.tax_providers import TaxConnection
from usagebill.requests.inputs import ABSENT, Input, Maybe, described, value_or
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import eq

# The kinds that report their own id of a customer.
_NAMED_BY_THEMSELVES = ("anrok", "salesforce")


@Input
class IntegrationCustomerInput:
    """`id` is that of an existing link."""

    id: Maybe[str] = described("The id of an existing link.")
    integration_type: Maybe[str] = ABSENT
    integration_code: Maybe[str] = ABSENT
    external_customer_id: Maybe[str] = described("The customer's id with the provider.")
    sync_with_provider: Maybe[bool] = ABSENT
    subsidiary_id: Maybe[str] = described("The provider's subsidiary.")
    targeted_object: Maybe[str] = described("The type of object that represents the customer at the provider.")


def linked(reader: Reader, customer: Customer, sent: Maybe[Sequence[IntegrationCustomerInput]]) -> Customer:
    """The customer with the requested links; existing links whose id is not sent are removed.

    Nothing changes if no list is sent. Links to unknown connections are skipped, and so are new ones that neither have
    an `external_customer_id` nor are to be created by us. Partners have no links.
    """
    if sent is ABSENT or sent is None or customer.account_type == AccountType.PARTNER:
        return customer
    before = {link.id: link for link in customer.integration_customers}
    kept: list[IntegrationCustomer] = []
    for item in sent:
        existing = before.get(item.id) if item.id else None
        connection = _named(reader, item)
        if connection is None:
            link = existing
        elif existing is not None:
            link = _changed(existing, customer, connection, item)
        else:
            link = _made(reader, customer, connection, item)
        if link is not None:
            kept.append(link)
    return replace(customer, integration_customers=tuple(kept))


def _named(reader: Reader, sent: IntegrationCustomerInput) -> TaxConnection | SyncConnection | None:
    if not sent.integration_type or not sent.integration_code:
        return None
    is_tax = INTEGRATION_CATEGORIES.get(sent.integration_type) is IntegrationCategory.TAX
    kind: type[TaxConnection] | type[SyncConnection] = TaxConnection if is_tax else SyncConnection
    return reader.tx.first(kind, eq("kind", sent.integration_type), eq("code", sent.integration_code))


def _changed(
    known: IntegrationCustomer,
    customer: Customer,
    connection: TaxConnection | SyncConnection,
    sent: IntegrationCustomerInput,
) -> IntegrationCustomer:
    external_customer_id = known.external_customer_id
    if connection.kind not in _NAMED_BY_THEMSELVES:
        external_customer_id = value_or(sent.external_customer_id, None) or external_customer_id
    changed = replace(
        known,
        integration_type=connection.kind,
        integration_code=connection.code,
        connection_id=connection.id,
        external_customer_id=external_customer_id,
        sync_with_provider=bool(value_or(sent.sync_with_provider, known.sync_with_provider)),
    )
    return _described(changed, customer, connection, sent)


def _made(
    reader: Reader, customer: Customer, connection: TaxConnection | SyncConnection, sent: IntegrationCustomerInput
) -> IntegrationCustomer | None:
    external_customer_id = value_or(sent.external_customer_id, None)
    synced = bool(value_or(sent.sync_with_provider, False))
    if not external_customer_id and not synced:
        return None
    made = IntegrationCustomer(
        id=reader.new_id(),
        integration_type=connection.kind,
        integration_code=connection.code,
        connection_id=connection.id,
        external_customer_id=external_customer_id or customer.external_id,
        sync_with_provider=synced,
        created_at=reader.now,
    )
    return _described(made, customer, connection, sent)


def _described(
    link: IntegrationCustomer,
    customer: Customer,
    connection: TaxConnection | SyncConnection,
    sent: IntegrationCustomerInput,
) -> IntegrationCustomer:
    """The link with the fields that apply only to accounting systems or CRMs."""
    if isinstance(connection, TaxConnection):
        return link
    target = targeted_object(connection, customer, value_or(sent.targeted_object, link.targeted_object))
    subsidiary = value_or(sent.subsidiary_id, link.subsidiary_id) if connection.kind == "netsuite" else None
    email = customer.email if target == "contacts" else None
    return replace(link, subsidiary_id=subsidiary, targeted_object=target, email=email)
