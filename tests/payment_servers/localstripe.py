"""localstripe, an independent fake of Stripe; a proxy removes fields that it does not know."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import ClassVar, Self

import httpx

from tests.payment_servers.server import Call, Json, PaymentServer
from tests.payment_servers.stripe import form_fields

# Fields that Stripe accepts and localstripe refuses, by the start of the request.
_UNKNOWN: Mapping[str, tuple[str, ...]] = {
    "POST /v1/payment_intents": ("return_url", "error_on_requires_action", "description", "cancellation_reason"),
    "POST /v1/refunds": ("reason",),
    "GET /v1/payment_intents": ("starting_after", "created[gte]", "created[lt]"),
}


class LocalStripe(PaymentServer):
    """localstripe in a separate process. The proxy handles idempotency keys, which localstripe lacks."""

    kind: ClassVar[str] = "stripe"

    def __init__(self) -> None:
        super().__init__()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{self._port}", auth=("sk_test_1", ""), timeout=30)

    @property
    def credentials(self) -> dict[str, str]:
        return {"secret_key": "sk_test_1", "webhook_secret": "whsec_local"}

    def __enter__(self) -> Self:
        command = [sys.executable, "-u", "-m", "localstripe", "--port", str(self._port), "--from-scratch"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if "Running on" in line:
                return super().__enter__()
        raise AssertionError("localstripe did not start")

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, problem, trace)
        self._http.close()
        self._process.terminate()
        self._process.communicate(timeout=30)

    def parsed(self, body: bytes) -> Json:
        return form_fields(body.decode())

    def queried(self, query: str) -> Json:
        return form_fields(query)

    def is_allowed(self, headers: Mapping[str, str]) -> bool:
        return headers.get("authorization") == "Bearer sk_test_1"

    def error(self, status: int, code: str, message: str) -> Json:
        return {"error": {"type": "invalid_request_error", "code": code, "message": message}}

    def route(self, call: Call) -> tuple[int, Json]:
        path, fields = call.path, dict(call.fields)
        for start, names in _UNKNOWN.items():
            if call.line.startswith(start):
                fields = {name: item for name, item in fields.items() if name not in names}
        match call.path.strip("/").split("/"):
            case ["v1", "customers", customer, "payment_methods"]:
                path, fields = "/v1/payment_methods", {"customer": customer, "type": "card"}
            case ["v1", "customers", _, "payment_methods", method]:
                path = f"/v1/payment_methods/{method}"
        return self.directly(call.method, path, fields)

    def directly(self, method: str, path: str, fields: Json) -> tuple[int, Json]:
        """A request to localstripe itself, as when the customer acts on one of its pages."""
        flat = dict(_flat(fields))
        sent = {"params": flat} if method == "GET" else {"data": flat}
        answer = self._http.request(method, path, **sent)  # type: ignore[arg-type]
        return answer.status_code, answer.json() if answer.content else {}

    def has_card(self, customer: str, number: str) -> str:
        """Save a card with this number as the customer's default."""
        card = {"number": number, "exp_month": 12, "exp_year": 2034, "cvc": "123"}
        method: str = self._good("/v1/payment_methods", {"type": "card", "card": card})["id"]
        self._good(f"/v1/payment_methods/{method}/attach", {"customer": customer})
        self._good(f"/v1/customers/{customer}", {"invoice_settings": {"default_payment_method": method}})
        return method

    def reports_to(self, url: str) -> None:
        """Send signed events there."""
        self._good("/_config/webhooks/ours", {"url": url, "secret": self.credentials["webhook_secret"]})

    def _good(self, path: str, fields: Json) -> Json:
        status, answer = self.directly("POST", path, fields)
        assert status == 200, answer
        return answer


def _flat(fields: Mapping[str, Json], inside: str = "") -> list[tuple[str, str]]:
    flat: list[tuple[str, str]] = []
    for name, item in fields.items():
        whole = f"{inside}[{name}]" if inside else name
        if isinstance(item, list):
            item = {str(place): part for place, part in enumerate(item)}
        flat += _flat(item, whole) if isinstance(item, dict) else [(whole, str(item))]
    return flat
