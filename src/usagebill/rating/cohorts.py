"""Cohorts: invoices of customers who are billed alike, derived from the invoice of one of them.

A `Pattern` is that invoice taken apart: the lines that are the same for everybody on the plan, a slot for each usage
charge, and the facts that decide both. Customers with the same periods, days and units have the same lines; usage is
priced by the usual functions, once per distinct tally. `pattern_of` accepts only the simplest plans, in arrears.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace as with_facts

from usagebill.core.aggregation import AggregateResult
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_lines import with_true_up
from usagebill.core.contracts import Contract
from usagebill.core.copies import replace
from usagebill.core.fees import Fee, FeeType
from usagebill.core.fixed_charges import terms_in, units_in
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.invoices.totals import SettlementInputs, settled
from usagebill.core.plans import Charge, FixedChargeUnits
from usagebill.core.statuses import PaymentStatus
from usagebill.core.subscription_fees import FeeFacts, fee_is_due, fee_rule
from usagebill.core.subscriptions import billed_since
from usagebill.core.taxes import Tax, taxed_fee
from usagebill.queries.billing_periods import BillingContext, billing_context, boundaries_to_bill
from usagebill.rating.charge_scope import ChargeScope
from usagebill.rating.fees.charges import UsageToBill, charge_fee
from usagebill.rating.fees.subscription import fee_facts
from usagebill.rating.fees.usage import usage_to_bill
from usagebill.rating.settlement import fee_taxes
from usagebill.rating.usage import is_one_tally, tallied_result
from usagebill.storage.event_queries import EventQuery
from usagebill.work import Reader

_UNNAMED = ""
# The most lines kept per charge.
_KNOWN_AT_MOST = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLine:
    """The slot of a usage charge on the invoices: its query over events, and the taxed fee of each tally so far.

    None for a tally that makes no line.
    """

    charge: Charge
    metric: BillableMetric
    question: EventQuery
    scope: ChargeScope
    usage: UsageToBill
    taxes: tuple[Tax, ...]
    known: dict[AggregateResult, Fee | None] = field(default_factory=dict)

    def fee(self, reader: Reader, tally: AggregateResult) -> Fee | None:
        """The line for this usage on the pattern's invoice."""
        if tally not in self.known:
            if len(self.known) >= _KNOWN_AT_MOST:
                self.known.clear()
            self.known[tally] = self._fee(reader, tally)
        return self.known[tally]

    def _fee(self, reader: Reader, tally: AggregateResult) -> Fee | None:
        line = charge_fee(reader, self.usage, tallied_result(self.charge, self.metric, tally, self.scope))
        kept = with_true_up([line], None)
        return taxed_fee(kept[0], self.taxes, reader.now, _unnamed) if kept else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """An invoice taken apart: `before` are its lines before usage, `after` those after it, all with taxes."""

    context: BillingContext
    facts: FeeFacts
    units: tuple[FixedChargeUnits, ...]
    invoice: Invoice
    before: tuple[Fee, ...]
    usage: tuple[UsageLine, ...]
    after: tuple[Fee, ...]

    @property
    def contract(self) -> Contract:
        """The contract that the invoice bills."""
        return self.context.contract


def _unnamed() -> str:
    return _UNNAMED


def pattern_of(
    reader: Reader,
    contract: Contract,
    invoice: Invoice,
    period: BillingPeriod,
    fees: Sequence[Fee],
    *,
    units: Sequence[FixedChargeUnits],
    questions: Mapping[str, EventQuery],
) -> Pattern | None:
    """The pattern of an invoice of one subscription, from its stored records; None if it does not qualify.

    `units` are those of its fixed charges; `questions` are the queries over its events, by code.
    """
    context = billing_context(reader, invoice, period, contract)
    usage = usage_to_bill(reader, context)
    if usage is None or not _is_plain(context) or not _is_issued(invoice):
        return None
    scope = ChargeScope(
        subscription=contract.subscription,
        currency=contract.plan.amount_currency,
        window=usage.window,
        known_at=usage.known_at,
    )
    lines = []
    for charge in context.definition.charges:
        metric = context.definition.metrics[charge.billable_metric_id]
        question = questions.get(metric.code)
        if question is None or metric.recurring or not is_one_tally(charge, metric, scope):
            return None
        line = charge_fee(reader, usage, tallied_result(charge, metric, AggregateResult(), scope))
        taxes = fee_taxes(reader, contract.customer, line)
        lines.append(UsageLine(charge=charge, metric=metric, question=question, scope=scope, usage=usage, taxes=taxes))
    if len({line.metric.code for line in lines}) != len(questions):
        return None
    return Pattern(
        context=context,
        facts=fee_facts(reader, context),
        units=tuple(units),
        invoice=invoice,
        before=tuple(fee for fee in fees if fee.fee_type == FeeType.SUBSCRIPTION),
        usage=tuple(lines),
        after=tuple(fee for fee in fees if fee.fee_type == FeeType.FIXED_CHARGE),
    )


def _is_plain(context: BillingContext) -> bool:
    """Whether the plan bills only in arrears, and only what follows from periods, units and usage."""
    plan, charges = context.plan, context.boundaries.charges
    return (
        not plan.pay_in_advance
        and not plan.trial_period
        and plan.minimum_commitment is None
        and charges is not None
        and charges.start < charges.end
        and not any(fixed.pay_in_advance for fixed in context.definition.fixed_charges)
        and all(
            charge.invoiceable and not charge.pay_in_advance and not charge.prorated and charge.min_amount_cents <= 0
            for charge in context.definition.charges
        )
    )


def _is_issued(invoice: Invoice) -> bool:
    """Whether the invoice was issued at once and awaits payment in full: no credit, wallet or change has touched it."""
    return (
        invoice.status == InvoiceStatus.FINALIZED
        and invoice.payment_status == PaymentStatus.PENDING
        and invoice.total_amount_cents > 0
        and invoice.tax_status is None
        and not (invoice.credits or invoice.applied_custom_sections or invoice.error_details or invoice.skip_charges)
    )


def bill_alike(
    reader: Reader,
    pattern: Pattern,
    contract: Contract,
    *,
    is_billed_before: bool,
    units: Sequence[FixedChargeUnits],
    tallies: Mapping[str, AggregateResult],
) -> tuple[Invoice, tuple[Fee, ...]] | None:
    """The invoice of another contract of the plan, with its lines and totals; None if it does not follow the pattern.

    Its parties must be alike in everything that decides an invoice. `is_billed_before` says that it has had a
    subscription fee; `tallies` are its usage, by code.
    """
    periods = _has_same_days(reader, pattern, contract, is_billed_before=is_billed_before)
    if not periods or not _has_same_units(pattern, units):
        return None
    usage = (line.fee(reader, tallies[line.metric.code]) for line in pattern.usage)
    lines = (*pattern.before, *(fee for fee in usage if fee is not None), *pattern.after)
    taxes = sum(len(line.applied_taxes) for line in lines)
    # The invoice and its lines come first, in their order on the invoice.
    ids = iter(reader.new_ids(1 + len(lines) + 2 * taxes))
    invoice = replace(pattern.invoice, id=next(ids), customer_id=contract.customer.id)
    named = zip(lines, [next(ids) for _ in lines], strict=True)
    fees = [_fee(line, id, invoice, contract, ids) for line, id in named]
    done = settled(invoice, fees, SettlementInputs(now=reader.now, new_id=ids.__next__))
    return (done.invoice, done.fees) if done.invoice.total_amount_cents > 0 else None


def _has_same_days(reader: Reader, pattern: Pattern, contract: Contract, *, is_billed_before: bool) -> bool:
    context, facts = pattern.context, pattern.facts
    if boundaries_to_bill(reader, contract, reader.now) != context.boundaries:
        return False
    known = with_facts(
        facts,
        cycle=contract.cycle(),
        billed_since=billed_since(contract.subscription),
        fee_billed=is_billed_before,
        first_invoice=contract.last_run is None,
    )
    return fee_is_due(known) == fee_is_due(facts) and fee_rule(known) is fee_rule(facts)


def _has_same_units(pattern: Pattern, units: Sequence[FixedChargeUnits]) -> bool:
    window, tz = pattern.context.boundaries.fixed_charges, pattern.context.cycle.tz
    if window is None:
        return True
    for charge in pattern.context.definition.fixed_charges:
        entries_of_customer, entries_of_pattern = (
            [entry for entry in entries if entry.fixed_charge_id in (charge.id, charge.parent_id)]
            for entries in (units, pattern.units)
        )
        if units_in(entries_of_customer, window, tz, prorated=charge.prorated) != units_in(
            entries_of_pattern, window, tz, prorated=charge.prorated
        ):
            return False
        if charge.prorated and terms_in(entries_of_customer, window, tz) != terms_in(entries_of_pattern, window, tz):
            return False
    return True


def _fee(line: Fee, id: str, invoice: Invoice, contract: Contract, ids: Iterator[str]) -> Fee:
    """The line on another invoice; its taxes take the next ids."""
    subscription, item = contract.subscription, line.item
    return replace(
        line,
        id=id,
        invoice_id=invoice.id,
        customer_id=invoice.customer_id,
        subscription_id=subscription.id,
        external_subscription_id=subscription.external_id,
        item=replace(item, id=subscription.id) if line.fee_type == FeeType.SUBSCRIPTION else item,
        applied_taxes=tuple([replace(tax, id=next(ids)) for tax in line.applied_taxes]),
    )
