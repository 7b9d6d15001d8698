"""The ASGI app: the API, its health, its description."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from usagebill import __version__
from usagebill.billing import Billing
from usagebill.http import billable_metrics, customers
from usagebill.http.api import Api, Request
from usagebill.http.endpoints import Endpoint

__all__ = ["create_app", "endpoints"]

_RESOURCES = (billable_metrics, customers)


def endpoints() -> Sequence[Endpoint]:
    """The whole table: every request that the API answers."""
    return [endpoint for resource in _RESOURCES for endpoint in resource.ENDPOINTS]


def create_app(billing: Billing) -> Starlette:
    """An ordinary ASGI app over `billing`: serve it alone, or mount it inside another."""
    api = Api(billing, endpoints())

    async def answer(request: HttpRequest) -> Response:
        asked = Request(
            method=request.method,
            path=request.scope.get("raw_path", request.url.path.encode()).decode("latin-1").split("?")[0],
            query=request.scope["query_string"].decode("latin-1"),
            headers={name.decode("latin-1").lower(): value.decode("latin-1") for name, value in request.headers.raw},
            body=await request.body(),
        )
        given = await run_in_threadpool(api.answer, asked)
        return Response(given.body, status_code=given.status, headers=dict(given.headers))

    async def health(_: HttpRequest) -> Response:
        try:
            await run_in_threadpool(billing.next_due)
        except Exception as problem:
            return JSONResponse({"version": __version__, "message": "Unhealthy", "details": str(problem)}, 500)
        return JSONResponse({"version": __version__, "message": "Success"})

    async def ready(_: HttpRequest) -> Response:
        return JSONResponse({"status": "ok"})

    verbs = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    return Starlette(
        routes=[
            Route("/health", health),
            Route("/ready", ready),
            Route("/{path:path}", answer, methods=verbs),
        ]
    )
