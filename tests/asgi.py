"""Requests to an ASGI app in this process."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from starlette.types import ASGIApp


def send(app: ASGIApp, method: str, path: str, **rest: Any) -> httpx.Response:
    """The app's answer; `rest` as `httpx.request` takes it."""

    async def act() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(method, path, **rest)

    return asyncio.run(act())
