"""`usagebill init`: a billing system where there is none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from usagebill.billing import Billing
from usagebill.cli.options import database, opened, refusals
from usagebill.operations import api_keys
from usagebill.storage.addresses import shown
from usagebill.storage.ports import Opening
from usagebill.storage.sqlite.schema import NoSystem


@click.command()
@click.option(
    "--key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A new file for the API key, which only its owner can read; without it, the key is shown on the terminal.",
)
@database(must_exist=False)
def init(key_file: Path | None, path: str) -> None:
    """Make a billing system in a new file or an empty database, with an organization and a first API key."""
    if key_file is None and not sys.stdout.isatty():
        raise click.UsageError("--key-file is needed where there is no terminal: a key must not stay in a log")
    with refusals(path):
        try:
            Billing(path, opening=Opening(creates=False, upgrades=False), deliver=False).close()
        except NoSystem:
            pass
        else:
            raise click.ClickException(f"{shown(path)}: there is a billing system already")
    try:
        # First of all: a key that cannot be written would be lost.
        file = None if key_file is None else os.open(key_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as problem:
        raise click.ClickException(f"{key_file}: {problem.strerror}") from problem
    with opened(path, deliver=False, opening=Opening()) as billing:
        _, key = billing.writing(lambda work: api_keys.create(work, "First key"))
        click.echo(f"organization  {billing.organization.id}  {billing.organization.name}")
    if file is None:
        click.echo(f"API key       {key}  (shown this once; `usagebill keys create` makes more)")
        return
    with os.fdopen(file, "w", encoding="utf-8") as written:
        written.write(f"{key}\n")
    click.echo(f"API key       in {key_file}")
