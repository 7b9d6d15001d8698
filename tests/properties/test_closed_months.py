"""Whatever happens after a month was closed, its movements and tables stay as they were."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, strategies as st

from tests.examples import examples
from tests.payment_provider import PRESENT, UnsteadyProvider, connect
from tests.properties.test_payment_lives import Life
from tests.scenarios import Scenario
from usagebill.core.ledger import ClosedMonth
from usagebill.operations.exports import EXPORTS
from usagebill.storage.conditions import desc

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("sandbox_engine")]

_MINUTES = 24 * 60
_ZONES = ("UTC", "Asia/Tokyo", "America/Los_Angeles", "Europe/Berlin")
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("bill"), st.integers(1, 9999)),
        st.tuples(st.sampled_from(["pay", "refund", "credit"]), st.integers(1, 9999)),
        st.tuples(
            st.sampled_from(["retry", "void", "tell", "draft", "top_up", "end_wallet", "zone"]), st.integers(0, 9)
        ),
        st.tuples(st.just("end"), st.integers(0, 1)),
        st.tuples(st.just("wait"), st.integers(1, 40)),
        st.tuples(st.just("ask"), st.integers(1, 3)),
    ),
    min_size=6,
    max_size=25,
)
_OUTCOMES = st.sampled_from(["succeeded", "processing", "declined", "away", "lost"])


class Months(Life):
    """A life whose months are closed now and then."""

    closed: date | None = None
    before: tuple[object, ...] = ()

    def invoices(self) -> list[dict[str, object]]:
        return [*self.box.invoices("hand"), *self.box.invoices()]

    def bill(self, cents: int) -> None:
        """A sale to the customer of the provider, or to one that pays by hand."""
        fee = {"add_on_code": "seat", "unit_amount_cents": cents, "units": 1}
        customer = "acme" if cents % 2 else "hand"
        self.box.post("/invoices", invoice={"external_customer_id": customer, "currency": "EUR", "fees": [fee]})

    def wait(self, days: int) -> None:
        """Days pass; a month that is over is closed, or left open for another."""
        # Steps of the other life count in minutes.
        super().wait(days if days >= _MINUTES else days * _MINUTES)
        if days % 3:
            self.close()

    def pay(self, cents: int) -> None:
        """A small payment, of today or of days ago, so that much stays due."""
        paid_at = (self.box.now - timedelta(days=cents % 40)).date().isoformat()
        for invoice in self.invoices():
            if invoice["payment_status"] != "succeeded" and invoice["status"] == "finalized":
                amount = min(cents % 50 + 1, int(str(invoice["total_due_amount_cents"])))
                sent = {"invoice_id": invoice["svc_id"], "amount_cents": amount, "reference": "x", "paid_at": paid_at}
                self.box.send("POST", "/payments", {"payment": sent})
                return

    def credit(self, cents: int) -> None:
        for invoice in self.invoices():
            fees: Any = invoice["fees"]
            item = {"fee_id": fees[0]["svc_id"], "amount_cents": cents}
            for name in ("credit_amount_cents", "offset_amount_cents"):
                note = {"invoice_id": invoice["svc_id"], name: cents, "items": [item], "reason": "other"}
                if self.box.send("POST", "/credit_notes", {"credit_note": note})[0] == 200:
                    return

    def void(self, index: int) -> None:
        """A void, with what was paid as credit."""
        invoices = self.invoices()
        if invoices:
            invoice = invoices[index % len(invoices)]
            paid = {"generate_credit_note": True, "credit_amount": invoice["total_paid_amount_cents"]}
            for body in ({}, paid):
                if self.box.send("POST", f"/invoices/{invoice['svc_id']}/void", body)[0] == 200:
                    return

    def draft(self, index: int) -> None:
        """An invoice that waits, or one that does no longer."""
        drafts = self.box.get("/invoices?status=draft")["invoices"]
        if drafts:
            self.box.send("PUT", f"/invoices/{drafts[index % len(drafts)]['svc_id']}/finalize")
        elif not self.box.get("/subscriptions?external_customer_id=acme")["subscriptions"]:
            self.box.subscribe("seats")

    def top_up(self, credits: int) -> None:
        wallets = [
            one for one in self.box.get("/wallets?external_customer_id=acme")["wallets"] if one["status"] == "active"
        ]
        paid, granted = str(credits), str(credits % 3)
        if not wallets:
            body = {"rate_amount": "1", "currency": "EUR", "paid_credits": paid, "granted_credits": granted}
            self.box.send("POST", "/wallets", {"wallet": {"external_customer_id": "acme", **body}})
        else:
            more = {"wallet_id": wallets[0]["svc_id"], "paid_credits": paid, "voided_credits": granted}
            self.box.send("POST", "/wallet_transactions", {"wallet_transaction": more})

    def end_wallet(self, index: int) -> None:
        for wallet in self.box.get("/wallets?external_customer_id=acme")["wallets"]:
            self.box.send("DELETE", f"/wallets/{wallet['svc_id']}")

    def zone(self, index: int) -> None:
        self.box.entity(timezone=_ZONES[index % len(_ZONES)])

    def close(self) -> None:
        """Close the month before, if it is over everywhere."""
        last_day = self.box.now.date().replace(day=1) - timedelta(days=1)
        self.box.billing.ledger.close(month=f"{last_day - timedelta(days=last_day.day * (self.box.now.day < 3)):%Y-%m}")
        last = self.box.billing.reading(lambda reader: reader.tx.first(ClosedMonth, order=[desc("last_day")]))
        assert last is not None
        self.closed = last.last_day
        self.before = self.tables()

    def tables(self) -> tuple[object, ...]:
        """What the tables say of the closed days."""
        assert self.closed is not None
        end = datetime.combine(self.closed + timedelta(days=1), time(), tzinfo=self.box.now.tzinfo)
        kinds = ("ledger", "receivables", "taxes")
        return tuple(
            self.box.billing.reading(
                lambda reader, kind=kind: [  # type: ignore[misc]
                    {name: value for name, value in row.items() if name != "status"}
                    for row in EXPORTS[kind].rows(reader, None, end)
                ]
            )
            for kind in kinds
        )

    def act(self, name: str, number: int) -> None:
        """A step, after which the closed months are as they were."""
        super().act(name, number)
        if self.closed is not None:
            assert self.tables() == self.before, name


@examples(12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(script=st.lists(_OUTCOMES, min_size=1, max_size=12), steps=_STEPS, well=st.booleans())
def test_a_closed_month_never_changes(script: list[str], steps: list[tuple[str, int]], well: bool) -> None:
    provider = UnsteadyProvider(script=[*script, "succeeded"])
    with Scenario(now="2024-01-25T09:00:00Z", payment_providers=provider) as box:
        box.add_on("seat", 100)
        box.tax(19)
        box.plan(code="seats", amount_cents=3100, pay_in_advance=True)
        life = Months(
            box,
            provider,
            connect(
                box,
            ),
        )
        box.customer("hand", currency="EUR", country="DE")
        box.entity(billing_configuration={"invoice_grace_period": 5})
        for name, number in [("bill", 3000), ("wait", 7), *steps, ("wait", 31), ("pay", 1310), ("end", int(well))]:
            life.act(name, number)
        provider.script = ["succeeded"]
        for message in provider.messages():
            assert box.receive(life.path, message, {"signature": PRESENT}) == 200
            life.act("wait", 1)
        overpaid = {"invoice_overpaid"}
        assert {found.check for found in box.billing.audit().findings} <= overpaid
