"""`usagebill backup`: a copy of a file that is being served."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from usagebill.cli.audit import print_report, reports_of
from usagebill.cli.options import as_json, database, opened, print_json, refusals
from usagebill.storage.addresses import is_url
from usagebill.storage.sqlite import SqliteStore
from usagebill.storage.sqlite.backup import DamagedFile, back_up
from usagebill.storage.sqlite.schema import OlderFile


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option("--done", is_flag=True, help="Make none, and note that one has just been made by other means.")
@click.option(
    "--audit/--no-audit",
    "audited",
    default=True,
    show_default=True,
    help="Also audit the copy, which reads all of it.",
)
@database()
@as_json
def backup(file: Path | None, done: bool, audited: bool, path: str, json_output: bool) -> None:
    """Copy the database, also while served, and audit it.

    FILE, which must not exist, holds everything of one instant. It appears when it is complete; a copy that was
    interrupted is left as FILE.partial. Exits with 1 if the audit finds anything; FILE is then what the database is.
    A file of an earlier version is copied, not upgraded, and its copy cannot be audited.
    Events in ClickHouse need no backup: they are sent there again. PostgreSQL has its own tools for this.

    When the last backup without findings was made is noted in the database, for `status` and `/metrics`; --done notes
    it after another tool.
    """
    if done == (file is not None):
        raise click.UsageError("name the FILE to make, or say --done")
    if file is None:
        _note(path)
        return
    if is_url(path):
        raise click.UsageError(
            "a PostgreSQL database is backed up with pg_dump, or by its server: see docs/postgresql.md#backups"
        )
    with refusals(path):
        try:
            back_up(path, file)
        except FileExistsError:
            raise click.ClickException(f"there is a file {file} already, which was left as it is") from None
        except DamagedFile as problem:
            raise click.ClickException(f"the copy is damaged, and so is {path}: {problem}") from problem
        except OSError as problem:
            raise click.ClickException(f"{file}: {problem.strerror or problem}") from problem
    older = _is_older(file)
    reports = reports_of(str(file)) if audited and older is None else []
    found = sum(report.found for _, report in reports)
    if not found and older is None:
        _note(path)
    if json_output:
        print_json(
            {
                "file": str(file),
                "bytes": file.stat().st_size,
                "not_audited": older,
                "organizations": [{"id": organization.id, **asdict(report)} for organization, report in reports],
            }
        )
    else:
        click.echo(f"{file}: {file.stat().st_size:,} bytes")
        if older is not None:
            click.echo(f"not audited: {older}")
        for organization, report in reports:
            print_report(organization.name, report)
    sys.exit(1 if found else 0)


def _note(path: str) -> None:
    """Note that a backup was just made."""
    with opened(path) as billing:
        now = billing.clock.now()
        billing.store.write(None, lambda tx: tx.note_backup(now))


def _is_older(file: Path) -> str | None:
    """Why this version cannot audit the copy of an earlier version's file, such as one made before an upgrade."""
    try:
        SqliteStore(file, read_only=True).close()
    except OlderFile as problem:
        return str(problem)
    return None
