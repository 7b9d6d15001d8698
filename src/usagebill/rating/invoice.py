"""Bills: the computed contents of an invoice, one function per occasion. Nothing is stored here.

The same functions serve invoices, previews and refreshed drafts; `operations.invoices.record` stores the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from usagebill.core.bills import Bill, Step
from usagebill.core.contracts import Contract, Parties
from usagebill.core.copies import replace
from usagebill.core.dates import InvoiceDates, belated, dates_at_creation, dates_at_finalization
from usagebill.core.error_details import GENERATION_ERROR, without
from usagebill.core.events import Event
from usagebill.core.fees import Fee
from usagebill.core.invoice_triggers import KINDS, Trigger, step_of
from usagebill.core.invoices.life_cycle import InvoiceType, InvoicingReason
from usagebill.core.invoices.opening import new_invoice
from usagebill.core.invoices.records import AppliedThreshold, BillingPeriod, Invoice
from usagebill.core.payments import CHARGES_PAID_IN_ADVANCE, payment_by_hand
from usagebill.core.periods import Boundaries
from usagebill.core.plans import FixedCharge, PlanDefinition
from usagebill.core.subscriptions import Subscription
from usagebill.queries.billing_periods import (
    BillingContext,
    billing_context,
    billing_period,
    boundaries_to_bill,
    cycle_at,
    is_billed,
)
from usagebill.queries.contracts import contracts_of, parties_of
from usagebill.queries.invoices import occasion_of
from usagebill.queries.plans import plan_definition
from usagebill.queries.subscriptions import definition_for
from usagebill.rating.adjustments import with_adjustments
from usagebill.rating.charge_scope import usage_window
from usagebill.rating.custom_sections import with_sections
from usagebill.rating.events import EventPrice, ledger_entry
from usagebill.rating.fees.charges import UsageToBill, rated_usage
from usagebill.rating.fees.commitments import commitment_fee
from usagebill.rating.fees.fixed_charges import added_units_fee, fixed_charge_fees
from usagebill.rating.fees.in_advance import EventBilling, advance_fee
from usagebill.rating.fees.renewals import renewal_fees, standalone_renewals
from usagebill.rating.fees.subscription import subscription_fee
from usagebill.rating.fees.usage import last_day_usage, period_usage, with_counted_usage
from usagebill.rating.settlement import settle, settle_taxes
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A subscription to bill, with the `invoicing_reason`."""

    contract: Contract
    reason: InvoicingReason


def opened(
    reader: Reader, contract: Contract, *, at: datetime, trigger: Trigger, dated: datetime | None = None
) -> Invoice:
    """An empty invoice of the trigger's kind for the contract's customer, dated for billing timestamp `at`, or for
    `dated` if that time is billed belatedly.
    """
    parties = contract.parties
    settings = parties.dating
    kind = KINDS[trigger]
    invoice = new_invoice(
        id=reader.new_id(),
        invoice_type=kind.invoice_type,
        customer=parties.customer,
        issuer=parties.issuer,
        currency=contract.plan.amount_currency,
        timezone=parties.timezone,
        dates=dates_at_creation(kind.occasion, settings, at, contract.zone)
        if dated is None
        else dates_at_creation(belated(kind.occasion), settings, dated, contract.zone),
        net_payment_term=settings.net_payment_term,
        now=reader.now,
        purchase_order_number=contract.subscription.purchase_order_number,
    )
    return replace(invoice, skip_charges=kind.skip_charges)


def settled_bill(
    reader: Reader,
    invoice: Invoice,
    periods: Sequence[BillingPeriod],
    fees: Sequence[Fee],
    *,
    contracts: Sequence[Contract] | None = None,
    finalizing: bool = True,
    section_ids: Sequence[str] | None = None,
) -> Bill:
    """The bill of `invoice` over `fees`, with totals, taxes, credits and custom sections (`section_ids`, if set).

    `contracts` are those that `periods` bill; they are looked up unless passed.
    """
    billed = contracts_of(reader, periods) if contracts is None else contracts
    parties = parties_of(reader, invoice, billed)
    settled = settle(reader, invoice, fees, periods, parties=parties, contracts=billed, finalizing=finalizing)
    return Bill(
        invoice=with_sections(reader, settled.invoice, parties, billed, section_ids),
        parties=parties,
        contracts=tuple(billed),
        periods=tuple(periods),
        fees=settled.fees,
        changed=settled.changed,
        prepaid=settled.prepaid,
        surpluses=settled.surpluses,
    )


def subscription_bill(
    reader: Reader,
    entries: Sequence[Entry],
    *,
    at: datetime,
    trigger: Trigger,
    hidden: bool = False,
    dated: datetime | None = None,
) -> Bill | None:
    """The bill of `entries` (of one customer, currency and billing entity) at billing timestamp `at`.

    The invoice is a draft during the customer's grace period, unless it is `hidden` until it is paid. `dated` is for
    time billed belatedly. None if a run has already billed one of the subscriptions for the same periods.
    """
    first = entries[0].contract
    invoice = opened(reader, first, at=at, trigger=trigger, dated=dated)
    contexts = []
    for entry in entries:
        contract = entry.contract
        boundaries = boundaries_to_bill(reader, contract, at)
        period = billing_period(reader, invoice, contract.subscription, boundaries, entry.reason)
        if period.recurring and is_billed(reader, period):
            return None
        contexts.append(billing_context(reader, invoice, period, contract))
    step = step_of(trigger, grace_period=first.parties.dating.grace_period, hidden=hidden)
    bill = _rated_bill(reader, invoice, contexts, finalizing=step is not Step.DRAFT)
    return replace(
        bill,
        step=step,
        standalone_fees=tuple(fee for context in contexts for fee in standalone_renewals(reader, context)),
    )


def recomputed_bill(reader: Reader, draft: Invoice, *, finalizing: bool) -> Bill:
    """A draft recomputed from current records. Of its billing periods only the plan and its price version change.

    Coupons and credits are used only while `finalizing`, so the total of a draft is an estimate.
    """
    periods = reader.tx.find(BillingPeriod, eq("invoice_id", draft.id), order=[asc("id")])
    contracts = {contract.subscription.id: contract for contract in contracts_of(reader, periods)}
    contexts = [billing_context(reader, draft, period, contracts.get(period.subscription_id)) for period in periods]
    bill = _rated_bill(reader, draft, contexts, finalizing=finalizing)
    computed = replace(bill.invoice, updated_at=reader.now, refresh_wanted=False)
    return replace(bill, invoice=computed, step=Step.STAY, periods=(), changed=(*bill.changed, *bill.periods))


def finalized_bill(reader: Reader, draft: Invoice) -> Bill:
    """A draft finalized now, dated today unless it keeps its anchor."""
    bill = recomputed_bill(reader, draft, finalizing=True)
    kept = without(bill.invoice.error_details, GENERATION_ERROR)
    return replace(
        bill, invoice=_dated_now(reader, replace(bill.invoice, error_details=kept), bill.parties), step=Step.ISSUE
    )


def _rated_bill(reader: Reader, invoice: Invoice, contexts: Sequence[BillingContext], *, finalizing: bool) -> Bill:
    fees = [fee for context in contexts for fee in _period_fees(reader, context)]
    contracts = {context.subscription.id: context.contract for context in contexts}
    return settled_bill(
        reader,
        invoice,
        [
            replace(
                with_counted_usage(reader, context.period, context.definition),
                definition=_kept_definition(reader, context, finalizing=finalizing),
                plan_id=context.plan.id,
                price_version=None,
            )
            for context in contexts
        ],
        fees,
        contracts=list(contracts.values()),
        finalizing=finalizing,
    )


def _kept_definition(reader: Reader, context: BillingContext, *, finalizing: bool) -> PlanDefinition | None:
    """What a draft of a subscription that has ended goes on to bill; once it is issued only if the plan has changed."""
    if context.subscription.terminated_at is None:
        return None
    if finalizing and context.definition == plan_definition(reader, context.plan.id):
        return None
    return context.definition


def _period_fees(reader: Reader, context: BillingContext) -> list[Fee]:
    """The fees of one billing period, in their order on the invoice."""
    fee = subscription_fee(reader, context)
    fees = [] if fee is None else [fee]
    fees += period_usage(reader, context)
    fees += renewal_fees(reader, context)
    fees += fixed_charge_fees(reader, context)
    fees = with_adjustments(reader, context, fees)
    commitment = commitment_fee(reader, context, fees)
    return [*fees, *([] if commitment is None else [commitment]), *last_day_usage(reader, context)]


def added_units_bill(
    reader: Reader,
    contract: Contract,
    charges: Sequence[FixedCharge],
    *,
    at: datetime,
    dated: datetime | None = None,
) -> Bill:
    """The bill for units of `charges` (fixed, paid in advance) beyond those already billed for the period.

    `at` is the instant of the change, or of the start; `dated` is for one billed belatedly. The invoice is never a
    draft.
    """
    invoice = opened(reader, contract, at=at, trigger=Trigger.ADDED_UNITS, dated=dated)
    boundaries = boundaries_to_bill(reader, contract, at)
    period = billing_period(reader, invoice, contract.subscription, boundaries, InvoicingReason.IN_ADVANCE)
    context = billing_context(reader, invoice, period, contract)
    fees = [added_units_fee(reader, context, charge, at) for charge in charges]
    return settled_bill(reader, invoice, [period], fees, contracts=[contract])


def event_bill(reader: Reader, billing: EventBilling, priced: EventPrice, event: Event) -> Bill:
    """The bill for one event under one charge, on its own invoice, which is never a draft."""
    contract, subscription = billing.contract, billing.subscription
    invoice = opened(reader, contract, at=event.timestamp, trigger=Trigger.EVENT)
    period = billing_period(reader, invoice, subscription, billing.boundaries, InvoicingReason.IN_ADVANCE)
    entry = ledger_entry(reader, priced, event, subscription.id)
    fee = advance_fee(reader, billing, priced, event, invoice)
    bill = settled_bill(reader, invoice, [period], [fee], contracts=[contract])
    return replace(bill, ledger_entries=() if entry is None else (entry,))


def progressive_bill(
    reader: Reader, contract: Contract, boundaries: Boundaries, applied: tuple[AppliedThreshold, ...]
) -> Bill | None:
    """All usage of the running charges period that is known, less earlier progressive invoices; None without such a
    period. `applied` are the thresholds that usage has passed.
    """
    if boundaries.charges is None:
        return None
    subscription = contract.subscription
    opening = opened(reader, contract, at=reader.now, trigger=Trigger.THRESHOLD)
    invoice = replace(opening, applied_usage_thresholds=applied)
    period = billing_period(
        reader, invoice, subscription, replace(boundaries, timestamp=reader.now), InvoicingReason.PROGRESSIVE_BILLING
    )
    definition = definition_for(reader, subscription, boundaries.charges.start, contract.plan)
    fees = rated_usage(
        reader,
        UsageToBill(
            invoice=invoice,
            subscription=subscription,
            definition=definition,
            window=usage_window(boundaries.charges, cycle_at(contract, reader.now).tz, subscription),
            known_at=reader.known_at,
            with_minimum=False,
        ),
    )
    return replace(
        settled_bill(
            reader,
            invoice,
            [with_counted_usage(reader, period, definition)],
            fees,
            contracts=[contract],
        ),
        may_be_empty=KINDS[Trigger.THRESHOLD].may_be_empty,
    )


def regrouped_bill(
    reader: Reader,
    newest: Contract,
    owners: Mapping[str, Subscription],
    boundaries: Boundaries,
    fees: Sequence[Fee],
    *,
    at: datetime,
    order: str | None,
    currency: str,
) -> Bill:
    """The bill of `fees` that have been paid one by one: they are only added up. `owners` are by subscription id."""
    empty = opened(reader, newest, at=at, trigger=Trigger.PAID_FEES)
    empty = replace(empty, currency=currency, purchase_order_number=order)
    # The fees are of usage: the period that is shown is that of the charges.
    boundaries = replace(boundaries, subscription=boundaries.charges or boundaries.subscription)
    billed = dict.fromkeys(fee.subscription_id or "" for fee in fees)
    periods = [
        billing_period(reader, empty, owners[id], boundaries, InvoicingReason.IN_ADVANCE_PERIODIC) for id in billed
    ]
    bill = settled_bill(reader, empty, periods, fees)
    whole = bill.invoice.total_amount_cents
    invoice = replace(bill.invoice, total_paid_amount_cents=whole)
    return replace(
        bill,
        invoice=invoice,
        # They are stored and have been paid, taxes included.
        fees=(),
        changed=tuple(
            replace(fee, invoice_id=invoice.id, self_billed=invoice.self_billed, updated_at=reader.now) for fee in fees
        ),
        payment=payment_by_hand(
            invoice, whole, CHARGES_PAID_IN_ADVANCE, reader.now, id=reader.new_id(), now=reader.now
        ),
    )


def taxed_bill(
    reader: Reader, invoice: Invoice, fees: Sequence[Fee], *, provided: bool = False, step: Step = Step.ISSUE
) -> Bill:
    """The bill of an invoice that waited for its taxes; `provided` says that the fees have them already.

    If it is issued now, it is dated today.
    """
    parties = parties_of(reader, invoice)
    settled = settle_taxes(reader, invoice, fees, parties=parties, provided=provided)
    taxed = replace(settled.invoice, updated_at=reader.now)
    return Bill(
        invoice=_dated_now(reader, taxed, parties) if step is Step.ISSUE else taxed,
        parties=parties,
        step=step,
        fees=settled.fees,
        changed=settled.changed,
        prepaid=settled.prepaid,
        may_be_empty=invoice.invoice_type != InvoiceType.PROGRESSIVE_BILLING,
        message="invoice.one_off_created" if invoice.invoice_type == InvoiceType.ONE_OFF else "invoice.created",
    )


def redated(reader: Reader, invoice: Invoice) -> Invoice:
    """The draft, dated as if it were finalized now."""
    return _dated_now(reader, invoice, parties_of(reader, invoice))


def _dated_now(reader: Reader, invoice: Invoice, parties: Parties) -> Invoice:
    settings = parties.dating
    dates = dates_at_finalization(
        InvoiceDates(
            issuing=invoice.issuing_date,
            payment_due=invoice.payment_due_date,
            expected_finalization=invoice.finalization_day,
        ),
        occasion_of(reader, invoice),
        settings,
        reader.now,
        ZoneInfo(parties.timezone),
    )
    return replace(
        invoice,
        issuing_date=dates.issuing,
        payment_due_date=dates.payment_due,
        net_payment_term=settings.net_payment_term,
    )
