"""The store: connections, transactions and durable commits shared by the writes that arrive together."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Set
from contextlib import closing, suppress
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from time import monotonic, sleep
from typing import Any, Generic, TypeVar

from usagebill.core.errors import DeadlinePassed
from usagebill.core.numbers import ZERO, add
from usagebill.storage import deadline
from usagebill.storage.every_engine import EntitlingCommits, OneTransaction
from usagebill.storage.failures import Reachability
from usagebill.storage.ports import AS_NEEDED, Opening
from usagebill.storage.sql.usage_totals import MissingSeries
from usagebill.storage.sqlite.events import prepare
from usagebill.storage.sqlite.listed import folded_document
from usagebill.storage.sqlite.schema import VERSION, NoSystem, bring_forward, check_current, check_ours, check_version
from usagebill.storage.sqlite.transaction import SqliteTransaction
from usagebill.storage.sqlite.undoing import TransactionLost, UndoneAlone

T = TypeVar("T")

# Most writes per commit, so that none waits long for the others.
_SHARED = 64
_BUSY_SECONDS = 60.0
# SQLite's busy handler sleeps up to 100 ms and may starve for seconds, so we poll more often.
_BETWEEN_TRIES = 0.001
# A longer WAL file slows every read down.
_LONG_LOG = 16 * 2**20
# The steps of a statement (some 50 ns each) after which it is looked whether it runs past its deadline.
_STEPS_BETWEEN_LOOKS = 50_000
# The weight of the latest commit in the moving average of lock contention.
_LAST_COMMIT = 1 / 8
# The first version with `->>` and `RETURNING`.
_OLDEST = (3, 38, 0)


def _begin(connection: sqlite3.Connection) -> bool:
    """Begin a write once no other process is writing. Returns whether it had to wait.

    Raises `sqlite3.OperationalError` after a minute of waiting.
    """
    until = monotonic() + _BUSY_SECONDS
    has_waited = False
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return has_waited
        except sqlite3.OperationalError as problem:
            if problem.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > until:
                raise
        has_waited = True
        sleep(_BETWEEN_TRIES)


def _address(path: str, options: str) -> str:
    return f"{Path(path).absolute().as_uri()}?{options}"


def unused_bytes(path: str | Path) -> int:
    """The room in a file that nothing uses, such as that of tables of an earlier version."""
    with closing(sqlite3.connect(_address(str(path), "mode=ro"), uri=True)) as connection:
        pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_size"))
    return int(pages * size)


def functions(connection: sqlite3.Connection) -> None:
    """Register the SQL functions that queries use. No index uses them, so that any tool can check the file."""
    connection.create_function("casefold", 1, _casefold)
    connection.create_function("folded_document", -1, folded_document)
    # typeshed only knows aggregates of integers.
    connection.create_aggregate("stored_sum", 1, _StoredSum)  # type: ignore[arg-type]
    prepare(connection)


def _casefold(text: object) -> str | None:
    return None if text is None else str(text).casefold()


_empty_lock = threading.Lock()


@cache
def _empty() -> sqlite3.Connection:
    """A database of this version without rows."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    functions(connection)
    bring_forward(connection)
    return connection


@cache
def _empty_file() -> bytes:
    """A file of this version without rows, in WAL mode."""
    with _empty_lock:
        content = bytearray(_empty().serialize())
    # SQLite's file format versions for writing and reading: 2 is WAL; databases in memory have 1.
    content[18:20] = b"\2\2"
    return bytes(content)


def _make_file(path: str) -> None:
    """Create a missing file, readable by its owner only; SQLite gives the WAL files the same mode.

    It gets its name once it is complete, so no other process sees part of it. If the file system has no hard links, or
    SQLite no `serialize`, an empty file is created, and its tables later.
    """
    # If it cannot be created, SQLite reports why, with an error that callers handle.
    with suppress(OSError):
        if not os.path.lexists(path) and hasattr(sqlite3.Connection, "serialize"):
            with suppress(OSError), NamedTemporaryFile(dir=Path(path).parent, prefix=f"{Path(path).name}-") as file:
                file.write(_empty_file())
                file.flush()
                os.fsync(file.fileno())
                os.link(file.name, path)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


class _StoredSum:
    """Exact sums of stored cents and decimals: SQLite's are floats, or limited to 64 bits."""

    def __init__(self) -> None:
        self._whole = 0
        self._fractional = ZERO

    def step(self, value: int | str | None) -> None:
        if isinstance(value, int):
            self._whole += value
        elif value is not None:
            self._fractional = add(self._fractional, Decimal(value.removeprefix("n")))

    def finalize(self) -> str:
        return str(add(Decimal(self._whole), self._fractional))


class _Write(Generic[T]):
    """A caller's change, waiting for the commit that it shares with others."""

    def __init__(self, organization_id: str | None, change: Callable[[Any], T]) -> None:
        self.organization_id = organization_id
        self.change = change
        self.ends = deadline.current()
        self.done = False
        # The organizations whose entitlements the change affects.
        self.entitling: Set[str] = frozenset()
        # Released when the write is done, or when its thread is to take over.
        self.signal = threading.Lock()
        self.signal.acquire()
        self.result: T
        self.error: BaseException | None = None


def _flushed(write: _Write[T], tx: SqliteTransaction) -> T:
    with deadline.until(write.ends):
        result = write.change(tx)
    tx.flush()
    write.entitling = tx.entitling
    return result


def _was_interrupted(problem: BaseException) -> bool:
    """Whether a statement was ended because it ran past its deadline."""
    return getattr(problem, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT


# By the real path of the file: a process may open it more than once.
_entitling_commits: dict[str, EntitlingCommits] = {}


class SqliteStore:
    """One SQLite file, or memory (`:memory:`). Safe to use from many threads, and from many processes on one file.

    Once `write` returns, its changes are on disk: the file is in WAL mode with full synchronisation. Reads run
    concurrently with the writer, each on a separate snapshot.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False, opening: Opening = AS_NEEDED) -> None:
        if sqlite3.sqlite_version_info < _OLDEST:
            oldest = ".".join(map(str, _OLDEST))
            raise RuntimeError(f"usagebill needs SQLite {oldest} or later; this Python has {sqlite3.sqlite_version}")
        self.path = str(path)
        self._memory = self.path == ":memory:"
        self._read_only = read_only
        if not self._memory and not read_only:
            if opening.creates:
                _make_file(self.path)
            elif not os.path.exists(self.path):
                raise NoSystem
        self._turn = threading.Lock()
        # `_guard` decides who writes: one thread commits for all waiting ones, then hands over to the next.
        self._guard = threading.Lock()
        self._waiting: deque[_Write[Any]] = deque()
        self._busy = False
        self._sharing = False
        self._contention = 0.0
        self.reachability = Reachability(self.path)
        self._entitling_commits = EntitlingCommits()
        if not self._memory:
            path = os.path.realpath(self.path)
            self._entitling_commits = _entitling_commits.setdefault(path, self._entitling_commits)
        self._missing_series = MissingSeries()
        # The open transaction of each thread.
        self._transactions = OneTransaction()
        self._readers: list[sqlite3.Connection] = []
        self._idle: deque[sqlite3.Connection] = deque()
        self._writer = self._connect()
        try:
            if read_only:
                check_version(self._writer)
            elif self._memory:
                self._fill()
            else:
                bring_forward(self._writer, opening, self.path)
        except BaseException:
            self._writer.close()
            raise
        self._writer.execute("PRAGMA busy_timeout = 0")

    def _fill(self) -> None:
        """Create the tables of a database in memory by copying one that has them: 3 ms instead of 60."""
        with _empty_lock:
            _empty().backup(self._writer)

    def _connected(self, address: str) -> sqlite3.Connection:
        return sqlite3.connect(
            address,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
            uri=self._read_only,
        )

    def _connect(self) -> sqlite3.Connection:
        if self._read_only:
            connection = self._connected(_address(self.path, "mode=ro"))
            try:
                connection.execute("SELECT 1 FROM sqlite_schema")
            except sqlite3.OperationalError:
                connection.close()
                # The WAL files cannot be created. The database can be read without them if they would be empty.
                wal = Path(f"{self.path}-wal")
                if wal.exists() and wal.stat().st_size:
                    raise
                connection = self._connected(_address(self.path, "immutable=1"))
        else:
            connection = self._connected(self.path)
        try:
            # Before anything changes, even the journal mode.
            check_ours(connection)
        except BaseException:
            connection.close()
            raise
        connection.execute("PRAGMA foreign_keys = ON")
        if not self._memory:
            if not self._read_only:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA cache_size = -65536")
            # A mapped file that is cut off by somebody else ends the process with SIGBUS; a read of it is an error.
            connection.execute("PRAGMA mmap_size = 0")
        functions(connection)
        connection.set_progress_handler(self._is_to_end, _STEPS_BETWEEN_LOOKS)
        return connection

    def _is_to_end(self) -> bool:
        """Whether to interrupt the statement that this thread runs."""
        # An interrupted write undoes the whole transaction, and with it the changes that share it.
        return not self._sharing and deadline.is_past()

    @property
    def now(self) -> None:
        """All writers of a file share its machine's clock."""

    @property
    def identity(self) -> str | None:
        if self._memory:
            return None
        status = os.stat(self.path)
        return f"{status.st_dev}:{status.st_ino}"

    def look(self) -> None:
        # Whoever uses a database in memory is alive with it.
        if not self._memory:
            os.stat(self.path)
            self.read(None, lambda tx: None)

    @property
    def schema(self) -> int:
        return VERSION

    @property
    def connections(self) -> None:
        """A file has no server."""

    @property
    def free_bytes(self) -> int | None:
        if self._memory:
            return None
        disk = os.statvfs(Path(self.path).absolute().parent)
        return disk.f_bavail * disk.f_frsize

    def read(self, organization_id: str | None, question: Callable[[SqliteTransaction], T]) -> T:
        with self.reachability.told(writes=False), self._transactions.opened():
            if self._memory:
                with self._turn:
                    return self._answer(self._writer, organization_id, question)
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect()
                # Set only once: each time, SQLite recompiles every statement of the connection.
                connection.execute("PRAGMA query_only = ON")
                self._readers.append(connection)
            try:
                return self._answer(connection, organization_id, question)
            finally:
                self._idle.append(connection)

    def _answer(
        self, connection: sqlite3.Connection, organization_id: str | None, question: Callable[[SqliteTransaction], T]
    ) -> T:
        changes = connection.total_changes
        self._begin_read(connection)
        try:
            self._check_current(connection)
            answer = question(SqliteTransaction(connection, organization_id, missing_series=self._missing_series))
        except sqlite3.OperationalError as problem:
            if _was_interrupted(problem):
                raise DeadlinePassed from problem
            raise
        finally:
            with deadline.until(None):
                self._undo(connection)
        # Memory has one connection for reads and writes, which cannot be `query_only`.
        if connection.total_changes != changes:
            raise RuntimeError("a read is read-only, and something was written")
        return answer

    def write(self, organization_id: str | None, change: Callable[[SqliteTransaction], T]) -> T:
        own_write = _Write(organization_id, change)
        with self.reachability.told(writes=True):
            with self._transactions.opened():
                with self._guard:
                    self._waiting.append(own_write)
                    follows, self._busy = self._busy, True
                if follows:
                    own_write.signal.acquire()
                if not own_write.done:
                    self._commit_all(own_write)
            if own_write.error is not None:
                if _was_interrupted(own_write.error):
                    raise DeadlinePassed from own_write.error
                raise own_write.error
            return own_write.result

    def _commit_all(self, own_write: _Write[T]) -> None:
        """Commit for all waiting threads until `own_write` is done; then the first that still waits takes over."""
        while not own_write.done:
            with self._guard:
                writes = [self._waiting.popleft() for _ in range(min(_SHARED, len(self._waiting)))]
            # Each write has a deadline of its own, and the commit that they share has none.
            with self._turn, deadline.until(None):
                self._commit(writes)
                self._shorten_log()
            for write in writes:
                if write is not own_write:
                    write.signal.release()
        with self._guard:
            self._busy = bool(self._waiting)
            if self._waiting:
                self._waiting[0].signal.release()

    def _shorten_log(self) -> None:
        """Empty a long WAL file, if no other connection is reading or writing just now.

        SQLite's own checkpoints never let it start from the beginning while processes take turns: one always reads.
        Right after a commit the others mostly wait for the lock, which takes them a moment to notice.
        """
        # The commit is durable whatever happens here.
        with suppress(OSError, sqlite3.Error):
            if not self._memory and os.stat(f"{self.path}-wal").st_size > _LONG_LOG:
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @property
    def reads_beside_writes(self) -> bool:
        return not self._memory

    def is_awaited(self) -> bool:
        # The others that share the commit wait for it too.
        return self._sharing or bool(self._waiting)

    def entitling_commits(self, organization_id: str) -> int:
        return self._entitling_commits.of(organization_id)

    @property
    def contention(self) -> float:
        return self._contention

    def _commit(self, writes: list[_Write[Any]]) -> None:
        connection = self._writer
        self._sharing = len(writes) > 1
        try:
            self._contention += (self._begin_write() - self._contention) * _LAST_COMMIT
            self._check_current(connection)
            for write in writes:
                if not self._sharing:
                    # A single change is rolled back with the transaction.
                    sole = SqliteTransaction(connection, write.organization_id, missing_series=self._missing_series)
                    write.result = _flushed(write, sole)
                    continue
                alone = UndoneAlone(connection)
                # It only has the methods of a connection that are called here.
                tx = SqliteTransaction(alone, write.organization_id, missing_series=self._missing_series)  # type: ignore[arg-type]
                try:
                    write.result = alone.run(partial(_flushed, write, tx))
                except Exception as problem:
                    write.error = problem
            self._keep()
        except BaseException as problem:
            # First of all, so that no caller takes its write for committed.
            for write in writes:
                write.error = write.error or (problem.cause if isinstance(problem, TransactionLost) else problem)
            if connection.in_transaction:
                self._undo(connection)
        finally:
            # Even if the commit failed: an extra count only costs a read.
            self._entitling_commits.count(frozenset().union(*(write.entitling for write in writes)))
            for write in writes:
                write.done = True

    def _check_current(self, connection: sqlite3.Connection) -> None:
        if not self._memory:
            check_current(connection)

    def _begin_read(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")

    def _begin_write(self) -> bool:
        """Begin a write. Returns whether another process held the lock."""
        return _begin(self._writer)

    def _keep(self) -> None:
        self._writer.execute("COMMIT")

    def _undo(self, connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")

    def roll_up_usage(self) -> bool:
        if self._read_only:
            return False
        if not self.read(None, lambda tx: tx.is_usage_behind()):
            return False
        self.write(None, lambda tx: tx.roll_up_usage())
        return True

    def ship_events(self) -> bool:
        """There is no separate event store."""
        return False

    def close(self) -> None:
        """Close every connection. The store cannot be used afterwards."""
        with self._turn:
            for connection in (*self._readers, self._writer):
                connection.close()
            self._readers.clear()
            self._idle.clear()
