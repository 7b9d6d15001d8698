"""NATS JetStream: a durable pull consumer. Messages are acknowledged once their events are durable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Self

from usagebill.billing import Billing
from usagebill.sources.intake import Intake, Outcome
from usagebill.sources.payloads import arrival_of

try:
    import nats
    from nats.errors import Error as _NatsError
    from nats.js.errors import NotFoundError as _NoStream
except ModuleNotFoundError:  # the extra `nats` is not installed
    nats = None  # type: ignore[assignment]
    _NatsError = _NoStream = OSError  # type: ignore[assignment,misc]

# A broker that is away, or a stream that is silent in an unusual way: worth another attempt.
PASSING: tuple[type[Exception], ...] = (_NatsError, OSError)


class JetStreamConsumer:
    """A member of the durable consumer `durable` of a stream; members with its name share the messages."""

    def __init__(self, billing: Billing, connection: Any, subscription: Any, stream: str, batch: int) -> None:
        self._billing = billing
        self._connection = connection
        self._subscription = subscription
        self._intake = Intake(billing, f"nats:{stream}")
        self._batch = batch

    @classmethod
    async def connect(
        cls, billing: Billing, servers: Sequence[str], *, stream: str, durable: str, batch: int = 1000, **options: Any
    ) -> Self:
        """Connect, and create the durable consumer if there is none. `options` are those of `nats.connect`.

        Raises `RuntimeError` if the package or the stream is missing, `PASSING` if the broker cannot be reached.
        """
        if nats is None:
            raise RuntimeError("NATS needs the package nats-py: pip install 'usagebill[nats]'")
        connection = await nats.connect(list(servers), **options)
        try:
            subscription = await connection.jetstream().pull_subscribe("", durable=durable, stream=stream)
        except _NoStream as problem:
            await connection.close()
            raise RuntimeError(f"there is no stream {stream!r} at the broker") from problem
        except BaseException:
            await connection.close()
            raise
        return cls(billing, connection, subscription, stream, batch)

    async def close(self) -> None:
        """Disconnect; messages that were not acknowledged are delivered again, to any member."""
        await self._connection.close()

    async def poll(self, seconds: float) -> Outcome:
        """Ingest the messages that arrive within this many seconds, at most a batch, and acknowledge them.

        If the events cannot be stored, the messages are returned to the broker at once and the problem is raised.
        Raises `PASSING` if the connection is lost.
        """
        messages = await self._fetched(seconds)
        if not messages:
            if not self._connection.is_connected:
                raise ConnectionError("the connection to the broker is lost")
            return Outcome()
        arrivals = [
            arrival_of(message.metadata.sequence.stream, message.data, message.headers or {}) for message in messages
        ]
        position = max(arrival.position for arrival in arrivals) + 1
        try:
            outcome = await asyncio.to_thread(self._intake.take, arrivals, position=position)
        except BaseException:
            for message in messages:
                await message.nak()
            raise
        for message in messages:
            await message.ack()
        await self._connection.flush()
        return outcome

    async def waiting(self) -> int:
        """The messages of the stream that no member has been handed yet. Raises `PASSING`."""
        told = await self._subscription.consumer_info()
        return int(told.num_pending or 0)

    async def _fetched(self, seconds: float) -> Sequence[Any]:
        # Depending on what ends first, the client says of a silent stream that it timed out, or hands out nothing.
        try:
            messages: Sequence[Any] = await self._subscription.fetch(self._batch, timeout=seconds)
        except TimeoutError:
            return ()
        return messages
