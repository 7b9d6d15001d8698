"""A real server answers any bytes with the usual error bodies, and keeps serving."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from starlette.types import Message
from tests.asgi import send
from tests.json_asserts import for_programs
from tests.service import Service

from usagebill import Billing
from usagebill.http.app import MOST_BYTES, create_app

own_server = pytest.mark.slow

BAD_REQUEST = {"status": 400, "error": "Bad Request"}
TOO_LARGE = {"status": 413, "error": "Content Too Large"}
NOT_FOUND = {"status": 404, "error": "Not Found", "code": "resource_not_found"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("service") / "billing.db") as running:
        yield running


def raw(service: Service, request: bytes) -> tuple[int, Any]:
    """Send bytes as they stand; the status and body that come back."""
    host, port = service.announced["url"].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        with contextlib.suppress(ConnectionError):
            # The answer may come, and the connection end, before all has been sent.
            connection.sendall(request)
        received = b""
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65536):
                received += part
    head, _, body = received.partition(b"\r\n\r\n")
    text = body.decode()
    return int(head.split()[1]), json.loads(text) if text.startswith("{") else text


def assert_unread(answer: tuple[int, Any]) -> None:
    status, body = answer
    assert (status, for_programs(body)) == (400, BAD_REQUEST)


def line(service: Service, target: str) -> bytes:
    return (
        f"GET {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.key}\r\nConnection: close\r\n\r\n".encode(
            "latin-1"
        )
    )


@own_server
@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"{'customer': 1}",
        b'{"customer": {"external_id": "a",}}',
        b'{"customer": {"external_id": "\xff"}}',
        b'{"customer": {"external_id": "\xed\xa0\x80"}}',
        b"[" * 100_000,
        b'{"customer": NaN}',
        b"\x00",
    ],
)
def test_bodies_that_are_not_json_are_400(service: Service, body: bytes) -> None:
    answer = service.client.post("/api/v1/customers", content=body)
    assert (answer.status_code, for_programs(answer.json())) == (400, BAD_REQUEST)


@own_server
@pytest.mark.parametrize("body", [b'"text"', b"1", b"[1]", b'[{"tier": "gold"}]'])
def test_a_body_that_is_no_object_is_400_where_no_root_is_asked_for(service: Service, body: bytes) -> None:
    answer = service.client.put("/api/v1/plans/basic/metadata", content=body)
    assert (answer.status_code, for_programs(answer.json())) == (400, BAD_REQUEST)


@own_server
@pytest.mark.parametrize("metadata", [b"5", b'"gold"', b"[1]", b"true"])
def test_metadata_that_is_no_object_is_refused_and_clears_nothing(service: Service, metadata: bytes) -> None:
    note = {"name": "Basic", "code": "of-metadata", "interval": "monthly", "amount_cents": 0, "amount_currency": "EUR"}
    service.client.post("/api/v1/plans", json={"plan": {**note, "pay_in_advance": False, "metadata": {"tier": "gold"}}})
    path = "/api/v1/plans/of-metadata/metadata"
    for verb in ("PUT", "PATCH"):
        answer = service.client.request(verb, path, content=b'{"metadata": ' + metadata + b"}")
        assert (answer.status_code, answer.json()["error_details"]) == (422, {"metadata": ["invalid_type"]})
    assert service.client.put(path, json={}).json() == {"metadata": {"tier": "gold"}}


@own_server
@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'"text"', b"1", b'{"customer": null}', b'{"customer": []}'])
def test_json_without_the_root_is_400_and_names_it(service: Service, body: bytes) -> None:
    answer = service.client.post("/api/v1/customers", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"].endswith("invalid: customer")


@own_server
@pytest.mark.parametrize(
    "target", ["/api/v1/customers/%", "/api/v1/customers/%zz", "/api/v1/customers/%ff", "/api/v1/customers/%00"]
)
def test_bad_percent_encoding_is_400(service: Service, target: str) -> None:
    assert_unread(raw(service, line(service, target)))


@own_server
@pytest.mark.parametrize("query", ["page=%ff", "%zz=1", "search_term=%"])
def test_bad_percent_encoding_of_a_query_is_400(service: Service, query: str) -> None:
    assert_unread(raw(service, line(service, f"/api/v1/customers?{query}")))


@own_server
@pytest.mark.parametrize(
    "path", ["/api", "/api/v1", "/api/v1/", "/api/v2/customers", "/api/v1/customers/a/b/c", "/favicon.ico"]
)
def test_unknown_paths_are_404(service: Service, path: str) -> None:
    answer = service.client.get(path)
    assert (answer.status_code, for_programs(answer.json())) == (404, NOT_FOUND)


@own_server
@pytest.mark.parametrize("code", ["a%0Ab", "%0A", "a%0D%0Ab", "a%2Fb", "a.b.json", "%E2%80%A8"])
def test_codes_of_any_character_reach_the_api(service: Service, code: str) -> None:
    answer = service.client.get(f"/api/v1/plans/{code}")
    assert (answer.status_code, answer.json()["code"]) == (404, "plan_not_found")


@own_server
@pytest.mark.parametrize("verb", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "REPORT"])
def test_verbs_that_a_path_does_not_know_are_404(service: Service, verb: str) -> None:
    answer = service.client.request(verb, "/api/v1/customers")
    assert (answer.status_code, for_programs(answer.json())) == (404, NOT_FOUND)


@own_server
@pytest.mark.parametrize(
    "request_bytes",
    [
        b"BREW /api/v1/customers HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/9.9.9\r\n\r\n",
        b"GET /ready HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 2_000_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 2_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["unknown verb", "TLS", "unknown version", "long header", "long path"],
)
def test_what_is_no_request_is_refused_and_does_no_harm(service: Service, request_bytes: bytes) -> None:
    assert_unread(raw(service, request_bytes))
    assert service.client.get("/ready").status_code == 200


@own_server
def test_head_is_get_without_a_body(service: Service) -> None:
    whole = service.client.get("/api/v1/customers")
    head = service.client.head("/api/v1/customers")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == whole.headers["content-length"]


@own_server
def test_bodies_have_a_limit(service: Service) -> None:
    padded = b'{"customer": {"external_id": "large", "name": "x"}}'
    fits = service.client.post("/api/v1/customers", content=padded + b" " * (MOST_BYTES - len(padded)))
    assert fits.status_code == 200
    large = service.client.post("/api/v1/customers", content=padded + b" " * MOST_BYTES)
    assert (large.status_code, for_programs(large.json())) == (413, TOO_LARGE)
    assert service.client.get("/ready").status_code == 200


@own_server
def test_a_body_that_comes_without_its_length_has_the_same_limit(service: Service) -> None:
    answer = service.client.post("/api/v1/customers", content=(b" " * 65536 for _ in range(MOST_BYTES // 65536 + 1)))
    assert (answer.status_code, for_programs(answer.json())) == (413, TOO_LARGE)


@own_server
@pytest.mark.parametrize("header", [None, "", "Bearer", "nonsense", "Bearer nonsense", "Bearer \xff\xfe"])
def test_without_a_valid_key_it_is_401(service: Service, header: str | None) -> None:
    headers = {} if header is None else {b"Authorization": header.encode("latin-1")}
    answer = httpx.get(service.announced["url"] + "/api/v1/customers", headers=headers)
    assert (answer.status_code, for_programs(answer.json())) == (401, {"status": 401, "error": "Unauthorized"})


@own_server
@pytest.mark.parametrize("content", [b"{", b" " * 2 * MOST_BYTES])
def test_the_key_comes_before_the_body(service: Service, content: bytes) -> None:
    answer = httpx.post(service.announced["url"] + "/api/v1/customers", content=content)
    assert (answer.status_code, for_programs(answer.json())) == (401, {"status": 401, "error": "Unauthorized"})


@own_server
@pytest.mark.parametrize("path", ["/health", "/ready", "/openapi.json", "/docs", "/api/v1/customers", "/nowhere"])
def test_every_answer_carries_its_request_id(service: Service, path: str) -> None:
    fresh = [service.client.get(path).headers["x-request-id"] for _ in range(2)]
    assert UUID(fresh[0]) != UUID(fresh[1])
    sent = service.client.get(path, headers={"X-Request-Id": "mine-1_@ <b>" + "x" * 300})
    assert sent.headers["x-request-id"] == ("mine-1_@b" + "x" * 300)[:255]


@own_server
def test_answers_are_json_whatever_is_asked_for(service: Service) -> None:
    answer = service.client.get("/api/v1/customers", headers={"Accept": "text/html"})
    assert answer.headers["content-type"] == "application/json; charset=utf-8"


def test_internal_errors_are_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the secret of the house")

    with Billing(tmp_path / "billing.db") as billing:
        app = create_app(billing)
        monkeypatch.setattr(billing.store, "read", broken)
        api = send(app, "GET", "/api/v1/customers", headers={"Authorization": "Bearer x"})
        assert (api.status_code, api.json()) == (500, {"status": 500, "error": "Internal Server Error"})
        assert UUID(api.headers["x-request-id"])
        sick = send(app, "GET", "/ready")
        assert (sick.status_code, sick.json()) == (503, {"status": "database_unavailable"})
        monkeypatch.setattr("usagebill.http.app.document", broken)
        page = send(app, "GET", "/openapi.json")
        assert (page.status_code, page.json()) == (500, {"status": 500, "error": "Internal Server Error"})
        assert "secret" not in page.text + api.text + sick.text


def test_websockets_are_turned_away(tmp_path: Path) -> None:
    messages: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def answer(message: Message) -> None:
        messages.append(message)

    with Billing(tmp_path / "billing.db") as billing:
        scope = {"type": "websocket", "path": "/api/v1/plans", "headers": [], "query_string": b"", "root_path": ""}
        asyncio.run(create_app(billing)(scope, receive, answer))
    assert [message["type"] for message in messages] == ["websocket.close"]
