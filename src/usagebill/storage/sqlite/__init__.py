"""The embedded engine: one SQLite file, through sqlite-utils; the raw connection where the hot path needs it."""

from usagebill.storage.sqlite.engine import SqliteStore

__all__ = ["SqliteStore"]
