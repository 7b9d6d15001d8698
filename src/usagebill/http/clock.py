"""The clock of a sandbox over HTTP: read, and moved with everything that falls due on the way."""

from __future__ import annotations

from datetime import datetime

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from usagebill.billing import Billing
from usagebill.core.api_keys import is_allowed, is_valid
from usagebill.core.errors import BadRequest, BillingError, Forbidden, Unauthorized
from usagebill.core.instants import parse_instant
from usagebill.http.credentials import KEY_SENT, key_hash
from usagebill.http.errors import error_body
from usagebill.operations import api_keys
from usagebill.process.json_text import parse_json
from usagebill.requests.refusals import word
from usagebill.runtime.clock import MovedByHand, move
from usagebill.storage.ports import Transaction
from usagebill.views.formats import instant_text

_MOST_BYTES = 1024


def clock_route(billing: Billing, sandbox: MovedByHand, limiter: CapacityLimiter) -> Route:
    """`GET /clock` and `POST /clock` with `{"now": "2024-02-01T00:00:00Z"}`, for keys that may write the
    organization.
    """

    def answered(method: str, authorization: str, body: bytes) -> Response:
        try:
            value_hash = key_hash(authorization)

            def look_up(tx: Transaction) -> None:
                key = api_keys.by_hash(tx, value_hash or "")
                if key is None or not is_valid(key, sandbox.now):
                    raise Unauthorized
                if not is_allowed(key, "organization", "write"):
                    raise Forbidden("write_action_not_allowed_for_organization")

            billing.store.read(None, look_up)
            if method == "POST":
                move(sandbox, _sent(body))
        except BillingError as problem:
            word(problem)
            return JSONResponse(error_body(problem), problem.status)
        return JSONResponse({"clock": {"now": instant_text(sandbox.now)}})

    async def handler(request: HttpRequest) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MOST_BYTES:
                return Response(status_code=413, headers={"connection": "close"})
        authorization = request.scope[KEY_SENT].value
        return await to_thread.run_sync(answered, request.method, authorization, body, limiter=limiter)

    return Route("/clock", handler, methods=["GET", "POST"])


def _sent(body: bytes) -> datetime | None:
    try:
        parsed = parse_json(body)
    except ValueError as problem:
        raise BadRequest("Bad Request") from problem
    sent = parsed.get("now") if isinstance(parsed, dict) else None
    return parse_instant(sent) if isinstance(sent, str) else None
