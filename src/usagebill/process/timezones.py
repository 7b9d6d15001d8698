"""Names of time zones."""

from __future__ import annotations

import re
from functools import lru_cache
from zoneinfo import ZoneInfo

_NAME = re.compile(r"[A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+")


@lru_cache(maxsize=1024)
def is_timezone(name: str) -> bool:
    """Whether `name` is UTC or the IANA name of the time zone of a place."""
    if name == "UTC":
        return True
    if not _NAME.fullmatch(name) or name.startswith(("posix/", "right/")):
        return False
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True
