"""Users: added, changed and removed; their sessions, and links to sign in with."""

from __future__ import annotations

from starlette.responses import Response

from usagebill.console.pages.page import Page
from usagebill.console.visits import Visit
from usagebill.core.errors import Invalid, NotAllowed
from usagebill.core.users import Role
from usagebill.operations.emails.sign_in import has_sender


def _mails(visit: Visit) -> bool:
    """Whether links can be sent: there is a mail server, and an address to send from."""
    return visit.billing._system.mailer is not None and visit.billing.reading(has_sender, visit.seat.who.organization)


def _listed(visit: Visit, problem: str = "", link: object = None, status: int = 200) -> Response:
    found = visit.seat.listed("users.list", per_page=100)
    return visit.page(
        "users.html",
        status,
        found=found,
        roles=list(Role),
        problem=problem,
        link_made=link,
        sent=visit.form,
        mails=_mails(visit),
        is_sent="sent" in visit.request.query_params and not visit.form,
    )


def _added(visit: Visit) -> Response:
    try:
        made = visit.seat.ask("users.add", email=visit.form.get("email", ""), role=visit.form.get("role", ""))
    except Invalid as problem:
        return _listed(visit, problem.message, status=422)
    if "send" in visit.form:
        try:
            visit.seat.ask("users.send_link", made["user"]["svc_id"])
        except (Invalid, NotAllowed) as problem:
            return _listed(visit, problem.message, link=made)
        return visit.to("/users?sent")
    return _listed(visit, link=made)


def _one(visit: Visit, problem: str = "", link: object = None, status: int = 200) -> Response:
    id = visit.named("id")
    user = visit.seat.ask("users.get", id)
    sessions = visit.seat.ask("users.sessions", id)
    return visit.page(
        "user.html",
        status,
        record=user,
        sessions=sessions,
        roles=list(Role),
        problem=problem,
        link_made=link,
        own_session=visit.seat.who.session.id,
        mails=_mails(visit),
        is_sent="sent" in visit.request.query_params and not visit.form,
    )


def _changed(visit: Visit) -> Response:
    id, act = visit.named("id"), visit.form.get("act", "")
    try:
        match act:
            case "change":
                visit.seat.ask("users.update", id, email=visit.form.get("email", ""), role=visit.form.get("role", ""))
            case "link":
                return _one(visit, link=visit.seat.ask("users.link", id))
            case "send":
                visit.seat.ask("users.send_link", id)
                return visit.to(f"/users/{id}?sent")
            case "end":
                visit.seat.ask("users.end_session", visit.form.get("session", ""))
            case "remove":
                visit.seat.ask("users.remove", id)
                return visit.to("/users")
    except (Invalid, NotAllowed) as problem:
        return _one(visit, problem.message, status=422)
    return visit.to(f"/users/{id}")


PAGES = (
    Page("/users", _listed),
    Page("/users", _added, "POST"),
    Page("/users/{id}", _one),
    Page("/users/{id}", _changed, "POST"),
)
