"""An Adyen merchant account: payment links, cards on file, charges, modifications, and signed notifications."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar

from tests.payment_servers.server import Call, Json, Notice, PaymentServer, Refused

_HMAC_KEY = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"


class AdyenServer(PaymentServer):
    """Charges end as `Authorised`, or with the result code in `outcomes` (`Refused`, `Received`, ...)."""

    kind: ClassVar[str] = "adyen"

    def __init__(self, **options: Json) -> None:
        super().__init__(**options)
        self.cards: dict[str, list[str]] = {}
        self.payments: dict[str, Json] = {}
        self.refunds: dict[str, Json] = {}
        self.links: dict[str, Json] = {}

    @property
    def credentials(self) -> dict[str, str]:
        return {"api_key": "AQE0123456789", "merchant_account": "HooliCOM", "hmac_key": _HMAC_KEY}

    def is_allowed(self, headers: Mapping[str, str]) -> bool:
        return headers.get("x-api-key") == self.credentials["api_key"]

    def error(self, status: int, code: str, message: str) -> Json:
        kinds = {401: "security", 403: "security", 500: "internal"}
        return {"status": status, "errorCode": code, "message": message, "errorType": kinds.get(status, "validation")}

    def knows(self, shopper: str, *cards: str) -> None:
        self.cards[shopper] = list(cards)

    def authorised(self) -> dict[str, int]:
        """The authorised amounts, in minor units by currency."""
        totals: dict[str, int] = {}
        for payment in self.payments.values():
            if payment["result"] == "Authorised":
                totals[payment["currency"]] = totals.get(payment["currency"], 0) + payment["value"]
        return totals

    # Requests

    def key_conflict(self, key: str) -> tuple[int, Json]:
        return self._kept[key][1]

    def route(self, call: Call) -> tuple[int, Json]:
        parts = call.path.strip("/").split("/")
        if parts[0] != "v70":
            raise KeyError(call.path)
        account = self.credentials["merchant_account"]
        if call.method not in ("PATCH", "GET") and call.fields.get("merchantAccount") != account:
            raise Refused(403, self.error(403, "901", "Invalid Merchant Account"))
        match (call.method, *parts[1:]):
            case ("POST", "paymentMethods"):
                cards = self.cards.get(call.fields["shopperReference"], [])
                stored = [
                    {"id": id, "type": "scheme", "brand": "visa", "lastFour": "1111", "expiryMonth": "03"}
                    | {"expiryYear": "30", "holderName": "A. Cme", "name": "VISA"}
                    for id in cards
                ]
                return 200, {"paymentMethods": [], **({"storedPaymentMethods": stored} if stored else {})}
            case ("POST", "payments"):
                return 200, self._charge(call.fields)
            case ("POST", "payments", id, "cancels"):
                if id not in self.payments:
                    raise Refused(422, self.error(422, "167", "Original pspReference required for this operation"))
                return 201, {"paymentPspReference": id, "pspReference": self.new_id("MOD"), "status": "received"}
            case ("POST", "payments", id, "refunds"):
                payment, amount = self.payments[id], call.fields["amount"]
                if amount["value"] + payment["refunded"] > payment["value"]:
                    raise Refused(422, self.error(422, "137", "Invalid amount specified"))
                payment["refunded"] += amount["value"]
                refund = self.new_id("RPSP")
                self.refunds[refund] = {"payment": id, "amount": amount, "reference": call.fields["reference"]}
                return 201, {"paymentPspReference": id, "pspReference": refund, "status": "received", "amount": amount}
            case ("POST", "paymentLinks"):
                return 201, self._link(call.fields)
            case ("GET", "paymentLinks", id):
                return 200, {"id": id, "status": self.links[id]["status"]}
            case ("PATCH", "paymentLinks", id):
                if self.links[id]["status"] != "active":
                    raise Refused(422, self.error(422, "14_027", "The link is not active"))
                self.links[id]["status"] = call.fields["status"]
                return 200, {"id": id, "status": call.fields["status"]}
        raise KeyError(call.line)

    def _link(self, fields: Json) -> Json:
        expires = datetime.fromisoformat(fields["expiresAt"])
        if not timedelta(0) < expires - self.now() <= timedelta(days=70):
            raise Refused(422, self.error(422, "14_0408", "expiresAt should be within 70 days"))
        self._check(fields)
        id = self.new_id("PL")
        self.links[id] = {**fields, "status": "active"}
        return {"id": id, "url": f"https://test.adyen.link/{id}", "status": "active", **fields}

    def _check(self, fields: Json) -> None:
        if not fields.get("reference") or len(fields["reference"]) > 80:
            raise Refused(422, self.error(422, "130", "Reference Missing"))
        if len(fields["shopperReference"]) < 3:
            raise Refused(422, self.error(422, "14_012", "shopperReference is too short"))
        for name, item in fields.get("metadata", {}).items():
            if len(name) > 20 or len(item) > 80:
                raise Refused(422, self.error(422, "171", "Metadata are too long"))

    def _charge(self, fields: Json) -> Json:
        self._check(fields)
        cards = self.cards.get(fields["shopperReference"], [])
        if fields["paymentMethod"].get("storedPaymentMethodId") not in cards:
            raise Refused(422, self.error(422, "803", "PaymentDetail not found"))
        result, id = self.outcome("Authorised"), self.new_id("PSP")
        if result == "bad":
            raise Refused(400, self.error(400, "702", "Structure of the request is invalid"))
        amount = fields["amount"]
        self.payments[id] = {**amount, "result": result, "refunded": 0, "metadata": fields["metadata"]}
        self.payments[id]["reference"] = fields["reference"]
        answer = {"pspReference": id, "resultCode": result, "amount": amount, "merchantReference": fields["reference"]}
        if result == "Refused":
            answer |= {"refusalReason": "Not enough balance", "refusalReasonCode": "12"}
        return answer

    # Notices

    def notification(self, **fields: Json) -> Notice:
        """A signed notification of one item."""
        return self.batch(self.item(**fields))

    def batch(self, *items: Json) -> Notice:
        wrapped = [{"NotificationRequestItem": item} for item in items]
        return Notice(json.dumps({"live": "false", "notificationItems": wrapped}).encode())

    def item(self, **fields: Json) -> Json:
        item: Json = {
            "merchantAccountCode": self.credentials["merchant_account"],
            "eventDate": self.now().isoformat(),
            "success": "true",
            "reason": "",
            "additionalData": {},
            "amount": {"value": 0, "currency": "EUR"},
            "merchantReference": "reference",
            "pspReference": self.new_id("PSP"),
            **fields,
        }
        amount = item["amount"]
        parts = (
            *(item.get(name, "") for name in ("pspReference", "originalReference", "merchantAccountCode")),
            *(item["merchantReference"], amount["value"], amount["currency"], item["eventCode"], item["success"]),
        )
        digest = hmac.new(bytes.fromhex(_HMAC_KEY), ":".join(map(str, parts)).encode(), hashlib.sha256).digest()
        item["additionalData"] = {**item["additionalData"], "hmacSignature": base64.b64encode(digest).decode()}
        return item

    def card_left(self, shopper: str, card: str, *, accepted: bool = True) -> Notice:
        """The shopper has saved a card on the set-up link."""
        details = {"shopperReference": shopper, "cardSummary": "1111", "expiryDate": "03/2030"}
        if accepted:
            self.cards.setdefault(shopper, []).append(card)
            details["recurring.recurringDetailReference"] = card
        return self.notification(
            eventCode="AUTHORISATION",
            success=str(accepted).lower(),
            reason="" if accepted else "Refused",
            paymentMethod="visa",
            additionalData=details,
        )

    def link_paid(self, link: str, amount: int | None = None, *, paid: bool = True) -> Notice:
        """The customer pays on a link."""
        page = self.links[link]
        value = page["amount"]["value"] if amount is None else amount
        id = self.new_id("PSP")
        if paid:
            page["status"] = "completed"
            currency = page["amount"]["currency"]
            self.payments[id] = {"value": value, "currency": currency, "result": "Authorised", "refunded": 0}
            self.payments[id] |= {"metadata": page["metadata"], "reference": page["reference"]}
        return self.notification(
            eventCode="AUTHORISATION",
            pspReference=id,
            merchantReference=page["reference"],
            amount={"value": value, "currency": page["amount"]["currency"]},
            success=str(paid).lower(),
            reason="" if paid else "Expired Card",
            additionalData={f"metadata.{name}": item for name, item in page["metadata"].items()},
        )

    def about(self, payment: str, code: str, **fields: Json) -> Notice:
        """A notification about a charge; for a modification, `fields` may name its own `pspReference`."""
        known = self.payments[payment]
        amount = {"value": known["value"], "currency": known["currency"]}
        base = {"eventCode": code, "merchantReference": known["reference"], "amount": amount}
        references = {"pspReference": payment} if code == "AUTHORISATION" else {"originalReference": payment}
        return self.notification(**{**base, **references, **fields})
