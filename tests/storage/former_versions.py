"""Databases as an earlier version of usagebill had them."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg


def make_former(url: str, version: int, change: str) -> None:
    """Have the database be one of this version of records, by the statement that takes back what the next one made."""
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(change.encode())
            connection.execute("UPDATE usagebill_schema SET records = %s", (version,))
        return
    with closing(sqlite3.connect(url)) as file:
        file.execute(change)
        file.execute(f"PRAGMA user_version = {version}")
        file.commit()
