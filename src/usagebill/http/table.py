"""The table of endpoints: the server, its reference and the clients are made from it."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from functools import cache
from importlib import import_module

from usagebill.http.endpoints import Endpoint

# What serves the table has no part of it, and would bring the whole server to a client.
_SERVER = frozenset(
    (
        "api",
        "app",
        "clock",
        "connections",
        "metrics",
        "notices",
        "openapi",
        "proxies",
        "readiness",
        "request_log",
        "strictness",
    )
)


@cache
def endpoints() -> Sequence[Endpoint]:
    """The whole table of requests that the API answers. Each module of this package contributes its `ENDPOINTS`."""
    package = import_module("usagebill.http")
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.name not in _SERVER)
    modules = [import_module(f"{package.__name__}.{name}") for name in names]
    return [endpoint for module in modules for endpoint in getattr(module, "ENDPOINTS", ())]
