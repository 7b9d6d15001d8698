"""Calls of the library's operations as requests to a service, made from the table of endpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from inspect import signature
from typing import Any, Final, get_args, get_origin, get_type_hints
from urllib.parse import quote
from uuid import uuid4

import attrs

from usagebill.core.checks import Admitted
from usagebill.core.events import Event
from usagebill.core.fees import Fee
from usagebill.http.endpoints import BASE, Endpoint
from usagebill.http.table import endpoints
from usagebill.operations import events
from usagebill.operations.alerts import definitions as alerts
from usagebill.operations.estimates import InstantFee
from usagebill.process.json_text import encode_json
from usagebill.remote.answers import page, typed
from usagebill.resources import RESOURCES
from usagebill.resources.bindings import Operation, Sent
from usagebill.resources.sent_events import batch_of, event_fields
from usagebill.storage.ports import Page

IDEMPOTENCY: Final = "idempotency-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request, and how its answer is read. `again` makes that of another page."""

    method: str
    path: str
    query: str = ""
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[Any], Any] = field(repr=False)
    again: Callable[[int], Call] | None = field(default=None, repr=False)

    @property
    def may_be_repeated(self) -> bool:
        """Whether it does nothing more if it is sent again after it was done: a POST has a key, and a record that was
        deleted would not be found.
        """
        return self.method != "DELETE"


@cache
def _by_operation() -> Mapping[Callable[..., Any], Endpoint]:
    found: dict[Callable[..., Any], Endpoint] = {}
    for endpoint in endpoints():
        found.setdefault(endpoint.call, endpoint)
    # Operations that the API has within another.
    several, several_of_wallet = found[alerts.create_requested], found[alerts.create_requested_of_wallet]
    return {
        **found,
        events.list_all: found[events.list_or_unbilled],
        alerts.create: attrs.evolve(several, root="alert", returns="alert"),
        alerts.create_of_wallet: attrs.evolve(several_of_wallet, root="alert", returns="alert"),
        alerts.create_all: attrs.evolve(several, returns="alerts"),
        alerts.create_all_of_wallet: attrs.evolve(several_of_wallet, returns="alerts"),
    }


@cache
def offered(resource: str) -> Mapping[str, Callable[..., Call]]:
    """The verbs of a resource that a service offers, each as what makes its request."""
    kind = RESOURCES[resource]
    made: dict[str, Callable[..., Call]] = {
        name: partial(_of_operation, operation, endpoint)
        for name, operation in vars(kind).items()
        if isinstance(operation, Operation) and (endpoint := _by_operation().get(operation.function)) is not None
    }
    return {**made, **(_EVENTS if resource == "events" else {})}


def query_text(values: Mapping[str, object]) -> str:
    """`{"a": 1, "b": ["x", "y"]}` as `a=1&b[]=x&b[]=y`; what is None is left out."""
    return "&".join(f"{name}={quote(text, safe='')}" for name, text in _flat(values))


def _flat(values: Mapping[str, object], inside: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        name = f"{inside}[{quote(key, safe='')}]" if inside else quote(key, safe="")
        if isinstance(value, Mapping):
            yield from _flat(value, name)
        elif isinstance(value, (list, tuple)):
            yield from ((f"{name}[]", _text(item)) for item in value)
        elif value is not None:
            yield name, _text(value)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _of_operation(operation: Operation[Any], endpoint: Endpoint, *positional: str, **named: object) -> Call:
    sent = operation.sent(positional, named)
    return _call(endpoint, sent, get_type_hints(operation.function)["return"])


def _call(endpoint: Endpoint, sent: Sent, hint: Any) -> Call:
    request, options = sent.inputs.get("request", {}), sent.inputs.get("options", {})
    body = b""
    if endpoint.body is not None:
        body = encode_json(request if endpoint.root is None else {endpoint.root: request})
    path = BASE + endpoint.path
    for name, value in sent.path.items():
        path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
    headers = {"content-type": "application/json"} if body else {}
    if endpoint.method == "POST":
        headers |= _new_key()

    def read(answer: Any) -> Any:
        if endpoint.view is None:
            return None
        if not isinstance(answer, Mapping):
            return answer
        shown: Any = answer if endpoint.returns is None else answer[endpoint.returns]
        if endpoint.paged:
            return page(
                _item(hint), shown, answer["meta"], sent.paging.get("page", 1), sent.paging.get("per_page", 100)
            )
        if hint is str and isinstance(shown, Mapping):
            (shown,) = shown.values()
        return typed(hint, shown)

    def again(number: int) -> Call:
        return _call(endpoint, _of_page(sent, number), hint)

    return Call(
        method=endpoint.method,
        path=path,
        query=query_text({**options, **sent.paging}),
        body=body,
        headers=headers,
        read=read,
        again=again if endpoint.paged else None,
    )


def _new_key() -> dict[str, str]:
    return {IDEMPOTENCY: str(uuid4())}


def _of_page(sent: Sent, number: int) -> Sent:
    return sent._replace(paging={**sent.paging, "page": number})


def _item(hint: Any) -> Any:
    """The type of the records of a page."""
    pages = [hint] if get_origin(hint) is Page else [part for part in get_args(hint) if get_origin(part) is Page]
    return get_args(pages[0])[0]


# Events, which the library reads in its own way.


def _posted(path: str, body: object, read: Callable[[Any], Any], **query: object) -> Call:
    return Call(
        method="POST",
        path=f"{BASE}/events{path}",
        query=query_text({name: value for name, value in query.items() if value not in (False, "refuse")}),
        body=encode_json(body),
        # Where duplicates are skipped, an event's own id does what the key would.
        headers={"content-type": "application/json", **({} if query.get("on_duplicate") == "skip" else _new_key())},
        read=read,
    )


def _create(*, enforce: bool = False, on_duplicate: str = "refuse", **fields: object) -> Call:
    return _posted(
        "",
        {"event": event_fields(fields)},
        lambda answer: typed(Event, answer["event"]),
        enforce=enforce,
        on_duplicate=on_duplicate,
    )


def create_batch(
    request: Iterable[Mapping[str, object]], *, enforce: bool = False, on_duplicate: str = "refuse"
) -> Call:
    """The request of `events.create_batch`."""
    sent = {"events": batch_of(request, "create_batch").events}
    # Without a limit that refuses, and without duplicates that are skipped, these are None in the library.
    nothing = {"refused": None, "skipped": None}
    return _posted(
        "/batch",
        sent,
        lambda answer: typed(Admitted, {**nothing, **answer}),
        enforce=enforce,
        on_duplicate=on_duplicate,
    )


def _ingest(request: Iterable[Mapping[str, object]]) -> Call:
    made = create_batch(request)
    return replace(made, read=lambda answer: made.read(answer).events)


def _estimate_fees(**fields: object) -> Call:
    body = {"event": event_fields(fields)}
    return _posted("/estimate_fees", body, lambda answer: typed(list[Fee], answer["fees"]))


def _estimate_instant_fees(**fields: object) -> Call:
    body = {"event": event_fields(fields)}
    return _posted("/estimate_instant_fees", body, lambda answer: typed(list[InstantFee], answer["fees"]))


_EVENTS: Final[Mapping[str, Callable[..., Call]]] = {
    "create": _create,
    "create_batch": create_batch,
    "ingest": _ingest,
    "estimate_fees": _estimate_fees,
    "estimate_instant_fees": _estimate_instant_fees,
}


def method_of(resource: str, verb: str) -> Callable[..., Any]:
    """The library's method, for its arguments and its text."""
    value: Any = vars(RESOURCES[resource])[verb]
    return value._method if isinstance(value, Operation) else value


def bound_signature(method: Callable[..., Any]) -> Any:
    """The arguments of a method without its `self`."""
    whole = signature(method)
    return whole.replace(parameters=list(whole.parameters.values())[1:])
