"""A watched directory: event files that appear or grow in it are ingested."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

from usagebill.billing import Billing
from usagebill.operations.event_sources import Arrival
from usagebill.process.logs import Log
from usagebill.sources.files import SUFFIXES, Unreadable, source_name, suffix_of, take_file
from usagebill.sources.intake import Intake, Outcome

_log = Log("usagebill.sources")


class _State(NamedTuple):
    """What identifies a state of a file."""

    inode: int
    size: int
    written_at: int

    @classmethod
    def of(cls, entry: os.DirEntry[str]) -> _State:
        status = entry.stat()
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)


class WatchedDirectory:
    """Ingests the .csv, .jsonl and .parquet files of a directory, as far as they are written.

    A file that was not written to for `settled_after` seconds is complete. Until then a last line without a line end is
    left for later, and so is a whole Parquet file. Names that begin with a dot are ignored: write a file under such a
    name, then rename it.
    """

    def __init__(self, billing: Billing, directory: Path, *, settled_after: float = 10) -> None:
        self._billing = billing
        self._directory = directory
        self._settled_after = settled_after
        self._taken: dict[str, _State] = {}
        self._told: set[str] = set()

    def scan(self) -> dict[str, Outcome]:
        """Ingest what is new; returns the outcomes by file name. A bad file does not hold up others."""
        outcomes: dict[str, Outcome] = {}
        with os.scandir(self._directory) as entries:
            files = sorted((entry for entry in entries if entry.is_file()), key=lambda entry: entry.name)
        for entry in files:
            path = Path(entry.path)
            if entry.name.startswith("."):
                continue
            if suffix_of(path) not in SUFFIXES:
                self._tell(entry.name)
                continue
            state = _State.of(entry)
            if self._taken.get(entry.name) == state:
                continue
            outcome = self._take(path, state)
            if outcome.ingested or outcome.duplicates or outcome.refused:
                outcomes[entry.name] = outcome
        return outcomes

    def _take(self, path: Path, state: _State) -> Outcome:
        is_complete = time.time_ns() - state.written_at >= self._settled_after * 10**9
        if suffix_of(path) == ".parquet" and not is_complete:
            return Outcome()
        intake, outcome = Intake(self._billing, source_name(path)), Outcome()
        try:
            take_file(intake, path, outcome, is_complete=is_complete)
        except Unreadable as problem:
            outcome.add(self._refused(intake, str(problem)))
        except OSError as problem:
            # Gone again, or not readable: retried with the next scan.
            _log.warning("file_not_read", file=str(path), problem=str(problem))
            return outcome
        if is_complete:
            self._taken[path.name] = state
        return outcome

    def _refused(self, intake: Intake, problem: str) -> Outcome:
        """Record that the rest of a file cannot be parsed."""
        noted = intake.noted()
        position = 0 if noted is None else noted.position
        arrival = Arrival(position + 1, problem, problem={"file": ["unreadable"]})
        return intake.take([arrival], position=position, checksum=None if noted is None else noted.checksum)

    def _tell(self, name: str) -> None:
        if name not in self._told:
            self._told.add(name)
            _log.warning("file_ignored", file=str(self._directory / name), taken=", ".join(SUFFIXES))
