"""The audit of an organization: every issued invoice, every series of numbers, every subscription's periods.

It reads customer by customer, so its memory is bounded by the largest customer, and it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from usagebill.core.audit import (
    BilledWindow,
    Finding,
    Life,
    Numbered,
    audited_credit_note,
    audited_invoice,
    audited_notes_of_invoice,
    audited_numbers,
    audited_windows,
)
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.coupon_audit import CouponUse, audited_coupon
from usagebill.core.coupons import AppliedCoupon, Coupon
from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.customers import Customer
from usagebill.core.fees import Fee, FeeType
from usagebill.core.hold_audit import audited_hold
from usagebill.core.holds import Hold
from usagebill.core.invoices.life_cycle import (
    IN_ARREARS,
    ISSUED,
    STANDING,
    UNDONE,
    WHOLE_REASONS,
    InvoiceStatus,
    InvoicingReason,
)
from usagebill.core.invoices.numbering import customer_series, entity_series
from usagebill.core.invoices.records import BillingPeriod, Credit, CreditType, Invoice
from usagebill.core.ledger import Movement
from usagebill.core.ledger_audit import Books, audited_ledger
from usagebill.core.life_audit import audited_wait, fee_until, last_run, life_of, open_period
from usagebill.core.number_audit import audited_last_number, audited_number
from usagebill.core.payments import Payment, RefundAttempt
from usagebill.core.periods import Cycle, is_empty, max_zone_shift
from usagebill.core.progressive_audit import InvoiceOfPeriod, ProgressivePeriod, audited_progressive
from usagebill.core.recounts import Left
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.tasks import BillCustomer, ExpireHold, PostPast
from usagebill.core.void_audit import audited_void
from usagebill.core.wallet_audit import WalletLedger, audited_prepaid, audited_strays, audited_wallet
from usagebill.core.wallet_transactions import TransactionType, WalletConsumption, WalletTransaction
from usagebill.core.wallets import Wallet
from usagebill.operations.receipt_audit import audited_payments
from usagebill.queries.contracts import contract_of
from usagebill.queries.payments import paid_and_kept_cents, paid_cents
from usagebill.queries.removed_events import may_be_gone
from usagebill.queries.subscriptions import plan_of
from usagebill.queries.wallets import wallets_of_customer
from usagebill.rating.recounts import (
    Recounts,
    lost_events,
    recounted,
    recounted_carried_usage,
    recounted_late_activation,
    recounted_unused_time,
    recounted_without_invoice,
)
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq, present, within


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The numbers of audited records, the number of findings (`found`) and the first of them (`findings`).

    `recounted` is the number of lines by kind (`core.recounts.KINDS`) recounted from events, plan and days,
    `not_recounted` that of lines that could not be. Both are empty without recounts.
    """

    customers: int
    subscriptions: int
    invoices: int
    credit_notes: int
    coupons: int
    wallets: int
    found: int
    findings: tuple[Finding, ...]
    recounted: Mapping[str, int]
    not_recounted: tuple[Left, ...]


@dataclass(slots=True)
class _Notes:
    """The audit's results so far."""

    at_most: int
    recounts: Recounts | None
    customers: int = 0
    subscriptions: int = 0
    invoices: int = 0
    credit_notes: int = 0
    coupons: int = 0
    wallets: int = 0
    found: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.found += 1
            if len(self.findings) < self.at_most:
                self.findings.append(finding)


def audit(reader: Reader, *, at_most: int = 1000, recount: bool = True) -> AuditReport:
    """Recompute all issued documents from their own records, and report differences.

    So are the kept totals of lists. With `recount`, each fee is also recounted from its events, plan and days. All
    findings are counted, `at_most` of them reported in full.
    """
    notes = _Notes(at_most, Recounts() if recount else None)
    customer_ids: set[str] = set()
    for customer in reader.tx.each(Customer, order=[asc("id")], deleted=True):
        customer_ids.add(customer.id)
        notes.customers += 1
        _audit_customer(reader.without_memory(), customer, notes)
    records = (reader.tx.each(Wallet), reader.tx.each(WalletTransaction), reader.tx.each(WalletConsumption))
    notes.add(audited_strays(customer_ids, *records))
    for entity in reader.tx.find(BillingEntity, deleted=True):
        notes.add(_entity_numbers(reader, entity))
    if recount:
        notes.add(_usage_states(reader))
    notes.add(_list_counts(reader))
    return AuditReport(
        customers=notes.customers,
        subscriptions=notes.subscriptions,
        invoices=notes.invoices,
        credit_notes=notes.credit_notes,
        coupons=notes.coupons,
        wallets=notes.wallets,
        found=notes.found,
        findings=tuple(notes.findings),
        recounted={} if notes.recounts is None else notes.recounts.done,
        not_recounted=() if notes.recounts is None else notes.recounts.left,
    )


def _usage_states(reader: Reader) -> Iterator[Finding]:
    for fault in reader.tx.events.state_faults():
        yield Finding(
            check="usage_states",
            subject=f"usage of {fault.external_subscription_id},",
            subject_id=fault.external_subscription_id,
            detail=f"{fault.kind} of {fault.code}",
            expected="what the events come to",
            found=f"{fault.differing} states that differ",
        )


def _list_counts(reader: Reader) -> Iterator[Finding]:
    for fault in reader.tx.list_faults():
        yield Finding(
            check="list_counts",
            subject=f"list of {fault.listed},",
            subject_id=reader.organization.id,
            detail=fault.count,
            expected=str(fault.counted),
            found=str(fault.kept),
        )


def _audit_customer(reader: Reader, customer: Customer, notes: _Notes) -> None:
    uses: dict[str, list[int]] = {}
    coupon_uses: dict[str, list[CouponUse]] = {}
    series: dict[str, list[Numbered]] = {}
    voided: list[Invoice] = []
    for invoice in reader.tx.each(Invoice, eq("customer_id", customer.id), order=[asc("id")]):
        if invoice.sequential_id is not None:
            series.setdefault(invoice.billing_entity_id, []).append(_numbered(customer, invoice, invoice.sequential_id))
        if invoice.status in ISSUED:
            notes.invoices += 1
            notes.add(_audited_invoice(reader, customer, invoice, notes.recounts))
        for line in invoice.credits:
            # A voided invoice has used what did not go back to the credit note.
            kept = line.item_type == CreditType.CREDIT_NOTE and invoice.status == InvoiceStatus.VOIDED
            if line.source_id is not None and (kept or invoice.status not in UNDONE):
                uses.setdefault(line.source_id, []).append(line.used_cents)
                if line.item_type == CreditType.COUPON and (line.used_cents or not line.returned_cents):
                    coupon_uses.setdefault(line.source_id, []).append(_coupon_use(reader, invoice, line))
        if invoice.status == InvoiceStatus.VOIDED:
            voided.append(invoice)
    for entity_id, invoices in series.items():
        notes.add(_counted(reader, customer_series(entity_id, customer.id), invoices))
    for note in reader.tx.each(CreditNote, eq("customer_id", customer.id), eq("status", CreditNoteStatus.FINALIZED)):
        notes.credit_notes += 1
        notes.add(audited_credit_note(note, sum(uses.get(note.id, ()))))
    for applied in reader.tx.each(AppliedCoupon, eq("customer_id", customer.id)):
        notes.coupons += 1
        coupon = reader.tx.get(Coupon, applied.coupon_id, deleted=True)
        code = applied.coupon_id if coupon is None else coupon.code
        notes.add(audited_coupon(applied, code, coupon_uses.get(applied.id, ())))
    for invoice in voided:
        notes.add(_audited_void(reader, invoice, uses))
    _audit_wallets(reader, customer, notes)
    notes.add(_audited_holds(reader, customer))
    notes.add(audited_payments(reader, customer))
    if reader.tx.jobs.get(PostPast(customer_id=customer.id).key) is None:
        notes.add(audited_ledger(_books(reader, customer)))
    for subscription in reader.tx.each(Subscription, eq("customer_id", customer.id), order=[asc("id")]):
        notes.subscriptions += 1
        notes.add(_audited_subscription(reader, subscription))
        if notes.recounts is not None:
            notes.add(lost_events(reader, subscription))
            notes.add(recounted_unused_time(reader, subscription, notes.recounts))
            notes.add(recounted_carried_usage(reader, subscription, notes.recounts))
            notes.add(recounted_late_activation(reader, subscription, notes.recounts))
    if notes.recounts is not None:
        notes.add(recounted_without_invoice(reader, customer.id, notes.recounts))


def _books(reader: Reader, customer: Customer) -> Books:
    of_customer = eq("customer_id", customer.id)
    return Books(
        customer_id=customer.id,
        external_customer_id=customer.external_id,
        movements=reader.tx.find(Movement, of_customer),
        invoices=reader.tx.find(Invoice, of_customer),
        notes=reader.tx.find(CreditNote, of_customer),
        payments=reader.tx.find(Payment, of_customer),
        refunds=reader.tx.find(RefundAttempt, of_customer),
        wallets=reader.tx.find(Wallet, of_customer),
    )


def _audited_invoice(
    reader: Reader, customer: Customer, invoice: Invoice, recounts: Recounts | None
) -> Iterator[Finding]:
    fees = reader.tx.find(Fee, eq("invoice_id", invoice.id))
    periods = reader.tx.find(BillingPeriod, eq("invoice_id", invoice.id))
    paid = paid_cents(reader, invoice.id)
    yield from audited_invoice(invoice, fees, periods, paid_cents=paid)
    request = reader.tx.find(CreditNote, eq("invoice_id", invoice.id), eq("status", CreditNoteStatus.FINALIZED))
    yield from audited_notes_of_invoice(invoice, fees, request)
    yield from audited_number(customer, invoice)
    if recounts is not None:
        yield from recounted(reader, invoice, fees, periods, recounts)


def _coupon_use(reader: Reader, invoice: Invoice, line: Credit) -> CouponUse:
    before = (
        [stage for stage in _stages_before(reader, invoice) if stage.status not in UNDONE] if line.continues else []
    )
    taken = sum(credit.used_cents for stage in before for credit in stage.credits if credit.source_id == line.source_id)
    return CouponUse(cents=line.used_cents, continues=not line.is_use, before_cents=taken)


def _stages_before(reader: Reader, invoice: Invoice) -> list[Invoice]:
    """The progressive billing invoices that the invoice credits, and those that these credit."""
    stages: dict[str, Invoice] = {}
    ids = [credit.source_id for credit in invoice.credits if credit.item_type == CreditType.INVOICE]
    for id in ids:
        stage = reader.tx.get(Invoice, id or "")
        if stage is not None and stage.id not in stages:
            stages[stage.id] = stage
            ids += [credit.source_id for credit in stage.credits if credit.item_type == CreditType.INVOICE]
    return list(stages.values())


def _audited_void(reader: Reader, invoice: Invoice, uses: Mapping[str, Sequence[int]]) -> Iterator[Finding]:
    finalized = eq("status", CreditNoteStatus.FINALIZED)
    notes = reader.tx.find(CreditNote, eq("invoice_id", invoice.id), finalized)
    return audited_void(
        invoice,
        paid_cents=paid_and_kept_cents(reader, invoice.id),
        wallets_paid_cents=reader.tx.total(
            WalletTransaction,
            "amount_cents",
            eq("invoice_id", invoice.id),
            eq("transaction_type", TransactionType.OUTBOUND),
        ),
        wallets_returned_cents=reader.tx.total(WalletTransaction, "amount_cents", eq("voided_invoice_id", invoice.id)),
        notes=[(note, sum(uses.get(note.id, ()))) for note in notes],
    )


# Wallets


def _audit_wallets(reader: Reader, customer: Customer, notes: _Notes) -> None:
    """Audit a customer's wallets against the payments on its invoices."""
    for wallet in wallets_of_customer(reader, customer.id):
        notes.wallets += 1
        transactions = reader.tx.find(WalletTransaction, eq("wallet_id", wallet.id))
        invoice_ids = {transaction.invoice_id for transaction in transactions} - {None}
        ledger = WalletLedger(
            wallet=wallet,
            transactions=transactions,
            consumptions=reader.tx.find(WalletConsumption, eq("wallet_id", wallet.id)),
            invoices={invoice.id: invoice for invoice in reader.tx.find(Invoice, within("id", invoice_ids))},
        )
        notes.add(audited_wallet(ledger))
    used = {
        transaction.invoice_id
        for transaction in reader.tx.each(WalletTransaction, eq("customer_id", customer.id))
        if not transaction.is_inbound
    }
    for invoice in reader.tx.each(Invoice, eq("customer_id", customer.id)):
        if invoice.id in used or invoice.prepaid_credit_amount_cents != 0:
            notes.add(_audited_prepaid(reader, invoice))


def _audited_prepaid(reader: Reader, invoice: Invoice) -> Iterator[Finding]:
    paying = reader.tx.find(WalletTransaction, eq("invoice_id", invoice.id))
    returned = reader.tx.find(WalletTransaction, eq("voided_invoice_id", invoice.id))
    drawn = reader.tx.find(WalletConsumption, within("outbound_id", [transaction.id for transaction in paying]))
    sources = reader.tx.find(WalletTransaction, within("id", {row.inbound_id for row in drawn}))
    fees = reader.tx.find(Fee, eq("invoice_id", invoice.id))
    gross = {fee.id: fee.amount_cents + fee.taxes_precise_amount_cents for fee in fees}
    yield from audited_prepaid(invoice, gross, (*paying, *returned, *sources), drawn)


# Holds


def _audited_holds(reader: Reader, customer: Customer) -> Iterator[Finding]:
    for hold in reader.tx.each(Hold, eq("customer_id", customer.id), order=[asc("id")]):
        id = hold.transaction_id
        events = [] if id is None else reader.tx.events.named(hold.external_subscription_id, [id])
        yield from audited_hold(
            hold,
            expiry_waits=reader.tx.jobs.get(ExpireHold(customer_id=customer.id, hold_id=hold.id).key) is not None,
            event=next(iter(events), None),
            is_event_kept=not may_be_gone(reader, hold.ended_at or reader.now),
        )


# Numbers


def _numbered(customer: Customer, invoice: Invoice, position: int) -> Numbered:
    series = f"customer {customer.external_id} (billing entity {invoice.billing_entity_id})"
    return Numbered(id=invoice.id, number=invoice.number, series=series, position=position)


def _counted(reader: Reader, sequence: str, invoices: list[Numbered]) -> Iterator[Finding]:
    invoices.sort(key=lambda invoice: (invoice.position, invoice.id))
    yield from audited_numbers(invoices)
    yield from audited_last_number(invoices[-1], reader.tx.last_numbers(sequence)[0])


def _entity_numbers(reader: Reader, entity: BillingEntity) -> Iterator[Finding]:
    last: Numbered | None = None

    def in_order() -> Iterator[Numbered]:
        nonlocal last
        for invoice in reader.tx.each(
            Invoice,
            eq("billing_entity_id", entity.id),
            present("entity_sequential_id"),
            order=[asc("entity_sequential_id"), asc("id")],
        ):
            last = Numbered(
                id=invoice.id,
                number=invoice.number,
                series=f"billing entity {entity.code}",
                position=invoice.entity_sequential_id or 0,
            )
            yield last

    yield from audited_numbers(in_order())
    if last is not None:
        yield from audited_last_number(last, reader.tx.last_numbers(entity_series(entity.id))[0])


# Periods


def _audited_subscription(reader: Reader, subscription: Subscription) -> Iterator[Finding]:
    if subscription.started_at is None:
        return
    periods = reader.tx.find(BillingPeriod, eq("subscription_id", subscription.id), order=[asc("timestamp"), asc("id")])
    invoices: dict[str, Invoice] = {}
    for period in periods:
        invoice = reader.tx.get(Invoice, period.invoice_id)
        if invoice is not None and (invoice.status in STANDING or invoice.status == InvoiceStatus.VOIDED):
            invoices[invoice.id] = invoice
    whole = [period for period in periods if period.invoice_id in invoices and period.invoicing_reason in WHOLE_REASONS]
    life = life_of(subscription, _cycle(reader, subscription, whole))
    usage = [period for period in whole if IN_ARREARS[period.invoicing_reason].usage]
    yield from audited_windows("usage", _windows("charges", usage, invoices), life)
    fixed = [period for period in whole if IN_ARREARS[period.invoicing_reason].fixed_charges]
    yield from audited_windows("fixed charges", _windows("fixed_charges", fixed, invoices), life)
    yield from _audited_fees(reader, subscription, whole, invoices)
    for progressive in _progressive_periods(reader, subscription, periods, invoices):
        yield from audited_progressive(progressive)
    if subscription.status == SubscriptionStatus.ACTIVE:
        yield from _audited_wait(reader, subscription, usage)


def _progressive_periods(
    reader: Reader, subscription: Subscription, periods: list[BillingPeriod], invoices: dict[str, Invoice]
) -> Iterator[ProgressivePeriod]:
    """The usage windows that progressive billing invoices have billed ahead, with the invoices of each."""
    windows: dict[datetime, list[BillingPeriod]] = {}
    for period in periods:
        start = period.charges_from_datetime
        is_ahead = period.invoicing_reason == InvoicingReason.PROGRESSIVE_BILLING
        if is_ahead and start is not None and period.invoice_id in invoices:
            windows.setdefault(start, []).append(period)
    whole = [period for period in periods if period.invoicing_reason in WHOLE_REASONS]
    for start, billed_ahead in windows.items():
        # A change of the customer's time zone moves the end of a period that was billed ahead; its own invoice knows.
        ends = [
            period.charges_to_datetime
            for period in (*billed_ahead, *(one for one in whole if _bills_usage_from(one, start)))
            if period.charges_to_datetime is not None
        ]
        end = min(ends, default=start)
        ahead = [period.invoice_id for period in billed_ahead]
        closing = [
            period.invoice_id
            for period in whole
            if any(
                counted is not None and start <= counted < end
                for counted in (period.charges_from_datetime, period.last_day_from)
            )
            and period.invoice_id in invoices
            and invoices[period.invoice_id].status in STANDING
        ]
        yield ProgressivePeriod(
            subscription_id=subscription.id,
            external_id=subscription.external_id,
            ahead=[_invoice_of_period(reader, invoices[id]) for id in ahead],
            closing=[_invoice_of_period(reader, invoices[id]) for id in closing],
        )


def _bills_usage_from(period: BillingPeriod, start: datetime) -> bool:
    return IN_ARREARS[period.invoicing_reason].usage and period.charges_from_datetime == start


def _invoice_of_period(reader: Reader, invoice: Invoice) -> InvoiceOfPeriod:
    return InvoiceOfPeriod(
        invoice=invoice,
        fees=reader.tx.find(Fee, eq("invoice_id", invoice.id)),
        notes=reader.tx.find(CreditNote, eq("invoice_id", invoice.id)),
    )


def _windows(kind: str, periods: Iterable[BillingPeriod], invoices: dict[str, Invoice]) -> Iterator[BilledWindow]:
    for period in periods:
        start, end = getattr(period, f"{kind}_from_datetime"), getattr(period, f"{kind}_to_datetime")
        ends = period.invoicing_reason == InvoicingReason.TERMINATING
        if start is not None and end is not None and not is_empty(start, end, ZoneInfo(period.timezone), ends=ends):
            yield _window(start, end, invoices[period.invoice_id])


def _window(start: datetime, end: datetime, invoice: Invoice) -> BilledWindow:
    stands = invoice.status in STANDING
    return BilledWindow(start=start, end=end, number=invoice.number, stands=stands)


def _cycle(reader: Reader, subscription: Subscription, periods: list[BillingPeriod]) -> Cycle:
    """The subscription's cycle in the time zone of its last invoice."""
    return contract_of(reader, subscription).cycle(ZoneInfo(periods[-1].timezone) if periods else None)


def _audited_fees(
    reader: Reader, subscription: Subscription, periods: list[BillingPeriod], invoices: dict[str, Invoice]
) -> Iterator[Finding]:
    """Check that subscription fees, and fees of each fixed charge paid in advance, bill no period twice.

    Subscription fees must not skip a period either, once the first one is billed.
    """
    windows: dict[str, list[BilledWindow]] = {}
    added = {
        period.invoice_id
        for period in reader.tx.find(BillingPeriod, eq("subscription_id", subscription.id))
        if period.invoicing_reason not in WHOLE_REASONS
    }
    for fee in reader.tx.find(Fee, eq("subscription_id", subscription.id)):
        invoice = invoices.get(fee.invoice_id or "")
        if invoice is None or invoice.id in added or fee.from_datetime is None or fee.to_datetime is None:
            continue
        if subscription.billed_from is not None and fee.to_datetime < subscription.billed_from:
            # It waited for this invoice's payment. Until then another plan was billed, and this fee is credited.
            continue
        if fee.fee_type == FeeType.SUBSCRIPTION:
            windows.setdefault("subscription fee", []).append(_window(fee.from_datetime, fee.to_datetime, invoice))
        elif fee.fee_type == FeeType.FIXED_CHARGE and fee.pay_in_advance:
            kind = f"fixed charge {fee.item.code} {fee.fixed_charge_id}"
            windows.setdefault(kind, []).append(_window(fee.from_datetime, fee.to_datetime, invoice))
    for kind, dates in windows.items():
        yield from audited_windows(
            kind,
            dates,
            Life(
                subscription_id=subscription.id,
                external_id=subscription.external_id,
                billed_from=None,
                billed_until=fee_until(subscription, plan_of(reader, subscription), periods)
                if kind == "subscription fee"
                else None,
            ),
            slack=max_zone_shift(_cycle(reader, subscription, periods)),
            may_pause=kind != "subscription fee",
        )


def _audited_wait(reader: Reader, subscription: Subscription, periods: list[BillingPeriod]) -> Iterator[Finding]:
    """Check that an active subscription has a run scheduled by the time its open period is due, or its end is."""
    contract = contract_of(reader, subscription)
    if (
        contract.has_overdue_end(reader.now)
        and reader.tx.jobs.overdue((subscription.customer_id,), reader.now) is not None
    ):
        return
    last = last_run(periods)
    run_tz = None if last is None else ZoneInfo(last.timezone)
    wait = open_period(subscription, contract.cycle(), last, run_tz, reader.now)
    job = reader.tx.jobs.waiting(BillCustomer.kind, subscription.customer_id)
    yield from audited_wait(subscription, contract.plan.code, wait, None if job is None else job.due_at)
