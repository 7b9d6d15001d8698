"""A visitor of the console without a browser: signs in with a link, looks at pages, sends forms."""

from __future__ import annotations

import re
from typing import Any

import httpx
from starlette.types import ASGIApp
from tests.asgi import send

from usagebill import Billing
from usagebill.core.organizations import Organization
from usagebill.http.app import create_app
from usagebill.operations import users
from usagebill.operations.users import SignInLink, UserInput

AGENT = "Browser/1.0"


def invited(billing: Billing, role: str, email: str = "", organization: Organization | None = None) -> SignInLink:
    """A new user's link."""
    wanted = UserInput(email=email or f"{role}@example.com", role=role)
    return billing.writing(lambda work: users.add(work, wanted), organization)


def token_of(link: SignInLink | str) -> str:
    """The token of a link."""
    return (link if isinstance(link, str) else link.url).partition("link=")[2]


class Visitor:
    """A browser's session; without a link it is a stranger's."""

    def __init__(self, billing: Billing, link: SignInLink | None = None, app: ASGIApp | None = None) -> None:
        self._app = create_app(billing) if app is None else app
        self.cookies: dict[str, str] = {}
        if link is not None:
            self.sign_in(token_of(link))

    def ask(self, method: str, path: str, **rest: Any) -> httpx.Response:
        """The answer to a request below the console."""
        headers = {"user-agent": AGENT, **rest.pop("headers", {})}
        if self.cookies:
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = send(self._app, method, f"/console{path}", headers=headers, **rest)
        for name, value in answer.cookies.items():
            self.cookies[name] = value
        return answer

    def sign_in(self, token: str) -> httpx.Response:
        """Open a link."""
        return self.ask("POST", "/sign-in", data={"link": token})

    def page(self, path: str, status: int = 200) -> str:
        """The text of a page."""
        answer = self.ask("GET", path)
        assert answer.status_code == status, (path, answer.status_code, answer.text[-800:])
        return answer.text

    def form_token(self) -> str:
        """What a form of this session carries."""
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.page("/"))
        assert found is not None
        return found[1]

    def send_form(self, path: str, **fields: str) -> httpx.Response:
        """Send a form of this session."""
        return self.ask("POST", path, data={"csrf": self.form_token(), **fields})
