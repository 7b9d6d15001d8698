"""A GoCardless account: customers, mandates, debits, refunds, and signed batches of events."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import ClassVar

from tests.payment_servers.server import Call, Json, Notice, PaymentServer, Refused

_CURRENCIES = {"bacs": "GBP", "sepa_core": "EUR", "ach": "USD", "autogiro": "SEK"}


class GoCardlessServer(PaymentServer):
    """Debits become `pending_submission`, or as in `outcomes`: a status, or `invalid` for a refusal."""

    kind: ClassVar[str] = "gocardless"

    def __init__(self, **options: Json) -> None:
        super().__init__(**options)
        self.customers: dict[str, Json] = {}
        self.mandates: dict[str, Json] = {}
        self.payments: dict[str, Json] = {}
        self.refunds: dict[str, Json] = {}

    @property
    def credentials(self) -> dict[str, str]:
        return {"access_token": "sandbox_0123456789", "webhook_secret": "w" * 50}

    def is_allowed(self, headers: Mapping[str, str]) -> bool:
        return headers.get("authorization") == f"Bearer {self.credentials['access_token']}"

    def error(self, status: int, code: str, message: str) -> Json:
        kinds = {422: "validation_failed", 409: "invalid_state", 500: "gocardless"}
        kind = "invalid_state" if code.startswith(("mandate_", "cancellation_")) else kinds.get(status)
        reason = {"reason": code, "message": message}
        return {
            "error": {
                "type": kind or "invalid_api_usage",
                "code": status,
                "message": message,
                "errors": [reason],
                "request_id": f"r-{len(self.calls)}",
                "documentation_url": "https://developer.gocardless.com/#validation_failed",
            }
        }

    def is_kept(self, status: int) -> bool:
        return status == 201

    def repeated(self, key: str, answer: tuple[int, Json]) -> tuple[int, Json]:
        ((resource, made),) = answer[1].items()
        error = self.error(409, "idempotent_creation_conflict", f"A {resource} has already been created with this key")
        error["error"]["errors"][0]["links"] = {"conflicting_resource_id": made["id"]}
        return 409, error

    def key_conflict(self, key: str) -> tuple[int, Json]:
        """GoCardless does not compare the contents of requests with the same key."""
        return self.repeated(key, self._kept[key][1])

    # The account

    def knows(self, customer: str, *mandates: str, scheme: str = "bacs") -> None:
        self.customers[customer] = {"id": customer}
        for mandate in mandates:
            links = {"customer": customer}
            self.mandates[mandate] = {"id": mandate, "scheme": scheme, "status": "active", "links": links}

    def paid_out(self) -> dict[str, int]:
        """The amounts paid out, in minor units by currency."""
        totals: dict[str, int] = {}
        for payment in self.payments.values():
            if payment["status"] == "paid_out":
                totals[payment["currency"]] = totals.get(payment["currency"], 0) + payment["amount"]
        return totals

    # Requests

    def route(self, call: Call) -> tuple[int, Json]:
        if call.headers.get("gocardless-version") != "2015-07-06":
            raise Refused(400, self.error(400, "version_not_found", "Version not found"))
        match (call.method, *call.path.strip("/").split("/")):
            case ("POST", "customers"):
                fields = call.fields["customers"]
                if "@" not in (fields.get("email") or "@"):
                    refused = self.error(422, "invalid", "Validation failed")
                    refused["error"]["errors"] = [{"field": "email", "message": "is invalid", "request_pointer": "/"}]
                    raise Refused(422, refused)
                id = self.new_id("CU")
                self.customers[id] = {"id": id, **fields}
                return 201, {"customers": self.customers[id]}
            case ("GET", "customers", id):
                return 200, {"customers": self.customers[id]}
            case ("POST", "billing_requests"):
                fields = call.fields["billing_requests"]
                self._known(self.customers, fields["links"]["customer"])
                return 201, {"billing_requests": {"id": self.new_id("BRQ"), "status": "pending", **fields}}
            case ("GET", "billing_requests", id):
                return 200, {"billing_requests": {"id": id, "status": "pending"}}
            case ("POST", "billing_request_flows"):
                fields, id = call.fields["billing_request_flows"], self.new_id("BRF")
                url = f"https://pay.gocardless.test/{id}"
                return 201, {"billing_request_flows": {"id": id, "authorisation_url": url, "links": fields["links"]}}
            case ("GET", "mandates"):
                statuses = call.fields["status"].split(",")
                known = [
                    mandate
                    for mandate in self.mandates.values()
                    if mandate["links"]["customer"] == call.fields["customer"] and mandate["status"] in statuses
                ]
                return 200, {"mandates": known, "meta": {"cursors": {"before": None, "after": None}, "limit": 50}}
            case ("GET", "mandates", id):
                return 200, {"mandates": self.mandates[id]}
            case ("POST", "payments"):
                return 201, {"payments": self._debit(call.fields["payments"])}
            case ("GET", "payments"):
                return 200, self._page(call.fields)
            case ("GET", "payments", id):
                return 200, {"payments": self.payments[id]}
            case ("POST", "payments", id, "actions", "cancel"):
                if self.payments[id]["status"] not in ("pending_customer_approval", "pending_submission"):
                    raise Refused(422, self.error(422, "cancellation_failed", "Payment cannot be cancelled"))
                self.payments[id]["status"] = "cancelled"
                return 200, {"payments": self.payments[id]}
            case ("POST", "refunds"):
                return 201, {"refunds": self._refund(call.fields["refunds"])}
            case ("GET", "refunds"):
                known = [item for item in self.refunds.values() if item["links"]["payment"] == call.fields["payment"]]
                return 200, {"refunds": known, "meta": {"cursors": {"before": None, "after": None}, "limit": 50}}
            case ("GET", "refunds", id):
                return 200, {"refunds": self.refunds[id]}
        raise KeyError(call.line)

    def _known(self, resources: Mapping[str, Json], id: str) -> Json:
        if id not in resources:
            raise Refused(422, self.error(422, "resource_not_found", "Resource not found"))
        return resources[id]

    def _stamp(self) -> str:
        return f"{self.now():%Y-%m-%dT%H:%M:%S}.000Z"

    def _debit(self, fields: Json) -> Json:
        mandate = self._known(self.mandates, fields["links"]["mandate"])
        if mandate["status"] in ("cancelled", "failed", "expired"):
            raise Refused(422, self.error(422, "mandate_is_inactive", "Mandate is cancelled, failed or expired"))
        if fields["currency"] != _CURRENCIES[mandate["scheme"]] or fields["amount"] < 1:
            raise Refused(422, self.error(422, "invalid", "The mandate is for another currency"))
        if len(fields["metadata"]) > 3 or any(len(item) > 500 for item in fields["metadata"].values()):
            raise Refused(422, self.error(422, "invalid", "There are more than three keys in metadata"))
        status = self.outcome("pending_submission")
        if status == "invalid":
            raise Refused(422, self.error(422, "invalid", "Validation failed"))
        id = self.new_id("PM")
        self.payments[id] = {"id": id, "created_at": self._stamp(), "amount_refunded": 0, **fields, "status": status}
        return self.payments[id]

    def _refund(self, fields: Json) -> Json:
        payment = self.payments[fields["links"]["payment"]]
        total = payment["amount_refunded"] + fields["amount"]
        if fields["total_amount_confirmation"] != total:
            message = "The total amount confirmation given did not equal the actual total amount"
            raise Refused(422, self.error(422, "total_amount_confirmation_invalid", message))
        if payment["status"] in ("failed", "cancelled", "charged_back"):
            raise Refused(422, self.error(422, "refund_is_invalid", "What was not paid cannot be refunded"))
        if total > payment["amount"]:
            raise Refused(422, self.error(422, "available_refund_amount_insufficient", "It is more than was paid"))
        payment["amount_refunded"] = total
        id = self.new_id("RF")
        self.refunds[id] = {"id": id, "currency": payment["currency"], "status": "created", **fields}
        return self.refunds[id]

    def _page(self, fields: Json) -> Json:
        known = [
            item
            for item in self.payments.values()
            if fields["created_at[gte]"] <= item["created_at"] < fields["created_at[lt]"]
        ]
        ids = [item["id"] for item in known]
        start = ids.index(fields["after"]) + 1 if "after" in fields else 0
        page = known[start : start + int(fields["limit"])]
        after = page[-1]["id"] if start + len(page) < len(known) else None
        return {"payments": page, "meta": {"cursors": {"before": None, "after": after}, "limit": 500}}

    # Notices

    def batch(self, *events: Json) -> Notice:
        """Events in one signed message."""
        body = json.dumps({"events": list(events), "meta": {"webhook_id": self.new_id("WB")}}).encode()
        return Notice(body, {"webhook-signature": self.signature(body)})

    def signature(self, body: bytes) -> str:
        return hmac.new(self.credentials["webhook_secret"].encode(), body, hashlib.sha256).hexdigest()

    def event(self, about: str, action: str, links: Json, **fields: Json) -> Json:
        details = {"origin": "gocardless", "cause": f"{about}_{action}", "description": f"It was {action}."}
        return {
            "id": self.new_id("EV"),
            "created_at": self._stamp(),
            "resource_type": about,
            "action": action,
            "links": links,
            "details": details,
            "metadata": {},
            **fields,
        }

    def payment_event(self, id: str, action: str) -> Notice:
        """Move a debit to a state; returns the event about it."""
        return self.event_now(id, action, action)

    def event_now(self, id: str, action: str, state: str) -> Notice:
        """An event about a debit, which has this state by now."""
        self.payments[id]["status"] = state
        metadata = self.payments[id]["metadata"]
        return self.batch(self.event("payments", action, {"payment": id}, resource_metadata=metadata))

    def refund_event(self, id: str, action: str) -> Notice:
        return self.batch(self.event("refunds", action, {"refund": id}))

    def mandate_signed(self, customer: str, mandate: str, scheme: str = "bacs") -> Notice:
        """The customer has signed on the set-up page."""
        links = {"customer": customer}
        self.mandates[mandate] = {"id": mandate, "scheme": scheme, "status": "pending_submission", "links": links}
        return self.batch(self.event("mandates", "created", {"mandate": mandate}))

    def mandate_ended(self, mandate: str, action: str = "cancelled", origin: str = "bank") -> Notice:
        self.mandates[mandate]["status"] = action
        details = {"origin": origin, "cause": f"mandate_{action}", "description": "It has ended."}
        return self.batch(self.event("mandates", action, {"mandate": mandate}, details=details))
