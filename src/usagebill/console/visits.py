"""A visit: one request for a page, and who makes it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from usagebill.billing import Billing
from usagebill.console.forms import BY_PATH as FORMS
from usagebill.console.links import address_of, subject_of
from usagebill.console.lists import BY_PATH as LISTS
from usagebill.console.rendering import environment
from usagebill.console.seat import Seat
from usagebill.core.errors import Forbidden
from usagebill.core.secrets import Secret

# Finding it out reads the whole description of the package.
_VERSION = version("usagebill")


@dataclass(frozen=True, slots=True)
class Visit:
    """A request, its form, and the seat of whoever is signed in."""

    billing: Billing
    request: Request
    seat: Seat
    token: Secret
    form: Mapping[str, str] = field(default_factory=dict, repr=False)
    navigation: Sequence[Any] = ()

    @property
    def root(self) -> str:
        """Where the console is mounted, without a slash at the end."""
        return root_of(self.request)

    def named(self, name: str) -> str:
        """A parameter of the path."""
        value: str = self.request.path_params[name]
        return value

    def asked(self) -> dict[str, str]:
        """The parameters of the query that have a value."""
        return {name: value for name, value in self.request.query_params.items() if value}

    def page(self, template: str, status: int = 200, **context: object) -> Response:
        """A page made of a template."""
        return rendered(
            self.request,
            template,
            status,
            visit=self,
            user=self.seat.who.user,
            organization=self.seat.who.organization,
            csrf=csrf_token(self.token),
            navigation=self.navigation,
            may=self.seat.may,
            lists=LISTS,
            forms=FORMS,
            **context,
        )

    def to(self, path: str) -> Response:
        """Go on to another page of the console."""
        return RedirectResponse(self.root + path, 303)


def root_of(request: Request) -> str:
    """Where the console is mounted, without a slash at the end."""
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/")


def rendered(request: Request, template: str, status: int = 200, **context: object) -> Response:
    """A page made of a template, for anybody."""
    root = root_of(request)
    text = (
        environment()
        .get_template(template)
        .render(
            root=root,
            here=request.url.path.removeprefix(root),
            link=lambda name, value: address_of(root, name, value),
            subject=lambda activity: subject_of(root, activity),
            version=_VERSION,
            sandbox=getattr(request.app.state, "sandbox", None),
            **context,
        )
    )
    return HTMLResponse(text, status)


def csrf_token(token: Secret) -> str:
    """What a form of this session carries, so that no other site can send one."""
    return hmac.new(token.value.encode(), b"form of the console", hashlib.sha256).hexdigest()


def check_csrf(token: Secret, sent: str) -> None:
    """Raises `Forbidden` for a form that is not of this session."""
    if not hmac.compare_digest(csrf_token(token).encode(), sent.encode("utf-8", "surrogatepass")):
        raise Forbidden("form_of_another_session")
