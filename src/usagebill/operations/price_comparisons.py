"""Comparing price lists, and a plan with a change of it, on the usage of a past period. Nothing is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta

from usagebill.core.errors import Invalid
from usagebill.core.periods.calendar import add_months
from usagebill.core.plans import Plan, PlanDefinition
from usagebill.core.price_comparisons import ComparedSubscription, ComparisonSummary, last_month, summary
from usagebill.core.price_versions import Effective, with_scheduled
from usagebill.core.subscriptions import Subscription
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.operations.plans.creation import create
from usagebill.operations.plans.inputs import PlanInput, PlanUpdate
from usagebill.operations.plans.update import update
from usagebill.queries.contracts import contract_of
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.plans import overrides_of, plan_by_code, plan_definition
from usagebill.rating.comparison import compared
from usagebill.requests.inputs import Input, Maybe, described, read
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
    chosen = [within("plan_id", _with_overrides(reader, plan))]
    if external_customer_id is not None:
        chosen.append(eq("customer_id", customer_by_external_id(reader, external_customer_id).id))
    return _compared(reader, chosen, lambda _: new, start, end)


def _with_overrides(reader: Reader, plan: Plan) -> list[str]:
    return [known.id for known in (plan, *overrides_of(reader, plan, in_use=False))]


def _compared(
    reader: Reader,
    chosen: Sequence[Condition],
    new: Callable[[PlanDefinition], PlanDefinition],
    start: date,
    end: date,
) -> Iterator[ComparedSubscription]:
    subscriptions = reader.tx.each(
        Subscription, *chosen, present("started_at"), order=[asc("customer_id"), asc("started_at")]
    )
    for subscription in subscriptions:
        contract = contract_of(reader, subscription)
        old = plan_definition(reader, subscription.plan_id)
        comparison = compared(reader, contract, old, new(old), start, end)
        if comparison is not None:
            yield comparison


@Input
class PreviewedMonth:
    month: Maybe[str] = described("The month whose usage is priced.", default="last month", example="2024-02")


@without_backlog(Unrelated.ROLLED_BACK)
def preview_change(work: Work, code: str, request: PlanUpdate, options: PreviewedMonth) -> ComparisonSummary:
    """What a past month of the plan's subscriptions would have cost if the plan had been changed like this before.

    Takes what a change of the plan takes, and stores nothing. Subscriptions with prices of their own change as
    `cascade_updates` says. Amounts are before taxes, coupons and credits. Raises what the change would, and `Invalid`
    for a month that has not ended, or for a change of the currency.
    """
    plan = plan_by_code(work, code)
    start, end = _month(work, options)
    if request.amount_currency and request.amount_currency != plan.amount_currency:
        raise Invalid(amount_currency="currencies_does_not_match")

    def changed(alone: Work) -> Mapping[str, PlanDefinition]:
        update(alone, code, request)
        return {id: _with_all_scheduled(changed, request) for id, changed in definitions_of(alone, plan).items()}

    after = work.dry_run(changed)
    return work.estimated(
        ("preview of a change", code), lambda reader: effect(reader, plan, after, start, end), inputs=(request, start)
    )


def _with_all_scheduled(definition: PlanDefinition, request: PlanUpdate) -> PlanDefinition:
    """The plan with the prices of the day that the request names, with those scheduled for days before it."""
    if not request.effective or request.effective in frozenset(Effective):
        return definition
    day = date.fromisoformat(request.effective)
    return with_scheduled(definition, (one for one in definition.plan.scheduled_prices if one.effective_on <= day))


def definitions_of(reader: Reader, plan: Plan) -> Mapping[str, PlanDefinition]:
    """The definitions of a plan and of its overrides, by id."""
    return {id: plan_definition(reader, id) for id in _with_overrides(reader, plan)}


def effect(
    reader: Reader, plan: Plan, after: Mapping[str, PlanDefinition], start: date, end: date
) -> ComparisonSummary:
    """What the subscriptions of a plan would have cost from `start` to `end` (both included), with these definitions of
    it and of its overrides (`definitions_of`).
    """
    rows = _compared(reader, [within("plan_id", sorted(after))], lambda old: after[old.plan.id], start, end)
    return summary(rows, start, end, plan.amount_currency, now=reader.now)


def _month(reader: Reader, options: PreviewedMonth) -> tuple[date, date]:
    first, last = last_month(reader.now.date())
    if not options.month:
        return first, last
    try:
        start = date.fromisoformat(f"{options.month}-01")
    except ValueError:
        raise Invalid(month="invalid_date") from None
    if start > first:
        raise Invalid(
            month="value_is_out_of_range", reasons={"month": f"it has not ended; the last that has is {first:%Y-%m}"}
        )
    return start, add_months(start, 1) - timedelta(days=1)
