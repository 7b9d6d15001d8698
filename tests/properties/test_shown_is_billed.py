"""What a customer is shown of its coming bill is what is then billed, whatever its plan and wherever in its life.

Previews of a purchase, the next invoice, a plan change and an end, the current and the projected usage, and the
estimate of an event are each compared with what is made next, if nothing else happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from tests.operations.invoices.test_preview import billed, next_invoice
from tests.scenarios import Scenario, charge_on, fixed_charge_on, price_ranges

FIRST = datetime(2024, 1, 1, tzinfo=UTC)
INTERVALS = ("weekly", "monthly", "monthly", "monthly", "quarterly", "semiannual", "yearly", "yearly")
ZONES = ("UTC", "UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Tokyo")
GRADUATED = {"graduated_ranges": price_ranges((0, 10, "1.5", "2"), (11, None, "0.333", "1"))}
PACKAGES = {"amount": "7", "free_units": 3, "package_size": 5}
WHOLE = ("subscription_periodic", "subscription_terminating")
# The fast lane lives the first of them.
FEW, MANY = 8, 150


@dataclass(frozen=True, slots=True)
class Life:
    """One random life in a sandbox."""

    random: Random
    box: Scenario

    def begin(self) -> None:
        """A customer with whatever reduces or taxes its invoices, and two plans."""
        pick, box = self.random, self.box
        box.customer(
            timezone=pick.choice(ZONES), billing_configuration={"invoice_grace_period": pick.choice((0, 0, 2))}
        )
        if pick.random() < 0.5:
            box.tax("19.6")
        metrics = [box.metric("gb"), box.metric("calls", "count_agg"), box.metric("most", "max_agg")]
        metrics.append(box.metric("seats", "unique_count_agg", recurring=True))
        box.add_on("seat", 5000)
        for code in ("basic", "other"):
            self._plan(code, metrics)
        if pick.random() < 0.4:
            twice = {"frequency": "recurring", "frequency_duration": 2}
            box.coupon(pick.choice((300, 5000)), **pick.choice(({"frequency": "forever"}, twice)))
        if pick.random() < 0.3:
            body = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "granted_credits": "40"}
            box.post("/wallets", wallet=body)

    def _plan(self, code: str, metrics: list[str]) -> None:
        pick = self.random
        interval = pick.choice(INTERVALS)
        kinds = (("standard", {"amount": "0.77"}), ("graduated", GRADUATED), ("package", PACKAGES))
        charges = [charge_on(metric, *self._priced(kinds)) for metric in metrics]
        for charge in charges:
            charge["properties"] = dict(kinds)[charge["charge_model"]]
        if pick.random() < 0.4:
            charges.append(charge_on(metrics[0], amount="0.5", pay_in_advance=True))
        fixed = [
            fixed_charge_on("", add_on_code="seat", amount="5", units=3, pay_in_advance=advance, prorated=prorated)
            for advance, prorated in pick.sample([(False, False), (True, False), (False, True), (True, True)], 2)
        ]
        for item in fixed:
            del item["add_on_id"]
        monthly = {"bill_charges_monthly": pick.random() < 0.6, "bill_fixed_charges_monthly": pick.random() < 0.4}
        terms: dict[str, Any] = monthly if interval in ("yearly", "semiannual") else {}
        if pick.random() < 0.3:
            terms["trial_period"] = pick.choice((10, 40))
        if pick.random() < 0.3:
            terms["minimum_commitment"] = {"amount_cents": pick.choice((2000, 40_000))}
        if pick.random() < 0.2:
            terms["usage_thresholds"] = [{"amount_cents": 2500}, {"amount_cents": 3000, "recurring": True}]
        amount = pick.choice((0, 1000, 3100, 12_000))
        self.box.plan(
            *charges,
            code=code,
            interval=interval,
            amount_cents=amount,
            pay_in_advance=pick.random() < 0.5,
            fixed_charges=fixed,
            **terms,
        )

    def _priced(self, kinds: Any) -> tuple[str]:
        return (self.random.choice(kinds)[0],)

    def wander(self, days: float) -> None:
        """Use a little, for about so many days."""
        until = self.box.now + timedelta(days=days * self.random.random(), minutes=self.random.randrange(1440))
        for _ in range(self.random.randrange(4)):
            if self._is_live():
                self.use()
            self.box.travel_to(self.box.now + (until - self.box.now) / 2)
        self.box.travel_to(until)
        self.settle()

    def use(self) -> None:
        for code in self.random.sample(("gb", "calls", "most", "seats"), 2):
            self.box.event(code, value=self.random.randrange(1, 25))
        self.box.run_due()

    def settle(self) -> None:
        """Let the jobs of minutes run, so that what is shown is of a settled state."""
        self.box.travel_to(self.box.now + timedelta(minutes=6))

    def _is_live(self) -> bool:
        return bool(self.box.get("/subscriptions?external_id=sub")["subscriptions"])

    def known(self) -> set[str]:
        return {invoice["svc_id"] for invoice in self.box.get("/invoices?per_page=1000")["invoices"]}

    def preview(self, **subscriptions: Any) -> Any:
        body = {"external_ids": ["sub"], **subscriptions}
        answer = self.box.post("/invoices/preview", customer={"external_id": "acme"}, subscriptions=body)
        return answer["invoice"]

    def check_purchase(self) -> None:
        """What a purchase is shown to cost: of several invoices at once the last. Of a plan in arrears that starts now
        it is the first period, whatever fixed charges in advance are billed before.
        """
        pick, box = self.random, self.box
        terms: dict[str, Any] = {"billing_time": pick.choice(("calendar", "anniversary"))}
        if pick.random() < 0.6:
            terms["subscription_at"] = (box.now - timedelta(days=pick.randrange(1, 90))).isoformat()
            terms["bill_from"] = pick.choice(("now", "current_period", "start"))
        known = self.known()
        answer = box.post("/invoices/preview", customer={"external_id": "acme"}, plan_code="basic", **terms)
        box.subscribe(**terms)
        at_once = [invoice for invoice in box.invoices() if invoice["svc_id"] not in known]
        in_arrears = not box.get("/plans/basic")["plan"]["pay_in_advance"] and "bill_from" not in terms
        known |= {invoice["svc_id"] for invoice in (at_once if in_arrears else at_once[:-1])}
        made = next_invoice(box, known)
        assert billed(made, dated=False) == billed(answer["invoice"], dated=False)

    def check_next(self) -> None:
        known, shown = self.known(), self.preview()
        made = next_invoice(self.box, known)
        assert billed(made, dated=False) == billed(shown, dated=False)

    def check_change(self) -> None:
        plan = self.box.get("/subscriptions/sub")["subscription"]["plan_code"]
        other = "other" if plan == "basic" else "basic"
        known, shown = self.known(), self.preview(plan_code=other)
        self.box.subscribe(other)
        made = next_invoice(self.box, known)
        assert billed(made, dated=False) == billed(shown, dated=False)

    def check_end(self) -> None:
        known, shown = self.known(), self.preview(terminated_at=self.box.now.isoformat())
        self.box.unsubscribe()
        made = next_invoice(self.box, known)
        assert billed(made, dated=False) == billed(shown, dated=False)

    def check_usage(self) -> None:
        """What current usage shows has been billed in advance, or is then billed; so is the projection at the end."""
        box, now = self.box, self.box.usage()
        charges = self._charges()
        arrears = {id for id, in_advance in charges.items() if not in_advance}
        at_once: dict[str, int] = {}
        for fee in box.usage_fees():
            starts = datetime.fromisoformat(fee["from_date"]) == datetime.fromisoformat(now["from_datetime"])
            if starts and fee["event_transaction_id"] and fee["svc_charge_id"] in charges and fee["amount_cents"]:
                at_once[fee["svc_charge_id"]] = at_once.get(fee["svc_charge_id"], 0) + fee["amount_cents"]
        assert _amounts(now, "amount_cents", set(charges) - arrears) == at_once
        box.travel_to(max(box.now, datetime.fromisoformat(now["to_datetime"]).replace(microsecond=0)))
        projected = box.get("/customers/acme/projected_usage?external_subscription_id=sub")["customer_projected_usage"]
        assert projected["to_datetime"] == now["to_datetime"]
        closing: list[Any] = []
        while not closing:
            due = box.billing.next_due()
            assert due is not None
            box.travel_to(due)
            closing = [invoice for invoice in box.invoices() if _closes(invoice, now["to_datetime"])]
        fees: dict[str, int] = {}
        for fee in closing[0]["fees"]:
            if fee["item"]["type"] == "charge" and fee["svc_charge_id"] in arrears and fee["amount_cents"]:
                fees[fee["svc_charge_id"]] = fees.get(fee["svc_charge_id"], 0) + fee["amount_cents"]
        assert fees == _amounts(now, "amount_cents", arrears)
        assert fees == _amounts(projected, "projected_amount_cents", arrears)

    def _charges(self) -> dict[str, bool]:
        """The charges of the plan, and whether each is paid in advance."""
        charges = self.box.get("/subscriptions/sub/charges?per_page=100")["charges"]
        return {charge["svc_id"]: charge["pay_in_advance"] for charge in charges}

    def check_estimate(self) -> None:
        """What an event is estimated to cost at once is what it costs."""
        units = self.random.randrange(1, 25)
        event = {"code": "gb", "external_subscription_id": "sub", "properties": {"value": units}}
        priced = any(charge["pay_in_advance"] for charge in self.box.get("/subscriptions/sub/charges")["charges"])
        if priced:
            estimated = self.box.post("/events/estimate_fees", event=event)["fees"]
            sent = self.box.event("gb", value=units)["transaction_id"]
            self.box.run_due()
            fees = [fee for fee in self.box.usage_fees() if fee["event_transaction_id"] == sent]
            assert [_price(fee) for fee in fees] == [_price(fee) for fee in estimated]
            assert fees


def _closes(invoice: Any, period_end: str) -> bool:
    """Whether it is the invoice of a period's usage."""
    periods = invoice["billing_periods"]
    ends = [period["charges_to_datetime"] for period in periods if period["invoicing_reason"] in WHOLE]
    return invoice["invoice_type"] == "subscription" and period_end in ends


def _amounts(usage: Any, name: str, charges: set[str]) -> dict[str, int]:
    lines = {line["charge"]["svc_id"]: line[name] for line in usage["charges_usage"] if line[name]}
    return {id: cents for id, cents in lines.items() if id in charges}


def _price(fee: Any) -> tuple[Any, ...]:
    return fee["amount_cents"], fee["units"], fee["events_count"], fee["item"]["code"]


def live(seed: int, *, usage: bool = False) -> None:
    """Begin, wander, and check what is shown at each stop."""
    random = Random(seed)
    with Scenario(now=FIRST + timedelta(days=random.randrange(60), minutes=random.randrange(1440))) as box:
        life = Life(random, box)
        life.begin()
        life.check_purchase()
        for _ in range(random.randrange(2, 5)):
            life.wander(random.choice((3, 30, 100)))
            if random.random() < 0.3:
                box.subscribe(random.choice(("basic", "other")))
                life.settle()
            if usage:
                random.choice((life.check_usage, life.check_usage, life.check_estimate))()
            else:
                random.choice((life.check_next, life.check_next, life.check_change))()
        if not usage and random.random() < 0.7:
            life.wander(20)
            life.check_end()


SEEDS = [pytest.param(seed, marks=() if seed < FEW else pytest.mark.slow) for seed in range(MANY)]


@pytest.mark.parametrize("seed", SEEDS)
def test_previews_show_what_is_billed(seed: int) -> None:
    live(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_usage_and_estimates_show_what_is_billed(seed: int) -> None:
    live(seed, usage=True)
