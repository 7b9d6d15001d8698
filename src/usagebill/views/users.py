"""Users of the console as JSON."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.users import User, UserSession
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text


class UserView(TypedDict):
    svc_id: Id
    email: str
    role: str
    created_at: Instant
    updated_at: Instant


class UserSessionView(TypedDict):
    svc_id: Id
    svc_user_id: Id
    client: str | None
    created_at: Instant
    opened_at: Instant | None
    expires_at: Instant


def user_view(_: Reader, user: User) -> UserView:
    """A user with the role."""
    return {
        "svc_id": user.id,
        "email": user.email,
        "role": user.role,
        "created_at": instant_text(user.created_at),
        "updated_at": instant_text(user.updated_at),
    }


def user_session_view(_: Reader, session: UserSession) -> UserSessionView:
    """A session; without `opened_at` it is a link that nobody has opened yet."""
    return {
        "svc_id": session.id,
        "svc_user_id": session.user_id,
        "client": session.client,
        "created_at": instant_text(session.created_at),
        "opened_at": instant_text(session.opened_at),
        "expires_at": instant_text(session.expires_at),
    }
