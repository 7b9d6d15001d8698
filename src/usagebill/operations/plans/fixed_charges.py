"""Fixed charges of plans: created, changed and checked; `units` has the units of subscriptions."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal

from usagebill.core.add_ons import AddOn
from usagebill.core.errors import Invalid
from usagebill.core.limits import FIXED_UNITS
from usagebill.core.numbers import ZERO, parse_decimal
from usagebill.core.plans import FixedCharge, Plan
from usagebill.core.pricing import MODELS, normalized_properties
from usagebill.core.pricing.charges import fixed_charge_errors
from usagebill.operations import taxes
from usagebill.operations.plans.inputs import FixedChargeInput
from usagebill.operations.plans.records import changed_code_errors, code_errors, refuse
from usagebill.requests.inputs import is_given, value_or
from usagebill.runtime.work import Reader, Work


def units_sent(value: object) -> Decimal | None:
    """The sent number of units, a number or text; None for anything else."""
    if isinstance(value, str):
        return parse_decimal(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    return Decimal(value)


def check_units(value: object) -> Decimal:
    """The sent number of units. Raises `Invalid` for anything else, and for one below zero."""
    units = units_sent(value)
    if units is None:
        raise Invalid(units="is not a number")
    if not FIXED_UNITS.holds(units):
        raise Invalid(units="value_is_out_of_range")
    return units


def _properties(charge_model: str, properties: Mapping[str, object] | None) -> dict[str, object]:
    return normalized_properties(charge_model, properties) if charge_model in MODELS else {}


def _check(fixed_charge: FixedCharge, units: object, code: Mapping[str, Iterable[str]]) -> None:
    """Raises `Invalid` if the terms make no sense, or for these errors in the `code`. `units` are unparsed."""
    errors = fixed_charge_errors(
        fixed_charge.charge_model,
        fixed_charge.properties,
        units=units.strip() if isinstance(units, str) else units,
        pay_in_advance=fixed_charge.pay_in_advance,
        prorated=fixed_charge.prorated,
    )
    refuse({**errors, **code})


def new_fixed_charge(
    work: Work, plan: Plan, add_on: AddOn, request: FixedChargeInput, *, code: str, codes: Container[str]
) -> FixedCharge:
    """A new fixed charge of `plan`, whose others have these `codes`. Raises `Invalid`, and `NotFound` for a tax."""
    model = value_or(request.charge_model, "")
    units = value_or(request.units, 0)
    fixed_charge = FixedCharge(
        id=work.new_id(),
        organization_id=work.organization.id,
        plan_id=plan.id,
        add_on_id=add_on.id,
        code=code,
        charge_model=model,
        properties=_properties(model, value_or(request.properties, None)),
        units=units_sent(units) or ZERO,
        invoice_display_name=value_or(request.invoice_display_name, None),
        pay_in_advance=value_or(request.pay_in_advance, False),
        prorated=value_or(request.prorated, False),
        created_at=work.now,
        updated_at=work.now,
    )
    _check(fixed_charge, units, code_errors(code, codes))
    if request.tax_codes:
        fixed_charge = replace(fixed_charge, tax_ids=taxes.ids_of_codes(work, request.tax_codes))
    work.tx.insert(fixed_charge)
    return fixed_charge


def changed_fixed_charge(
    work: Work, fixed_charge: FixedCharge, request: FixedChargeInput, *, used: bool
) -> FixedCharge:
    """Store `fixed_charge` with the sent fields. If the plan is `used` (has had a subscription), model and code stay.

    Absent fields stay; a new charge model without properties gets its defaults. The add-on, `pay_in_advance` and
    `prorated` never change.
    """
    model = fixed_charge.charge_model if used else value_or(request.charge_model, fixed_charge.charge_model)
    units: object = fixed_charge.units
    changed = replace(
        fixed_charge,
        charge_model=model,
        code=fixed_charge.code if used else value_or(request.code, fixed_charge.code),
        updated_at=work.now,
    )
    if is_given(request.units):
        units = value_or(request.units, None)
        changed = replace(changed, units=units_sent(units) or ZERO)
    if is_given(request.invoice_display_name):
        changed = replace(changed, invoice_display_name=value_or(request.invoice_display_name, None))
    if request.properties is not None and is_given(request.properties):
        changed = replace(changed, properties=_properties(model, value_or(request.properties, None)))
    elif model != fixed_charge.charge_model:
        changed = replace(changed, properties=_properties(model, None))
    _check(changed, units, changed_code_errors(work, fixed_charge, changed))
    if is_given(request.tax_codes) and request.tax_codes is not None:
        changed = replace(changed, tax_ids=taxes.ids_of_codes(work, value_or(request.tax_codes, ())))
    work.tx.replace(changed)
    return changed


def overridden_fixed_charge(reader: Reader, fixed_charge: FixedCharge, request: FixedChargeInput) -> FixedCharge:
    """The fixed charge of an override with only the sent fields changed; not stored."""
    changed = replace(fixed_charge, updated_at=reader.now)
    units: object = fixed_charge.units
    if is_given(request.units):
        units = value_or(request.units, None)
        changed = replace(changed, units=units_sent(units) or ZERO)
    if is_given(request.invoice_display_name):
        changed = replace(changed, invoice_display_name=value_or(request.invoice_display_name, None))
    if is_given(request.properties) and request.properties is not None:
        changed = replace(changed, properties=_properties(fixed_charge.charge_model, value_or(request.properties, {})))
    _check(changed, units, {})
    if is_given(request.tax_codes) and request.tax_codes is not None:
        changed = replace(changed, tax_ids=taxes.ids_of_codes(reader, value_or(request.tax_codes, ())))
    return changed
