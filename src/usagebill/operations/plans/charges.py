"""Usage charges of plans: created, changed and checked; `cascades` passes changes on to overrides."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal

from usagebill.core.billable_metrics import BillableMetric, declared_values
from usagebill.core.filters import trimmed_values
from usagebill.core.numbers import parse_decimal
from usagebill.core.plans import AppliedPricingUnit, Charge, ChargeFilter, Plan
from usagebill.core.pricing import MODELS, normalized_properties
from usagebill.core.pricing.charges import ChargeTerms, charge_errors, pricing_unit_errors
from usagebill.core.pricing_units import PricingUnit
from usagebill.operations import taxes
from usagebill.operations.plans.filters import merged_filters, with_links
from usagebill.operations.plans.inputs import AppliedPricingUnitInput, ChargeInput
from usagebill.operations.plans.records import changed_code_errors, code_errors, refuse
from usagebill.queries.plans import is_used
from usagebill.requests.inputs import is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq


def _properties(charge_model: str, properties: Mapping[str, object] | None) -> Mapping[str, object]:
    return normalized_properties(charge_model, properties) if charge_model in MODELS else {}


def _check(charge: Charge, metric: BillableMetric, code: Mapping[str, Iterable[str]]) -> None:
    """Raises `Invalid` if the terms of the charge make no sense, or for these errors in its `code`."""
    errors = charge_errors(
        ChargeTerms(
            charge_model=charge.charge_model,
            aggregation_type=metric.aggregation_type,
            recurring=metric.recurring,
            properties=charge.properties,
            pay_in_advance=charge.pay_in_advance,
            prorated=charge.prorated,
            invoiceable=charge.invoiceable,
            min_amount_cents=charge.min_amount_cents,
            regroup_paid_fees=charge.regroup_paid_fees,
        )
    )
    refuse({**errors, **code})


def _rate(value: object) -> Decimal:
    rate = parse_decimal(value.strip()) if isinstance(value, str) else value
    return rate if isinstance(rate, Decimal) else Decimal(str(rate))


def _applied_unit(reader: Reader, request: AppliedPricingUnitInput) -> AppliedPricingUnit | None:
    """The sent pricing unit. Raises `Invalid` for an unknown unit, or a rate that is not above zero."""
    code, rate = value_or(request.code, ""), value_or(request.conversion_rate, None)
    unit = reader.tx.first(PricingUnit, eq("code", code))
    refuse(pricing_unit_errors(rate, is_known=unit is not None))
    if unit is None:
        return None
    return AppliedPricingUnit(
        pricing_unit_id=unit.id, code=unit.code, short_name=unit.short_name, conversion_rate=_rate(rate)
    )


def _with_rate(charge: Charge, request: AppliedPricingUnitInput) -> Charge:
    """`charge` at another conversion rate; the unit itself never changes."""
    if charge.applied_pricing_unit is None or not is_given(request.conversion_rate):
        return charge
    refuse(pricing_unit_errors(request.conversion_rate, is_known=True))
    unit = replace(charge.applied_pricing_unit, conversion_rate=_rate(request.conversion_rate))
    return replace(charge, applied_pricing_unit=unit)


def new_charge(
    work: Work, plan: Plan, metric: BillableMetric, request: ChargeInput, *, code: str, codes: Container[str]
) -> Charge:
    """A new charge of `plan`, whose charges have these `codes`. Raises `Invalid`, and `NotFound` for a tax."""
    model = value_or(request.charge_model, "")
    charge = Charge(
        id=work.new_id(),
        organization_id=work.organization.id,
        plan_id=plan.id,
        billable_metric_id=metric.id,
        code=code,
        charge_model=model,
        properties=_properties(model, value_or(request.properties, None)),
        invoice_display_name=value_or(request.invoice_display_name, None),
        pay_in_advance=value_or(request.pay_in_advance, False),
        prorated=value_or(request.prorated, False),
        invoiceable=value_or(request.invoiceable, True),
        regroup_paid_fees=request.regroup_paid_fees or None,
        min_amount_cents=value_or(request.min_amount_cents, 0),
        accepts_target_wallet=value_or(request.accepts_target_wallet, False),
        created_at=work.now,
        updated_at=work.now,
    )
    _check(charge, metric, code_errors(code, codes))
    if request.filters:
        charge = replace(charge, filters=merged_filters(work, charge, metric, request.filters))
    if request.applied_pricing_unit:
        charge = replace(charge, applied_pricing_unit=_applied_unit(work, request.applied_pricing_unit))
    if request.tax_codes:
        charge = replace(charge, tax_ids=taxes.ids_of_codes(work, request.tax_codes))
    work.tx.insert(charge)
    work.divides_time |= charge.pay_in_advance and is_used(work, plan)
    return charge


def changed_charge(work: Work, charge: Charge, metric: BillableMetric, request: ChargeInput, *, used: bool) -> Charge:
    """Store `charge` with the sent fields. If the plan is `used` (has had a subscription), the terms do not change.

    An absent name is cleared, and absent properties become the defaults of the charge model; filters, taxes and the
    conversion rate stay unless sent. `metric` is the one priced from now on.
    """
    model = charge.charge_model if used else value_or(request.charge_model, "")
    changed = replace(
        charge,
        charge_model=model,
        invoice_display_name=value_or(request.invoice_display_name, None),
        properties=_properties(model, value_or(request.properties, None)),
        accepts_target_wallet=value_or(request.accepts_target_wallet, charge.accepts_target_wallet),
        updated_at=work.now,
    )
    if not used:
        changed = replace(
            changed,
            billable_metric_id=metric.id,
            code=value_or(request.code, charge.code),
            pay_in_advance=value_or(request.pay_in_advance, charge.pay_in_advance),
            prorated=value_or(request.prorated, charge.prorated),
            invoiceable=value_or(request.invoiceable, charge.invoiceable),
            min_amount_cents=value_or(request.min_amount_cents, 0),
            regroup_paid_fees=(
                (request.regroup_paid_fees or None) if is_given(request.regroup_paid_fees) else charge.regroup_paid_fees
            ),
        )
    _check(changed, metric, changed_code_errors(work, charge, changed))
    changed = _with_lists(work, changed, metric, request)
    if changed.billable_metric_id != charge.billable_metric_id and not is_given(request.filters):
        changed = replace(changed, filters=_still_declared(changed, metric))
    work.tx.replace(changed)
    return changed


def _still_declared(charge: Charge, metric: BillableMetric) -> tuple[ChargeFilter, ...]:
    declared = declared_values(metric)
    trimmed = ((charge_filter, trimmed_values(charge_filter.values, declared)) for charge_filter in charge.filters)
    return tuple(replace(charge_filter, values=values) for charge_filter, values in trimmed if values is not None)


def _with_lists(reader: Reader, charge: Charge, metric: BillableMetric, request: ChargeInput) -> Charge:
    """`charge` with the sent filters, taxes and conversion rate."""
    if is_given(request.filters) and request.filters is not None:
        charge = replace(charge, filters=merged_filters(reader, charge, metric, value_or(request.filters, ())))
    if request.applied_pricing_unit:
        charge = _with_rate(charge, request.applied_pricing_unit)
    if is_given(request.tax_codes) and request.tax_codes is not None:
        charge = replace(charge, tax_ids=taxes.ids_of_codes(reader, value_or(request.tax_codes, ())))
    return charge


def overridden_charge(reader: Reader, charge: Charge, metric: BillableMetric, request: ChargeInput) -> Charge:
    """The charge of an override with only the sent fields changed; not stored."""
    changed = charge
    if is_given(request.invoice_display_name):
        changed = replace(changed, invoice_display_name=value_or(request.invoice_display_name, None))
    if is_given(request.min_amount_cents):
        changed = replace(changed, min_amount_cents=value_or(request.min_amount_cents, 0))
    if is_given(request.properties) and request.properties is not None:
        properties = value_or(request.properties, {})
        changed = replace(changed, properties=_properties(charge.charge_model, properties))
    _check(changed, metric, {})
    return with_links(reader, _with_lists(reader, replace(changed, updated_at=reader.now), metric, request))
