"""Lives a company in the library, as a program that uses it would, and writes down all that happened.

The log has an entry for each call, refused or not, and for each webhook message, in their order; the papers are what
the library shows at the end. Both are plain JSON, all that the oracle is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from usagebill.billing import Billing
from usagebill.core.errors import BillingError
from usagebill.runtime.clock import ManualClock
from usagebill.simulation.companies import Company, Step, instant_of, text_of
from usagebill.storage.sqlite import ReusedMemory

# Until the last draft is issued and the last payment is overdue.
AFTERWARDS = timedelta(days=45)
_PAGE = 1000
# One for each invoice that is issued, and for each note.
_KEPT_MESSAGES = ("invoice.created", "invoice.one_off_created", "invoice.paid_credit_added", "credit_note.created")


@dataclass(slots=True)
class Played:
    """What became of a company: its log, its papers by kind, and the findings of the library's own audit."""

    log: list[dict[str, Any]] = field(default_factory=list)
    papers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    # How often each kind of job was seen to be due.
    jobs: Counter[str] = field(default_factory=Counter)


def play(
    company: Company,
    *,
    file: Path | None = None,
    leaps: bool = False,
    between: Callable[[datetime], None] | None = None,
) -> Played:
    """Live the company to its end, and until all is issued: in memory, or in a `file`.

    With `leaps`, workers sleep until right before each step. `between` is called with the instant of each step before
    it, while nobody has the file open.
    """
    return _Player(company, file, leaps=leaps, between=between).play()


class _Player:
    def __init__(
        self, company: Company, file: Path | None, *, leaps: bool, between: Callable[[datetime], None] | None
    ) -> None:
        self.company = company
        self.file = file
        self.leaps = leaps
        self.between = between
        self.clock = ManualClock(company.start)
        self.played = Played()
        self.billing = self._open()

    def _open(self) -> Billing:
        database = ReusedMemory() if self.file is None else str(self.file)
        return Billing(database, clock=self.clock, on_message=self._hear, deliver=False)

    def _hear(self, message: dict[str, Any]) -> None:
        kind = message["webhook_type"]
        if kind in _KEPT_MESSAGES:
            about = message[message["object_type"]]
            kept = {"id": about["svc_id"], "total": about.get("total_amount_cents")}
            self.played.log.append({"at": text_of(self.clock.now()), "message": kind, **kept})

    def play(self) -> Played:
        try:
            for step in self.company.steps:
                self._move(instant_of(step["at"]))
                self._take(step)
            self._move(self.company.end)
            for id in sorted({str(one["external_id"]) for one in self._all("subscriptions", status=["active"])}):
                self._take({"call": "subscriptions.terminate", "to": [id]})
            self._move(self.company.end + AFTERWARDS)
            self._collect()
        finally:
            self.billing.close()
        return self.played

    # Time

    def _move(self, instant: datetime) -> None:
        if self.between is not None:
            self.billing.close()
            self.between(instant)
            self.billing = self._open()
        if not self.leaps:
            while (due := self.billing.next_due()) is not None and due <= instant:
                self.clock.set(max(due, self.clock.now()))
                waiting = self.billing.jobs.list_waiting(per_page=_PAGE).items
                self.played.jobs.update(job.kind for job in waiting if job.due_at <= self.clock.now())
                self.billing.run_due(strict=True)
        if instant > self.clock.now():
            self.clock.set(instant)
        self.billing.run_due(strict=True)

    # Steps

    def _take(self, step: Step) -> None:
        entry = {**step, "at": text_of(self.clock.now()), "refused": None}
        # What a step does comes before what it causes.
        self.played.log.append(entry)
        try:
            arguments = self._arguments(step, entry)
            if arguments is None:
                entry["refused"] = "nothing to pick"
                return
            resource, _, operation = str(step["call"]).partition(".")
            positional, named = arguments
            made = getattr(getattr(self.billing, resource), operation)(*positional, **named)
            if resource in ("wallets", "applied_coupons", "payments", "credit_notes"):
                entry["made"] = made.id
        except BillingError as problem:
            entry["refused"] = str(problem)
        self.billing.run_due(immediate=True, strict=True)

    def _arguments(self, step: Step, entry: Step) -> tuple[list[Any], dict[str, Any]] | None:
        """Positional and named arguments; None if there is nothing of what the step picks."""
        picks = {
            "payments.create": self._payment,
            "credit_notes.create": self._credit_note,
            "invoices.void": self._void,
            "applied_coupons.terminate": self._applied_coupon,
            "wallet_transactions.create": self._top_up,
        }
        if step["call"] in picks:
            return picks[step["call"]](step, entry)
        return list(step.get("to", ())), dict(step.get("with", {}))

    def _invoices(self, step: Step, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
        """The `nth` newest of a customer's invoices that are wanted."""
        found = [
            one for one in self._all("invoices", external_customer_id=step["of"], status="finalized") if wanted(one)
        ]
        found.sort(key=lambda one: -int(one["sequential_id"]))
        return found[step["nth"] % len(found)] if found else None

    def _payment(self, step: Step, entry: Step) -> tuple[list[Any], dict[str, Any]] | None:
        invoice = self._invoices(step, lambda one: one["total_due_amount_cents"] > 0)
        if invoice is None:
            return None
        due = invoice["total_due_amount_cents"]
        half = step.get("part") == "half" and invoice["invoice_type"] != "credit"
        cents = (due + 1) // 2 if half else due
        entry["with"] = {"invoice": invoice["svc_id"], "amount_cents": cents}
        reference = f"transfer {len(self.played.log)}"
        return [], {"invoice_id": invoice["svc_id"], "amount_cents": cents, "reference": reference}

    def _credit_note(self, step: Step, entry: Step) -> tuple[list[Any], dict[str, Any]] | None:
        kinds = ("subscription", "progressive_billing", "one_off")
        invoice = self._invoices(step, lambda one: one["invoice_type"] in kinds and one["fees_amount_cents"] > 0)
        if invoice is None:
            return None
        shown = self._view(self.billing.invoices.get(invoice["svc_id"]))
        shares = {"whole": 1, "half": 2, "third": 3, "first": 1}
        fees = [fee for fee in shown["fees"] if fee["amount_cents"] > 0]
        if step["part"] == "first":
            fees = fees[:1]
        items = [
            {"fee_id": fee["svc_id"], "amount_cents": -(-fee["amount_cents"] // shares[step["part"]])} for fee in fees
        ]
        asked: Any = {"invoice_id": invoice["svc_id"], "items": items}
        estimate = self._view(self.billing.credit_notes.estimate(**asked))
        largest = estimate[f"max_{'refundable' if step['kind'] == 'refund' else 'creditable'}_amount_cents"]
        entry["with"] = {**asked, f"{step['kind']}_amount_cents": largest}
        return [], {**entry["with"], "reason": "other"}

    def _void(self, step: Step, entry: Step) -> tuple[list[Any], dict[str, Any]] | None:
        invoice = self._invoices(step, lambda one: one["invoice_type"] == "subscription")
        if invoice is None:
            return None
        entry["with"] = {"invoice": invoice["svc_id"]}
        return [invoice["svc_id"]], {}

    def _applied_coupon(self, step: Step, entry: Step) -> tuple[list[Any], dict[str, Any]] | None:
        held = self._all("applied_coupons", external_customer_id=step["of"], status="active")
        held.sort(key=lambda one: (one["created_at"], one["coupon_code"], one["svc_id"]))
        if not held:
            return None
        chosen = held[step["nth"] % len(held)]["svc_id"]
        entry["with"] = {"applied_coupon": chosen}
        return [step["of"], chosen], {}

    def _top_up(self, step: Step, entry: Step) -> tuple[list[Any], dict[str, Any]] | None:
        wallets = self._all("wallets", external_customer_id=step["of"])
        wallets.sort(key=lambda one: (one["created_at"], one["name"]))
        if not wallets:
            return None
        chosen = wallets[step["nth"] % len(wallets)]["svc_id"]
        entry["with"] = {"wallet_id": chosen, **step["with"]}
        return [], dict(entry["with"])

    # What is shown

    def _view(self, record: object) -> dict[str, Any]:
        shown: dict[str, Any] = self.billing.view(record)
        return shown

    def _all(self, resource: str, **filters: Any) -> list[dict[str, Any]]:
        return [self._view(record) for record in self._records(getattr(self.billing, resource).list, **filters)]

    def _records(self, listing: Callable[..., Any], **filters: Any) -> Iterator[Any]:
        page = 1
        while True:
            items = listing(page=page, per_page=_PAGE, **filters).items
            yield from items
            if len(items) < _PAGE:
                return
            page += 1

    def _collect(self) -> None:
        billing, papers = self.billing, self.played.papers
        listed = self._records(billing.invoices.list)
        papers["invoices"] = [self._view(billing.invoices.get(one.id)) for one in listed]
        papers["subscriptions"] = self._all("subscriptions", status=["active", "terminated", "pending", "canceled"])
        papers["fees"] = self._all("fees")
        papers["credit_notes"] = [
            self._view(billing.credit_notes.get(one.id)) for one in self._records(billing.credit_notes.list)
        ]
        papers["applied_coupons"] = self._all("applied_coupons")
        papers["payments"] = self._all("payments")
        papers["plans"] = self._all("plans")
        papers["wallets"] = [
            wallet
            for customer in self._all("customers")
            for wallet in self._all("wallets", external_customer_id=customer["external_id"])
        ]
        papers["wallet_transactions"] = [
            self._view(move)
            for wallet in papers["wallets"]
            for move in self._records(
                lambda wallet=wallet, **page: billing.wallet_transactions.list_of_wallet(wallet["svc_id"], **page)
            )
        ]
        papers["events"] = self._all("events")
        papers["billed"] = [
            {"transaction_id": event.event.transaction_id, "fee": fee["svc_id"]}
            for fee in papers["fees"]
            if fee["item"]["type"] == "charge"
            for event in self._records(lambda id=fee["svc_id"], **page: billing.fees.events(id, **page))
        ]
        papers["unbilled"] = [self._view(one) for one in self._records(billing.events.unbilled)]
        self.played.findings = [str(finding) for finding in billing.audit().findings]
