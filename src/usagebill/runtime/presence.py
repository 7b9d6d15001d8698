"""What a process says of itself in its database, so that upgrades, moves and people know who has it open."""

from __future__ import annotations

import os
import socket
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from usagebill.core.errors import DatabaseFailed
from usagebill.core.processes import SEEN_EVERY, Process, ProcessKind, missing
from usagebill.process.logs import Log, plain_traceback
from usagebill.runtime.clock import Clock, SystemClock
from usagebill.storage.ports import Store, Transaction

_log = Log("usagebill.processes")


class Presence:
    """The row of this process in the database's register of processes, written every few seconds from `begin` to `end`.

    A program that writes begins by itself once it has had the database open for some seconds, so short commands leave
    no trace. Each process also logs which others have died.
    """

    def __init__(self, store: Store, clock: Clock, version: str) -> None:
        self._store = store
        self._clock = clock
        self._guard = threading.Lock()
        id, now = str(uuid4()), clock.now()
        self._process = Process(
            id=id,
            # Containers may share a host name, and then often have the same process id.
            name=f"{socket.gethostname()}:{os.getpid()}:{id[:4]}",
            kind=ProcessKind.PROGRAM,
            version=version,
            schema=store.schema,
            started_at=now,
            seen_at=now,
            home=store.identity,
        )
        self._is_noted = False
        # Whose death was logged.
        self._told: set[str] = set()
        self._thread: threading.Thread | None = None
        self._rest = threading.Event()

    @property
    def process(self) -> Process:
        """What is said now."""
        return self._process

    def begin(self, kind: ProcessKind | None = None) -> None:
        """Say from now on that this process has the database open, of this kind if it is no program."""
        if kind is not None:
            self.say(kind=kind)
        self.note()
        self._keep_noting()

    def touch(self) -> None:
        """Begin some seconds after the first write, unless the time or the database is not a real one."""
        if self._thread is None and isinstance(self._clock, SystemClock) and self._process.home is not None:
            self._keep_noting()

    def say(self, **changes: Any) -> None:
        """Change fields of `Process`, which are written with the next note."""
        with self._guard:
            self._process = replace(self._process, **changes)

    def add_workers(self, number: int) -> None:
        """So many more workers run in this process."""
        with self._guard:
            self._process = replace(self._process, workers=self._process.workers + number)

    def note(self) -> None:
        """Write it now. If the database fails, its own lines of the log say so."""
        try:
            self._store.write(None, self._note)
            self._is_noted = True
        except DatabaseFailed:
            return
        except Exception as problem:
            _log.error("process_not_noted", exception=plain_traceback(problem))

    def end(self) -> None:
        """Say that this process stops."""
        self._rest.set()
        if self._thread is not None:
            self._thread.join()
        if self._is_noted:
            self.say(stopped_at=self._clock.now())
            self.note()

    def _keep_noting(self) -> None:
        with self._guard:
            if self._thread is not None:
                return
            arguments = weakref.ref(self), self._rest
            self._thread = threading.Thread(target=_keep_noting, args=arguments, name="usagebill-presence", daemon=True)
        self._thread.start()

    def _note(self, tx: Transaction) -> None:
        now = self._clock.now()
        self.say(seen_at=now)
        process = self._process
        if process.stopped_at is not None and process.kind is ProcessKind.PROGRAM and not process.runs_jobs:
            tx.forget_process(process.id)
            return
        tx.note_process(process)
        self._tell(missing(tx.processes(), now))

    def _tell(self, dead: Sequence[Process]) -> None:
        for process in dead:
            if process.id not in self._told:
                seen_at = process.seen_at.isoformat(timespec="seconds")
                source = {} if process.consumes is None else {"source": process.consumes}
                _log.error("process_died", process=process.name, kind=str(process.kind), seen_at=seen_at, **source)
        self._told = {process.id for process in dead}


def _keep_noting(presence: weakref.ref[Presence], rest: threading.Event) -> None:
    while not rest.wait(SEEN_EVERY.total_seconds()):
        present = presence()
        if present is None:
            return
        present.note()
        # Or it would be kept in use.
        del present
