"""`usagebill events watch`, `consume`, `sources` and `refused`: events from files and brokers."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from usagebill.billing import Billing
from usagebill.cli.options import Seconds, as_json, database, opened, organization_option, print_json, print_table
from usagebill.core.errors import DatabaseFailed
from usagebill.process.logs import Log, configure
from usagebill.sources.intake import Outcome
from usagebill.sources.retries import Retries
from usagebill.sources.watching import WatchedDirectory

if TYPE_CHECKING:
    from usagebill.sources.kafka import KafkaConsumer

_log = Log("usagebill.sources")
_LISTED = 20
_until_idle = click.option("--until-idle", is_flag=True, help="Stop once there is nothing more to read.")


def _until_told() -> threading.Event:
    """Set when this process is asked to stop; the current batch is finished first."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    return stopping


def _say(source: str, outcome: Outcome) -> None:
    _log.info(
        "events_taken",
        source=source,
        ingested=outcome.ingested,
        duplicates=outcome.duplicates,
        refused=len(outcome.refused),
    )


def _keep_taking(
    billing: Billing,
    source: str,
    take: Callable[[], bool],
    stopping: threading.Event,
    *,
    fails: bool,
    every: float = 0.0,
    waiting: Callable[[], int | None] = lambda: None,
) -> None:
    """Call `take` again and again until it says that it is done, or until this process is asked to stop. If the source
    or the database is away, that `fails`, or is tried again.
    """
    retries = Retries(billing, source, lasts=not fails)
    while not stopping.is_set():
        try:
            if take():
                return
        except (DatabaseFailed, OSError) as problem:
            if fails:
                raise
            stopping.wait(max(every, retries.failed(problem)))
            continue
        retries.worked(waiting())
        stopping.wait(every)


def _is_nothing(outcome: Outcome) -> bool:
    return not (outcome.ingested or outcome.duplicates or outcome.refused)


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--every", type=Seconds(), default=5.0, show_default=True, help="Seconds.")
@click.option(
    "--settled-after",
    type=Seconds(may_be_zero=True),
    default=10.0,
    show_default=True,
    help="A file is complete if it was not written to for this many seconds.",
)
@click.option("--once", is_flag=True, help="Ingest the files that are there, and exit.")
@organization_option
@database()
def watch(directory: Path, every: float, settled_after: float, once: bool, organization: str | None, path: str) -> None:
    """Ingest the .csv, .jsonl and .parquet files in DIRECTORY, and those that are put there later.

    Files may keep growing. The position in each is kept in the database, so this can be stopped and started at any
    time. `usagebill events refused` lists lines that are not events.
    """
    configure()
    stopping = _until_told()
    with opened(path, organization) as billing:
        watched = WatchedDirectory(billing, directory, settled_after=settled_after)

        def scan() -> bool:
            for name, outcome in watched.scan().items():
                _say(str(directory / name), outcome)
            return once

        _keep_taking(billing, f"file:{directory}", scan, stopping, fails=once, every=every)


def _settings(pairs: tuple[str, ...], file: Path | None) -> dict[str, str]:
    lines = [] if file is None else file.read_text(encoding="utf-8").splitlines()
    settings: dict[str, str] = {}
    for line in (*lines, *pairs):
        if not line.strip() or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise click.UsageError(f"{line!r} is not NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings


@click.command("consume-kafka")
@click.option("--brokers", required=True, envvar="USAGEBILL_KAFKA_BROKERS", show_envvar=True, help="host:port, ...")
@click.option("--topic", "topics", required=True, multiple=True, help="May be given several times.")
@click.option("--group", default="usagebill", show_default=True, help="The consumer group.")
@click.option("--setting", "pairs", multiple=True, metavar="NAME=VALUE", help="A setting of librdkafka.")
@click.option(
    "--settings-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with settings of librdkafka, such as passwords: one NAME=VALUE per line.",
)
@_until_idle
@organization_option
@database()
def consume_kafka(
    brokers: str,
    topics: tuple[str, ...],
    group: str,
    pairs: tuple[str, ...],
    settings_file: Path | None,
    until_idle: bool,
    organization: str | None,
    path: str,
) -> None:
    """Ingest events from topics of Kafka or Redpanda, as a member of a consumer group.

    Messages are the JSON of `POST /events`, or CloudEvents (structured, or binary with `ce_` headers). Offsets are
    committed once the events are durable. `usagebill events refused` lists messages that are not events.
    """
    # Imported here, like the NATS client below: no other command should wait for it.
    from usagebill.sources.kafka import KafkaConsumer

    configure()
    stopping = _until_told()
    settings = {**_settings(pairs, settings_file), "bootstrap.servers": brokers, "group.id": group}
    with opened(path, organization) as billing, _started(lambda: KafkaConsumer(billing, topics, settings)) as consumer:
        source = f"kafka:{','.join(topics)}"

        def poll() -> bool:
            outcome = consumer.poll(5.0 if until_idle else 1.0)
            if _is_nothing(outcome):
                return until_idle
            _say(source, outcome)
            return False

        _keep_taking(billing, source, poll, stopping, fails=until_idle, waiting=consumer.waiting)


def _started(start: Callable[[], KafkaConsumer]) -> KafkaConsumer:
    try:
        return start()
    except RuntimeError as problem:
        raise click.ClickException(str(problem)) from problem


@click.command("drain-outbox")
@click.option(
    "--from",
    "application",
    required=True,
    envvar="USAGEBILL_OUTBOX",
    show_envvar=True,
    metavar="URL",
    help="The application's database, as SQLAlchemy writes it: sqlite:////srv/app.db, mysql+pymysql://..., ...",
)
@click.option("--table", default="usagebill_outbox", show_default=True)
@click.option("--every", type=Seconds(), default=1.0, show_default=True, help="Seconds.")
@click.option("--once", is_flag=True, help="Take the events that are there, and exit.")
@organization_option
@database()
def drain_outbox(application: str, table: str, every: float, once: bool, organization: str | None, path: str) -> None:
    """Ingest the events that an application notes in its own database, and remove them there.

    `usagebill.outbox` writes them, in the application's transactions. Needs `pip install sqlalchemy`. `usagebill events
    refused` lists what is not an event.
    """
    try:
        import sqlalchemy
    except ImportError as problem:
        raise click.ClickException("an outbox needs SQLAlchemy: pip install sqlalchemy") from problem
    from usagebill.outbox import Outbox
    from usagebill.sources.outboxes import OutboxDrain, OutboxFailed

    configure()
    stopping = _until_told()
    try:
        outbox, engine = Outbox(table), sqlalchemy.create_engine(application)
    except (ValueError, ImportError, sqlalchemy.exc.ArgumentError) as problem:
        raise click.UsageError(str(problem)) from problem
    with opened(path, organization) as billing:
        drain = OutboxDrain(billing, engine.connect, outbox)

        def take() -> bool:
            outcome = drain.drain()
            if not _is_nothing(outcome):
                _say(drain.source, outcome)
            return once

        try:
            _keep_taking(billing, drain.source, take, stopping, fails=once, every=every, waiting=drain.waiting)
        except OutboxFailed as problem:
            raise click.ClickException(str(problem)) from problem
        finally:
            engine.dispose()


@click.command("consume-nats")
@click.option("--server", "servers", required=True, multiple=True, envvar="USAGEBILL_NATS_SERVERS", show_envvar=True)
@click.option("--stream", required=True, help="The stream that holds the events.")
@click.option("--durable", default="usagebill", show_default=True, help="The durable consumer.")
@click.option(
    "--credentials", type=click.Path(exists=True, dir_okay=False), help="A file of credentials (.creds) of NATS."
)
@_until_idle
@organization_option
@database()
def consume_nats(
    servers: tuple[str, ...],
    stream: str,
    durable: str,
    credentials: str | None,
    until_idle: bool,
    organization: str | None,
    path: str,
) -> None:
    """Ingest events from a stream of NATS JetStream, as a member of a durable consumer.

    Messages are as for `consume-kafka`, and acknowledged once the events are durable.
    """
    from usagebill.sources.jetstream import PASSING, JetStreamConsumer

    configure()
    stopping = _until_told()

    async def consume() -> None:
        retries = Retries(billing, f"nats:{stream}", lasts=not until_idle)
        passing: tuple[type[Exception], ...] = (DatabaseFailed, *PASSING)
        consumer: JetStreamConsumer | None = None
        try:
            while not stopping.is_set():
                try:
                    consumer = consumer or await JetStreamConsumer.connect(
                        billing,
                        servers,
                        stream=stream,
                        durable=durable,
                        user_credentials=credentials,
                        # We connect again ourselves, and say so.
                        allow_reconnect=False,
                    )
                    outcome = await consumer.poll(1.0)
                    waiting = await consumer.waiting()
                except passing as problem:
                    if until_idle:
                        raise
                    if consumer is not None:
                        await consumer.close()
                        consumer = None
                    await asyncio.to_thread(stopping.wait, retries.failed(problem))
                    continue
                retries.worked(waiting)
                if not _is_nothing(outcome):
                    _say(f"nats:{stream}", outcome)
                elif until_idle:
                    return
        finally:
            if consumer is not None:
                await consumer.close()

    with opened(path, organization) as billing:
        try:
            asyncio.run(consume())
        except RuntimeError as problem:
            raise click.ClickException(str(problem)) from problem


@click.command("sources")
@database()
@organization_option
@as_json
def list_sources(path: str, organization: str | None, json_output: bool) -> None:
    """List the files and brokers that events came from, with the position and time of the last one."""
    with opened(path, organization) as billing:
        rows = [dict(billing.view(source)) for source in billing.event_sources.list(per_page=1000)]
    if json_output:
        print_json(rows)
        return
    columns = ("source", "part", "position", "events_count", "duplicates_count", "refused_count", "updated_at")
    print_table(columns, rows, "no events were taken from files or brokers")


@click.command("refused")
@click.option("--source", help="Only messages of this source.")
@click.option("--limit", type=click.IntRange(1, 1000), default=_LISTED, show_default=True, help="The most to list.")
@click.option("--retry", metavar="ID", help="Retry this message, or `all`.")
@click.option("--delete", metavar="ID", help="Delete this message from the list.")
@database()
@organization_option
@as_json
def list_refused(
    source: str | None,
    limit: int,
    retry: str | None,
    delete: str | None,
    path: str,
    organization: str | None,
    json_output: bool,
) -> None:
    """List messages and lines that are not events, with the problem of each; retry or delete them."""
    with opened(path, organization) as billing:
        resource = billing.event_sources
        if retry is not None:
            ingested = resource.retry_all() if retry == "all" else resource.retry(retry)
            click.echo(f"{ingested.events_count} ingested, {ingested.duplicates_count} known already")
            return
        if delete is not None:
            resource.delete_refused(delete)
            click.echo("deleted")
            return
        page = resource.refused(source=source, per_page=limit)
        rows = [dict(billing.view(refused)) for refused in page.items]
    if json_output:
        print_json({"total_count": page.total_count, "refused_events": rows})
        return
    print_table(("svc_id", "source", "part", "position", "problem", "payload"), rows, "nothing was refused")
    if page.total_count > len(rows):
        click.echo(f"{len(rows)} of {page.total_count}; --limit shows more")


COMMANDS = (watch, consume_kafka, consume_nats, drain_outbox, list_sources, list_refused)
