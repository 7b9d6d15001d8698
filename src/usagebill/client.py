"""Clients of a served usagebill, with the library's own names, arguments, results and errors.

    with Client("https://billing.example.com", "the-api-key") as client:
        client.events.create(transaction_id="1", code="calls", external_subscription_id="acme-pro")

They need the extra `client` (httpx). `AsyncClient` has the same as coroutines.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from types import TracebackType
from typing import Any, Final, Self

import httpx

from usagebill import __version__
from usagebill.aio import turned
from usagebill.process.json_text import encode_json, parse_json, with_prefix
from usagebill.records import Pages, plain
from usagebill.remote.answers import OWN_PREFIX, Answered, ServiceUnreachable, problem_of
from usagebill.remote.calls import Call, bound_signature, method_of, offered
from usagebill.remote.retries import UNKNOWN, Retries
from usagebill.resources import RESOURCES
from usagebill.resources.async_held_usage import held

__all__ = ["AsyncClient", "Client", "Retries", "ServiceUnreachable"]

_TIMEOUT: Final = 30.0
# Failures before anything was sent.
_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class _Service:
    """What both clients know of their service."""

    def __init__(self, url: str, key: str, *, id_prefix: str = OWN_PREFIX, retries: Retries | None = None) -> None:
        self._url = url.rstrip("/")
        self._headers = {"authorization": f"Bearer {key}", "user-agent": f"usagebill-client/{__version__}"}
        self._prefix = id_prefix
        self._retries = retries or Retries()
        for name in RESOURCES:
            setattr(self, name, _Resource(self, name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    def _request(self, call: Call) -> dict[str, Any]:
        body = call.body
        if body and self._prefix != OWN_PREFIX:
            body = encode_json(with_prefix(parse_json(body), OWN_PREFIX, self._prefix))
        url = self._url + call.path + (f"?{call.query}" if call.query else "")
        return {"method": call.method, "url": url, "content": body, "headers": {**call.headers, **self._headers}}

    def _answered(self, call: Call, response: httpx.Response) -> Any:
        """The result of a call. Raises what the library would."""
        kind = response.headers.get("content-type", "")
        body: Any = response.content
        if kind.startswith("application/json") and body:
            body = with_prefix(parse_json(body), self._prefix, OWN_PREFIX)
        elif kind.startswith("text/plain"):
            body = response.text
        if response.is_success:
            return call.read(body)
        raise problem_of(response.status_code, body)

    def _pause(self, call: Call, tried: int, response: httpx.Response, retries: Retries) -> float | None:
        if not call.may_be_repeated and UNKNOWN.encode() in response.content:
            return None
        return retries.pause_after_answer(tried, response.status_code, response.headers)

    def _pause_unanswered(self, call: Call, tried: int, problem: httpx.TransportError, retries: Retries) -> float:
        """Raises `ServiceUnreachable` if the call is not tried again."""
        was_sent = not isinstance(problem, _UNSENT)
        again = call.may_be_repeated or not was_sent
        pause = retries.pause_after_failure(tried) if again else None
        if pause is None:
            reason = f"{self._url}: {str(problem) or type(problem).__name__} (tried {tried} times)"
            raise ServiceUnreachable(reason, may_have_been_made=was_sent and call.method != "GET") from problem
        return pause


class _Resource:
    """A resource of the service: the verbs of the library that it offers."""

    def __init__(self, service: Any, name: str) -> None:
        self._service = service
        self._name = name
        self.__doc__ = RESOURCES[name].__doc__

    def __getattr__(self, verb: str) -> Any:
        if verb.startswith("_"):
            raise AttributeError(verb)
        kind = RESOURCES[self._name]
        make = offered(self._name).get(verb)
        if make is None:
            if not hasattr(kind, verb):
                raise AttributeError(f"{self._name} has no {verb}")
            if (self._name, verb) == ("holds", "hold"):
                # Made of what the service offers.
                return lambda *path, **named: vars(kind)["hold"](self, *path, **named)
            raise AttributeError(f"a service does not offer {self._name}.{verb}; programs with its database do")
        self.__dict__[verb] = method = self._service._method(make, method_of(self._name, verb))
        return method

    def _held(self, sent: Mapping[str, object]) -> Any:
        """The block of a hold, for `with` or `async with`."""
        if isinstance(self._service, AsyncClient):
            return held(self, sent)
        return vars(RESOURCES[self._name])["_held"](self, sent)

    def __dir__(self) -> list[str]:
        return sorted(offered(self._name))


def _signed(call: Callable[..., Any], method: Callable[..., Any]) -> Callable[..., Any]:
    call.__signature__ = bound_signature(method)  # type: ignore[attr-defined]
    return call


class Client(_Service):
    """A served usagebill: `client.events.create(...)` is `billing.events.create(...)` there.

    `url` is the service's address, `key` an API key of it. `id_prefix` is the one that it is served with, if any other
    than its default. Connections are kept and used again, by any number of threads. A request that is not answered
    within `timeout` seconds, or told to come later (429, 503), is sent again (`retries`): a POST has an idempotency
    key, so that it is done once. Raises the errors of the library, and `ServiceUnreachable` if there is no answer.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        id_prefix: str = OWN_PREFIX,
        timeout: float = _TIMEOUT,
        retries: Retries | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        super().__init__(url, key, id_prefix=id_prefix, retries=retries)
        self._http = httpx.Client(timeout=timeout, transport=transport)
        self._sleep = sleep

    def _method(self, make: Callable[..., Call], method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*path: Any, **named: Any) -> Any:
            request = make(*path, **named)
            del path, named
            return self.send(request)

        return _signed(call, method)

    def send(self, call: Call, *, retries: Retries | None = None) -> Any:
        """Send a call, and again as often as it may be; its result."""
        result = self._answered(call, self._sent(call, retries or self._retries))
        if isinstance(result, Pages) and (again := call.again) is not None:
            return replace(result, ask=lambda number: self.send(again(number)))
        return result

    def _sent(self, call: Call, retries: Retries) -> httpx.Response:
        request, tried = self._request(call), 0
        while True:
            tried += 1
            try:
                response = self._http.request(**request)
            except httpx.TransportError as problem:
                pause = self._pause_unanswered(call, tried, problem, retries)
            else:
                later = self._pause(call, tried, response, retries)
                if later is None:
                    return response
                pause = later
            self._sleep(pause)

    def view(self, record: object) -> Any:
        """A result as the HTTP API's JSON (`Billing.view`)."""
        return _view(record)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_Service):
    """`Client` for asynchronous programs: `await client.events.create(...)`. A list goes on in `async for`."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        id_prefix: str = OWN_PREFIX,
        timeout: float = _TIMEOUT,
        retries: Retries | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(url, key, id_prefix=id_prefix, retries=retries)
        self._http = httpx.AsyncClient(timeout=timeout, transport=transport)

    def _method(self, make: Callable[..., Call], method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        async def call(*path: Any, **named: Any) -> Any:
            request = make(*path, **named)
            del path, named
            return await self.send(request)

        return _signed(call, method)

    async def send(self, call: Call) -> Any:
        """Send a call, and again as often as it may be; its result."""
        result = self._answered(call, await self._sent(call))
        if not isinstance(result, Pages) or (again := call.again) is None:
            return result

        async def turn(page: Pages[Any]) -> Pages[Any] | None:
            following: Pages[Any] | None = None if page.is_last else await self.send(again(page.page + 1))
            return following

        return turned(replace(result, ask=_by_async_for), turn)

    async def _sent(self, call: Call) -> httpx.Response:
        request, tried = self._request(call), 0
        while True:
            tried += 1
            try:
                response = await self._http.request(**request)
            except httpx.TransportError as problem:
                pause = self._pause_unanswered(call, tried, problem, self._retries)
            else:
                later = self._pause(call, tried, response, self._retries)
                if later is None:
                    return response
                pause = later
            await asyncio.sleep(pause)

    def view(self, record: object) -> Any:
        """A result as the HTTP API's JSON (`Billing.view`)."""
        return _view(record)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _by_async_for(number: int) -> Pages[Any]:
    raise TypeError(f"page {number} is read by `async for`, or by `page={number}`")


def _view(record: object) -> Any:
    if isinstance(record, Answered):
        return record.json()
    if isinstance(record, Pages):
        return [_view(item) for item in record.items]
    if isinstance(record, (list, tuple)):
        return [_view(item) for item in record]
    return plain(record) if isinstance(record, Mapping) else record
