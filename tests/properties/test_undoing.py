"""Any invoice that can be voided, voided and regenerated with the same lines: nothing is won and nothing is lost."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.examples import examples
from tests.scenarios import Scenario, charge_on
from usagebill.fields import RegeneratedFeeFields
from usagebill.operations.audit import audit


@dataclass(frozen=True)
class History:
    """What happens to an invoice before it is voided; amounts are percentages of what is there at the time."""

    kind: str
    tax: int
    wallet: int
    earlier_note: int
    coupon: int
    steps: tuple[tuple[str, int], ...]
    refunded: int


_STEPS = st.tuples(
    st.sampled_from(
        ["pay", "credit", "offset", "refund", "void note", "spend", "dispute", "request", "grant", "buy", "order"]
    ),
    st.integers(1, 100),
)
_HISTORIES = st.builds(
    History,
    kind=st.sampled_from(["subscription", "one_off", "progressive", "draft", "top-up"]),
    tax=st.sampled_from([0, 19, 33]),
    wallet=st.sampled_from([0, 7, 50]),
    earlier_note=st.sampled_from([0, 5, 60]),
    coupon=st.sampled_from([0, 0, 333]),
    steps=st.lists(_STEPS, max_size=6).map(tuple),
    refunded=st.integers(0, 100),
)


class Life:
    """A customer with an invoice of 31.00 or 7.00 that was paid and corrected in all ways."""

    def __init__(self, box: Scenario, history: History) -> None:
        self.box = box
        self._others = count()
        box.customer()
        if history.tax:
            box.tax(history.tax)
        box.plan(amount_cents=3100, pay_in_advance=True)
        box.add_on("setup", 100)
        if history.earlier_note:
            first = self._one_off(history.earlier_note)
            self._pay(first, first["total_amount_cents"])
            self._note(first, "credit", 100)
        wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR"}
        if history.wallet:
            wallet["granted_credits"] = str(history.wallet)
        self.wallet_id = box.post("/wallets", wallet=wallet)["wallet"]["svc_id"]
        if history.coupon:
            box.coupon(history.coupon)
        if history.kind in ("subscription", "draft"):
            box.customer(billing_configuration={"invoice_grace_period": 3 if history.kind == "draft" else 0})
            box.subscribe()
            self.id = box.invoices()[-1]["svc_id"]
        elif history.kind == "progressive":
            charge = charge_on(box.metric("gb"), amount="1")
            box.plan(charge, code="staged", usage_thresholds=[{"amount_cents": 1000}])
            box.subscribe("staged")
            box.event("gb", value=31)
            box.travel_to("2024-03-01T00:10:00Z")
            (self.id,) = (one["svc_id"] for one in box.invoices() if one["invoice_type"] == "progressive_billing")
        elif history.kind == "top-up":
            self.id = self._ordered(31)["svc_id"]
        else:
            self.id = self._one_off(7)["svc_id"]
        for step, percent in history.steps:
            self._take(step, percent)

    def _one_off(self, units: int) -> Any:
        fees = [{"add_on_code": "setup", "units": units}]
        return self.box.post("/invoices", invoice={"external_customer_id": "acme", "fees": fees})["invoice"]

    def _top_up(self, **credits: str) -> None:
        self.box.post("/wallet_transactions", wallet_transaction={"wallet_id": self.wallet_id, **credits})

    def _ordered(self, credits: int) -> Any:
        """The invoice of a top-up that is not paid yet."""
        known = {invoice["svc_id"] for invoice in self.box.invoices()}
        self._top_up(paid_credits=str(credits))
        (invoice,) = (one for one in self.box.invoices() if one["svc_id"] not in known)
        return invoice

    @property
    def invoice(self) -> Any:
        return self.box.invoice(self.id)

    def _pay(self, invoice: Any, cents: int) -> None:
        if cents > 0:
            body = {"invoice_id": invoice["svc_id"], "amount_cents": cents, "reference": "transfer"}
            self.box.send("POST", "/payments", {"payment": body})

    def _note(self, invoice: Any, part: str, percent: int) -> None:
        items = [
            {"fee_id": fee["svc_id"], "amount_cents": fee["amount_cents"] * percent // 100} for fee in invoice["fees"]
        ]
        body = {"invoice_id": invoice["svc_id"], "items": items}
        status, answer = self.box.send("POST", "/credit_notes/estimate", {"credit_note": body})
        if status == 200:
            cents = answer["estimated_credit_note"]["max_creditable_amount_cents"]
            self.box.send("POST", "/credit_notes", {"credit_note": {**body, f"{part}_amount_cents": cents}})

    def _take(self, step: str, percent: int) -> None:
        """Whatever is not possible is refused, and changes nothing."""
        invoice = self.invoice
        if step == "pay":
            self._pay(invoice, invoice["total_due_amount_cents"] * percent // 100)
        elif step in ("credit", "offset", "refund"):
            self._note(invoice, step, percent)
        elif step == "void note":
            for note in self.box.get("/credit_notes")["credit_notes"][:1]:
                self.box.send("PUT", f"/credit_notes/{note['svc_id']}/void")
        elif step == "request":
            body = {"external_customer_id": "acme", "svc_invoice_ids": [self.id], "email": "a@b.example"}
            self.box.send("POST", "/payment_requests", {"payment_request": body})
        elif step == "grant":
            self._top_up(granted_credits=str(percent))
        elif step in ("buy", "order"):
            top_up = self._ordered(percent)
            if step == "buy":
                self._pay(top_up, top_up["total_amount_cents"])
        elif step == "dispute":
            self.box.send("PUT", f"/invoices/{self.id}/lose_dispute")
        else:
            code = f"plan{next(self._others)}"
            self.box.plan(code=code, amount_cents=10 * percent, pay_in_advance=True)
            self.box.subscribe(code, external_id=code)

    def void(self, refunded: int) -> bool:
        """Void the invoice, giving back all money that came in: a part of it as a refund. Whether it was voided."""
        notes = [note for note in self.box.get("/credit_notes")["credit_notes"] if note["svc_invoice_id"] == self.id]
        given = sum(note["refund_amount_cents"] for note in notes)
        paid = self.invoice["total_paid_amount_cents"]
        credits = sum(note["credit_amount_cents"] for note in notes)
        money = max(0, paid - given - credits)
        bodies: list[dict[str, Any] | None] = [None]
        for cents in (money, max(0, paid - given)):
            refund = cents * refunded // 100
            amounts = {"refund_amount": refund, "credit_amount": cents - refund}
            bodies.append({"generate_credit_note": True, **amounts})
        return any(self.box.send("POST", f"/invoices/{self.id}/void", body)[0] == 200 for body in bodies)

    def regenerate(self) -> None:
        """Regenerate the voided invoice; a top-up that was paid and refunded is over, and stays void."""
        if self.invoice["invoice_type"] == "credit" and self.invoice["total_paid_amount_cents"]:
            return
        lines: list[RegeneratedFeeFields] = [{"id": fee["svc_id"]} for fee in self.invoice["fees"]]
        self.id = self.box.billing.invoices.regenerate(self.id, fees=lines).id

    def wallet(self) -> tuple[int, list[tuple[str, str, str]]]:
        """Its balance, and what was bought: until when the money is awaited."""
        (wallet,) = self.box.get("/wallets?external_customer_id=acme")["wallets"]
        listed = self.box.get(f"/wallets/{self.wallet_id}/wallet_transactions?per_page=100")["wallet_transactions"]
        bought = [one for one in listed if one["transaction_status"] == "purchased"]
        return wallet["balance_cents"], sorted((one["svc_id"], one["status"], one["amount"]) for one in bought)

    def balance(self) -> int:
        """What the customer has paid and still owes, less what it can still spend."""
        invoices = self.box.invoices()
        notes = self.box.get("/credit_notes")["credit_notes"]
        wallets = self.box.get("/wallets?external_customer_id=acme")["wallets"]
        paid = sum(invoice["total_paid_amount_cents"] + invoice["total_due_amount_cents"] for invoice in invoices)
        spendable = sum(note["balance_amount_cents"] for note in notes)
        spendable += sum(wallet["balance_cents"] for wallet in wallets)
        return int(paid) - int(sum(note["refund_amount_cents"] for note in notes)) - int(spendable)

    def coupons(self) -> list[tuple[str, int]]:
        applied = self.box.get("/applied_coupons")["applied_coupons"]
        return [(coupon["status"], coupon["amount_cents_remaining"]) for coupon in applied]


@pytest.mark.slow
@examples(150)
@given(_HISTORIES)
def test_voided_and_regenerated_an_invoice_is_as_it_was(history: History) -> None:
    with Scenario(now="2024-03-01T00:00:00Z") as box:
        life = Life(box, history)
        before, coupons, wallet = life.balance(), life.coupons(), life.wallet()
        assert box.billing.reading(audit).findings == ()
        if not life.void(history.refunded):
            assert (life.balance(), life.coupons(), life.wallet()) == (before, coupons, wallet)
            return
        assert box.billing.reading(audit).findings == ()
        life.regenerate()
        assert (life.balance(), life.coupons()) == (before, coupons)
        # What paid the voided invoice may be spent in another order; a purchase is as open or as paid as it was.
        assert life.wallet()[1] == wallet[1]
        assert box.billing.reading(audit).findings == ()
