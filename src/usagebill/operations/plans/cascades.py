"""Cascades: changes of a plan passed on to its overrides, if the caller asks for it.

An override keeps its own values; only what still equals the plan's former state follows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

from usagebill.core.billable_metrics import declared_values
from usagebill.core.filters import identity, trimmed_values
from usagebill.core.plans import Charge, ChargeFilter, FixedCharge, Plan, same_prices
from usagebill.operations.plans.records import changed_plans, remove
from usagebill.operations.plans.units import units_changed
from usagebill.queries.plans import metric_of, overrides_of
from usagebill.storage.conditions import eq
from usagebill.work import Reader, Work

__all__ = [
    "FixedChargeChange",
    "cascade_added_charge",
    "cascade_amount",
    "cascade_changed_charge",
    "cascade_fixed_charges",
    "cascade_removed_charge",
]

_GROUPINGS = ("pricing_group_keys", "presentation_group_keys")
_FILTER_GROUPINGS = ("pricing_group_keys",)


def cascade_amount(work: Work, plan: Plan, old_amount: int, changed: Callable[[Plan, int], None]) -> None:
    """Give overrides that still have the old amount the new one, and call `changed` with each."""
    if plan.amount_cents == old_amount:
        return
    for child in overrides_of(work, plan, in_use=False):
        if child.amount_cents == old_amount:
            after = replace(child, amount_cents=plan.amount_cents, updated_at=work.now)
            work.tx.replace(after)
            changed_plans(work, [child.id])
            changed(after, old_amount)


def _copied_filter(reader: Reader, charge_filter: ChargeFilter) -> ChargeFilter:
    return replace(charge_filter, id=reader.new_id(), created_at=reader.now, updated_at=reader.now)


def cascade_added_charge(work: Work, charge: Charge) -> None:
    """Add the plan's new charge to its overrides, without its taxes, once each."""
    parent = work.tx.get(Plan, charge.plan_id)
    if parent is None:
        return
    for child in overrides_of(work, parent):
        if work.tx.first(Charge, eq("plan_id", child.id), eq("parent_id", charge.id)) is None:
            filters = tuple(_copied_filter(work, charge_filter) for charge_filter in charge.filters)
            copy = replace(charge, id=work.new_id(), plan_id=child.id, parent_id=charge.id, filters=filters, tax_ids=())
            work.tx.insert(copy)
            changed_plans(work, [child.id])


def _children(reader: Reader, charge: Charge) -> list[Charge]:
    parent = reader.tx.get(Plan, charge.plan_id)
    reached = set() if parent is None else {child.id for child in overrides_of(reader, parent)}
    return [child for child in reader.tx.find(Charge, eq("parent_id", charge.id)) if child.plan_id in reached]


def cascade_removed_charge(work: Work, charge: Charge) -> None:
    """Remove the charges of overrides that were copied from `charge`."""
    for child in _children(work, charge):
        remove(work, child)
        changed_plans(work, [child.plan_id])


def _with_groupings(
    properties: Mapping[str, object], parents: Mapping[str, object], names: Iterable[str]
) -> Mapping[str, object]:
    """`own` properties with the grouping keys of the parent's, or without any where those have none."""
    kept = {key: value for key, value in properties.items() if key not in names}
    return {**kept, **{name: parents[name] for name in names if name in parents}}


def cascade_changed_charge(
    work: Work, before: Charge, after: Charge, *, sent_model: str | None, code_sent: bool = False
) -> None:
    """Pass a change of a charge on to its copies that have the charge model that was sent, and only to those."""
    for child in _children(work, after):
        if child.charge_model != (sent_model or after.charge_model):
            continue
        changed = child
        if child.charge_model == before.charge_model and same_prices(child.properties, before.properties):
            changed = replace(changed, properties=after.properties)
        changed = replace(changed, properties=_with_groupings(changed.properties, after.properties, _GROUPINGS))
        if code_sent:
            changed = replace(changed, code=after.code)
        units = child.applied_pricing_unit, before.applied_pricing_unit, after.applied_pricing_unit
        own, old, new = units
        if own is not None and old is not None and new is not None and own.conversion_rate == old.conversion_rate:
            rate = new.conversion_rate
            changed = replace(changed, applied_pricing_unit=replace(own, conversion_rate=rate))
        changed = replace(changed, filters=_cascaded_filters(work, before, after, child))
        if changed != child:
            work.tx.replace(replace(changed, updated_at=work.now))
            changed_plans(work, [child.plan_id])


def _by_values(filters: Iterable[ChargeFilter]) -> dict[Hashable, ChargeFilter]:
    """The filters by their values; of equal ones the first."""
    by_values: dict[Hashable, ChargeFilter] = {}
    for charge_filter in filters:
        by_values.setdefault(identity(charge_filter.values), charge_filter)
    return by_values


def _cascaded_filters(reader: Reader, before: Charge, after: Charge, child: Charge) -> tuple[ChargeFilter, ...]:
    """The filters of an override's charge once those of the plan's charge went from `before` to `after`."""
    if before.filters == after.filters:
        return child.filters
    olds, news = _by_values(before.filters), _by_values(after.filters)
    removed = olds.keys() - news.keys()
    filters = {
        charge_filter.id: charge_filter
        for charge_filter in child.filters
        if identity(charge_filter.values) not in removed
    }
    owns = _by_values(filters.values())
    declared = declared_values(metric_of(reader, child))
    for new in after.filters:
        old = olds.get(identity(new.values))
        if old is not None and old.properties == new.properties:
            continue
        child_filter = owns.get(identity(new.values))
        if child_filter is not None and old is not None:
            prices = new.properties if same_prices(child_filter.properties, old.properties) else child_filter.properties
            prices = _with_groupings(prices, new.properties, _FILTER_GROUPINGS)
            if prices != child_filter.properties:
                filters[child_filter.id] = owns[identity(new.values)] = replace(
                    child_filter, properties=prices, updated_at=reader.now
                )
        elif child_filter is None and old is None:
            values = trimmed_values(new.values, declared)
            if values is not None:
                copied = replace(_copied_filter(reader, new), values=values)
                filters[copied.id] = copied
                owns.setdefault(identity(values), copied)
    return tuple(filters.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedChargeChange:
    """A change of one fixed charge of a plan: added (nothing before), changed, or removed (nothing after)."""

    before: FixedCharge | None
    after: FixedCharge | None
    immediately: bool = False

    @property
    def other_units(self) -> bool:
        """Whether subscriptions have other units from now or from their next period on."""
        return self.after is not None and (self.before is None or self.before.units != self.after.units)


def cascade_fixed_charges(work: Work, plan: Plan, changes: Iterable[FixedChargeChange]) -> None:
    """Pass changes of a plan's fixed charges on to its overrides, and note the units that their subscriptions get."""
    wanted = tuple(changes)
    if not wanted:
        return
    for child in overrides_of(work, plan):
        by_parent = {
            fixed_charge.parent_id: fixed_charge for fixed_charge in work.tx.find(FixedCharge, eq("plan_id", child.id))
        }
        at_once: list[FixedCharge] = []
        next_period: list[FixedCharge] = []
        for change in wanted:
            changed = _cascaded(work, child, change, by_parent)
            if changed is not None:
                (at_once if change.immediately else next_period).append(changed)
        changed_plans(work, [child.id])
        units_changed(work, child, at_once=at_once, next_period=next_period)


def _cascaded(
    work: Work, child: Plan, change: FixedChargeChange, child_charge: Mapping[str | None, FixedCharge]
) -> FixedCharge | None:
    """Pass one change on to one override; its fixed charge, where it has other units now."""
    before, after = change.before, change.after
    if after is None:
        if before is not None and before.id in child_charge:
            remove(work, child_charge[before.id])
        return None
    copy = child_charge.get(after.id)
    if copy is None:
        if before is not None:
            return None
        added = replace(after, id=work.new_id(), plan_id=child.id, parent_id=after.id, tax_ids=())
        work.tx.insert(added)
        return added
    if before is None:
        return None
    untouched = (
        copy.charge_model == before.charge_model
        and copy.units == before.units
        and same_prices(copy.properties, before.properties)
    )
    if not untouched:
        return None
    changed = replace(
        copy,
        charge_model=after.charge_model,
        properties=after.properties,
        units=after.units,
        updated_at=work.now,
    )
    work.tx.replace(changed)
    return changed if changed.units != copy.units else None
