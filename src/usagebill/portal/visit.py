"""A visit: one request for a page of a customer, and what every page shows of the customer and the seller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from usagebill.billing import Billing
from usagebill.browser.templates import environment
from usagebill.core.activity_logs import ActivitySource, Actor
from usagebill.core.documents.locales import language_of
from usagebill.core.documents.words import words_of
from usagebill.core.documents.words.portal import portal_words_of
from usagebill.core.organizations import Organization
from usagebill.operations.portal import Place, place
from usagebill.runtime.work import Reader, Work

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Visit:
    """A request by whoever has the link of a customer. `root` is where the link's pages are, without a slash."""

    billing: Billing
    request: Request
    organization: Organization
    customer_id: str
    root: str
    form: Mapping[str, str] = field(default_factory=dict, repr=False)

    def named(self, name: str) -> str:
        """A parameter of the path."""
        value: str = self.request.path_params[name]
        return value

    def reading(self, question: Callable[[Reader, Place], T]) -> tuple[Place, T]:
        """The customer with what a question finds about it, from one snapshot. Raises `Unauthorized`."""

        def read(reader: Reader) -> tuple[Place, T]:
            found = place(reader, self.customer_id)
            return found, question(reader, found)

        return self.billing.reading(read, self.organization)

    def writing(self, change: Callable[[Work], T]) -> T:
        """The result of a change, which the activity log has as one of a person."""
        client = self.request.headers.get("user-agent")
        actor = Actor(source=ActivitySource.FRONT, request_id=self.request.headers.get("x-request-id"), client=client)
        return self.billing.writing(change, self.organization, actor=actor)

    def page(self, template: str, place: Place, status: int = 200, **context: object) -> Response:
        """A page made of a template, in the customer's language."""
        language = language_of(place.locale)
        text = (
            environment("usagebill.portal")
            .get_template(template)
            .render(
                root=self.root,
                shared=f"{self.request.scope.get('root_path', '')}/customer-portal",
                here=self.request.url.path,
                language=language,
                words=portal_words_of(place.locale),
                document=words_of(place.locale),
                seller=place.entity.legal_name or place.entity.name,
                logo=place.entity.logo_url,
                color=(place.entity.portal_color or "").removeprefix("#"),
                pays_by_provider=place.customer.payment_connection_id is not None,
                customer=place.customer.legal_name or place.customer.name or place.customer.external_id,
                **context,
            )
        )
        return HTMLResponse(text, status, headers=headers_for(place.entity.portal_frame_origins))

    def away(self, url: str) -> Response:
        """Go on to a page of somebody else's."""
        return RedirectResponse(url, 303)

    def to(self, path: str) -> Response:
        """Go on to another page of the customer's."""
        return RedirectResponse(self.root + path, 303)


def headers_for(frame_origins: Sequence[str]) -> Mapping[str, str]:
    """What every answer forbids a browser: scripts, anything from elsewhere (the logo is inlined), frames of other
    sites than these, and any trace of the link in other sites' logs.
    """
    framing = " ".join(frame_origins) or "'none'"
    policy = (
        "default-src 'none'; img-src data:; style-src 'self'; form-action 'self' https:; base-uri 'none';"
        f" frame-ancestors {framing}"
    )
    headers = {
        "content-security-policy": policy,
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-robots-tag": "noindex",
    }
    # It knows no list of sites.
    return headers if frame_origins else headers | {"x-frame-options": "DENY"}
