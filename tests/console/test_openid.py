"""Signing in at an OpenID Connect provider: who is let in, and what a provider or a stranger may get wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from click.testing import CliRunner
from joserfc.jwk import OctKey, RSAKey
from tests.cases import each
from tests.console.openid_provider import Claims, Provider, asked, challenge_of, provider
from tests.console.visitor import AGENT, Visitor, invited
from tests.scenarios import Scenario

from usagebill.cli import main, serve as serving
from usagebill.operations import organizations
from usagebill.process.settings import Settings

# Of the provider, which uses what Authlib is about to replace.
pytestmark = pytest.mark.filterwarnings("ignore:get_jwt_config:DeprecationWarning")
ADA = "ada@example.com"


@pytest.fixture
def idp() -> Iterator[Provider]:
    with provider() as made:
        made.know(ADA)
        yield made


def system(idp: Provider, **settings: Any) -> Scenario:
    given = Settings(oidc_issuer=idp.address, oidc_client_id="usagebill", oidc_client_secret="hidden", **settings)
    return Scenario(now="2024-03-05T10:00:00Z", settings=given)


def back(visitor: Visitor, idp: Provider, email: str = ADA) -> httpx.Response:
    """The answer to the visitor who comes back from the provider as this user."""
    return arrive(visitor, idp.agree(begin(visitor), email))


def begin(visitor: Visitor) -> str:
    answer = visitor.ask("GET", "/sign-in/openid")
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def arrive(visitor: Visitor, address: str) -> httpx.Response:
    parts = urlsplit(address)
    assert (parts.netloc, parts.path) == ("localhost:8000", "/console/sign-in/openid/answer")
    return visitor.ask("GET", f"/sign-in/openid/answer?{parts.query}")


def refusal(answer: httpx.Response, status: int = 401) -> str:
    """What the page says of an attempt that signed nobody in."""
    assert answer.status_code == status, answer.text
    assert "usagebill_console" not in answer.cookies
    _, _, said = answer.text.partition('<p role="alert">You are not signed in. Of localhost: ')
    return said.partition("</p>")[0]


def security_events(box: Scenario) -> list[str]:
    entries = box.billing.security_logs.list(to_date="2025-01-01").items
    return sorted(entry.log_event for entry in entries if entry.log_type == "user")


def test_a_user_signs_in_at_the_provider(idp: Provider) -> None:
    with system(idp) as box:
        invited(box.billing, "finance", ADA)
        visitor = Visitor(box.billing)
        assert 'href="/console/sign-in/openid">Sign in at localhost' in visitor.page("/sign-in")
        address = begin(visitor)
        said = asked(address)
        assert said["redirect_uri"] == "http://localhost:8000/console/sign-in/openid/answer"
        assert (said["scope"], said["response_type"], said["code_challenge_method"]) == ("openid email", "code", "S256")
        answer = arrive(visitor, idp.agree(address, ADA))
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/")
        session = next(text for text in answer.headers.get_list("set-cookie") if text.startswith("usagebill_console="))
        assert {"HttpOnly", "SameSite=lax", "Max-Age=1209600"} <= set(session.split("; "))
        assert ADA in visitor.page("/")
        (request,) = idp.token_requests
        assert challenge_of(request["code_verifier"]) == said["code_challenge"]
        assert request["authorization"].startswith("Basic ")
        assert security_events(box) == ["user.invited", "user.link_created", "user.new_device_logged_in"]
        user = box.billing.users.list().items[0]
        session_of = next(known for known in box.billing.users.sessions(user.id) if known.opened_at)
        assert session_of.client == AGENT
        box.billing.users.end_session(session_of.id)
        assert visitor.ask("GET", "/").status_code == 303


def test_what_a_user_changes_names_the_user(idp: Provider) -> None:
    with system(idp) as box:
        invited(box.billing, "admin", ADA)
        visitor = Visitor(box.billing)
        back(visitor, idp)
        assert visitor.send_form("/new/taxes", name="VAT", code="vat", rate="20").status_code == 303
        assert box.get("/activity_logs")["activity_logs"][0]["user_email"] == ADA


def test_a_stranger_is_refused_unless_those_of_the_domain_are_added(idp: Provider) -> None:
    idp.know("eve@elsewhere.example")
    with system(idp) as box:
        assert "ada@example.com is no user of this console" in refusal(back(Visitor(box.billing), idp))
        assert box.billing.users.list().items == []
    with system(idp, oidc_domains=("example.com",), oidc_role="support") as box:
        visitor = Visitor(box.billing)
        assert back(visitor, idp).status_code == 303
        assert back(Visitor(box.billing), idp).status_code == 303
        (user,) = box.billing.users.list().items
        assert (user.email, user.role) == (ADA, "support")
        assert security_events(box) == ["user.invited", *["user.new_device_logged_in"] * 2]
        answer = back(Visitor(box.billing), idp, "eve@elsewhere.example")
        assert refusal(answer) == "eve@elsewhere.example is of none of the domains that are let in."
        # A user of another domain, too.
        invited(box.billing, "admin", "eve@elsewhere.example")
        refusal(back(Visitor(box.billing), idp, "eve@elsewhere.example"))
        # Whoever was removed stays out, until somebody adds them.
        box.billing.users.remove(user.id)
        assert visitor.ask("GET", "/").status_code == 303
        assert "was removed" in refusal(back(Visitor(box.billing), idp))
        invited(box.billing, "finance", ADA)
        assert back(Visitor(box.billing), idp).status_code == 303


def test_an_address_is_the_same_however_the_provider_writes_it(idp: Provider) -> None:
    idp.know("Ada@Example.com")
    with system(idp, oidc_domains=("example.com",), oidc_role="read_only") as box:
        invited(box.billing, "finance", ADA)
        assert back(Visitor(box.billing), idp, "Ada@Example.com").status_code == 303
        assert [user.email for user in box.billing.users.list().items] == [ADA]


def test_a_user_of_several_organizations_chooses_one(idp: Provider) -> None:
    with system(idp) as box:
        other = box.billing.store.write(None, lambda tx: organizations.create(tx, box.now, "Other & Co"))
        invited(box.billing, "admin", ADA)
        invited(box.billing, "admin", ADA, organization=other)
        visitor = Visitor(box.billing)
        page = back(visitor, idp).text
        assert "<button>Other &amp; Co</button>" in page
        token = page[: page.index("Other &amp; Co")].rpartition('name="link" value="')[2].partition('"')[0]
        assert visitor.sign_in(token).status_code == 303
        assert "Other &amp; Co" in visitor.page("/")


@each("claims", [{"email_verified": False}, {"email_verified": None}, {"email_verified": "false"}, {"email": "ada"}])
def test_an_address_that_nobody_has_verified_is_nobody(idp: Provider, claims: Claims) -> None:
    idp.claims = lambda said: {**said, **claims}
    with system(idp) as box:
        invited(box.billing, "admin", ADA)
        said = refusal(back(Visitor(box.billing), idp))
        assert said in ("it does not say that ada@example.com is verified.", "it gives no e-mail address.")


@each(
    "spoil",
    [
        lambda said: {**said, "nonce": "another"},
        lambda said: {name: value for name, value in said.items() if name != "nonce"},
        lambda said: {**said, "aud": "another client"},
        lambda said: {**said, "aud": ["usagebill", "another"], "azp": "another"},
        lambda said: {**said, "iss": "https://elsewhere.example"},
        lambda said: {**said, "exp": 1_700_000_000},
        lambda said: {**said, "iat": 4_000_000_000},
        lambda said: {name: value for name, value in said.items() if name != "exp"},
        lambda said: {**said, "at_hash": "wrong"},
    ],
)
def test_a_token_of_another_request_client_issuer_or_time_is_refused(
    idp: Provider, spoil: Callable[[Claims], Claims]
) -> None:
    idp.claims = spoil
    with system(idp) as box:
        invited(box.billing, "admin", ADA)
        assert refusal(back(Visitor(box.billing), idp)).startswith("its ID token is not valid")


def test_a_token_that_the_provider_has_not_signed_is_refused(idp: Provider) -> None:
    with system(idp) as box:
        invited(box.billing, "admin", ADA)
        idp.signing_key = RSAKey.generate_key(2048, {"kid": "one"})
        assert "its ID token is not valid" in refusal(back(Visitor(box.billing), idp))
        # Signed with what everybody may know, as if it were a secret of ours.
        idp.signing_key, idp.algorithm = OctKey.import_key("hidden" * 8), "HS256"
        assert "its ID token is not valid" in refusal(back(Visitor(box.billing), idp))
        idp.answers = {"/oauth2/token": lambda answer: {**answer, "id_token": "eyJhbGciOiJub25lIn0.e30."}}
        assert "its ID token is not valid" in refusal(back(Visitor(box.billing), idp))


def test_only_the_browser_that_began_comes_back_and_once(idp: Provider) -> None:
    with system(idp) as box:
        invited(box.billing, "admin", ADA)
        visitor, stranger = Visitor(box.billing), Visitor(box.billing)
        address = idp.agree(begin(visitor), ADA)
        # Somebody is made to open the answer to another's request: without a request, and with one of their own.
        assert "not to a request of this browser" in refusal(arrive(stranger, address))
        begin(stranger)
        assert "not to a request of this browser" in refusal(arrive(stranger, address))
        assert idp.token_requests == []
        assert arrive(visitor, address).status_code == 303
        again = Visitor(box.billing)
        again.cookies = {name: value for name, value in visitor.cookies.items() if name != "usagebill_console"}
        refusal(arrive(again, address))


def test_who_declines_at_the_provider_is_not_signed_in(idp: Provider) -> None:
    with system(idp) as box:
        visitor = Visitor(box.billing)
        state = asked(begin(visitor))["state"]
        answer = visitor.ask("GET", f"/sign-in/openid/answer?error=<b>access_denied</b>&state={state}")
        assert refusal(answer) == "it answered &#39;&lt;b&gt;access_denied&lt;/b&gt;&#39;."


def test_a_provider_that_is_another_or_does_not_answer_signs_nobody_in(idp: Provider) -> None:
    configuration = "/.well-known/openid-configuration"
    with system(idp) as box:
        invited(box.billing, "admin", ADA)
        visitor = Visitor(box.billing)
        idp.statuses = {configuration: 502}
        assert "it answered 502" in refusal(visitor.ask("GET", "/sign-in/openid"), 503)
        idp.statuses = {}
        idp.answers = {configuration: lambda said: {**said, "issuer": "https://elsewhere.example"}}
        assert "calls itself" in refusal(visitor.ask("GET", "/sign-in/openid"))
        idp.answers = {configuration: lambda said: {**said, "authorization_endpoint": "javascript:alert(1)"}}
        assert "no authorization_endpoint" in refusal(visitor.ask("GET", "/sign-in/openid"))
        idp.answers = {"/oauth2/token": lambda said: ["not", "an", "object"]}  # type: ignore[dict-item,return-value]
        assert "answered 200 to POST" in refusal(back(visitor, idp))


def test_the_address_may_be_in_userinfo_if_it_is_of_the_same_user(idp: Provider) -> None:
    idp.claims = lambda said: {name: value for name, value in said.items() if not name.startswith("email")}
    with system(idp) as box:
        invited(box.billing, "admin", ADA)
        assert back(Visitor(box.billing), idp).status_code == 303
        idp.answers = {"/userinfo": lambda said: {**said, "sub": "eve"}}
        assert refusal(back(Visitor(box.billing), idp)) == "its userinfo is about somebody else."


def test_a_provider_that_takes_the_secret_in_the_body_gets_it_there(idp: Provider) -> None:
    methods = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    idp.answers = {"/.well-known/openid-configuration": lambda said: {**said, **methods}}
    with system(idp) as box:
        invited(box.billing, "admin", ADA)
        assert back(Visitor(box.billing), idp).status_code == 303
        (request,) = idp.token_requests
        assert (request["client_secret"], request["authorization"]) == ("hidden", "")


def test_coming_back_is_throttled_and_nothing_secret_is_shown(idp: Provider) -> None:
    with system(idp) as box:
        visitor = Visitor(box.billing)
        for _ in range(10):
            assert visitor.ask("GET", "/sign-in/openid/answer?code=x&state=y").status_code == 401
        assert visitor.ask("GET", "/sign-in/openid/answer?code=x&state=y").status_code == 429
        assert "hidden" not in repr(box.billing.settings)
        assert box.billing.settings.changed()["oidc_client_secret"] == "(set)"


@pytest.mark.now("2024-03-05T10:00:00Z")
def test_without_a_provider_there_is_no_such_page(box: Scenario) -> None:
    visitor = Visitor(box.billing)
    assert "Sign in at" not in visitor.page("/sign-in")
    for path in ("/sign-in/openid", "/sign-in/openid/answer?code=x"):
        assert visitor.ask("GET", path).status_code == 404


def test_serve_takes_the_provider_as_options_and_says_what_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Settings] = []
    monkeypatch.setattr(serving, "run_server", lambda billing, *_, **__: served.append(billing.settings))
    options = [
        "--oidc-issuer",
        "https://id.example",
        "--oidc-client-id",
        "us",
        "--oidc-domains",
        "A.example, b.example",
    ]
    arguments = ["serve", "--db", str(tmp_path / "billing.db"), "--port", "0", *options, "--oidc-role", "read_only"]
    assert CliRunner().invoke(main, arguments, catch_exceptions=False).exit_code == 0
    assert (served[0].oidc_domains, served[0].oidc_role) == (("a.example", "b.example"), "read_only")
    monkeypatch.setitem(sys.modules, "authlib.oidc.core", None)
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code == 1
    assert "pip install 'usagebill[oidc]'" in refused.output
    assert len(served) == 1


@each(
    "settings,problem",
    [
        ({"oidc_issuer": "http://id.example", "oidc_client_id": "a"}, "https:// address"),
        ({"oidc_issuer": "id.example", "oidc_client_id": "a"}, "https:// address"),
        ({"oidc_issuer": "https://id.example/?x=1", "oidc_client_id": "a"}, "https:// address"),
        ({"oidc_issuer": "https://id.example"}, "oidc_client_id"),
        ({"oidc_client_id": "a"}, "oidc_issuer"),
        ({"oidc_issuer": "https://id.example", "oidc_client_id": "a", "oidc_role": "admin"}, "name their oidc_domains"),
        (
            {
                "oidc_issuer": "https://id.example",
                "oidc_client_id": "a",
                "oidc_role": "owner",
                "oidc_domains": ("a.b",),
            },
            "oidc_role is one of",
        ),
        ({"oidc_issuer": "https://id.example", "oidc_client_id": "a", "oidc_domains": ("@a.b",)}, "domains such as"),
    ],
)
def test_settings_that_let_in_nobody_or_everybody_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Settings(**settings)
