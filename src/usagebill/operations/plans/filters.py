"""Charge filters: built from what is sent, one by one or as the whole list of a charge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from usagebill.core.billable_metrics import BillableMetric, declared_values
from usagebill.core.errors import Invalid
from usagebill.core.filters import same_values, values_errors
from usagebill.core.plans import Charge, ChargeFilter
from usagebill.core.pricing import MODELS, normalized_properties, validate_properties
from usagebill.inputs import is_given, value_or
from usagebill.operations.plans.inputs import ChargeFilterInput
from usagebill.operations.plans.records import refuse
from usagebill.work import Work

__all__ = ["changed_filter", "check_filters", "merged_filters", "new_filter", "sent_values"]


def sent_values(given: ChargeFilterInput) -> dict[str, tuple[str, ...]]:
    """The values of a filter as they are kept: lists of texts by key. Raises `Invalid` where there are none."""
    values = {
        key: tuple(str(value) for value in listed if value is not None) if isinstance(listed, list | tuple) else ()
        for key, listed in value_or(given.values, {}).items()
    }
    if not values or not all(values.values()):
        raise Invalid(values="value_is_mandatory")
    return values


def check_filters(charge: Charge, metric: BillableMetric, filters: Iterable[ChargeFilter]) -> None:
    """Raises `Invalid` where a filter names what the metric does not declare, or its prices make no sense."""
    declared = declared_values(metric)
    for one in filters:
        refuse(values_errors(one.values, declared))
        codes = validate_properties(charge.charge_model, one.properties) if charge.charge_model in MODELS else ()
        refuse({"properties": codes} if codes else {})


def _kept_properties(charge: Charge, properties: Mapping[str, object] | None) -> dict[str, object]:
    return normalized_properties(charge.charge_model, properties, of_filter=True)


def new_filter(work: Work, charge: Charge, given: ChargeFilterInput) -> ChargeFilter:
    """A filter of `charge` as it is sent, not yet checked. Raises `Invalid` where it has no values."""
    return ChargeFilter(
        id=work.new_id(),
        values=sent_values(given),
        properties=_kept_properties(charge, value_or(given.properties, {})),
        invoice_display_name=value_or(given.invoice_display_name, None),
        created_at=work.now,
        updated_at=work.now,
    )


def changed_filter(work: Work, charge: Charge, one: ChargeFilter, given: ChargeFilterInput) -> ChargeFilter:
    """`one` with the name and the properties that are sent; its values stay as they are."""
    changed = one
    if is_given(given.invoice_display_name):
        changed = replace(changed, invoice_display_name=value_or(given.invoice_display_name, None))
    if given.properties:
        changed = replace(changed, properties=_kept_properties(charge, given.properties))
    return changed if changed == one else replace(changed, updated_at=work.now)


def merged_filters(
    work: Work, charge: Charge, metric: BillableMetric, sent: Iterable[ChargeFilterInput]
) -> tuple[ChargeFilter, ...]:
    """The filters of `charge` once `sent` is their whole list, in that order.

    A filter with the values of an existing one replaces its name and properties, wholly; others are new, and existing
    ones that are not sent go. Raises `Invalid`.
    """
    wanted = tuple(sent)
    for given in wanted:
        sent_values(given)
    left = list(charge.filters)
    merged = []
    for given in wanted:
        fresh = new_filter(work, charge, given)
        known = next((one for one in left if same_values(one.values, fresh.values)), None)
        if known is not None:
            left.remove(known)
            fresh = replace(fresh, id=known.id, created_at=known.created_at)
        merged.append(fresh)
    check_filters(charge, metric, merged)
    return tuple(merged)
