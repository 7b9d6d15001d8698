"""Users of the console: their roles, and their sessions, each opened once with a link."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from usagebill.core.api_keys import MODES, RESOURCES, all_permissions

# How long a link can be opened, and the session that it opens lasts.
LINK_LASTS = timedelta(hours=24)
SESSION_LASTS = timedelta(days=14)
# How long a link can be opened that somebody has asked for by e-mail.
REQUESTED_LINK_LASTS = timedelta(minutes=15)
# A user is sent no link while the one before is younger than this, so whoever is sent none has one that works.
BETWEEN_LINKS = timedelta(minutes=3)
# The address of the first user, whose link `usagebill serve` prints.
FIRST_ADDRESS = "admin@localhost"


class Role(StrEnum):
    """What a user is there for."""

    ADMIN = "admin"
    FINANCE = "finance"
    SUPPORT = "support"
    READ_ONLY = "read_only"


# Who else may call, and what they did: administrators alone.
_ADMINISTRATION = frozenset({"api_key", "api_log", "security_log"})
_MONEY = (
    "applied_coupon",
    "credit_note",
    "customer",
    "fee",
    "invoice",
    "payment",
    "payment_method",
    "payment_receipt",
    "payment_request",
    "wallet",
    "wallet_transaction",
)
_SERVICE = ("alert", "applied_coupon", "customer", "subscription")


def _reading(*written: str) -> Mapping[str, tuple[str, ...]]:
    """Read everything but the administration, and write these."""
    return {
        resource: MODES if resource in written else ("read",)
        for resource in RESOURCES
        if resource not in _ADMINISTRATION
    }


# Role -> its permissions, as those of a key.
ROLES: Mapping[Role, Mapping[str, tuple[str, ...]]] = {
    Role.ADMIN: all_permissions(),
    Role.FINANCE: _reading(*_MONEY),
    Role.SUPPORT: _reading(*_SERVICE),
    Role.READ_ONLY: _reading(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person who signs in to the console, named by an e-mail address."""

    id: str
    organization_id: str
    email: str
    role: Role
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSession:
    """A session of a user: first a link, until `opened_at`; then a browser that is signed in.

    `value_hash` is the SHA-256, in hexadecimal, of what is sent: the token of the link, then that of the browser.
    `expires_at` is the first instant at which it is no longer valid. `client` is the browser's `User-Agent`.
    """

    id: str
    organization_id: str
    user_id: str
    value_hash: str = field(repr=False)
    created_at: datetime
    updated_at: datetime
    expires_at: datetime
    opened_at: datetime | None = None
    ended_at: datetime | None = None
    client: str | None = None


def is_same_address(one: str, other: str) -> bool:
    """Whether two addresses differ in the case of ASCII letters at most: providers write them as they like."""
    return one == other or (one.isascii() and other.isascii() and one.lower() == other.lower())


def is_of_domain(email: str, domains: Iterable[str]) -> bool:
    """Whether an address is of one of these domains; without domains any is."""
    named = list(domains)
    own = email.rpartition("@")[2]
    return not named or any(is_same_address(own, domain) for domain in named)


def is_live(session: UserSession, now: datetime) -> bool:
    """Whether the link can be opened at `now`, or the browser is signed in."""
    return session.ended_at is None and now < session.expires_at


def is_sent_link(user: User, sessions: Iterable[UserSession], now: datetime) -> bool:
    """Whether a user who asks for a link is sent one, given the user's sessions."""
    if user.email == FIRST_ADDRESS:
        return False
    asked_for = (session for session in sessions if session.expires_at - session.created_at == REQUESTED_LINK_LASTS)
    return not any(is_live(link, now) and now - link.created_at < BETWEEN_LINKS for link in asked_for)
