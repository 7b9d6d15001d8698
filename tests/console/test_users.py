"""Who gets into the console, and what each may do there."""

from __future__ import annotations

from datetime import timedelta

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.asgi import send
from tests.cases import each
from tests.console.visitor import AGENT, Visitor, invited, token_of
from tests.scenarios import Scenario

from usagebill import Billing
from usagebill.console import console_app
from usagebill.console.lists import LISTS
from usagebill.console.seat import operation_named
from usagebill.core.api_keys import MODES, RESOURCES as GRANTED
from usagebill.core.errors import Invalid
from usagebill.core.users import ROLES, Role
from usagebill.http.app import create_app, endpoints
from usagebill.operations import organizations, users
from usagebill.operations.users import UserInput
from usagebill.process.settings import Settings
from usagebill.resources import PERMISSIONS

pytestmark = pytest.mark.now("2024-03-05T10:00:00Z")


@pytest.fixture
def admin(box: Scenario) -> Visitor:
    return Visitor(box.billing, invited(box.billing, "admin"))


def test_roles_are_sets_of_the_permissions_of_keys() -> None:
    assert ROLES[Role.ADMIN] == dict.fromkeys(GRANTED, MODES)
    for role in Role:
        assert set(ROLES[role]) <= set(GRANTED)
    for role in (Role.FINANCE, Role.SUPPORT, Role.READ_ONLY):
        assert not {"api_key", "api_log", "security_log"} & set(ROLES[role])
    written = {role: {name for name, modes in ROLES[role].items() if "write" in modes} for role in Role}
    assert written[Role.READ_ONLY] == set()
    assert written[Role.SUPPORT] == {"alert", "applied_coupon", "customer", "subscription"}
    assert {"invoice", "credit_note", "payment", "wallet"} <= written[Role.FINANCE]
    assert not {"plan", "billable_metric", "tax", "event"} & written[Role.FINANCE]


def test_an_operation_needs_the_permission_of_a_role_that_it_needs_of_a_key() -> None:
    needed = {endpoint.call: endpoint.permission for endpoint in endpoints() if endpoint.call in PERMISSIONS}
    assert needed == {call: PERMISSIONS[call] for call in needed}
    assert len(needed) > 200
    assert operation_named("users.add").permission == "api_key"


def test_a_link_signs_in_once_and_looking_at_it_does_not_use_it_up(box: Scenario) -> None:
    link = invited(box.billing, "admin")
    visitor = Visitor(box.billing)
    for _ in range(2):
        assert "admin@example.com" in visitor.page(f"/sign-in?link={token_of(link)}")
    answer = visitor.sign_in(token_of(link))
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/")
    assert "admin@example.com" in visitor.page("/")
    stranger = Visitor(box.billing)
    assert stranger.sign_in(token_of(link)).status_code == 401
    assert not stranger.cookies
    assert "opened before" in stranger.page(f"/sign-in?link={token_of(link)}", status=401)


def test_a_link_ends_after_a_day_and_when_a_newer_one_is_made(box: Scenario) -> None:
    first = invited(box.billing, "admin")
    second = box.billing.users.link(first.user.id)
    assert Visitor(box.billing).sign_in(token_of(first)).status_code == 401
    box.travel_to(box.now + timedelta(hours=24))
    assert Visitor(box.billing).sign_in(token_of(second)).status_code == 401
    third = box.billing.users.link(first.user.id)
    box.travel_to(box.now + timedelta(hours=24) - timedelta(seconds=1))
    assert Visitor(box.billing).sign_in(token_of(third)).status_code == 303


def test_a_session_ends_after_two_weeks(box: Scenario, admin: Visitor) -> None:
    box.travel_to(box.now + timedelta(days=14) - timedelta(seconds=1))
    admin.page("/")
    box.travel_to(box.now + timedelta(seconds=1))
    assert admin.ask("GET", "/").headers["location"] == "/console/sign-in"


@each("path", ["/", "/customers", "/customers/acme", "/users", "/invoices/x/pdf", "/nowhere"], ids=str)
def test_a_stranger_is_sent_to_sign_in(box: Scenario, path: str) -> None:
    for cookie in ("", "guessed"):
        stranger = Visitor(box.billing)
        stranger.cookies = {"usagebill_console": cookie}
        answer = stranger.ask("GET", path)
        assert answer.status_code == (404 if path == "/nowhere" else 303)
        assert "location" not in answer.headers or answer.headers["location"] == "/console/sign-in"
    assert Visitor(box.billing).ask("POST", "/users", data={"email": "a@b.example", "role": "admin"}).status_code == 401


def test_the_cookie_is_for_this_browser_alone(box: Scenario) -> None:
    answer = Visitor(box.billing).sign_in(token_of(invited(box.billing, "admin")))
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Path=/console" in cookie
    assert "Secure" not in cookie
    with Scenario(now="2024-03-05T10:00:00Z", settings=Settings(public_url="https://billing.example")) as other:
        answer = Visitor(other.billing).sign_in(token_of(invited(other.billing, "admin")))
        assert "Secure" in answer.headers["set-cookie"]


def test_no_page_lets_a_script_in(admin: Visitor) -> None:
    for path in ("/", "/sign-in", "/customers", "/customers/none", "/nowhere"):
        headers = admin.ask("GET", path).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_a_form_of_another_session_changes_nothing(box: Scenario, admin: Visitor) -> None:
    other = Visitor(box.billing, invited(box.billing, "admin", "other@example.com"))
    for token in ("", "0" * 64, "ö", other.form_token()):
        answer = admin.ask("POST", "/users", data={"csrf": token, "email": "new@example.com", "role": "admin"})
        assert answer.status_code == 403
        assert admin.ask("POST", "/sign-out", data={"csrf": token}).status_code == 403
    assert len(box.billing.users.list().items) == 2
    admin.page("/")


def test_no_other_site_signs_a_browser_in(box: Scenario) -> None:
    visitor, link = Visitor(box.billing), invited(box.billing, "admin")
    data = {"link": token_of(link)}
    answer = visitor.ask("POST", "/sign-in", data=data, headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 403
    assert not visitor.cookies
    assert visitor.sign_in(token_of(link)).status_code == 303


def test_guessing_links_is_throttled(box: Scenario) -> None:
    visitor, link = Visitor(box.billing), invited(box.billing, "admin")
    assert [visitor.sign_in("guess").status_code for _ in range(10)] == [401] * 10
    answer = visitor.sign_in(token_of(link))
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
    box.travel_to(box.now + timedelta(minutes=1))
    assert visitor.sign_in(token_of(link)).status_code == 303


@each("role", [Role.FINANCE, Role.SUPPORT, Role.READ_ONLY], ids=str)
def test_other_roles_see_no_administration(box: Scenario, role: Role) -> None:
    visitor = Visitor(box.billing, invited(box.billing, role))
    before, home = box.billing.users.list().items, visitor.page("/")
    for path in ("/users", "/keys", "/requests", "/security"):
        assert f'href="/console{path}"' not in home
        visitor.page(path, status=403)
    assert visitor.send_form("/users", email="new@example.com", role="admin").status_code == 403
    assert box.billing.users.list().items == before
    visitor.page("/customers")


def test_a_user_sees_its_own_organization_alone(box: Scenario, acme: None) -> None:
    other = box.billing.store.write(None, lambda tx: organizations.create(tx, box.now, "Other Ltd"))
    visitor = Visitor(box.billing, invited(box.billing, "admin", organization=other))
    assert "Other Ltd" in visitor.page("/")
    assert "acme" not in visitor.page("/customers")
    visitor.page("/customers/acme", status=404)
    mine = invited(box.billing, "finance")
    visitor.page(f"/users/{mine.user.id}", status=404)
    assert "finance@example.com" not in visitor.page("/users")


def test_users_are_added_changed_and_removed(box: Scenario, admin: Visitor) -> None:
    made = admin.send_form("/users", email="grace@example.com", role="support")
    assert made.status_code == 200
    assert "https://" in made.text or "http://" in made.text
    grace = next(user for user in box.billing.users.list().items if user.email == "grace@example.com")
    link = made.text.partition('class="secret">')[2].partition("<")[0]
    visitor = Visitor(box.billing)
    assert visitor.sign_in(token_of(link)).status_code == 303
    assert AGENT in admin.page(f"/users/{grace.id}")
    path = f"/users/{grace.id}"
    assert admin.send_form(path, act="change", email="grace@example.com", role="admin").status_code == 303
    visitor.page("/keys")
    (session,) = box.billing.users.sessions(grace.id)
    assert admin.send_form(path, act="end", session=session.id).status_code == 303
    assert visitor.ask("GET", "/").status_code == 303
    again = Visitor(box.billing, box.billing.users.link(grace.id))
    again.page("/")
    assert admin.send_form(path, act="remove").status_code == 303
    assert again.ask("GET", "/").status_code == 303
    admin.page(path, status=404)
    events = [
        (entry.log_event, entry.user_email) for entry in box.billing.security_logs.list(to_date="2025-01-01").items
    ]
    assert set(events) >= {
        ("user.invited", "admin@example.com"),
        ("user.new_device_logged_in", "grace@example.com"),
        ("user.role_edited", "admin@example.com"),
        ("user.session_ended", "admin@example.com"),
        ("user.deleted", "admin@example.com"),
    }
    mine = box.billing.security_logs.list(to_date="2025-01-01", user_ids=[grace.id])
    assert {entry.user_email for entry in mine.items} == {"grace@example.com"}


def test_the_last_administrator_stays(box: Scenario, admin: Visitor) -> None:
    (user,) = box.billing.users.list().items
    for fields in ({"act": "remove"}, {"act": "change", "email": user.email, "role": "finance"}):
        answer = admin.send_form(f"/users/{user.id}", **fields)
        assert answer.status_code == 422
        assert "administrator" in answer.text
    assert [user.role for user in box.billing.users.list().items] == [Role.ADMIN]


@each(
    "fields,expected",
    [
        ({"role": "admin"}, {"email": ["value_is_mandatory"]}),
        ({"email": "nobody", "role": "admin"}, {"email": ["invalid_email_format"]}),
        ({"email": "a@b.example,c@d.example", "role": "admin"}, {"email": ["invalid_email_format"]}),
        ({"email": "admin@example.com", "role": "admin"}, {"email": ["value_already_exist"]}),
        ({"email": "new@example.com"}, {"role": ["value_is_mandatory"]}),
        ({"email": "new@example.com", "role": "owner"}, {"role": ["value_is_invalid"]}),
    ],
    ids=str,
)
def test_a_user_needs_an_address_of_its_own_and_a_role(
    box: Scenario, fields: dict[str, str], expected: dict[str, list[str]]
) -> None:
    if not box.billing.users.list().items:
        invited(box.billing, "admin")
    with pytest.raises(Invalid) as refused:
        box.billing.writing(lambda work: users.add(work, UserInput(**fields)))
    assert refused.value.details == expected


def test_signing_out_ends_the_session(box: Scenario, admin: Visitor) -> None:
    stolen = dict(admin.cookies)
    assert admin.send_form("/sign-out").headers["location"] == "/console/sign-in"
    admin.cookies = stolen
    assert admin.ask("GET", "/").status_code == 303


def test_the_first_administrator_has_a_link_until_somebody_signs_in(box: Scenario) -> None:
    first = box.billing.writing(users.link_of_first)
    second = box.billing.writing(users.link_of_first)
    assert first is not None
    assert second is not None
    assert len(box.billing.users.list().items) == 1
    assert Visitor(box.billing).sign_in(token_of(first)).status_code == 401
    Visitor(box.billing, second).page("/users")
    assert box.billing.writing(users.link_of_first) is None


def test_there_is_no_link_for_a_first_administrator_beside_users_that_were_added(box: Scenario) -> None:
    invited(box.billing, "admin")
    assert box.billing.writing(users.link_of_first) is None


def test_the_console_is_left_out_or_mounted_elsewhere(box: Scenario) -> None:
    alone = create_app(box.billing, console=False)
    assert send(alone, "GET", "/").status_code == 404
    assert send(alone, "GET", "/console/").status_code == 404
    assert send(create_app(box.billing), "GET", "/").headers["location"] == "/console/"
    assert send(create_app(box.billing), "GET", "/console").headers["location"] == "/console/"
    host = Starlette(routes=[Mount("/back/office", console_app(box.billing))])
    token = token_of(invited(box.billing, "admin"))
    answer = send(host, "POST", "/back/office/sign-in", data={"link": token})
    assert answer.headers["location"] == "/back/office/"
    assert "Path=/back/office;" in answer.headers["set-cookie"]
    cookie = answer.headers["set-cookie"].partition(";")[0]
    page = send(host, "GET", "/back/office/", headers={"cookie": cookie}).text
    assert 'href="/back/office/customers"' in page
    assert send(host, "GET", "/back/office/static/console.css").status_code == 200


def test_signing_in_and_every_list_are_the_same_on_each_engine(empty_database: str) -> None:
    with Billing(empty_database, deliver=False) as billing:
        billing.customers.upsert(external_id="acme", currency="EUR")
        visitor = Visitor(billing, invited(billing, "admin"))
        assert "acme" in visitor.page("/customers/acme")
        for listed in LISTS:
            visitor.page(f"/{listed.path}")
        assert visitor.send_form("/sign-out").status_code == 303
        assert visitor.ask("GET", "/").status_code == 303
