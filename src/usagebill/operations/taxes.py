"""Taxes: create, change and delete them, and attach them by code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, TypeAlias

from usagebill.core import limits
from usagebill.core.add_ons import AddOn
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import ZERO
from usagebill.core.plans import Charge, FixedCharge, Plan
from usagebill.core.taxes import Tax, tax_problems
from usagebill.operations import draft_invoices
from usagebill.operations.backlog import after_backlog, of_everyone
from usagebill.queries.billing_entities import default_entity, forget_default_entity
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, changes, described, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import any_of, asc, desc, eq, has_item, present, related, within
from usagebill.storage.ports import Page

# The kinds of records that hold tax ids.
Taxed: TypeAlias = BillingEntity | Customer | Plan | Charge | FixedCharge | AddOn
_TAXED: tuple[type[Taxed], ...] = (BillingEntity, Customer, Plan, Charge, FixedCharge, AddOn)


@Input
class TaxInput:
    """`rate` is in percent."""

    name: Maybe[str] = described(required="create")
    code: Maybe[str] = described(required="create")
    rate: Maybe[Annotated[Decimal, limits.TAX_RATE]] = described(
        "The rate of the tax.", unit="percent", example="20", required="create"
    )
    description: Maybe[str] = ABSENT
    applied_to_organization: Maybe[bool] = ABSENT


def get(reader: Reader, code: str) -> Tax:
    """The tax with this code. Raises `NotFound`."""
    tax = reader.tx.first(Tax, eq("code", code))
    if tax is None:
        raise NotFound("tax", code)
    return tax


def ids_of_codes(reader: Reader, codes: Iterable[str], *, any_case: bool = False) -> tuple[str, ...]:
    """The ids of the taxes with these codes, in order and without repeats. Raises `NotFound` for an unknown code."""
    ids: dict[str, None] = {}
    by_folded = {tax.code.casefold(): tax for tax in reader.tx.find(Tax)} if any_case else {}
    for code in codes:
        tax = by_folded.get(code.casefold()) if any_case else reader.tx.first(Tax, eq("code", code))
        if tax is None:
            raise NotFound("tax", code)
        ids[tax.id] = None
    return tuple(ids)


def list_all(reader: Reader, paging: Paging) -> Page[Tax]:
    """Taxes by name."""
    return reader.page(Tax, paging=paging, order=(asc("name"), desc("created_at")))


@after_backlog(of_everyone)
def create(work: Work, request: TaxInput) -> Tax:
    """A new tax; `applied_to_organization` attaches it to the default billing entity. Raises `Invalid`."""
    name, code = value_or(request.name, ""), value_or(request.code, "")
    _check(work, name, code, value_or(request.rate, None), id=None)
    tax = Tax(
        id=work.new_id(),
        organization_id=work.organization.id,
        name=name,
        code=code,
        rate=value_or(request.rate, ZERO),
        description=value_or(request.description, None),
        created_at=work.now,
        updated_at=work.now,
    )
    work.tx.insert(tax)
    if value_or(request.applied_to_organization, False):
        _apply_to_default_entity(work, tax, True)
        flag_drafts(work, tax)
    return tax


@after_backlog(of_everyone)
def update(work: Work, code: str, request: TaxInput) -> Tax:
    """Change what is sent; drafts of customers with the tax, before or after the change, are recomputed."""
    before = get(work, code)
    sent = changes(request, "name", "code", "rate", "description")
    _check(
        work, sent.get("name", before.name), sent.get("code", before.code), sent.get("rate", before.rate), id=before.id
    )
    after = replace(before, updated_at=work.now, **sent)
    work.tx.replace(after)
    flag_drafts(work, before)
    if request.applied_to_organization is not ABSENT:
        _apply_to_default_entity(work, after, bool(request.applied_to_organization))
        flag_drafts(work, after)
    return after


@after_backlog(of_everyone)
def delete(work: Work, code: str) -> Tax:
    """Delete the tax and detach it everywhere; issued documents keep their copies."""
    tax = get(work, code)
    flag_drafts(work, tax)
    # The tax may come from a plan, a charge, an add-on or a commitment.
    drafts = work.tx.find(Invoice, eq("status", InvoiceStatus.DRAFT))
    taxed = [draft.id for draft in drafts if any(line.tax_id == tax.id for line in draft.applied_taxes)]
    draft_invoices.flag(work, within("id", taxed))
    deleted = replace(tax, deleted_at=work.now, updated_at=work.now)
    work.tx.replace(deleted)
    for kind in _TAXED:
        for holder in work.tx.find(kind, has_item("tax_ids", tax.id)):
            work.tx.replace(replace(holder, tax_ids=_without(holder.tax_ids, tax.id), updated_at=work.now))
    for plan in work.tx.find(Plan, present("minimum_commitment")):
        commitment = plan.minimum_commitment
        if commitment is not None and tax.id in commitment.tax_ids:
            detached = replace(commitment, tax_ids=_without(commitment.tax_ids, tax.id))
            work.tx.replace(replace(plan, minimum_commitment=detached))
    forget_default_entity(work)
    return deleted


def _without(ids: tuple[str, ...], id: str) -> tuple[str, ...]:
    return tuple(id_ for id_ in ids if id_ != id)


def _check(reader: Reader, name: str | None, code: str | None, rate: Decimal | None, *, id: str | None) -> None:
    holder = reader.tx.first(Tax, eq("code", code)) if code else None
    problems = tax_problems(name, code, rate, code_is_taken=holder is not None and holder.id != id)
    if problems:
        raise Invalid(problems)


def _apply_to_default_entity(work: Work, tax: Tax, apply: bool) -> None:
    entity = default_entity(work)
    if entity is None or (tax.id in entity.tax_ids) is apply:
        return
    ids = (*entity.tax_ids, tax.id) if apply else _without(entity.tax_ids, tax.id)
    work.tx.replace(replace(entity, tax_ids=ids, updated_at=work.now))
    forget_default_entity(work)


def flag_drafts(work: Work, tax: Tax) -> None:
    """Flag the drafts of customers with the tax, and of those without taxes whose billing entity has it."""
    entities = [entity.id for entity in work.tx.find(BillingEntity, has_item("tax_ids", tax.id))]
    taxed = any_of(has_item("tax_ids", tax.id), within("billing_entity_id", entities))
    drafts = work.tx.find(Invoice, eq("status", InvoiceStatus.DRAFT), related(Customer, "customer_id", taxed))
    payers = []
    for id in {draft.customer_id for draft in drafts}:
        customer = work.tx.get(Customer, id, deleted=True)
        if customer is not None and (not customer.tax_ids or tax.id in customer.tax_ids):
            payers.append(id)
    draft_invoices.flag(work, draft_invoices.drafts_of_customers(payers))
