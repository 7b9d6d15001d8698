"""Cascades: how a change of a plan reaches its overrides, if the caller asks for it.

Every copy knows its original by id: charges, fixed charges and filters. An override keeps its own values; it follows
the plan only in values that still equal the plan's previous ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from usagebill.core.filters import age, identity, trimmed_values
from usagebill.core.plans import Charge, ChargeFilter, FixedCharge, Plan, same_prices

_GROUPINGS = ("pricing_group_keys", "presentation_group_keys")
_FILTER_GROUPINGS = ("pricing_group_keys",)

NewId = Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedChargeChange:
    """A change of one fixed charge of a plan: added (nothing before), changed, or removed (nothing after)."""

    before: FixedCharge | None
    after: FixedCharge | None
    immediately: bool = False

    @property
    def other_units(self) -> bool:
        """Whether the units of subscriptions change, now or from their next period on."""
        return self.after is not None and (self.before is None or self.before.units != self.after.units)


def with_amount(override: Plan, *, before: int, after: int, now: datetime) -> Plan:
    """The override with the plan's new amount in cents if it still has the previous one, else unchanged."""
    if after == before or override.amount_cents != before:
        return override
    return replace(override, amount_cents=after, updated_at=now)


def added_charge(charge: Charge, override: Plan, *, new_id: NewId, now: datetime) -> Charge:
    """The override's copy of a charge added to the plan; taxes are not copied."""
    filters = tuple(
        replace(copied, created_at=now, updated_at=now) for copied in copied_filters(charge.filters, new_id=new_id)
    )
    return replace(charge, id=new_id(), plan_id=override.id, parent_id=charge.id, filters=filters, tax_ids=())


def changed_charge(
    copy: Charge,
    before: Charge,
    after: Charge,
    *,
    sent_model: str | None,
    code_sent: bool,
    declared: Mapping[str, Collection[str]],
    new_id: NewId,
    now: datetime,
) -> Charge:
    """An override's copy of a charge that changed from `before` to `after`; the same object if it does not follow.

    Only copies of the charge model that was sent (by default the charge's) follow. `declared` are the values that the
    metric declares for each key of its filters.
    """
    if copy.charge_model != (sent_model or after.charge_model):
        return copy
    changed = copy
    if copy.charge_model == before.charge_model and same_prices(copy.properties, before.properties):
        changed = replace(changed, properties=after.properties)
    changed = replace(changed, properties=_with_groupings(changed.properties, after.properties, _GROUPINGS))
    if code_sent:
        changed = replace(changed, code=after.code)
    unit, old, new = copy.applied_pricing_unit, before.applied_pricing_unit, after.applied_pricing_unit
    if unit is not None and old is not None and new is not None and unit.conversion_rate == old.conversion_rate:
        changed = replace(changed, applied_pricing_unit=replace(unit, conversion_rate=new.conversion_rate))
    changed = replace(changed, filters=_changed_filters(copy, before, after, declared, new_id, now))
    return copy if changed == copy else replace(changed, updated_at=now)


def added_fixed_charge(added: FixedCharge, override: Plan, *, new_id: NewId) -> FixedCharge:
    """The override's copy of a fixed charge added to the plan; taxes are not copied."""
    return replace(added, id=new_id(), plan_id=override.id, parent_id=added.id, tax_ids=())


def changed_fixed_charge(copy: FixedCharge, before: FixedCharge, after: FixedCharge, now: datetime) -> FixedCharge:
    """An override's copy of a fixed charge that changed from `before` to `after`; the same object if the override has
    values of its own.
    """
    follows = (
        copy.charge_model == before.charge_model
        and copy.units == before.units
        and same_prices(copy.properties, before.properties)
    )
    if not follows:
        return copy
    return replace(
        copy,
        charge_model=after.charge_model,
        properties=after.properties,
        units=after.units,
        updated_at=now,
    )


def _with_groupings(
    properties: Mapping[str, object], parents: Mapping[str, object], names: Iterable[str]
) -> Mapping[str, object]:
    """The properties with the parent's grouping keys, or without any if the parent has none."""
    kept = {key: value for key, value in properties.items() if key not in names}
    return {**kept, **{name: parents[name] for name in names if name in parents}}


def copied_filters(filters: Iterable[ChargeFilter], *, new_id: NewId) -> tuple[ChargeFilter, ...]:
    """Copies of a plan's filters for an override, in their order, each linked to its original.

    Ids sort as those of the originals do: of two filters that accept the same, the same one takes the events.
    """
    originals = tuple(filters)
    ids = {charge_filter.id: new_id() for charge_filter in sorted(originals, key=age)}
    return tuple(replace(original, id=ids[original.id], parent_id=original.id) for original in originals)


def linked_filters(own: Iterable[ChargeFilter], originals: Sequence[ChargeFilter]) -> tuple[ChargeFilter, ...]:
    """An override's filters, each linked to the one of the plan's filters that it copies.

    A link stays, whatever the values have become, while the plan has that filter. A filter without one takes the
    first of the plan's filters with the same values that no other is linked to; without such it is the override's own.
    """
    filters = tuple(own)
    known = {original.id for original in originals}
    taken = {charge_filter.parent_id for charge_filter in filters}
    free: dict[Hashable, deque[str]] = {}
    for original in originals:
        if original.id not in taken:
            free.setdefault(identity(original.values), deque()).append(original.id)
    linked = []
    for charge_filter in filters:
        if charge_filter.parent_id not in known:
            alike = free.get(identity(charge_filter.values))
            if alike:
                linked.append(replace(charge_filter, parent_id=alike.popleft()))
                continue
        linked.append(charge_filter)
    return tuple(linked)


def _changed_filters(
    copy: Charge,
    before: Charge,
    after: Charge,
    declared: Mapping[str, Collection[str]],
    new_id: NewId,
    now: datetime,
) -> tuple[ChargeFilter, ...]:
    """The filters of an override's charge after those of the plan's charge changed from `before` to `after`."""
    if before.filters == after.filters:
        return copy.filters
    olds = {charge_filter.id: charge_filter for charge_filter in before.filters}
    removed = olds.keys() - {charge_filter.id for charge_filter in after.filters}
    kept = [its for its in linked_filters(copy.filters, before.filters) if its.parent_id not in removed]
    filters = {its.id: its for its in linked_filters(kept, after.filters)}
    copies = {its.parent_id: its for its in filters.values()}
    for new in after.filters:
        old, own_filter = olds.get(new.id), copies.get(new.id)
        if old is not None and own_filter is not None and old.properties != new.properties:
            prices = new.properties if same_prices(own_filter.properties, old.properties) else own_filter.properties
            prices = _with_groupings(prices, new.properties, _FILTER_GROUPINGS)
            if prices != own_filter.properties:
                filters[own_filter.id] = replace(own_filter, properties=prices, updated_at=now)
        elif old is None and own_filter is None:
            values = trimmed_values(new.values, declared)
            if values is not None:
                (copied,) = copied_filters([new], new_id=new_id)
                filters[copied.id] = replace(copied, values=values, created_at=now, updated_at=now)
    return tuple(filters.values())
