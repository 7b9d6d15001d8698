"""Errors as answers: one body for each kind of error, and its headers."""

from __future__ import annotations

from collections.abc import Mapping

from usagebill.core.authorizations import AuthorizationRefused, StripeRequired
from usagebill.core.errors import (
    BadRequest,
    BillingError,
    DatabaseFailed,
    Invalid,
    PaymentRequired,
    ThirdPartyError,
    TooManyProviderRequests,
    TooManyRequests,
    Unauthorized,
)
from usagebill.process.json_text import JsonObject

_TITLES = {
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    422: "Unprocessable Entity",
    503: "Service Unavailable",
    507: "Insufficient Storage",
}
# Temporary refusals: when to retry, unless the error knows better.
_RETRIED_LATER = frozenset({429, 503})
_RETRY_SECONDS = 60


def error_body(problem: BillingError) -> JsonObject:
    """The body of an error, the same for every endpoint."""
    if isinstance(problem, BadRequest):
        return {"status": problem.status, "error": problem.code, "message": problem.message}
    if isinstance(problem, Unauthorized):
        return {"status": 401, "error": "Unauthorized", "message": problem.message}
    if isinstance(problem, TooManyRequests):
        return {"status": 429, "error": "Too Many Requests", "message": problem.message}
    if isinstance(problem, TooManyProviderRequests):
        text = f"Service {problem.provider} is not available. Try again later."
        details = {"provider_name": problem.provider, "message": text}
        error = "Too Many Provider Requests"
        body: JsonObject = {"status": 429, "error": error, "code": problem.code, "error_details": details}
        return {**body, "message": problem.message}
    body = {"status": problem.status, "error": _TITLES[problem.status], "code": problem.code}
    if isinstance(problem, (PaymentRequired, ThirdPartyError)):
        body["error_details"] = problem.details
    if isinstance(problem, Invalid):
        body["error_details"] = problem.answered
    body["message"] = problem.message
    if isinstance(problem, Invalid):
        body["messages"] = problem.messages
    if isinstance(problem, AuthorizationRefused):
        body |= {"provider": {"code": problem.provider}, "error_details": problem.details}
    if isinstance(problem, StripeRequired):
        body["error_details"] = {}
    return body


def error_headers(problem: BillingError) -> Mapping[str, str]:
    """The headers of an error: `Retry-After`, in seconds, if it is temporary."""
    if isinstance(problem, DatabaseFailed):
        return {"retry-after": str(problem.retry_after)}
    return {"retry-after": str(_RETRY_SECONDS)} if problem.status in _RETRIED_LATER else {}
