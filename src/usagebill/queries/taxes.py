"""The taxes of a fee: its own, else the plan's, else the customer's, else the billing entity's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.plans import Plan
from usagebill.core.taxes import Tax, chosen_taxes
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import within


def _taxes(reader: Reader, ids: Sequence[str]) -> tuple[Tax, ...]:
    return tuple(tax for id in ids if (tax := reader.tx.get(Tax, id)) is not None)


def taxes_for(
    reader: Reader,
    customer: Customer,
    plan: Plan | None,
    own_tax_ids: Sequence[str] = (),
    *,
    entity: BillingEntity | None = None,
) -> tuple[Tax, ...]:
    """The taxes of a fee of `customer`; `own_tax_ids` are those of its charge, fixed charge, commitment or add-on.

    `entity` is the customer's billing entity, if the caller has it.
    """
    entity = entity or reader.tx.get(BillingEntity, customer.billing_entity_id, deleted=True)
    return chosen_taxes(
        _taxes(reader, own_tax_ids),
        _taxes(reader, plan.tax_ids) if plan is not None else (),
        _taxes(reader, customer.tax_ids),
        _taxes(reader, entity.tax_ids) if entity is not None else (),
    )


def live_taxes(reader: Reader, tax_ids: Iterable[str]) -> list[Tax]:
    """The live taxes among these ids, in that order."""
    ids = tuple(tax_ids)
    if not ids:
        return []
    by_id = {tax.id: tax for tax in reader.tx.find(Tax, within("id", ids))}
    return [by_id[tax_id] for tax_id in ids if tax_id in by_id]
