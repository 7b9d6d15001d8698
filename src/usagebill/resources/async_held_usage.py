"""Usage that an asynchronous program holds. Apart from `held_usage`, because most programs have no event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from usagebill.core.errors import NotAllowed
from usagebill.core.holds import Hold
from usagebill.process.logs import Log, plain_traceback

T = TypeVar("T")
_log = Log("usagebill.aio")
# Tasks that nobody awaits any more: the event loop alone would let go of them.
_UNAWAITED: set[asyncio.Future[Any]] = set()


class AsyncHeldUsage:
    """Usage that is held within `async with billing.aio.holds.hold(...)`: `capture` it once it has happened."""

    def __init__(self, holds: Any, hold: Hold) -> None:
        self._holds = holds
        # A capture comes before the release at the end of the block, also if its task is cancelled meanwhile.
        self._turn = asyncio.Lock()
        self.hold = hold
        self.is_captured = False

    async def capture(self, properties: Mapping[str, object] | None = None, **fields: object) -> Hold:
        """Store what was used, with the fields of `holds.capture`, and end the hold. It may be more than was held.

        It is made whole although its task is cancelled, as when the caller of a server disconnects.
        """
        return await _whole(self._captured(fields if properties is None else {**fields, "properties": properties}))

    async def _captured(self, sent: Mapping[str, object]) -> Hold:
        async with self._turn:
            captured: Hold = await self._holds.capture(self.hold.id, **sent)
            self.is_captured = True
            return captured

    async def end(self) -> None:
        """Release it unless it was captured."""
        async with self._turn:
            if not self.is_captured:
                # It may have expired, or been captured by another program.
                with suppress(NotAllowed):
                    await self._holds.release(self.hold.id)


@asynccontextmanager
async def held(holds: Any, sent: Mapping[str, object]) -> AsyncIterator[AsyncHeldUsage]:
    """A hold for the time of an `async with` block, by the coroutines of `holds`. It ends although the block's task is
    cancelled, also while the hold is made.
    """
    making: asyncio.Future[Hold] = asyncio.ensure_future(holds.create(**sent))
    try:
        usage = AsyncHeldUsage(holds, await asyncio.shield(making))
    except asyncio.CancelledError:
        _go_on(asyncio.ensure_future(_ended_once_made(holds, making)))
        raise
    try:
        yield usage
    finally:
        await _whole(usage.end())


async def _ended_once_made(holds: Any, making: asyncio.Future[Hold]) -> None:
    await AsyncHeldUsage(holds, await making).end()


async def _whole(call: Coroutine[Any, Any, T]) -> T:
    """The result of a call that goes on although this task is cancelled; if it fails then, the log says so."""
    task = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        _go_on(task)
        raise


def _go_on(task: asyncio.Future[Any]) -> None:
    _UNAWAITED.add(task)
    task.add_done_callback(_UNAWAITED.discard)
    task.add_done_callback(_tell_of_failure)


def _tell_of_failure(task: asyncio.Future[Any]) -> None:
    problem = None if task.cancelled() else task.exception()
    if problem is not None:
        _log.warning("cancelled_call_failed", reason=str(problem), exception=plain_traceback(problem))
