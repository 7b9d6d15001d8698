"""Pricing units: created by library callers, named by charges."""

from __future__ import annotations

from usagebill.core.errors import Invalid
from usagebill.core.pricing_units import PricingUnit, pricing_unit_definition_errors
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq
from usagebill.storage.ports import Page


@Input
class PricingUnitInput:
    name: Maybe[str] = described(required="create")
    code: Maybe[str] = described(required="create")
    short_name: Maybe[str] = described(required="create")
    description: Maybe[str] = ABSENT


@without_backlog(Unrelated.NEW)
def create(work: Work, request: PricingUnitInput) -> PricingUnit:
    """A new pricing unit. Raises `Invalid`: all names are required, `short_name` has at most 3 characters."""
    unit = PricingUnit(
        id=work.new_id(),
        organization_id=work.organization.id,
        name=value_or(request.name, ""),
        code=value_or(request.code, ""),
        short_name=value_or(request.short_name, ""),
        description=value_or(request.description, None),
        created_at=work.now,
        updated_at=work.now,
    )
    problems = pricing_unit_definition_errors(unit)
    if "code" not in problems and work.tx.first(PricingUnit, eq("code", unit.code)) is not None:
        problems["code"] = ["value_already_exist"]
    if problems:
        raise Invalid(problems)
    work.tx.insert(unit)
    return unit


def list_all(reader: Reader, paging: Paging) -> Page[PricingUnit]:
    """Pricing units, newest first."""
    return reader.page(PricingUnit, paging=paging)
