"""Comparing two price lists on the usage of a past period. Nothing is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date

from usagebill.core.errors import Invalid
from usagebill.core.plans import PlanDefinition
from usagebill.core.price_comparisons import ComparedSubscription
from usagebill.core.subscriptions import Subscription
from usagebill.operations.plans.creation import create
from usagebill.operations.plans.inputs import PlanInput
from usagebill.queries.contracts import contract_of
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.plans import overrides_of, plan_by_code, plan_definition
from usagebill.rating.comparison import compared
from usagebill.requests.inputs import read
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, asc, eq, present, within


def drafted_plan(work: Work, fields: Mapping[str, object]) -> PlanDefinition:
    """A plan from these fields, which `plans.create` would accept; checked, but not stored.

    Raises `Invalid` and `NotFound`.
    """
    named = {"name": "Compared", "code": "compared", **fields}
    request = read(PlanInput, {**named, "code": f"{named['code']}-{work.new_id()}"})

    def make(alone: Work) -> PlanDefinition:
        return plan_definition(alone, create(alone, request).id)

    definition = work.dry_run(make)
    return replace(definition, plan=replace(definition.plan, code=str(named["code"])))


def comparisons(
    reader: Reader,
    code: str,
    other: str | PlanDefinition,
    start: date,
    end: date,
    *,
    external_customer_id: str | None = None,
) -> Iterator[ComparedSubscription]:
    """Each subscription of the plan, and of its overrides, that was active from `start` to `end` (both included); those
    of one customer if it is named.

    They are yielded one by one, grouped by customer. Days are those of the customer's time zone. Raises `NotFound` for
    a plan or the customer, and `Invalid` for two currencies or an `end` before `start`.
    """
    if end < start:
        raise Invalid(to="values_are_invalid")
    plan = plan_by_code(reader, code)
    new = plan_definition(reader, plan_by_code(reader, other).id) if isinstance(other, str) else other
    if new.plan.amount_currency != plan.amount_currency:
        reason = (
            f"the plans are in {plan.amount_currency} and {new.plan.amount_currency}; compare plans of one currency"
        )
        raise Invalid(amount_currency="currencies_does_not_match", reasons={"amount_currency": reason})
    chosen = [within("plan_id", [known.id for known in (plan, *overrides_of(reader, plan, in_use=False))])]
    if external_customer_id is not None:
        chosen.append(eq("customer_id", customer_by_external_id(reader, external_customer_id).id))
    return _compared(reader, chosen, new, start, end)


def _compared(
    reader: Reader, chosen: Sequence[Condition], new: PlanDefinition, start: date, end: date
) -> Iterator[ComparedSubscription]:
    subscriptions = reader.tx.each(
        Subscription, *chosen, present("started_at"), order=[asc("customer_id"), asc("started_at")]
    )
    for subscription in subscriptions:
        contract = contract_of(reader, subscription)
        comparison = compared(reader, contract, plan_definition(reader, subscription.plan_id), new, start, end)
        if comparison is not None:
            yield comparison
