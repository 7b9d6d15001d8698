"""A MoneyHash account: customers, intents, card tokens, and signed notices."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import uuid
from collections.abc import Mapping
from typing import ClassVar

from tests.payment_servers.server import Call, Json, Notice, PaymentServer, Refused


class MoneyHashServer(PaymentServer):
    """Charges become `UNPROCESSED`, or take the status in `outcomes`."""

    kind: ClassVar[str] = "moneyhash"

    def __init__(self, **options: Json) -> None:
        super().__init__(**options)
        self.customers: dict[str, Json] = {}
        self.intents: dict[str, Json] = {}

    @property
    def credentials(self) -> dict[str, str]:
        return {"api_key": "mh.0123456789", "flow_id": "flow_1", "signature_key": "signature_0123456789"}

    def is_allowed(self, headers: Mapping[str, str]) -> bool:
        return headers.get("x-api-key") == self.credentials["api_key"]

    def error(self, status: int, code: str, message: str) -> Json:
        return {"status": {"code": status, "message": "error", "errors": [{code: message}]}, "data": {}}

    def key_conflict(self, key: str) -> tuple[int, Json]:
        """A repeated key always gets the first answer."""
        return self._kept[key][1]

    def is_kept(self, status: int) -> bool:
        return True

    def route(self, call: Call) -> tuple[int, Json]:
        if call.key is not None and uuid.UUID(call.key).version != 4:
            raise Refused(400, self.error(400, "X-Idempotency-Key", "Invalid UUID"))
        match (call.method, call.path):
            case ("GET", "/api/v1/organizations/get-webhook-signature-key/"):
                return 200, self._good({"webhook_signature_secret": self.credentials["signature_key"]})
            case ("POST", "/api/v1.1/customers/"):
                if "@" not in call.fields.get("email", "@"):
                    raise Refused(400, self.error(400, "email", "Enter a valid email address."))
                id = self.new_id("mh-cus-")
                self.customers[id] = call.fields
                return 200, self._good({"id": id})
            case ("POST", "/api/v1.1/payments/intent/"):
                return 200, self._good(self._intent(call.fields))
        if call.method == "GET" and call.path.startswith("/api/v1.1/payments/intent/"):
            id = call.path.rstrip("/").rpartition("/")[2]
            known = self.intents[id]
            shown = {name: known[name] for name in ("status", "amount", "amount_currency", "custom_fields")}
            return 200, self._good({"id": id, **shown, **known.get("more", {})})
        raise KeyError(call.line)

    def _good(self, content: Json) -> Json:
        return {"status": {"code": 200, "message": "success", "errors": []}, "data": content}

    def _intent(self, fields: Json) -> Json:
        if any(not isinstance(item, str) for item in fields["custom_fields"].values()) or fields["flow_id"] != "flow_1":
            raise Refused(400, self.error(400, "custom_fields", "All values must be text."))
        if fields["merchant_initiated"] and fields.get("card_token") == "gone":
            raise Refused(400, self.error(400, "card_token", "Not found."))
        id = self.new_id("mh-int-")
        status = self.outcome("UNPROCESSED") if fields["merchant_initiated"] else "UNPROCESSED"
        self.intents[id] = {**fields, "status": status}
        answer: Json = {"id": id, "status": status, "embed_url": f"https://embed.moneyhash.test/{id}"}
        if status == "nested":
            answer = {"id": id, "status": None, "active_transaction": {"status": "SUCCESSFUL"}}
        return answer

    # Notices

    def signed(self, event: Json, *, spaces: bool = False) -> Notice:
        """An event, signed over its compact text; with `spaces` it is sent with spaces."""
        compact = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
        stamp = str(int(self.now().timestamp()))
        text = base64.b64encode(compact).decode() + stamp
        digest = hmac.new(self.credentials["signature_key"].encode(), text.encode(), hashlib.sha256).hexdigest()
        body = json.dumps(event, ensure_ascii=False).encode() if spaces else compact
        return Notice(body, {"moneyhash-signature": f"t={stamp},v1={'0' * 64},v2={'1' * 64},v3={digest}"})

    def page_event(self, id: str, type: str = "intent.processed", amount: Json = None) -> Notice:
        """A notice about a page."""
        known = self.intents[id]
        known["status"] = "PROCESSED" if type == "intent.processed" else "EXPIRED"
        intent = {
            "id": id,
            "status": "PROCESSED",
            "amount": known["amount"] if amount is None else amount,
            "amount_currency": known["amount_currency"],
            "custom_fields": known["custom_fields"],
        }
        return self.signed({"type": type, "data": {"intent_id": id, "intent": intent}, "api_version": "1.1"})

    def purchase_event(self, id: str, outcome: str) -> Notice:
        """A notice about a charge: `successful`, `failed` or `pending_authentication`."""
        known = self.intents[id]
        amount = {"value": known["amount"], "currency": known["amount_currency"]}
        intent = {"id": id, "amount": amount, "custom_fields": known["custom_fields"]}
        return self.signed({"type": f"transaction.purchase.{outcome}", "intent": intent})

    def token_event(self, action: str, id: str, fields: Json) -> Notice:
        token: Json = {"id": id, "brand": "Visa", "last_4": "4242", "expiry_month": "03", "expiry_year": "30"}
        token |= {"card_holder_name": "A. Cme", "issuer": "Bank <& Co>", "type": None, "custom_fields": fields}
        return self.signed({"type": f"card_token.{action}", "data": {"intent_id": "i", "card_token": token}})
