"""Usage noted where it happens: functions, and the requests that a web framework answers.

metering = Metering(spool.add)  # or billing.events.create, client.events.create, or their awaitable ones

@metering.metered(code="tokens", units=lambda answer: answer.tokens)
def complete(prompt): ...
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from decimal import Decimal
from functools import wraps
from typing import Any, Final, TypeAlias, TypeVar, cast
from uuid import uuid4

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from usagebill.process.logs import Log

F = TypeVar("F", bound=Callable[..., Any])
# What was used: a number, or the properties of the event; None for nothing to bill.
Used: TypeAlias = int | Decimal | float | Mapping[str, object] | None
_SUBSCRIPTION: Final[ContextVar[str | None]] = ContextVar("usagebill_metered_subscription", default=None)
_log = Log("usagebill.metering")


class Metering:
    """Notes usage with `add`, which takes the fields of an event: `spool.add`, `billing.events.create` or
    `client.events.create`, or a coroutine function like them. A number of units is the property `field` of the event,
    which is the `field_name` of its metric.

    What cannot be noted is logged with all its fields (`usage_not_noted`) and given to `on_failure`; the function or
    the request that used it goes on.
    """

    def __init__(
        self,
        add: Callable[..., object],
        *,
        field: str = "units",
        on_failure: Callable[[Mapping[str, object], Exception], None] | None = None,
    ) -> None:
        self._add = add
        self._is_awaited = inspect.iscoroutinefunction(add)
        self._field = field
        self._on_failure = on_failure

    @contextmanager
    def subscription(self, external_id: str | None) -> Iterator[None]:
        """Usage noted inside, in this task or thread, is this subscription's."""
        before = _SUBSCRIPTION.set(external_id)
        try:
            yield
        finally:
            _SUBSCRIPTION.reset(before)

    def note(self, code: str, used: Used = 1, *, subscription: str | None = None) -> None:
        """Note usage: a number of units, or the properties of the event."""
        if self._is_awaited:
            raise TypeError("events are added by a coroutine function: await metering.note_async(...)")
        event = self._event(code, used, subscription)
        if event is not None:
            try:
                self._add(**self._checked(event))
            except Exception as problem:
                self._failed(event, problem)

    async def note_async(self, code: str, used: Used = 1, *, subscription: str | None = None) -> None:
        """`note` for asynchronous code: in a thread, unless the events are added by a coroutine function."""
        if not self._is_awaited:
            await asyncio.to_thread(self.note, code, used, subscription=subscription)
            return
        event = self._event(code, used, subscription)
        if event is not None:
            try:
                await cast(Awaitable[object], self._add(**self._checked(event)))
            except Exception as problem:
                self._failed(event, problem)

    def _event(self, code: str, used: Used, subscription: str | None) -> dict[str, Any] | None:
        if used is None:
            return None
        return {
            "transaction_id": uuid4().hex,
            "code": code,
            "external_subscription_id": subscription or _SUBSCRIPTION.get(),
            "timestamp": datetime.now(UTC),
            "properties": dict(used) if isinstance(used, Mapping) else {self._field: used},
        }

    def _checked(self, event: dict[str, Any]) -> dict[str, Any]:
        if event["external_subscription_id"] is None:
            raise LookupError("whose usage this is was not said: `with metering.subscription(...)`, or `subscription=`")
        return event

    def _failed(self, event: Mapping[str, Any], problem: Exception) -> None:
        _log.error("usage_not_noted", **{**event, "timestamp": event["timestamp"].isoformat()}, reason=str(problem))
        if self._on_failure is not None:
            self._on_failure(event, problem)

    def metered(
        self,
        *,
        code: str,
        units: Callable[[Any], Used] | None = None,
        subscription: Callable[..., str | None] | None = None,
    ) -> Callable[[F], F]:
        """Decorate a function, or a coroutine function: each call that returns is usage. `units` says from its result
        how much (by default 1), `subscription` from its arguments whose.
        """

        def decorated(function: F) -> F:
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise TypeError("a generator has no result: call metering.note(...) when it is through")

            def used(result: Any) -> Used:
                return 1 if units is None else units(result)

            def owner(path: Any, named: Any) -> str | None:
                return None if subscription is None else subscription(*path, **named)

            @wraps(function)
            async def awaited(*path: Any, **named: Any) -> Any:
                result = await function(*path, **named)
                await self.note_async(code, used(result), subscription=owner(path, named))
                return result

            @wraps(function)
            def called(*path: Any, **named: Any) -> Any:
                result = function(*path, **named)
                self.note(code, used(result), subscription=owner(path, named))
                return result

            return cast(F, awaited if inspect.iscoroutinefunction(function) else called)

        return decorated

    def of_request(
        self, subscription: Callable[[Request], str | None]
    ) -> Callable[[Request], AsyncIterator[RequestUsage]]:
        """A dependency of FastAPI, `usage: Annotated[RequestUsage, Depends(metering.of_request(...))]`: what the
        handler adds to it is noted if it does not raise.
        """

        async def dependency(request: Request) -> AsyncIterator[RequestUsage]:
            usage = RequestUsage()
            external_id = subscription(request)
            yield usage
            for code, used in usage.added:
                await self.note_async(code, used, subscription=external_id)

        return dependency


class RequestUsage:
    """What a request has used so far."""

    def __init__(self) -> None:
        self.added: list[tuple[str, Used]] = []

    def add(self, code: str, used: Used = 1) -> None:
        """Add usage: a number of units, or the properties of the event."""
        self.added.append((code, used))


def is_success(status: int) -> bool:
    """Whether an answer is one that customers pay for, unless something else is said."""
    return status < 400


class MeteringMiddleware:
    """ASGI middleware, of Starlette, FastAPI and others: each request that is answered well is usage of `code`.

    `app.add_middleware(MeteringMiddleware, metering=metering, code="requests", subscription=lambda request: ...)`.
    `subscription` says whose a request is; what its handler notes is theirs too. None: it is not metered.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        metering: Metering,
        code: str,
        subscription: Callable[[Request], str | None],
        counts: Callable[[int], bool] = is_success,
    ) -> None:
        self._app = app
        self._metering = metering
        self._code = code
        self._subscription = subscription
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        request = Request(scope)
        with self._metering.subscription(self._subscription(request)):
            await self._app(scope, receive, noting)
        # Asked again: the application may have found out meanwhile who asks.
        owner = self._subscription(request)
        if owner is not None and self._counts(status):
            await self._metering.note_async(self._code, subscription=owner)


def django_middleware(
    metering: Metering,
    *,
    code: str,
    subscription: Callable[[Any], str | None],
    counts: Callable[[int], bool] = is_success,
) -> Callable[[Any], Any]:
    """Middleware of Django, for synchronous and asynchronous views: name what this gives in `MIDDLEWARE`. The arguments
    are those of `MeteringMiddleware`, with Django's request.
    """

    def middleware(get_response: Any) -> Any:
        if inspect.iscoroutinefunction(get_response):

            async def answered_async(request: Any) -> Any:
                with metering.subscription(subscription(request)):
                    response = await get_response(request)
                owner = subscription(request)
                if owner is not None and counts(response.status_code):
                    await metering.note_async(code, subscription=owner)
                return response

            return answered_async

        def answered(request: Any) -> Any:
            with metering.subscription(subscription(request)):
                response = get_response(request)
            owner = subscription(request)
            if owner is not None and counts(response.status_code):
                metering.note(code, subscription=owner)
            return response

        return answered

    middleware.sync_capable = middleware.async_capable = True  # type: ignore[attr-defined]
    return middleware


class FlaskMetering:
    """An extension of Flask: `FlaskMetering(app, metering=metering, code="requests", subscription=account_of)`.

    The arguments are those of `MeteringMiddleware`, with Flask's request. Without `app`, call `init_app`.
    """

    def __init__(
        self,
        app: Any = None,
        *,
        metering: Metering,
        code: str,
        subscription: Callable[[Any], str | None],
        counts: Callable[[int], bool] = is_success,
    ) -> None:
        self._metering = metering
        self._code = code
        self._subscription = subscription
        self._counts = counts
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Any) -> None:
        """Meter the requests of an application."""
        from flask import g, request

        def begin() -> None:
            g.usagebill_metering = self._metering.subscription(self._subscription(request))
            g.usagebill_metering.__enter__()

        def end(_: BaseException | None) -> None:
            entered = g.pop("usagebill_metering", None)
            if entered is not None:
                entered.__exit__(None, None, None)

        def note(response: Any) -> Any:
            owner = self._subscription(request)
            if owner is not None and self._counts(response.status_code):
                self._metering.note(self._code, subscription=owner)
            return response

        app.before_request(begin)
        app.after_request(note)
        app.teardown_request(end)
        app.extensions["usagebill"] = self
