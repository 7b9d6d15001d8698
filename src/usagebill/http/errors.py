"""How refusals are spoken: one body for each kind of error."""

from __future__ import annotations

from usagebill.core.authorizations import AuthorizationRefused, StripeRequired
from usagebill.core.errors import (
    BadRequest,
    BillingError,
    Invalid,
    ThirdPartyError,
    TooManyProviderRequests,
    TooManyRequests,
    Unauthorized,
)
from usagebill.json_text import JsonObject

__all__ = ["error_body"]

_TITLES = {
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    422: "Unprocessable Entity",
    503: "Service Unavailable",
}


def error_body(problem: BillingError) -> JsonObject:
    """What is said about a refusal, for every endpoint alike."""
    if isinstance(problem, BadRequest):
        return {"status": 400, "error": problem.code}
    if isinstance(problem, Unauthorized):
        return {"status": 401, "error": "Unauthorized"}
    if isinstance(problem, TooManyRequests):
        return {"status": 429, "error": "Too Many Requests"}
    if isinstance(problem, TooManyProviderRequests):
        text = f"Service {problem.provider} is not available. Try again later."
        details = {"provider_name": problem.provider, "message": text}
        error = "Too Many Provider Requests"
        return {"status": 429, "error": error, "code": problem.code, "error_details": details}
    body: JsonObject = {"status": problem.status, "error": _TITLES[problem.status], "code": problem.code}
    if isinstance(problem, (Invalid, ThirdPartyError)):
        body["error_details"] = problem.details
    if isinstance(problem, AuthorizationRefused):
        body |= {"provider": {"code": problem.provider}, "error_details": problem.details}
    if isinstance(problem, StripeRequired):
        body |= {"message": problem.message, "error_details": {}}
    return body
