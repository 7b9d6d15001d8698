"""Handlers of jobs, by kind of task. Each acts within the transaction that completes its job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from usagebill.core.jobs import Job, known_at
from usagebill.core.payment_tasks import ExpireActivation, SettleActivation
from usagebill.core.tasks import (
    ActivateSubscription,
    AnnounceTermination,
    BillCustomer,
    BillFixedChargeUnits,
    ChangeEuRates,
    ChaseCustomer,
    CheckAlerts,
    CheckReceivedEvents,
    CheckSpendLimits,
    CheckUsageThresholds,
    CleanLogs,
    CleanWebhookMessages,
    EndCustomer,
    EndPlan,
    EndSubscription,
    EndTrial,
    EraseDocuments,
    EraseProperties,
    EraseTraces,
    ExpireCoupon,
    ExpireHold,
    ExpireWallet,
    FinalizeInvoice,
    ForgetAnswers,
    InvoiceTopUp,
    LeavePlan,
    MarkOverdue,
    PlanAmountChanged,
    PostPast,
    PricesTakeEffect,
    ProcessEvents,
    RefreshInvoice,
    RefreshWallets,
    RemoveEvents,
    RescheduleCustomer,
    RescheduleEntity,
    RetryLimitedTaxes,
    ReviewDunning,
    SettleTopUp,
    Task,
    TaxWaitingInvoices,
    TopUpAtInterval,
    TopUpWallet,
    UpgradeNow,
)
from usagebill.operations import (
    coupons,
    erasure,
    event_retention,
    events,
    idempotency,
    ledger,
    log_cleaning,
    ongoing_balances,
    progressive_billing,
    vat,
    webhooks,
)
from usagebill.operations.alerts.checks import check as check_alerts
from usagebill.operations.billing_run import bill_customer
from usagebill.operations.dunning_run import chase, review_dunning
from usagebill.operations.holds import expire as expire_hold
from usagebill.operations.invoices import generation_failures
from usagebill.operations.invoices.awaiting_taxes import tax_waiting
from usagebill.operations.invoices.charges_in_advance import process_events, process_events_apart
from usagebill.operations.invoices.drafts import refresh_wanted
from usagebill.operations.invoices.issue import mark_overdue
from usagebill.operations.invoices.provider_taxes import retry_limited
from usagebill.operations.invoices.subscription import finalize_due
from usagebill.operations.limit_watch import check as check_limits
from usagebill.operations.plans.effective import take_effect
from usagebill.operations.subscriptions import offboarding, time_zones
from usagebill.operations.subscriptions.activation import expire_activation, settle_activation
from usagebill.operations.subscriptions.gate import activate_due
from usagebill.operations.subscriptions.plan_changes import (
    amount_changed,
    amount_changed_apart,
    bill_units,
    leave_plan,
    upgrade_now,
)
from usagebill.operations.subscriptions.plan_endings import end_plan
from usagebill.operations.subscriptions.termination import announce_due, end_due
from usagebill.operations.subscriptions.trial import end_trial
from usagebill.operations.wallets.invoicing import invoice_top_up, settle_top_up
from usagebill.operations.wallets.rules import top_up_at_interval
from usagebill.operations.wallets.termination import expire as expire_wallet
from usagebill.operations.wallets.top_ups import perform_top_up
from usagebill.runtime.work import Work
from usagebill.storage.jobs import task_of

T = TypeVar("T", bound=Task)


@dataclass(frozen=True, slots=True)
class Handler(Generic[T]):
    """The handler of a type of task; `apart` does it piece by piece after it has failed as a whole."""

    task_type: type[T]
    act: Callable[[Work, T], None]
    apart: Callable[[Work, T], None] | None = None

    def perform(self, work: Work, job: Job) -> None:
        """Do the task of the job, and clear the record of an earlier failure."""
        task = task_of(self.task_type, job)
        act = self.act if job.error is None or self.apart is None else self.apart
        act(work, task)
        if job.error is not None:
            generation_failures.clear(work, job, task)


def _handled(
    task_type: type[T], act: Callable[[Work, T], None], apart: Callable[[Work, T], None] | None = None
) -> tuple[str, Handler[Any]]:
    return task_type.kind, Handler(task_type, act, apart)


# Leased tasks are in `outside.OUTSIDE`.
HANDLERS: dict[str, Handler[Any]] = dict(
    (
        _handled(ActivateSubscription, activate_due),
        _handled(ExpireActivation, expire_activation),
        _handled(SettleActivation, settle_activation),
        _handled(EndSubscription, end_due),
        _handled(BillCustomer, bill_customer),
        _handled(EndTrial, end_trial),
        _handled(FinalizeInvoice, finalize_due),
        _handled(MarkOverdue, mark_overdue),
        _handled(TaxWaitingInvoices, tax_waiting),
        _handled(RetryLimitedTaxes, retry_limited),
        _handled(ExpireCoupon, coupons.expire),
        _handled(RefreshInvoice, refresh_wanted),
        _handled(AnnounceTermination, announce_due),
        _handled(ChangeEuRates, vat.change_rates),
        _handled(CleanLogs, log_cleaning.clean),
        _handled(CleanWebhookMessages, webhooks.clean),
        _handled(EraseTraces, erasure.erase_traces),
        _handled(EraseProperties, erasure.erase_properties),
        _handled(EraseDocuments, erasure.erase_documents),
        _handled(RemoveEvents, event_retention.remove),
        _handled(ForgetAnswers, idempotency.forget),
        _handled(EndCustomer, offboarding.end_customer),
        _handled(PostPast, ledger.post_past),
        _handled(RescheduleCustomer, time_zones.reschedule),
        _handled(RescheduleEntity, time_zones.reschedule_entity),
        _handled(CheckReceivedEvents, events.check_received),
        _handled(ProcessEvents, process_events, process_events_apart),
        _handled(BillFixedChargeUnits, bill_units),
        _handled(PlanAmountChanged, amount_changed, amount_changed_apart),
        _handled(PricesTakeEffect, take_effect),
        _handled(EndPlan, end_plan),
        _handled(LeavePlan, leave_plan),
        _handled(UpgradeNow, upgrade_now),
        _handled(CheckUsageThresholds, progressive_billing.check),
        _handled(RefreshWallets, ongoing_balances.refresh),
        _handled(TopUpWallet, perform_top_up),
        _handled(InvoiceTopUp, invoice_top_up),
        _handled(SettleTopUp, settle_top_up),
        _handled(TopUpAtInterval, top_up_at_interval),
        _handled(CheckSpendLimits, check_limits),
        _handled(ExpireHold, expire_hold),
        _handled(ExpireWallet, expire_wallet),
        _handled(CheckAlerts, check_alerts),
        _handled(ChaseCustomer, chase),
        _handled(ReviewDunning, review_dunning),
    )
)


def perform(work: Work, job: Job) -> None:
    """Do a job. Raises `LookupError` for a kind without a handler."""
    before, work.known_at = work.known_at, known_at(job, None if work.clock is None else work.clock())
    # The row goes first, so that the job may schedule its own successor under the same key.
    work.tx.jobs.complete(job)
    try:
        HANDLERS[job.kind].perform(work, job)
    finally:
        work.known_at = before


def note_failure(work: Work, job: Job, reason: str) -> None:
    """Show the failure of the job, with the reason, if the job makes or finishes an invoice."""
    if job.kind in HANDLERS:
        generation_failures.note(work, job, task_of(HANDLERS[job.kind].task_type, job), reason)
