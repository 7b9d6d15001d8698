"""Users of the console and their sessions. Links and sessions are kept as hashes: the token of each is shown once.

A user who may write API keys is an administrator, and decides who else signs in.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import quote

from usagebill.core.activity_logs import Actor
from usagebill.core.contacts import is_email, normalized_email
from usagebill.core.errors import Invalid, NotFound, Unauthorized
from usagebill.core.organizations import Organization
from usagebill.core.secrets import Secret
from usagebill.core.users import (
    FIRST_ADDRESS,
    LINK_LASTS,
    SESSION_LASTS,
    Role,
    User,
    UserSession,
    is_live,
    is_same_address,
)
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, desc, eq, missing, more, present
from usagebill.storage.ports import Page, Transaction

_CLIENT_LENGTH = 200


@Input
class UserInput:
    """The address names the user in logs, and is where links are sent that the user asks for."""

    email: Maybe[str] = described("The e-mail address.", example="ada@example.com", required="always")
    role: Maybe[str] = described("What the user may do.", values=tuple(Role), required="always")


@Input
class UserUpdate:
    """Fields that are left out keep their values."""

    email: Maybe[str] = described("The e-mail address.", example="ada@example.com")
    role: Maybe[str] = described("What the user may do.", values=tuple(Role))


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInLink:
    """A link that signs a user in, once; it cannot be shown again."""

    user: User
    address: Secret
    expires_at: datetime

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        return self.address.value


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    """Who a browser's session belongs to."""

    organization: Organization
    user: User
    session: UserSession


def hash_of(token: str) -> str:
    """The hash by which a link or a session is found."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


@without_backlog(Unrelated.CONNECTION)
def add(work: Work, request: UserInput) -> SignInLink:
    """Add a user; the result has the link that signs in, once, within 24 hours.

    Raises `Invalid` for an address that is none or is taken, and for an unknown role.
    """
    email = _address(work, value_or(request.email, None))
    return _link(work, _added(work, email, _role(value_or(request.role, None))))


def _added(work: Work, email: str, role: Role) -> User:
    user = User(
        id=work.new_id(),
        organization_id=work.organization.id,
        email=email,
        role=role,
        created_at=work.now,
        updated_at=work.now,
    )
    work.tx.insert(user)
    return user


def list_all(reader: Reader, paging: Paging) -> Page[User]:
    """The users, oldest first."""
    return reader.page(User, paging=paging, order=(asc("created_at"),))


def get(reader: Reader, user_id: str) -> User:
    """A user. Raises `NotFound`."""
    user = reader.tx.get(User, user_id)
    if user is None or user.deleted_at is not None:
        raise NotFound("user", user_id)
    return user


@without_backlog(Unrelated.CONNECTION)
def change(work: Work, user_id: str, request: UserUpdate) -> User:
    """Change a user's address or role, for open sessions too.

    Raises `NotFound`, and `Invalid`, also if no administrator would remain.
    """
    user = get(work, user_id)
    if request.email is not ABSENT:
        former, user = user, replace(user, email=_address(work, value_or(request.email, None), user.id))
        if user.email != former.email:
            # They may be in the mailbox of the former address.
            _end_links(work, user)
    if request.role is not ABSENT:
        role = _role(value_or(request.role, None))
        if role != Role.ADMIN:
            _check_administrator_remains(work, user.id)
        user = replace(user, role=role)
    user = replace(user, updated_at=work.now)
    work.tx.replace(user)
    return user


@without_backlog(Unrelated.CONNECTION)
def remove(work: Work, user_id: str) -> User:
    """Remove a user and end the user's sessions. Raises `NotFound`, and `Invalid` if no administrator would remain."""
    user = get(work, user_id)
    _check_administrator_remains(work, user.id)
    for session in live_sessions(work, user):
        _end(work, session)
    removed = replace(user, deleted_at=work.now, updated_at=work.now)
    work.tx.replace(removed)
    return removed


@without_backlog(Unrelated.CONNECTION)
def link(work: Work, user_id: str) -> SignInLink:
    """A new link that signs the user in, once, within 24 hours; earlier ones that nobody opened end.

    Raises `NotFound`.
    """
    return _link(work, get(work, user_id))


def askers(tx: Transaction, email: str) -> Sequence[tuple[Organization, User]]:
    """The users with this address, each of another organization, who may ask for a link."""
    found = ((tx.get(Organization, user.organization_id), user) for user in tx.find(User, eq("email", email)))
    return [(organization, user) for organization, user in found if organization is not None]


def named_by_provider(tx: Transaction, email: str) -> Sequence[tuple[Organization, User]]:
    """The users whom a provider means by this address, each of another organization: case matters only between two."""
    alike = [user for user in tx.find(User) if is_same_address(user.email, email)]
    exact = [user for user in alike if user.email == email]
    found = ((tx.get(Organization, user.organization_id), user) for user in exact or alike)
    return [(organization, user) for organization, user in found if organization is not None]


def admit(work: Work, email: str, role: Role) -> User:
    """The user with this address, who is added with this role. Whoever was removed is not added again by this.

    Raises `Unauthorized`.
    """
    known = work.tx.find(User, deleted=True)
    alike = [user for user in known if is_same_address(user.email, email)]
    present_one = next((user for user in alike if user.deleted_at is None), None)
    if present_one is None and alike:
        raise Unauthorized
    return present_one or _added(work, email, role)


def sign_in(work: Work, user_id: str, browser: Secret) -> SignedIn:
    """Sign a user in whom a provider has named; from now on `browser` is the session's token. Raises `NotFound`."""
    user = get(work, user_id)
    session = _opened(work, _new_session(work, user, browser, SESSION_LASTS), browser)
    work.tx.insert(session)
    return SignedIn(organization=work.organization, user=user, session=session)


def link_of_first(work: Work) -> SignInLink | None:
    """A link for the first administrator, who is added if there are no users; None once anybody has signed in."""
    if work.tx.first(UserSession, present("opened_at")) is not None:
        return None
    users = work.tx.find(User)
    if any(user.email != FIRST_ADDRESS for user in users):
        return None
    return _link(work, users[0] if users else _added(work, FIRST_ADDRESS, Role.ADMIN))


def named(reader: Reader, email: str) -> User:
    """The user with this address. Raises `NotFound`."""
    user = reader.tx.first(User, eq("email", normalized_email(email)))
    if user is None:
        raise NotFound("user", email)
    return user


def everybody(reader: Reader) -> Sequence[User]:
    """All users, oldest first."""
    return reader.tx.find(User, order=[asc("created_at")])


def list_sessions(reader: Reader, user_id: str) -> Sequence[UserSession]:
    """The live sessions of a user, newest first, and links that nobody has opened yet. Raises `NotFound`."""
    return live_sessions(reader, get(reader, user_id))


@without_backlog(Unrelated.CONNECTION)
def end_session(work: Work, session_id: str) -> UserSession:
    """End a session, or a link, at once. Raises `NotFound`."""
    session = work.tx.get(UserSession, session_id)
    if session is None or not is_live(session, work.now):
        raise NotFound("session", session_id)
    return _end(work, session)


def unopened(tx: Transaction, token: str, now: datetime) -> SignedIn:
    """Whom this link would sign in. It may be any organization's. Raises `Unauthorized`."""
    return _found(tx, token, now, opened=False)


def signed_in(tx: Transaction, token: str, now: datetime) -> SignedIn:
    """Who is signed in with this token of a browser. It may be any organization's. Raises `Unauthorized`."""
    return _found(tx, token, now, opened=True)


def open_link(work: Work, token: str, browser: Secret) -> SignedIn:
    """Sign in with a link, which cannot be used again; from now on `browser` is the session's token.

    Raises `Unauthorized`.
    """
    found = _found(work.tx, token, work.now, opened=False)
    session = _opened(work, found.session, browser)
    work.tx.replace(session)
    return replace(found, session=session)


def _opened(work: Work, session: UserSession, browser: Secret) -> UserSession:
    return replace(
        session,
        value_hash=hash_of(browser.value),
        opened_at=work.now,
        expires_at=work.now + SESSION_LASTS,
        updated_at=work.now,
        client=None if work.actor.client is None else work.actor.client[:_CLIENT_LENGTH],
    )


def acting_as(actor: Actor, user: User) -> Actor:
    """The actor, with the user who makes the change."""
    return replace(actor, user_id=user.id, user_email=user.email)


def _found(tx: Transaction, token: str, now: datetime, *, opened: bool) -> SignedIn:
    session = tx.first(UserSession, eq("value_hash", hash_of(token)))
    if session is None or not is_live(session, now) or (session.opened_at is not None) != opened:
        raise Unauthorized
    user, organization = tx.get(User, session.user_id), tx.get(Organization, session.organization_id)
    if user is None or user.deleted_at is not None or organization is None:
        raise Unauthorized
    return SignedIn(organization=organization, user=user, session=session)


def live_sessions(reader: Reader, user: User) -> list[UserSession]:
    """The live sessions of the user, newest first, and links that nobody has opened yet."""
    return reader.tx.find(
        UserSession,
        eq("user_id", user.id),
        missing("ended_at"),
        more("expires_at", reader.now),
        order=[desc("created_at")],
    )


def _end(work: Work, session: UserSession) -> UserSession:
    ended = replace(session, ended_at=work.now, updated_at=work.now)
    work.tx.replace(ended)
    return ended


def _link(work: Work, user: User) -> SignInLink:
    _end_links(work, user)
    return new_link(work, user, LINK_LASTS)


def _end_links(work: Work, user: User) -> None:
    for session in live_sessions(work, user):
        if session.opened_at is None:
            _end(work, session)


def new_link(work: Work, user: User, lasts: timedelta) -> SignInLink:
    """A link that signs the user in, once, for so long; earlier ones stay valid."""
    token = Secret(secrets.token_urlsafe(32))
    made = _new_session(work, user, token, lasts)
    work.tx.insert(made)
    address = f"{work.settings.public_url.rstrip('/')}/console/sign-in?link={quote(token.value)}"
    return SignInLink(user=user, address=Secret(address), expires_at=made.expires_at)


def _new_session(work: Work, user: User, token: Secret, lasts: timedelta) -> UserSession:
    return UserSession(
        id=work.new_id(),
        organization_id=user.organization_id,
        user_id=user.id,
        value_hash=hash_of(token.value),
        created_at=work.now,
        updated_at=work.now,
        expires_at=work.now + lasts,
    )


def _address(work: Work, text: str | None, own_id: str | None = None) -> str:
    email = normalized_email(text or "")
    if not email:
        raise Invalid(email="value_is_mandatory")
    if "," in email or not is_email(email):
        raise Invalid(email="invalid_email_format")
    taken = work.tx.first(User, eq("email", email))
    if taken is not None and taken.id != own_id:
        raise Invalid(email="value_already_exist")
    return email


def _role(text: str | None) -> Role:
    if not text:
        raise Invalid(role="value_is_mandatory")
    try:
        return Role(text)
    except ValueError:
        raise Invalid(role="value_is_invalid") from None


def _check_administrator_remains(work: Work, leaving_id: str) -> None:
    if not any(user.id != leaving_id for user in work.tx.find(User, eq("role", Role.ADMIN))):
        raise Invalid(base="last_administrator")
