"""Price lists as files: everything that decides prices, by code, read, compared and applied as a whole.

`_KINDS` is the one list of what a price list holds. A record is listed with the fields of the input class that creates
it, as its view shows them, and is written by the operations of its resource.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, get_args, get_origin

import attrs

from usagebill.core.add_ons import AddOn
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.coupons import Coupon, CouponStatus
from usagebill.core.currencies import exponent, major_from_cents
from usagebill.core.entitlements import Feature
from usagebill.core.errors import Invalid, placed
from usagebill.core.instants import parse_instant
from usagebill.core.plans import Plan, PlanDefinition
from usagebill.core.price_comparisons import ComparisonSummary, last_month
from usagebill.core.price_lists import ListedChange, PriceListChange, differences, is_same
from usagebill.core.price_versions import Effective
from usagebill.core.subscriptions import UNENDED, Subscription
from usagebill.core.taxes import Tax
from usagebill.operations import add_ons, billable_metrics, coupons, entitlements, features, plans, taxes
from usagebill.operations.backlog import Unrelated, after_backlog, of_everyone, without_backlog
from usagebill.operations.plans.effective import day_to_come, give_prices_of
from usagebill.operations.price_comparisons import definitions_of, effect
from usagebill.queries.plans import plan_definition
from usagebill.requests.inputs import Input, Maybe, described, read
from usagebill.requests.reference import field_of, hints_of
from usagebill.requests.sent_fields import slips
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, asc, eq, missing, within
from usagebill.views.add_ons import add_on_view
from usagebill.views.billable_metrics import billable_metric_view
from usagebill.views.coupons import coupon_view
from usagebill.views.entitlements import feature_view
from usagebill.views.plans import plan_view
from usagebill.views.taxes import tax_view

Listed = Mapping[str, Any]
# Code -> what is listed of the record, by section.
Lists = Mapping[str, Mapping[str, Listed]]

# Fields of inputs that a price list has not: it names records by code, and options are those of `apply`.
LEFT_OUT = frozenset({"id", "billable_metric_id", "add_on_id", "cascade_updates", "apply_units_immediately"})
_CHARGES = ("charges", "fixed_charges")
# What clears a field that takes an object; others of the kind cannot be cleared.
_CLEARED: Mapping[str, Listed] = {
    "minimum_commitment": {},
    "applies_to": {"plan_codes": [], "billable_metric_codes": []},
}


@Input
class ListedPlanInput(plans.PlanInput):
    """A plan of a price list, with its entitlements."""

    entitlements: Maybe[Mapping[str, object]] = described(
        "Feature -> privilege -> value.", example={"seats": {"most": 5}}, most=None
    )


@Input
class PriceListInput:
    """Everything that decides prices, by code. A section that is left out names no record."""

    taxes: Maybe[tuple[taxes.TaxInput, ...]] = described("Taxes.")
    billable_metrics: Maybe[tuple[billable_metrics.BillableMetricInput, ...]] = described("Billable metrics.")
    features: Maybe[tuple[features.FeatureInput, ...]] = described("Features.")
    add_ons: Maybe[tuple[add_ons.AddOnInput, ...]] = described("Add-ons.")
    plans: Maybe[tuple[ListedPlanInput, ...]] = described("Plans, with their charges.")
    coupons: Maybe[tuple[coupons.CouponInput, ...]] = described("Coupons.")


@dataclass(frozen=True, slots=True)
class _Kind:
    """A section: its records that are listed, their view, and the operations that write them."""

    record: type[Any]
    sent: type
    shown: Callable[[Reader, Any], Mapping[str, Any]]
    create: Callable[..., Any]
    update: Callable[..., Any]
    delete: Callable[..., Any]
    conditions: tuple[Condition, ...] = ()


def _shown_plan(reader: Reader, plan: Plan) -> Mapping[str, Any]:
    view = plan_view(reader, plan)
    names = {charge.id: charge.invoice_display_name for charge in plan_definition(reader, plan.id).fixed_charges}
    granted = [item["entitlement"] for item in view["entitlements"]]
    return {
        **view,
        # Views show the name of the add-on if a fixed charge has none.
        "fixed_charges": [{**one, "invoice_display_name": names[one["svc_id"]]} for one in view["fixed_charges"]],
        "entitlements": {
            feature["code"]: {privilege["code"]: privilege["value"] for privilege in feature["privileges"]}
            for feature in sorted(granted, key=lambda feature: feature["code"])
        },
    }


def _shown_coupon(reader: Reader, coupon: Coupon) -> Mapping[str, Any]:
    view = coupon_view(reader, coupon)
    return {**view, "applies_to": view}


# In the order in which they are written: what others name comes first.
_KINDS: Mapping[str, _Kind] = {
    "taxes": _Kind(
        *(Tax, taxes.TaxInput, tax_view, taxes.create, taxes.update, taxes.delete),
        conditions=(eq("auto_generated", False),),
    ),
    "billable_metrics": _Kind(
        *(BillableMetric, billable_metrics.BillableMetricInput, billable_metric_view),
        *(billable_metrics.create, billable_metrics.update, billable_metrics.delete),
    ),
    "features": _Kind(
        *(Feature, features.FeatureInput, feature_view, features.create, features.update, features.delete)
    ),
    "add_ons": _Kind(*(AddOn, add_ons.AddOnInput, add_on_view, add_ons.create, add_ons.update, add_ons.delete)),
    "plans": _Kind(
        *(Plan, ListedPlanInput, _shown_plan, plans.create, plans.update, plans.delete),
        conditions=(missing("parent_id"), eq("pending_deletion", False)),
    ),
    "coupons": _Kind(
        *(Coupon, coupons.CouponInput, _shown_coupon, coupons.create, coupons.update, coupons.delete),
        conditions=(eq("status", CouponStatus.ACTIVE),),
    ),
}


def pull(reader: Reader) -> dict[str, list[Listed]]:
    """Everything that decides prices as a price list, by code; `apply` takes it.

    Empty sections and empty fields are left out. Taxes that are managed automatically, plans that are being deleted and
    coupons that have ended are no part of it.
    """
    return {section: [*records.values()] for section, records in _lists(reader).items() if records}


def _lists(reader: Reader) -> Lists:
    return {
        section: {
            record.code: _as_sent(kind.sent, kind.shown(reader, record))
            for record in reader.tx.find(kind.record, *kind.conditions, order=[asc("code")])
        }
        for section, kind in _KINDS.items()
    }


def _as_sent(kind: type, shown: Mapping[str, Any]) -> Listed:
    """What a view shows, in the fields of the input class that it came from; empty ones are left out."""
    sent: dict[str, Any] = {}
    for name, hint in hints_of(kind).items():
        if name == "tax_codes":
            value: Any = [tax["code"] for tax in shown["taxes"]]
        else:
            value = shown.get(name)
        inner = get_args(hint)[0] if get_origin(hint) is tuple else hint
        if isinstance(inner, type) and attrs.has(inner) and value:
            value = [_as_sent(inner, item) for item in value] if inner is not hint else _as_sent(inner, value)
        if name in _CHARGES and value:
            value = sorted(value, key=lambda charge: charge["code"])
        if name not in LEFT_OUT and not (value is None or value in ([], {}, ())):
            sent[name] = _plain(value)
    return sent


def _plain(value: Any) -> Any:
    """A value as files hold it: numbers that are no integers are texts, and group keys have one name."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else f"{value:f}"
    if isinstance(value, Mapping):
        names = value.keys() - ({"grouped_by"} if "pricing_group_keys" in value else set())
        return {name: _plain(item) for name, item in value.items() if name in names}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@Input
class ApplyOptions:
    effective: Maybe[str] = described(
        "From when changed prices of plans count: `immediately`, `next_period`, or a date; needed for a rise.",
        example="2026-04-01",
    )
    delete: Maybe[bool] = described("Whether what the list does not name is deleted.", default="false")
    cascade_updates: Maybe[bool] = described(
        "Whether subscriptions with prices of their own change, too.", default="false"
    )


@without_backlog(Unrelated.ROLLED_BACK)
def diff(work: Work, sent: Listed, options: ApplyOptions) -> PriceListChange:
    """What `apply` would change, and what last month of each changed plan would have cost; changes nothing.

    Raises what `apply` raises, except for a rise without `effective`.
    """
    start, end = last_month(work.now.date())
    return _changes(work, _checked(sent), options, {"last month": (start, end)})[0]


@after_backlog(of_everyone)
def apply(work: Work, sent: Listed, options: ApplyOptions) -> PriceListChange:
    """Bring every record that a price list names to what it says, and create those that are new: all or nothing.

    Each record is whole: a field that is not there is cleared. Records, charges and privileges that the list does not
    name stay, unless `delete` is sent. Applied again, it changes nothing. Without `effective` it is refused if any
    subscription would have paid more last month, or this month so far. With `next_period` or a day it is refused if
    more waits than prices of plans. Raises `Invalid` and `NotFound`, and for a field that cannot be changed any more,
    such as the metric of a charge in use.
    """
    lists = _checked(sent)
    day = _day(work, options)
    start, end = last_month(work.now.date())
    periods = {"last month": (start, end), "this month so far": (work.now.date().replace(day=1), work.now.date())}
    changed, rises = _changes(work, lists, options, periods, day)
    if options.effective and options.effective != Effective.IMMEDIATELY:
        _refuse_tax_changes(changed.changes)
    if rises and not options.effective:
        raise Invalid({"effective": ["value_is_mandatory"]}, reasons={"effective": "; ".join(rises)})
    only = {(change.section, change.code) for change in changed.changes}
    _write(work, lists, options, only=only, effective=options.effective or None)
    return changed


def _day(reader: Reader, options: ApplyOptions) -> date | None:
    """The day from which the prices count; None for none. Raises `Invalid` for another `effective` than its values."""
    if not options.effective or options.effective in frozenset(Effective):
        return None
    return day_to_come(reader, options.effective)


def _refuse_tax_changes(changes: Sequence[ListedChange]) -> None:
    """Raises `Invalid` for another rate of a tax, or one that is gone: it would count for open periods, though prices
    are to wait. The metrics of open periods cannot change at all.
    """
    for change in changes:
        if change.section == "taxes" and (change.path == "rate" or change.after is None):
            raise _cannot_wait(f"tax {change.code}", "it changes at once")


def _cannot_wait(record: str, why: str) -> Invalid:
    reason = f"{record}: {why}; apply that with `immediately`, and the prices of plans in another file"
    return Invalid({"effective": ["only_prices_can_wait"]}, reasons={"effective": reason})


def _checked(sent: Listed) -> Lists:
    """The records of a price list by code. Raises `Invalid` for fields that it cannot have, and for a missing code."""
    problems = {slip.path: [slip.code] for slip in slips(PriceListInput, sent)}
    problems |= {path: ["unknown_field"] for path in _left_out(sent)}
    lists: dict[str, dict[str, Listed]] = {section: {} for section in _KINDS}
    for section in _KINDS:
        for position, item in enumerate(_items(sent, section)):
            place = f"{section}[{position}]"
            problems |= _code_problems(item, place, lists[section])
            lists[section][str(item.get("code"))] = item
            for charges in _CHARGES if section == "plans" else ():
                codes: dict[str, Listed] = {}
                for number, charge in enumerate(_items(item, charges)):
                    problems |= _code_problems(charge, f"{place}.{charges}[{number}]", codes)
                    codes[str(charge.get("code"))] = charge
    if problems:
        raise Invalid(problems)
    return lists


def _code_problems(item: Listed, place: str, known: Mapping[str, Listed]) -> dict[str, list[str]]:
    if not isinstance(item.get("code"), str) or not item["code"]:
        return {f"{place}.code": ["value_is_mandatory"]}
    return {f"{place}.code": ["value_already_exist"]} if item["code"] in known else {}


def _items(holder: Listed, name: str) -> Sequence[Listed]:
    items = holder.get(name)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, (list, tuple)) else []


def _left_out(sent: Listed) -> Iterator[str]:
    for position, plan in enumerate(_items(sent, "plans")):
        place = f"plans[{position}]"
        yield from (f"{place}.{name}" for name in plan if name in LEFT_OUT)
        for charges in _CHARGES:
            for number, charge in enumerate(_items(plan, charges)):
                yield from (f"{place}.{charges}[{number}].{name}" for name in charge if name in LEFT_OUT)


def _changes(
    work: Work,
    lists: Lists,
    options: ApplyOptions,
    periods: Mapping[str, tuple[date, date]],
    day: date | None = None,
) -> tuple[PriceListChange, list[str]]:
    """What writing the lists changes, as found out in a run that is rolled back, and each rise in words; with a `day`,
    what changes beside that which is scheduled until then.

    The effects are those of the first period.
    """
    known = work.tx.find(Plan, *_KINDS["plans"].conditions)

    def play(alone: Work) -> tuple[Lists, Lists, Mapping[str, Mapping[str, PlanDefinition]]]:
        if day is not None:
            for plan in known:
                give_prices_of(alone, plan, day)
        before = _lists(alone)
        _write(alone, lists, options)
        after = _lists(alone)
        _refuse_unkept(lists, after)
        return before, after, {plan.code: definitions_of(alone, plan) for plan in known if plan.code in after["plans"]}

    before, after, definitions = work.dry_run(play)
    changes = [
        ListedChange(section=section, code=code, path=path, before=old, after=new)
        for section in _KINDS
        for code in sorted({*before[section], *after[section]})
        for path, old, new in differences(before[section].get(code), after[section].get(code))
    ]
    repriced = [plan for plan in known if definitions.get(plan.code, {}) not in ({}, definitions_of(work, plan))]

    def compare(reader: Reader) -> tuple[Mapping[str, ComparisonSummary], list[str]]:
        effects: dict[str, ComparisonSummary] = {}
        rises: list[str] = []
        for plan in repriced:
            totals = {name: effect(reader, plan, definitions[plan.code], *days) for name, days in periods.items()}
            first = next(iter(totals.values()))
            if first.subscriptions_count:
                effects[plan.code] = first
            rises += [_rise(plan, total, name) for name, total in totals.items() if total.more_count][:1]
        return effects, rises

    effects, rises = work.estimated("effect of a price list", compare, inputs=(lists, options))
    kept = tuple(_kept(lists, after))
    return PriceListChange(changes=tuple(changes), kept=kept, effects=effects), rises


def _rise(plan: Plan, total: ComparisonSummary, period: str) -> str:
    amount = f"{major_from_cents(total.rise_cents, total.currency):.{exponent(total.currency)}f}"
    return (
        f"{total.more_count} of {total.subscriptions_count} subscriptions of plan {plan.code} would have paid {amount} "
        f"{total.currency} more for {period}; send when that begins to count: {', '.join(Effective)}, or a day"
    )


def _kept(lists: Lists, after: Lists) -> Iterator[tuple[str, str]]:
    for section in _KINDS:
        for code, item in after[section].items():
            if code not in lists[section]:
                yield section, code
                continue
            for charges in _CHARGES:
                named = {charge["code"] for charge in _items(lists[section][code], charges)}
                yield from (
                    (f"{section} {code}: {charges}", charge["code"])
                    for charge in _items(item, charges)
                    if charge["code"] not in named
                )


def _refuse_unkept(lists: Lists, after: Lists) -> None:
    """Raises `Invalid` for fields that were sent, but are not what is there now: they cannot be changed any more."""
    problems: dict[str, list[str]] = {}
    for section, kind in _KINDS.items():
        for position, (code, item) in enumerate(lists[section].items()):
            place = f"{section}[{position}]"
            problems |= {
                path: ["value_is_not_editable"]
                for path in _unkept(kind.sent, item, after[section].get(code, {}), place)
            }
    if problems:
        raise Invalid(problems)


def _unkept(kind: type, sent: Listed, kept: Listed, place: str) -> Iterator[str]:
    for name, hint in hints_of(kind).items():
        if name in LEFT_OUT or (name == "properties" and not sent.get(name)):
            continue
        inner = get_args(hint)[0] if get_origin(hint) is tuple else hint
        if name in _CHARGES:
            by_code = {charge["code"]: charge for charge in kept.get(name, ())}
            for position, charge in enumerate(_items(sent, name)):
                yield from _unkept(inner, charge, by_code.get(charge["code"], {}), f"{place}.{name}[{position}]")
        elif name in sent and get_origin(hint) is tuple and inner is not str:
            old, new = _items(sent, name), kept.get(name, ())
            yield from (f"{place}.{path}" for path, was, _ in differences(old, new, name) if was is not None)
        elif (name in sent or _is_object(hint)) and not _is_kept(hint, sent.get(name), kept.get(name)):
            yield f"{place}.{name}"


def _is_kept(hint: Any, sent: object, kept: object) -> bool:
    if hint is datetime and isinstance(sent, str) and isinstance(kept, str):
        return parse_instant(sent) == parse_instant(kept)
    return is_same(sent, kept)


def _is_object(hint: Any) -> bool:
    return get_origin(hint) is Mapping or (isinstance(hint, type) and attrs.has(hint))


def _write(
    work: Work,
    lists: Lists,
    options: ApplyOptions,
    *,
    only: Collection[tuple[str, str]] | None = None,
    effective: str | None = None,
) -> None:
    """Write the records that differ from the lists; `only` those of these sections and codes. Prices of plans count
    from when `effective` says.
    """
    before = _lists(work)
    for section, kind in _KINDS.items():
        for position, (code, item) in enumerate(lists[section].items()):
            known = before[section].get(code)
            if not [*differences(known, item)] or (only is not None and (section, code) not in only):
                continue
            with placed(f"{section}[{position}]"):
                if known is None:
                    _save(work, section, partial(kind.create, work), kind.sent, item)
                else:
                    whole = _whole(work, section, code, item, known, options)
                    if section == "plans" and effective:
                        whole["effective"] = effective
                    _save(work, section, partial(kind.update, work, code), kind.sent, whole)
                if section == "features" and known is not None and options.delete:
                    _delete_privileges(work, item, known)
    if options.delete:
        for section in reversed([*_KINDS]):
            for code in before[section].keys() - lists[section].keys():
                if section == "plans":
                    _refuse_in_use(work, code)
                _KINDS[section].delete(work, code)
    # A metric or an add-on takes charges along.
    work.invalidate_all()


def _save(work: Work, section: str, save: Callable[[Any], Any], kind: type, item: Listed) -> None:
    if section != "plans":
        save(read(kind, item))
        return
    try:
        save(read(plans.PlanUpdate, item))
    except Invalid as problem:
        if "effective" in problem.details and item.get("effective"):
            raise _cannot_wait(f"plan {item['code']}", "more than prices changes") from problem
        raise
    granted = entitlements.EntitlementsInput(entitlements=item.get("entitlements") or {})
    entitlements.replace_of_plan(work, item["code"], granted)


def _whole(
    reader: Reader, section: str, code: str, item: Listed, known: Listed, options: ApplyOptions
) -> dict[str, Any]:
    """The request that makes the record what the list says, whatever it was."""
    whole = _completed(_KINDS[section].sent, item)
    if section != "plans":
        return whole
    if not known.get("metadata") and not item.get("metadata"):
        # None and empty metadata are listed alike; only a change of prices may wait.
        del whole["metadata"]
    plan = next(iter(reader.tx.find(Plan, eq("code", code), missing("parent_id"))))
    definition = plan_definition(reader, plan.id)
    for name, kind, charges in (
        ("charges", plans.ChargeInput, definition.charges),
        ("fixed_charges", plans.FixedChargeInput, definition.fixed_charges),
    ):
        ids = {charge.code: charge.id for charge in charges}
        named = {charge["code"] for charge in _items(item, name)}
        others = () if options.delete else [one for one in known.get(name, ()) if one["code"] not in named]
        whole[name] = [
            {**_completed(kind, charge), **({"id": ids[charge["code"]]} if charge["code"] in ids else {})}
            for charge in (*_items(item, name), *others)
        ]
    return {**whole, "cascade_updates": bool(options.cascade_updates)}


def _completed(kind: type, item: Listed) -> dict[str, Any]:
    """`item` with what clears each field that it has not."""
    cleared = {name: _cleared(kind, name, hint) for name, hint in hints_of(kind).items() if name not in LEFT_OUT}
    completed = {**cleared, **item}
    commitment = completed.get("minimum_commitment")
    if commitment:
        completed["minimum_commitment"] = {"invoice_display_name": None, "tax_codes": [], **commitment}
    return completed


def _cleared(kind: type, name: str, hint: Any) -> object:
    if hint is bool:
        return field_of(kind, name).default == "true"
    if get_origin(hint) is tuple:
        return []
    if get_origin(hint) is Mapping or name == "properties":
        return {}
    return _CLEARED.get(name)


def _delete_privileges(work: Work, item: Listed, known: Listed) -> None:
    named = {privilege["code"] for privilege in _items(item, "privileges")}
    for privilege in known.get("privileges", ()):
        if privilege["code"] not in named:
            features.delete_privilege(work, item["code"], privilege["code"])


def _refuse_in_use(reader: Reader, code: str) -> None:
    """Raises `Invalid` for a plan that has subscriptions, which its deletion would end."""
    ids = [plan.id for plan in reader.tx.find(Plan, eq("code", code))]
    count = reader.tx.count(Subscription, within("plan_id", ids), within("status", UNENDED))
    if count:
        reason = f"plan {code} is not in the list, but has {count} subscriptions; move them, or delete it by itself"
        raise Invalid({"plans": ["value_is_mandatory"]}, reasons={"plans": reason})
