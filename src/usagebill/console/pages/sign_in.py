"""Signing in with a link, once."""

from __future__ import annotations

import secrets

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from usagebill.billing import Billing
from usagebill.console.visits import rendered, root_of
from usagebill.core.activity_logs import ActivitySource, Actor
from usagebill.core.errors import Forbidden, Unauthorized
from usagebill.core.secrets import Secret
from usagebill.core.users import SESSION_LASTS
from usagebill.operations.users import acting_as, open_link, unopened

COOKIE = "usagebill_console"
# Links that one client may try to open in a minute.
MOST_A_MINUTE = 10


def asked(billing: Billing, request: Request) -> Response:
    """The page before signing in. Looking at it does not use the link up: previews of links look, too."""
    token, email = request.query_params.get("link", ""), None
    if token:
        try:
            email = billing.store.read(None, lambda tx: unopened(tx, token, billing.clock.now())).user.email
        except Unauthorized:
            return rendered(request, "sign_in.html", 401, token="", email=None, expired=True)
    return rendered(request, "sign_in.html", token=token, email=email, expired=False)


def opened(billing: Billing, request: Request, form: dict[str, str]) -> Response:
    """Sign in with the link of the form, and go home. Raises `Forbidden` for the form of another site."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden("form_of_another_site")
    token, browser = form.get("link", ""), Secret(secrets.token_urlsafe(32))
    try:
        who = billing.store.read(None, lambda tx: unopened(tx, token, billing.clock.now()))
        actor = Actor(source=ActivitySource.FRONT, client=request.headers.get("user-agent"))
        actor = acting_as(actor, who.user)
        billing.writing(lambda work: open_link(work, token, browser), who.organization, actor=actor)
    except Unauthorized:
        return rendered(request, "sign_in.html", 401, token="", email=None, expired=True)
    answer = RedirectResponse(root_of(request) + "/", 303)
    answer.set_cookie(
        COOKIE,
        browser.value,
        max_age=int(SESSION_LASTS.total_seconds()),
        path=root_of(request) or "/",
        secure=is_secure(billing, request),
        httponly=True,
        samesite="lax",
    )
    return answer


def is_secure(billing: Billing, request: Request) -> bool:
    """Whether browsers reach the console by https, perhaps through a proxy that ends it."""
    return request.url.scheme == "https" or billing.settings.public_url.startswith("https:")
