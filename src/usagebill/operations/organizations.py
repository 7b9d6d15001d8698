"""Organizations: created from the command line or by the library, each with its default billing entity."""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

from usagebill.core.billing_entities import BillingEntity, default_document_number_prefix
from usagebill.core.organizations import Organization
from usagebill.ids import new_id
from usagebill.storage.conditions import asc
from usagebill.storage.ports import Transaction

__all__ = ["create", "find_all"]


def create(tx: Transaction, now: datetime, name: str) -> Organization:
    """A new organization and its default billing entity, whose code is `default`."""
    id = new_id(now)
    prefix = default_document_number_prefix(name, id)
    organization = Organization(
        id=id,
        organization_id=id,
        name=name,
        hmac_key=str(uuid4()),
        created_at=now,
        updated_at=now,
        document_number_prefix=prefix,
    )
    tx.insert(organization)
    tx.insert(
        BillingEntity(
            id=new_id(now),
            organization_id=id,
            code="default",
            name=name,
            created_at=now,
            updated_at=now,
            document_number_prefix=prefix,
        )
    )
    return organization


def find_all(tx: Transaction) -> list[Organization]:
    """Every organization of the store, oldest first."""
    return tx.find(Organization, order=[asc("created_at")])
