"""Signing out."""

from __future__ import annotations

from starlette.responses import Response

from usagebill.console.pages.page import Page
from usagebill.console.pages.sign_in import COOKIE
from usagebill.console.visits import Visit
from usagebill.operations.users import end_session


def _signed_out(visit: Visit) -> Response:
    """End one's own session, which every role may."""
    seat = visit.seat
    visit.billing.writing(lambda work: end_session(work, seat.who.session.id), seat.who.organization, actor=seat.actor)
    answer = visit.to("/sign-in")
    answer.delete_cookie(COOKIE, path=visit.root or "/")
    return answer


PAGES = (Page("/sign-out", _signed_out, "POST"),)
