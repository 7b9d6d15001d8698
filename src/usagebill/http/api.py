"""The API: routing, keys, permissions, parsing, paging and errors, in one place."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from time import perf_counter
from typing import Any
from uuid import uuid4

import attrs

from usagebill.billing import Billing
from usagebill.core.activity_logs import ActivitySource, Actor
from usagebill.core.api_keys import ApiKey, is_allowed, is_valid
from usagebill.core.api_logs import ApiLog
from usagebill.core.blank import is_blank
from usagebill.core.errors import (
    BadRequest,
    BillingError,
    ClockRefused,
    Forbidden,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
)
from usagebill.core.organizations import Organization, check_requests
from usagebill.core.security_logs import refused_use
from usagebill.http.credentials import key_hash
from usagebill.http.endpoints import BASE, Endpoint
from usagebill.http.errors import error_body, error_headers
from usagebill.http.idempotency import HEADER, REPLAYED, Once
from usagebill.http.parameters import decoded, meta_of, paging_of, query_parameters
from usagebill.http.request_log import is_logged, logged
from usagebill.http.strictness import Strictness
from usagebill.operations import api_keys, organizations, security_logs
from usagebill.operations.backlog import is_query
from usagebill.process.json_text import Json, JsonObject, encode_json, parse_body, parse_json, with_prefix
from usagebill.process.logs import Log, plain_traceback
from usagebill.process.rate_limit import RateLimit
from usagebill.process.throttle import Throttle
from usagebill.queries.near_records import is_named, near_record
from usagebill.requests.inputs import read, read_query
from usagebill.requests.refusals import word
from usagebill.runtime.clock import Clock
from usagebill.runtime.work import Reader, Work
from usagebill.storage import deadline
from usagebill.storage.ports import Transaction

# The number of callers cached at a time; others are looked up.
_MOST_CALLERS = 1000
_KEY_USE_NOTED_EVERY = timedelta(hours=1)
_MISUSE_TOLD_EVERY = timedelta(hours=1)
# Requests that cannot be read, or that break the service, are not logged.
_LOGGED_REFUSALS = frozenset({403, 404, 405, 422, 429})
_log = Log("usagebill.http")


@attrs.frozen(kw_only=True)
class Request:
    """`path` and `query` are as sent, percent-encoded; header names are lower case.

    Its `repr` shows neither its key nor its customers' data.
    """

    method: str
    path: str
    scheme: str = "http"
    query: str = attrs.field(default="", repr=False)
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    body: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen(kw_only=True)
class Answer:
    """`organization_id` is that of the request's `key`; both are None if it had no valid one.

    `unnoted` is the key if its use is still to be recorded, `unlogged` the entry still to be logged (`Api.note_use`).
    """

    status: int
    body: bytes = attrs.field(default=b"", repr=False)
    headers: Mapping[str, str] = attrs.field(factory=dict)
    organization_id: str | None = None
    key: ApiKey | None = attrs.field(default=None, repr=False)
    unnoted: ApiKey | None = None
    unlogged: ApiLog | _Misuse | None = attrs.field(default=None, repr=False)


@attrs.frozen
class _Misuse:
    """A key that does not permit its request, and why."""

    key: ApiKey
    reason: str
    method: str
    path: str
    client: str


@attrs.frozen
class _Caller:
    """The organization and the key of a request."""

    organization: Organization
    key: ApiKey


class _NotConfirmed(Exception):
    """The caller, or its permissions, have changed since it was looked up."""


class _Confirmation:
    """Looks a caller up again in the transaction of its request.

    A separate snapshot for that would cost more than the check: each commit empties the cache of SQLite's connection,
    and a server takes two more round trips.
    """

    def __init__(self, caller: _Caller) -> None:
        self._caller = caller
        self.is_made = False

    def make(self, work: Reader) -> None:
        """Raises `_NotConfirmed` if anything about the caller has changed."""
        caller = self._caller
        self.is_made = False
        key = work.tx.get(ApiKey, caller.key.id)
        organization = work.tx.get(Organization, caller.organization.id)
        if key != caller.key or organization != caller.organization:
            raise _NotConfirmed
        self.is_made = True


@attrs.define
class _Exchange:
    """A request being answered, with everything known about it so far."""

    request: Request
    id: str
    began: float = attrs.field(factory=perf_counter)
    caller: _Caller | None = None
    headers: dict[str, str] = attrs.field(factory=dict)
    misuse: _Misuse | None = None
    # The body as sent, and the input class that it is read into, for the messages of refusals.
    sent: Mapping[str, object] = attrs.field(factory=dict, repr=False)
    path: Mapping[str, object] = attrs.field(factory=dict, repr=False)
    kind: type | None = None
    secrets: frozenset[str] = frozenset()
    # Makes the log entry from the status and the answer; None if the request is not logged.
    log: Callable[[int, Json], ApiLog] | None = None

    @property
    def client(self) -> str:
        """The client's `User-Agent`."""
        return self.request.headers.get("user-agent", "")


def request_id(sent: str) -> str:
    """The id of a request: the one sent with it, reduced to letters, digits, `_`, `-` and `@`, or a new one."""
    return re.sub(r"[^A-Za-z0-9_@-]", "", sent)[:255] or str(uuid4())


def _only_looks(endpoint: Endpoint) -> bool:
    return endpoint.method == "GET" and not endpoint.writes


def _once(request: Request, endpoint: Endpoint) -> Once | None:
    """What makes sure that a POST with a key is done once; other verbs may be repeated as they are."""
    key = request.headers.get(HEADER.lower())
    if key is None or request.method != "POST":
        return None
    return Once(
        key,
        method=request.method,
        path=request.path,
        query=request.query,
        body=request.body,
        shown_once=frozenset(endpoint.shown_once),
    )


def _check_permission(exchange: _Exchange, caller: _Caller, endpoint: Endpoint) -> None:
    """Raises `Forbidden` if the key may not use the endpoint."""
    mode = "read" if exchange.request.method == "GET" else "write"
    needed = [(endpoint.permission, mode), *(grant.split(":") for grant in endpoint.opens)]
    for resource, its_mode in needed if caller.organization.granular_permissions else ():
        if is_allowed(caller.key, resource, its_mode):
            continue
        refusal = f"{its_mode}_action_not_allowed_for_{resource}"
        exchange.misuse = _misuse(exchange, caller.key, refusal)
        raise Forbidden(refusal)
    exchange.misuse = None


def _misuse(exchange: _Exchange, key: ApiKey, reason: str) -> _Misuse:
    request = exchange.request
    return _Misuse(key, reason, request.method, request.path, exchange.client)


def _logging(act: Callable[[Work], Json], log: Callable[[int, Json], ApiLog] | None, work: Work) -> Json:
    """The answer of `act`, logged in its transaction."""
    answer = act(work)
    if log is not None:
        work.tx.insert(log(200, answer))
    return answer


def _log_refusal(work: Work, unlogged: ApiLog | _Misuse, clock: Clock) -> None:
    if isinstance(unlogged, ApiLog):
        work.tx.insert(unlogged)
        return
    event = refused_use(unlogged.key, unlogged.reason, unlogged.method, unlogged.path)
    actor = Actor(source=ActivitySource.API, api_key=unlogged.key, client=unlogged.client or None)
    security_logs.note(work, event, actor, clock.now())


class Routes:
    """Endpoints by verb and path segments; a segment in braces matches any text."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._by_shape: dict[tuple[str, int], list[tuple[tuple[str, ...], Endpoint]]] = {}
        for endpoint in endpoints:
            pattern = tuple(endpoint.path.strip("/").split("/"))
            merges = endpoint.method == "PUT" and not endpoint.one_verb
            for verb in ("PUT", "PATCH") if merges else (endpoint.method,):
                self._by_shape.setdefault((verb, len(pattern)), []).append((pattern, endpoint))
        for candidates in self._by_shape.values():
            # Literal segments win over braces: /events/batch before /events/{transaction_id}.
            candidates.sort(key=lambda candidate: tuple(segment.startswith("{") for segment in candidate[0]))

    def match(self, method: str, path: str) -> tuple[Endpoint, dict[str, str]]:
        segments = path.strip("/").split("/")
        for pattern, endpoint in self._by_shape.get((method, len(segments)), ()):
            if all(mine.startswith("{") or mine == theirs for mine, theirs in zip(pattern, segments, strict=True)):
                return endpoint, {
                    mine[1:-1]: decoded(theirs)
                    for mine, theirs in zip(pattern, segments, strict=True)
                    if mine.startswith("{")
                }
        raise NotFound("resource")


class Api:
    """Answers requests below `/api/v1` from a table of endpoints."""

    def __init__(self, billing: Billing, routes: Routes) -> None:
        self.billing = billing
        self._routes = routes
        self._strictness = Strictness(always=billing.settings.strict)
        self._prefix = billing.settings.id_prefix
        per_minute = billing.settings.requests_per_minute
        self._being_noted: set[str] = set()
        # Refusals of a key for a reason.
        self._misuses = Throttle(_MISUSE_TOLD_EVERY)
        # By the hash of their key.
        self._callers: dict[str, _Caller] = {}
        self._rate_limit = None if per_minute is None else RateLimit(per_minute)

    def answer(self, request: Request) -> Answer:
        """The answer to `request`. Errors are answers too, and a refused request leaves nothing behind."""
        exchange = self._exchange(request)
        answer = self._answer_to(exchange, self._answer)
        caller = exchange.caller
        return answer if caller is None else attrs.evolve(answer, unnoted=self._to_note(caller.key))

    def only_looks(self, request: Request) -> bool:
        """Whether answering, refusals included, writes nothing."""
        with suppress(BillingError):
            return _only_looks(self._route(request)[0])
        return True

    def path_of(self, request: Request) -> str | None:
        """The path of a request's operation, as in the table of endpoints; None if there is none."""
        with suppress(BillingError):
            return BASE + self._route(request)[0].path
        return None

    def answer_unread(self, request: Request) -> Answer:
        """The answer to a request that is refused whatever its body, which has not been read; its status is 200 if the
        request is not refused.
        """

        def look(exchange: _Exchange) -> Answer:
            endpoint, _ = self._route(request)
            exchange.caller = self._authenticated(exchange, key_hash(request.headers.get("authorization", "")))
            _check_permission(exchange, exchange.caller, endpoint)
            return Answer(status=200)

        return self._answer_to(self._exchange(request), look)

    def note_use(self, answer: Answer) -> None:
        """Record the use of the key of this answer, and write its log entry if there is one left to write."""
        key, unlogged = answer.unnoted, answer.unlogged
        if unlogged is not None:
            owner = unlogged.key.organization_id if isinstance(unlogged, _Misuse) else unlogged.organization_id
            self._note("refusal_not_logged", owner, partial(_log_refusal, unlogged=unlogged, clock=self.billing.clock))
        if key is not None:
            # If it fails, the next request with the key tries again.
            self._note("use_of_key_not_noted", key.organization_id, lambda work: api_keys.note_use(work, key))
            self._being_noted.discard(key.id)

    def _note(self, failure: str, organization_id: str, act: Callable[[Work], None]) -> None:
        try:
            organization = self.billing.store.read(None, lambda tx: tx.get(Organization, organization_id))
            if organization is not None:
                self.billing.writing(act, organization)
        except ClockRefused:
            return
        except Exception as problem:
            _log.warning(failure, exception=plain_traceback(problem))

    def _to_log(self, exchange: _Exchange, answer: Answer) -> ApiLog | _Misuse | None:
        """The log entry of a refusal; changes that were made are logged in their own transaction."""
        misuse = exchange.misuse
        if misuse is not None and answer.status in (401, 403):
            if self.billing.settings.security_log_days == 0:
                return None
            passes = self._misuses.passes((misuse.key.id, misuse.reason), self.billing.clock.now())
            return misuse if passes else None
        if exchange.log is None or answer.status not in _LOGGED_REFUSALS:
            return None
        return exchange.log(answer.status, parse_json(answer.body))

    def _exchange(self, request: Request) -> _Exchange:
        return _Exchange(request, request_id(request.headers.get("x-request-id", "")))

    def _answer_to(self, exchange: _Exchange, act: Callable[[_Exchange], Answer]) -> Answer:
        """The answer of `act`, which sets the caller and headers as soon as it knows them."""
        try:
            with deadline.within(self.billing.settings.request_timeout):
                answer = act(exchange)
        except BillingError as problem:
            self._word(problem, exchange)
            answer = self.refusal(problem)
        except Exception as problem:
            _log.error(
                "request_failed",
                method=exchange.request.method,
                path=exchange.request.path,
                request_id=exchange.id,
                exception=plain_traceback(problem),
            )
            answer = self._spoken(500, {"status": 500, "error": "Internal Server Error"})
        return attrs.evolve(
            answer,
            headers={**answer.headers, **exchange.headers, "x-request-id": exchange.id},
            organization_id=None if exchange.caller is None else exchange.caller.organization.id,
            key=None if exchange.caller is None else exchange.caller.key,
            unlogged=self._to_log(exchange, answer),
        )

    def _to_note(self, key: ApiKey) -> ApiKey | None:
        is_noted = key.last_used_at is not None and self.billing.clock.now() - key.last_used_at < _KEY_USE_NOTED_EVERY
        if is_noted or key.id in self._being_noted:
            return None
        self._being_noted.add(key.id)
        return key

    def _word(self, problem: BillingError, exchange: _Exchange) -> None:
        """Write the messages of a refusal from the values sent."""
        near = None
        if exchange.caller is not None and is_named(problem):
            near = self.billing.reading(partial(near_record, problem=problem), exchange.caller.organization)
        word(
            problem,
            exchange.sent,
            exchange.kind,
            path=exchange.path,
            secrets=exchange.secrets,
            near=near,
            prefix=self._prefix,
        )

    def refusal(self, problem: BillingError) -> Answer:
        """The answer for `problem`."""
        word(problem)
        answer = self._spoken(problem.status, error_body(problem))
        return attrs.evolve(answer, headers={**answer.headers, **error_headers(problem)})

    def _spoken(self, status: int, body: Json, content_type: str = "application/json; charset=utf-8") -> Answer:
        payload = encode_json(with_prefix(body, "svc_", self._prefix))
        return Answer(status=status, body=payload, headers={"content-type": content_type})

    def _route(self, request: Request) -> tuple[Endpoint, dict[str, str]]:
        if not request.path.startswith(BASE + "/"):
            raise NotFound("resource")
        return self._routes.match(request.method, request.path.removeprefix(BASE))

    def _answer(self, exchange: _Exchange) -> Answer:
        request = exchange.request
        # The key is checked before anything that a stranger could make expensive.
        endpoint, path = self._route(request)
        value_hash = key_hash(request.headers.get("authorization", ""))
        known = self._known_caller(value_hash)
        caller = known or self._authenticated(exchange, value_hash)
        exchange.caller = caller
        if self._rate_limit is not None:
            standing = self._rate_limit.count(caller.key.id, self.billing.clock.now())
            exchange.headers.update(standing.headers)
            if standing.remaining < 0:
                exchange.headers["retry-after"] = standing.headers["x-ratelimit-reset"]
                raise TooManyRequests
        self._count(exchange, caller.organization)
        while True:
            confirmation = _Confirmation(caller)
            try:
                return self._acted(exchange, endpoint, path, caller, confirmation)
            except _NotConfirmed:
                # It changed since it was looked up, perhaps while an earlier try waited for an outside service.
                caller = exchange.caller = self._authenticated(exchange, value_hash)
            except BillingError:
                # A caller that is not confirmed may have been refused for what it no longer is.
                if confirmation.is_made:
                    raise
                before, caller = caller, self._authenticated(exchange, value_hash)
                exchange.caller = caller
                if caller == before:
                    raise

    def _count(self, exchange: _Exchange, organization: Organization) -> None:
        """Count a request, for all processes, if its organization may only make so many. Raises `TooManyRequests`."""
        if organization.limits.requests_per_second is None:
            return
        second = self.billing.clock.now().replace(microsecond=0)
        made = self.billing.store.write(None, lambda tx: tx.count_up(organization.id, "requests", second))
        exchange.headers["retry-after"] = "1"
        check_requests(organization.limits, made)
        del exchange.headers["retry-after"]

    def _acted(
        self,
        exchange: _Exchange,
        endpoint: Endpoint,
        path: dict[str, str],
        caller: _Caller,
        confirmation: _Confirmation,
    ) -> Answer:
        """The answer to a request of `caller`, who is looked up again within the transaction, at each try."""
        request, organization = exchange.request, caller.organization
        _check_permission(exchange, caller, endpoint)
        parameters = with_prefix(query_parameters(request.query), self._prefix, "svc_")
        body: Json = {}
        if request.body.strip():
            try:
                body = with_prefix(parse_body(request.body, endpoint.nul, endpoint.any_json), self._prefix, "svc_")
            except ValueError as problem:
                raise BadRequest("Bad Request", f"the body cannot be read: {problem}") from problem

        exchange.kind = endpoint.body or endpoint.query
        exchange.secrets = frozenset(endpoint.secrets)
        exchange.sent, exchange.path = {**self._unrooted(endpoint, body), **parameters}, path
        exchange.log = self._entry(exchange, endpoint, caller.key, body, {**parameters, **path})
        self._strictness.check(endpoint, request.headers, body, parameters, caller.key.id, self.billing.clock.now())
        once = _once(request, endpoint)

        def act(work: Reader) -> Json:
            confirmation.make(work)
            arguments: dict[str, Any] = dict(path)
            merged = {**body, **parameters} if isinstance(body, dict) else parameters
            if endpoint.query is not None:
                arguments["options"] = read_query(endpoint.query, merged)
            if endpoint.body is not None:
                try:
                    arguments["request"] = read(endpoint.body, self._root(endpoint, body))
                except (BadRequest, Invalid) as problem:
                    if endpoint.find is not None and (endpoint.found_first or isinstance(problem, Invalid)):
                        endpoint.find(work, **arguments)
                    raise
            if endpoint.paged:
                arguments["paging"] = paging_of(merged)
            return self._shown(endpoint, work, endpoint.call(work, **arguments))

        if _only_looks(endpoint) or (exchange.log is None and once is None and is_query(endpoint.call)):
            shown = self.billing.reading(act, organization)
        else:
            actor = Actor(
                source=ActivitySource.API, api_key=caller.key, request_id=exchange.id, client=exchange.client or None
            )

            def change(work: Work) -> Json:
                if once is None:
                    return act(work)
                confirmation.make(work)
                return once.answer(work, act)

            shown = self.billing.writing(partial(_logging, change, exchange.log), organization, actor=actor)
            if once is not None and once.is_repeat:
                exchange.headers[REPLAYED] = "true"
        if isinstance(shown, bytes):
            return Answer(status=200, body=shown, headers={"content-type": endpoint.content_type} if shown else {})
        return self._spoken(200, shown, endpoint.content_type)

    def _entry(
        self, exchange: _Exchange, endpoint: Endpoint, key: ApiKey, body: Json, parameters: JsonObject
    ) -> Callable[[int, Json], ApiLog] | None:
        request, settings = exchange.request, self.billing.settings
        if not is_logged(endpoint, request.method, settings):
            return None
        host = request.headers.get("host")

        def entry(status: int, answer: Json) -> ApiLog:
            return logged(
                endpoint,
                key,
                id=exchange.id,
                method=request.method,
                path=request.path,
                origin=settings.public_url if host is None else f"{request.scheme}://{host}",
                client=exchange.client,
                sent={**body, **parameters} if isinstance(body, dict) else parameters,
                status=status,
                answer=with_prefix(answer, self._prefix, "svc_") if status != 200 else answer,
                began=exchange.began,
                now=self.billing.clock.now(),
            )

        return entry

    def _unrooted(self, endpoint: Endpoint, body: Json) -> Mapping[str, object]:
        root = body.get(endpoint.root, body) if isinstance(body, dict) and endpoint.root is not None else body
        return root if isinstance(root, dict) else {}

    def _root(self, endpoint: Endpoint, body: Json) -> Mapping[str, object]:
        if endpoint.many is not None and not (isinstance(body, dict) and endpoint.many in body):
            return {endpoint.many: body if isinstance(body, list) else [body]}
        if endpoint.root is None:
            if is_blank(body):
                return {}
            if not isinstance(body, dict):
                raise BadRequest("Bad Request", "the body is not an object; send one, `{...}`")
            return body
        root = body.get(endpoint.root) if isinstance(body, dict) else None
        known = {item.name for item in attrs.fields(endpoint.body)} if endpoint.known_field and endpoint.body else None
        if not isinstance(root, dict) or not root or (known is not None and known.isdisjoint(root)):
            raise BadRequest(f"BadRequest: param is missing or the value is empty or invalid: {endpoint.root}")
        return root

    def _shown(self, endpoint: Endpoint, work: Reader, result: Any) -> Json:
        if endpoint.view is None:
            return b""
        shown: Json
        if endpoint.paged:
            shown = [endpoint.view(work, item) for item in result.items]
        else:
            shown = endpoint.view(work, result)
        body = shown if endpoint.returns is None else {endpoint.returns: shown}
        return {**body, "meta": meta_of(result)} if endpoint.paged else body

    def _authenticated(self, exchange: _Exchange, value_hash: str | None) -> _Caller:
        if value_hash is None:
            raise Unauthorized

        def look_up(tx: Transaction) -> tuple[Organization, ApiKey] | None:
            key = api_keys.by_hash(tx, value_hash)
            organization = None if key is None else tx.get(Organization, key.organization_id)
            return None if key is None or organization is None else (organization, key)

        identity = self.billing.store.read(None, look_up)
        now = self.billing.clock.now()
        if identity is None:
            raise Unauthorized
        organization, key = identity
        if not hmac.compare_digest(key.value_hash, value_hash):
            raise Unauthorized
        if not is_valid(key, now):
            exchange.misuse = _misuse(exchange, key, "expired")
            raise Unauthorized
        organizations.check_enabled(organization)
        caller = _Caller(organization, key)
        self._callers[value_hash] = caller
        while len(self._callers) > _MOST_CALLERS:
            self._callers.pop(next(iter(self._callers), ""), None)
        return caller

    def _known_caller(self, value_hash: str | None) -> _Caller | None:
        """The caller of this key when it was last looked up, which the request confirms (`_Confirmation`)."""
        caller = self._callers.get(value_hash or "")
        return caller if caller is not None and is_valid(caller.key, self.billing.clock.now()) else None
