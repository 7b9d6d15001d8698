"""From when changed prices count: at once, or for each subscription from its next period on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from usagebill.core.errors import Invalid
from usagebill.core.plans import Plan, PriceStep
from usagebill.core.price_versions import Effective, next_period_errors
from usagebill.operations.plans.records import refuse
from usagebill.queries.plans import forget_definition, is_used, overrides_of, plan_definition
from usagebill.requests.inputs import Maybe
from usagebill.runtime.work import Work


@contextmanager
def taking_effect(work: Work, plan: Plan, effective: Maybe[str], *, cascade: bool) -> Iterator[None]:
    """Whatever changes the plan within counts as `effective` says; with `cascade` on its overrides too.

    A plan that nobody has been on has no open period: its change counts at once. Raises `Invalid` for another value
    than those of `Effective`, and if more than prices is to wait.
    """
    if effective and effective not in frozenset(Effective):
        raise Invalid(effective="value_is_invalid")
    changed = [*([plan] if is_used(work, plan) else []), *(overrides_of(work, plan, in_use=False) if cascade else [])]
    if effective != Effective.NEXT_PERIOD or not changed:
        yield
        return
    before = {each.id: plan_definition(work, each.id) for each in changed}
    version = work.price_version
    for each in changed:
        step = PriceStep(starts=work.now, before=version, plan_id=each.id)
        work.tx.replace(replace(each, price_steps=(*each.price_steps, step)))
        forget_definition(work, each.id)
    yield
    for each in changed:
        refuse(next_period_errors(before[each.id], plan_definition(work, each.id)))
