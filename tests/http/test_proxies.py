"""What proxies in front of the server say about clients and paths, and whom the server believes."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send
from tests.asgi import send

from usagebill import Billing
from usagebill.http.app import create_app
from usagebill.http.proxies import BehindProxies, checked_networks, checked_root
from usagebill.operations import api_keys

pytestmark = pytest.mark.beyond_reference


def seen(client: str | None, headers: dict[str, str], *, trusted: tuple[str, ...], here: bool = False) -> Any:
    """The client and the scheme of a request from `client` with these headers."""
    found: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append((scope["client"] and scope["client"][0], scope["scheme"]))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def arrived(scope: Scope, receive: Receive, send: Send) -> None:
        scope["client"] = None if client is None else (client, 1234)
        await BehindProxies(app, trusted=trusted, on_this_machine=here)(scope, receive, send)

    send(arrived, "GET", "/", headers=headers)
    return found[0]


FORWARDED = {"x-forwarded-for": "198.51.100.1, 203.0.113.7", "x-forwarded-proto": "https"}


@pytest.mark.parametrize(
    ("client", "trusted", "expected"),
    [
        ("10.1.2.3", ("10.0.0.0/8",), ("203.0.113.7", "https")),
        ("10.1.2.3", ("10.1.2.3",), ("203.0.113.7", "https")),
        # The proxy before that one is trusted too.
        ("10.1.2.3", ("10.0.0.0/8", "203.0.113.0/24"), ("198.51.100.1", "https")),
        # A stranger may say what it likes.
        ("192.0.2.1", ("10.0.0.0/8",), ("192.0.2.1", "http")),
        (None, ("127.0.0.1",), (None, "http")),
    ],
)
def test_only_trusted_proxies_are_believed(client: str | None, trusted: tuple[str, ...], expected: Any) -> None:
    assert seen(client, FORWARDED, trusted=trusted) == expected


def test_whoever_reaches_a_unix_socket_is_on_this_machine() -> None:
    assert seen(None, {}, trusted=(), here=True) == ("127.0.0.1", "http")
    assert seen(None, FORWARDED, trusted=("127.0.0.1",), here=True) == ("203.0.113.7", "https")


@pytest.mark.parametrize("sent", ["/billing", ""])
def test_the_prefix_may_be_sent_or_left_out(sent: str) -> None:
    with Billing() as billing:
        app = BehindProxies(create_app(billing), trusted=(), root="/billing")
        _, key = billing.writing(api_keys.create)
        headers = {"authorization": f"Bearer {key}"}

        def get(path: str) -> httpx.Response:
            return send(app, "GET", sent + path, headers=headers)

        billing.customers.upsert(external_id="a/b", currency="EUR")
        assert get("/health").status_code == 200
        assert get("/api/v1/customers/a%2Fb").json()["customer"]["external_id"] == "a/b"
        assert get("/openapi.json").json()["servers"] == [{"url": "/billing"}]
        assert get("/console").headers["location"] == "/billing/console/"
        page = get("/console/sign-in")
        assert page.status_code == 200
        assert 'href="/console' not in page.text
        assert get("/nothing").status_code == 404


def test_prefixes_that_could_not_be_told_from_paths_are_refused() -> None:
    assert [checked_root(text, {"api"}) for text in ("", "/", "/billing/", "/a/b")] == ["", "", "/billing", "/a/b"]
    for text in ("/api", "/api/billing", "billing", "/a b", "/a//b"):
        with pytest.raises(ValueError, match="prefix of paths"):
            checked_root(text, {"api"})


def test_proxies_are_addresses_or_networks() -> None:
    assert checked_networks(["::1", "10.0.0.0/8"]) == ("::1", "10.0.0.0/8")
    for text in ("*", "proxy.internal", "10.0.0.1/8"):
        with pytest.raises(ValueError, match="neither an IP address nor a network"):
            checked_networks([text])
