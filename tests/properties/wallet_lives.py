"""Random lives of a customer's wallets, and how to play them in a sandbox.

A life is a customer, two plans, and steps in time: wallets come, change and go, credits are bought, paid for, granted
and voided, rules top up, usage is billed, invoices are voided and refunded. Most requests succeed; one that is refused
changes nothing, which is checked like everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from tests.properties.strategies import Crash, CrashingStore
from tests.scenarios import API, Scenario, charge_on
from usagebill.core.errors import BillingError
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.statuses import PaymentStatus
from usagebill.core.wallet_transactions import TransactionType, WalletTransaction
from usagebill.core.wallets import Wallet, WalletStatus
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq, more, ne
from usagebill.storage.ports import Store, Transaction

START = datetime(2024, 1, 20, 9, tzinfo=UTC)
# Large enough that a rule need not grant hundreds of times, two seconds apart, to pass its threshold.
RATES = ("1", "1", "0.5", "1.375", "0.07", "10", "0.33333")
CREDITS = ("5", "20", "0.4", "12.34567", "100", "3.3", "4.399999", "1000")
METRICS = ("gb", "calls", "sms")
ALERT_TYPES = ("wallet_balance_amount", "wallet_credits_balance")
THRESHOLDS = [{"value": 10_000}, {"value": 10, "recurring": True}]
RULES: tuple[dict[str, Any] | None, ...] = (
    None,
    {"trigger": "threshold", "threshold_credits": "10", "granted_credits": "15"},
    {"trigger": "threshold", "threshold_credits": "2", "paid_credits": "7.5", "granted_credits": "1"},
    {"trigger": "threshold", "threshold_credits": "0", "method": "target", "target_ongoing_balance": "25"},
    {
        "trigger": "threshold",
        "threshold_credits": "5",
        "method": "target",
        "target_ongoing_balance": "30",
        "grants_target_top_up": True,
    },
    {"trigger": "interval", "interval": "weekly", "granted_credits": "8.123"},
    {"trigger": "interval", "interval": "monthly", "paid_credits": "11"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An action, `wait` after the previous one; the numbers are its target and amount."""

    wait: timedelta
    what: str
    subject: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletLife:
    """A customer's contract, and the steps."""

    zone: str
    grace_days: int
    tax_rate: int
    coupon_cents: int
    thresholds: bool
    targets: bool
    steps: tuple[Step, ...]


_waits = st.one_of(
    st.just(timedelta(seconds=1)),
    st.just(timedelta(seconds=10)),
    st.integers(1, 90).map(lambda minutes: timedelta(minutes=minutes)),
    st.integers(1, 20).map(lambda days: timedelta(days=days)),
)
_WORDS = (
    ("use",) * 7
    + ("buy",) * 3
    + ("pay",) * 4
    + ("fail",) * 2
    + ("grant",) * 2
    + ("void",) * 2
    + ("void_one",) * 2
    + ("make",) * 3
    + ("rule",) * 2
    + ("void_invoice",) * 3
    + ("midnight",) * 3
    + ("refund",) * 3
    + ("priority", "limits", "end_wallet", "expiry", "plan", "plan", "unsubscribe", "zone")
)
_steps = st.builds(
    Step, wait=_waits, what=st.sampled_from(_WORDS), subject=st.integers(0, 5), number=st.integers(0, 11)
)


def wallet_lives(steps: int) -> st.SearchStrategy[WalletLife]:
    """Lives of at most this many steps, and at least half as many."""
    return st.builds(
        WalletLife,
        zone=st.sampled_from(("UTC", "America/Los_Angeles", "Asia/Tokyo")),
        grace_days=st.sampled_from((0, 0, 3)),
        tax_rate=st.sampled_from((0, 7, 20)),
        coupon_cents=st.sampled_from((0, 0, 333)),
        thresholds=st.booleans(),
        targets=st.booleans(),
        steps=st.lists(_steps, min_size=steps // 2, max_size=steps).map(tuple),
    )


class WatchedStore(CrashingStore):
    """A store that calls `watch` after each commit."""

    def __init__(self, store: Store, dies: Callable[[], bool], watch: Callable[[], None]) -> None:
        super().__init__(store, dies)
        self._watch = watch

    def write(self, organization_id: str | None, change: Callable[[Transaction], Any]) -> Any:
        done = super().write(organization_id, change)
        self._watch()
        return done


def play(
    life: WalletLife,
    check: Callable[[Scenario], None],
    *,
    watch: Callable[[Reader], None] = lambda _: None,
    dies: Callable[[], bool] = lambda: False,
) -> None:
    """Play `life`; call `check` after each step, once all due jobs are done, and `watch` after each commit.

    `dies` decides before each commit of due jobs whether to crash; crashed jobs are rerun.
    """
    with Scenario(now=START) as box:
        box.billing._system.store = WatchedStore(box.billing.store, dies, lambda: box.billing.reading(watch))
        player = _Player(box, life)
        player.begin()
        for step in life.steps:
            player.move(box.now + step.wait)
            player.act(step)
            check(box)
        player.move(box.now + timedelta(days=70))
        check(box)


class _Player:
    def __init__(self, box: Scenario, life: WalletLife) -> None:
        self.box = box
        self.life = life
        self._events = count(1)
        self._wallet_codes = count(0)
        self._customer_zone = life.zone

    def begin(self) -> None:
        life = self.life
        billing = {"invoice_grace_period": life.grace_days}
        customer = {"external_id": "acme", "currency": "EUR", "timezone": life.zone}
        self._done("POST", "/customers", {"customer": {**customer, "billing_configuration": billing}})
        metrics = {code: self._metric(code) for code in METRICS}
        if life.tax_rate:
            tax = {"name": "VAT", "code": "vat", "rate": life.tax_rate, "applied_to_organization": True}
            self._done("POST", "/taxes", {"tax": tax})
        for number, code in enumerate(("small", "large")):
            plan = {
                "name": code,
                "code": code,
                "interval": ("weekly", "monthly")[number],
                "amount_cents": 250 * number,
                "amount_currency": "EUR",
                "pay_in_advance": False,
                "charges": [
                    charge_on(metrics["gb"], amount="1.005", accepts_target_wallet=life.targets),
                    charge_on(metrics["calls"], amount="0.333"),
                    charge_on(metrics["sms"], amount="0.5", pay_in_advance=True),
                ],
                **({"usage_thresholds": [{"amount_cents": 1500, "recurring": True}]} if life.thresholds else {}),
            }
            self._done("POST", "/plans", {"plan": plan})
        if life.coupon_cents:
            self.box.coupon(life.coupon_cents, frequency="forever")
        self._subscribe("small")
        self._subscribe("large", "other")
        self._make(0, 3)

    def _metric(self, code: str) -> str:
        body = {"name": code, "code": code, "aggregation_type": "sum_agg", "field_name": "value"}
        return str(self._done("POST", "/billable_metrics", {"billable_metric": body})["billable_metric"]["svc_id"])

    def move(self, instant: datetime) -> None:
        self._alive(lambda: self.box.travel_to(instant), lambda: self.box.travel_to(instant))

    def act(self, step: Step) -> None:
        getattr(self, f"_{step.what}")(step.subject, step.number)

    def _alive(self, first: Callable[[], Any], again: Callable[[], Any]) -> Any:
        try:
            answer = first()
        except Crash:
            answer = None
        while True:
            try:
                again()
            except Crash:
                continue
            return answer

    def _send(self, method: str, path: str, json: object = None) -> Any:
        # A crash undoes only the jobs of a request, which itself was durable before.
        return self._alive(lambda: self.box.request(method, API + path, json=json), self.box.run_due)

    def _done(self, method: str, path: str, json: object = None) -> Any:
        answer = self._send(method, path, json)
        assert answer is None or answer[0] == 200, answer
        return None if answer is None else answer[1]

    def _wallets(self) -> list[Wallet]:
        order = [asc("created_at"), asc("id")]
        return self.box.billing.reading(lambda reader: reader.tx.find(Wallet, order=order))

    def _wallet(self, subject: int) -> Wallet | None:
        """One of the active wallets, or sometimes any."""
        wallets = self._wallets()
        active = [wallet for wallet in wallets if wallet.status == WalletStatus.ACTIVE]
        chosen = active if active and subject < 5 else wallets
        return chosen[subject % len(chosen)] if chosen else None

    # Steps

    def _subscribe(self, plan: str, external_id: str = "sub") -> None:
        body = {"external_customer_id": "acme", "external_id": external_id, "plan_code": plan}
        self._done("POST", "/subscriptions", {"subscription": body})

    def _plan(self, subject: int, number: int) -> None:
        self._subscribe(("small", "large")[number % 2])

    def _unsubscribe(self, subject: int, number: int) -> None:
        self._send("DELETE", "/subscriptions/sub")

    def _use(self, subject: int, number: int) -> None:
        event = {
            "transaction_id": f"t{next(self._events)}",
            "code": METRICS[subject % 3],
            "external_subscription_id": "other" if number % 5 == 4 else "sub",
            "timestamp": str(self.box.now.timestamp()),
            # Some usage names the only wallet that may pay for it, some a wallet that does not exist.
            "properties": {"value": number + 1, **({"target_wallet_code": f"w{subject}"} if number % 3 == 2 else {})},
        }
        self._done("POST", "/events", {"event": event})

    def _midnight(self, subject: int, number: int) -> None:
        """Travel to the first minutes of a week: the previous one has closed, and may or may not be billed."""
        zone = ZoneInfo(self._customer_zone)
        today = self.box.now.astimezone(zone).date()
        monday = today + timedelta(days=7 - today.weekday())
        self.move(datetime.combine(monday, time(0, number), tzinfo=zone).astimezone(UTC))

    def _make(self, subject: int, number: int) -> None:
        limits: tuple[dict[str, Any], ...] = (
            {},
            {},
            {"applies_to": {"billable_metric_codes": [METRICS[number % 3]]}},
            {"applies_to": {"fee_types": ["subscription"]}},
        )
        rule = RULES[(subject * 5 + number) % len(RULES)]
        code = f"w{next(self._wallet_codes)}"
        wallet = {
            "external_customer_id": "acme",
            "code": code,
            "rate_amount": RATES[number % len(RATES)],
            "currency": "EUR",
            "priority": subject % 3 + 1,
            "granted_credits": CREDITS[(number + subject) % len(CREDITS)],
            "invoice_requires_successful_payment": number % 4 == 0,
            **limits[number % len(limits)],
            **({} if rule is None else {"recurring_transaction_rules": [rule]}),
        }
        self._send("POST", "/wallets", {"wallet": wallet})
        for alert_type in ALERT_TYPES[number % 2 :]:
            alert = {"alert_type": alert_type, "code": alert_type, "thresholds": THRESHOLDS}
            self._send("POST", f"/customers/acme/wallets/{code}/alerts", {"alert": alert})

    def _rule(self, subject: int, number: int) -> None:
        rule = RULES[number % len(RULES)]
        self._change(subject, recurring_transaction_rules=[] if rule is None else [rule])

    def _priority(self, subject: int, number: int) -> None:
        self._change(subject, priority=number + 1)

    def _limits(self, subject: int, number: int) -> None:
        fee_types = ["charge", "subscription"][: number % 3]
        codes = list(METRICS[: number % 4])
        self._change(subject, applies_to={"fee_types": fee_types, "billable_metric_codes": codes})

    def _expiry(self, subject: int, number: int) -> None:
        expires = self.box.now + timedelta(hours=40 * number + 1)
        self._change(subject, expiration_at=expires.strftime("%Y-%m-%dT%H:%M:%SZ"))

    def _change(self, subject: int, **fields: object) -> None:
        wallet = self._wallet(subject)
        if wallet is not None:
            self._send("PUT", f"/wallets/{wallet.id}", {"wallet": fields})

    def _end_wallet(self, subject: int, number: int) -> None:
        wallet = self._wallet(subject)
        if wallet is not None and number % 2:
            self._send("DELETE", f"/wallets/{wallet.id}")

    def _zone(self, subject: int, number: int) -> None:
        zone = ("UTC", "America/Los_Angeles", "Asia/Tokyo")[number % 3]
        self._done("POST", "/customers", {"customer": {"external_id": "acme", "timezone": zone}})
        self._customer_zone = zone

    def _move_credits(self, subject: int, **fields: object) -> None:
        wallet = self._wallet(subject)
        if wallet is not None:
            body = {"wallet_id": wallet.id, **fields}
            self._send("POST", "/wallet_transactions", {"wallet_transaction": body})

    def _buy(self, subject: int, number: int) -> None:
        self._move_credits(
            subject,
            paid_credits=CREDITS[number % len(CREDITS)],
            priority=number + 1,
            invoice_requires_successful_payment=number % 4 == 0,
        )

    def _grant(self, subject: int, number: int) -> None:
        # The void is taken from the balance before the grant of the same request.
        void = {"voided_credits": "1"} if number % 4 == 3 else {}
        self._move_credits(subject, granted_credits=CREDITS[number % len(CREDITS)], priority=number + 1, **void)

    def _void(self, subject: int, number: int) -> None:
        self._move_credits(subject, voided_credits=("0.5", "2", "3.33333", "0.00001", "40")[number % 5])

    def _void_one(self, subject: int, number: int) -> None:
        inbound = self._find(WalletTransaction, eq("transaction_type", TransactionType.INBOUND))
        if not inbound:
            return
        source = inbound[(subject + number) % len(inbound)]
        amount = {"voided_credits": "1.5"} if number % 2 else {}
        body = {"wallet_id": source.wallet_id, "voided_transaction_id": source.id, **amount}
        self._send("POST", "/wallet_transactions", {"wallet_transaction": body})

    def _find(self, kind: type[Any], *conditions: Any) -> list[Any]:
        order = [asc("created_at"), asc("id")]
        return self.box.billing.reading(lambda reader: reader.tx.find(kind, *conditions, order=order))

    def _unpaid(self, subject: int) -> Invoice | None:
        unpaid = (ne("payment_status", PaymentStatus.SUCCEEDED), ne("status", "voided"), more("total_amount_cents", 0))
        invoices = self._find(Invoice, *unpaid)
        return invoices[subject % len(invoices)] if invoices else None

    def _pay(self, subject: int, number: int) -> None:
        invoice = self._unpaid(subject)
        if invoice is None:
            return
        if number % 2:
            payment = {"invoice_id": invoice.id, "amount_cents": invoice.due_cents, "reference": f"{number}"}
            self._send("POST", "/payments", {"payment": payment})
        else:
            self._send("PUT", f"/invoices/{invoice.id}", {"invoice": {"payment_status": "succeeded"}})

    def _fail(self, subject: int, number: int) -> None:
        invoice = self._unpaid(subject)
        if invoice is not None:
            self._send("PUT", f"/invoices/{invoice.id}", {"invoice": {"payment_status": "failed"}})

    def _void_invoice(self, subject: int, number: int) -> None:
        invoices = [
            invoice
            for invoice in self._find(Invoice, eq("status", "finalized"))
            if invoice.total_amount_cents + invoice.prepaid_credit_amount_cents > 0
        ]
        if invoices:
            invoice = invoices[subject % len(invoices)]
            note = (
                {"generate_credit_note": True, "credit_amount": invoice.total_amount_cents} if number % 3 == 0 else None
            )
            self._send("POST", f"/invoices/{invoice.id}/void", note)
            if number % 2:
                self._alive(lambda: self._make_anew(invoice), self.box.run_due)

    def _make_anew(self, invoice: Invoice) -> None:
        """Regenerate a voided invoice, paid from the wallets' current balances."""
        fees = self._find(Fee, eq("invoice_id", invoice.id))
        with suppress(BillingError):
            self.box.billing.invoices.regenerate(invoice.id, fees=[{"id": fee.id} for fee in fees])

    def _refund(self, subject: int, number: int) -> None:
        invoices = self._find(Invoice, eq("invoice_type", "credit"), eq("payment_status", PaymentStatus.SUCCEEDED))
        if not invoices:
            return
        invoice = invoices[subject % len(invoices)]
        fees = self._find(Fee, eq("invoice_id", invoice.id))
        cents = max(1, invoice.total_amount_cents // (number % 3 + 1))
        items = [{"fee_id": fees[0].id, "amount_cents": cents}]
        note = {"invoice_id": invoice.id, "refund_amount_cents": cents, "reason": "other", "items": items}
        self._send("POST", "/credit_notes", {"credit_note": note})
