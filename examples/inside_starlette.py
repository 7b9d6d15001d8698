"""Billing inside an application of your own: the API below /billing, library calls from your routes, one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from usagebill import Billing
from usagebill.http.app import create_app
from usagebill.operations import api_keys
from usagebill.worker import Worker

billing = Billing("billing.db")


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    with Worker(billing):
        yield


async def sign_up(request: Request) -> JSONResponse:
    """A route of the application's own: every new account becomes a customer."""
    account = request.path_params["account"]
    await run_in_threadpool(billing.customers.upsert, external_id=account, currency="EUR")
    return JSONResponse({"welcome": account})


app = Starlette(
    routes=[Route("/sign-up/{account}", sign_up, methods=["POST"]), Mount("/billing", app=create_app(billing))],
    lifespan=lifespan,
)


async def try_it(key: str) -> None:
    """Call the application as a web server would: `uvicorn inside_starlette:app` serves it for real."""
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        await client.post("/sign-up/acme")
        found = await client.get("/billing/api/v1/customers/acme", headers={"Authorization": f"Bearer {key}"})
    print(found.json()["customer"]["external_id"], "is a customer")


if __name__ == "__main__":
    _, first_key = billing.writing(lambda work: api_keys.create(work))
    asyncio.run(try_it(first_key))
    billing.close()
