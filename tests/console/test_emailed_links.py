"""Links to sign in that are sent by e-mail: to users alone, once, for a quarter of an hour."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from tests.cases import each
from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario

from usagebill.core.emails import Email
from usagebill.core.errors import Invalid, NotAllowed
from usagebill.operations import organizations, users
from usagebill.operations.emails.sign_in import ask_for_link
from usagebill.process.settings import Settings
from usagebill.runtime.work import Work

pytestmark = pytest.mark.now("2024-03-05T10:00:00Z")
ADA = "ada@example.com"


@pytest.fixture
def mailing(box: Scenario) -> Scenario:
    """A system that has an address to send from, with one user."""
    box.put("/billing_entities/default", billing_entity={"email": "billing@lumen.example"})
    invited(box.billing, "admin", ADA)
    return box


def ask(box: Scenario, email: str, visitor: Visitor | None = None) -> str:
    answer = (visitor or Visitor(box.billing)).ask("POST", "/sign-in", data={"email": email})
    assert answer.status_code == 200
    box.run_due()
    return answer.text


def link_in(email: Email) -> str:
    found = re.search(r"/console/sign-in\?link=([\w-]+)", email.text)
    assert found is not None
    assert found[0] in email.html
    return found[1]


def test_a_user_asks_for_a_link_and_signs_in_with_it_once(mailing: Scenario) -> None:
    assert "Send me a link" in Visitor(mailing.billing).page("/sign-in")
    assert "a link is on its way" in ask(mailing, f" {ADA} ")
    (email,) = mailing.emails
    assert (email.to, email.sender) == ((ADA,), "billing@lumen.example")
    visitor = Visitor(mailing.billing)
    assert visitor.sign_in(link_in(email)).status_code == 303
    assert ADA in visitor.page("/")
    stranger = Visitor(mailing.billing)
    assert stranger.sign_in(link_in(email)).status_code == 401
    assert not stranger.cookies


def test_the_link_ends_after_a_quarter_of_an_hour(mailing: Scenario) -> None:
    ask(mailing, ADA)
    token, made = link_in(mailing.emails[0]), mailing.now
    mailing.travel_to(made + timedelta(minutes=15) - timedelta(seconds=1))
    assert "<strong>ada@example.com" in Visitor(mailing.billing).page(f"/sign-in?link={token}")
    mailing.travel_to(made + timedelta(minutes=15))
    assert Visitor(mailing.billing).sign_in(token).status_code == 401


@each("address", ["nobody@example.com", "admin@localhost", "", "@", "ada@example.com,eve@example.com", "%", "x" * 5000])
def test_nobody_learns_who_the_users_are(mailing: Scenario, address: str) -> None:
    assert ask(mailing, address) == ask(mailing, ADA)
    assert {email.to for email in mailing.emails} == {(ADA,)}


def test_a_mailbox_is_not_flooded_and_has_a_link_that_works_whenever_none_is_sent(mailing: Scenario) -> None:
    mailing.travel_to("2024-03-05T11:00:00Z")
    for minute in range(9):
        mailing.travel_to(f"2024-03-05T12:{minute:02}:00Z")
        ask(mailing, ADA)
    assert len(mailing.emails) == 3
    assert Visitor(mailing.billing).sign_in(link_in(mailing.emails[-1])).status_code == 303
    # A stranger who asks ends no link that an administrator has made.
    made = mailing.billing.users.link(mailing.billing.users.list().items[0].id)
    mailing.travel_to("2024-03-05T13:00:00Z")
    ask(mailing, ADA)
    assert Visitor(mailing.billing).sign_in(made.url.partition("link=")[2]).status_code == 303


def test_asking_is_throttled(mailing: Scenario) -> None:
    visitor = Visitor(mailing.billing)
    for _ in range(10):
        ask(mailing, ADA, visitor)
    answer = visitor.ask("POST", "/sign-in", data={"email": ADA})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")


def test_no_other_site_asks(mailing: Scenario) -> None:
    answer = Visitor(mailing.billing).ask(
        "POST", "/sign-in", data={"email": ADA}, headers={"sec-fetch-site": "cross-site"}
    )
    assert answer.status_code == 403
    mailing.run_due()
    assert mailing.emails == []


def test_no_record_holds_what_signs_in(mailing: Scenario) -> None:
    Visitor(mailing.billing).ask("POST", "/sign-in", data={"email": ADA})
    mailing.run_due()
    token = link_in(mailing.emails[0])
    logs = mailing.get("/api_logs?per_page=100"), mailing.get("/activity_logs?per_page=100")
    assert token not in repr(logs)
    assert token not in repr(mailing.billing.security_logs.list(to_date="2025-01-01").items)


def test_an_administrator_has_a_link_sent_to_a_new_user(mailing: Scenario) -> None:
    admin = Visitor(mailing.billing, mailing.billing.users.link(mailing.billing.users.list().items[0].id))
    made = admin.send_form("/users", email="grace@example.com", role="support", send="yes")
    assert (made.status_code, made.headers["location"]) == (303, "/console/users?sent")
    mailing.run_due()
    (email,) = mailing.emails
    assert email.to == ("grace@example.com",)
    assert "within 24 hours" in email.text
    mailing.travel_to(mailing.now + timedelta(hours=23))
    grace = Visitor(mailing.billing)
    assert grace.sign_in(link_in(email)).status_code == 303
    user = next(user for user in mailing.billing.users.list().items if user.email == "grace@example.com")
    sent = admin.send_form(f"/users/{user.id}", act="send")
    assert sent.headers["location"] == f"/console/users/{user.id}?sent"
    mailing.run_due()
    assert [email.to for email in mailing.emails] == [("grace@example.com",)] * 2
    # Support may not have links sent.
    assert grace.send_form(f"/users/{user.id}", act="send").status_code == 403


def test_links_in_the_mailbox_of_a_former_address_end(mailing: Scenario) -> None:
    ask(mailing, ADA)
    user = mailing.billing.users.list().items[0]
    mailing.billing.users.update(user.id, email="lovelace@example.com")
    assert Visitor(mailing.billing).sign_in(link_in(mailing.emails[0])).status_code == 401


def test_a_user_who_was_removed_is_sent_nothing(mailing: Scenario) -> None:
    invited(mailing.billing, "admin", "other@example.com")
    ada = next(user for user in mailing.billing.users.list().items if user.email == ADA)

    def asked_and_removed(work: Work) -> bool:
        is_ordered = ask_for_link(work, ada.id)
        users.remove(work, ada.id)
        return is_ordered

    assert mailing.billing.writing(asked_and_removed)
    mailing.run_due()
    assert mailing.emails == []
    ask(mailing, ADA)
    assert mailing.emails == []


def test_an_address_of_two_organizations_is_sent_a_link_for_each(mailing: Scenario) -> None:
    other = mailing.billing.store.write(None, lambda tx: organizations.create(tx, mailing.now, "Other Ltd"))
    invited(mailing.billing, "admin", ADA, organization=other)
    ask(mailing, ADA)
    # The other one has no address to send from.
    assert len(mailing.emails) == 1
    mailing.travel_to("2024-03-05T12:00:00Z")
    mailing.billing.store.write(None, lambda tx: organizations.disable(tx, other.id, mailing.now))
    ask(mailing, ADA)
    assert len(mailing.emails) == 2


def test_without_a_mail_server_or_an_address_nothing_is_promised(box: Scenario) -> None:
    user = invited(box.billing, "admin", ADA).user
    with pytest.raises(Invalid) as refused:
        box.billing.users.send_link(user.id)
    assert refused.value.details == {"billing_entity": ["must have email configured"]}
    assert "usagebill users link" in Visitor(box.billing).page("/sign-in")
    assert "e-mail a link" not in Visitor(box.billing, box.billing.users.link(user.id)).page("/users")
    box.put("/billing_entities/default", billing_entity={"email": "billing@lumen.example"})
    assert "Send me a link" in Visitor(box.billing).page("/sign-in")
    assert "e-mail a link" in Visitor(box.billing, box.billing.users.link(user.id)).page("/users")
    box.billing._system.mailer = None
    assert "usagebill users link" in Visitor(box.billing).page("/sign-in")
    with pytest.raises(NotAllowed):
        box.billing.users.send_link(user.id)


def test_links_lead_to_the_public_address_whatever_the_request_says(mailing: Scenario) -> None:
    with Scenario(now="2024-03-05T10:00:00Z", settings=Settings(public_url="https://billing.example")) as other:
        other.put("/billing_entities/default", billing_entity={"email": "billing@lumen.example"})
        invited(other.billing, "admin", ADA)
        Visitor(other.billing).ask("POST", "/sign-in", data={"email": ADA}, headers={"host": "evil.example"})
        other.run_due()
        assert "https://billing.example/console/sign-in?link=" in other.emails[0].text
        assert "evil.example" not in other.emails[0].text + other.emails[0].html
