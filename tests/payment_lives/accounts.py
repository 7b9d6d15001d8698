"""Accounts at payment providers as a life sees them: what they took, what they gave back, and what they say of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

from tests.payment_servers.adyen import AdyenServer
from tests.payment_servers.gocardless import GoCardlessServer
from tests.payment_servers.server import Fault, Notice, PaymentServer
from tests.payment_servers.stripe import StripeServer

OPEN, TAKEN, NOT_TAKEN = "open", "taken", "not taken"
# What befalls a request and its answer. An answer that is lost on a reused connection is asked for twice.
FAULTS = ((Fault.LOST, Fault.LOST), (Fault.CLOSED, Fault.CLOSED), (Fault.BROKEN,), (Fault.BUSY,), (Fault.CUT,))


S = TypeVar("S", bound=PaymentServer)


class Account(ABC, Generic[S]):
    """One account, and its customer `acme-CODE`. Its random results are those of `chance`."""

    currency = "EUR"
    # Requests -> the results that they may have.
    fates: ClassVar[dict[str, list[str]]]

    def __init__(self, code: str, server: S, chance: Random) -> None:
        self.code, self.server, self.chance = code, server, chance
        self.customer = f"acme-{code}"
        self.disputed: set[str] = set()
        # A life ends well: nothing is refused any more.
        self.is_kind = False
        self.is_revoked = False
        route, is_allowed = server.route, server.is_allowed

        def fateful(call: Any) -> Any:
            server.outcomes.clear()
            fate = self.fates.get(call.line.partition("/PSP")[0])
            if fate is not None:
                server.outcomes.append(fate[0] if self.is_kind else chance.choice(fate))
            return route(call)

        server.route = fateful  # type: ignore[method-assign]

        def allowed(headers: Mapping[str, str]) -> bool:
            return not self.is_revoked and is_allowed(headers)

        server.is_allowed = allowed  # type: ignore[method-assign]

    @abstractmethod
    def method(self) -> Notice:
        """The customer leaves a payment method."""

    @abstractmethod
    def charges(self) -> dict[str, tuple[str, int, dict[str, str]]]:
        """The state, cents and metadata of each charge, by id."""

    @abstractmethod
    def refunds(self) -> dict[str, tuple[str, int, str]]:
        """The state, cents and charge of each refund, by id: `succeeded`, `failed` or `pending`."""

    @abstractmethod
    def pages(self) -> dict[str, int]:
        """The cents asked for on each page on which can be paid."""

    @abstractmethod
    def pay(self, page: str, cents: int) -> Notice:
        """The customer pays on a page."""

    @abstractmethod
    def end(self, charge: str, *, well: bool) -> Notice:
        """A charge under way ends."""

    def tell(self, charge: str) -> list[Notice]:
        """What is said in the end about a charge, should nobody have asked. Of what can be asked, nothing."""
        return []

    @abstractmethod
    def take_back(self, charge: str, *, disputed: bool) -> Notice:
        """The bank takes the money of a charge back."""

    @abstractmethod
    def win(self, charge: str) -> Notice:
        """The money that a dispute took is back."""

    @abstractmethod
    def end_refund(self, refund: str, *, well: bool) -> Notice:
        """A refund ends, or its money comes back."""

    def sent_now(self, notice: Notice) -> Notice:
        """The notice as it is sent now."""
        return notice

    def _lasts(self, expires_at: int) -> bool:
        return bool(self.server.now().timestamp() < expires_at)

    def refunded(self, charge: str) -> int:
        """The cents that were given back of a charge."""
        return sum(cents for state, cents, of in self.refunds().values() if of == charge and state == "succeeded")


class Stripe(Account[StripeServer]):
    fates: ClassVar = {
        "POST /v1/payment_intents": ["succeeded", "succeeded", "processing", "declined", "needs_action"],
        "POST /v1/refunds": ["succeeded", "pending", "not_refundable"],
    }

    def method(self) -> Notice:
        return self.server.card_added(next(iter(self.server.customers)), f"pm_{self.code}")

    def charges(self) -> dict[str, tuple[str, int, dict[str, str]]]:
        states = {"succeeded": TAKEN, "processing": OPEN, "requires_action": OPEN}
        return {
            id: (states.get(item["status"], NOT_TAKEN), int(item["amount"]), item["metadata"])
            for id, item in self.server.intents.items()
        }

    def refunds(self) -> dict[str, tuple[str, int, str]]:
        return {
            id: (item["status"], item["amount"], item["payment_intent"]) for id, item in self.server.refunds.items()
        }

    def pages(self) -> dict[str, int]:
        return {
            id: sum(int(line["price_data"]["unit_amount"]) for line in page["line_items"])
            for id, page in self.server.sessions.items()
            if page["mode"] == "payment" and page["status"] == "open" and self._lasts(int(page["expires_at"]))
        }

    def pay(self, page: str, cents: int) -> Notice:
        return self.server.page_paid(page, cents)

    def end(self, charge: str, *, well: bool) -> Notice:
        return self.server.payment_event(charge, "succeeded" if well else "payment_failed")

    def take_back(self, charge: str, *, disputed: bool) -> Notice:
        if disputed:
            self.disputed.add(charge)
            return self.server.dispute_closed(charge)
        self.server.intents[charge]["status"] = "returned"
        return self.server.dispute_closed(charge, "lost", "insufficient_funds")

    def win(self, charge: str) -> Notice:
        self.disputed.discard(charge)
        return self.server.dispute_event("funds_reinstated", charge, "won")

    def end_refund(self, refund: str, *, well: bool) -> Notice:
        known = self.server.refunds[refund]
        if not well:
            self.server.intents[known["payment_intent"]]["refunded"] -= known["amount"]
        return self.server.refund_event(refund, "succeeded" if well else "failed")

    def sent_now(self, notice: Notice) -> Notice:
        stamp = int(self.server.now().timestamp())
        return replace(notice, headers={"stripe-signature": self.server.signature(notice.body, stamp)})


class GoCardless(Account[GoCardlessServer]):
    currency = "GBP"
    fates: ClassVar = {"POST /payments": ["pending_submission", "pending_submission", "invalid"]}

    def method(self) -> Notice:
        return self.server.mandate_signed(next(iter(self.server.customers)), f"MD{self.code}")

    def charges(self) -> dict[str, tuple[str, int, dict[str, str]]]:
        states = {"paid_out": TAKEN, "charged_back": TAKEN, "pending_submission": OPEN}
        return {
            id: (states.get(item["status"], NOT_TAKEN), item["amount"], item["metadata"])
            for id, item in self.server.payments.items()
        }

    def refunds(self) -> dict[str, tuple[str, int, str]]:
        states = {"paid": "succeeded", "failed": "failed"}
        return {
            id: (states.get(item["status"], "pending"), item["amount"], item["links"]["payment"])
            for id, item in self.server.refunds.items()
        }

    def pages(self) -> dict[str, int]:
        return {}

    def pay(self, page: str, cents: int) -> Notice:
        raise NotImplementedError

    def end(self, charge: str, *, well: bool) -> Notice:
        return self.server.payment_event(charge, "paid_out" if well else "failed")

    def take_back(self, charge: str, *, disputed: bool) -> Notice:
        if disputed:
            self.disputed.add(charge)
        return self.server.payment_event(charge, "charged_back" if disputed else "failed")

    def win(self, charge: str) -> Notice:
        self.disputed.discard(charge)
        return self.server.event_now(charge, "chargeback_cancelled", "paid_out")

    def end_refund(self, refund: str, *, well: bool) -> Notice:
        known = self.server.refunds[refund]
        known["status"] = "paid" if well else "failed"
        if not well:
            self.server.payments[known["links"]["payment"]]["amount_refunded"] -= known["amount"]
        return self.server.batch(
            self.server.event("refunds", known["status"], {"refund": refund}, resource_metadata=known["metadata"])
        )


class Adyen(Account[AdyenServer]):
    fates: ClassVar = {"POST /v70/payments": ["Authorised", "Authorised", "Received", "Refused"]}

    def method(self) -> Notice:
        return self.server.card_left(self.customer, f"card-{self.code}")

    def charges(self) -> dict[str, tuple[str, int, dict[str, str]]]:
        states = {"Authorised": TAKEN, "Received": OPEN}
        return {
            id: (states.get(item["result"], NOT_TAKEN), item["value"], item["metadata"])
            for id, item in self.server.payments.items()
        }

    def refunds(self) -> dict[str, tuple[str, int, str]]:
        return {
            id: (item.get("state", "pending"), item["amount"]["value"], item["payment"])
            for id, item in self.server.refunds.items()
        }

    def pages(self) -> dict[str, int]:
        return {
            id: page["amount"]["value"]
            for id, page in self.server.links.items()
            if page["status"] == "active"
            and page["amount"]["value"]
            and self._lasts(int(datetime.fromisoformat(page["expiresAt"]).timestamp()))
        }

    def pay(self, page: str, cents: int) -> Notice:
        return self.server.link_paid(page, cents)

    def tell(self, charge: str) -> list[Notice]:
        result = self.server.payments[charge]["result"]
        return [] if result == "Received" else [self._authorisation(charge, well=result == "Authorised")]

    def end(self, charge: str, *, well: bool) -> Notice:
        self.server.payments[charge]["result"] = "Authorised" if well else "Refused"
        return self._authorisation(charge, well=well)

    def _authorisation(self, charge: str, *, well: bool) -> Notice:
        fields = {f"metadata.{name}": item for name, item in self.server.payments[charge]["metadata"].items()}
        return self.server.about(charge, "AUTHORISATION", success=str(well).lower(), additionalData=fields)

    def take_back(self, charge: str, *, disputed: bool) -> Notice:
        if disputed:
            self.disputed.add(charge)
            return self.server.about(charge, "CHARGEBACK", additionalData={"disputeStatus": "Lost"})
        self.server.payments[charge]["result"] = "CaptureFailed"
        return self.server.about(charge, "CAPTURE_FAILED")

    def win(self, charge: str) -> Notice:
        self.disputed.discard(charge)
        return self.server.about(charge, "CHARGEBACK_REVERSED", additionalData={"disputeStatus": "Won"})

    def end_refund(self, refund: str, *, well: bool) -> Notice:
        known = self.server.refunds[refund]
        known["state"] = "succeeded" if well else "failed"
        if not well:
            self.server.payments[known["payment"]]["refunded"] -= known["amount"]["value"]
        return self.server.about(
            known["payment"],
            "REFUND" if well else "REFUND_FAILED",
            pspReference=refund,
            merchantReference=known["reference"],
        )


KINDS: tuple[tuple[type[Account[Any]], type[PaymentServer]], ...] = (
    (Stripe, StripeServer),
    (GoCardless, GoCardlessServer),
    (Adyen, AdyenServer),
    (Stripe, StripeServer),
    (GoCardless, GoCardlessServer),
)
