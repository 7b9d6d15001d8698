"""A Flutterwave account: hosted pages, and transactions that can be verified."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import ClassVar

from tests.payment_servers.server import Call, Json, Notice, PaymentServer, Refused


class FlutterwaveServer(PaymentServer):
    """A reference is accepted once. `repeats_meta`: whether the account returns the metadata of a payment."""

    kind: ClassVar[str] = "flutterwave"
    prefix: ClassVar[str] = "/v3"

    def __init__(self, **options: Json) -> None:
        super().__init__(**options)
        self.pages: dict[str, Json] = {}
        self.transactions: dict[str, Json] = {}
        self.repeats_meta = True

    @property
    def credentials(self) -> dict[str, str]:
        return {"secret_key": "FLWSECK_TEST-0123456789-X", "webhook_secret": "a1b2c3d4e5f60718"}

    def is_allowed(self, headers: Mapping[str, str]) -> bool:
        return headers.get("authorization") == f"Bearer {self.credentials['secret_key']}"

    def error(self, status: int, code: str, message: str) -> Json:
        return {"status": "error", "message": message, "data": None}

    def route(self, call: Call) -> tuple[int, Json]:
        match (call.method, *call.path.strip("/").split("/")):
            case ("POST", "payments"):
                fields = call.fields
                if not fields["customer"].get("email"):
                    raise Refused(400, self.error(400, "invalid", "customer.email is required"))
                if fields["currency"] not in ("NGN", "GHS", "USD", "KES", "UGX"):
                    raise Refused(400, self.error(400, "invalid", f"{fields['currency']} is not supported"))
                self.pages[fields["tx_ref"]] = fields
                link = f"https://checkout.flutterwave.test/{len(self.pages)}"
                return 200, {"status": "success", "message": "Hosted Link", "data": {"link": link}}
            case ("GET", "transactions", id, "verify"):
                if id not in self.transactions:
                    raise Refused(400, self.error(400, "missing", "No transaction was found for this id"))
                shown = dict(self.transactions[id])
                return 200, {"status": "success", "message": "Transaction fetched successfully", "data": shown}
            case ("GET", "transactions", "verify_by_reference"):
                made = [item for item in self.transactions.values() if item["tx_ref"] == call.fields["tx_ref"]]
                if not made:
                    raise Refused(400, self.error(400, "missing", "No transaction was found for this id"))
                return 200, {"status": "success", "message": "Transaction fetched successfully", "data": made[-1]}
        raise KeyError(call.line)

    def page_paid(self, reference: str, amount: Json = None, *, verified: str = "successful", **told: Json) -> Notice:
        """The customer pays on a page; `verified` is the real status of the transaction."""
        page, id = self.pages[reference], str(2_859_500 + len(self.transactions))
        transaction = {
            "id": int(id),
            "tx_ref": reference,
            "amount": page["amount"] if amount is None else amount,
            "currency": page["currency"],
            "status": verified,
            "created_at": self.now().isoformat(),
            "meta": page["meta"] if self.repeats_meta else None,
            **told,
        }
        self.transactions[id] = transaction
        return self.event("charge.completed", {**transaction, "status": "successful"})

    def event(self, type: str, content: Json) -> Notice:
        body = json.dumps({"event": type, "data": content}).encode()
        return Notice(body, {"verif-hash": self.credentials["webhook_secret"]})
