"""Where a database is: the path of a file, `:memory:`, or the URL of a PostgreSQL server."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

_SCHEMA = re.compile("(?!pg_)[a-z_][a-z0-9_]{0,62}")


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


def is_schema_name(name: str) -> bool:
    """Whether it can be the name of a schema that SQL need not quote."""
    return _SCHEMA.fullmatch(name) is not None


def in_schema(url: str, schema: str) -> str:
    """The URL of a PostgreSQL database whose tables are, or will be, in this schema of it, and nowhere else.

    Raises ValueError if `url` is no such URL, or for a name that SQL would have to quote.
    """
    if not is_url(url):
        raise ValueError("a schema is part of a PostgreSQL database (postgresql://...); this is a file")
    if not is_schema_name(schema):
        raise ValueError(
            f"{schema!r} cannot be the name of a schema: it has up to 63 lower-case letters, digits and underscores,"
            " begins with no digit, and not with pg_"
        )
    place, _, query = url.partition("?")
    words = parse_qsl(query, keep_blank_values=True)
    options = [value for name, value in words if name == "options"]
    words = [(name, value) for name, value in words if name != "options"]
    # The last of several search paths counts.
    words.append(("options", " ".join([*options, f"-csearch_path={schema}"])))
    return f"{place}?{urlencode(words, quote_via=quote)}"
