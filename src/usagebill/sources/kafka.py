"""Kafka, and what speaks its protocol (Redpanda, WarpStream, Event Hubs): a member of a consumer group.

Offsets are committed once the events are durable, never before. Members share the partitions of the topics; when one
dies, another resumes at the last commit, and events read twice are recognized by their transaction ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from usagebill.billing import Billing
from usagebill.process.logs import Log
from usagebill.sources.intake import Intake, Outcome
from usagebill.sources.payloads import arrival_of

try:
    import confluent_kafka
except ModuleNotFoundError:  # the extra `kafka` is not installed
    confluent_kafka = None  # type: ignore[assignment]

_log = Log("usagebill.sources")
# At-least-once delivery depends on these; all other settings are the caller's.
_OURS: Mapping[str, object] = {"enable.auto.commit": False, "enable.auto.offset.store": False}


class KafkaConsumer:
    """A member of the consumer group `settings["group.id"]` on these topics.

    `settings` are those of librdkafka; `bootstrap.servers` and `group.id` are needed. A new group begins at the
    earliest message, unless `auto.offset.reset` says otherwise. Raises `RuntimeError` if the package is missing.
    """

    def __init__(
        self, billing: Billing, topics: Sequence[str], settings: Mapping[str, str], *, batch: int = 1000
    ) -> None:
        if confluent_kafka is None:
            raise RuntimeError("Kafka needs the package confluent-kafka: pip install 'usagebill[kafka]'")
        self._billing = billing
        self._batch = batch
        self._consumer = confluent_kafka.Consumer({"auto.offset.reset": "earliest", **settings, **_OURS})
        self._consumer.subscribe(list(topics))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the group, so that its partitions are reassigned at once."""
        self._consumer.close()

    def poll(self, seconds: float) -> Outcome:
        """Ingest the messages that arrive within this many seconds, at most a batch, and commit their offsets.

        If the events cannot be stored, the partitions are rewound and the problem is raised.
        """
        partitions: dict[tuple[str, int], list[Any]] = {}
        for message in self._consumer.consume(self._batch, seconds):
            error = message.error()
            if error is not None:
                if error.fatal():
                    raise confluent_kafka.KafkaException(error)
                _log.warning("broker_error", code=error.name(), problem=error.str())
                continue
            stood = (str(message.topic()), int(message.partition() or 0))
            partitions.setdefault(stood, []).append(message)
        outcome = Outcome()
        try:
            for (topic, partition), messages in partitions.items():
                outcome.add(self._take(topic, partition, messages))
        except BaseException:
            self._go_back(partitions)
            raise
        if partitions:
            self._commit(partitions)
        return outcome

    def waiting(self) -> int | None:
        """The messages of the assigned partitions that were not read yet, as far as the broker has told; None if it has
        told nothing.
        """
        known: int | None = None
        for partition in self._consumer.position(self._consumer.assignment()):
            _, end = self._consumer.get_watermark_offsets(partition, cached=True)
            if end > 0 and partition.offset >= 0:
                known = (known or 0) + max(0, end - partition.offset)
        return known

    def _take(self, topic: str, partition: int, messages: Sequence[Any]) -> Outcome:
        arrivals = [arrival_of(message.offset(), message.value() or b"", _headers(message)) for message in messages]
        intake = Intake(self._billing, f"kafka:{topic}")
        return intake.take(arrivals, part=str(partition), position=messages[-1].offset() + 1)

    def _go_back(self, partitions: Mapping[tuple[str, int], Sequence[Any]]) -> None:
        for (topic, partition), messages in partitions.items():
            # A partition that was reassigned is read by its new member, from the last commit.
            with suppress(confluent_kafka.KafkaException):
                self._consumer.seek(confluent_kafka.TopicPartition(topic, partition, messages[0].offset()))

    def _commit(self, partitions: Mapping[tuple[str, int], Sequence[Any]]) -> None:
        offsets = [
            confluent_kafka.TopicPartition(topic, partition, messages[-1].offset() + 1)
            for (topic, partition), messages in partitions.items()
        ]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except confluent_kafka.KafkaException as problem:
            # The group is rebalancing, or the broker is away. The next reader recognizes duplicates.
            _log.warning("offsets_not_committed", problem=str(problem))


def _headers(message: Any) -> Mapping[str, str]:
    return {name: (value or b"").decode("utf-8", "replace") for name, value in message.headers() or ()}
