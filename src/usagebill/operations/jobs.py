"""Jobs: which kind is done by which operation. Each row acts within the transaction that completes its job."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from usagebill.core.jobs import Job
from usagebill.operations import coupons, events, ongoing_balances, progressive_billing, vat, webhooks
from usagebill.operations.billing_run import bill_customer
from usagebill.operations.invoices import generation_failures
from usagebill.operations.invoices.awaiting_taxes import tax_waiting
from usagebill.operations.invoices.charges_in_advance import process_events
from usagebill.operations.invoices.drafts import refresh_wanted
from usagebill.operations.invoices.issue import mark_overdue
from usagebill.operations.invoices.provider_taxes import retry_limited
from usagebill.operations.invoices.subscription import finalize_due
from usagebill.operations.subscriptions import offboarding, time_zones
from usagebill.operations.subscriptions.plan_changes import amount_changed, bill_units, leave_plan, upgrade_now
from usagebill.operations.subscriptions.plan_endings import end_plan
from usagebill.operations.subscriptions.start import activate_due
from usagebill.operations.subscriptions.termination import announce_due, end_due
from usagebill.operations.subscriptions.trial import end_trial
from usagebill.work import Work

__all__ = ["HANDLERS", "WORKED_OUT_AHEAD", "Handler", "perform"]

Handler = Callable[[Work, Job], None]

# kind -> what does it. Jobs that talk to the outside (leased ones) stand in `billing.OUTSIDE`.
HANDLERS: Mapping[str, Handler] = {
    "activate_subscription": activate_due,
    "end_subscription": end_due,
    "bill_customer": bill_customer,
    "end_trial": end_trial,
    "finalize_invoice": finalize_due,
    "mark_overdue": mark_overdue,
    "tax_waiting_invoices": tax_waiting,
    "retry_limited_taxes": retry_limited,
    "expire_coupon": coupons.expire,
    "refresh_invoice": refresh_wanted,
    "announce_termination": announce_due,
    "change_eu_rates": vat.change_rates,
    "clean_webhook_messages": webhooks.clean,
    "end_customer": offboarding.end_customer,
    "reschedule_customer": time_zones.reschedule,
    "reschedule_entity": time_zones.reschedule_entity,
    "check_received_events": events.check_received,
    "process_events": process_events,
    "bill_fixed_charge_units": bill_units,
    "plan_amount_changed": amount_changed,
    "end_plan": end_plan,
    "leave_plan": leave_plan,
    "upgrade_now": upgrade_now,
    "check_usage_thresholds": progressive_billing.check,
    "refresh_wallets": ongoing_balances.refresh,
}

# What these come to is worked out on a snapshot before they are done: `Work.worked_out`.
WORKED_OUT_AHEAD = frozenset(
    {"bill_customer", "finalize_invoice", "refresh_invoice", "check_usage_thresholds", "refresh_wallets"}
)


def perform(work: Work, job: Job) -> None:
    """Do a job, and take back what showed that it failed before."""
    # The row goes first, so that the job may schedule its own successor under the same key.
    work.tx.jobs.complete(job)
    HANDLERS[job.kind](work, job)
    if job.error is not None:
        generation_failures.clear(work, job)
