"""`usagebill events`: import a file of events, idempotently, list those that are not billed, remove old ones."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from usagebill.cli.options import as_json, database, opened, organization_option, print_json, print_table
from usagebill.core.errors import Invalid
from usagebill.core.unbilled import ABOUT_CODES, Reason
from usagebill.operations import event_retention
from usagebill.operations.events import EventInput
from usagebill.requests.refusals import word
from usagebill.sources.files import SUFFIXES, MissingPackage, Unreadable, length_of, source_name, suffix_of, take_file
from usagebill.sources.intake import Intake, Outcome

_SHOWN = 20
_TEXTS = {
    Reason.SUBSCRIPTION_MISSING: "that name no subscription",
    Reason.SUBSCRIPTION_NOT_FOUND: "of no subscription",
    Reason.SUBSCRIPTION_NOT_ACTIVE: "outside the time of their subscription",
    Reason.NOT_YET: "ahead of the clock",
    Reason.METRIC_NOT_FOUND: "of no billable metric",
    Reason.CHARGE_NOT_FOUND: "that the plan of their subscription has no charge for",
    Reason.PERIOD_CLOSED: "of periods that were billed before what they lack was there",
    Reason.PERIOD_ALREADY_BILLED: "of periods that have been billed already",
    Reason.PROPERTY_MISSING: "without the property that their metric needs",
    Reason.PROPERTY_NOT_NUMERIC: "whose property is not a number",
    Reason.AMOUNT_MISSING: "without the price that a dynamic charge needs",
    Reason.AMOUNT_NOT_NUMERIC: "whose price is not a number",
    Reason.OPERATION_UNKNOWN: "whose operation_type is neither add nor remove",
}


@click.group()
def events() -> None:
    """Import events, list unbilled ones, remove old ones."""


@events.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--raw", is_flag=True, help="The file is one of `usagebill export events --raw`.")
@organization_option
@database()
@as_json
def import_file(file: Path, raw: bool, organization: str | None, path: str, json_output: bool) -> None:
    """Import the events of FILE: JSON objects or CloudEvents, one a line (.jsonl, .ndjson), a table with a header
    (.csv), or Parquet (.parquet), for example what `usagebill export events` wrote.

    A table has the columns transaction_id, code and timestamp, and may have external_subscription_id,
    precise_total_amount_cents and properties (a JSON object); every other column that is not empty becomes a property.
    Timestamps are Unix seconds or ISO 8601; a row without one is refused. An event with a transaction id that its
    subscription already has is skipped, so the same file can be imported again; an interrupted import resumes where it
    stopped. Exits with 1 if lines were refused.
    """
    if suffix_of(file) not in SUFFIXES:
        raise click.UsageError(f"{file.name} is none of {', '.join(SUFFIXES)}")
    outcome = Outcome()
    with (
        opened(path, organization) as billing,
        Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=json_output or not sys.stderr.isatty(),
        ) as progress,
    ):
        try:
            task = progress.add_task(file.name, total=length_of(file))
            take_file(
                Intake(billing, source_name(file), lists_refused=False),
                file,
                outcome,
                starts_over=True,
                raw=raw,
                progress=lambda position: progress.update(task, completed=position),
            )
        except MissingPackage as problem:
            raise click.ClickException(str(problem)) from problem
        except Unreadable as problem:
            _tell(outcome, json_output)
            raise click.ClickException(f"{file.name} cannot be read: {problem}") from problem
    _tell(outcome, json_output)
    sys.exit(1 if outcome.refused else 0)


def _tell(outcome: Outcome, json_output: bool) -> None:
    if json_output:
        print_json(
            {
                "imported": outcome.ingested,
                "duplicates": outcome.duplicates,
                "refused": [
                    {"line": number, "problem": problem, "message": _message(problem)}
                    for number, problem in outcome.refused.items()
                ],
                "unbilled": [
                    {"reason": str(reason), "external_subscription_id": name, "code": code, "events_count": count}
                    for (reason, name, code), count in outcome.unbilled.most_common()
                ],
                "undeclared_filter_values": [
                    {"code": code, "key": key, "value": value, "events_count": count}
                    for (code, key, value), count in outcome.undeclared.most_common()
                ],
            }
        )
        return
    click.echo(
        f"{outcome.ingested} imported, {outcome.duplicates} known already and skipped, {len(outcome.refused)} refused"
    )
    for number, problem in itertools.islice(outcome.refused.items(), _SHOWN):
        click.echo(f"  line {number}: {_message(problem)}", err=True)
    if len(outcome.refused) > _SHOWN:
        click.echo(f"  and {len(outcome.refused) - _SHOWN} more", err=True)
    for line in _unbilled_lines(outcome):
        click.echo(line)


def _message(problem: Mapping[str, object]) -> str:
    refusal = Invalid(problem)
    word(refusal, kind=EventInput)
    return refusal.message


def _unbilled_lines(outcome: Outcome) -> Iterator[str]:
    """Imported events that are not billed: a line for each reason, with the names concerned."""
    by_reason: dict[Reason, Counter[str]] = {}
    for (reason, name, code), count in outcome.unbilled.items():
        about = code if reason in ABOUT_CODES else name or ""
        by_reason.setdefault(reason, Counter())[about] += count
    for reason, names in by_reason.items():
        listed = ", ".join(name for name, _ in names.most_common(_SHOWN) if name)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        yield f"{_events(names.total())} {_TEXTS[reason]}{f': {listed}' if listed else ''}{more}"
    for (code, key, value), count in outcome.undeclared.most_common(_SHOWN):
        yield f"{_events(count)} of {code} with {key}={value}, which no filter declares: billed at the default price"
    if outcome.unbilled:
        yield "not billed as things stand: `usagebill events unbilled` says which and why"


def _events(count: int) -> str:
    return f"{count} event{'' if count == 1 else 's'}"


@events.command("unbilled")
@click.option("--subscription", help="Only events of this external subscription id.")
@click.option("--code", help="Only events with this code.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="The most events to list.")
@database()
@organization_option
@as_json
def list_unbilled(
    subscription: str | None, code: str | None, limit: int, path: str, organization: str | None, json_output: bool
) -> None:
    """List the events that no charge counts at present, with their number and the reason.

    An event leaves the list once it is counted: when the missing subscription, metric or charge is created before its
    period is billed.
    """
    with opened(path, organization) as billing:
        tallies = billing.events.unbilled_tallies(external_subscription_id=subscription, code=code)
        kinds = [dict(billing.view(tally)) for tally in tallies]
        page = billing.events.unbilled(external_subscription_id=subscription, code=code, per_page=limit)
        rows = [dict(shown) for shown in billing.view(page)]
    if json_output:
        print_json({"total_count": page.total_count, "kinds": kinds, "events": rows})
        return
    print_table(
        ("events_count", "reason", "external_subscription_id", "code"), kinds, "every event is billed, or will be"
    )
    if rows:
        columns = ("timestamp", "transaction_id", "period_is_open", "message")
        click.echo()
        print_table(columns, [{**row, **row["unbilled"]} for row in rows], "")
    if page.total_count > len(rows):
        click.echo(f"{len(rows)} of {page.total_count}; --limit shows more")


@events.command()
@click.option(
    "--older-than-months",
    "months",
    type=click.IntRange(1, 1_200),
    required=True,
    help="Only of periods that ended so many months ago.",
)
@organization_option
@database()
@as_json
def remove(months: int, organization: str | None, path: str, json_output: bool) -> None:
    """Remove events of billed periods, for good: those that no later bill can need.

    The number, sum and digest of a period's events stay with it, so that audits still know its lines. Export the events
    before (`usagebill export events --raw`) to have them elsewhere. The same is done every day by the organization's
    setting `event_retention_months`.
    """
    with opened(path, organization) as billing:
        removal = billing.reading(lambda reader: event_retention.begin(reader, months))
        while not removal.is_done:
            removal = billing.writing(partial(event_retention.go_on, removal=removal))
    if json_output:
        print_json({"removed": removal.removed, "periods_kept": removal.kept})
        return
    click.echo(f"{removal.removed:,} events removed")
    if removal.kept:
        click.echo(
            f"{removal.kept:,} periods keep theirs: an invoice is not final, or differs from what its events come to"
        )
