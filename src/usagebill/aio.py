"""The library for asynchronous programs: every operation of `Billing`, awaitable (`billing.aio`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import signature
from typing import Any, Final, Generic, Protocol, TypeVar

from usagebill.process.logs import Log, plain_traceback
from usagebill.records import Pages
from usagebill.resources import RESOURCES
from usagebill.resources.async_held_usage import AsyncHeldUsage, held

T = TypeVar("T")
R = TypeVar("R")
THREADS: Final = 8
# Methods of `Billing` itself that take long.
OWN: Final = ("audit", "receive_notice", "run_due", "view")
_log = Log("usagebill.aio")


class Host(Protocol):
    """The billing system: `Billing`."""

    def close(self) -> None: ...


class Aio:
    """Every operation of a billing system as a coroutine, under its name in the library: `await
    billing.aio.events.create(...)`. `audit`, `receive_notice`, `run_due`, `view` and `close` are there too.

    Operations run in threads, `threads` of them at once; others wait for their turn. One that is cancelled while it
    waits is never made. One that has begun is made whole, or refused whole, although nobody hears of it; if it fails
    then, the log `usagebill.aio` says so.
    """

    def __init__(self, billing: Host, *, threads: int = THREADS) -> None:
        self._billing = billing
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="usagebill-aio")
        for name in RESOURCES:
            setattr(self, name, AsyncResource(self, getattr(billing, name)))
        for name in OWN:
            setattr(self, name, awaitable(self, getattr(billing, name)))

    async def run(self, function: Callable[..., T], /, *path: Any, **named: Any) -> T:
        """Call any function in one of the threads: `await billing.aio.run(lambda: invoice.fees)`."""
        future = self._submitted(function, path, named)
        # They may contain keys, which no traceback may show.
        del path, named
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if not future.cancel():
                future.add_done_callback(_tell_of_failure)
            raise

    def _submitted(self, function: Callable[..., T], path: Sequence[Any], named: Mapping[str, Any]) -> Future[T]:
        return self._pool.submit(copy_context().run, function, *path, **named)

    async def close(self) -> None:
        """Close the billing system, once the operations that have begun are through (`Billing.close`)."""
        await asyncio.to_thread(self._billing.close)

    def stop(self) -> None:
        """Wait for the operations that have begun; those that wait for their turn are cancelled."""
        self._pool.shutdown(cancel_futures=True)


def _tell_of_failure(future: Future[Any]) -> None:
    problem = None if future.cancelled() else future.exception()
    if problem is not None:
        _log.warning("cancelled_call_failed", reason=str(problem), exception=plain_traceback(problem))


class AsyncResource:
    """A resource whose methods are coroutines."""

    def __init__(self, aio: Aio, resource: object) -> None:
        self._aio = aio
        self._resource = resource
        self.__doc__ = type(resource).__doc__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self._resource, name)
        if not callable(method):
            return method
        is_entered = str(signature(method).return_annotation).startswith("AbstractContextManager")
        made = self._entered(name, method) if is_entered else awaitable(self._aio, method)
        self.__dict__[name] = made
        return made

    def _entered(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """A method for `with` as one for `async with`, made of the resource's coroutines."""

        @wraps(method)
        def call(*path: Any, **named: Any) -> AbstractAsyncContextManager[Any]:
            entered: AbstractAsyncContextManager[Any] = vars(type(self._resource))[name](self, *path, **named)
            return entered

        return _signed(call, method)

    def _held(self, sent: Mapping[str, object]) -> AbstractAsyncContextManager[AsyncHeldUsage]:
        return held(self, sent)

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._resource) if not name.startswith("_")]


def awaitable(aio: Aio, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method as a coroutine function."""

    @wraps(method)
    async def call(*path: Any, **named: Any) -> Any:
        running = aio.run(method, *path, **named)
        del path, named
        result = await running
        return turned(result, lambda page: aio.run(page.next_page)) if isinstance(result, Pages) else result

    return _signed(call, method)


def _signed(call: Callable[..., Any], method: Callable[..., Any]) -> Callable[..., Any]:
    """`call` with the arguments of `method`, which is bound."""
    call.__signature__ = signature(method)  # type: ignore[attr-defined]
    return call


def turned(page: Pages[R], turn: Callable[[Pages[R]], Awaitable[Pages[R] | None]]) -> AsyncPages[R]:
    """A page whose next one is what `turn` gives."""
    return AsyncPages(**{item.name: getattr(page, item.name) for item in fields(page)}, turn=turn)


@dataclass(frozen=True, kw_only=True)
class AsyncPages(Pages[R], Generic[R]):
    """One page of a list, which continues by itself: `async for invoice in await billing.aio.invoices.list()`.

    `items` are those of this page. A plain `for` reads further pages in the thread of the event loop.
    """

    turn: Callable[[Pages[R]], Awaitable[Pages[R] | None]] = field(repr=False, compare=False)

    async def __aiter__(self) -> AsyncIterator[R]:
        met: set[object] = set()
        page: Pages[R] | None = self
        while page is not None:
            for item in page.unmet(met):
                yield item
            page = await self.turn(page)
