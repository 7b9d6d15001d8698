"""The default billing entity: whose customers, taxes and settings an organization's are, unless another is named."""

from __future__ import annotations

from usagebill.core.billing_entities import BillingEntity
from usagebill.storage.conditions import asc, missing
from usagebill.work import Reader

__all__ = ["default_entity", "forget_default_entity"]

_KEY = "default billing entity"


def default_entity(reader: Reader) -> BillingEntity | None:
    """The oldest active billing entity."""
    return reader.cached(
        _KEY, lambda: reader.tx.first(BillingEntity, missing("archived_at"), order=[asc("created_at"), asc("id")])
    )


def forget_default_entity(reader: Reader) -> None:
    """Look for the default entity anew: it has changed in this work."""
    reader.invalidate(_KEY)
