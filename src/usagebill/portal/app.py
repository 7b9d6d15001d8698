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
from usagebill.core.errors import BillingError, DatabaseFailed, DeadlinePassed, NotFound, Unauthorized
from usagebill.operations.portal import opened
from usagebill.portal.pages import PAGES, Page
from usagebill.portal.visit import Visit
from usagebill.storage import deadline

# No scripts, nothing from elsewhere (the logo is inlined), and no trace of the link in other sites' logs.
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; img-src data:; style-src 'self'; form-action 'self' https:; base-uri 'none';"
        " frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex",
}
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
            answer.headers.update({name: value for name, value in _HEADERS.items() if name not in answer.headers})
            return answer

        return handler

    return [
        Mount(f"{_ROOT}/static", StaticFiles(packages=[("usagebill.portal", "static")])),
        *(Route(f"{_ROOT}/{{token}}{page.path}", served(page), methods=[page.method]) for page in PAGES),
    ]
