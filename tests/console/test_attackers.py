"""No page of the console answers a stranger, and no form of another session or of a role that may not does anything."""

from __future__ import annotations

import re

import pytest
from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario

from usagebill.console.forms import FORMS
from usagebill.console.pages import PAGES
from usagebill.core.activity_logs import ActivityLog
from usagebill.core.security_logs import SecurityLog
from usagebill.core.users import Role

pytestmark = pytest.mark.now("2024-03-05T10:00:00Z")
PATHS = [(page.method, re.sub(r"\{[^}]+\}", "x", page.path)) for page in PAGES]


def logged(box: Scenario) -> int:
    """How many changes the logs have."""
    return box.billing.reading(lambda reader: reader.tx.count(ActivityLog) + reader.tx.count(SecurityLog))


@pytest.mark.slow
def test_a_stranger_gets_no_page_and_changes_nothing(box: Scenario) -> None:
    box.customer()
    invited(box.billing, "admin")
    before = logged(box)
    for cookie in ("", "guessed", "0" * 64, "ö"):
        stranger = Visitor(box.billing)
        stranger.cookies = {"usagebill_console": cookie} if cookie.isascii() else {}
        for method, path in PATHS:
            answer = stranger.ask(method, path, **({"data": {"act": "remove"}} if method == "POST" else {}))
            if method == "GET":
                assert (answer.status_code, answer.headers["location"]) == (303, "/console/sign-in"), path
            else:
                assert answer.status_code == 401, path
    assert logged(box) == before


def test_an_ended_session_is_a_strangers(box: Scenario) -> None:
    visitor = Visitor(box.billing, invited(box.billing, "admin"))
    token = visitor.form_token()
    visitor.send_form("/sign-out")
    visitor.cookies = dict(Visitor(box.billing, invited(box.billing, "admin", "b@example.com")).cookies)
    # A form of the session that ended, sent in another.
    for method, path in PATHS:
        if method == "POST":
            assert visitor.ask("POST", path, data={"csrf": token}).status_code == 403, path


def test_a_form_without_the_token_of_its_session_does_nothing(box: Scenario) -> None:
    visitor = Visitor(box.billing, invited(box.billing, "admin"))
    before = logged(box)
    for method, path in PATHS:
        if method == "POST":
            for sent in ({}, {"csrf": ""}, {"csrf": "0" * 64}):
                assert visitor.ask("POST", path, data={**sent, "act": "remove"}).status_code == 403, path
    assert logged(box) == before


def test_who_only_reads_gets_no_form_and_sends_none(box: Scenario) -> None:
    visitor = Visitor(box.billing, invited(box.billing, Role.READ_ONLY))
    before = logged(box)
    for form in FORMS:
        visitor.page(f"/new/{form.path}", status=403)
        sent = {"name": "x", "code": "x", "external_id": "x", "webhook_url": "https://x.example"}
        assert visitor.send_form(f"/new/{form.path}", **sent).status_code == 403, form.path
    assert logged(box) == before
