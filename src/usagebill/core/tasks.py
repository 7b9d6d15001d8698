"""Tasks: the work that jobs do, one class per kind. A job is a task that waits for its instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from typing import ClassVar

from usagebill.core.documents.files import DocumentKind, DocumentSubject
from usagebill.core.emails import EmailSubject
from usagebill.core.tax_providers import Purpose, TaxSubject


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The task of a job. `kind` is its name in stored rows, and never changes.

    `subject_field` names the field with the id of the job's subject. A task about a customer has the customer as its
    subject, so that a customer's backlog can be looked up. All other fields are the job's payload. `identity` names the
    fields besides the subject that distinguish two tasks of a kind; equal tasks share one waiting job.

    `leased`: talks to an outside service, or takes long, while no transaction is open; done at least once, not exactly
    once.
    `makes_invoices`: creates invoices of the customer that is its subject; a failure is shown by a failed invoice.
    """

    kind: ClassVar[str]
    subject_field: ClassVar[str]
    identity: ClassVar[tuple[str, ...]] = ()
    leased: ClassVar[bool] = False
    makes_invoices: ClassVar[bool] = False

    @property
    def key(self) -> str:
        """The kind, and the fields that distinguish the task from others of its kind."""
        named = self.identity or (self.subject_field,)
        return ":".join((self.kind, *(_text(getattr(self, name)) for name in named)))

    def job_key(self, job_id: str, due_at: datetime) -> str:
        """The key of a job for the task: no two waiting jobs have the same one."""
        return self.key


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return "+".join(value) if isinstance(value, tuple) else str(value)


def payload_of(task: Task) -> dict[str, object]:
    """The payload of a job for the task: all fields except the subject and fields with their default."""
    payload: dict[str, object] = {}
    for field in fields(task):
        value = getattr(task, field.name)
        if field.name == task.subject_field or (field.default is not MISSING and value == field.default):
            continue
        payload[field.name] = value.isoformat() if isinstance(value, datetime) else value
    return payload


# Subscriptions


@dataclass(frozen=True, slots=True, kw_only=True)
class _SubscriptionTask(Task):
    subject_field = "customer_id"
    identity = ("subscription_id",)

    customer_id: str
    subscription_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivateSubscription(_SubscriptionTask):
    """The local date of a future subscription has come."""

    kind = "activate_subscription"
    makes_invoices = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSubscription(_SubscriptionTask):
    """The local date of a subscription's `ending_at` has come."""

    kind = "end_subscription"
    makes_invoices = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTrial(_SubscriptionTask):
    """A trial is over."""

    kind = "end_trial"
    makes_invoices = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnounceTermination(_SubscriptionTask):
    """The end of a subscription is announced some days ahead."""

    kind = "announce_termination"


@dataclass(frozen=True, slots=True, kw_only=True)
class BillFixedChargeUnits(_SubscriptionTask):
    """Units were added to fixed charges paid in advance, at `timestamp`. Each such change is billed by itself."""

    kind = "bill_fixed_charge_units"
    makes_invoices = True

    fixed_charge_ids: tuple[str, ...]
    timestamp: datetime

    def job_key(self, job_id: str, due_at: datetime) -> str:
        return f"{self.key}:{job_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeNow(_SubscriptionTask):
    """A plan's amount has changed, so that a scheduled downgrade to it may have become an upgrade."""

    kind = "upgrade_now"
    makes_invoices = True

    plan_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckUsageThresholds(Task):
    """A subscription has new usage, or other thresholds (`thresholds_changed`): it may have passed one."""

    kind = "check_usage_thresholds"
    subject_field = "subscription_id"

    subscription_id: str
    thresholds_changed: bool = False

    def job_key(self, job_id: str, due_at: datetime) -> str:
        return f"{self.key}:thresholds" if self.thresholds_changed else self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAlerts(Task):
    """The values watched by a subscription's alerts may have changed; one such check waits, and one for
    `period_start`.
    """

    kind = "check_alerts"
    subject_field = "subscription_id"

    subscription_id: str
    period_start: datetime | None = None

    def job_key(self, job_id: str, due_at: datetime) -> str:
        return self.key if self.period_start is None else f"{self.key}:{self.period_start.isoformat()}"


# Customers


@dataclass(frozen=True, slots=True, kw_only=True)
class _CustomerTask(Task):
    subject_field = "customer_id"

    customer_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BillCustomer(_CustomerTask):
    """Something is to be billed to a customer. There is one job for each such instant."""

    kind = "bill_customer"
    makes_invoices = True

    def job_key(self, job_id: str, due_at: datetime) -> str:
        return f"{self.key}:{due_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndCustomer(_CustomerTask):
    """A customer was deleted."""

    kind = "end_customer"
    makes_invoices = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PostPast(_CustomerTask):
    """The documents of a customer are older than the ledger, and are to be posted."""

    kind = "post_past"


@dataclass(frozen=True, slots=True, kw_only=True)
class RescheduleCustomer(_CustomerTask):
    """The time zone of a customer has changed."""

    kind = "reschedule_customer"


@dataclass(frozen=True, slots=True, kw_only=True)
class RescheduleEntity(Task):
    """The time zone of a billing entity has changed."""

    kind = "reschedule_entity"
    subject_field = "billing_entity_id"

    billing_entity_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckVatNumber(_CustomerTask):
    """The registry is asked about a customer's VAT number."""

    kind = "check_vat_number"
    leased = True

    check_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshWallets(Task):
    """The ongoing balances of a customer's wallets may have changed.

    The subject is one of the wallets, not the customer, because a backlog of refreshes must not delay the customer's
    requests. One refresh waits; another with its own `as_of` if overdue work is done as of an earlier instant.
    """

    kind = "refresh_wallets"
    subject_field = "wallet_id"
    identity = ("customer_id",)

    wallet_id: str
    customer_id: str
    as_of: datetime | None = None

    def job_key(self, job_id: str, due_at: datetime) -> str:
        return self.key if self.as_of is None else f"{self.key}:{self.as_of.isoformat()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUpWallet(_CustomerTask):
    """Credits are to be added to a wallet: each source has at most one waiting order. `top_up` is the order."""

    kind = "top_up_wallet"
    identity = ("wallet_id", "source")

    wallet_id: str
    source: str
    top_up: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUpAtInterval(_CustomerTask):
    """The day on which a recurring rule tops up its wallet has come."""

    kind = "top_up_at_interval"
    identity = ("rule_id",)

    wallet_id: str
    rule_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceTopUp(_CustomerTask):
    """Credits were bought, and are to be invoiced."""

    kind = "invoice_top_up"
    identity = ("wallet_transaction_id",)

    wallet_transaction_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleTopUp(_CustomerTask):
    """A top-up invoice was paid, or its payment failed."""

    kind = "settle_top_up"
    identity = ("invoice_id", "payment_status")

    invoice_id: str
    payment_status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireWallet(_CustomerTask):
    """A wallet has expired."""

    kind = "expire_wallet"
    identity = ("wallet_id",)

    wallet_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSpendLimits(_CustomerTask):
    """Usage of a customer has come in, or a limit that was reached starts over at `resets_at`."""

    kind = "check_spend_limits"
    identity = ("customer_id", "resets_at")

    resets_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireHold(_CustomerTask):
    """A hold has expired, which is to be told."""

    kind = "expire_hold"
    identity = ("hold_id",)

    hold_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaseCustomer(_CustomerTask):
    """A customer may have to be asked to pay overdue amounts, according to a dunning campaign."""

    kind = "chase_customer"


# Plans


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAmountChanged(Task):
    """A plan's amount has changed."""

    kind = "plan_amount_changed"
    subject_field = "plan_id"

    plan_id: str
    old_amount_cents: int

    def job_key(self, job_id: str, due_at: datetime) -> str:
        return f"{self.key}:{job_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesTakeEffect(Task):
    """A day (ISO 8601) for which prices of a plan wait has come."""

    kind = "prices_take_effect"
    subject_field = "plan_id"
    identity = ("plan_id", "day")

    plan_id: str
    day: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndPlan(Task):
    """A plan is to be deleted, with its subscriptions."""

    kind = "end_plan"
    subject_field = "plan_id"

    plan_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavePlan(_CustomerTask):
    """A plan is to be deleted: one customer's subscriptions to it end."""

    kind = "leave_plan"
    identity = ("plan_id", "customer_id")
    makes_invoices = True

    plan_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireCoupon(Task):
    """The expiration date of a coupon has passed."""

    kind = "expire_coupon"
    subject_field = "coupon_id"

    coupon_id: str


# Invoices


@dataclass(frozen=True, slots=True, kw_only=True)
class _InvoiceTask(Task):
    subject_field = "customer_id"
    identity = ("invoice_id",)

    customer_id: str
    invoice_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeInvoice(_InvoiceTask):
    """The grace period of a draft has ended."""

    kind = "finalize_invoice"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshInvoice(_InvoiceTask):
    """A record that a draft shows has changed."""

    kind = "refresh_invoice"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOverdue(_InvoiceTask):
    """The due date of an unpaid invoice has passed."""

    kind = "mark_overdue"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxWaitingInvoices(_CustomerTask):
    """The taxes that a customer's invoices wait for may be known now."""

    kind = "tax_waiting_invoices"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimitedTaxes(Task):
    """An invoice failed because its tax provider's rate limit was exceeded."""

    kind = "retry_limited_taxes"
    subject_field = "invoice_id"

    invoice_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskTaxProvider(Task):
    """Ask a tax provider about a record: the invoice, fee or credit note with this id.

    `attempts` counts those without an answer so far. An invoice waits for `request_id`; a void is reported as
    `purpose`.
    """

    kind = "ask_tax_provider"
    subject_field = "subject_id"
    identity = ("subject", "subject_id")
    leased = True

    subject: TaxSubject
    subject_id: str
    request_id: str | None
    attempts: int
    purpose: Purpose | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewDunning(Task):
    """A dunning campaign, or its scope, has changed: customers with overdue invoices are checked.

    Those with ids up to `after` are done.
    """

    kind = "review_dunning"
    subject_field = "organization_id"
    identity = ("organization_id", "after")

    organization_id: str
    after: str = ""


# Documents and e-mails


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateDocuments(Task):
    """An issued invoice, credit note or receipt lacks documents."""

    kind = "generate_documents"
    subject_field = "subject_id"
    identity = ("subject_id", "kinds")
    leased = True

    subject: DocumentSubject
    subject_id: str
    kinds: tuple[DocumentKind, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendEmail(Task):
    """An invoice, credit note or receipt is sent by e-mail: to its customer, or, if that was `asked`, to these
    addresses.

    A requested e-mail is sent each time; one that follows from issuing, once. `reached` already have it.
    """

    kind = "send_email"
    subject_field = "subject_id"
    leased = True

    subject: EmailSubject
    subject_id: str
    message_id: str
    asked: bool
    to: tuple[str, ...] = ()
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    reached: tuple[str, ...] = ()

    def job_key(self, job_id: str, due_at: datetime) -> str:
        return f"{self.key}:{job_id}" if self.asked else self.key


# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEvents(Task):
    """Bill events that arrived together in advance: external subscription id -> transaction ids.

    `event_id` is that of the first one.
    """

    kind = "process_events"
    subject_field = "event_id"

    event_id: str
    events: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReceivedEvents(Task):
    """The events received in the hour that ends at `hour` are checked for properties that no aggregation can use."""

    kind = "check_received_events"
    subject_field = "organization_id"
    identity = ("hour",)

    organization_id: str
    hour: datetime


# Webhooks and the installation


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverWebhook(Task):
    """A webhook message is delivered, in the lane of its endpoint."""

    kind = "deliver_webhook"
    subject_field = "message_id"
    leased = True

    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanWebhookMessages(Task):
    """Old webhook messages are removed."""

    kind = "clean_webhook_messages"
    subject_field = "organization_id"

    organization_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanLogs(Task):
    """Log entries whose retention has ended are removed."""

    kind = "clean_logs"
    subject_field = "organization_id"

    organization_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseTraces(_CustomerTask):
    """A customer was anonymized, and logs and messages that name it are to be erased: by ids of its records, by
    `external_ids` (its former one and those of its subscriptions), or by the ids that payment providers gave it.

    Those up to `after` of the log with number `log` are done.
    """

    kind = "erase_traces"

    external_ids: tuple[str, ...]
    provider_ids: tuple[str, ...] = ()
    log: int = 0
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseProperties(_CustomerTask):
    """A customer was anonymized, and some properties are to be erased of its events of one subscription id and code.

    `start` and `end` bound their timestamps, inclusive (None: all of them); those before `since` are done.
    """

    kind = "erase_properties"
    identity = ("external_subscription_id", "code", "start")

    external_subscription_id: str
    code: str
    names: tuple[str, ...]
    start: datetime | None = None
    end: datetime | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseDocuments(Task):
    """The documents of anonymized customers are to be erased that have been kept long enough: customer by customer."""

    kind = "erase_documents"
    subject_field = "organization_id"

    organization_id: str
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveEvents(Task):
    """Events of billed periods that ended before `before` are to be removed, in the order of their ends: those up to
    `since`, and of that very instant those up to the period `after`, are done. `before` is None until it is begun. So
    many were `removed`, and the next time it begins `again` there, if something was kept.
    """

    kind = "remove_events"
    subject_field = "organization_id"

    organization_id: str
    before: datetime | None = None
    since: datetime | None = None
    after: str = ""
    removed: int = 0
    again: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetAnswers(Task):
    """Answers to requests with an idempotency key are removed once they are no longer given again."""

    kind = "forget_answers"
    subject_field = "organization_id"

    organization_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEuRates(Task):
    """A country of the European Union has another VAT rate from this day on."""

    kind = "change_eu_rates"
    subject_field = "organization_id"

    organization_id: str
