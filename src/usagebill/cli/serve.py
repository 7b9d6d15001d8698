"""`usagebill serve` and `usagebill work`: the long-running processes."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource

from usagebill.billing import Billing
from usagebill.cli.options import (
    Seconds,
    as_json,
    database,
    events_option,
    no_upgrade_option,
    opened,
    print_json,
    refusals,
    settings_options,
)
from usagebill.cli.sections import BriefCommand
from usagebill.core.api_keys import ApiKey
from usagebill.core.processes import ProcessKind
from usagebill.http.app import FIRST_SEGMENTS
from usagebill.http.proxies import LOOPBACK, checked_networks, checked_root
from usagebill.operations import api_keys, users
from usagebill.outside.openid import check_installed
from usagebill.process.logs import Log, LogFormat, configure
from usagebill.process.settings import Settings
from usagebill.runtime.clock import SystemClock
from usagebill.runtime.work import Work
from usagebill.server import about, address_of, bind, bind_unix, serve as run_server
from usagebill.storage.addresses import shown
from usagebill.storage.ports import Opening
from usagebill.testing import Sandbox
from usagebill.worker import Worker

# Hosts that are reached from this machine as `localhost`.
_ALL_HOSTS = frozenset({"0.0.0.0", "::", "", "127.0.0.1"})

_log = Log("usagebill.worker")

_log_format = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    envvar="USAGEBILL_LOG_FORMAT",
    show_envvar=True,
    help="How log lines are written to standard error (default: text on a terminal, JSON elsewhere).",
)
_log_level = click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    envvar="USAGEBILL_LOG_LEVEL",
    show_envvar=True,
    help="The lowest level of log lines to write.",
)


def _first_key(work: Work) -> str | None:
    """The value of a new key if the organization never had one."""
    return None if work.tx.count(ApiKey) else api_keys.create(work, "First key")[1]


@click.command(
    cls=BriefCommand,
    essential=("path", "sandbox", "must_exist", "host", "port", "public_url", "smtp_url", "workers_in_process"),
)
@database(must_exist=False)
@click.option(
    "--sandbox",
    is_flag=True,
    help="Serve a system in memory, or a copy of --db, whose time stands still until it is moved.",
)
@events_option()
@no_upgrade_option
@click.option(
    "--must-exist",
    is_flag=True,
    envvar="USAGEBILL_MUST_EXIST",
    show_envvar=True,
    help="Refuse to start on a file that does not exist or a database that is empty: `usagebill init` makes a system.",
)
@click.option("--host", default="127.0.0.1", show_default=True, envvar="USAGEBILL_HOST", show_envvar=True)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    envvar="USAGEBILL_PORT",
    show_envvar=True,
    help="0 picks a free port.",
)
@click.option(
    "--unix-socket",
    type=click.Path(path_type=Path),
    envvar="USAGEBILL_UNIX_SOCKET",
    show_envvar=True,
    help="Listen at the socket with this path, instead of a port.",
)
@click.option(
    "--root-path",
    default="",
    metavar="/PREFIX",
    envvar="USAGEBILL_ROOT_PATH",
    show_envvar=True,
    help="What a proxy in front has before every path, such as /billing.",
)
@click.option(
    "--trusted-proxies",
    default=",".join(LOOPBACK),
    show_default=True,
    metavar="ADDRESS[,...]",
    envvar="USAGEBILL_TRUSTED_PROXIES",
    show_envvar=True,
    help="Addresses and networks whose X-Forwarded-For and X-Forwarded-Proto are believed.",
)
@click.option(
    "--workers-in-process",
    type=click.IntRange(0, 16),
    is_flag=False,
    flag_value=1,
    default=1,
    show_default=True,
    envvar="USAGEBILL_WORKERS_IN_PROCESS",
    show_envvar=True,
    help="Workers that run due jobs in this process; 0 leaves them to `usagebill work`.",
)
@click.option(
    "--connections",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    envvar="USAGEBILL_CONNECTIONS",
    show_envvar=True,
    help="The most open connections; beyond that, the one idle for longest is closed.",
)
@click.option(
    "--head-seconds",
    type=Seconds(),
    default=15.0,
    show_default=True,
    envvar="USAGEBILL_HEAD_SECONDS",
    show_envvar=True,
    help="Time limit for receiving the head of a request, in seconds.",
)
@click.option(
    "--body-seconds",
    type=Seconds(),
    default=20.0,
    show_default=True,
    envvar="USAGEBILL_BODY_SECONDS",
    show_envvar=True,
    help="Time limit for receiving a body, in seconds, plus one second per 16 KiB.",
)
@click.option(
    "--answer-seconds",
    type=Seconds(),
    default=60.0,
    show_default=True,
    envvar="USAGEBILL_ANSWER_SECONDS",
    show_envvar=True,
    help="Close the connection if a client reads nothing of its response for this many seconds.",
)
@click.option(
    "--keep-alive-seconds",
    type=click.IntRange(1),
    default=75,
    show_default=True,
    envvar="USAGEBILL_KEEP_ALIVE_SECONDS",
    show_envvar=True,
    help="Close a connection that asks nothing more for this many seconds; longer than the proxy in front does.",
)
@click.option(
    "--drain-seconds",
    type=Seconds(may_be_zero=True),
    default=10.0,
    show_default=True,
    envvar="USAGEBILL_DRAIN_SECONDS",
    show_envvar=True,
    help="How many seconds requests are still accepted after SIGTERM, while /ready is 503.",
)
@settings_options
@_log_format
@_log_level
@as_json
def serve(
    path: str | None,
    sandbox: bool,
    events: str | None,
    no_upgrade: bool,
    must_exist: bool,
    host: str,
    port: int,
    unix_socket: Path | None,
    root_path: str,
    trusted_proxies: str,
    workers_in_process: int,
    connections: int,
    head_seconds: float,
    body_seconds: float,
    answer_seconds: float,
    keep_alive_seconds: int,
    drain_seconds: float,
    log_format: LogFormat | None,
    log_level: str,
    json_output: bool,
    settings: Settings,
) -> None:
    """Serve the API and bill in the background.

    A file that does not exist yet is created, with an organization and its first API key, which is shown only once, and
    only on a terminal or with --json: elsewhere `usagebill keys create` makes one. `usagebill init` does this
    beforehand.
    With --sandbox nothing is kept, and nothing is sent, charged or read from elsewhere; `POST /clock` and the console
    move its time.
    """
    context = click.get_current_context()
    if sandbox and context.get_parameter_source("path") is ParameterSource.DEFAULT:
        path = None
    if sandbox and (events is not None or (path is not None and not Path(path).is_file())):
        raise click.UsageError("--sandbox takes the path of a SQLite file that exists, or no --db, and no --events.")
    try:
        root = checked_root(root_path, FIRST_SEGMENTS)
        proxies = checked_networks([text.strip() for text in trusted_proxies.split(",") if text.strip()])
    except ValueError as problem:
        raise click.UsageError(str(problem)) from problem
    if settings.oidc_issuer is not None:
        try:
            check_installed()
        except ModuleNotFoundError as problem:
            raise click.ClickException(str(problem)) from problem
    configure(log_format, log_level)
    # The port first: a key that is created but never shown would be lost.
    with ExitStack() as stack:
        listener = stack.enter_context(_listening(host, port, unix_socket))
        url = address_of(listener) + root
        if unix_socket is None and context.get_parameter_source("public_url") is ParameterSource.DEFAULT:
            settings = replace(settings, public_url=_reached_at(host, listener.getsockname()[1]) + root)
        box: Sandbox | None = None
        key: str | None
        if sandbox:
            stack.enter_context(refusals(path or ":memory:"))
            now = SystemClock().now().replace(microsecond=0)
            box = stack.enter_context(Sandbox(now, settings, copy_of=path, strict=False))
            billing, key = box.billing, box.api_key
        else:
            assert path is not None
            opening = Opening(creates=not must_exist, upgrades=not no_upgrade)
            billing = stack.enter_context(opened(path, settings=settings, events=events, opening=opening))
            # Whatever else prints may end in a log. A program that wants JSON takes the key from it.
            key = billing.writing(_first_key) if json_output or sys.stdout.isatty() else None

        def announce() -> None:
            _announce(billing, url, key, json_output)
            if not json_output and sys.stdout.isatty():
                _offer_console(billing)

        run_server(
            billing,
            listener,
            # A sandbox does what is due when its time is moved.
            workers=0 if box else workers_in_process,
            sandbox=box,
            connections=connections,
            head_seconds=head_seconds,
            body_seconds=body_seconds,
            answer_seconds=answer_seconds,
            drain_seconds=drain_seconds,
            keep_alive_seconds=keep_alive_seconds,
            trusted_proxies=proxies,
            root_path=root,
            on_start=announce,
        )


@contextmanager
def _listening(host: str, port: int, unix_socket: Path | None) -> Iterator[socket.socket]:
    """A socket that listens at the path, if there is one, or at the port; the path is gone afterwards."""
    where = f"{host}, port {port}" if unix_socket is None else str(unix_socket)
    try:
        listener = bind(host, port) if unix_socket is None else bind_unix(unix_socket)
    except OSError as problem:
        raise click.ClickException(f"cannot listen on {where}: {problem.strerror or problem}") from problem
    try:
        with listener:
            yield listener
    finally:
        if unix_socket is not None:
            unix_socket.unlink(missing_ok=True)


def _reached_at(host: str, port: int) -> str:
    """The default public URL: the host and port that the service listens on, or this machine if it listens on all
    hosts.
    """
    name = "localhost" if host in _ALL_HOSTS else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"


def _announce(billing: Billing, url: str, key: str | None, json_output: bool) -> None:
    organization = billing.organization
    if json_output:
        print_json({"url": url, "organization": {"id": organization.id, "name": organization.name}, "api_key": key})
        return
    click.echo(f"organization  {organization.id}  {organization.name}")
    if key is not None:
        click.echo(f"API key       {key}  (shown this once; `usagebill keys create` makes more)")
    elif not billing.reading(lambda reader: reader.tx.count(ApiKey)):
        click.echo("API key       none yet: `usagebill keys create` makes one")
    click.echo(f"serving       {url}/api/v1  (described at {url}/docs)")


def _offer_console(billing: Billing) -> None:
    """Print a link for the first user of the console, until somebody has signed in."""
    link = billing.writing(users.link_of_first)
    if link is not None:
        click.echo(f"console       {link.url}  (signs in the first administrator, once)")
    else:
        click.echo(f"console       {billing.settings.public_url.rstrip('/')}/console")


@click.command(cls=BriefCommand, essential=("path", "public_url", "smtp_url", "private_networks", "log_format"))
@database()
@events_option()
@no_upgrade_option
@settings_options
@_log_format
@_log_level
def work(
    path: str,
    events: str | None,
    no_upgrade: bool,
    log_format: LogFormat | None,
    log_level: str,
    settings: Settings,
) -> None:
    """Run due jobs in a process of its own.

    It ends with SIGTERM or Ctrl-C. Several may share a database."""
    configure(log_format, log_level)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    opening = Opening(creates=False, upgrades=not no_upgrade)
    with opened(path, settings=settings, events=events, opening=opening) as billing:
        billing._system.presence.say(kind=ProcessKind.WORKER)
        with Worker(billing):
            _log.info("worker_started", **about(billing))
            click.echo(f"working on {shown(path)}")
            stopping.wait()
        _log.info("worker_stopped")
