"""Notices of payment providers over HTTP: no API key, but a signature that only the provider can make."""

from __future__ import annotations

from functools import partial

from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from usagebill.billing import Billing

# Far more than any provider sends at once.
_MOST_BYTES = 1024 * 1024
# The answer that Adyen expects.
_ACCEPTED = {"adyen": b'"[accepted]"'}


def notice_answer(kind: str, *, accepted: bool) -> Response:
    """The answer to a message: 200 once it is stored, 400 if it is not genuine."""
    if not accepted:
        return Response(status_code=400)
    body = _ACCEPTED.get(kind, b"")
    return Response(body, media_type="application/json" if body else None)


def notice_route(billing: Billing, limiter: CapacityLimiter) -> Route:
    """The route that receives the notices of every connection; `limiter` bounds its threads."""

    async def receive(request: HttpRequest) -> Response:
        kind, organization_id = request.path_params["kind"], request.path_params["organization_id"]
        body = b""
        try:
            async for part in request.stream():
                body += part
                if len(body) > _MOST_BYTES:
                    return Response(status_code=413, headers={"connection": "close"})
        except ClientDisconnect:
            return Response(status_code=400)
        headers = {name.lower(): value for name, value in request.headers.items()}
        code = request.query_params.get("code")
        take_in = partial(billing.receive_notice, kind, organization_id, code, headers, body)
        return notice_answer(kind, accepted=await to_thread.run_sync(take_in, limiter=limiter))

    return Route("/webhooks/{kind}/{organization_id}", receive, methods=["POST"])
