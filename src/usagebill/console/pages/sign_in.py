"""Signing in with a link, once, or at an OpenID Connect provider; and asking for a link by e-mail."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from urllib.parse import urlsplit

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from usagebill.billing import Billing
from usagebill.console.visits import rendered, root_of
from usagebill.core.activity_logs import ActivitySource, Actor
from usagebill.core.contacts import normalized_email
from usagebill.core.errors import BillingError, Forbidden, NotFound, Unauthorized
from usagebill.core.secrets import Secret
from usagebill.core.users import REQUESTED_LINK_LASTS, SESSION_LASTS, Role, User, is_of_domain
from usagebill.operations.emails.sign_in import ask_for_link, has_sender
from usagebill.operations.users import (
    SignInLink,
    acting_as,
    admit,
    askers,
    named_by_provider,
    new_link,
    open_link,
    sign_in,
    unopened,
)
from usagebill.outside.openid import NotSignedIn, OpenIdProvider
from usagebill.process.logs import Log
from usagebill.runtime.work import Work

COOKIE = "usagebill_console"
PROVIDER_PATH = "/sign-in/openid"
_ATTEMPT = "usagebill_openid"
_ATTEMPT_LASTS = timedelta(minutes=10)
# Links that one client may try to open, or ask for, in a minute; attempts at a provider count, too.
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
    return _home(billing, request, browser)


def _home(billing: Billing, request: Request, browser: Secret) -> Response:
    answer = RedirectResponse(root_of(request) + "/", 303)
    _keep(billing, request, answer, COOKIE, browser, SESSION_LASTS, root_of(request) or "/")
    return answer


def _keep(
    billing: Billing, request: Request, answer: Response, cookie: str, value: Secret, lasts: timedelta, path: str
) -> None:
    answer.set_cookie(
        cookie,
        value.value,
        max_age=int(lasts.total_seconds()),
        path=path,
        secure=is_secure(billing, request),
        httponly=True,
        samesite="lax",
    )


def at_provider(billing: Billing, request: Request) -> Response:
    """Send the browser to the provider. What it needs to come back is in a cookie, so nothing is stored."""
    browser = Secret(secrets.token_urlsafe(32))
    try:
        answer = RedirectResponse(_provider(billing, request).address(browser), 303)
    except NotSignedIn as problem:
        return _not_signed_in(billing, request, problem)
    _keep(billing, request, answer, _ATTEMPT, browser, _ATTEMPT_LASTS, root_of(request) + PROVIDER_PATH)
    return answer


def from_provider(billing: Billing, request: Request) -> Response:
    """Sign in whom the provider has named, or say why it is nobody. An attempt counts once."""
    browser = Secret(request.cookies.get(_ATTEMPT, ""))
    try:
        email = _provider(billing, request).email(browser, request.query_params)
        answer = _admitted(billing, request, email)
    except NotSignedIn as problem:
        answer = _not_signed_in(billing, request, problem)
    answer.delete_cookie(_ATTEMPT, path=root_of(request) + PROVIDER_PATH)
    return answer


def _admitted(billing: Billing, request: Request, email: str) -> Response:
    """Signed in as the user with this address, once it is clear in which organization. Raises `NotSignedIn`."""
    settings = billing.settings
    if not is_of_domain(email, settings.oidc_domains):
        raise NotSignedIn(f"{email} is of none of the domains that are let in")
    actor = Actor(source=ActivitySource.FRONT, client=request.headers.get("user-agent"))
    known = billing.store.read(None, lambda tx: named_by_provider(tx, email))
    if not known and settings.oidc_role is not None:
        role = Role(settings.oidc_role)
        try:
            known = [(billing.organization, billing.writing(lambda work: admit(work, email, role), actor=actor))]
        except Unauthorized:
            raise NotSignedIn(f"{email} was removed from the users of this console") from None
    if not known:
        raise NotSignedIn(f"{email} is no user of this console: an administrator adds users on the page “Users”")
    if len(known) > 1:
        links = [
            (organization.name, billing.writing(partial(_own_link, user=user), organization, actor=actor))
            for organization, user in known
        ]
        return _page(billing, request, choices=[(name, link.url.partition("link=")[2]) for name, link in links])
    browser, (organization, user) = Secret(secrets.token_urlsafe(32)), known[0]
    billing.writing(lambda work: sign_in(work, user.id, browser), organization, actor=acting_as(actor, user))
    return _home(billing, request, browser)


def _own_link(work: Work, user: User) -> SignInLink:
    return new_link(work, user, REQUESTED_LINK_LASTS)


def _provider(billing: Billing, request: Request) -> OpenIdProvider:
    """The provider, which sends browsers back to the public address, whatever the request says."""
    if billing.settings.oidc_issuer is None:
        raise NotFound("page")
    public = urlsplit(billing.settings.public_url)
    return OpenIdProvider(
        billing.settings, f"{public.scheme}://{public.netloc}{root_of(request)}{PROVIDER_PATH}/answer"
    )


def _not_signed_in(billing: Billing, request: Request, problem: NotSignedIn) -> Response:
    _log.warning("not_signed_in", issuer=billing.settings.oidc_issuer, reason=str(problem))
    return _page(billing, request, 503 if problem.is_unreachable else 401, problem=str(problem))


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
    problem: str | None = None,
    choices: Sequence[tuple[str, str]] = (),
) -> Response:
    return rendered(
        request,
        "sign_in.html",
        status,
        token=token,
        email=email,
        expired=expired,
        asked_for=asked_for,
        problem=problem,
        choices=choices,
        provider=urlsplit(billing.settings.oidc_issuer or "").hostname,
        provider_path=PROVIDER_PATH,
        mails=billing._system.mailer is not None and billing.reading(has_sender),
    )


def is_secure(billing: Billing, request: Request) -> bool:
    """Whether browsers reach the console by https, perhaps through a proxy that ends it."""
    return request.url.scheme == "https" or billing.settings.public_url.startswith("https:")
