"""Records as library users get them: those of the core, with all other API fields as further attributes.

`invoice.total_due_amount_cents` is the API field of that name; `invoice.fees` and `plan.charges` are records
themselves. Values that are not stored with a record are read on first access, and cached.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cache
from typing import Any, Generic, Protocol, TypeVar, cast, get_type_hints, is_typeddict

from usagebill.core.invoices.records import Invoice
from usagebill.core.plans import Charge, ChargeFilter, Plan
from usagebill.core.subscriptions import Subscription
from usagebill.queries.fees import fees_of_invoice
from usagebill.queries.plans import plan_definition
from usagebill.queries.subscriptions import plan_of
from usagebill.requests.reference import shown_field
from usagebill.resources import VIEWS
from usagebill.resources.result_views import shown_filter
from usagebill.runtime.work import Reader
from usagebill.storage.ports import Page

T = TypeVar("T")
R = TypeVar("R")


class Viewer(Protocol):
    """The source of values that are not stored with a record: `Billing`."""

    def reading(self, question: Callable[[Reader], T]) -> T: ...
    def view(self, record: object) -> Any: ...


# Attributes that are records: kind -> name -> their look-up.
RELATED: Mapping[type, Mapping[str, Callable[[Reader, Any], Any]]] = {
    Invoice: {"fees": fees_of_invoice},
    Plan: {
        "charges": lambda reader, plan: plan_definition(reader, plan.id).charges,
        "fixed_charges": lambda reader, plan: plan_definition(reader, plan.id).fixed_charges,
    },
    Subscription: {"plan": plan_of},
}


class _Shown:
    """A record with the other fields of the API. Equal to the record of the core."""

    _kind: type

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, self._kind):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in dataclasses.fields(self._kind))

    def __hash__(self) -> int:
        return hash(self.__dict__["record"])

    def json(self) -> dict[str, Any]:
        """The record as the API shows it, ready for `json.dumps`."""
        record, viewer = self.__dict__.get("record"), self.__dict__.get("viewer")
        if record is None or viewer is None:
            raise AttributeError("json() is known of what an operation gave, not of copies of it")
        return dict(viewer.view(record))

    def __getattr__(self, name: str) -> Any:
        if name not in further_fields(self._kind):
            raise AttributeError(f"{self._kind.__name__} has no attribute {name}")
        record, viewer = self.__dict__.get("record"), self.__dict__.get("viewer")
        if record is None or viewer is None:
            raise AttributeError(f"{name} is known of what an operation gave, not of copies of it")
        find = RELATED.get(self._kind, {}).get(name)
        if find is not None:
            self.__dict__[name] = presented(viewer, viewer.reading(lambda reader: find(reader, record)), None)
        else:
            view = viewer.view(record)
            for key in further_fields(self._kind):
                if key in view and key not in RELATED.get(self._kind, {}):
                    self.__dict__[key] = view[key]
        return self.__dict__.get(name)


@cache
def further_fields(kind: type) -> frozenset[str]:
    """The fields that a kind's view has and its record lacks."""
    view = VIEWS.get(kind)
    if view is None or not dataclasses.is_dataclass(kind):
        return frozenset()
    shown = get_type_hints(view)["return"]
    names = set(get_type_hints(shown)) if is_typeddict(shown) else set()
    stored = {field.name for field in dataclasses.fields(kind)}
    return frozenset(name for name in names if name.removeprefix("svc_") not in stored and not hasattr(kind, name))


@cache
def shown_kind(kind: type) -> type | None:
    """The class of `kind` with all API fields; None if the record has them all."""
    if not further_fields(kind):
        return None
    return type(kind.__name__, (_Shown, kind), {"_kind": kind, "__doc__": _documentation(kind), "__module__": __name__})


def _documentation(kind: type) -> str:
    """The `help()` text of a record: its description, and the meaning of each API field."""
    shown = get_type_hints(VIEWS[kind])["return"]
    name = shown.__name__.removesuffix("View")
    fields = [f"{field}: {shown_field(name, field).about}" for field in get_type_hints(shown)]
    return "\n".join([inspect.getdoc(kind) or kind.__name__, "", *fields])


def presented(viewer: Viewer, result: Any, again: Callable[[int], Any] | None) -> Any:
    """A result as library users get it; `again` asks for another page of it."""
    if isinstance(result, Page):
        items = [_presented_one(viewer, item) for item in result.items]
        ask = None if again is None else lambda page: presented(viewer, again(page), again)
        return Pages(
            items=items,
            page=result.page,
            per_page=result.per_page,
            total_count=result.total_count,
            total_count_is_exact=result.total_count_is_exact,
            ask=ask,
        )
    if isinstance(result, list):
        return [_presented_one(viewer, item) for item in result]
    if type(result) is tuple:  # an event remains a named tuple
        return tuple(_presented_one(viewer, item) for item in result)
    return _presented_one(viewer, result)


def _presented_one(viewer: Viewer, record: Any) -> Any:
    known: type = type(record)
    kind = shown_kind(known)
    if kind is None:
        return record
    shown: Any = object.__new__(kind)
    for field in dataclasses.fields(record):
        object.__setattr__(shown, field.name, getattr(record, field.name))
    shown.__dict__.update(record=record, viewer=viewer)
    return shown


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pages(Page[R], Generic[R]):
    """One page of a list, which continues by itself: `for invoice in billing.invoices.list()` yields every invoice.

    Each page is read when it is reached. Records added meanwhile at the front of the list are not yielded, and none is
    yielded twice; a deletion meanwhile may cause a record to be skipped.
    """

    ask: Callable[[int], Pages[R]] | None = dataclasses.field(default=None, repr=False, compare=False)

    def __iter__(self) -> Iterator[R]:
        met: set[object] = set()
        page: Pages[R] | None = self
        while page is not None:
            yield from page.unmet(met)
            page = page.next_page()

    def next_page(self) -> Pages[R] | None:
        """Read the page after this one; None if this is the last."""
        return None if self.ask is None or self.is_last else self.ask(self.page + 1)

    @property
    def is_last(self) -> bool:
        """Whether no page comes after this one."""
        return not self.items or (self.total_count_is_exact and self.page * self.per_page >= self.total_count)

    def unmet(self, met: set[object]) -> Iterator[R]:
        """The records of this page that are not among those `met`, to which they are added."""
        for item in self.items:
            key = getattr(item, "id", None) or id(item)
            if key not in met:
                met.add(key)
                yield item


def view_of(reader: Reader, record: Any) -> Any:
    """The API's view of an operation's result: a record, several, a text, or nothing."""
    if isinstance(record, _Shown):
        record = record.__dict__.get("record", record)
    if isinstance(record, tuple) and len(record) == 2 and isinstance(record[1], ChargeFilter):
        return shown_filter(reader, cast(tuple[Charge, ChargeFilter], record))
    view = VIEWS.get(type(record))
    if view is None and isinstance(record, _Shown):
        view = VIEWS[record._kind]
    if view is not None:
        return view(reader, record)
    if isinstance(record, Page):
        return [view_of(reader, item) for item in record.items]
    if record is None or isinstance(record, str | int | Decimal):
        return record
    if isinstance(record, Mapping):
        return {str(key): view_of(reader, value) for key, value in record.items()}
    if isinstance(record, bytes):
        raise TypeError("a document has no JSON: it is the bytes of a file")
    if isinstance(record, Iterable):
        return [view_of(reader, item) for item in record]
    raise TypeError(f"a {type(record).__name__} has no JSON")


def plain(value: Any) -> Any:
    """`value` in types that `json.dumps` accepts: a decimal is a number if a float holds it exactly."""
    if isinstance(value, Decimal):
        if value == value.to_integral_value() and "." not in str(value):
            return int(value)
        return float(value) if Decimal(repr(float(value))) == value else format(value, "f")
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
