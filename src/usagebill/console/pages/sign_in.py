"""Signing in with a link, once; and asking for one by e-mail."""

from __future__ import annotations

import secrets
from functools import partial

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from usagebill.billing import Billing
from usagebill.console.visits import rendered, root_of
from usagebill.core.activity_logs import ActivitySource, Actor
from usagebill.core.contacts import normalized_email
from usagebill.core.errors import BillingError, Forbidden, Unauthorized
from usagebill.core.secrets import Secret
from usagebill.core.users import SESSION_LASTS
from usagebill.operations.emails.sign_in import ask_for_link, has_sender
from usagebill.operations.users import acting_as, askers, open_link, unopened
from usagebill.process.logs import Log

COOKIE = "usagebill_console"
# Links that one client may try to open, or ask for, in a minute.
MOST_A_MINUTE = 10
_log = Log("usagebill.console")


def asked(billing: Billing, request: Request) -> Response:
    """The page before signing in. Looking at it does not use the link up: previews of links look, too."""
    token, email = request.query_params.get("link", ""), None
    if token:
        try:
            email = billing.store.read(None, lambda tx: unopened(tx, token, billing.clock.now())).user.email
        except Unauthorized:
            return _page(billing, request, 401, expired=True)
    return _page(billing, request, token=token, email=email)


def opened(billing: Billing, request: Request, form: dict[str, str]) -> Response:
    """Sign in with the link of the form, and go home. Raises `Forbidden` for the form of another site."""
    check_site(request)
    token, browser = form.get("link", ""), Secret(secrets.token_urlsafe(32))
    try:
        who = billing.store.read(None, lambda tx: unopened(tx, token, billing.clock.now()))
        actor = Actor(source=ActivitySource.FRONT, client=request.headers.get("user-agent"))
        actor = acting_as(actor, who.user)
        billing.writing(lambda work: open_link(work, token, browser), who.organization, actor=actor)
    except Unauthorized:
        return _page(billing, request, 401, expired=True)
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


def wanted(billing: Billing, request: Request, form: dict[str, str]) -> Response:
    """Send a link to the address of the form, if it is a user's. The answer is the same for all and sent before that is
    looked up: neither it nor its time tells who the users are. Raises `Forbidden` for the form of another site.
    """
    check_site(request)
    answer = _page(billing, request, asked_for=True)
    client = request.headers.get("user-agent")
    answer.background = BackgroundTask(_send_links, billing, normalized_email(form.get("email", "")), client)
    return answer


def _send_links(billing: Billing, email: str, client: str | None) -> None:
    actor = Actor(source=ActivitySource.FRONT, client=client)
    for organization, user in billing.store.read(None, lambda tx: askers(tx, email)):
        try:
            sent = billing.writing(partial(ask_for_link, user_id=user.id), organization, actor=actor)
        except BillingError as problem:
            # Such as an organization that is disabled.
            _log.warning("link_not_sent", user_id=user.id, code=problem.code)
        else:
            _log.info("link_asked_for", user_id=user.id, sent=sent)


def check_site(request: Request) -> None:
    """Raises `Forbidden` for a request that another site has made a browser send."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden("form_of_another_site")


def _page(
    billing: Billing,
    request: Request,
    status: int = 200,
    *,
    token: str = "",
    email: str | None = None,
    expired: bool = False,
    asked_for: bool = False,
) -> Response:
    return rendered(
        request,
        "sign_in.html",
        status,
        token=token,
        email=email,
        expired=expired,
        asked_for=asked_for,
        mails=billing.mailer is not None and billing.reading(has_sender),
    )


def is_secure(billing: Billing, request: Request) -> bool:
    """Whether browsers reach the console by https, perhaps through a proxy that ends it."""
    return request.url.scheme == "https" or billing.settings.public_url.startswith("https:")
