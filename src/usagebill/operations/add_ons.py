"""Add-ons: create, change, delete."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from usagebill.core import limits
from usagebill.core.add_ons import AddOn, definition_errors
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.plans import FixedCharge
from usagebill.operations import taxes
from usagebill.operations.backlog import Unrelated, after_backlog, of_everyone, without_backlog
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, changes, described, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq
from usagebill.storage.ports import Page


@Input
class AddOnInput:
    name: Maybe[str] = described(required="create")
    code: Maybe[str] = described(required="create")
    amount_cents: Maybe[Annotated[int, limits.ADD_ON_PRICE]] = described(
        "The price of one unit, before taxes.", unit="cents", example=5000, required="create"
    )
    amount_currency: Maybe[str] = described(required="create")
    invoice_display_name: Maybe[str] = ABSENT
    description: Maybe[str] = ABSENT
    tax_codes: Maybe[tuple[str, ...]] = ABSENT


def get(reader: Reader, code: str) -> AddOn:
    """The add-on with this code. Raises `NotFound`."""
    add_on = reader.tx.first(AddOn, eq("code", code))
    if add_on is None:
        raise NotFound("add_on", code)
    return add_on


def list_all(reader: Reader, paging: Paging) -> Page[AddOn]:
    """Add-ons, newest first."""
    return reader.page(AddOn, paging=paging)


@without_backlog(Unrelated.NEW)
def create(work: Work, request: AddOnInput) -> AddOn:
    """A new add-on. Raises `Invalid`, and `NotFound` for an unknown tax."""
    add_on = AddOn(
        id=work.new_id(),
        organization_id=work.organization.id,
        name=value_or(request.name, ""),
        code=value_or(request.code, ""),
        # An absent amount is refused below, like any that is not above zero.
        amount_cents=value_or(request.amount_cents, 0),
        amount_currency=value_or(request.amount_currency, ""),
        invoice_display_name=value_or(request.invoice_display_name, None),
        description=value_or(request.description, None),
        created_at=work.now,
        updated_at=work.now,
    )
    _check(work, add_on, without_amount=value_or(request.amount_cents, None) is None)
    add_on = replace(add_on, tax_ids=taxes.ids_of_codes(work, value_or(request.tax_codes, ())))
    work.tx.insert(add_on)
    return add_on


@after_backlog(of_everyone)
def update(work: Work, code: str, request: AddOnInput) -> AddOn:
    """Change what is sent; `tax_codes` replaces the taxes. Raises as `create` does."""
    before = get(work, code)
    sent = changes(request, "name", "code", "amount_cents", "amount_currency", "invoice_display_name", "description")
    without_amount = "amount_cents" in sent and sent["amount_cents"] is None
    for name, empty in (("name", ""), ("code", ""), ("amount_currency", ""), ("amount_cents", 0)):
        if name in sent and sent[name] is None:
            sent[name] = empty
    after = replace(before, updated_at=work.now, **sent)
    _check(work, after, without_amount=without_amount)
    if request.tax_codes is not ABSENT and request.tax_codes is not None:
        after = replace(after, tax_ids=taxes.ids_of_codes(work, request.tax_codes))
    work.tx.replace(after)
    return after


@after_backlog(of_everyone)
def delete(work: Work, code: str) -> AddOn:
    """Delete the add-on and the fixed charges built on it; fees stay, and the code is free again."""
    deleted = replace(get(work, code), deleted_at=work.now, updated_at=work.now)
    work.tx.replace(deleted)
    for charge in work.tx.find(FixedCharge, eq("add_on_id", deleted.id)):
        work.tx.replace(replace(charge, deleted_at=work.now, updated_at=work.now))
    return deleted


def _check(reader: Reader, add_on: AddOn, *, without_amount: bool) -> None:
    problems = definition_errors(add_on)
    if without_amount:
        problems["amount_cents"] = ["is not a number"]
    if add_on.code:
        holder = reader.tx.first(AddOn, eq("code", add_on.code))
        if holder is not None and holder.id != add_on.id:
            problems["code"] = ["value_already_exist"]
    if problems:
        raise Invalid(problems)
