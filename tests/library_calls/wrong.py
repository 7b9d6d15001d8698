"""Calls that every type checker refuses: each in a line that says so."""

from __future__ import annotations

from usagebill import Billing
from usagebill.client import AsyncClient, Client
from usagebill.fields import ChargeFields, EventFields, GraduatedRange, VolumeRange


def wrong(billing: Billing) -> None:
    billing.customers.upsert(exernal_id="acme")  # refused: a name that is misspelled
    billing.customers.upsert(external_id=7)  # refused: a number for a text
    billing.customers.upsert("acme")  # refused: a field by its position
    billing.customers.get()  # refused: nothing named
    billing.plans.create(name="Pro", code="pro")  # refused: required fields are missing
    billing.plans.update("pro", interval="fortnightly")  # refused: no such interval
    billing.plans.update("pro", amount_cents="49.00")  # refused: cents are integers
    billing.plans.update("pro", charges="all")  # refused: a text for a list
    billing.taxes.create(name="VAT", code="vat", rate=19.6)  # refused: a rate as a float
    print(billing.invoices.get("1").total_due_cents)  # refused: no such attribute
    billing.invoices.list(page="2")  # refused: a page is a number
    billing.events.create(code="storage", propertis={"gb": 1})  # refused: a name that is misspelled
    charge: ChargeFields = {"charge_modl": "standard"}  # refused: a key that is misspelled
    billing.plans.update("pro", charges=[charge])


async def from_afar(billing: Billing, client: Client, awaited: AsyncClient) -> None:
    await billing.aio.customers.upsert(exernal_id="acme")  # refused: a name that is misspelled
    client.customers.upsert(external_id=7)  # refused: a number for a text
    await awaited.plans.create(name="Pro", code="pro")  # refused: required fields are missing
    client.plans.compare()  # refused: nothing that a service offers
    print((await billing.aio.customers.get("acme")).curency)  # refused: no such field
    for invoice in awaited.invoices.list():  # refused: a list that is not awaited
        print(invoice)


def nested(billing: Billing, client: Client) -> None:
    """Fifteen mistakes inside dictionaries, at any depth."""
    plans = billing.plans
    plans.update("pro", charges=[{"billable_metric": "calls"}])  # refused: a key of a charge
    plans.update("pro", charges=[{"charge_model": "tiered"}])  # refused: no such model
    plans.update("pro", charges=[{"pay_in_advance": "no"}])  # refused: a text for a truth
    plans.update("pro", charges=[{"properties": {"ammount": "1"}}])  # refused: a key of its prices
    plans.update("pro", charges=[{"properties": {"amount": ["1"]}}])  # refused: a list for a price
    plans.update("pro", charges=[{"properties": {"package_size": "10"}}])  # refused: a text for a count
    plans.update("pro", charges=[{"filters": [{"properties": {"amont": "1"}}]}])  # refused: a key of a filter's prices
    plans.update("pro", charges=[{"filters": [{"values": {"region": 7}}]}])  # refused: a number for values
    plans.update("pro", charges=[{"properties": {"volume_ranges": [{"from_value": 0}]}}])  # refused: half a tier
    tier: VolumeRange = {"from_value": 0, "to_value": None, "per_unit_amount": 0.5, "flat_amount": 0}  # refused: float
    last: GraduatedRange = {"from_value": 10, "per_unit_amount": "1", "flat_amount": "0"}  # refused: no end
    plans.update("pro", minimum_commitment={"amount": 100})  # refused: a key of a commitment
    plans.update("pro", usage_thresholds=[{"amount_cents": "100"}])  # refused: a text for cents
    client.customers.upsert(external_id="acme", billing_configuration={"grace": 3})  # refused: a key of a configuration
    event: EventFields = {"transaction_id": "1", "codes": "calls"}  # refused: a key of an event
    plans.update("pro", charges=[{"properties": {"volume_ranges": [tier], "graduated_ranges": [last]}}])
    billing.events.ingest([event])
