"""Each document in the order of issue: coupons, taxes, credit notes, prepaid credits, total; and what is left of each.

The amounts of fees are taken as shown (`fees` checks them), so that one difference is told once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from usagebill.simulation.oracle.days import DAY, local_day, parsed, period_of
from usagebill.simulation.oracle.fees import names_of, subunit
from usagebill.simulation.oracle.prices import ZERO, rounded, rounded_to
from usagebill.simulation.oracle.story import Log, Segment, Story
from usagebill.simulation.oracle.verdicts import Verdict

Paper = Mapping[str, Any]


@dataclass(slots=True)
class _Coupon:
    id: str
    customer: str
    terms: Paper
    left: Fraction
    times: int
    active: bool = True
    removed: bool = False

    @property
    def targets(self) -> Mapping[str, Sequence[str]]:
        targets: Mapping[str, Sequence[str]] = self.terms.get("applies_to") or {}
        return targets

    @property
    def rank(self) -> int:
        return 0 if self.targets.get("billable_metric_codes") else 1 if self.targets.get("plan_codes") else 2


@dataclass(slots=True)
class _Wallet:
    id: str
    terms: Paper
    balance: int

    def pays(self, kind: str, metric: str) -> bool:
        limits = self.terms.get("applies_to") or {}
        kinds, metrics = limits.get("fee_types") or (), limits.get("billable_metric_codes") or ()
        return (not kinds and not metrics) or kind in kinds or (kind == "charge" and metric in metrics)


@dataclass(slots=True)
class _Fee:
    """A fee of an invoice, with its share of coupons, its rate of taxes, and its share of credit notes."""

    shown: Paper
    amount: int
    coupons: Fraction = ZERO
    taxes: Sequence[str] = ()
    rate: Fraction = ZERO
    notes: Fraction = ZERO

    @property
    def net(self) -> Fraction:
        return self.amount - self.coupons


@dataclass(slots=True)
class _State:
    rates: dict[str, Fraction] = field(default_factory=dict)
    for_all: list[str] = field(default_factory=list)
    coupon_terms: dict[str, Paper] = field(default_factory=dict)
    coupons: list[_Coupon] = field(default_factory=list)
    wallets: dict[str, list[_Wallet]] = field(default_factory=lambda: defaultdict(list))
    # The balances of notes by id, in the order in which they came.
    notes: dict[str, int] = field(default_factory=dict)
    top_ups: list[tuple[_Wallet, int]] = field(default_factory=list)
    bought: dict[str, tuple[_Wallet, int]] = field(default_factory=dict)
    paid: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    # What each invoice took of coupons, wallets and notes, for a void.
    took: dict[str, list[tuple[_Coupon, int]]] = field(default_factory=lambda: defaultdict(list))
    drew: dict[str, list[tuple[_Wallet, int]]] = field(default_factory=lambda: defaultdict(list))
    spent: dict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    fees: dict[str, _Fee] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)


def check_documents(story: Story, log: Log, papers: Mapping[str, Any], verdict: Verdict) -> None:
    """Compare every invoice, note, wallet and coupon with what the log makes of them."""
    _Books(story, log, papers, verdict).check()


class _Books:
    def __init__(self, story: Story, log: Log, papers: Mapping[str, Any], verdict: Verdict) -> None:
        self.story = story
        self.log = log
        self.verdict = verdict
        self.state = _State()
        self.invoices = {one["svc_id"]: one for one in papers["invoices"]}
        self.notes = {one["svc_id"]: one for one in papers["credit_notes"]}
        self.papers = papers
        self.charges = {
            charge["svc_id"]: (plan["code"], charge["code"])
            for plan in papers["plans"]
            for charge in plan.get("charges", ())
        }
        self.plan_of = {one["svc_id"]: one["plan_code"] for one in papers["subscriptions"]}
        self.by_hand: set[str] = set()

    def check(self) -> None:
        for place, entry in enumerate(self.log):
            if "message" in entry:
                self._hear(place, entry)
            elif entry["refused"] is None:
                self._call(entry)
        self._unused_time()
        self._balances()

    # Calls

    def _call(self, entry: Paper) -> None:
        state, call, body = self.state, entry["call"], entry.get("with", {})
        if call == "taxes.create":
            state.rates[body["code"]] = Fraction(str(body["rate"]))
            if body.get("applied_to_organization"):
                state.for_all.append(body["code"])
        elif call == "taxes.update":
            state.rates[entry["to"][0]] = Fraction(str(body["rate"]))
        elif call == "coupons.create":
            state.coupon_terms[body["code"]] = body
        elif call == "applied_coupons.apply":
            terms = state.coupon_terms[body["coupon_code"]]
            left, times = Fraction(terms.get("amount_cents") or 0), int(terms.get("frequency_duration") or 0)
            state.coupons.append(_Coupon(entry["made"], body["external_customer_id"], terms, left, times))
        elif call == "applied_coupons.terminate":
            for coupon in state.coupons:
                if coupon.id == body["applied_coupon"]:
                    coupon.active, coupon.removed = False, True
        elif call == "wallets.create":
            wallet = _Wallet(entry["made"], body, 0)
            wallet.balance = _cents(wallet, body["granted_credits"])
            state.wallets[body["external_customer_id"]].append(wallet)
        elif call == "wallet_transactions.create":
            self._top_up(body)
        elif call == "payments.create":
            self._pay(body)
        elif call == "invoices.void":
            self._void(body["invoice"])
        elif call == "credit_notes.create":
            self.by_hand.add(entry["made"])
            self._note_by_hand(entry)
        elif call == "customers.delete":
            state.gone.add(entry["to"][0])

    def _top_up(self, body: Paper) -> None:
        every = (wallet for wallets in self.state.wallets.values() for wallet in wallets)
        wallet = next(one for one in every if one.id == body["wallet_id"])
        if "granted_credits" in body:
            wallet.balance += _cents(wallet, body["granted_credits"])
        else:
            self.state.top_ups.append((wallet, _cents(wallet, body["paid_credits"])))

    def _pay(self, body: Paper) -> None:
        id = body["invoice"]
        self.state.paid[id] += body["amount_cents"]
        if id in self.state.bought:
            wallet, cents = self.state.bought.pop(id)
            wallet.balance += cents

    def _void(self, id: str) -> None:
        for coupon, cents in self.state.took.pop(id, ()):
            if coupon.terms["frequency"] == "once" and coupon.terms["coupon_type"] == "fixed_amount":
                coupon.left += cents
            if coupon.terms["frequency"] == "recurring":
                coupon.times += 1
            if coupon.terms["frequency"] != "forever":
                coupon.active = True
        for wallet, cents in self.state.drew.pop(id, ()):
            wallet.balance += cents
        # What paid it goes back; what it gave is withdrawn, but for what was paid of it.
        for note, cents in self.state.spent.pop(id, ()):
            self.state.notes[note] += cents
        for note, shown in self.notes.items():
            if shown["svc_invoice_id"] == id and note in self.state.notes:
                kept = min(self.state.notes[note], self.state.paid[id])
                self.state.notes[note] = kept

    # Invoices

    def _hear(self, place: int, entry: Paper) -> None:
        if entry["message"] == "credit_note.created":
            self._keep_note(entry["id"])
        else:
            # What is given back for unused time comes before the invoice of the same change.
            for later in self.log[place + 1 :]:
                if "message" not in later or later["at"] != entry["at"]:
                    break
                if (
                    later["message"] == "credit_note.created"
                    and self.notes[later["id"]]["reason"] == "order_cancellation"
                ):
                    self._keep_note(later["id"])
            self._invoice(self.invoices[entry["id"]])

    def _keep_note(self, id: str) -> None:
        self.state.notes.setdefault(id, self.notes[id]["credit_amount_cents"])

    def _invoice(self, invoice: Paper) -> None:
        customer, kind = invoice["customer"]["external_id"], invoice["invoice_type"]
        name = f"{customer} {invoice['sequential_id']} of {invoice['issuing_date']} ({kind})"
        if customer in self.state.gone:
            self.verdict.leave("invoice", "issued when its customer was deleted")
            return
        if kind == "credit":
            wallet, cents = self.state.top_ups.pop(0)
            self.state.bought[invoice["svc_id"]] = wallet, cents
            self.verdict.compare("total", name, cents, invoice["total_amount_cents"])
            return
        fees = [_Fee(fee, fee["amount_cents"]) for fee in invoice["fees"]]
        gross = sum(fee.amount for fee in fees)
        self.verdict.compare("fees", name, gross, invoice["fees_amount_cents"])
        ahead = invoice["progressive_billing_credit_amount_cents"]
        for fee in fees:
            self.state.fees[fee.shown["svc_id"]] = fee
            fee.taxes = self._taxes_of(customer, fee.shown)
            fee.rate = sum((self.state.rates[code] for code in fee.taxes), ZERO)
        if ahead:
            self._adopt(invoice, fees, customer)
            self.verdict.leave("coupons", "deducts what a threshold billed")
            self.verdict.leave("taxes", "deducts what a threshold billed")
            coupons, taxes = invoice["coupons_amount_cents"], invoice["taxes_amount_cents"]
        else:
            coupons = self._coupons(invoice, fees, customer, gross) if kind != "one_off" else 0
            self.verdict.compare("coupons", name, coupons, invoice["coupons_amount_cents"])
            taxes = self._taxes(invoice, fees, name)
        left = gross - ahead - coupons + taxes
        self.verdict.compare("with taxes", name, left, invoice["sub_total_including_taxes_amount_cents"])
        if self._gives_back_a_surplus(invoice):
            self.verdict.leave("notes", "gives a surplus of thresholds back")
            credited = invoice["credit_notes_amount_cents"]
        else:
            credited = self._credit(invoice, fees, customer, left) if kind != "one_off" else 0
        self.verdict.compare("notes", name, credited, invoice["credit_notes_amount_cents"])
        left -= credited
        prepaid = self._prepaid(invoice, fees, customer, left) if kind != "one_off" else 0
        if ahead and any(wallet.terms.get("applies_to") for wallet in self.state.wallets[customer]):
            self.verdict.leave("prepaid", "deducts what a threshold billed")
            prepaid = invoice["prepaid_credit_amount_cents"]
        self.verdict.compare("prepaid", name, prepaid, invoice["prepaid_credit_amount_cents"])
        self.verdict.compare("total", name, left - prepaid, invoice["total_amount_cents"])

    def _gives_back_a_surplus(self, invoice: Paper) -> bool:
        """Whether usage fell below what thresholds had billed: a note on one of their invoices came with this one."""
        return any(
            note["created_at"] == invoice["created_at"]
            and self.invoices[note["svc_invoice_id"]]["invoice_type"] == "progressive_billing"
            for note in self.notes.values()
            if note["customer"]["external_id"] == invoice["customer"]["external_id"]
        )

    def _adopt(self, invoice: Paper, fees: list[_Fee], customer: str) -> None:
        """Take the coupons as shown."""
        for fee in fees:
            fee.coupons = Fraction(fee.shown["precise_coupons_amount_cents"])
        for line in invoice["credits"]:
            if line["item"]["type"] == "coupon":
                coupon = next(
                    one
                    for one in sorted(self.state.coupons, key=lambda one: not one.active)
                    if one.customer == customer and one.terms["code"] == line["item"]["code"]
                )
                self._consume(invoice, coupon, line["amount_cents"])

    def _coupons(self, invoice: Paper, fees: list[_Fee], customer: str, gross: int) -> int:
        left, total = gross, 0
        held = [coupon for coupon in self.state.coupons if coupon.customer == customer and coupon.active]
        for coupon in sorted(held, key=lambda one: one.rank):
            if left <= 0:
                break
            fixed = coupon.terms["coupon_type"] == "fixed_amount"
            if fixed and coupon.terms["amount_currency"] != invoice["currency"]:
                continue
            matching = [fee for fee in fees if self._is_for(coupon, fee.shown)]
            if not matching:
                continue
            base = Fraction(left) if coupon.rank == 2 else sum((fee.net for fee in matching), ZERO)
            if fixed:
                is_once = coupon.terms["frequency"] == "once"
                credit = min(coupon.left if is_once else Fraction(coupon.terms["amount_cents"]), base)
            else:
                credit = min(base, Fraction(rounded(base * Fraction(coupon.terms["percentage_rate"]) / 100)))
            cents = int(credit)
            for fee in matching if base else ():
                fee.coupons = min(rounded_to(fee.coupons + cents * fee.net / base, 5), Fraction(fee.amount))
            self._consume(invoice, coupon, cents)
            left, total = left - cents, total + cents
        return total

    def _consume(self, invoice: Paper, coupon: _Coupon, cents: int) -> None:
        terms = coupon.terms
        self.state.took[invoice["svc_id"]].append((coupon, cents))
        if terms["frequency"] == "once":
            if terms["coupon_type"] == "percentage" or cents >= coupon.left:
                coupon.active = False
            coupon.left -= cents
        elif terms["frequency"] == "recurring":
            coupon.times -= 1
            coupon.active = coupon.active and coupon.times > 0

    def _is_for(self, coupon: _Coupon, fee: Paper) -> bool:
        metrics, plans = coupon.targets.get("billable_metric_codes"), coupon.targets.get("plan_codes")
        if metrics:
            return fee["item"]["type"] == "charge" and fee["item"]["code"] in metrics
        return not plans or self.plan_of.get(fee["svc_subscription_id"]) in plans

    def _taxes_of(self, customer: str, fee: Paper) -> Sequence[str]:
        """Of the charge, else of the plan, else of the customer, else for all."""
        plan = self.story.plans.get(self.plan_of.get(fee["svc_subscription_id"], ""))
        own: Sequence[str] = ()
        if plan and fee["item"]["type"] == "charge":
            code = self.charges[fee["svc_charge_id"]][1]
            own = next(one for one in plan[0][1]["charges"] if one["code"] == code).get("tax_codes", ())
        of_plan = plan[0][1].get("tax_codes", ()) if plan else ()
        return own or of_plan or self.story.customers[customer].taxes or self.state.for_all

    def _taxes(self, invoice: Paper, fees: list[_Fee], name: str) -> int:
        by_tax: dict[str, Fraction] = defaultdict(Fraction)
        for fee in fees:
            for code in fee.taxes:
                by_tax[code] += fee.net * self.state.rates[code] / 100
            self.verdict.compare(
                "fee taxes", f"{name} {fee.shown['item']['code']}", rounded(fee.net * fee.rate / 100),
                fee.shown["taxes_amount_cents"],
            )  # fmt: skip
        shown = {line["tax_code"]: line["amount_cents"] for line in invoice["applied_taxes"]}
        taxes = rounded(sum(by_tax.values(), ZERO))
        self.verdict.compare("tax lines", name, [], _wrong_lines(by_tax, shown, taxes))
        self.verdict.compare("taxes", name, taxes, invoice["taxes_amount_cents"])
        return taxes

    def _credit(self, invoice: Paper, fees: list[_Fee], customer: str, total: int) -> int:
        left = total
        for id, balance in self.state.notes.items():
            note = self.notes[id]
            if note["customer"]["external_id"] != customer or note["currency"] != invoice["currency"]:
                continue
            if note["svc_invoice_id"] == invoice["svc_id"]:
                continue
            amount = min(balance, left)
            if amount <= 0:
                continue
            for fee in fees:
                after = fee.net + fee.shown["taxes_amount_cents"]
                fee.notes = min(rounded_to(fee.notes + amount * (after - fee.notes) / left, 5), after)
            self.state.notes[id] -= amount
            self.state.spent[invoice["svc_id"]].append((id, amount))
            left -= amount
        return total - left

    def _prepaid(self, invoice: Paper, fees: list[_Fee], customer: str, total: int) -> int:
        wallets = [one for one in self.state.wallets[customer] if one.terms["currency"] == invoice["currency"]]
        if total <= 0 or not any(wallet.balance > 0 for wallet in wallets):
            return 0
        unit = subunit(invoice["currency"])
        caps: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
        for fee in fees:
            precise = Fraction(fee.shown["precise_amount"]) * unit - fee.coupons
            cap = fee.net + precise * fee.rate / 100 - fee.notes
            if fee.net and cap > 0:
                kind = fee.shown["item"]["type"]
                caps[kind, fee.shown["item"]["code"] if kind == "charge" else ""] += cap
        ordered = sorted(caps.items(), key=lambda one: -one[1])
        rest = dict(ordered)
        gap = total - sum(rest.values(), ZERO)
        if rest and 0 < gap <= len(rest):
            rest[ordered[0][0]] += gap
        left, prepaid = Fraction(total), 0
        for wallet in sorted(wallets, key=lambda one: one.terms.get("priority", 50)):
            taken = ZERO
            for bucket in rest:
                if wallet.pays(*bucket):
                    take = max(min(rest[bucket], wallet.balance - taken, left), ZERO)
                    rest[bucket] -= take
                    taken, left = taken + take, left - take
            cents = rounded(taken)
            if cents:
                wallet.balance -= cents
                self.state.drew[invoice["svc_id"]].append((wallet, cents))
                prepaid += cents
        return prepaid

    # Credit notes

    def _note_by_hand(self, entry: Paper) -> None:
        note = self.notes[entry["made"]]
        items = {item["fee_id"]: Fraction(item["amount_cents"]) for item in entry["with"]["items"]}
        name = f"note {note['sequential_id']} on {note['invoice_number'][-7:]}"
        if note["svc_invoice_id"] not in {fee.shown["svc_invoice_id"] for fee in self.state.fees.values()}:
            self.verdict.leave("note", "on an invoice that was not recomputed")
            return
        earlier = [
            one for one in self.notes.values() if one["svc_invoice_id"] == note["svc_invoice_id"] and one is not note
        ]
        if earlier:
            self.verdict.leave("note", "the second on its invoice")
            return
        self._compare_note(note, items, name)

    def _compare_note(self, note: Paper, items: Mapping[str, Fraction], name: str) -> None:
        coupons, taxes, amount = ZERO, ZERO, ZERO
        for id, cents in items.items():
            fee = self.state.fees[id]
            share = fee.coupons * cents / fee.amount if fee.amount else ZERO
            coupons += share
            taxes += (cents - share) * fee.rate / 100
            amount += cents
        net, tax = rounded(amount - coupons), rounded(rounded_to(taxes, 5))
        self.verdict.compare("note", f"{name}: net", net, note["sub_total_excluding_taxes_amount_cents"])
        self.verdict.compare("note", f"{name}: taxes", tax, note["taxes_amount_cents"])
        self.verdict.compare("note", f"{name}: total", net + tax, note["total_amount_cents"])

    def _unused_time(self) -> None:
        """What is given back of a plan in advance, at its end or at an upgrade."""
        given = {
            item["fee"]["svc_id"]: note
            for note in self.notes.values()
            if note["reason"] == "order_cancellation"
            for item in note["items"]
        }
        of_segment: dict[str, list[Paper]] = defaultdict(list)
        for fee in self.papers["fees"]:
            if fee["item"]["type"] == "subscription" and fee["svc_invoice_id"] in self.invoices:
                of_segment[fee["svc_subscription_id"]].append(fee)
        for id, segment in self._ended().items():
            fees = of_segment.get(id, [])
            if fees:
                self._given_back(segment, max(fees, key=lambda fee: str(fee["from_date"])), given)

    def _ended(self) -> dict[str, Segment]:
        return {
            id: segment
            for id, segment in names_of(self.story, self.papers["subscriptions"]).items()
            if segment.ending in ("end", "upgrade") and self.story.plans[segment.plan][0][1]["pay_in_advance"]
        }

    def _given_back(self, segment: Segment, shown: Paper, given: Mapping[str, Paper]) -> None:
        plan, customer = self.story.plans[segment.plan][0][1], self.story.customers[segment.customer]
        note, fee = given.get(shown["svc_id"]), self.state.fees.get(shown["svc_id"])
        assert segment.end is not None
        assert segment.last is not None
        for odd, reason in (
            (customer.grace, "for unused time, where invoices are drafts first"),
            (plan.get("trial_period"), "for unused time of a plan with a trial"),
            (fee is None, "on an invoice that was not recomputed"),
            (self.invoices[shown["svc_invoice_id"]]["status"] == "voided", "on a voided invoice"),
            (segment.odd, segment.odd),
        ):
            if odd:
                self.verdict.leave("note", reason)
                return
        assert fee is not None
        if any(
            item["fee"]["svc_id"] == shown["svc_id"]
            for other in self.notes.values()
            if other is not note
            for item in other["items"]
        ):
            self.verdict.leave("note", "for unused time of a fee that is credited by hand too")
            return
        day = local_day(parsed(shown["from_date"]), customer.zone)
        start, following = period_of(plan["interval"], segment.anchor, day)
        unused = max((following - segment.last - DAY).days, 0)
        unused = 0 if segment.last + DAY < start else unused
        cents = min(Fraction(plan["amount_cents"] * unused, (following - start).days), Fraction(fee.amount))
        cents = Fraction(int(cents * 100_000), 100_000)
        name = f"note for unused time of {segment.name}"
        share = fee.coupons * cents / fee.amount if fee.amount else ZERO
        due = rounded(cents - share + (cents - share) * fee.rate / 100)
        if note is None:
            self.verdict.compare("note", name, due, 0)
        else:
            self._compare_note(note, {shown["svc_id"]: cents}, name)

    # What is left

    def _balances(self) -> None:
        state, compare = self.state, self.verdict.compare
        shown = {wallet["svc_id"]: wallet for wallet in self.papers["wallets"]}
        for customer, wallets in state.wallets.items():
            for wallet in wallets if customer not in state.gone else ():
                compare(
                    "wallet", f"{customer} {wallet.terms['name']}", wallet.balance, shown[wallet.id]["balance_cents"]
                )
        for id, balance in state.notes.items():
            note = self.notes[id]
            compare("balance", f"note {note['number']}", balance, note["balance_amount_cents"])
        for invoice in self.invoices.values():
            if invoice["status"] != "finalized" or invoice["customer"]["external_id"] in state.gone:
                continue
            offset = sum(
                note["offset_amount_cents"]
                for note in self.notes.values()
                if note["svc_invoice_id"] == invoice["svc_id"]
            )
            due = invoice["total_amount_cents"] - state.paid[invoice["svc_id"]] - offset
            compare("due", str(invoice["number"]), due, invoice["total_due_amount_cents"])
        held = {coupon["svc_id"]: coupon for coupon in self.papers["applied_coupons"]}
        for coupon in state.coupons:
            if coupon.id in held and coupon.customer not in state.gone:
                status = "active" if coupon.active else "terminated"
                compare("coupon", f"{coupon.customer} {coupon.terms['code']}", status, held[coupon.id]["status"])


def _wrong_lines(by_tax: Mapping[str, Fraction], shown: Mapping[str, int], taxes: int) -> list[str]:
    """The lines of tax that are not what they should be: to the cent, and a cent off where they would not add up."""
    gap = taxes - sum(rounded(cents) for cents in by_tax.values())
    wrong = []
    for code in sorted({*by_tax, *shown}):
        exact, line = by_tax.get(code, ZERO), shown.get(code, 0)
        off = line - rounded(exact)
        if off and (abs(off) > 1 or off * gap <= 0 or abs(line - exact) >= 1):
            wrong.append(f"{code} {line} for {float(exact):.3f}")
    if sum(shown.values()) != taxes:
        wrong.append(f"lines of {sum(shown.values())} for taxes of {taxes}")
    return wrong


def _cents(wallet: _Wallet, credits: str) -> int:
    unit = subunit(wallet.terms["currency"])
    floored = Fraction(int(Fraction(credits) * 100_000), 100_000)
    return rounded(floored * Fraction(wallet.terms["rate_amount"]) * unit)
