"""Brokers deliver events at least once, and they are stored exactly once; acknowledgements follow durability.

Kafka's protocol is spoken by the broker that librdkafka brings for tests, NATS by its own server.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from usagebill import Billing
from usagebill.sources.intake import Intake, Outcome
from usagebill.sources.jetstream import JetStreamConsumer
from usagebill.sources.kafka import KafkaConsumer

# Each of them starts a broker, or waits for what librdkafka fetches in the background.
pytestmark = pytest.mark.slow


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "billing.db"
    Billing(path).close()
    return path


@pytest.fixture
def billing(db: Path) -> Iterator[Billing]:
    with Billing(db) as billing:
        yield billing


def message(number: int) -> bytes:
    event = {"transaction_id": str(number), "code": "gb", "external_subscription_id": "sub", "timestamp": 1709632800}
    return json.dumps(event).encode()


def ids(billing: Billing) -> list[int]:
    return sorted(int(event.transaction_id) for event in billing.events.list(per_page=1000))


def refuse_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next batch cannot be stored, as when the disk is full."""
    take = Intake.take

    def fail(self: Intake, *arguments: Any, **named: Any) -> Outcome:
        monkeypatch.setattr(Intake, "take", take)
        raise OSError("no space left on device")

    monkeypatch.setattr(Intake, "take", fail)


# Kafka


@pytest.fixture
def brokers() -> Iterator[str]:
    keeper = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    known = keeper.list_topics(timeout=30).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in known)
    del keeper


def produce(brokers: str, *payloads: bytes, **headers: str) -> None:
    producer = Producer({"bootstrap.servers": brokers, "log_level": 0})
    for number, payload in enumerate(payloads):
        producer.produce("usage", payload, partition=number % 2, headers=list(headers.items()))
    assert producer.flush(30) == 0


def consumer(billing: Billing, brokers: str) -> KafkaConsumer:
    settings = {"bootstrap.servers": brokers, "group.id": "billing", "log_level": "0"}
    return KafkaConsumer(billing, ["usage"], settings, batch=7)


def drain(member: KafkaConsumer, until: int) -> Outcome:
    outcome = Outcome()
    while outcome.ingested + outcome.duplicates + len(outcome.refused) < until:
        outcome.add(member.poll(1.0))
    return outcome


def committed(brokers: str) -> int:
    asking = Consumer({"bootstrap.servers": brokers, "group.id": "billing", "log_level": 0})
    places = asking.committed([TopicPartition("usage", number) for number in range(2)], timeout=30)
    asking.close()
    return sum(max(place.offset, 0) for place in places)


def test_a_topic_is_taken_and_committed(billing: Billing, brokers: str) -> None:
    produce(brokers, *(message(number) for number in range(20)))
    with consumer(billing, brokers) as member:
        assert drain(member, 20).ingested == 20
    assert (ids(billing), committed(brokers)) == (list(range(20)), 20)
    assert {source.part: source.position for source in billing.event_sources.list()} == {"0": 10, "1": 10}


def test_what_waits_in_a_topic_is_told(billing: Billing, brokers: str) -> None:
    produce(brokers, *(message(number) for number in range(20)))
    with consumer(billing, brokers) as member:
        assert member.waiting() is None
        drain(member, 7)
        # Of a partition that was not read from yet, the broker has told nothing.
        assert 0 < (member.waiting() or 0) <= 20 - len(ids(billing))
        drain(member, 20 - len(ids(billing)))
        assert member.waiting() == 0


def test_what_could_not_be_stored_comes_again(billing: Billing, brokers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    produce(brokers, *(message(number) for number in range(20)))
    with consumer(billing, brokers) as member:
        refuse_once(monkeypatch)
        with pytest.raises(OSError, match="no space"):
            drain(member, 1)
        assert committed(brokers) == 0
        drain(member, 20)
    assert (ids(billing), committed(brokers)) == (list(range(20)), 20)


@pytest.mark.slow  # the group waits until its member is given up
def test_a_member_that_dies_before_its_commit_loses_and_doubles_nothing(
    billing: Billing, brokers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(brokers, *(message(number) for number in range(10)))
    monkeypatch.setattr(KafkaConsumer, "_commit", lambda *_: None)
    with consumer(billing, brokers) as member:
        drain(member, 10)
    monkeypatch.undo()
    produce(brokers, *(message(number) for number in range(10, 16)))
    with consumer(billing, brokers) as member:
        outcome = drain(member, 16)
    assert (outcome.ingested, outcome.duplicates) == (6, 10)
    assert (ids(billing), committed(brokers)) == (list(range(16)), 16)


def test_a_message_that_is_no_event_is_listed_and_holds_nothing_up(billing: Billing, brokers: str) -> None:
    produce(brokers, message(0), b"\x00\x01", message(2), b"")
    with consumer(billing, brokers) as member:
        outcome = drain(member, 4)
    assert (outcome.ingested, committed(brokers)) == (2, 4)
    listed = {(refused.source, refused.part, refused.position) for refused in billing.event_sources.refused()}
    assert listed == {("kafka:usage", "1", 0), ("kafka:usage", "1", 1)}


def test_cloud_events_come_in_headers_too(billing: Billing, brokers: str) -> None:
    headers = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "m", "ce_type": "gb", "ce_subject": "sub"} | {
        "ce_time": "2024-03-05T10:00:00Z"
    }
    produce(brokers, b'{"gb": 3}', **headers)
    with consumer(billing, brokers) as member:
        drain(member, 1)
    assert billing.events.get("m#1").properties == {"gb": 3}


@pytest.mark.slow
def test_the_command_takes_what_is_there(db: Path, brokers: str) -> None:
    produce(brokers, *(message(number) for number in range(5)))
    command = [sys.executable, "-m", "usagebill", "events", "consume-kafka", "--brokers", brokers, "--topic", "usage"]
    done = subprocess.run([*command, "--until-idle", "--db", str(db)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, "ingested=5" in done.stderr or '"ingested": 5' in done.stderr) == (0, True), done.stderr
    with Billing(db) as billing:
        assert ids(billing) == list(range(5))


# NATS


class Broker:
    """A server of NATS, which can be stopped and started at its address."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"nats://127.0.0.1:{port}"
        program = Path(sys.executable).with_name("nats-server")
        self._command = [str(program), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)]

    def start(self) -> None:
        self._running = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert self._running.stderr is not None
        next(line for line in self._running.stderr if "Server is ready" in line)

    def stop(self) -> None:
        if self._running.poll() is None:
            self._running.terminate()
            self._running.communicate()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path / "jetstream")
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def server(broker: Broker) -> str:
    return broker.url


async def published(server: str, *payloads: bytes) -> None:
    connection = await nats.connect(server)
    stream = connection.jetstream()
    await stream.add_stream(name="USAGE", subjects=["usage.>"])
    for payload in payloads:
        await stream.publish("usage.gb", payload)
    await connection.close()


async def pending(server: str) -> tuple[int, int]:
    """How many messages were not delivered, and how many not acknowledged."""
    connection = await nats.connect(server)
    known = await connection.jetstream().consumer_info("USAGE", "usagebill")
    await connection.close()
    return known.num_pending, known.num_ack_pending


def test_a_stream_is_taken_and_acknowledged(billing: Billing, server: str) -> None:
    async def run() -> tuple[Outcome, tuple[int, int]]:
        await published(server, *(message(number) for number in range(20)), b"nonsense")
        member = await JetStreamConsumer.connect(billing, [server], stream="USAGE", durable="usagebill", batch=8)
        outcome = Outcome()
        while outcome.ingested + len(outcome.refused) < 21:
            outcome.add(await member.poll(5))
        await member.close()
        return outcome, await pending(server)

    outcome, waiting = asyncio.run(run())
    assert (outcome.ingested, outcome.refused, waiting) == (20, {21: {"payload": ["invalid_json"]}}, (0, 0))
    assert ids(billing) == list(range(20))
    (source,) = billing.event_sources.list()
    assert (source.source, source.position, source.refused_count) == ("nats:USAGE", 22, 1)


def test_messages_that_could_not_be_stored_come_again(
    billing: Billing, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> Outcome:
        await published(server, *(message(number) for number in range(5)))
        member = await JetStreamConsumer.connect(billing, [server], stream="USAGE", durable="usagebill")
        refuse_once(monkeypatch)
        with pytest.raises(OSError, match="no space"):
            await member.poll(5)
        outcome = Outcome()
        while outcome.ingested < 5:
            outcome.add(await member.poll(5))
        await member.close()
        return outcome

    outcome = asyncio.run(run())
    assert (outcome.ingested, outcome.duplicates, ids(billing)) == (5, 0, list(range(5)))


def test_a_silent_stream_is_nothing_out_of_the_ordinary(billing: Billing, server: str) -> None:
    async def run() -> list[Outcome]:
        await published(server)
        member = await JetStreamConsumer.connect(billing, [server], stream="USAGE", durable="usagebill")
        # So short that the client's time-out and the broker's answer come first in turn.
        polls = [await member.poll(seconds) for seconds in (0.001, 0.01, 0.05, 0.2, 0.5) for _ in range(3)]
        await published(server, message(1))
        while not polls[-1].ingested:
            polls.append(await member.poll(0.5))
        await member.close()
        return polls

    polls = asyncio.run(run())
    assert [poll.ingested for poll in polls][-1] == 1
    assert ids(billing) == [1]


def test_a_consumer_outlives_its_broker(db: Path, broker: Broker) -> None:
    asyncio.run(published(broker.url, message(1)))
    command = [sys.executable, "-m", "usagebill", "events", "consume-nats", "--server", broker.url, "--stream", "USAGE"]
    consumer = subprocess.Popen([*command, "--db", str(db)], stderr=subprocess.PIPE, text=True)
    assert consumer.stderr is not None

    def said(event: str) -> str:
        assert consumer.stderr is not None
        return next(line for line in consumer.stderr if event in line)

    try:
        said("events_taken")
        broker.stop()
        said("source_failing")
        broker.start()
        asyncio.run(published(broker.url, message(2)))
        said("source_works_again")
        said("events_taken")
    finally:
        consumer.terminate()
        consumer.communicate()
    assert consumer.returncode == 0
    with Billing(db) as billing:
        assert ids(billing) == [1, 2]
        (process,) = billing.store.read(None, lambda tx: tx.processes())
    # It stopped, had read everything, and worked again.
    assert (process.kind, process.consumes, process.waiting, process.failing) == ("consumer", "nats:USAGE", 0, None)
    assert process.stopped_at is not None


def test_a_stream_that_is_not_there_is_named(db: Path, server: str) -> None:
    command = [sys.executable, "-m", "usagebill", "events", "consume-nats", "--server", server, "--stream", "NONE"]
    done = subprocess.run([*command, "--db", str(db)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "Error: there is no stream 'NONE' at the broker\n")
