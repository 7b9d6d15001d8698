"""A copy of a file that others may be writing to."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from usagebill.storage.sqlite.schema import check_not_moved, check_ours


class DamagedFile(Exception):
    """Pages of the file contradict each other: a disk or another program has damaged it."""


def back_up(source: str | Path, target: Path) -> None:
    """Copy the file at `source` to `target` as it was at one instant. Nobody has to wait for it.

    `target` appears once the copy is complete and on the disk; until then its name ends in `.partial`. Only its owner
    can read it. Raises `FileExistsError` if there is a file at `target`, `DamagedFile` if the copy is not sound, which
    is then left under the other name, and what SQLite raises.
    """
    if target.exists():
        raise FileExistsError(str(target))
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with (
        closing(sqlite3.connect(f"{Path(source).absolute().as_uri()}?mode=ro", uri=True)) as original,
        closing(sqlite3.connect(partial, isolation_level=None)) as copy,
    ):
        check_ours(original)
        check_not_moved(original)
        # In one step: a copy in several would begin again whenever somebody writes in between.
        original.backup(copy)
        # A single file, without a log beside it.
        copy.execute("PRAGMA journal_mode = DELETE")
        problem = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problem != "ok":
        raise DamagedFile(problem)
    _sync(partial)
    partial.rename(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
