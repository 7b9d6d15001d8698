"""The routes of the portal: whose pages a link opens, which page answers, and what every answer forbids a browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from urllib.parse import quote

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from usagebill.billing import Billing
from usagebill.browser.forms import form_of, received
from usagebill.core.billing_entities import is_color
from usagebill.core.errors import BillingError, DatabaseFailed, DeadlinePassed, NotFound, Unauthorized
from usagebill.operations.portal import opened
from usagebill.portal.accents import style_of
from usagebill.portal.pages import PAGES, Page
from usagebill.portal.visit import Visit, headers_for
from usagebill.storage import deadline

# A style sheet of one color never changes.
_FOREVER = "public, max-age=31536000, immutable"
_POLICY = "content-security-policy"
_EXPIRED = "This link is not valid, or has expired. Please ask for a new one."
_ROOT = "/customer-portal"
ErrorHeaders = Callable[[BillingError], Mapping[str, str]]


def portal_routes(
    billing: Billing, readers: CapacityLimiter, writers: CapacityLimiter, error_headers: ErrorHeaders
) -> Sequence[BaseRoute]:
    """The routes of the portal. Every page carries the token of the link in its path."""

    def answered(page: Page, request: Request, body: bytes) -> Response:
        token = request.path_params["token"]
        with deadline.within(billing.settings.request_timeout):
            organization, customer_id = billing.store.read(None, lambda tx: opened(tx, token, billing.clock.now()))
            root = f"{request.scope.get('root_path', '')}{_ROOT}/{quote(token, safe='')}"
            return page.show(Visit(billing, request, organization, customer_id, root, form_of(body)))

    def served(page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def handler(request: Request) -> Response:
            body = await received(request) if page.method == "POST" else b""
            try:
                limiter = writers if page.writes else readers
                answer = await to_thread.run_sync(partial(answered, page, request, body), limiter=limiter)
            except Unauthorized:
                answer = PlainTextResponse(_EXPIRED, 401)
            except NotFound:
                answer = PlainTextResponse("Not Found", 404)
            except (DeadlinePassed, DatabaseFailed) as problem:
                answer = PlainTextResponse("Service Unavailable", problem.status, headers=dict(error_headers(problem)))
            if _POLICY not in answer.headers:
                answer.headers.update(headers_for(()))
            return answer

        return handler

    async def accents(request: Request) -> Response:
        color = f"#{request.path_params['color']}"
        if not is_color(color):
            return PlainTextResponse("Not Found", 404)
        return Response(style_of(color), media_type="text/css", headers={"cache-control": _FOREVER})

    return [
        Route(f"{_ROOT}/accents/{{color}}.css", accents),
        Mount(f"{_ROOT}/static", StaticFiles(packages=[("usagebill.portal", "static")])),
        *(Route(f"{_ROOT}/{{token}}{page.path}", served(page), methods=[page.method]) for page in PAGES),
    ]
