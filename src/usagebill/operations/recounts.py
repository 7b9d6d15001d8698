"""Recounting issued lines: what events, plan and days come to once more, as they were known when the line was made.

Lines are counted and priced by the rules that bill them, so that what is found is a record that was changed, lost or
made otherwise than these rules say. An invoice's usage is what had been received when it was finalized.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from usagebill.core.add_ons import AddOn
from usagebill.core.aggregation import lower_bound
from usagebill.core.audit import WHOLE_REASONS, Finding
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_ledger import LedgerEntry, SavedLevel
from usagebill.core.events import Event
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.plans import Charge, FixedCharge, FixedChargeUnits, Plan, PlanDefinition
from usagebill.core.recounts import (
    AGAIN_BY_HAND,
    CHANGED,
    INVOICES_CHANGED,
    LEVEL_CHANGED,
    MOVED,
    SAME_INSTANT,
    UNKNOWN_PERIOD,
    WHILE_MADE,
    Left,
    differences,
    judged,
    kind_of,
    line_key,
    own_copies,
)
from usagebill.core.subscriptions import Subscription
from usagebill.operations.invoices.adjustments import of_draft, with_adjustments
from usagebill.operations.invoices.billed import IN_ADVANCE, Billed, billed_of, boundaries_of
from usagebill.operations.invoices.fees.commitments import commitment_fee
from usagebill.operations.invoices.fees.fixed_charges import added_units_fee, fixed_charge_fees
from usagebill.operations.invoices.fees.renewals import renewal_fees, renewals_of
from usagebill.operations.invoices.fees.subscription import subscription_fee
from usagebill.operations.invoices.fees.usage import usage_fees
from usagebill.operations.progressive_billing import PROGRESSIVE
from usagebill.operations.usage import fees as usage
from usagebill.operations.usage.advance import EventBilling, advance_fee, event_billing
from usagebill.operations.usage.charges import usage_window
from usagebill.operations.usage.event_prices import event_price
from usagebill.storage.conditions import asc, at_least, at_most, eq, less, missing, ne, within
from usagebill.storage.questions import EventQuestion
from usagebill.views.subscriptions import successor_of
from usagebill.work import Work

__all__ = ["Recounts", "recounted", "recounted_without_invoice"]

_INSTANT = timedelta(microseconds=1)
# Of so many instants at which something came in, each is tried as the one of a count whose instant is not kept.
_MOST_INSTANTS = 100


@dataclass(slots=True)
class Recounts:
    """How many lines of each kind were recounted, and how many were left for each reason."""

    done: dict[str, int] = field(default_factory=dict)
    _left: dict[tuple[str, str], int] = field(default_factory=dict)

    def count(self, fee: Fee) -> None:
        kind = kind_of(fee)
        if kind is not None:
            self.done[kind] = self.done.get(kind, 0) + 1

    def leave(self, fee: Fee, reason: str) -> None:
        kind = kind_of(fee)
        if kind is not None:
            self._left[kind, reason] = self._left.get((kind, reason), 0) + 1

    @property
    def left(self) -> tuple[Left, ...]:
        """What could not be recounted, by kind and reason."""
        return tuple(Left(kind=kind, reason=reason, count=count) for (kind, reason), count in self._left.items())


def recounted(
    work: Work, invoice: Invoice, fees: Sequence[Fee], periods: Sequence[BillingPeriod], notes: Recounts
) -> Iterator[Finding]:
    """Recount the lines of an issued invoice that bill its `periods`; how many these are is noted in `notes`."""
    if invoice.voided_invoice_id is not None:
        for fee in fees:
            notes.leave(fee, AGAIN_BY_HAND)
        return
    for fee in fees:
        yield from own_copies(invoice.number, invoice.id, fee)
    if invoice.invoice_type == "advance_charges":
        for fee in fees:
            yield from _without_invoice(work, fee, invoice.number, notes)
        return
    seen: set[str] = set()
    for period in periods:
        own = [fee for fee in fees if fee.subscription_id == period.subscription_id]
        if sum(other.subscription_id == period.subscription_id for other in periods) > 1:
            if period.subscription_id not in seen:
                for fee in own:
                    notes.leave(fee, UNKNOWN_PERIOD)
            seen.add(period.subscription_id)
            continue
        if period.invoicing_reason in WHOLE_REASONS:
            counted_at = invoice.finalized_at or invoice.created_at
            yield from _Whole(work, invoice, period, own, notes, counted_at).findings()
        elif period.invoicing_reason == PROGRESSIVE:
            yield from _Progressive(work, invoice, period, own, notes, invoice.created_at).findings()
        elif period.invoicing_reason == IN_ADVANCE:
            yield from _in_advance(work, invoice, period, own, notes)


def recounted_without_invoice(work: Work, customer_id: str, notes: Recounts) -> Iterator[Finding]:
    """Recount the fees of a customer that no invoice holds."""
    for fee in work.tx.each(Fee, eq("customer_id", customer_id), missing("invoice_id"), order=[asc("id")]):
        yield from _without_invoice(work, fee, "(none)", notes)


# What was known then


def _definition_then(work: Work, plan_id: str, at: datetime) -> PlanDefinition:
    """What the plan charged for at `at`, as far as charges have come and gone; each is as it is now."""

    def load() -> PlanDefinition:
        plan = work.tx.get(Plan, plan_id, deleted=True)
        if plan is None:
            raise LookupError(f"no plan {plan_id}")
        order = [asc("created_at"), asc("id")]
        charges = tuple(work.tx.find(Charge, eq("plan_id", plan_id), order=order, deleted=True))
        fixed = tuple(work.tx.find(FixedCharge, eq("plan_id", plan_id), order=order, deleted=True))
        metric_ids, add_on_ids = {one.billable_metric_id for one in charges}, {one.add_on_id for one in fixed}
        metrics = work.tx.find(BillableMetric, within("id", metric_ids), deleted=True)
        add_ons = work.tx.find(AddOn, within("id", add_on_ids), deleted=True)
        return PlanDefinition(
            plan=plan,
            charges=charges,
            fixed_charges=fixed,
            metrics={metric.id: metric for metric in metrics},
            add_ons={add_on.id: add_on for add_on in add_ons},
        )

    whole = work.remember(("plan definition with what is gone", plan_id), load)

    def was_there(one: Charge | FixedCharge) -> bool:
        return one.created_at <= at and (one.deleted_at is None or one.deleted_at > at)

    return replace(
        whole,
        charges=tuple(charge for charge in whole.charges if was_there(charge)),
        fixed_charges=tuple(charge for charge in whole.fixed_charges if was_there(charge)),
    )


def _touched(one: Charge | FixedCharge | BillableMetric | Plan, at: datetime) -> bool:
    """Whether it may have been something else at `at`."""
    return one.updated_at >= at or one.created_at >= at


def _plan_then(work: Work, period: BillingPeriod, subscription: Subscription, invoice: Invoice, at: datetime) -> str:
    """The plan that was billed. One that the subscription got for itself later is that of drafts made anew only."""
    if subscription.plan_id == period.plan_id or invoice.created_at == at:
        return period.plan_id
    own = work.tx.get(Plan, subscription.plan_id, deleted=True)
    return period.plan_id if own is None or own.created_at > at else own.id


def _billed_then(work: Work, invoice: Invoice, period: BillingPeriod, at: datetime) -> Billed:
    """The billing period with the plan that it was billed by."""
    billed = billed_of(work, invoice, period)
    plan_id = _plan_then(work, period, billed.subscription, invoice, at)
    return replace(billed, definition=_definition_then(work, plan_id, at))


# Invoices of whole periods, and of usage so far


class _Lines:
    """The lines of one billing period of an invoice, counted at `at`."""

    def __init__(
        self, work: Work, invoice: Invoice, period: BillingPeriod, fees: Sequence[Fee], notes: Recounts, at: datetime
    ) -> None:
        self.work = work
        self.invoice = invoice
        self.period = period
        self.fees = fees
        self.notes = notes
        self.at = at
        self.billed = _billed_then(work, invoice, period, at)

    def findings(self) -> Iterator[Finding]:
        """Recount all lines."""
        yield from self.usage_findings()

    def usage_findings(self) -> Iterator[Finding]:
        """Recount the usage, charge by charge."""
        found = [fee for fee in self.fees if fee.fee_type == "charge" and fee.event_transaction_id is None]
        charges = self.billed.definition.charges
        for charge in charges:
            yield from self._charge(charge, [fee for fee in found if fee.charge_id == charge.id])
        known = {charge.id for charge in charges}
        yield from self.judge((), [fee for fee in found if fee.charge_id not in known], lambda _: CHANGED)

    def expected_usage(self, charge: Charge, at: datetime) -> list[Fee]:
        """The lines of a charge with what had been received at `at`."""
        raise LookupError(f"billing period {self.period.id} bills no usage")

    def other_instants(self, charge: Charge) -> tuple[list[datetime], bool]:
        """When else the count may have been, and whether these are all such instants."""
        return [], True

    def judge(
        self, expected: Iterable[Fee], found: Sequence[Fee], doubt: Callable[[Fee], str | None]
    ) -> Iterator[Finding]:
        """Note what was recounted. What differs is a finding, unless there is a reason to `doubt` it."""
        for fee, is_there, findings in judged(self.invoice.number, self.invoice.id, expected, found):
            reason = doubt(fee) if findings else None
            if reason is not None:
                self.notes.leave(fee, reason)
                continue
            if is_there:
                self.notes.count(fee)
            yield from findings

    def agrees(self, expected: Iterable[Fee], found: Sequence[Fee]) -> bool:
        """Whether a recount gives what was found."""
        lines = judged(self.invoice.number, self.invoice.id, expected, found)
        return not any(findings for _, _, findings in lines)

    def adjusted(self, definition: PlanDefinition, fees: list[Fee]) -> list[Fee]:
        """The lines as they were adjusted by hand on the draft that the invoice was."""
        for one in of_draft(self.work, self.invoice):
            charge = next((charge for charge in definition.charges if charge.id == one.charge_id), None)
            if charge is not None and one.charge_filter_id not in (None, *(each.id for each in charge.filters)):
                # Its filter is gone, and with it the price.
                return fees
        draft = replace(self.billed, invoice=replace(self.invoice, status="draft"), definition=definition)
        return with_adjustments(self.work.at(self.at), draft, fees)

    def arrivals(self, charge: Charge, last: datetime | None = None) -> tuple[list[datetime], bool]:
        """When events of the charge came in after the invoice was begun, not after `last`, and whether that is all."""
        metric = self.billed.definition.metrics[charge.billable_metric_id]
        found = {
            event.created_at
            for event in self.work.tx.events.scan(_question(metric, self.period))
            if event.created_at > self.invoice.created_at and (last is None or event.created_at <= last)
        }
        return sorted(found)[:_MOST_INSTANTS], len(found) <= _MOST_INSTANTS

    def _charge(self, charge: Charge, found: list[Fee]) -> Iterator[Finding]:
        expected = self.expected_usage(charge, self.at)
        complete = True
        if not self.agrees(expected, found):
            instants, complete = self.other_instants(charge)
            others = (self.expected_usage(charge, at) for at in instants)
            expected = next((other for other in others if self.agrees(other, found)), expected)
        reasons: dict[str, str | None] = {}

        def doubt(_: Fee) -> str | None:
            if "" not in reasons:
                reasons[""] = self._doubt(charge, complete=complete)
            return reasons[""]

        yield from self.judge(expected, found, doubt)

    def _doubt(self, charge: Charge, *, complete: bool) -> str | None:
        """Why the lines of a charge may differ without being wrong; None where they may not."""
        billed, at = self.billed, self.at
        metric = billed.definition.metrics[charge.billable_metric_id]
        if _touched(charge, at) or _touched(metric, at) or billed.subscription.plan_id != self.period.plan_id:
            return CHANGED
        if billed.ended and metric.recurring and self._next_plan_is_another():
            return CHANGED
        if metric.aggregation_type == "weighted_sum_agg" and self._is_level_another(charge):
            return LEVEL_CHANGED
        if (charge.prorated or metric.aggregation_type == "weighted_sum_agg") and _has_moved(self.work, self.period):
            return MOVED
        if _is_followed_since(self.work, billed.subscription, at):
            return INVOICES_CHANGED
        if not complete:
            return WHILE_MADE
        if not self.agrees(self.expected_usage(charge, at - _INSTANT), self.expected_usage(charge, at)):
            return SAME_INSTANT
        return None

    def _next_plan_is_another(self) -> bool:
        """Whether the plan after an upgrade may have been another when it was asked what it goes on to bill."""
        following = successor_of(self.work, self.billed.subscription)
        if following is None:
            return False
        charges = self.work.tx.find(Charge, eq("plan_id", following.plan_id), deleted=True)
        return any(_touched(charge, self.at) for charge in charges)

    def _is_level_another(self, charge: Charge) -> bool:
        """Whether an earlier period was counted anew after this one was."""
        start = self.period.charges_from_datetime
        return start is not None and (
            self.work.tx.first(
                SavedLevel,
                eq("subscription_id", self.period.subscription_id),
                within("charge_id", [charge.id, *([charge.parent_id] if charge.parent_id else [])]),
                less("period_end", start),
                at_least("created_at", self.at),
            )
            is not None
        )


class _Whole(_Lines):
    """The lines of a whole period: usage, renewals, the plan's amount, fixed charges and the minimum commitment."""

    def findings(self) -> Iterator[Finding]:
        yield from self._subscription()
        yield from self.usage_findings()
        yield from self._fixed_charges()
        yield from self._commitment()

    def expected_usage(self, charge: Charge, at: datetime) -> list[Fee]:
        definition = replace(self.billed.definition, charges=(charge,), fixed_charges=())
        billed, then = replace(self.billed, definition=definition), self.work.at(at)
        fees = usage_fees(then, billed, remembered=False) + renewal_fees(then, billed)
        return self.adjusted(definition, fees)

    def other_instants(self, charge: Charge) -> tuple[list[datetime], bool]:
        # One that waited for its taxes had been counted before.
        if self.invoice.tax_status is None:
            return [], True
        arrivals, complete = self.arrivals(charge, self.at)
        return [self.invoice.created_at, *arrivals], complete

    def _of(self, fee_type: str) -> list[Fee]:
        return [fee for fee in self.fees if fee.fee_type == fee_type]

    def _subscription(self) -> Iterator[Finding]:
        found, definition = self._of("subscription"), self.billed.definition
        plan = definition.plan
        kept = found[0].amount_details.get("plan_amount_cents") if found else None
        if kept is not None and _touched(plan, self.at):
            plan = replace(plan, amount_cents=int(str(kept)))
        definition = replace(definition, plan=plan)
        fee = subscription_fee(self.work.at(self.at), replace(self.billed, definition=definition))
        bare = replace(definition, charges=(), fixed_charges=())
        expected = [] if fee is None else self.adjusted(bare, [fee])
        yield from self.judge(expected, found, lambda _: self._fee_doubt())

    def _fixed_charges(self) -> Iterator[Finding]:
        definition = replace(self.billed.definition, charges=())
        billed = replace(self.billed, definition=definition)
        expected = self.adjusted(definition, fixed_charge_fees(self.work.at(self.at), billed))
        charges = {charge.id: charge for charge in definition.fixed_charges}

        def doubt(fee: Fee) -> str | None:
            charge = charges.get(fee.fixed_charge_id or "")
            if charge is None or _touched(charge, self.at):
                return CHANGED
            return _units_doubt(self.work, self.period, self.at) or self._fee_doubt()

        yield from self.judge(expected, self._of("fixed_charge"), doubt)

    def _commitment(self) -> Iterator[Finding]:
        others = [fee for fee in self.fees if fee.fee_type != "commitment"]
        fee = commitment_fee(self.work.at(self.at), self.billed, others)
        yield from self.judge([] if fee is None else [fee], self._of("commitment"), lambda _: self._fee_doubt())

    def _fee_doubt(self) -> str | None:
        """Why a line that follows from the plan and from what was billed before may differ without being wrong."""
        if _touched(self.billed.definition.plan, self.at):
            return CHANGED
        if self.billed.subscription.plan_id != self.period.plan_id:
            return CHANGED
        return INVOICES_CHANGED if _are_others_changed(self.work, self.invoice, self.at) else None


class _Progressive(_Lines):
    """The usage so far that passed a threshold: what had come in when the threshold was looked at, and not before."""

    def expected_usage(self, charge: Charge, at: datetime) -> list[Fee]:
        billed, charges = self.billed, self.billed.boundaries.charges
        if charges is None:
            return []
        return usage.usage_fees(
            self.work.at(at),
            usage.UsageToBill(
                invoice_id=self.invoice.id,
                subscription=billed.subscription,
                definition=replace(billed.definition, charges=(charge,)),
                window=usage_window(charges, billed.cycle.tz),
                created_at=self.invoice.created_at,
                known_at=at,
                with_minimum=False,
                remembered=False,
            ),
        )

    def other_instants(self, charge: Charge) -> tuple[list[datetime], bool]:
        return self.arrivals(charge)


def _question(metric: BillableMetric, period: BillingPeriod) -> EventQuestion:
    start = period.charges_from_datetime
    earliest = None if start is None else lower_bound(metric.aggregation_type, recurring=metric.recurring, start=start)
    return EventQuestion(
        code=metric.code,
        external_subscription_id=period.external_subscription_id,
        earliest=earliest,
        latest=period.charges_to_datetime,
    )


def _has_moved(work: Work, period: BillingPeriod) -> bool:
    """Whether the subscription has been billed in more than one time zone."""
    periods = work.tx.find(BillingPeriod, eq("subscription_id", period.subscription_id))
    return len({each.timezone for each in periods}) > 1


def _is_followed_since(work: Work, subscription: Subscription, at: datetime) -> bool:
    """Whether another subscription of the same id has begun since, right where this one ends or begins."""
    others = work.tx.find(
        Subscription, eq("external_id", subscription.external_id), eq("customer_id", subscription.customer_id)
    )
    return any(
        other.id != subscription.id
        and other.created_at >= at
        and other.started_at is not None
        and other.started_at == subscription.terminated_at
        for other in others
    )


def _units_doubt(work: Work, period: BillingPeriod, at: datetime) -> str | None:
    """Units of fixed charges that were decided at the very instant of the count are known to it or not."""
    decided = eq("subscription_id", period.subscription_id), eq("created_at", at)
    return SAME_INSTANT if work.tx.first(FixedChargeUnits, *decided) is not None else None


def _are_others_changed(work: Work, invoice: Invoice, at: datetime) -> bool:
    """Whether other invoices or fees of the customer were not at `at` what they are now."""
    own = eq("customer_id", invoice.customer_id)
    others = work.tx.find(Invoice, own, ne("id", invoice.id), at_most("created_at", at))
    for other in others:
        if other.status not in ("finalized", "voided") or other.created_at == invoice.created_at:
            return True
        if any(instant is not None and instant >= at for instant in (other.finalized_at, other.voided_at)):
            return True
    return work.tx.first(Fee, own, at_least("deleted_at", at), deleted=True) is not None


# What is billed in advance, event by event or unit by unit


def _in_advance(
    work: Work, invoice: Invoice, period: BillingPeriod, fees: Sequence[Fee], notes: Recounts
) -> Iterator[Finding]:
    for fee in fees:
        if fee.event_transaction_id is not None:
            yield from _event_fee(work, fee, invoice.number, period, notes)
        elif fee.fee_type == "fixed_charge":
            yield from _added_units(work, invoice, period, fee, notes)


def _added_units(work: Work, invoice: Invoice, period: BillingPeriod, fee: Fee, notes: Recounts) -> Iterator[Finding]:
    billed = _billed_then(work, invoice, period, invoice.created_at)
    charge = next((one for one in billed.definition.fixed_charges if one.id == fee.fixed_charge_id), None)
    if charge is None:
        notes.leave(fee, CHANGED)
        return
    expected = added_units_fee(work.at(invoice.created_at), billed, charge, period.timestamp)

    def doubt() -> str | None:
        if _touched(charge, invoice.created_at) or billed.subscription.plan_id != period.plan_id:
            return CHANGED
        return INVOICES_CHANGED if _are_others_changed(work, invoice, invoice.created_at) else None

    yield from _told(fee, invoice.number, invoice.id, expected, doubt, notes)


def _told(
    fee: Fee, number: str, id: str, expected: Fee | None, doubt: Callable[[], str | None], notes: Recounts
) -> Iterator[Finding]:
    """What is wrong with a single line."""
    findings = list(differences(number, id, expected, fee))
    reason = doubt() if findings else None
    if reason is not None:
        notes.leave(fee, reason)
        return
    notes.count(fee)
    yield from findings


def _without_invoice(work: Work, fee: Fee, number: str, notes: Recounts) -> Iterator[Finding]:
    """A fee that was made without an invoice: of an event, or of what was carried into a period."""
    if fee.event_transaction_id is not None:
        yield from _event_fee(work, fee, number, None, notes)
    elif fee.fee_type == "charge":
        yield from _renewal(work, fee, number, notes)


def _renewal(work: Work, fee: Fee, number: str, notes: Recounts) -> Iterator[Finding]:
    period = work.tx.first(
        BillingPeriod,
        eq("subscription_id", fee.subscription_id),
        eq("charges_from_datetime", fee.charges_from_datetime),
        eq("charges_to_datetime", fee.charges_to_datetime),
        within("invoicing_reason", WHOLE_REASONS),
        order=[asc("created_at"), asc("id")],
    )
    invoice = None if period is None else work.tx.get(Invoice, period.invoice_id)
    if period is None or invoice is None:
        notes.leave(fee, UNKNOWN_PERIOD)
        return
    at = fee.created_at
    billed = _billed_then(work, invoice, period, at)
    charge = next((one for one in billed.definition.charges if one.id == fee.charge_id), None)
    if charge is None:
        notes.leave(fee, CHANGED)
        return
    metric = billed.definition.metrics[charge.billable_metric_id]

    def expected(then: datetime) -> Fee | None:
        lines = renewals_of(work.at(then), billed, charge)
        return next((one for one in lines if line_key(one) == line_key(fee)), None)

    def doubt() -> str | None:
        if _touched(charge, at) or _touched(metric, at):
            return CHANGED
        if _has_moved(work, period):
            return MOVED
        before = list(differences("", "", expected(at - _INSTANT), fee))
        return SAME_INSTANT if before != list(differences("", "", expected(at), fee)) else None

    yield from _told(fee, number, fee.invoice_id or fee.id, expected(at), doubt, notes)


def _event_fee(work: Work, fee: Fee, number: str, period: BillingPeriod | None, notes: Recounts) -> Iterator[Finding]:
    """The fee of one event is what the event adds to what had been received before it."""
    charge = work.tx.get(Charge, fee.charge_id or "", deleted=True)
    metric = None if charge is None else work.tx.get(BillableMetric, charge.billable_metric_id, deleted=True)
    subscription = work.tx.get(Subscription, fee.subscription_id or "")
    if charge is None or metric is None or subscription is None:
        notes.leave(fee, UNKNOWN_PERIOD)
        return
    named = work.tx.events.named(subscription.external_id, [fee.event_transaction_id or ""])
    event = next((one for one in named if one.code == metric.code), None)
    if event is None:
        reason = CHANGED if _touched(metric, fee.created_at) else None
        yield from _told(fee, number, fee.invoice_id or fee.id, None, lambda: reason, notes)
        return
    billing = _event_billing(work, fee, charge, subscription, event, period)
    if billing is None:
        notes.leave(fee, UNKNOWN_PERIOD)
        return
    row = work.tx.first(LedgerEntry, eq("event_id", event.id), eq("charge_id", charge.id))

    def expected(known_at: datetime, *, is_stored: bool = True) -> Fee:
        priced = event_price(
            work,
            charge,
            metric,
            event,
            billing.window,
            currency=fee.currency,
            subscription=subscription,
            is_stored=is_stored,
            known_at=known_at,
            as_of=row,
        )
        return advance_fee(work.at(fee.created_at), billing, priced, event)

    def doubt() -> str | None:
        if _touched(charge, event.created_at) or _touched(metric, event.created_at):
            return CHANGED
        if period is None or charge.prorated:
            own = eq("subscription_id", subscription.id)
            if len({each.timezone for each in work.tx.find(BillingPeriod, own)}) > 1:
                return MOVED
        alone = list(differences("", "", expected(event.created_at - _INSTANT, is_stored=False), fee))
        return SAME_INSTANT if alone != list(differences("", "", expected(event.created_at), fee)) else None

    yield from _told(fee, number, fee.invoice_id or fee.id, expected(event.created_at), doubt, notes)


def _event_billing(
    work: Work, fee: Fee, charge: Charge, subscription: Subscription, event: Event, period: BillingPeriod | None
) -> EventBilling | None:
    """The charges period in which an event was billed; None where that is not known any more."""
    definition = _definition_then(work, charge.plan_id, fee.created_at)
    if period is not None:
        boundaries = boundaries_of(period)
        if boundaries.charges is None:
            return None
        return EventBilling(
            subscription=subscription,
            definition=definition,
            boundaries=boundaries,
            window=usage_window(boundaries.charges, ZoneInfo(period.timezone)),
        )
    found = event_billing(work, subscription, event.timestamp)
    if (found.window.start, found.window.end) != (fee.charges_from_datetime, fee.charges_to_datetime):
        return None
    return replace(found, definition=definition)
