"""Phases: a contract whose plan changes on dates that were agreed on at once, such as a ramp over three years.

The first phase is the subscription itself. Each later one is a pending subscription behind the one before it, and takes
over as a scheduled downgrade does, whether it costs more or less: at the first period that begins on its date or later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from usagebill.core.errors import Invalid, NotFound, placed
from usagebill.core.periods import Cycle, Succession, first_opening
from usagebill.core.phases import begins_after, day_of, until_problems
from usagebill.core.plans import Plan
from usagebill.core.subscription_changes import as_phase
from usagebill.core.subscriptions import UNENDED, Subscription, SubscriptionStatus, cycle_of
from usagebill.operations.plans.inputs import PlanOverridesInput
from usagebill.operations.plans.overrides import Overridden, apply_overrides
from usagebill.operations.subscriptions.change import cancel_downgrade
from usagebill.operations.subscriptions.inputs import PhaseInput, SubscriptionInput, SubscriptionUpdate
from usagebill.queries.contracts import contract_of
from usagebill.queries.subscriptions import scheduled_after
from usagebill.requests.inputs import value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, missing


def own_overrides(request: SubscriptionInput | SubscriptionUpdate) -> PlanOverridesInput | None:
    """What the request changes about the present plan: `plan_overrides`, or those of the first phase. Raises `Invalid`
    for both.
    """
    phases, sent = value_or(request.phases, ()), value_or(request.plan_overrides, None)
    first = value_or(phases[0].plan_overrides, None) if phases else None
    if sent and first:
        raise Invalid({"plan_overrides": ["incompatible_params"], "phases[0].plan_overrides": ["incompatible_params"]})
    return sent or first


def set_phases(work: Work, base: Subscription, phases: Sequence[PhaseInput]) -> None:
    """Replace what waits to take over from `base` by the phases after the first, by nothing without any.

    Raises `NotFound` for an unknown plan, and `Invalid` for dates out of order or in the past, a plan of another
    currency or interval, and a subscription that has ended or waits for a payment.
    """
    _check_status(work, base)
    plan = contract_of(work, base).plan
    cycle = _cycle(work, base)
    if phases and value_or(phases[0].plan_code, plan.code) != plan.code:
        reason = f"the first phase is the subscription itself, which is on the plan {plan.code!r}"
        raise Invalid({"phases[0].plan_code": ["value_is_invalid"]}, reasons={"phases[0].plan_code": reason})
    untils = [value_or(phase.until, None) for phase in phases]
    if problems := until_problems(cycle, untils, work.now):
        raise Invalid(dict(problems))
    # All are found before any is stored.
    chosen = [_chosen(work, base, plan, phase, place) for place, phase in enumerate(phases) if place]
    cancel_downgrade(work, base)
    before = base
    for until, phase in zip(untils, chosen, strict=False):
        before = _phase(work, before, phase, day_of(until))
        work.tx.insert(before)
    check_dates(work, base)


def check_dates(reader: Reader, base: Subscription) -> None:
    """Raises `Invalid` if the subscription would start after its first phase, or end before its last one begins."""
    begins = [phase.phase_from for phase in scheduled_after(reader, base) if phase.phase_from is not None]
    if not begins:
        return
    cycle = _cycle(reader, base)
    if begins[0] <= cycle.start_date:
        reason = f"the second phase counts from {begins[0]} on"
        raise Invalid({"subscription_at": ["starts_after_first_phase"]}, reasons={"subscription_at": reason})
    opening = first_opening(cycle, begins[-1])
    if begins_after(base.ends_at, opening, cycle):
        reason = f"the last phase begins on {opening}"
        raise Invalid({"ending_at": ["ends_before_last_phase"]}, reasons={"ending_at": reason})


def refuse_with_phases(reader: Reader, current: Subscription) -> None:
    """Raises `Invalid` for a subscription with phases to come, whose plan cannot be changed beside them."""
    if any(coming.phase_from is not None for coming in scheduled_after(reader, current)):
        raise Invalid(plan_code="subscription_has_phases")


def _check_status(reader: Reader, base: Subscription) -> None:
    follows = base.status == SubscriptionStatus.PENDING and base.previous_subscription_id is not None
    if follows or base.status not in UNENDED:
        raise Invalid(phases="value_is_not_editable")
    waiting = eq("previous_subscription_id", base.id), eq("status", SubscriptionStatus.INCOMPLETE)
    if reader.tx.first(Subscription, *waiting) is not None:
        raise Invalid(phases="next_subscription_incomplete")


def _cycle(reader: Reader, base: Subscription) -> Cycle:
    """The periods of the subscription, also before it has started: all phases have the same ones."""
    contract = contract_of(reader, base)
    begun = replace(base, started_at=base.started_at or base.subscription_at)
    return cycle_of(begun, contract.plan, contract.zone)


def _chosen(work: Work, base: Subscription, plan: Plan, phase: PhaseInput, place: int) -> Overridden:
    """The plan of a later phase, with its overrides: by default the present one's."""
    where = f"phases[{place}]"
    if not phase.plan_code and not phase.plan_overrides:
        raise Invalid({f"{where}.plan_code": ["value_is_mandatory"]})
    code = value_or(phase.plan_code, plan.code)
    catalog = work.tx.first(Plan, eq("code", code), missing("parent_id"))
    if catalog is None:
        raise NotFound("plan", code)
    chosen = Overridden(plan=catalog)
    if phase.plan_overrides:
        if base.usage_thresholds and phase.plan_overrides.usage_thresholds:
            # Those of a subscription go before those of its plan.
            raise Invalid({f"{where}.plan_overrides.usage_thresholds": ["incompatible_params"]})
        with placed(f"{where}.plan_overrides"):
            chosen = apply_overrides(work, catalog, phase.plan_overrides)
    field = f"{where}.plan_code" if phase.plan_code else f"{where}.plan_overrides"
    if chosen.plan.amount_currency != plan.amount_currency:
        reason = f"the subscription is in {plan.amount_currency}, and this phase in {chosen.plan.amount_currency}"
        raise Invalid({field: ["currencies_does_not_match"]}, reasons={field: reason})
    if chosen.plan.interval != plan.interval:
        reason = f"the subscription is billed {plan.interval}, and this phase {chosen.plan.interval}"
        raise Invalid({field: ["intervals_do_not_match"]}, reasons={field: reason})
    return chosen


def _phase(reader: Reader, before: Subscription, chosen: Overridden, begins: date | None) -> Subscription:
    pending = Subscription(
        id=reader.new_id(),
        organization_id=before.organization_id,
        external_id=before.external_id,
        customer_id=before.customer_id,
        plan_id=chosen.plan.id,
        fixed_charge_units=chosen.fixed_charge_units,
        status=SubscriptionStatus.PENDING,
        billing_time=before.billing_time,
        bill_from=before.bill_from,
        subscription_at=before.subscription_at,
        previous_subscription_id=before.id,
        origin=Succession.DOWNGRADE.value,
        phase_from=begins,
        created_at=reader.now,
        updated_at=reader.now,
    )
    return as_phase(pending, before)
