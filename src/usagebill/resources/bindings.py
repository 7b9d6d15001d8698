"""Bindings: how an operation becomes a method of a library object, with plain keyword arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from functools import cached_property, partial
from types import MethodType
from typing import (
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import attrs

from usagebill.core.errors import BillingError, Invalid
from usagebill.core.instants import MICROSECOND
from usagebill.core.near_names import near_name
from usagebill.core.numbers import is_bounded
from usagebill.operations.backlog import declared_backlog, is_query
from usagebill.pricing import with_price_texts
from usagebill.queries.near_records import is_named, near_record
from usagebill.requests.inputs import Paging, read
from usagebill.requests.reference import hints_of, is_price
from usagebill.requests.refusals import word
from usagebill.requests.sent_fields import UNKNOWN, near_field, slips
from usagebill.requests.signatures import Argument, arguments_of, documentation, signature_of
from usagebill.runtime.work import Reader, Work

T = TypeVar("T")
_PLAIN = frozenset({str, bool, type(None)})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PAGING = ("page", "per_page")


class Runner(Protocol):
    """Runs operations in transactions: `Billing`.

    `presented` converts a result for library users; `again` fetches another page of it. `entitling_commits` counts this
    process's commits that may have changed entitlements (`Store.entitling_commits`).
    """

    @property
    def entitling_commits(self) -> int: ...

    def reading(self, question: Callable[[Reader], T]) -> T: ...
    def writing(self, change: Callable[[Work], T]) -> T: ...
    def roll_up_usage(self) -> bool: ...
    def presented(self, result: Any, again: Callable[[int], Any]) -> Any: ...


@dataclass(frozen=True, slots=True)
class Message:
    """A type of webhook message: `about` says when it is sent, `shown` is the view of its object."""

    about: str
    shown: type


Views: TypeAlias = Mapping[type, Callable[[Reader, Any], Mapping[str, Any]]]
Messages: TypeAlias = Mapping[str, Message]


class Resource:
    """A resource: its operations as methods, and the view of its records.

    `permission` is what a key or a role needs for its operations, unless one says otherwise; without one, only programs
    may run them. `views` maps the kinds of record that the operations return to their JSON views; `messages` are the
    types of webhook message about it.
    """

    permission: ClassVar[str | None] = None
    views: ClassVar[Views] = {}
    messages: ClassVar[Messages] = {}

    def __init__(self, runner: Runner) -> None:
        self._runner = runner


def exact(value: object) -> object:
    """A caller's value as parsed JSON would hold it: a float becomes the decimal number that it prints as.

    Raises `TypeError` for a type that JSON does not have, `ValueError` for infinities and numbers of over 400 digits.
    """
    if value is None or isinstance(value, (str, bool)):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, Enum):
        return exact(value.value)
    if isinstance(value, (int, float, Decimal)):
        number = Decimal(repr(value)) if isinstance(value, float) else value
        if not is_bounded(number):
            raise ValueError("no number that can be billed: it is infinite, or has over 400 digits")
        return number
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): item if type(item) in _PLAIN else exact(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [item if type(item) in _PLAIN else exact(item) for item in value]
    if attrs.has(type(value)):
        return value
    raise TypeError(f"a {type(value).__name__} cannot be sent: {value!r}")


def refuse_slips(kind: type, values: Mapping[str, object]) -> None:
    """Refuse values that an input of `kind` would ignore or truncate to an integer.

    Raises `TypeError` for unknown names at any depth, and `Invalid` for fractions in fields of cents or counts.
    """
    fractional: dict[str, list[str]] = {}
    for slip in slips(kind, values):
        if slip.code == UNKNOWN:
            near = slip.near
            raise TypeError(f"unknown argument {slip.path}" + (f"; did you mean {near}?" if near else ""))
        fractional[slip.path] = [slip.code]
    if fractional:
        raise Invalid(fractional)


@contextmanager
def worded(runner: Runner, sent: Mapping[str, object], kind: type) -> Iterator[None]:
    """Refusals raised inside explain in words what is wrong with the values sent as an input of `kind`."""
    try:
        yield
    except BillingError as problem:
        _word(runner, problem, sent, kind)
        raise


def _word(
    runner: Runner,
    problem: BillingError,
    sent: Mapping[str, object],
    kind: type | None,
    path: Mapping[str, object] | None = None,
) -> None:
    near = runner.reading(partial(near_record, problem=problem)) if is_named(problem) else None
    word(problem, sent, kind, path=path, near=near)


def unix_seconds(instant: datetime) -> Decimal:
    """The exact seconds since 1970 of an instant; one without a time zone is in UTC."""
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return Decimal((aware - _EPOCH) // MICROSECOND).scaleb(-6)


def with_texts(kind: type, name: str, value: object, place: str | None = None) -> object:
    """The value of a field with its prices as strings, as charges store them. A float raises `TypeError`."""
    hint, place = hints_of(kind).get(name), place or name
    if is_price(hint) and isinstance(value, Mapping):
        return with_price_texts(value, place)
    many = get_origin(hint) in (list, tuple)
    nested = get_args(hint)[0] if many else hint
    if not (isinstance(nested, type) and attrs.has(nested)):
        return value
    if many and isinstance(value, (list, tuple)):
        return [_texts_inside(nested, item, f"{place}[{position}]") for position, item in enumerate(value)]
    return _texts_inside(nested, value, place)


def _texts_inside(kind: type, value: object, place: str) -> object:
    if not isinstance(value, Mapping):
        return value
    return {name: with_texts(kind, str(name), item, f"{place}.{name}") for name, item in value.items()}


class Sent(NamedTuple):
    """The arguments of a call: ids and codes of records, the fields of each input, and the page."""

    path: dict[str, Any]
    inputs: dict[str, dict[str, object]]
    paging: dict[str, Any]


class Operation(Generic[T]):
    """An operation as a method of a resource: `upsert = command(customers.upsert)`.

    The operation's own parameters come first, by position or by name; every other keyword argument is a field of its
    input class. An unknown one raises `TypeError`, also inside lists and objects.
    """

    def __init__(self, function: Callable[..., T], *, changes: bool, permission: str | None = None) -> None:
        self.function = function
        self._changes = changes
        self._permission = permission
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.__name__ = name
        self.__qualname__ = f"{owner.__qualname__}.{name}"
        self.__module__ = owner.__module__
        self._owner: type[Resource] = owner

    @overload
    def __get__(self, resource: None, owner: type) -> Operation[T]: ...
    @overload
    def __get__(self, resource: Resource, owner: type) -> Callable[..., T]: ...
    def __get__(self, resource: Resource | None, owner: type) -> Operation[T] | Callable[..., T]:
        return self if resource is None else MethodType(self._method, resource)

    def __call__(self, resource: Resource, /, *path: str, **fields: object) -> T:
        """Call it as a function of its resource: `Plans.get(billing.plans, "pro")`."""
        result: T = self._method(resource, *path, **fields)
        return result

    @property
    def changes(self) -> bool:
        """Whether it is a command."""
        return self._changes

    @property
    def permission(self) -> str | None:
        """What a key or a role needs for it."""
        return self._permission or self._owner.permission

    @cached_property
    def name(self) -> str:
        """Its name in the library: `plans.create`."""
        return f"{resource_name(self._owner)}.{self.__name__}"

    @cached_property
    def described(self) -> tuple[Argument, ...]:
        """Its arguments, with their types and meanings."""
        return tuple(arguments_of(self.path, self.inputs, paged=self.paged, operation=self.name))

    @cached_property
    def __signature__(self) -> inspect.Signature:
        return signature_of(self.described, _return_text(self.function))

    @cached_property
    def _method(self) -> Callable[..., T]:
        def method(resource: Resource, /, *path: str, **fields: object) -> T:
            try:
                return self._answered(resource._runner, path, fields)
            except BillingError as problem:
                kind = self.inputs.get("request") or self.inputs.get("options")
                _word(resource._runner, problem, fields, kind, dict(zip(self.path, path, strict=False)))
                raise
            finally:
                # They may contain keys, which no traceback may show.
                del fields

        method.__name__, method.__qualname__, method.__module__ = self.__name__, self.__qualname__, self.__module__
        method.__doc__ = documentation(self.function, self.described)
        method.__signature__ = self.__signature__  # type: ignore[attr-defined]
        return method

    def _answered(self, runner: Runner, path: Sequence[str], fields: Mapping[str, object]) -> T:
        arguments = self.arguments(path, fields)
        del fields

        def ask(page: int | None) -> T:
            paged = arguments if page is None else {**arguments, "paging": attrs.evolve(arguments["paging"], page=page)}
            return self.run(runner, paged)

        result: T = runner.presented(ask(None), ask)
        return result

    @cached_property
    def path(self) -> tuple[str, ...]:
        """The operation's own parameters: the ids and codes of the records it acts on."""
        named = list(inspect.signature(self.function).parameters)[1:]
        return tuple(name for name in named if name not in self.inputs and name != "paging")

    @cached_property
    def paged(self) -> bool:
        return "paging" in inspect.signature(self.function).parameters

    @cached_property
    def inputs(self) -> dict[str, type]:
        """The operation's parameter -> the class that reads its fields."""
        hints = get_type_hints(self.function)
        return {name: hints[name] for name in ("request", "options") if name in hints}

    @cached_property
    def fields(self) -> dict[str, str]:
        """Keyword argument -> the operation's parameter that it belongs to."""
        fields = {item.name: name for name, kind in self.inputs.items() for item in attrs.fields(kind)}
        return {**fields, **(dict.fromkeys(_PAGING, "paging") if self.paged else {})}

    def arguments(self, positional: Sequence[str], named: Mapping[str, object]) -> dict[str, Any]:
        """The arguments that the operation is called with."""
        sent = self.sent(positional, named)
        arguments: dict[str, Any] = dict(sent.path)
        for parameter, values in sent.inputs.items():
            arguments[parameter] = read(self.inputs[parameter], values)
        if self.paged:
            arguments["paging"] = Paging(**sent.paging)
        return arguments

    def sent(self, positional: Sequence[str], named: Mapping[str, object]) -> Sent:
        """A caller's arguments by where they belong, as parsed JSON would hold them. Raises `TypeError` for one that is
        missing or unknown.
        """
        if len(positional) > len(self.path):
            raise TypeError(f"takes {len(self.path)} positional arguments ({', '.join(self.path)})")
        remaining = dict(named)
        sent = Sent(dict(zip(self.path, positional, strict=False)), {name: {} for name in self.inputs}, {})
        for name in self.path[len(positional) :]:
            if name not in remaining:
                raise TypeError(f"{name} is missing")
            sent.path[name] = remaining.pop(name)
        for name, value in remaining.items():
            parameter = self.fields.get(name)
            if parameter is None:
                raise TypeError(self._unknown(name))
            if parameter == "paging":
                sent.paging[name] = value
            else:
                sent.inputs[parameter][name] = exact(with_texts(self.inputs[parameter], name, value))
        for parameter, values in sent.inputs.items():
            refuse_slips(self.inputs[parameter], values)
        return sent

    def _unknown(self, name: str) -> str:
        inside = [near for kind in self.inputs.values() if (near := near_field(name, kind)) and "." in near]
        near = inside[0] if inside else near_name(name, [*self.path, *self.fields])
        return f"unknown argument {name}" + (f"; did you mean {near}?" if near else "")

    def run(self, runner: Runner, arguments: Mapping[str, Any]) -> T:
        act = runner.writing if self._changes and not is_query(self.function) else runner.reading
        return act(lambda work: self.function(work, **arguments))


F = TypeVar("F", bound=Callable[..., Any])


def takes(kind: type, operation: str) -> Callable[[F], F]:
    """A method whose further keyword arguments are the fields of `kind`: `help()` lists and explains them.
    Those are required that `operation` needs.
    """

    def described(method: F) -> F:
        own = inspect.signature(method)
        arguments = list(arguments_of((), {"request": kind}, paged=False, operation=operation))
        fields = list(signature_of(arguments, "").parameters.values())[1:]
        known = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        required = [one for one in fields if one.default is inspect.Parameter.empty]
        optional = [one for one in fields if one.default is not inspect.Parameter.empty]
        shown = own.replace(parameters=[*known[:1], *required, *optional, *known[1:]])
        method.__doc__ = documentation(method, arguments)
        method.__signature__ = shown  # type: ignore[attr-defined]
        return method

    return described


def _return_text(function: Callable[..., object]) -> str:
    annotation = inspect.signature(function).return_annotation
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "object")


def resource_name(kind: type) -> str:
    """The attribute of `Billing` for a class of `usagebill.resources`: `credit_notes` for `CreditNotes`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def query(function: Callable[..., T], *, permission: str | None = None) -> Operation[T]:
    """An operation that only reads; one that pages also takes `page` and `per_page`."""
    return Operation(function, changes=False, permission=permission)


def command(function: Callable[..., T], *, permission: str | None = None) -> Operation[T]:
    """An operation that changes something: durable once it returns, or not at all.

    Raises `TypeError` if it declares neither whose backlog it settles first nor why it settles none.
    """
    if declared_backlog(function) is None:
        raise TypeError(
            f"{function.__module__}.{function.__name__} declares no backlog: see usagebill.operations.backlog"
        )
    return Operation(function, changes=True, permission=permission)
