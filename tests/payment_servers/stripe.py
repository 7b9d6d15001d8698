"""A Stripe account: customers, cards, payment intents, checkout sessions, refunds, and signed events."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import parse_qsl

from tests.payment_servers.server import Call, Json, Notice, PaymentServer, Refused

# The parameters of each endpoint; Stripe refuses unknown ones.
_TAKEN: Mapping[str, str] = {
    "POST /v1/webhook_endpoints": "url enabled_events api_version",
    "POST /v1/customers": "address email name phone metadata invoice_settings",
    "POST /v1/checkout/sessions": "mode customer success_url payment_method_types expires_at line_items"
    " payment_intent_data consent_collection metadata",
    "POST /v1/payment_intents": "amount currency customer payment_method payment_method_types payment_method_data"
    " payment_method_options confirm off_session error_on_requires_action return_url description metadata"
    " capture_method automatic_payment_methods cancellation_reason",
    "POST /v1/refunds": "payment_intent amount reason metadata",
}
_LEAST = {"usd": 50, "eur": 50, "gbp": 30, "jpy": 50}


def form_fields(text: str) -> Json:
    """`a[b][0]=c` as nested objects and lists."""
    fields: Json = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        parts = re.findall(r"[^\[\]]+|(?<=\[)(?=\])", name)
        at = fields
        for part in parts[:-1]:
            at = at.setdefault(part or str(len(at)), {})
        at[parts[-1] or str(len(at))] = value
    return _with_lists(fields)


def _with_lists(value: Json) -> Json:
    if not isinstance(value, dict):
        return value
    inner = {name: _with_lists(item) for name, item in value.items()}
    if inner and all(name.isdigit() for name in inner):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner


class StripeServer(PaymentServer):
    """Charges end as `succeeded`, `processing`, `declined`, `needs_action`, or any status of an intent."""

    kind: ClassVar[str] = "stripe"

    def __init__(self, **options: Json) -> None:
        super().__init__(**options)
        self.customers: dict[str, Json] = {}
        self.methods: dict[str, Json] = {}
        self.intents: dict[str, Json] = {}
        self.sessions: dict[str, Json] = {}
        self.refunds: dict[str, Json] = {}
        self.balance: dict[str, Json] = {}
        self.webhook_endpoints: dict[str, Json] = {}

    @property
    def credentials(self) -> dict[str, str]:
        return {"secret_key": "sk_test_0123456789", "webhook_secret": "whsec_0123456789"}

    def parsed(self, body: bytes) -> Json:
        return form_fields(body.decode())

    def queried(self, query: str) -> Json:
        return form_fields(query)

    def answer_headers(self) -> dict[str, str]:
        return {"Request-Id": f"req_{len(self.calls)}"}

    def is_allowed(self, headers: Mapping[str, str]) -> bool:
        return headers.get("authorization") == f"Bearer {self.credentials['secret_key']}"

    def error(self, status: int, code: str, message: str) -> Json:
        kinds = {402: "card_error", 429: "rate_limit_error", 500: "api_error"}
        kind = code if code == "idempotency_error" else kinds.get(status, "invalid_request_error")
        return {"error": {"type": kind, "code": code, "message": message}}

    # The account

    def knows(self, customer: str, *methods: str) -> None:
        """Add a customer with these cards, the first as default."""
        self.customers[customer] = {"default": methods[0] if methods else None, "email": None, "metadata": {}}
        for method in methods:
            self.methods[method] = {"customer": customer, "created": 1_700_000_000 + len(self.methods)}

    def charged(self) -> dict[str, int]:
        """The total that customers have paid, in cents by currency."""
        totals: dict[str, int] = {}
        for intent in self.intents.values():
            if intent["status"] == "succeeded":
                totals[intent["currency"]] = totals.get(intent["currency"], 0) + intent["amount"]
        return totals

    # Requests

    def route(self, call: Call) -> tuple[int, Json]:
        if call.headers.get("stripe-version") != "2025-04-30.basil":
            raise Refused(400, self.error(400, "parameter_invalid", "no such version"))
        taken = _TAKEN.get(call.line)
        if taken is not None:
            for name in call.fields:
                if name not in taken.split():
                    raise Refused(400, self.error(400, "parameter_unknown", f"Received unknown parameter: {name}"))
        match (call.method, *call.path.strip("/").split("/")[1:]):
            case ("POST", "webhook_endpoints"):
                id = self.new_id("we_")
                secret = self.credentials["webhook_secret"]
                self.webhook_endpoints[id] = dict(call.fields)
                return 200, {"id": id, "object": "webhook_endpoint", "secret": secret, "status": "enabled"}
            case ("POST", "webhook_endpoints", id):
                self.webhook_endpoints[id].update(call.fields)
                return 200, {"id": id, "object": "webhook_endpoint", "status": "enabled"}
            case ("DELETE", "webhook_endpoints", id):
                del self.webhook_endpoints[id]
                return 200, {"id": id, "object": "webhook_endpoint", "deleted": True}
            case ("POST", "customers"):
                id = self.new_id("cus_")
                self.knows(id)
                return 200, self._customer_updated(id, call.fields)
            case ("GET", "customers"):
                matching = [id for id, item in self.customers.items() if item["email"] == call.fields.get("email")]
                return 200, self._list(call.path, [self._customer(id) for id in matching])
            case ("GET", "customers", id):
                return 200, self._customer(id)
            case ("POST", "customers", id):
                return 200, self._customer_updated(id, call.fields)
            case ("POST", "customers", id, "funding_instructions"):
                return 200, self._funding(id, call.fields)
            case ("GET", "customers", id, "payment_methods"):
                methods = [self._method(key) for key, item in self.methods.items() if item["customer"] == id]
                methods.sort(key=lambda method: -method["created"])
                return 200, self._list(call.path, methods)
            case ("GET", "customers", id, "payment_methods", method):
                if self.methods.get(method, {}).get("customer") != id:
                    raise KeyError(method)
                return 200, self._method(method)
            case ("GET", "payment_methods", method):
                return 200, self._method(method)
            case ("POST", "payment_intents"):
                return self._charge(call.fields)
            case ("GET", "payment_intents", id):
                return 200, self._intent(id)
            case ("GET", "payment_intents"):
                return 200, self._intents(call.fields)
            case ("POST", "payment_intents", id, "cancel"):
                if self.intents[id]["status"] in ("succeeded", "canceled"):
                    raise Refused(400, self.error(400, "payment_intent_unexpected_state", "It cannot be canceled"))
                self.intents[id]["status"] = "canceled"
                return 200, self._intent(id)
            case ("POST", "payment_intents", id):
                self.intents[id]["metadata"].update(call.fields.get("metadata", {}))
                self.intents[id]["description"] = call.fields.get("description")
                return 200, self._intent(id)
            case ("POST", "checkout", "sessions"):
                return 200, self._session(call.fields)
            case ("GET", "checkout", "sessions", id):
                paid = self.sessions[id].get("intent")
                intent = self._intent(paid) if paid and call.fields.get("expand") == ["payment_intent"] else paid
                status = self.sessions[id]["status"]
                return 200, {"id": id, "object": "checkout.session", "status": status, "payment_intent": intent}
            case ("POST", "checkout", "sessions", id, "expire"):
                if self.sessions[id]["status"] != "open":
                    raise Refused(400, self.error(400, "resource_missing", "Only open sessions can be expired"))
                self.sessions[id]["status"] = "expired"
                return 200, {"id": id, "object": "checkout.session", "status": "expired"}
            case ("GET", "balance_transactions", id):
                return 200, {"id": id, "object": "balance_transaction", **self.balance[id]}
            case ("GET", "refunds"):
                made = [{"id": id, "object": "refund", **item} for id, item in self.refunds.items()]
                of_intent = [item for item in made if item["payment_intent"] == call.fields["payment_intent"]]
                return 200, self._list(call.path, of_intent)
            case ("GET", "refunds", id):
                return 200, {"id": id, "object": "refund", **self.refunds[id]}
            case ("POST", "refunds"):
                return self._refund(call.fields)
        raise KeyError(call.line)

    def _list(self, path: str, items: list[Json]) -> Json:
        return {"object": "list", "url": path, "has_more": False, "data": items}

    def _customer(self, id: str) -> Json:
        known = self.customers[id]
        if known.get("deleted"):
            return {"id": id, "object": "customer", "deleted": True}
        return {
            "id": id,
            "object": "customer",
            "email": known["email"],
            "metadata": known["metadata"],
            "default_source": None,
            "invoice_settings": {"default_payment_method": known["default"]},
        }

    def _customer_updated(self, id: str, fields: Json) -> Json:
        known = self.customers[id]
        email = fields.get("email")
        if email is not None and "@" not in email:
            raise Refused(400, self.error(400, "email_invalid", f"Invalid email address: {email}"))
        known["email"] = email or known["email"]
        known["fields"] = fields
        known["metadata"] = fields.get("metadata", known["metadata"])
        default = fields.get("invoice_settings", {}).get("default_payment_method")
        if default is not None and self.methods[default]["customer"] != id:
            raise KeyError(default)
        known["default"] = default or known["default"]
        return self._customer(id)

    def _funding(self, id: str, fields: Json) -> Json:
        kind = fields["bank_transfer"]["type"]
        if kind == "eu_bank_transfer" and not fields["bank_transfer"].get("eu_bank_transfer", {}).get("country"):
            raise Refused(400, self.error(400, "parameter_missing", "country"))
        iban = {"account_holder_name": "Acme", "bic": "SXPYDEHH", "country": "DE", "iban": "DE00"}
        return {
            "object": "funding_instructions",
            "currency": fields["currency"],
            "funding_type": fields["funding_type"],
            "livemode": False,
            "bank_transfer": {
                "country": "DE",
                "type": kind,
                "financial_addresses": [{"type": "iban", "iban": iban, "supported_networks": ["sepa"]}],
            },
        }

    def _method(self, id: str) -> Json:
        known = self.methods[id]
        card = {"brand": "visa", "display_brand": "visa", "last4": "4242", "exp_month": 12, "exp_year": 2034}
        return {"id": id, "object": "payment_method", "type": "card", "card": card, "metadata": {}, **known}

    def _intent(self, id: str) -> Json:
        shown = (
            "amount created currency customer payment_method status description metadata next_action last_payment_error"
        )
        return {"id": id, "object": "payment_intent", **{name: self.intents[id].get(name) for name in shown.split()}}

    def _intents(self, fields: Json) -> Json:
        """A page of the list, newest first."""
        created = fields.get("created", {})
        least, below = int(created.get("gte", 0)), int(created.get("lt", 1 << 62))
        ids = [
            id
            for id, intent in reversed(self.intents.items())
            if fields.get("customer") in (None, intent["customer"]) and least <= intent["created"] < below
        ]
        after = fields.get("starting_after")
        rest = ids[ids.index(after) + 1 :] if after else ids
        page = rest[: int(fields.get("limit", 10))]
        items = [self._intent(id) for id in page]
        if fields.get("expand") == ["data.latest_charge"]:
            for id, item in zip(page, items, strict=True):
                item["latest_charge"] = {"id": f"ch_{id}", "amount_refunded": self.intents[id]["refunded"]}
        return {"object": "list", "url": "/v1/payment_intents", "has_more": len(rest) > len(page), "data": items}

    def _amount(self, amount: str, currency: str) -> int:
        if currency != currency.lower() or not re.fullmatch(r"[0-9]+", amount):
            raise Refused(400, self.error(400, "parameter_invalid_integer", f"Invalid integer: {amount} {currency}"))
        cents = int(amount)
        if cents < _LEAST.get(currency, 1):
            raise Refused(400, self.error(400, "amount_too_small", f"Amount must be at least {_LEAST.get(currency)}"))
        if currency in ("isk", "ugx") and cents % 100:
            code = "invalid_charge_amount_no_decimal_compatible"
            raise Refused(400, self.error(400, code, "charged amounts must be evenly divisible by 100"))
        if currency in ("bhd", "jod", "kwd", "omr", "tnd") and cents % 10:
            raise Refused(400, self.error(400, "amount_invalid", "the last digit must be 0"))
        return cents

    def _charge(self, fields: Json) -> tuple[int, Json]:
        customer, method = fields["customer"], fields.get("payment_method")
        amount = self._amount(fields["amount"], fields["currency"])
        if method is not None and self.methods.get(method, {}).get("customer") != customer:
            raise Refused(400, self.error(400, "resource_missing", f"No such PaymentMethod: {method}"))
        if fields.get("confirm") != "true" or customer not in self.customers:
            raise Refused(400, self.error(400, "parameter_missing", "customer, confirm"))
        id = self.new_id("pi_")
        intent: Json = {"amount": amount, "metadata": dict(fields.get("metadata", {})), "refunded": 0}
        intent["created"] = int(self.now().timestamp())
        for name in ("currency", "customer", "payment_method", "description"):
            intent[name] = fields.get(name)
        if fields.get("capture_method") == "manual":
            outcome = self.outcome("requires_capture")
        else:
            outcome = self.outcome("succeeded" if method or "payment_method_data" in fields else "no_method")
        self.intents[id] = intent
        if outcome == "declined":
            return self._failed(id, "card_declined", "Your card was declined.")
        if outcome == "no_method":
            return self._failed(id, "payment_intent_unexpected_state", "There is no payment method.")
        if outcome == "needs_action":
            if fields.get("off_session") == "true" or fields.get("error_on_requires_action") == "true":
                return self._failed(id, "authentication_required", "This payment required an authentication action.")
            outcome = "requires_action"
            to = {"url": f"https://hooks.stripe.test/{id}", "return_url": fields.get("return_url")}
            intent["next_action"] = {"type": "redirect_to_url", "redirect_to_url": to}
        intent["status"] = outcome
        return 200, self._intent(id)

    def _failed(self, id: str, code: str, message: str) -> tuple[int, Json]:
        self.intents[id]["status"] = "requires_payment_method"
        error = {"type": "card_error", "code": code, "message": message}
        if code == "card_declined":
            error["decline_code"] = "generic_decline"
        self.intents[id]["last_payment_error"] = dict(error)
        return 402, {"error": {**error, "payment_intent": self._intent(id)}}

    def _session(self, fields: Json) -> Json:
        if fields["mode"] == "payment":
            for line in fields["line_items"]:
                self._amount(line["price_data"]["unit_amount"], line["price_data"]["currency"])
        if fields["customer"] not in self.customers or not fields.get("success_url"):
            raise Refused(400, self.error(400, "parameter_missing", "customer, success_url"))
        expires = fields.get("expires_at")
        if expires is not None and not 1800 <= int(expires) - self.now().timestamp() <= 86400:
            message = "The `expires_at` timestamp must be between 30 minutes and 24 hours from now."
            raise Refused(400, self.error(400, "parameter_invalid", message))
        id = self.new_id("cs_test_")
        self.sessions[id] = {**fields, "status": "open"}
        return {"id": id, "object": "checkout.session", "status": "open", "url": f"https://checkout.stripe.test/{id}"}

    def _refund(self, fields: Json) -> tuple[int, Json]:
        intent = self.intents[fields["payment_intent"]]
        amount = int(fields["amount"])
        if intent["status"] != "succeeded" or intent["refunded"] + amount > intent["amount"]:
            raise Refused(400, self.error(400, "charge_already_refunded", "It cannot be refunded by so much"))
        status = self.outcome("succeeded")
        if status == "not_refundable":
            raise Refused(400, self.error(400, "charge_not_refundable", "This charge cannot be refunded"))
        if status in ("succeeded", "pending", "requires_action"):
            intent["refunded"] += amount
        id = self.new_id("re_")
        self.refunds[id] = {"amount": amount, "status": status, "payment_intent": fields["payment_intent"]}
        self.refunds[id] |= {"currency": intent["currency"], "metadata": fields.get("metadata", {})}
        return 200, {"id": id, "object": "refund", **self.refunds[id]}

    # Notices

    def event(self, type: str, content: Json, previous: Json = None) -> Notice:
        """A signed event about `thing`."""
        stamp = int(self.now().timestamp())
        event = {
            "id": self.new_id("evt_"),
            "object": "event",
            "api_version": "2025-04-30.basil",
            "created": stamp,
            "livemode": False,
            "type": type,
            "data": {"object": content, **({"previous_attributes": previous} if previous else {})},
        }
        body = json.dumps(event).encode()
        return Notice(body, {"stripe-signature": self.signature(body, stamp)})

    def signature(self, body: bytes, stamp: int) -> str:
        secret = self.credentials["webhook_secret"].encode()
        digest = hmac.new(secret, f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
        return f"t={stamp},v1={digest}"

    def payment_event(self, id: str, outcome: str, code: str = "card_declined") -> Notice:
        """Move a charge to `succeeded`, `payment_failed` or `canceled`; returns the event about it."""
        statuses = {"payment_failed": "requires_payment_method", "canceled": "canceled"}
        self.intents[id]["status"] = statuses.get(outcome, "succeeded")
        if outcome == "payment_failed" and not self.intents[id].get("last_payment_error"):
            self.intents[id]["last_payment_error"] = {"code": code, "message": "declined", "type": "card_error"}
        return self.event(f"payment_intent.{outcome}", self._intent(id))

    def charge_event(self, kind: str, intent: str, fee: int | None, currency: str | None = None) -> Notice:
        """An event about the charge of an intent, and what Stripe keeps of it, once that is known."""
        known = self.intents[intent]
        charge: Json = {"id": f"ch_{intent}", "object": "charge", "payment_intent": intent, "status": "succeeded"}
        charge |= {"metadata": known["metadata"], "balance_transaction": None}
        if fee is not None:
            charge["balance_transaction"] = f"txn_{intent}"
            booked = {"amount": known["amount"], "fee": fee, "net": known["amount"] - fee, "type": "charge"}
            self.balance[f"txn_{intent}"] = {**booked, "currency": currency or known["currency"]}
        return self.event(f"charge.{kind}", charge)

    def page_paid(self, session: str, amount: int | None = None) -> Notice:
        """The customer pays on a page."""
        page = self.sessions[session]
        page["status"] = "complete"
        due = sum(int(line["price_data"]["unit_amount"]) for line in page["line_items"])
        id = page["intent"] = self.new_id("pi_")
        self.intents[id] = {
            "amount": due if amount is None else amount,
            "currency": page["line_items"][0]["price_data"]["currency"],
            "customer": page["customer"],
            "metadata": page["payment_intent_data"].get("metadata", {}),
            "refunded": 0,
            "created": int(self.now().timestamp()),
        }
        return self.payment_event(id, "succeeded")

    def card_added(self, customer: str, method: str) -> Notice:
        """The customer has entered a card on a set-up page."""
        self.methods[method] = {"customer": customer, "created": 1_700_000_000 + len(self.methods)}
        setup_intent = {"id": self.new_id("seti_"), "object": "setup_intent", "status": "succeeded", "metadata": {}}
        return self.event("setup_intent.succeeded", {**setup_intent, "customer": customer, "payment_method": method})

    def card_removed(self, method: str) -> Notice:
        """The card is detached from its customer."""
        customer = self.methods.pop(method)["customer"]
        if self.customers[customer]["default"] == method:
            self.customers[customer]["default"] = None
        payment_method: Json = {
            "id": method,
            "object": "payment_method",
            "type": "card",
            "customer": None,
            "metadata": {},
        }
        return self.event("payment_method.detached", payment_method, {"customer": customer})

    def default_changed(self, customer: str, method: str | None) -> Notice:
        self.customers[customer]["default"] = method
        return self.event("customer.updated", self._customer(customer))

    def refund_event(self, id: str, status: str) -> Notice:
        self.refunds[id]["status"] = status
        return self.event("charge.refund.updated", {"id": id, "object": "refund", **self.refunds[id]})

    def dispute_closed(self, intent: str, status: str = "lost", reason: str = "fraudulent") -> Notice:
        return self.dispute_event("closed", intent, status, reason)

    def dispute_event(self, kind: str, intent: str, status: str, reason: str = "fraudulent") -> Notice:
        dispute = {"id": self.new_id("dp_"), "object": "dispute", "status": status, "reason": reason, "metadata": {}}
        return self.event(f"charge.dispute.{kind}", {**dispute, "payment_intent": intent})
