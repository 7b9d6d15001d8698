"""Calls that every type checker refuses: each in a line that says so."""

from __future__ import annotations

from usagebill import Billing
from usagebill.client import AsyncClient, Client
from usagebill.fields import ChargeFields


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
