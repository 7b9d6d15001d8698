"""Options that commands share, and how errors are printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from rich.console import Console
from rich.table import Table

from usagebill.billing import Billing
from usagebill.core.errors import BillingError, Invalid, NotFound
from usagebill.core.instants import parse_instant
from usagebill.core.users import Role
from usagebill.process.settings import Settings
from usagebill.requests.refusals import word
from usagebill.storage.addresses import in_schema, is_url, shown
from usagebill.storage.ports import Opening, UnusableServer
from usagebill.storage.sqlite.schema import ForeignFile, InUse, MovedFile, NewerFile, NoSystem, OlderFile
from usagebill.storage.stores import is_engine_error

F = TypeVar("F", bound=Callable[..., object])

_EXISTING = Opening(creates=False)


_SCHEMA = "usagebill.schema"
# In the folder that a command runs in.
DEFAULT_FILE = "billing.db"


class _Database(click.Path):
    """A file, or the URL of a PostgreSQL database."""

    name = "database"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        schema = None if ctx is None else ctx.meta.get(_SCHEMA)
        if schema is not None:
            try:
                return in_schema(value, schema)
            except ValueError as problem:
                self.fail(str(problem), param, ctx)
        if is_url(value):
            return value
        if self.exists and not Path(value).exists():
            self.fail(
                f"there is no file {value!r}; `usagebill init --db {value}` makes it, with an organization and a first"
                " API key",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


class _Days(click.ParamType[int | None]):
    """A number of days, or `all` for no bound."""

    name = "days"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if isinstance(value, int):
            return value
        if str(value) == "all":
            return None
        return int(click.IntRange(0).convert(value, param, ctx))


class Seconds(click.FloatRange):
    """A finite number of seconds above zero, or from zero on if `may_be_zero`."""

    name = "seconds"

    def __init__(self, *, may_be_zero: bool = False) -> None:
        super().__init__(0, min_open=not may_be_zero)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if not isfinite(seconds):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return seconds


class _Domains(click.ParamType[tuple[str, ...]]):
    """Domains, separated by commas."""

    name = "domain,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(part.strip().lower() for part in parts if part.strip())


# Field of Settings -> the type of its option, and its help text.
_SETTINGS: dict[str, tuple[Any, str]] = {
    "id_prefix": (str, "What the names of service-owned ids begin with."),
    "public_url": (
        str,
        "The URL of this service, the issuer of webhook signatures; by default the host and port of `serve`.",
    ),
    "events_per_batch": (click.IntRange(1), "How many events one request may bring."),
    "requests_per_minute": (click.IntRange(1), "How many requests a key may make in a minute; any number without it."),
    "request_timeout": (Seconds(), "Seconds that the answer to a request may take to compute."),
    "webhook_timeout": (Seconds(), "Seconds that a webhook's receiver may take."),
    "webhook_attempts": (
        click.IntRange(1),
        "How often a webhook is attempted: 24 times take three days, 3 take 22 seconds.",
    ),
    "private_networks": (
        click.Choice(["auto", "allowed", "refused"]),
        "Whether webhooks may go to addresses that are not on the public internet; auto: with one organization only.",
    ),
    "vat_registry_url": (str, "The URL that EU VAT numbers are checked at; without it they are not checked."),
    "smtp_url": (str, "The mail server: smtp://user:password@host:587 or smtps://host. No e-mail is sent without it."),
    "email_from": (str, "The sender of e-mails; by default the address of the billing entity."),
    "smtp_timeout": (Seconds(), "Seconds that each step with the mail server may take."),
    "bridge_timeout": (
        Seconds(),
        "Seconds that an accounting system or CRM may take to answer.",
    ),
    "tax_provider_timeout": (Seconds(), "Seconds that a tax provider may take to answer."),
    "provider_audit_days": (
        click.IntRange(0, 3660),
        "How many days of payments are compared with Stripe's and GoCardless's lists every day; 0 compares none.",
    ),
    "clock_ahead_days": (
        click.IntRange(1),
        "How many days the clock may be ahead of the database before it is to be confirmed (`usagebill clock`).",
    ),
    "events_ahead_days": (
        _Days(),
        "How many days the timestamp of an event may lie ahead of the clock, or `all`.",
    ),
    "listed_log_days": (_Days(), "How many days lists of activities and requests reach back, or `all`."),
    "activity_log_days": (_Days(), "How many days activities are kept, or `all`; 0 logs none."),
    "api_log_days": (_Days(), "How many days logged requests are kept, or `all`; 0 logs none."),
    "security_log_days": (_Days(), "How many days events of security are kept, or `all`; 0 logs none."),
    "document_years": (
        click.IntRange(0, 100),
        "How many years documents of anonymized customers show the person, from the end of the year of issue.",
    ),
    "log_ingestion": (bool, "Whether requests that send events are logged too, which slows them down."),
    "strict": (
        bool,
        "Whether unknown fields and fractions of cents get 422 from the API, instead of being ignored or cut.",
    ),
    "metrics_key": (str, "The bearer token for /metrics; without it there is no /metrics."),
    "ready_max_age": (
        Seconds(),
        "/ready returns 503 while a job has been due for longer than this many seconds; by default it never does.",
    ),
    "documents": (
        click.Choice(["on_demand", "at_once"]),
        "When PDF and XML of invoices are made: when first asked for, or at once.",
    ),
    "document_formats": (
        click.Choice(["locale", "reference"]),
        "Amounts, dates and addresses of documents: as readers of the language expect, or the reference's.",
    ),
    "oidc_issuer": (str, "The OpenID Connect provider at which users of the console may sign in, as https://..."),
    "oidc_client_id": (str, "The id that the provider has given to this service."),
    "oidc_client_secret": (str, "The secret that goes with it."),
    "oidc_domains": (_Domains(), "Only e-mail addresses of these domains, separated by commas, are let in."),
    "oidc_role": (
        click.Choice([role.value for role in Role]),
        "The role of those who sign in there and are no users yet; without it they are refused.",
    ),
}

# The clock of a client on the network may be wrong; a program that embeds usagebill knows what it sends.
_DEFAULTS = Settings(events_ahead_days=1)

organization_option = click.option(
    "--organization", envvar="USAGEBILL_ORGANIZATION", show_envvar=True, help="Its id (default: the oldest)."
)
as_json = click.option("--json", "json_output", is_flag=True, help="Print JSON, for programs.")


def database(*, must_exist: bool = True) -> Callable[[F], F]:
    """`--db`, with the `--schema` of a PostgreSQL database."""
    schema = click.option(
        "--schema",
        envvar="USAGEBILL_SCHEMA",
        show_envvar=True,
        metavar="NAME",
        is_eager=True,
        expose_value=False,
        callback=_note_schema,
        help="The schema of a PostgreSQL database in which our tables are, if there is one of their own.",
    )
    path = click.option(
        "--db",
        "path",
        envvar="USAGEBILL_DB",
        default=DEFAULT_FILE,
        show_default=True,
        show_envvar=True,
        type=_Database(dir_okay=False, exists=must_exist),
        metavar="FILE|URL",
        help="The database: a file, or postgresql://...",
    )
    return lambda command: path(schema(command))


def _note_schema(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Keep the schema for `--db`, whose value is read after it."""
    ctx.meta[_SCHEMA] = value


def events_option(*, required: bool = False) -> Callable[[F], F]:
    """`--events`: the servers that count events beside the database."""
    return click.option(
        "--events",
        envvar="USAGEBILL_EVENTS",
        required=required,
        show_envvar=True,
        metavar="URL[,URL...]",
        help="ClickHouse servers that count events beside the database: clickhouse://user:password@host:8123/database.",
    )


def _check_prefix(prefix: str) -> None:
    if prefix == Settings().id_prefix:
        return
    # The API is slow to import and rarely needed here.
    from usagebill.http.app import endpoints
    from usagebill.http.prefix import check_prefix

    check_prefix(prefix, endpoints())


no_upgrade_option = click.option(
    "--no-upgrade",
    is_flag=True,
    envvar="USAGEBILL_NO_UPGRADE",
    show_envvar=True,
    help="Refuse a database of an older schema instead of upgrading it: `usagebill upgrade` does that.",
)


def _settings_option(field: str) -> Callable[[F], F]:
    kind, text = _SETTINGS[field]
    return click.option(
        f"--{field.replace('_', '-')}",
        type=kind,
        default=getattr(_DEFAULTS, field),
        show_default=True,
        envvar=f"USAGEBILL_{field.upper()}",
        show_envvar=True,
        help=text,
    )


private_networks_option = _settings_option("private_networks")


def settings_options(command: F) -> F:
    """The options of `Settings`, passed to the command as its argument `settings`."""

    @wraps(command)
    def with_settings(**arguments: Any) -> Any:
        options = {name: arguments.pop(name) for name in _SETTINGS}
        try:
            settings = Settings(**options)
            _check_prefix(settings.id_prefix)
        except ValueError as problem:
            raise click.UsageError(str(problem)) from problem
        return command(settings=settings, **arguments)

    decorated: Any = with_settings
    for field in reversed(_SETTINGS):
        decorated = _settings_option(field)(decorated)
    return cast(F, decorated)


def instant(text: str) -> datetime:
    """The time in an option, in UTC if it has no offset. Raises `click.BadParameter`."""
    parsed = parse_instant(text)
    if parsed is None:
        raise click.BadParameter(f"{text!r} is not an ISO 8601 time such as 2024-02-01T00:10:00Z")
    return parsed


@contextmanager
def refusals(path: str) -> Iterator[None]:
    """Errors raised inside end the command with a one-line message."""
    try:
        yield
    except Invalid as problem:
        word(problem)
        details = json.dumps(problem.details, default=str)
        raise click.ClickException(f"{details}: {problem.message}") from problem
    except (ForeignFile, InUse, MovedFile, NewerFile, NoSystem, OlderFile, UnusableServer) as problem:
        raise click.ClickException(f"{shown(path)}: {problem}") from problem
    except BillingError as problem:
        word(problem)
        raise click.ClickException(str(problem)) from problem
    except LookupError as problem:
        raise click.ClickException(str(problem)) from problem
    except Exception as problem:
        if not is_engine_error(problem):
            raise
        raise click.ClickException(f"{shown(path)}: {problem}") from problem


@contextmanager
def named(text: str) -> Iterator[None]:
    """Report a `NotFound` raised inside with `text`."""
    try:
        yield
    except NotFound as problem:
        raise click.ClickException(f"{problem.code}: {text}") from problem


@contextmanager
def opened(
    path: str,
    organization: str | None = None,
    settings: Settings | None = None,
    *,
    read_only: bool = False,
    deliver: bool = True,
    events: str | None = None,
    opening: Opening = _EXISTING,
) -> Iterator[Billing]:
    """The billing system in `path`, where there is one; errors are printed in one line."""
    options: dict[str, Any] = {"settings": settings, "read_only": read_only, "deliver": deliver, "events": events}
    options["opening"] = opening
    with refusals(path), Billing(path, organization=organization, **options) as billing:
        yield billing


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Sequence[Mapping[str, object]], empty: str) -> None:
    """`rows` as a table of `columns`, or the text `empty` if there are none."""
    if not rows:
        click.echo(empty)
        return
    table = Table(*[column.replace("_", " ") for column in columns], box=None, header_style="bold")
    for row in rows:
        table.add_row(*["" if row[column] is None else str(row[column]) for column in columns])
    console = Console()
    # A pipe has no width: there, whole values matter more than lines that fit.
    if not console.is_terminal:
        console = Console(width=10_000)
    console.print(table)
