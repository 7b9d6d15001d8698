"""A Cashfree account: payment links and signed notices about them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar

from tests.payment_servers.server import Call, Json, Notice, PaymentServer, Refused


class CashfreeServer(PaymentServer):
    """Links have ids chosen by the merchant, each used once."""

    kind: ClassVar[str] = "cashfree"
    prefix: ClassVar[str] = "/pg"

    def __init__(self, **options: Json) -> None:
        super().__init__(**options)
        self.links: dict[str, Json] = {}

    @property
    def credentials(self) -> dict[str, str]:
        return {"client_id": "TEST0123456789", "client_secret": "cfsk_test_0123456789"}

    def is_allowed(self, headers: Mapping[str, str]) -> bool:
        return (
            headers.get("x-client-id") == self.credentials["client_id"]
            and headers.get("x-client-secret") == self.credentials["client_secret"]
            and headers.get("x-api-version") == "2023-08-01"
        )

    def error(self, status: int, code: str, message: str) -> Json:
        kinds = {401: "authentication_error", 429: "rate_limit_error", 500: "api_error"}
        return {"message": message, "code": code, "type": kinds.get(status, "invalid_request_error")}

    def route(self, call: Call) -> tuple[int, Json]:
        match (call.method, *call.path.strip("/").split("/")):
            case ("POST", "links"):
                return 200, self._made(call.fields)
            case ("GET", "links", id):
                return 200, self.links[id]
            case ("POST", "links", id, "cancel"):
                if self.links[id]["link_status"] != "ACTIVE":
                    raise Refused(400, self.error(400, "link_cancellation_failed", "Link is not active"))
                self.links[id]["link_status"] = "CANCELLED"
                return 200, self.links[id]
        raise KeyError(call.line)

    def _made(self, fields: Json) -> Json:
        id = fields["link_id"]
        if id in self.links:
            raise Refused(409, self.error(409, "link_already_exists", "Link already exists"))
        if len(id) > 50 or len(fields["link_notes"]) > 5:
            raise Refused(400, self.error(400, "link_id_invalid", "link_id is too long"))
        if fields["link_currency"] != "INR" or fields["link_amount"] < 1:
            raise Refused(400, self.error(400, "link_amount_invalid", "link_amount : should be at least 1"))
        if datetime.fromisoformat(fields["link_expiry_time"]) <= self.now():
            raise Refused(400, self.error(400, "link_expiry_time_invalid", "link_expiry_time : is past"))
        url = f"https://payments-test.cashfree.test/links/{id}"
        number = len(self.links) + 1
        self.links[id] = {**fields, "cf_link_id": number, "link_status": "ACTIVE", "link_url": url}
        return self.links[id]

    def link_event(self, id: str, status: str = "PAID", paid: str | None = None, **fields: Json) -> Notice:
        """A notice about a link; `paid` is in rupees."""
        link = self.links[id]
        link["link_status"] = status
        link["link_amount_paid"] = link["link_amount"] if status == "PAID" else 0
        content = {
            "cf_link_id": link["cf_link_id"],
            "link_id": id,
            "link_status": status,
            "link_currency": link["link_currency"],
            "link_amount": f"{link['link_amount']:.2f}",
            "link_amount_paid": paid or f"{link['link_amount']:.2f}",
            "link_notes": link["link_notes"],
            "order": {"order_id": "CFPay_1", "transaction_id": 1021206, "transaction_status": "SUCCESS"},
            **fields,
        }
        return self.event("PAYMENT_LINK_EVENT", content)

    def event(self, type: str, content: Json) -> Notice:
        body = json.dumps({"type": type, "version": 1, "event_time": self.now().isoformat(), "data": content}).encode()
        return self.signed(body, f"{int(self.now().timestamp()) * 1000}")

    def signed(self, body: bytes, stamp: str, secret: str | None = None) -> Notice:
        key = (secret or self.credentials["client_secret"]).encode()
        digest = base64.b64encode(hmac.new(key, stamp.encode() + body, hashlib.sha256).digest()).decode()
        return Notice(body, {"x-webhook-timestamp": stamp, "x-webhook-signature": digest})
