"""The ASGI app: the API, its health checks and its description."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from importlib import resources
from typing import cast
from urllib.parse import quote
from weakref import WeakValueDictionary

import attrs
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from usagebill import __version__
from usagebill.billing import Billing
from usagebill.core.api_keys import ApiKey
from usagebill.core.api_logs import without_signature
from usagebill.core.errors import BadRequest, BillingError, BodyTooLong, DatabaseFailed, NotFound, Unauthorized
from usagebill.core.secrets import Secret
from usagebill.http.api import Answer, Api, Request, Routes, request_id
from usagebill.http.clock import clock_route
from usagebill.http.credentials import KEY_SENT
from usagebill.http.errors import error_body, error_headers
from usagebill.http.metrics import CONTENT_TYPE, Metrics
from usagebill.http.notices import notice_route
from usagebill.http.openapi import document
from usagebill.http.parameters import refuse_nul
from usagebill.http.prefix import check_prefix
from usagebill.http.readiness import DatabaseWatch
from usagebill.http.table import endpoints as endpoints
from usagebill.operations.documents import files as documents
from usagebill.operations.standing import age_of_oldest_job
from usagebill.portal import portal_routes
from usagebill.process.json_text import encode_json
from usagebill.process.logs import Log, plain_traceback
from usagebill.requests.refusals import word
from usagebill.runtime.clock import MovedByHand

# The largest body; and how much more of a refused one is read (and dropped), so that its sender, who may still be
# sending, sees the refusal.
MOST_BYTES = 10 * 1024 * 1024
_MOST_DROPPED_BYTES = 8 * MOST_BYTES
# A body of up to this many bytes is read at once; a longer one after its key has been checked. Few of these are read
# at a time, and an organization has even fewer in memory until they are answered: parsed, one can take twenty times
# its length.
_SHORT_BYTES = 64 * 1024
_LONG_BODIES_READ = 16
_LONG_BODIES_OF_ONE = 2
# Threads that answer requests, of which one key has half at the most. Writers wait for each other, or for another
# process; readers must not wait with them.
_READERS = 40
_WRITERS = 64
_HEALTH_CHECKS = 2
_NOTICES = 8
# Paths that are not operations of the API.
_OWN_PATHS = frozenset(
    {
        "openapi.json",
        "docs",
        "health",
        "ready",
        "metrics",
        "documents",
        "webhooks",
        "customer-portal",
        "clock",
        "console",
    }
)
# The reference shows what this server says, and asks nobody else. Its styles are partly set by its script.
_REFERENCE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
}
# What every path begins with.
FIRST_SEGMENTS = _OWN_PATHS | {"api"}
# The form that the W3C has given to it, and how much of a client's name is logged.
_TRACE_PARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_LONGEST_USER_AGENT = 200
_log = Log("usagebill.requests")


@cache
def routes() -> Routes:
    """The table by verb and path, for any number of `Api`s."""
    return Routes(endpoints())


def create_app(
    billing: Billing,
    *,
    console: bool = True,
    log_requests: bool = False,
    is_stopping: Callable[[], bool] = lambda: False,
    sandbox: MovedByHand | None = None,
) -> Starlette:
    """An ASGI app over `billing`: serve it alone, or mount it inside another.

    Without `console` it is the API alone, and people sign in nowhere.
    `log_requests` writes one line of the structured log per request. While `is_stopping()` is true, `/ready` is 503.
    With the `sandbox` that `billing` belongs to, its clock is moved by `POST /clock` and in the console.
    ValueError if the id prefix of the settings also begins other fields of the API.
    """
    check_prefix(billing.settings.id_prefix, endpoints())
    readers, checks, looks = CapacityLimiter(_READERS), CapacityLimiter(_HEALTH_CHECKS), CapacityLimiter(_HEALTH_CHECKS)

    async def health(_: HttpRequest) -> Response:
        # That the process answers; `/ready` says whether its database does.
        return JSONResponse({"version": __version__, "message": "Success"})

    watch = DatabaseWatch(billing.store)

    metrics = None if billing.settings.metrics_key is None else Metrics(billing, billing.settings.metrics_key)

    async def ready(_: HttpRequest) -> Response:
        if is_stopping():
            return JSONResponse({"status": "shutting down"}, 503)
        if (problem := await to_thread.run_sync(watch.problem, limiter=looks)) is not None:
            return JSONResponse({"status": problem}, 503)
        if (most := billing.settings.ready_max_age) is not None:
            try:
                age = await to_thread.run_sync(age_of_oldest_job, billing.store, billing.clock.now(), limiter=checks)
            except DatabaseFailed as failure:
                return JSONResponse({"status": failure.code}, 503)
            waited = age.total_seconds()
            if waited > most:
                return JSONResponse({"status": "jobs are overdue", "oldest_due_seconds": round(waited)}, 503)
        return JSONResponse({"status": "ok"})

    async def metrics_text(request: HttpRequest) -> Response:
        if metrics is None:
            return _refusal(NotFound("resource"))
        if not metrics.opens(request.scope[KEY_SENT].value):
            return _refusal(Unauthorized())
        text = await to_thread.run_sync(metrics.text, limiter=checks)
        return Response(text, headers={"content-type": CONTENT_TYPE})

    @lru_cache(maxsize=4)
    def described(server: str) -> bytes:
        return encode_json(document(endpoints(), prefix=billing.settings.id_prefix, server=server))

    async def description(request: HttpRequest) -> Response:
        server = request.scope.get("root_path", "") or "/"
        return Response(described(server), media_type="application/json")

    async def page(_: HttpRequest) -> Response:
        text = resources.files("usagebill.http").joinpath("docs.html").read_text("utf-8")
        return HTMLResponse(text, headers=_REFERENCE_HEADERS)

    async def document_file(request: HttpRequest) -> Response:
        token = request.path_params["token"]
        try:
            document = await to_thread.run_sync(
                billing.store.read, None, lambda tx: documents.by_token(tx, token), limiter=readers
            )
        except (NotFound, DatabaseFailed) as problem:
            return _refusal(problem)
        headers = {
            "content-disposition": f"inline; filename*=UTF-8''{quote(document.name, safe='')}",
            "cache-control": "private, max-age=31536000, immutable",
            "x-content-type-options": "nosniff",
        }
        return Response(document.content, media_type=document.content_type, headers=headers)

    app = Starlette(
        routes=[
            Route("/openapi.json", description),
            Route("/docs", page),
            Mount("/docs/static", StaticFiles(packages=[("usagebill.http", "static")])),
            Route("/health", health),
            Route("/ready", ready),
            Route("/metrics", metrics_text),
            Route("/documents/{token}", document_file),
            notice_route(billing, CapacityLimiter(_NOTICES)),
            *portal_routes(billing, readers, CapacityLimiter(_WRITERS), error_headers),
            *([clock_route(billing, sandbox, CapacityLimiter(1))] if sandbox is not None else ()),
            *(_console_routes(billing, sandbox) if console else ()),
        ],
        middleware=[Middleware(_Conversation, log_requests=log_requests, metrics=metrics)],
    )
    # All other paths go to the API exactly as sent: codes in paths may contain any character.
    app.router.default = _ApiApp(Api(billing, routes()), readers)
    app.router.redirect_slashes = False
    return app


def _console_routes(billing: Billing, sandbox: MovedByHand | None) -> Sequence[BaseRoute]:
    """The console, and the way to it from `/`."""
    # Its templates are needed by nobody who mounts the API alone.
    from usagebill.console import console_app

    async def entrance(request: HttpRequest) -> Response:
        return RedirectResponse(f"{request.scope.get('root_path', '')}/console/")

    return [Route("/", entrance), Route("/console", entrance), Mount("/console", console_app(billing, sandbox=sandbox))]


def _refusal(problem: BillingError) -> Response:
    word(problem)
    return JSONResponse(error_body(problem), problem.status, headers=error_headers(problem))


class _Gone(Exception):
    """The client has hung up."""


class _ApiApp:
    """The API as an ASGI app: any verb, any path."""

    def __init__(self, api: Api, readers: CapacityLimiter) -> None:
        self._api = api
        self._readers = readers
        self._writers = CapacityLimiter(_WRITERS)
        self._long_bodies_read = CapacityLimiter(_LONG_BODIES_READ)
        # By the organization's id, for as long as it has any.
        self._long_bodies_of = WeakValueDictionary[str | None, CapacityLimiter]()
        # By the hash of the key sent, and whether its requests only look.
        self._threads_of = WeakValueDictionary[tuple[int, bool], CapacityLimiter]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await WebSocketClose()(scope, receive, send)
            return
        request = Request(
            # A HEAD is a GET with its body left out.
            method="GET" if scope["method"] == "HEAD" else scope["method"],
            path=_path(scope),
            scheme=scope.get("scheme", "http"),
            query=scope["query_string"].decode("latin-1"),
            headers={
                **{name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]},
                "authorization": scope[KEY_SENT].value,
            },
        )
        body = _Body(request.headers, receive)
        with suppress(_Gone):
            if await body.read(_SHORT_BYTES):
                answer = await self._answered(request, body)
            else:
                answer = await self._long(request, body)
            scope.setdefault("state", {})["organization"] = answer.organization_id
            scope["state"]["key"] = answer.key
            scope["state"]["answered_by"] = partial(self._api.path_of, request)
            response = Response(
                b"" if scope["method"] == "HEAD" else answer.body,
                status_code=answer.status,
                headers={**answer.headers, **_length(scope, answer)},
            )
            await response(scope, receive, send)
            if answer.unnoted is not None or answer.unlogged is not None:
                await to_thread.run_sync(self._api.note_use, answer, limiter=self._writers)

    async def _long(self, request: Request, body: _Body) -> Answer:
        """The answer to a request with a long body."""
        unread = await to_thread.run_sync(self._api.answer_unread, request, limiter=self._readers)
        if unread.status != 200:
            return unread
        # Its own slots first: whoever waits for them keeps nobody else from reading.
        own = self._long_bodies_of.setdefault(unread.organization_id, CapacityLimiter(_LONG_BODIES_OF_ONE))
        async with own:
            async with self._long_bodies_read:
                is_whole = await body.read(MOST_BYTES)
            if is_whole:
                return await self._answered(request, body)
        await body.drop(_MOST_DROPPED_BYTES)
        answer = self._api.refusal(BodyTooLong(f"the body is longer than {MOST_BYTES:,} bytes; send less"))
        return attrs.evolve(
            answer,
            organization_id=unread.organization_id,
            key=unread.key,
            headers={**answer.headers, "connection": "close"},
        )

    async def _answered(self, request: Request, body: _Body) -> Answer:
        only_looks = self._api.only_looks(request)
        limiter = self._readers if only_looks else self._writers
        key = hash(request.headers["authorization"]), only_looks
        own = self._threads_of.setdefault(key, CapacityLimiter(limiter.total_tokens // 2))
        request = attrs.evolve(request, body=body.take())
        async with own:
            return await to_thread.run_sync(self._api.answer, request, limiter=limiter)


def _length(scope: Scope, answer: Answer) -> dict[str, str]:
    return {"content-length": str(len(answer.body))} if scope["method"] == "HEAD" else {}


def _path(scope: Scope) -> str:
    """The path as sent, percent-encoded, below this app's root."""
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    path = cast(bytes, raw).decode("latin-1").split("?")[0]
    for root in (scope.get("root_path", ""), quote(scope.get("root_path", ""))):
        if root and path.startswith(root + "/"):
            return path[len(root) :]
    return path


class _Body:
    """The body of a request, read as far as needed."""

    def __init__(self, headers: Mapping[str, str], receive: Receive) -> None:
        self._receive = receive
        announced = headers.get("content-length", "")
        self._announced = int(announced[:20]) if announced.isdigit() else 0
        self._parts: list[bytes] = []
        self._size = 0
        self._is_whole = False

    async def read(self, at_most: int) -> bool:
        """Read the rest; False if the body has more than `at_most` bytes. Raises `_Gone`."""
        if self._announced > at_most:
            return False
        while not self._is_whole and self._size <= at_most:
            self._parts.append(await self._next())
        return self._is_whole and self._size <= at_most

    async def drop(self, at_most: int) -> None:
        """Read to the end, or to `at_most` bytes, and keep nothing. Raises `_Gone`."""
        self._parts.clear()
        while not self._is_whole and max(self._announced, self._size) <= at_most:
            await self._next()

    def take(self) -> bytes:
        """The bytes read, which are then no longer kept here."""
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        return body

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        part: bytes = message.get("body", b"")
        self._size += len(part)
        self._is_whole = not message.get("more_body", False)
        return part


def _key_sent(scope: Scope) -> Secret:
    sent = [value for name, value in scope["headers"] if name == b"authorization"]
    return Secret(sent[-1].decode("latin-1") if sent else "")


def _measured_path(scope: Scope) -> str:
    """The path with its parameters in braces: there are few such paths, so each can be counted."""
    answered_by: Callable[[], str | None] | None = scope["state"].get("answered_by")
    if answered_by is not None:
        return answered_by() or "other"
    first = scope["path"].removeprefix(scope.get("root_path", "")).split("/")[1:2]
    return f"/{first[0]}" if first and first[0] in _OWN_PATHS else "other"


def _sender(scope: Scope) -> dict[str, str | None]:
    """Who sends a request, for the log: address, key, program, and the trace that the request is part of."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    key: ApiKey | None = scope["state"].get("key")
    agent = "".join(filter(str.isprintable, headers.get(b"user-agent", "")))[:_LONGEST_USER_AGENT]
    parent = headers.get(b"traceparent", "")
    client = scope.get("client")
    return {
        "client": None if client is None else client[0],
        "key": None if key is None else key.name,
        "key_id": None if key is None else key.id,
        "user_agent": agent or None,
        "traceparent": parent if _TRACE_PARENT.fullmatch(parent) else None,
    }


class _Conversation:
    """Wraps every request, whatever answers it: its id, its line in the log, and an answer if something broke."""

    def __init__(self, app: ASGIApp, log_requests: bool, metrics: Metrics | None) -> None:
        self._app = app
        self._log_requests = log_requests
        self._metrics = metrics

    def _answering(self, scope: Scope) -> ASGIApp:
        try:
            refuse_nul(scope["path"] + scope["query_string"].decode("latin-1"))
        except BadRequest as problem:
            return _refusal(problem)
        return self._app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        sent = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"x-request-id"), "")
        id = request_id(sent)
        scope.setdefault("state", {})
        # The app below reads the id from here, and so uses the same one. The key is passed on separately: if anything
        # below fails, no traceback shows it among the headers.
        kept = [item for item in scope["headers"] if item[0] not in (b"x-request-id", b"authorization")]
        headers = [*kept, (b"x-request-id", id.encode())]
        scope = {**scope, "headers": headers, KEY_SENT: _key_sent(scope)}
        status = 0
        answered: float | None = None

        async def tell(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = id
            await send(message)
            answered = time.perf_counter()

        try:
            await self._answering(scope)(scope, receive, tell)
        except Exception as problem:
            _log.error(
                "request_failed",
                request_id=id,
                method=scope["method"],
                path=without_signature(scope["path"]),
                exception=plain_traceback(problem),
            )
            if not status:
                broken = JSONResponse({"status": 500, "error": "Internal Server Error"}, 500)
                await broken(scope, receive, tell)
        finally:
            if self._metrics is not None:
                self._metrics.observe(
                    scope["method"], _measured_path(scope), status, (answered or time.perf_counter()) - started
                )
            if self._log_requests:
                _log.info(
                    "request",
                    request_id=id,
                    method=scope["method"],
                    path=without_signature(scope["path"]),
                    route=_measured_path(scope),
                    status=status,
                    milliseconds=round(((answered or time.perf_counter()) - started) * 1000, 2),
                    organization=scope["state"].get("organization"),
                    **_sender(scope),
                )
