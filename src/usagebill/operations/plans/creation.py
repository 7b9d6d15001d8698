"""Creation of plans, and the parts of the body that updates read too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from usagebill.core.add_ons import AddOn
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.errors import Invalid, NotFound, placed
from usagebill.core.metadata import checked_metadata
from usagebill.core.plans import (
    Charge,
    FixedCharge,
    MinimumCommitment,
    Plan,
    UsageThreshold,
    commitment_errors,
    monthly_flag,
    plan_errors,
    threshold_errors,
)
from usagebill.operations import taxes
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.operations.plans.charges import new_charge
from usagebill.operations.plans.fixed_charges import new_fixed_charge
from usagebill.operations.plans.inputs import (
    ChargeInput,
    FixedChargeInput,
    MinimumCommitmentInput,
    PlanInput,
    UsageThresholdInput,
)
from usagebill.operations.plans.records import codes_of, refuse
from usagebill.requests.inputs import Maybe, Paging, changes, is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, missing
from usagebill.storage.ports import Page
from usagebill.views.plans import plan_summary


def list_all(reader: Reader, paging: Paging) -> Page[Plan]:
    """Catalog plans (no overrides), newest first, including those being deleted."""
    return reader.page(Plan, missing("parent_id"), paging=paging)


@without_backlog(Unrelated.NEW)
def create(work: Work, request: PlanInput) -> Plan:
    """A new plan with its charges, thresholds and commitment. Raises `Invalid`, and `NotFound` for references."""
    charges, fixed_charges = value_or(request.charges, ()), value_or(request.fixed_charges, ())
    metrics = [metric_of_item(work, item) for item in charges]
    add_ons = [add_on_of_item(work, item) for item in fixed_charges]
    refuse(
        plan_errors(
            name=value_or(request.name, None),
            code=value_or(request.code, None),
            interval=value_or(request.interval, None),
            amount_cents=value_or(request.amount_cents, None),
            amount_currency=value_or(request.amount_currency, None),
            pay_in_advance=value_or(request.pay_in_advance, None),
            trial_period=value_or(request.trial_period, None),
        )
    )
    interval = value_or(request.interval, "")
    plan = Plan(
        id=work.new_id(),
        organization_id=work.organization.id,
        name=value_or(request.name, ""),
        code=value_or(request.code, ""),
        interval=interval,
        amount_cents=value_or(request.amount_cents, 0),
        amount_currency=value_or(request.amount_currency, ""),
        pay_in_advance=value_or(request.pay_in_advance, False),
        invoice_display_name=value_or(request.invoice_display_name, None),
        description=value_or(request.description, None),
        trial_period=value_or(request.trial_period, None),
        bill_charges_monthly=monthly_flag(interval, value_or(request.bill_charges_monthly, None)),
        bill_fixed_charges_monthly=monthly_flag(interval, value_or(request.bill_fixed_charges_monthly, None)),
        offered_in_portal=value_or(request.offered_in_portal, False),
        created_at=work.now,
        updated_at=work.now,
    )
    refuse_taken_code(work, plan)
    plan = replace(
        plan,
        metadata=checked_metadata(request.metadata)
        if is_given(request.metadata) and request.metadata is not None
        else None,
        tax_ids=taxes.ids_of_codes(work, value_or(request.tax_codes, ())),
        usage_thresholds=sent_thresholds(work, value_or(request.usage_thresholds, ())),
    )
    work.tx.insert(plan)
    add_charges(work, plan, zip(range(len(charges)), charges, metrics, strict=True))
    add_fixed_charges(work, plan, zip(range(len(fixed_charges)), fixed_charges, add_ons, strict=True))
    if request.minimum_commitment and changes(request.minimum_commitment):
        with placed("minimum_commitment"):
            plan = replace(plan, minimum_commitment=sent_commitment(work, None, request.minimum_commitment))
        work.tx.replace(plan)
    work.emit("plan.created", lambda: plan_summary(work, plan), plan.id)
    return plan


def metric_of_item(reader: Reader, request: ChargeInput, resource: str = "billable_metrics") -> BillableMetric:
    """The metric of a charge, by id or code. Raises `NotFound` for the resource, which is plural in a plan's body, and
    `Invalid` for an id and a code of two metrics.
    """
    metric = _named(reader, BillableMetric, request.billable_metric_id, request.billable_metric_code)
    if metric is None:
        raise NotFound(resource, request.billable_metric_id or request.billable_metric_code)
    _refuse_other_code("billable_metric_code", request.billable_metric_code, metric.code)
    return metric


def add_on_of_item(reader: Reader, request: FixedChargeInput, resource: str = "add_ons") -> AddOn:
    """The add-on of a fixed charge, by id or code. Raises as `metric_of_item` does."""
    add_on = _named(reader, AddOn, request.add_on_id, request.add_on_code)
    if add_on is None:
        raise NotFound(resource, request.add_on_id or request.add_on_code)
    _refuse_other_code("add_on_code", request.add_on_code, add_on.code)
    return add_on


Named = TypeVar("Named", BillableMetric, AddOn)


def _named(reader: Reader, kind: type[Named], id: Maybe[str], code: Maybe[str]) -> Named | None:
    if id:
        return reader.tx.get(kind, id)
    return reader.tx.first(kind, eq("code", code)) if code else None


def _refuse_other_code(field: str, code: Maybe[str], actual: str) -> None:
    if code and code != actual:
        reason = f"the id is that of {actual}, not of {code}; send one of the two"
        raise Invalid({field: ["incompatible_params"]}, reasons={field: reason})


def refuse_taken_code(reader: Reader, plan: Plan) -> None:
    """Raises `Invalid` if another catalog plan has the plan's code."""
    holder = reader.tx.first(Plan, eq("code", plan.code), missing("parent_id"))
    if holder is not None and holder.id != plan.id:
        raise Invalid(code="value_already_exist")


def sent_thresholds(reader: Reader, request: Iterable[UsageThresholdInput]) -> tuple[UsageThreshold, ...]:
    """The sent usage thresholds as stored, by amount. Raises `Invalid`."""
    items = tuple(request)
    refuse(threshold_errors([(value_or(item.amount_cents, None), value_or(item.recurring, False)) for item in items]))
    thresholds = [
        UsageThreshold(
            id=reader.new_id(),
            amount_cents=value_or(item.amount_cents, 0),
            recurring=value_or(item.recurring, False),
            threshold_display_name=value_or(item.threshold_display_name, None),
            created_at=reader.now,
            updated_at=reader.now,
        )
        for item in items
    ]
    return tuple(thresholds)


def sent_commitment(
    reader: Reader, commitment: MinimumCommitment | None, request: MinimumCommitmentInput
) -> MinimumCommitment | None:
    """The minimum commitment with the sent fields; None if an empty one is sent. Raises `Invalid`."""
    if not changes(request):
        return None
    amount = value_or(request.amount_cents, None if commitment is None else commitment.amount_cents)
    refuse(commitment_errors(None if is_given(request.amount_cents) and request.amount_cents is None else amount))
    changed = commitment or MinimumCommitment(
        id=reader.new_id(), amount_cents=amount or 0, created_at=reader.now, updated_at=reader.now
    )
    changed = replace(
        changed, amount_cents=amount or 0, updated_at=reader.now, **changes(request, "invoice_display_name")
    )
    if is_given(request.tax_codes) and request.tax_codes is not None:
        changed = replace(changed, tax_ids=taxes.ids_of_codes(reader, value_or(request.tax_codes, ())))
    return changed


def add_charges(work: Work, plan: Plan, items: Iterable[tuple[int, ChargeInput, BillableMetric]]) -> list[Charge]:
    """Add charges to a plan in order; those without a code get one derived from their metric's.

    Each comes with its position in the request.
    """
    codes = codes_of(work, Charge, plan.id)
    added = []
    for position, request, metric in items:
        with placed(f"charges[{position}]"):
            code = request.code or codes.generated(metric.code)
            charge = new_charge(work, plan, metric, request, code=code, codes=codes)
        codes.add(charge.code)
        added.append(charge)
    return added


def add_fixed_charges(
    work: Work, plan: Plan, items: Iterable[tuple[int, FixedChargeInput, AddOn]]
) -> list[FixedCharge]:
    """Add fixed charges to a plan in order; those without a code get one derived from their add-on's.

    Each comes with its position in the request.
    """
    codes = codes_of(work, FixedCharge, plan.id)
    added = []
    for position, request, add_on in items:
        code = request.code or codes.generated(add_on.code)
        with placed(f"fixed_charges[{position}]"):
            fixed_charge = new_fixed_charge(work, plan, add_on, request, code=code, codes=codes)
        codes.add(code)
        added.append(fixed_charge)
    return added
