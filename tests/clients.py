"""A client of a billing system in this process: its requests are answered by the API, without a network."""

from __future__ import annotations

import httpx

from usagebill import Billing
from usagebill.client import AsyncClient, Client, Retries
from usagebill.http.api import Api, Request
from usagebill.http.app import routes
from usagebill.operations import api_keys

ADDRESS = "http://billing.test"


class Answering(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Answers each request; the first ones fail in the ways that `failures` names.

    A number is a status that is answered instead; `"lost"` makes the change and loses the answer; `"unreached"` loses
    the request. `sent` has all requests that were tried.
    """

    def __init__(self, billing: Billing, *failures: int | str) -> None:
        self.api = Api(billing, routes())
        self.failures = list(failures)
        self.sent: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request)
        failure = self.failures.pop(0) if self.failures else None
        if failure == "unreached":
            raise httpx.ConnectError("no route", request=request)
        if isinstance(failure, int):
            return httpx.Response(failure, headers={"retry-after": "7"}, text="<html>later</html>")
        path, _, query = request.url.raw_path.decode().partition("?")
        headers = {name.lower(): value for name, value in request.headers.items()}
        answer = self.api.answer(
            Request(method=request.method, path=path, query=query, headers=headers, body=request.content)
        )
        if failure == "lost":
            raise httpx.ReadTimeout("nothing came", request=request)
        return httpx.Response(answer.status, headers=dict(answer.headers), content=answer.body)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self.handle_request(request)


def key_of(billing: Billing) -> str:
    """A new API key."""
    return billing.writing(api_keys.create)[1]


def client_of(
    billing: Billing, *failures: int | str, retries: Retries | None = None
) -> tuple[Client, Answering, list[float]]:
    """A client, what answers it, and the pauses that it made."""
    answering, pauses = Answering(billing, *failures), list[float]()
    made = Client(
        ADDRESS,
        key_of(billing),
        id_prefix=billing.settings.id_prefix,
        transport=answering,
        sleep=pauses.append,
        retries=retries,
    )
    return made, answering, pauses


def async_client_of(billing: Billing) -> AsyncClient:
    return AsyncClient(ADDRESS, key_of(billing), transport=Answering(billing))
