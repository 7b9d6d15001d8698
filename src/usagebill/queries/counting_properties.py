"""The properties of events by which usage is counted, priced or shown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.expressions import properties_in
from usagebill.core.grouping import TARGET_WALLET_KEY
from usagebill.core.plans import Charge
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import within

_GROUPING = frozenset({"pricing_group_keys", "presentation_group_keys", "grouped_by"})


def counting_properties(reader: Reader, codes: Collection[str]) -> set[str]:
    """The names of the properties that metrics with these codes, and charges of them, look at; deleted ones too."""
    names: set[str] = set()
    metrics = reader.tx.find(BillableMetric, within("code", [*codes]), deleted=True)
    for metric in metrics:
        names |= {
            metric.field_name or "",
            *(item.key for item in metric.filters),
            *properties_in(metric.expression or ""),
        }
    for charge in reader.tx.find(Charge, within("billable_metric_id", [item.id for item in metrics]), deleted=True):
        names |= {*_group_keys(charge.properties)}
        for item in charge.filters:
            names |= {*_group_keys(item.properties)}
        if charge.accepts_target_wallet:
            names.add(TARGET_WALLET_KEY)
    return names


def _group_keys(properties: Mapping[str, object]) -> Iterator[str]:
    for name in _GROUPING & properties.keys():
        yield from _texts_in(properties[name])


def _texts_in(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for name, item in value.items():
                yield str(name)
                yield from _texts_in(item)
        case list() | tuple():
            for item in value:
                yield from _texts_in(item)
