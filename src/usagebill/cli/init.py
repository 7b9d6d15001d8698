"""`usagebill init`: a billing system where there is none."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from usagebill.billing import Billing
from usagebill.cli.options import database, opened, refusals
from usagebill.operations import api_keys
from usagebill.runtime.work import Work
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
    """Make a system in a new file or an empty database.

    It has an organization and a first API key."""
    if key_file is None and not sys.stdout.isatty():
        raise click.UsageError("--key-file is needed where there is no terminal: a key must not stay in a log")
    with refusals(path):
        try:
            Billing(path, opening=Opening(creates=False, upgrades=False), deliver=False).close()
        except NoSystem:
            pass
        else:
            raise click.ClickException(f"{shown(path)}: there is a billing system already")
    with _written(key_file) as write, opened(path, deliver=False, opening=Opening()) as billing:

        def first_key(work: Work) -> str:
            _, key = api_keys.create(work, "First key")
            # Before the key is stored: one that cannot be written would be lost.
            write(key)
            return key

        key = billing.writing(first_key)
        click.echo(f"organization  {billing.organization.id}  {billing.organization.name}")
    shown_key = f"{key}  (shown this once; `usagebill keys create` makes more)"
    click.echo(f"API key       {shown_key if key_file is None else f'in {key_file}'}")


@contextmanager
def _written(key_file: Path | None) -> Iterator[Callable[[str], object]]:
    """What writes the key into a new file, which is gone again if anything fails."""
    if key_file is None:
        yield lambda key: None
        return
    try:
        os.close(os.open(key_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as problem:
        raise click.ClickException(f"{key_file}: {problem.strerror}") from problem
    try:
        yield lambda key: key_file.write_text(f"{key}\n", encoding="utf-8")
    except BaseException as problem:
        key_file.unlink(missing_ok=True)
        if isinstance(problem, OSError):
            raise click.ClickException(f"{key_file}: {problem.strerror}") from problem
        raise
