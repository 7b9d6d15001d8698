"""What a service's answers become: the library's records, with the fields that an answer has, and its exceptions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from usagebill.core.errors import (
    BadRequest,
    BillingError,
    Forbidden,
    Invalid,
    NotAllowed,
    NotFound,
    PaymentRequired,
    ThirdPartyError,
    TooManyProviderRequests,
    TooManyRequests,
    Unauthorized,
)
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.plans import Charge, FixedCharge, Plan
from usagebill.core.subscriptions import Subscription
from usagebill.records import Pages, plain

OWN_PREFIX: Final = "svc_"
# Fields that are records in the library too.
_RELATED: Final[Mapping[type, Mapping[str, Any]]] = {
    Invoice: {"fees": list[Fee]},
    Plan: {"charges": tuple[Charge, ...], "fixed_charges": tuple[FixedCharge, ...]},
    Subscription: {"plan": Plan},
}
_NAMING: Final = ("id", "external_id", "transaction_id", "code", "number", "name")


class ServiceUnreachable(BillingError):
    """The service did not answer, or something before it answered in its place. `reason` says what was seen.

    With `may_have_been_made`, a change was sent of which nobody knows whether it was made.
    """

    status = 503

    def __init__(self, reason: str, *, may_have_been_made: bool = False) -> None:
        super().__init__("service_unreachable")
        self.message = reason
        self.may_have_been_made = may_have_been_made


class _Absent:
    """Stands where the library's record has a field that the service does not answer."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, record: Any, owner: type) -> Any:
        raise AttributeError(f"{self._name} is not in this answer of the service")


class Answered:
    """A record as a service answered it: a record of the library, with the fields of that answer (`answer`)."""

    answer: Mapping[str, Any]

    def json(self) -> Any:
        """The record as the service answered it, ready for `json.dumps`."""
        return plain(self.answer)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__}: {name} is not in this answer of the service")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Answered):
            return NotImplemented
        return type(self) is type(other) and self.answer == other.answer

    def __hash__(self) -> int:
        return hash((type(self), str(self.answer.get(f"{OWN_PREFIX}id"))))

    def __repr__(self) -> str:
        named = ((name, getattr(self, name, None)) for name in _NAMING)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in named if value is not None)})"


class _Computed:
    """Stands where the library's record computes a field, which an answer may have."""

    def __init__(self, computed: property) -> None:
        self._computed = computed

    def __get__(self, record: Any, owner: type) -> Any:
        return self if record is None else self._computed.__get__(record, owner)


@cache
def _computed(kind: type) -> Mapping[str, property]:
    return {name: value for name in dir(kind) if isinstance(value := getattr(kind, name), property)}


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    """The types of the fields of a record, computed ones too."""
    computed = {name: get_type_hints(value.fget).get("return", Any) for name, value in _computed(kind).items()}
    return {**computed, **get_type_hints(kind)}


@cache
def answered_kind(kind: type) -> type:
    """The class of records of `kind` that a service answers."""
    computed = {name: _Computed(value) for name, value in _computed(kind).items()}
    # A default would pass for an answer.
    stored = [name for name in get_type_hints(kind) if hasattr(kind, name) and not _is_slot(kind, name)]
    absent = {name: _Absent(name) for name in stored}
    return type(
        kind.__name__,
        (Answered, kind),
        {**computed, **absent, "__doc__": kind.__doc__, "__module__": kind.__module__},
    )


def _is_slot(kind: type, name: str) -> bool:
    return type(getattr(kind, name)).__name__ == "member_descriptor"


def record(kind: type, answer: Mapping[str, Any]) -> Any:
    """A record of `kind` with what `answer` says of it."""
    made: Any
    known, shown_as = _hints(kind), answered_kind(kind)
    if issubclass(kind, tuple):
        made = tuple.__new__(shown_as, [None] * len(get_type_hints(kind)))
    else:
        made = object.__new__(shown_as)
    related = _RELATED.get(kind, {})
    for key, value in answer.items():
        name = key.removeprefix(OWN_PREFIX)
        if key in related:
            name, shown = key, typed(related[key], value)
        elif name in known:
            shown = typed(known[name], value)
        else:
            name, shown = key, plain(value)
        object.__setattr__(made, name, shown)
    object.__setattr__(made, "answer", answer)
    return made


def typed(hint: Any, value: Any) -> Any:
    """A value of JSON as the type that the library has in its place; as it is if it cannot be that."""
    origin = get_origin(hint)
    if value is None or hint is Any:
        return value
    if origin in (Union, UnionType):
        (first, *_) = [part for part in get_args(hint) if part is not NoneType]
        return typed(first, value)
    if origin is tuple or (isinstance(origin, type) and issubclass(origin, Sequence)):
        if not isinstance(value, list):
            return value
        item = get_args(hint)[0]
        made = [typed(item, part) for part in value]
        return tuple(made) if origin is tuple else made
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        inner = get_args(hint)[1]
        return {key: typed(inner, part) for key, part in value.items()}
    if isinstance(hint, type):
        return _scalar(hint, value)
    return value


def _scalar(kind: type, value: Any) -> Any:
    if isinstance(value, Mapping):
        is_record = dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")
        return record(kind, value) if is_record else value
    try:
        if issubclass(kind, Enum):
            return kind(value)
        if issubclass(kind, datetime):
            return datetime.fromisoformat(value)
        if issubclass(kind, date):
            return date.fromisoformat(value[:10])  # some are shown as the instant when they begin
        if issubclass(kind, Decimal) and isinstance(value, (str, int, Decimal)):
            return Decimal(value)
    except (ValueError, TypeError, InvalidOperation):
        return value
    return value


def page(hint: Any, items: Sequence[Any], meta: Mapping[str, Any], asked: int, per_page: int) -> Pages[Any]:
    """One page of a list."""
    return Pages(
        items=[typed(hint, item) for item in items],
        page=meta["current_page"] or asked,
        per_page=per_page,
        total_count=meta["total_count"],
        total_count_is_exact=meta.get("total_count_is_exact", True),
    )


def problem_of(status: int, body: Any) -> BillingError:
    """The library's exception for an answer that refuses."""
    if not isinstance(body, Mapping) or "status" not in body:
        return ServiceUnreachable(f"something answered {status} that is not usagebill")
    code = str(body.get("code") or body.get("error"))
    details = body.get("error_details") or {}
    problem = _MADE.get(status, _made)(code, details)
    problem.status = status
    problem.message = str(body.get("message") or "")
    if isinstance(problem, Invalid):
        problem.messages = body.get("messages") or {}
    return problem


def _made(code: str, details: Any) -> BillingError:
    problem = BillingError(code)
    if details:
        problem.__dict__["details"] = details
    return problem


def _unprocessable(code: str, details: Any) -> BillingError:
    if code == "third_party_error":
        return ThirdPartyError(str(details.get("third_party")), str(details.get("thirdparty_error")))
    return Invalid(details) if code == "validation_errors" else _made(code, details)


def _too_many(code: str, details: Any) -> BillingError:
    return TooManyProviderRequests(str(details.get("provider_name"))) if details else TooManyRequests()


_MADE: Final[Mapping[int, Callable[[str, Any], BillingError]]] = {
    400: lambda code, _: BadRequest(code),
    401: lambda code, _: Unauthorized(),
    402: PaymentRequired,
    403: lambda code, _: Forbidden(code),
    404: lambda code, _: NotFound(code.removesuffix("_not_found")),
    405: lambda code, _: NotAllowed(code),
    422: _unprocessable,
    429: _too_many,
}
