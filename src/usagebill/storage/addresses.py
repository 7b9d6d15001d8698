"""Where a database is: the path of a file, `:memory:`, or the URL of a PostgreSQL server."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit


def is_url(path: str | Path) -> bool:
    """Whether it is the URL of a PostgreSQL database rather than a path."""
    return str(path).startswith(("postgresql://", "postgres://"))


def shown(path: str) -> str:
    """The path for display: a URL without user and password."""
    if not is_url(path):
        return path
    parts = urlsplit(path)
    # The server's own words for a place may stand behind the question mark too.
    words = dict(parse_qsl(parts.query))
    place = parts.netloc.rpartition("@")[2] or ":".join(words[name] for name in ("host", "port") if name in words)
    return f"{parts.scheme}://{place}{parts.path or '/' + words.get('dbname', '')}"
