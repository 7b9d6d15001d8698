"""Issuers: copies of billing entities as of when invoices, credit notes and receipts were issued."""

from __future__ import annotations

from usagebill.core.billing_entities import BillingEntity, BillingEntityVersion
from usagebill.core.copies import replace
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import desc, eq


def version_of(work: Work, entity: BillingEntity) -> str:
    """The id of the copy of the billing entity's current state, created if there is none yet."""
    of_entity = eq("billing_entity_id", entity.id)
    last = work.tx.first(BillingEntityVersion, of_entity, order=[desc("created_at")])
    # Several have the same instant if an entity changes and issues twice within it.
    latest = [] if last is None else work.tx.find(BillingEntityVersion, of_entity, eq("created_at", last.created_at))
    if known := next((version for version in latest if _is_alike(version.entity, entity)), None):
        return known.id
    version = BillingEntityVersion(
        id=work.new_id(),
        organization_id=work.organization.id,
        billing_entity_id=entity.id,
        entity=entity,
        created_at=entity.updated_at,
    )
    work.tx.insert(version)
    return version.id


def _is_alike(version: BillingEntity, other: BillingEntity) -> bool:
    """Whether they differ in nothing but the time of the last change."""
    return replace(version, updated_at=other.updated_at) == other


def issuer(reader: Reader, billing_entity_id: str, version_id: str | None) -> BillingEntity:
    """The billing entity as of the copy `version_id`, else as it is now."""
    version = None if version_id is None else reader.tx.get(BillingEntityVersion, version_id)
    entity = version.entity if version else reader.tx.get(BillingEntity, billing_entity_id, deleted=True)
    if entity is None:
        raise LookupError(f"no billing entity {billing_entity_id}")
    return entity
