"""Charge filters, built from requests one by one or as the whole list of a charge."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

from usagebill.core.billable_metrics import BillableMetric, declared_values
from usagebill.core.cascades import linked_filters
from usagebill.core.errors import Invalid, placed
from usagebill.core.filters import identity, values_errors, values_reason
from usagebill.core.limits import MOST_FILTER_VALUES, MOST_FILTERS
from usagebill.core.plans import Charge, ChargeFilter
from usagebill.core.pricing import MODELS, normalized_properties, validate_properties
from usagebill.operations.plans.inputs import ChargeFilterInput
from usagebill.operations.plans.records import refuse
from usagebill.requests.inputs import is_given, value_or
from usagebill.runtime.work import Reader


def sent_values(request: ChargeFilterInput) -> dict[str, tuple[str, ...]]:
    """The sent values of a filter as stored: lists of texts by key. Raises `Invalid` if there are none."""
    values = {
        key: tuple(str(value) for value in listed if value is not None) if isinstance(listed, list | tuple) else ()
        for key, listed in value_or(request.values, {}).items()
    }
    if not values or not all(values.values()):
        raise Invalid(values="value_is_mandatory")
    return values


def check_number_of_filters(filters: Sequence[ChargeFilter]) -> None:
    """Raises `Invalid` if a charge would exceed the limits of filters, or of their values."""
    if len(filters) > MOST_FILTERS:
        raise Invalid(filters="too_many_filters")
    if (
        sum(len(accepted) for charge_filter in filters for accepted in charge_filter.values.values())
        > MOST_FILTER_VALUES
    ):
        raise Invalid(values="too_many_values")


def check_filter(charge: Charge, charge_filter: ChargeFilter, declared: Mapping[str, Collection[str]]) -> None:
    """Raises `Invalid` if the filter has keys or values that are not `declared` by the metric (`declared_values`), or
    senseless prices.
    """
    problems = values_errors(charge_filter.values, declared)
    if problems:
        raise Invalid(problems, reasons={"values": values_reason(charge_filter.values, declared)})
    codes = validate_properties(charge.charge_model, charge_filter.properties) if charge.charge_model in MODELS else ()
    refuse({"properties": codes} if codes else {})


def _kept_properties(charge: Charge, properties: Mapping[str, object] | None) -> dict[str, object]:
    return normalized_properties(charge.charge_model, properties, of_filter=True)


def new_filter(reader: Reader, charge: Charge, request: ChargeFilterInput, *, id: str | None = None) -> ChargeFilter:
    """A new filter of `charge` from the request, not checked yet. Raises `Invalid` if it has no values."""
    return ChargeFilter(
        id=id or reader.new_id(),
        values=sent_values(request),
        properties=_kept_properties(charge, value_or(request.properties, {})),
        invoice_display_name=value_or(request.invoice_display_name, None),
        created_at=reader.now,
        updated_at=reader.now,
    )


def changed_filter(
    reader: Reader, charge: Charge, charge_filter: ChargeFilter, request: ChargeFilterInput
) -> ChargeFilter:
    """`charge_filter` with the sent name and properties; its values stay."""
    changed = charge_filter
    if is_given(request.invoice_display_name):
        changed = replace(changed, invoice_display_name=value_or(request.invoice_display_name, None))
    if request.properties:
        changed = replace(changed, properties=_kept_properties(charge, request.properties))
    return changed if changed == charge_filter else replace(changed, updated_at=reader.now)


def with_links(reader: Reader, charge: Charge) -> Charge:
    """The charge with its filters linked to those that they copy, if it is an override's."""
    original = reader.tx.get(Charge, charge.parent_id) if charge.parent_id else None
    return charge if original is None else replace(charge, filters=linked_filters(charge.filters, original.filters))


def merged_filters(
    reader: Reader, charge: Charge, metric: BillableMetric, sent: Iterable[ChargeFilterInput]
) -> tuple[ChargeFilter, ...]:
    """The filters of `charge` after `sent` replaces their list, in that order.

    A filter with the values of an existing one replaces its name and properties as a whole; others are new. Existing
    ones that are not sent are removed. Raises `Invalid`.
    """
    items = tuple(sent)
    fresh_filters = []
    for position, (request, id) in enumerate(zip(items, reader.new_ids(len(items)), strict=True)):
        with placed(f"filters[{position}]"):
            fresh_filters.append(new_filter(reader, charge, request, id=id))
    unmatched: dict[Hashable, deque[ChargeFilter]] = {}
    for charge_filter in charge.filters:
        unmatched.setdefault(identity(charge_filter.values), deque()).append(charge_filter)
    merged = []
    for fresh in fresh_filters:
        alike = unmatched.get(identity(fresh.values))
        if alike:
            existing = alike.popleft()
            fresh = replace(fresh, id=existing.id, created_at=existing.created_at, parent_id=existing.parent_id)
        merged.append(fresh)
    check_number_of_filters(merged)
    declared = declared_values(metric)
    for position, charge_filter in enumerate(merged):
        with placed(f"filters[{position}]"):
            check_filter(charge, charge_filter, declared)
    return tuple(merged)
