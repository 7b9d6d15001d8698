"""Requests to Stripe: forms with nested names, JSON answers, and errors in Stripe's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from urllib.parse import quote, urlencode

from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.provider_requests import FailureKind, ProviderFailed, ProviderFailure
from usagebill.outside.payment_providers.fields import items, required_text, text, value
from usagebill.outside.payment_providers.http import ProviderHttp, Said, failed
from usagebill.process.json_text import Json, JsonObject, encode_json, parse_json

VERSION = "2025-04-30.basil"
_HOST = "https://api.stripe.com"
_PAGE = 100
_LONGEST_BODY = 20_000


class StripeClient:
    """Stripe's API, in the version that its requests are written for. Every method raises `ProviderFailed`."""

    def __init__(self, http: ProviderHttp) -> None:
        self._http = http

    def get(self, connection: PaymentConnection, path: str, fields: JsonObject | None = None) -> JsonObject:
        """The resource at a path below `/v1`."""
        return self._ask(connection, "GET", f"{path}?{_form(fields)}" if fields else path)

    def post(self, connection: PaymentConnection, path: str, fields: JsonObject, key: str | None = None) -> JsonObject:
        """Post a form, without its null fields. `key` is the idempotency key."""
        return self._ask(connection, "POST", path, _form(fields).encode(), key)

    def delete(self, connection: PaymentConnection, path: str) -> JsonObject:
        """Delete a resource."""
        return self._ask(connection, "DELETE", path)

    def all(self, connection: PaymentConnection, path: str, fields: JsonObject) -> Iterator[Json]:
        """All records of a list, page by page."""
        after: str | None = None
        while True:
            page = self.get(connection, path, {**fields, "limit": _PAGE, "starting_after": after})
            listed = items(page, "data")
            yield from listed
            if not value(page, "has_more") or not listed:
                return
            after = required_text(listed[-1], "id")

    def _ask(
        self, connection: PaymentConnection, method: str, path: str, body: bytes | None = None, key: str | None = None
    ) -> JsonObject:
        """The JSON of a successful answer. Raises `ProviderFailed`."""
        headers = {"authorization": f"Bearer {connection.secret('secret_key').value}", "stripe-version": VERSION}
        if body is not None:
            headers["content-type"] = "application/x-www-form-urlencoded"
        if key is not None:
            headers["idempotency-key"] = key
        said = self._http.ask(method, f"{(connection.url or _HOST).rstrip('/')}/v1{path}", headers, body)
        if not said.is_good:
            raise ProviderFailed(_failure(said))
        if not isinstance(said.json, dict):
            raise failed(FailureKind.UNREACHABLE, "invalid_response", "the answer cannot be read")
        return said.json


def segment(id: str) -> str:
    """An id as a path segment."""
    return quote(id, safe="")


def _form(fields: JsonObject) -> str:
    return urlencode(list(_pairs(fields)))


def _pairs(fields: Mapping[str, Json], inside: str = "") -> Iterator[tuple[str, str]]:
    """Form fields by name, nested ones as `a[b][0]`, without nulls."""
    for name, item in fields.items():
        whole = f"{inside}[{name}]" if inside else name
        if isinstance(item, (list, tuple)):
            item = {str(place): part for place, part in enumerate(item)}
        if isinstance(item, Mapping):
            yield from _pairs(item, whole)
        elif isinstance(item, bool):
            yield whole, "true" if item else "false"
        elif item is not None:
            yield whole, str(item)


def _failure(said: Said) -> ProviderFailure:
    """The failure that an error answer describes."""
    error = value(said.json, "error")
    code, kind = text(error, "code"), text(error, "type")
    message = text(error, "message") or f"Stripe answered {said.status}"
    shown = parse_json(encode_json(said.json)) if isinstance(said.json, dict) else {}
    if isinstance(value(shown, "error", "payment_intent"), dict):
        # It is a credential for acting on the intent.
        shown["error"]["payment_intent"].pop("client_secret", None)
    details = {
        "code": code,
        "message": message,
        "request_id": said.headers.get("request-id"),
        "http_status": said.status,
        "http_body": encode_json(shown).decode()[:_LONGEST_BODY],
    }
    failure = failed(_failure_kind(said.status, kind, code), code or f"status_{said.status}", message).failure
    return replace(failure, provider_payment_id=text(error, "payment_intent", "id"), details=details)


def _failure_kind(status: int, kind: str | None, code: str | None) -> FailureKind:
    if status in (401, 403):
        return FailureKind.UNAUTHORIZED
    if status in (409, 424) or kind == "api_error" or not 400 <= status < 500:
        # 409: the first request with this key is still running.
        return FailureKind.UNREACHABLE
    if kind == "idempotency_error":
        return FailureKind.CONFLICT
    if code == "authentication_required":
        return FailureKind.ACTION_REQUIRED
    if code == "amount_too_small":
        return FailureKind.TOO_SMALL
    return FailureKind.DECLINED if kind == "card_error" or status == 402 else FailureKind.REFUSED
