"""The tax provider that a customer is linked to."""

from __future__ import annotations

from usagebill.core.customers import Customer, IntegrationCategory, links_of
from usagebill.core.tax_providers import TaxConnection
from usagebill.runtime.work import Reader


def connection_of(reader: Reader, customer: Customer) -> TaxConnection | None:
    """The tax provider that calculates the customer's taxes; None if the organization's own taxes apply."""
    if not customer.integration_customers:
        return None
    links = links_of(customer, IntegrationCategory.TAX)
    return reader.tx.get(TaxConnection, links[0].connection_id) if links else None
