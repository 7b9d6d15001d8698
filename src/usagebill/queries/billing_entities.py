"""Billing entities: the default one, and any by id."""

from __future__ import annotations

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.taxes import Tax
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, has_item, missing

_KEY = "default billing entity"


def default_entity(reader: Reader) -> BillingEntity | None:
    """The oldest active billing entity."""
    return reader.cached(
        _KEY, lambda: reader.tx.first(BillingEntity, missing("archived_at"), order=[asc("created_at"), asc("id")])
    )


def forget_default_entity(reader: Reader) -> None:
    """Drop the cached default entity, because it has changed in this unit of work."""
    reader.invalidate(_KEY)


def find_entity(reader: Reader, entity_id: str) -> BillingEntity | None:
    """The billing entity with this id, archived or not."""
    return reader.tx.get(BillingEntity, entity_id, deleted=True)


def entities_with_tax(reader: Reader, tax: Tax) -> list[BillingEntity]:
    """The active billing entities that apply the tax to their customers."""
    return reader.tx.find(BillingEntity, missing("archived_at"), has_item("tax_ids", tax.id))
