"""What a proxy in front of the server says about a request: its client's address, its scheme, its path's prefix."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from typing import Any, Final
from urllib.parse import quote

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

LOOPBACK: Final = ("127.0.0.1", "::1")


def checked_networks(texts: Sequence[str]) -> tuple[str, ...]:
    """The addresses and networks (`10.0.0.0/8`) of trusted proxies. ValueError if one is neither."""
    for text in texts:
        try:
            ipaddress.ip_network(text)
        except ValueError:
            raise ValueError(f"{text!r} is neither an IP address nor a network such as 10.0.0.0/8") from None
    return tuple(texts)


def checked_root(path: str, own: Collection[str]) -> str:
    """The prefix of all paths, with a slash at its start and none at its end; "" for none.

    A request may come with or without it, so ValueError if a path of the service itself begins with it. `own` are the
    first segments of these.
    """
    root = path.rstrip("/")
    if root and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", root):
        raise ValueError(f"a prefix of paths is like /billing: letters, digits, - . _ ~ and slashes, not {path!r}")
    first = root[1:].partition("/")[0]
    if first in own:
        raise ValueError(f"the prefix of paths cannot begin with /{first}, which is a path of the service itself")
    return root


class BehindProxies:
    """An app as its clients see it.

    `trusted` proxies say who the client is (`X-Forwarded-For`) and which scheme it used (`X-Forwarded-Proto`); of other
    senders these headers are ignored. With `on_this_machine` the server listens at a Unix socket: whoever connects
    counts as 127.0.0.1. All paths may begin with `root`, which the proxy may leave out: links of the app have it.
    """

    def __init__(self, app: ASGIApp, *, trusted: Sequence[str], root: str = "", on_this_machine: bool = False) -> None:
        self._app = app
        self._root = root
        self._on_this_machine = on_this_machine
        named: Any = ProxyHeadersMiddleware(self._rooted, list(trusted))  # type: ignore[arg-type]
        self._named: ASGIApp = named

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._on_this_machine and scope.get("client") is None:
            scope["client"] = (LOOPBACK[0], 0)
        await self._named(scope, receive, send)

    async def _rooted(self, scope: Scope, receive: Receive, send: Send) -> None:
        root = self._root
        if root and scope["type"] in ("http", "websocket"):
            scope["root_path"] = root
            if scope["path"] != root and not scope["path"].startswith(root + "/"):
                scope["path"] = root + scope["path"]
                scope["raw_path"] = quote(root).encode() + scope["raw_path"]
        await self._app(scope, receive, send)
