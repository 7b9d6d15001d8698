"""The embedded engine: one SQLite file, through the connections of Python's own `sqlite3`."""

from usagebill.storage.sqlite.engine import SqliteStore as SqliteStore
from usagebill.storage.sqlite.reused import ReusedMemory as ReusedMemory
