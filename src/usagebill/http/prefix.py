"""The prefix of ids, and the field names that it must not collide with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from usagebill.http.endpoints import Endpoint
from usagebill.http.openapi import document

_OWN = "svc_"


def check_prefix(prefix: str, endpoints: Sequence[Endpoint]) -> None:
    """ValueError if `prefix` begins a field of the API that is not an id: the two would be ambiguous."""
    if prefix == _OWN:
        return
    clash = min((name for name in _names(document(endpoints)) if name.startswith(prefix)), default=None)
    if clash is not None:
        raise ValueError(f"the prefix of ids cannot be {prefix!r}: {clash!r} begins with it")


def _names(described: Any) -> Iterator[str]:
    """The names of all fields and parameters in a description."""
    if isinstance(described, dict):
        if isinstance(described.get("properties"), dict):
            yield from described["properties"]
        if described.get("in") == "query":
            yield described["name"]
    for part in described.values() if isinstance(described, dict) else described if isinstance(described, list) else ():
        yield from _names(part)
