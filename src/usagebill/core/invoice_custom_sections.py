"""Invoice custom sections: texts that are copied onto invoices, and the rules that select them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceCustomSection:
    """`details` is the text itself, `display_name` its title. Copies on invoices never change."""

    id: str
    organization_id: str
    name: str
    code: str
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    details: str | None = None
    display_name: str | None = None
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The choice of a subscription, a wallet or a customer: sections of its own, none at all (`skip`), or no choice."""

    skip: bool = False
    section_ids: tuple[str, ...] = ()


def definition_errors(section: InvoiceCustomSection) -> dict[str, list[str]]:
    """Errors in the fields of a section, as field -> codes; empty if there are none."""
    return {field: ["value_is_mandatory"] for field in ("name", "code") if not getattr(section, field)}


def customer_section_ids(customer: Customer, entity: BillingEntity) -> tuple[str, ...]:
    """The sections on a customer's invoices: none if it skips them, else its own, else its billing entity's."""
    if customer.skip_invoice_custom_sections:
        return ()
    return customer.invoice_custom_section_ids or entity.invoice_custom_section_ids


def invoice_section_ids(resources: Sequence[Selection], customer_ids: Iterable[str]) -> tuple[str, ...]:
    """The sections of an invoice for `resources` (subscriptions, or a wallet) of a customer.

    Resources that skip do not count; if all skip, there are none. The selections of the others are combined, with the
    customer's (`customer_ids`) for those without one; without any selection, the customer's apply.
    """
    counting = [resource for resource in resources if not resource.skip]
    if resources and not counting:
        return ()
    chosen = [id for subscription in counting for id in subscription.section_ids]
    if not chosen or any(not subscription.section_ids for subscription in counting):
        chosen += customer_ids
    return tuple(dict.fromkeys(chosen))


def changed_selection(now: Selection, *, skip: bool | None, section_ids: Sequence[str] | None) -> Selection:
    """The selection of a subscription or wallet after a request; None means not sent.

    Skipping clears the selection. Sections sent for a resource that skips count only if the request also stops
    skipping.
    """
    if skip:
        return Selection(skip=True)
    if skip is None and now.skip:
        return now
    return Selection(section_ids=now.section_ids if section_ids is None else tuple(dict.fromkeys(section_ids)))
