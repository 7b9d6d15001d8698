"""Recounts of whole billing periods, and of usage so far that passed a threshold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from usagebill.core.aggregation import AGGREGATIONS, Accumulation
from usagebill.core.audit import Finding
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.fees import Fee, FeeType
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.plans import Charge, FixedCharge, Plan, PlanDefinition
from usagebill.core.recounts import (
    CHANGED,
    EVENTS_REMOVED,
    INVOICES_CHANGED,
    MOVED,
    SAME_INSTANT,
    WHILE_MADE,
    judged,
    removed_findings,
    touched,
)
from usagebill.rating.adjustments import of_draft, with_adjustments
from usagebill.rating.charge_scope import usage_window
from usagebill.rating.fees import charges as usage
from usagebill.rating.fees.commitments import commitment_fee
from usagebill.rating.fees.fixed_charges import fixed_charge_fees
from usagebill.rating.fees.renewals import renewal_fees
from usagebill.rating.fees.subscription import subscription_fee
from usagebill.rating.fees.usage import last_day_usage, period_usage
from usagebill.rating.recounts.as_of import (
    are_others_changed,
    context_as_of,
    deducts_from_others,
    has_moved,
    is_followed_since,
    question,
    units_doubt,
)
from usagebill.rating.recounts.report import Recounts
from usagebill.runtime.work import Reader

# The most arrival instants to try for a count whose own instant was not stored.
_MOST_INSTANTS = 100


def charge_ids(period: BillingPeriod, code: str) -> set[str]:
    """The charges for which the period counted events with this code."""
    return set() if period.counted is None else {charge.id for charge in period.counted.charges if charge.code == code}


def counted_from(period: BillingPeriod, code: str, fees: Iterable[Fee]) -> list[Fee]:
    """Those of the period's lines of usage in arrears that were counted from events with this code."""
    ids = charge_ids(period, code)
    return [fee for fee in fees if fee.charge_id in ids and fee.event_transaction_id is None]


class Lines:
    """The lines of one billing period of an invoice, counted at `at`."""

    def __init__(
        self,
        reader: Reader,
        invoice: Invoice,
        period: BillingPeriod,
        fees: Sequence[Fee],
        notes: Recounts,
        at: datetime,
    ) -> None:
        self.reader = reader
        self.invoice = invoice
        self.period = period
        self.fees = fees
        self.notes = notes
        self.at = at
        self.context = context_as_of(reader, invoice, period, at, period.price_version)

    def findings(self) -> Iterator[Finding]:
        """Recount all lines."""
        yield from self.usage_findings()

    @property
    def unknown(self) -> str | None:
        """The reason for which a line of a charge that the plan did not have may be right."""
        return CHANGED if self.period.price_version is None else None

    def touched(self, record: Charge | FixedCharge | BillableMetric | Plan) -> bool:
        """Whether the definition may have been another one when the lines were made."""
        return touched(record, self.at, self.period.price_version)

    def usage_findings(self) -> Iterator[Finding]:
        """Recount the usage, charge by charge."""
        usage_fees = self.usage_fees()
        charges = self.context.definition.charges
        if self.period.removed:
            gone = set[str]()
            for series in self.period.removed:
                own = counted_from(self.period, series.code, usage_fees)
                findings = list(removed_findings(self.invoice.number, self.invoice.id, series, own))
                yield from findings
                for fee in () if findings else own:
                    self.notes.leave(fee, EVENTS_REMOVED)
                gone |= charge_ids(self.period, series.code)
            usage_fees = [fee for fee in usage_fees if fee.charge_id not in gone]
            charges = tuple(charge for charge in charges if charge.id not in gone)
        for charge in charges:
            yield from self._charge(charge, [fee for fee in usage_fees if fee.charge_id == charge.id])
        known = {charge.id for charge in charges}
        yield from self.judge((), [fee for fee in usage_fees if fee.charge_id not in known], lambda _: self.unknown)

    def usage_fees(self) -> list[Fee]:
        """The stored lines of usage in arrears."""
        return [fee for fee in self.fees if fee.fee_type == FeeType.CHARGE and fee.event_transaction_id is None]

    def expected_usage(self, charge: Charge, at: datetime) -> list[Fee]:
        """The lines of a charge, counted from the events received by `at`."""
        raise LookupError(f"billing period {self.period.id} bills no usage")

    def known_at(self, at: datetime) -> datetime:
        """The instant up to which a count made at `at` knew the events: that of the bill itself is kept."""
        counted = self.period.counted
        return at if counted is None or at != self.at else counted.known_at

    def other_instants(self, charge: Charge) -> tuple[list[datetime], bool]:
        """Other instants at which the count may have been made, and whether these are all."""
        return [], True

    def judge(
        self, expected: Iterable[Fee], stored: Sequence[Fee], doubt: Callable[[Fee], str | None]
    ) -> Iterator[Finding]:
        """Count the recounted lines. A difference is a finding, unless there is a reason to `doubt` it."""
        for fee, is_there, findings in judged(self.invoice.number, self.invoice.id, expected, stored):
            reason = doubt(fee) if findings else None
            if reason is not None:
                self.notes.leave(fee, reason)
                continue
            if is_there:
                self.notes.count(fee)
            yield from findings

    def agrees(self, expected: Iterable[Fee], stored: Sequence[Fee]) -> bool:
        """Whether the recount agrees with the stored lines."""
        lines = judged(self.invoice.number, self.invoice.id, expected, stored)
        return not any(findings for _, _, findings in lines)

    def adjusted(self, definition: PlanDefinition, fees: list[Fee]) -> list[Fee]:
        """The lines with the adjustments made by hand while the invoice was a draft."""
        for adjustment in of_draft(self.reader, self.invoice):
            charge = next((charge for charge in definition.charges if charge.id == adjustment.charge_id), None)
            if charge is not None and adjustment.charge_filter_id not in (
                None,
                *(charge_filter.id for charge_filter in charge.filters),
            ):
                # The filter was deleted, and its price with it.
                return fees
        draft = replace(self.context, invoice=replace(self.invoice, status=InvoiceStatus.DRAFT), definition=definition)
        return with_adjustments(self.reader.at(self.at), draft, fees)

    def arrivals(self, charge: Charge, last: datetime | None = None) -> tuple[list[datetime], bool]:
        """The instants after the invoice was begun, up to `last`, at which events came in, and whether that is all."""
        metric = self.context.definition.metrics[charge.billable_metric_id]
        instants = {
            event.created_at
            for event in self.reader.tx.events.scan(question(metric, self.period))
            if event.created_at > self.invoice.created_at and (last is None or event.created_at <= last)
        }
        return sorted(instants)[:_MOST_INSTANTS], len(instants) <= _MOST_INSTANTS

    def _charge(self, charge: Charge, stored: list[Fee]) -> Iterator[Finding]:
        expected = self.expected_usage(charge, self.at)
        complete = True
        if not self.agrees(expected, stored):
            instants, complete = self.other_instants(charge)
            others = (self.expected_usage(charge, at) for at in instants)
            expected = next((other for other in others if self.agrees(other, stored)), expected)
        reasons: dict[str, str | None] = {}

        def doubt(_: Fee) -> str | None:
            if "" not in reasons:
                reasons[""] = self._doubt(charge, complete=complete)
            return reasons[""]

        yield from self.judge(expected, stored, doubt)

    def _doubt(self, charge: Charge, *, complete: bool) -> str | None:
        """The reason for which the lines of a charge may differ without being wrong; None if there is none."""
        context, at = self.context, self.at
        metric = context.definition.metrics[charge.billable_metric_id]
        if self.touched(charge) or self.touched(metric) or context.subscription.plan_id != self.period.plan_id:
            return CHANGED
        is_level = AGGREGATIONS[metric.aggregation_type].accumulation is Accumulation.LEVEL
        if (charge.prorated or is_level) and has_moved(self.reader, self.period):
            return MOVED
        if is_followed_since(self.reader, context.subscription, at):
            return INVOICES_CHANGED
        if deducts_from_others(context.subscription, charge) and are_others_changed(self.reader, self.invoice, at):
            return INVOICES_CHANGED
        if not complete:
            return WHILE_MADE
        return SAME_INSTANT if self.is_instant_doubtful(charge) else None

    def is_instant_doubtful(self, charge: Charge) -> bool:
        """Whether events were received at the very instant of the count, which may have come before or after it."""
        return not self.agrees(self.expected_usage(charge, self.at - MICROSECOND), self.expected_usage(charge, self.at))


class WholePeriod(Lines):
    """The lines of a whole period: usage, renewals, the plan's amount, fixed charges and the minimum commitment."""

    def findings(self) -> Iterator[Finding]:
        yield from self._subscription()
        yield from self.usage_findings()
        yield from self._fixed_charges()
        yield from self._commitment()

    def expected_usage(self, charge: Charge, at: datetime) -> list[Fee]:
        definition = replace(self.context.definition, charges=(charge,), fixed_charges=())
        context, then = replace(self.context, definition=definition), self.reader.at(at, known_at=self.known_at(at))
        fees = self.adjusted(definition, [*period_usage(then, context), *renewal_fees(then, context)])
        return [*fees, *last_day_usage(then, context)]

    def other_instants(self, charge: Charge) -> tuple[list[datetime], bool]:
        # An invoice that waited for its taxes had been counted before.
        if self.invoice.tax_status is None:
            return [], True
        arrivals, complete = self.arrivals(charge, self.at)
        return [self.invoice.created_at, *arrivals], complete

    def _of(self, fee_type: FeeType) -> list[Fee]:
        return [fee for fee in self.fees if fee.fee_type == fee_type]

    def _subscription(self) -> Iterator[Finding]:
        stored, definition = self._of(FeeType.SUBSCRIPTION), self.context.definition
        plan = definition.plan
        kept = stored[0].amount_details.get("plan_amount_cents") if stored else None
        if kept is not None and self.touched(plan):
            plan = replace(plan, amount_cents=int(str(kept)))
        definition = replace(definition, plan=plan)
        fee = subscription_fee(self.reader.at(self.at), replace(self.context, definition=definition))
        bare = replace(definition, charges=(), fixed_charges=())
        expected = [] if fee is None else self.adjusted(bare, [fee])
        yield from self.judge(expected, stored, lambda _: self._fee_doubt())

    def _fixed_charges(self) -> Iterator[Finding]:
        definition = replace(self.context.definition, charges=())
        context = replace(self.context, definition=definition)
        expected = self.adjusted(definition, fixed_charge_fees(self.reader.at(self.at), context))
        charges = {charge.id: charge for charge in definition.fixed_charges}

        def doubt(fee: Fee) -> str | None:
            charge = charges.get(fee.fixed_charge_id or "")
            if charge is None:
                return self.unknown
            if self.touched(charge):
                return CHANGED
            return units_doubt(self.reader, self.period, self.at) or self._fee_doubt()

        yield from self.judge(expected, self._of(FeeType.FIXED_CHARGE), doubt)

    def _commitment(self) -> Iterator[Finding]:
        others = [fee for fee in self.fees if fee.fee_type != FeeType.COMMITMENT]
        fee = commitment_fee(self.reader.at(self.at), self.context, others)
        yield from self.judge([] if fee is None else [fee], self._of(FeeType.COMMITMENT), lambda _: self._fee_doubt())

    def _fee_doubt(self) -> str | None:
        """The reason for which a line based on the plan and on earlier bills may differ without being wrong."""
        if self.touched(self.context.definition.plan):
            return CHANGED
        if self.context.subscription.plan_id != self.period.plan_id:
            return CHANGED
        return INVOICES_CHANGED if are_others_changed(self.reader, self.invoice, self.at) else None


class UsageSoFar(Lines):
    """Usage so far that passed a threshold: the events received by the time the threshold was checked."""

    def expected_usage(self, charge: Charge, at: datetime) -> list[Fee]:
        context, charges = self.context, self.context.boundaries.charges
        if charges is None:
            return []
        return usage.rated_usage(
            self.reader.at(at),
            usage.UsageToBill(
                invoice=self.invoice,
                subscription=context.subscription,
                definition=replace(context.definition, charges=(charge,)),
                window=usage_window(charges, context.cycle.tz, context.subscription),
                known_at=self.known_at(at),
                with_minimum=False,
            ),
        )

    def other_instants(self, charge: Charge) -> tuple[list[datetime], bool]:
        return self.arrivals(charge)

    def is_instant_doubtful(self, charge: Charge) -> bool:
        # The event that passed the threshold was received at that instant; what matters is whether others were.
        name = self.period.external_subscription_id
        arrived = self.reader.tx.events.received(self.at, self.at + MICROSECOND)
        return sum(event.external_subscription_id == name for event in arrived) > 1
