"""Plays a life in a sandbox, and collects what became of it.

Steps, by `what` (a step that is refused does nothing; `number` is its amount, or chooses among what is there):
`plan` subscribes to a plan or changes to it, `end` ends the subscription, `use` sends an event, `beside` one of the
second subscription, `down` stops all workers for some minutes, `void` voids an invoice and makes it again with the same
lines (`for good`: does not), `note` credits an invoice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.lives.life import CHARGES, Life, PlanTerms, Step, coupon_terms
from tests.scenarios import Scenario, price_ranges
from tests.tax_lines import agree_on_taxes
from usagebill.billing import Billing
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.coupons import AppliedCoupon
from usagebill.core.credit_notes import CreditNote
from usagebill.core.errors import BillingError
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.payments import Payment
from usagebill.core.plans import Charge, Plan
from usagebill.core.subscriptions import Subscription
from usagebill.core.wallet_transactions import WalletTransaction
from usagebill.core.wallets import Wallet
from usagebill.fields import RegeneratedFeeFields
from usagebill.http.api import Api
from usagebill.http.app import routes
from usagebill.operations import api_keys, event_retention
from usagebill.storage.conditions import asc, eq

SUBSCRIPTION = "sub"
BESIDE = "beside"
METRICS: dict[str, dict[str, Any]] = {
    "gb": {"aggregation_type": "sum_agg", "filters": [{"key": "region", "values": ["eu", "us"]}]},
    "calls": {"aggregation_type": "count_agg", "field_name": None},
    "peak": {"aggregation_type": "max_agg"},
    "level": {"aggregation_type": "latest_agg"},
    "users": {"aggregation_type": "unique_count_agg"},
    "seats": {"aggregation_type": "unique_count_agg", "recurring": True},
    "stock": {"aggregation_type": "sum_agg", "recurring": True},
    "hours": {"aggregation_type": "weighted_sum_agg", "recurring": True, "weighted_interval": "seconds"},
}
# Until the last draft is issued and everything is collected.
AFTERWARDS = timedelta(days=45)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """An event, its place in the order of arrival, and the instant of its arrival."""

    id: str
    metric: str
    at: datetime
    value: int
    region: str
    received: datetime
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A step that was not refused, and its place in the order of everything."""

    at: datetime
    what: str
    code: str
    number: int
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What a customer owes and has, in cents; `owed` less the rest is its position."""

    owed: int
    notes: int
    wallets: int

    @property
    def position(self) -> int:
        return self.owed - self.notes - self.wallets


@dataclass(slots=True)
class Lived:
    """What became of a life."""

    life: Life
    # When each step was taken, refused or not.
    instants: list[datetime] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    events: list[Sent] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unbilled: dict[str, str] = field(default_factory=dict)
    invoices: list[Invoice] = field(default_factory=list)
    fees: list[Fee] = field(default_factory=list)
    notes: list[CreditNote] = field(default_factory=list)
    by_hand: set[str] = field(default_factory=set)
    coupons: list[AppliedCoupon] = field(default_factory=list)
    wallets: list[Wallet] = field(default_factory=list)
    transactions: list[WalletTransaction] = field(default_factory=list)
    payments: list[Payment] = field(default_factory=list)
    periods: list[BillingPeriod] = field(default_factory=list)
    subscriptions: list[Subscription] = field(default_factory=list)
    charges: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, str] = field(default_factory=dict)
    plans: dict[str, str] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    # How many events were removed.
    removed: int = 0


def play(
    life: Life,
    *,
    late: bool = False,
    leaps: bool = False,
    reopened: bool = False,
    backwards: bool = False,
    forgetful: bool = False,
) -> Lived:
    """Play the life to its end, and until all is billed.

    With `late`, workers stop where the life says `down`; with `leaps`, they work right before each step alone, on all
    that has become due since the one before, instead of at each instant at which something is due; with `reopened`,
    everything is in a file that is closed and opened again before each step; with `backwards`, what is there before the
    life begins was made in another order; with `forgetful`, events are removed before each step once their period ended
    a month ago.
    """
    with ReopenedScenario(now=life.start) if reopened else Scenario(now=life.start) as box:
        player = _Player(box, life, late=late, leaps=leaps, backwards=backwards, forgetful=forgetful)
        player.play()
        return player.lived


class ReopenedScenario(Scenario):
    """A scenario in a file, which `reopen` closes and opens again."""

    def __init__(self, now: datetime) -> None:
        super().__init__(now)
        self._folder = self._closing.enter_context(TemporaryDirectory())
        self.reopen()
        _, self.api_key = self.billing.writing(lambda work: api_keys.create(work))

    def reopen(self) -> None:
        self.billing.close()
        self.billing = Billing(str(Path(self._folder) / "life.db"), clock=self.clock, deliver=False)
        self._api = Api(self.billing, routes())
        self.billing.on_immediate(self._follow)


class _Player:
    def __init__(self, box: Scenario, life: Life, *, late: bool, leaps: bool, backwards: bool, forgetful: bool) -> None:
        self.box = box
        self.life = life
        self.late = late
        self.leaps = leaps
        self.backwards = backwards
        self.forgetful = forgetful
        self.lived = Lived(life=life)
        self.up_again: datetime | None = None
        # While nobody works, invoices are named as they were before, so that the same is chosen on time and late.
        self._seen_invoices: dict[str, str] = {}
        self._seen_coupons: list[str] = []
        self._blind_until: datetime | None = None
        self._place = 0
        self._metrics: dict[str, str] = {}

    def play(self) -> None:
        self._prepare()
        self._act(Step(at=self.life.start, what="plan", number=0))
        if self.life.beside is not None:
            self._subscribe(Step(at=self.life.start, what="plan", number=self.life.beside), BESIDE)
        for step in self.life.steps:
            self._move(step.at)
            self.lived.instants.append(self.box.now)
            self._act(step)
        self._move(self.life.end)
        self._close()
        self._collect()

    def _close(self) -> None:
        self._run_what_is_due()
        shown = self._usage_now()
        foreseen = self._foreseen()
        known = {invoice.id for invoice in self._find(Invoice)}
        self._act(Step(at=self.life.end, what="end"))
        made = [
            invoice
            for invoice in self._find(Invoice)
            if invoice.id not in known and invoice.invoice_type == "subscription"
        ]
        if shown is not None and len(made) == 1:
            self._compare_usage(shown, made[0])
        if self.life.beside is not None:
            self._try("DELETE", f"/subscriptions/{BESIDE}")
        self._run_what_is_due()
        self.box.travel_to(self.box.now + AFTERWARDS)
        if self.forgetful:
            self._forget()
        if foreseen is not None and len(made) == 1:
            (last,) = self._find(Invoice, eq("id", made[0].id))
            if last.status == "finalized" and foreseen != _net(last):
                self.lived.problems.append(f"preview of the end: {foreseen}, then billed {_net(last)}")

    # Time

    def _move(self, instant: datetime) -> None:
        if isinstance(self.box, ReopenedScenario):
            self.box.reopen()
        if self.up_again is not None and self.up_again <= instant:
            self.box.jump_to(max(self.up_again, self.box.now))
            self.up_again = None
            self.box.run_due()
        if self.up_again is not None:
            self.box.jump_to(instant)
        elif self.leaps:
            self.box.jump_to(max(instant, self.box.now))
            self.box.run_due()
        else:
            self.box.travel_to(max(instant, self.box.now))
        if self.forgetful:
            self._forget()

    def _forget(self) -> None:
        billing = self.box.billing
        removal = billing.reading(lambda reader: event_retention.begin(reader, 1))
        while not removal.is_done:
            removal = billing.writing(partial(event_retention.go_on, removal=removal))
        self.lived.removed += removal.removed

    def _run_what_is_due(self) -> None:
        self.up_again = None
        self.box.run_due()

    # The scene

    def _prepare(self) -> None:
        box, life = self.box, self.life
        if life.tax:
            box.tax(life.tax)
        box.customer(timezone=life.zone, billing_configuration={"invoice_grace_period": life.grace})
        codes = {CHARGES[code][0] for plan in life.plans for code in plan.charges}
        codes |= {target for _, target in map(coupon_terms, self._coupon_codes()) if target in METRICS}
        self._metrics = {code: box.metric(code, **_metric(code)) for code in sorted(codes)}
        seat = box.add_on("seat", 100) if any(plan.fixed is not None for plan in life.plans) else ""
        plans = list(enumerate(life.plans))
        makers = [lambda: self._prepare_plans(plans[:: -1 if self.backwards else 1], seat), self._prepare_coupons]
        makers.append(self._prepare_wallet)
        # A coupon for a plan comes after it.
        is_for_plan = any(coupon_terms(code)[1] not in ("", *METRICS) for code in self._coupon_codes())
        for make in makers[:: -1 if self.backwards and not is_for_plan else 1]:
            make()

    def _prepare_plans(self, plans: Sequence[tuple[int, PlanTerms]], seat: str) -> None:
        for place, plan in plans:
            self.box.post("/plans", plan=self._plan(place, plan, seat))

    def _prepare_coupons(self) -> None:
        life, box = self.life, self.box
        for code in self._coupon_codes():
            box.post("/coupons", coupon=_coupon(code))
        for code in life.coupons:
            # Two that are limited to one metric or plan cannot be held together.
            self._try(
                "POST", "/applied_coupons", {"applied_coupon": {"external_customer_id": "acme", "coupon_code": code}}
            )

    def _coupon_codes(self) -> list[str]:
        return sorted({*self.life.coupons, *(step.code for step in self.life.steps if step.what == "coupon")})

    def _prepare_wallet(self) -> None:
        if self.life.wallet:
            wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "name": "w"}
            self.box.post("/wallets", wallet={**wallet, "granted_credits": str(self.life.wallet)})

    def _plan(self, place: int, plan: PlanTerms, seat: str) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "name": f"Plan {place}",
            "code": f"p{place}",
            "interval": plan.interval,
            "amount_cents": plan.amount,
            "amount_currency": "EUR",
            "pay_in_advance": plan.ahead,
            "trial_period": plan.trial,
            "charges": [self._charge(code) for code in plan.charges],
        }
        if plan.split:
            fields |= {"bill_charges_monthly": True, "bill_fixed_charges_monthly": True}
        if plan.commitment:
            fields["minimum_commitment"] = {"amount_cents": plan.commitment}
        thresholds: list[dict[str, Any]] = [{"amount_cents": cents} for cents in plan.thresholds]
        if plan.recurring_threshold:
            thresholds.append({"amount_cents": plan.recurring_threshold, "recurring": True})
        if thresholds:
            fields["usage_thresholds"] = thresholds
        if plan.fixed is not None:
            fields["fixed_charges"] = [
                {
                    "add_on_id": seat,
                    "code": "fixed",
                    "charge_model": "standard",
                    "units": 2,
                    "pay_in_advance": plan.fixed_ahead,
                    "prorated": plan.fixed_prorated,
                    "properties": {"amount": str(Decimal(plan.fixed) / 100)},
                }
            ]
        return fields

    def _charge(self, code: str) -> dict[str, Any]:
        metric, terms = CHARGES[code]
        charge: dict[str, Any] = {
            "billable_metric_id": self._metrics[metric],
            "code": code,
            "charge_model": terms["charge_model"],
            "properties": _properties(terms),
            "prorated": terms.get("prorated", False),
            "pay_in_advance": terms.get("ahead", False),
            "invoiceable": terms.get("invoiceable", True),
        }
        if "minimum" in terms:
            charge["min_amount_cents"] = terms["minimum"]
        if "regions" in terms:
            charge["filters"] = [
                {"values": {"region": [region]}, "properties": {"amount": str(price)}}
                for region, price in terms["regions"].items()
            ]
        return charge

    # Steps

    def _act(self, step: Step) -> None:
        self._place += 1
        acts = {
            "plan": self._subscribe,
            "end": self._end,
            "use": self._use,
            "beside": self._use,
            "down": self._down,
            "note": self._note,
            "void": self._void,
            "pay": self._pay,
            "top up": self._top_up,
            "coupon": self._coupon,
            "uncoupon": self._uncoupon,
            "override": self._override,
            "rename": self._rename,
            "tax": self._tax,
            "price": self._price,
            "finalize": self._of_draft,
            "refresh": self._of_draft,
            "filter": self._filter,
        }
        # A bill moves the clock.
        at = self.box.now
        if acts[step.what](step):
            act = Act(at=at, what=step.what, code=step.code, number=step.number, place=self._place)
            self.lived.acts.append(act)

    def _try(self, method: str, path: str, body: object = None) -> Any:
        """The answer, None if it is refused."""
        status, answer = self.box.send(method, path, body)
        assert status < 500, f"{method} {path}: {status} {answer}"
        return answer if status == 200 else None

    def _subscribe(self, step: Step, external_id: str = SUBSCRIPTION) -> bool:
        subscription = {
            "external_customer_id": "acme",
            "external_id": external_id,
            "plan_code": f"p{step.number}",
            "billing_time": "anniversary" if self.life.anniversary else "calendar",
        }
        return self._try("POST", "/subscriptions", {"subscription": subscription}) is not None

    def _end(self, step: Step) -> bool:
        return self._try("DELETE", f"/subscriptions/{SUBSCRIPTION}") is not None

    def _use(self, step: Step) -> bool:
        external_id = BESIDE if step.what == "beside" else SUBSCRIPTION
        at = self.box.now - step.back
        region = ("eu", "us")[step.number % 2]
        id = f"t{self._place}"
        properties: dict[str, Any] = {"value": abs(step.number), "region": region}
        if step.code in ("users", "seats"):
            operation = "remove" if step.number < 0 else "add"
            properties = {"value": f"s{abs(step.number)}", "operation_type": operation}
        elif step.code in ("stock", "hours"):
            properties["value"] = step.number
        event = {
            "transaction_id": id,
            "code": step.code,
            "external_subscription_id": external_id,
            "timestamp": f"{int(at.timestamp())}.{at.microsecond:06}",
            "properties": properties,
        }
        if self._try("POST", "/events", {"event": event}) is None:
            return False
        if external_id == BESIDE:
            return True
        sent = Sent(
            id=id,
            metric=step.code,
            at=at,
            value=step.number,
            region=region,
            received=self.box.now,
            place=self._place,
        )
        self.lived.events.append(sent)
        return True

    def _down(self, step: Step) -> bool:
        until = self.box.now + timedelta(minutes=step.number)
        if self._blind_until is None or self._blind_until <= self.box.now:
            self._seen_invoices = {invoice.id: invoice.status for invoice in self._find(Invoice)}
            self._seen_coupons = self._held_coupons()
        self._blind_until = max(until, self._blind_until or until)
        if self.late:
            self.up_again = self._blind_until
        return True

    @property
    def _is_blind(self) -> bool:
        return self._blind_until is not None and self.box.now < self._blind_until

    def _status(self, invoice: Invoice) -> str | None:
        """As its owner last saw it."""
        return self._seen_invoices.get(invoice.id) if self._is_blind else invoice.status

    # Invoices

    def _find(self, kind: type[Any], *conditions: Any) -> list[Any]:
        order = [asc("created_at"), asc("id")]
        return self.box.billing.reading(lambda reader: reader.tx.find(kind, *conditions, order=order))

    def _issued(self) -> list[Invoice]:
        """The invoices that can be paid, credited or voided, always in the same order."""
        invoices = [
            invoice
            for invoice in self._find(Invoice, eq("status", "finalized"))
            if invoice.invoice_type in ("subscription", "progressive_billing")
            and invoice.fees_amount_cents > 0
            and self._status(invoice) == "finalized"
        ]
        return sorted(
            invoices, key=lambda invoice: (invoice.created_at, invoice.invoice_type, invoice.fees_amount_cents)
        )

    def _chosen(self, number: int) -> Invoice | None:
        issued = self._issued()
        return issued[-1 - number % len(issued)] if issued else None

    def _worth(self) -> Worth:
        """What the customer owes and has."""
        invoices = [invoice for invoice in self._find(Invoice) if invoice.status == "finalized"]
        notes = [note for note in self._find(CreditNote) if note.credit_status == "available"]
        return Worth(
            owed=sum(invoice.due_cents for invoice in invoices if invoice.invoice_type != "credit"),
            notes=sum(note.balance_amount_cents for note in notes if note.status == "finalized"),
            wallets=sum(wallet.balance_cents for wallet in self._find(Wallet)),
        )

    def _void(self, step: Step) -> bool:
        invoice = self._chosen(step.number)
        if invoice is None:
            return False
        before = self._worth()
        coupons = _coupon_states(self._find(AppliedCoupon))
        if self._try("POST", f"/invoices/{invoice.id}/void") is None:
            if self._worth() != before:
                self.lived.problems.append("a refused void changed something")
            return False
        if step.code == "for good":
            return True
        lines: list[RegeneratedFeeFields] = [{"id": fee.id} for fee in self._find(Fee, eq("invoice_id", invoice.id))]
        try:
            again = self.box.billing.invoices.regenerate(invoice.id, fees=lines)
        except BillingError as problem:
            self.lived.problems.append(f"a voided invoice cannot be made again: {problem}")
            return True
        # What was credited by hand on the voided one is credited on the new one.
        if self.lived.by_hand & {note.id for note in self._find(CreditNote, eq("invoice_id", invoice.id))}:
            self.lived.by_hand |= {note.id for note in self._find(CreditNote, eq("invoice_id", again.id))}
        since = [act for act in self.lived.acts if act.at >= invoice.created_at]
        if any(
            act.what in ("coupon", "uncoupon", "tax") or (act.what, act.code) == ("void", "for good") for act in since
        ):
            return True  # it is made again with what holds now; a void for good gives its coupons back
        after = self._worth()
        # Late, the void has also billed what was overdue; `late` compares all papers.
        if self.up_again is not None:
            return True
        if again.fees_amount_cents != invoice.fees_amount_cents or _gross(again) != _gross(invoice):
            was, now = (_gross(one) for one in (invoice, again))
            self.lived.problems.append(f"void and regenerate: {now} cents before notes and prepaid, were {was}")
        if after.position != before.position:
            self.lived.problems.append(f"void and regenerate moved money: {before} became {after}")
        if _coupon_states(self._find(AppliedCoupon)) != coupons:
            self.lived.problems.append("void and regenerate changed coupons")
        return True

    def _note(self, step: Step) -> bool:
        invoice = self._chosen(step.number)
        if invoice is None:
            return False
        fees = self._find(Fee, eq("invoice_id", invoice.id))
        rest = {fee.id: fee.amount_cents - self._credited(fee.id) for fee in fees}
        whole = {id: cents for id, cents in rest.items() if cents > 0}
        if not whole:
            return False
        if step.code == "parts":
            thirds = {id: cents // 3 for id, cents in whole.items()}
            rests = {id: cents - 2 * thirds[id] for id, cents in whole.items()}
            made = [self._credit(invoice, part, "credit") for part in (thirds, thirds, rests)]
        elif step.code == "part":
            made = [self._credit(invoice, {id: (cents + 2) // 3 for id, cents in whole.items()}, "credit")]
        elif step.code == "part offset":
            made = [self._credit(invoice, {id: (cents + 2) // 3 for id, cents in whole.items()}, "offset")]
        else:
            kind = {"refund": "refund", "offset": "offset"}.get(step.code, "credit")
            made = [self._credit(invoice, whole, kind)]
        if step.code in ("parts", "whole") and all(made):
            self._check_all_credited(invoice)
        return any(made)

    def _credited(self, fee_id: str) -> int:
        notes = [note for note in self._find(CreditNote) if note.status != "deleted"]
        return sum(item.amount_cents for note in notes for item in note.items if item.fee_id == fee_id)

    def _credit(self, invoice: Invoice, amounts: dict[str, int], kind: str) -> bool:
        items = [{"fee_id": id, "amount_cents": cents} for id, cents in amounts.items() if cents > 0]
        if not items:
            return False
        estimate = self._try(
            "POST", "/credit_notes/estimate", {"credit_note": {"invoice_id": invoice.id, "items": items}}
        )
        if estimate is None:
            return False
        shown = estimate["estimated_credit_note"]
        largest = shown[f"max_{'refundable' if kind == 'refund' else 'creditable'}_amount_cents"]
        if not largest:
            return False
        note = {"invoice_id": invoice.id, "reason": "other", "items": items, f"{kind}_amount_cents": largest}
        made = self._try("POST", "/credit_notes", {"credit_note": note})
        if made is None:
            return False
        self.lived.by_hand.add(made["credit_note"]["svc_id"])
        return True

    def _check_all_credited(self, invoice: Invoice) -> None:
        """An invoice all of whose fees are credited gives back all of it, each tax line too."""
        notes = [note for note in self._find(CreditNote, eq("invoice_id", invoice.id)) if note.status == "finalized"]
        back = sum(note.total_amount_cents for note in notes)
        if back != _gross(invoice):
            self.lived.problems.append(f"all fees credited: {back} cents of {_gross(invoice)} in {len(notes)} notes")
        taxes = sum(note.taxes_amount_cents for note in notes)
        if taxes != invoice.taxes_amount_cents:
            self.lived.problems.append(f"all fees credited: taxes {taxes} of {invoice.taxes_amount_cents}")

    def _pay(self, step: Step) -> bool:
        unpaid = [
            invoice
            for invoice in self._find(Invoice, eq("status", "finalized"))
            if invoice.due_cents > 0 and self._status(invoice) == "finalized"
        ]
        if not unpaid:
            return False
        invoice = sorted(unpaid, key=lambda one: (one.created_at, one.total_amount_cents))[step.number % len(unpaid)]
        cents = (
            invoice.due_cents
            if step.code == "whole" or invoice.invoice_type == "credit"
            else (invoice.due_cents + 1) // 2
        )
        payment = {"invoice_id": invoice.id, "amount_cents": cents, "reference": f"r{self._place}"}
        return self._try("POST", "/payments", {"payment": payment}) is not None

    def _of_draft(self, step: Step) -> bool:
        drafts = [invoice for invoice in self._find(Invoice) if self._status(invoice) == "draft"]
        if not drafts:
            return False
        draft = drafts[step.number % len(drafts)]
        return self._try("PUT", f"/invoices/{draft.id}/{step.what}") is not None

    # Discounts, credits, definitions

    def _top_up(self, step: Step) -> bool:
        wallets = self._find(Wallet)
        if not wallets:
            return False
        body = {"wallet_id": wallets[0].id, f"{step.code}_credits": str(step.number)}
        return self._try("POST", "/wallet_transactions", {"wallet_transaction": body}) is not None

    def _coupon(self, step: Step) -> bool:
        applied = {"external_customer_id": "acme", "coupon_code": step.code}
        return self._try("POST", "/applied_coupons", {"applied_coupon": applied}) is not None

    def _uncoupon(self, step: Step) -> bool:
        held = self._seen_coupons if self._is_blind else self._held_coupons()
        return bool(held) and self._try("DELETE", f"/customers/acme/applied_coupons/{held[0]}") is not None

    def _held_coupons(self) -> list[str]:
        held = self._find(AppliedCoupon, eq("status", "active"))
        # Ids differ from play to play, and those of the beginning have one instant.
        return [
            coupon.id
            for coupon in sorted(
                held,
                key=lambda one: (one.created_at, one.frequency, one.amount_cents or 0, one.percentage_rate or 0),
            )
        ]

    def _override(self, step: Step) -> bool:
        body = {"subscription": {"plan_overrides": {"amount_cents": 100 * step.number}}}
        return self._try("PUT", f"/subscriptions/{SUBSCRIPTION}", body) is not None

    def _rename(self, step: Step) -> bool:
        body = {"subscription": {"plan_overrides": {"name": f"Named {step.number}"}}}
        return self._try("PUT", f"/subscriptions/{SUBSCRIPTION}", body) is not None

    def _tax(self, step: Step) -> bool:
        return bool(self.life.tax) and self._try("PUT", "/taxes/vat", {"tax": {"rate": step.number}}) is not None

    def _price(self, step: Step) -> bool:
        place = step.number % len(self.life.plans)
        standard = [code for code in self.life.plans[place].charges if CHARGES[code][1]["charge_model"] == "standard"]
        if not standard:
            return False
        body = {"charge": {"properties": {"amount": str(step.number)}, "cascade_updates": True}}
        return self._try("PUT", f"/plans/p{place}/charges/{standard[0]}", body) is not None

    def _filter(self, step: Step) -> bool:
        if "gb" not in self._metrics:
            return False
        return self._try("PUT", "/billable_metrics/gb", {"billable_metric": {"filters": []}}) is not None

    # Previews

    def _usage_now(self) -> Any:
        answer = self._try(
            "GET", f"/customers/acme/current_usage?external_subscription_id={SUBSCRIPTION}&apply_taxes=false"
        )
        return None if answer is None else answer["customer_usage"]

    def _foreseen(self) -> int | None:
        """The net amount of the invoice of an end right now, as the preview shows it."""
        ends = {"external_ids": [SUBSCRIPTION], "terminated_at": self.box.now.strftime("%Y-%m-%dT%H:%M:%SZ")}
        body = {"customer": {"external_id": "acme"}, "subscriptions": ends}
        answer = self._try("POST", "/invoices/preview", body)
        return None if answer is None else int(answer["invoice"]["sub_total_excluding_taxes_amount_cents"])

    def _compare_usage(self, shown: Any, invoice: Invoice) -> None:
        """Current usage right before the end is what the last invoice bills for it."""
        billed: dict[str, int] = {}
        for fee in self._find(Fee, eq("invoice_id", invoice.id)):
            if fee.fee_type == "charge" and fee.true_up_parent_fee_id is None and not fee.pay_in_advance:
                billed[fee.charge_id] = billed.get(fee.charge_id, 0) + fee.amount_cents
        charges = {charge.id: charge for charge in self._find(Charge)}
        for usage in shown["charges_usage"]:
            charge_id = usage["charge"]["svc_id"]
            charge = charges[charge_id]
            by_time = charge.prorated or CHARGES[charge.code][0] == "hours"  # until the end of the period
            if not charge.pay_in_advance and not by_time and usage["amount_cents"] != billed.get(charge_id, 0):
                self.lived.problems.append(
                    f"current usage of {charge.code}: {usage['amount_cents']}, then billed {billed.get(charge_id, 0)}"
                )

    # What became of it

    def _collect(self) -> None:
        lived = self.lived
        listed = self.box.get("/events?unbilled=true&per_page=1000")["events"]
        lived.unbilled = {event["transaction_id"]: event["unbilled"]["code"] for event in listed}
        lived.invoices = self._find(Invoice)
        lived.fees = self._find(Fee)
        lived.notes = self._find(CreditNote)
        lived.coupons = self._find(AppliedCoupon)
        lived.wallets = self._find(Wallet)
        lived.transactions = self._find(WalletTransaction)
        lived.payments = self._find(Payment)
        lived.periods = self._find(BillingPeriod)
        lived.subscriptions = self._find(Subscription)
        lived.charges = {charge.id: charge.code for charge in self._find(Charge)}
        lived.metrics = {metric.id: metric.code for metric in self._find(BillableMetric)}
        lived.plans = {plan.id: plan.code for plan in self._find(Plan)}
        lived.findings = [str(finding) for finding in self.box.billing.audit().findings]
        self.box.billing.reading(agree_on_taxes)


def _metric(code: str) -> dict[str, Any]:
    return METRICS[code]


def _properties(terms: Any) -> dict[str, Any]:
    model = terms["charge_model"]
    if model in ("graduated", "volume"):
        first = [0, *(to + 1 for to, _, _ in terms["ranges"][:-1])]
        rows = [
            (start, to, str(price), str(flat)) for start, (to, price, flat) in zip(first, terms["ranges"], strict=True)
        ]
        return {f"{model}_ranges": price_ranges(*rows)}
    if model == "package":
        return {"amount": str(terms["price"]), "package_size": terms["size"], "free_units": terms["free"]}
    if model == "percentage":
        return {"rate": str(terms["rate"])}
    return {"amount": str(terms["price"])}


def _coupon(code: str) -> dict[str, Any]:
    terms, target = coupon_terms(code)
    fields: dict[str, Any] = {
        "name": code,
        "code": code,
        "expiration": "no_expiration",
        "frequency": terms["frequency"],
    }
    fields["coupon_type"] = terms["coupon_type"]
    if "amount_cents" in terms:
        fields |= {"amount_cents": terms["amount_cents"], "amount_currency": "EUR"}
    else:
        fields["percentage_rate"] = terms["rate"]
    if "duration" in terms:
        fields["frequency_duration"] = terms["duration"]
    if target:
        fields["applies_to"] = {"billable_metric_codes" if target in METRICS else "plan_codes": [target]}
    return fields


def _coupon_states(coupons: Sequence[AppliedCoupon]) -> list[tuple[object, ...]]:
    return [(coupon.id, str(coupon.status), coupon.frequency_duration_remaining) for coupon in coupons]


def _net(invoice: Invoice) -> int:
    return invoice.sub_total_excluding_taxes_amount_cents


def _gross(invoice: Invoice) -> int:
    """With taxes, before credit notes and prepaid credits."""
    return invoice.sub_total_including_taxes_amount_cents
