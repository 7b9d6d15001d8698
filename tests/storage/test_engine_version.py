"""An interpreter whose SQLite is too old is told so, instead of failing somewhere later."""

from __future__ import annotations

import sqlite3

import pytest

from usagebill.storage.sqlite import SqliteStore


def test_an_old_sqlite_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(RuntimeError, match=r"needs SQLite 3\.38\.0 or later"):
        SqliteStore(":memory:")
