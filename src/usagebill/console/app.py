"""The console as an ASGI app: who is signed in, which page answers, and what every answer forbids a browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from usagebill.billing import Billing
from usagebill.browser.forms import form_of, received
from usagebill.console.pages import PAGES, Page, clock, sign_in
from usagebill.console.pages.listing import navigation
from usagebill.console.seat import Seat
from usagebill.console.visits import Visit, check_csrf, rendered, root_of
from usagebill.core.errors import (
    BillingError,
    DatabaseFailed,
    DeadlinePassed,
    Forbidden,
    NotFound,
    TooManyRequests,
    Unauthorized,
)
from usagebill.core.secrets import Secret
from usagebill.operations.users import signed_in
from usagebill.outside import openid
from usagebill.process.rate_limit import RateLimit
from usagebill.requests.refusals import word
from usagebill.runtime.clock import MovedByHand
from usagebill.storage import deadline

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex",
}
_THREADS = 16
_TRAVEL_SECONDS = 3600.0
# An instant before any session ends: they outlive the months of a sandbox.
_ALWAYS = datetime.min.replace(tzinfo=UTC)
_Act = Callable[[Request, bytes], Response]


def console_app(billing: Billing, *, sandbox: MovedByHand | None = None) -> ASGIApp:
    """The console over `billing`: mount it under a prefix of your own application.

    With the `sandbox` that `billing` belongs to, every page shows its clock and moves it.

    Sessions belong to organizations: a user sees the one that the user was added to, whichever `billing` shows. Raises
    `ModuleNotFoundError` if the settings name an OpenID Connect provider, without the extra `oidc`.
    """
    if billing.settings.oidc_issuer is not None:
        openid.check_installed()
    limiter, attempts = CapacityLimiter(_THREADS), RateLimit(sign_in.MOST_A_MINUTE)

    def at_page(page: Page, request: Request, body: bytes) -> Response:
        visit = _visit(billing, request, body, _ALWAYS if sandbox else billing.clock.now())
        return page.answer(visit)

    def signing_in(request: Request, body: bytes) -> Response:
        if request.method == "GET":
            return sign_in.asked(billing, request)
        throttle(request)
        form = form_of(body)
        return (sign_in.wanted if "email" in form else sign_in.opened)(billing, request, form)

    def throttle(request: Request) -> None:
        client = "" if request.client is None else request.client.host
        standing = attempts.count(client, billing.clock.now())
        if standing.remaining < 0:
            raise TooManyRequests

    def at_provider(request: Request, _: bytes) -> Response:
        return sign_in.at_provider(billing, request)

    def from_provider(request: Request, _: bytes) -> Response:
        throttle(request)
        return sign_in.from_provider(billing, request)

    def bare(_: Request, __: bytes) -> Response:
        raise NotFound("page")

    def at_clock(request: Request, body: bytes) -> Response:
        assert sandbox is not None
        return clock.moved_by(_visit(billing, request, body, _ALWAYS), sandbox)

    def served(
        act: _Act, seconds: float = billing.settings.request_timeout
    ) -> Callable[[Request], Awaitable[Response]]:
        async def handler(request: Request) -> Response:
            body = await received(request)
            answer = await to_thread.run_sync(partial(_answered, seconds, act, request, body), limiter=limiter)
            answer.headers.update({name: value for name, value in _HEADERS.items() if name not in answer.headers})
            return answer

        return handler

    pages = [Route(page.path, served(partial(at_page, page)), methods=[page.method]) for page in PAGES]
    if sandbox is not None:
        # Months may take a while.
        pages.insert(0, Route("/clock", served(at_clock, _TRAVEL_SECONDS), methods=["POST"]))
    app = Starlette(
        routes=[
            Mount("/static", StaticFiles(packages=[("usagebill.console", "static")])),
            Route("/sign-in", served(signing_in), methods=["GET", "POST"]),
            Route(sign_in.PROVIDER_PATH, served(at_provider), methods=["GET"]),
            Route(f"{sign_in.PROVIDER_PATH}/answer", served(from_provider), methods=["GET"]),
            *pages,
            Route("/{rest:path}", served(bare)),
        ]
    )
    app.state.sandbox = sandbox
    return app


def _visit(billing: Billing, request: Request, body: bytes, now: datetime) -> Visit:
    token = Secret(request.cookies.get(sign_in.COOKIE, ""))
    who = billing.store.read(None, lambda tx: signed_in(tx, token.value, now))
    form = form_of(body) if request.method == "POST" else {}
    if request.method == "POST":
        check_csrf(token, form.get("csrf", ""))
    seat = Seat(
        billing,
        who,
        request_id=request.headers.get("x-request-id"),
        client=request.headers.get("user-agent"),
    )
    return Visit(billing, request, seat, token, form, navigation(seat))


def _answered(seconds: float, act: _Act, request: Request, body: bytes) -> Response:
    try:
        with deadline.within(seconds):
            return act(request, body)
    except Unauthorized:
        if request.method == "GET":
            return RedirectResponse(root_of(request) + "/sign-in", 303)
        return _refused(request, 401, "You are not signed in", "Your session has ended. Ask for a new link to sign in.")
    except BillingError as problem:
        word(problem)
        title, text = _TITLES.get(type(problem), ("That is not possible", problem.message or problem.code))
        answer = _refused(request, problem.status, title, text)
        if isinstance(problem, (TooManyRequests, DeadlinePassed, DatabaseFailed)):
            answer.headers["retry-after"] = "60"
        return answer


_TITLES: dict[type[BillingError], tuple[str, str]] = {
    Forbidden: ("You may not do that", "Your role does not permit it, or the form is of an earlier session."),
    NotFound: ("There is no such page", "It may have been removed, or the address is incomplete."),
    TooManyRequests: ("Too many attempts", "Wait a minute, then open your link again."),
    DeadlinePassed: ("That took too long", "Try again, or narrow the list down with a filter."),
}


def _refused(request: Request, status: int, title: str, text: str) -> Response:
    return rendered(request, "refused.html", status, title=title, text=text)
