"""The activity log: written from the changes of a unit of work, in its transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from usagebill.core.activity_logs import (
    LARGEST_PLAN,
    ActivityLog,
    ActivitySource,
    Change,
    applied_coupon_activities,
    changed_fields,
    changed_values,
    credit_note_activities,
    definition_activities,
    invoice_activities,
    receipt_activities,
    record_activities,
    subscription_activities,
    wallet_transaction_activities,
)
from usagebill.core.add_ons import AddOn
from usagebill.core.alerts import Alert
from usagebill.core.api_logs import without_secrets
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.coupons import AppliedCoupon, Coupon
from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import Customer
from usagebill.core.dunning import DunningCampaign
from usagebill.core.emails import WITH_LINK, EmailSubject
from usagebill.core.entitlements import Feature, PlanEntitlement, PlanFeature, SubscriptionEntitlement
from usagebill.core.errors import NotFound
from usagebill.core.invoice_custom_sections import InvoiceCustomSection
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.payment_requests import PaymentRequest
from usagebill.core.payments import Payment
from usagebill.core.plans import Charge, FixedCharge, Plan
from usagebill.core.recurring_rules import RecurringTransactionRule
from usagebill.core.spend_limits import SpendLimit
from usagebill.core.subscriptions import Subscription
from usagebill.core.tasks import SendEmail
from usagebill.core.taxes import Tax
from usagebill.core.wallet_transactions import WalletTransaction
from usagebill.core.wallets import Wallet
from usagebill.process.json_text import encode_json
from usagebill.queries.customers import customer_of, find_customer
from usagebill.queries.filters import log_span
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import desc, eq, within
from usagebill.storage.ports import Page
from usagebill.views.add_ons import add_on_view
from usagebill.views.alerts import alert_view
from usagebill.views.billable_metrics import billable_metric_view
from usagebill.views.billing_entities import billing_entity_view
from usagebill.views.coupons import applied_coupon_view, coupon_view
from usagebill.views.credit_notes import credit_note_of_customer
from usagebill.views.customers import customer_summary
from usagebill.views.dunning_campaigns import dunning_campaign_view
from usagebill.views.entitlements import feature_view, plan_entitlement_view
from usagebill.views.invoice_custom_sections import section_view
from usagebill.views.invoices import invoice_summary
from usagebill.views.payment_receipts import payment_receipt_view
from usagebill.views.payment_requests import payment_request_view
from usagebill.views.payments import payment_view
from usagebill.views.plans import charge_view, fixed_charge_view, plan_summary
from usagebill.views.spend_limits import spend_limit_view
from usagebill.views.subscriptions import subscription_view
from usagebill.views.taxes import tax_view
from usagebill.views.wallet_transactions import wallet_transaction_view
from usagebill.views.wallets import wallet_view

View = Callable[[Reader, Any], Mapping[str, Any]]


# Links below this path open a document for anybody who has them.
_DOCUMENTS = "/documents/"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Logged:
    """How a kind of record is logged; `resource` gives the id that its activities are about, by default its own."""

    resource_type: str
    activities: Callable[[Any, Any], Sequence[str]]
    view: View
    resource: Callable[[Any], str] = lambda record: str(record.id)


def _plan(reader: Reader, plan: Plan) -> Mapping[str, Any]:
    """A plan without its charges if they are many."""
    shown: dict[str, Any] = {**plan_summary(reader, plan)}
    charges = shown.get("charges", ())
    most_charges, most_filters = LARGEST_PLAN
    if len(charges) > most_charges or sum(len(charge["filters"]) for charge in charges) > most_filters:
        del shown["charges"]
    return shown


# Totals of a wallet's transactions, which are activities themselves, and values written by a balance refresh.
_BALANCES = frozenset(
    {
        "balance_cents",
        "credits_balance",
        "consumed_credits",
        "last_consumed_credit_at",
        "ongoing_balance_cents",
        "ongoing_usage_balance_cents",
        "credits_ongoing_balance",
        "credits_ongoing_usage_balance",
        "depleted_ongoing_balance",
        "last_balance_sync_at",
    }
)
_MEASURED = frozenset({"previous_value", "last_processed_at", "measured_subscription_id", "measured_from"})

LOGGED: Mapping[type, _Logged] = {
    AddOn: _Logged(resource_type="AddOn", activities=definition_activities("add_on"), view=add_on_view),
    Alert: _Logged(
        resource_type="Alert", activities=definition_activities("alert", ignoring=_MEASURED), view=alert_view
    ),
    AppliedCoupon: _Logged(
        resource_type="Coupon",
        activities=applied_coupon_activities,
        view=applied_coupon_view,
        resource=lambda applied: applied.coupon_id,
    ),
    BillableMetric: _Logged(
        resource_type="BillableMetric",
        activities=definition_activities("billable_metric"),
        view=billable_metric_view,
    ),
    BillingEntity: _Logged(
        resource_type="BillingEntity", activities=definition_activities("billing_entities"), view=billing_entity_view
    ),
    Coupon: _Logged(resource_type="Coupon", activities=definition_activities("coupon"), view=coupon_view),
    CreditNote: _Logged(resource_type="CreditNote", activities=credit_note_activities, view=credit_note_of_customer),
    Customer: _Logged(resource_type="Customer", activities=definition_activities("customer"), view=customer_summary),
    DunningCampaign: _Logged(
        resource_type="DunningCampaign",
        activities=definition_activities("dunning_campaign"),
        view=dunning_campaign_view,
    ),
    Feature: _Logged(resource_type="Feature", activities=definition_activities("feature"), view=feature_view),
    Invoice: _Logged(resource_type="Invoice", activities=invoice_activities, view=invoice_summary),
    InvoiceCustomSection: _Logged(
        resource_type="InvoiceCustomSection",
        activities=definition_activities("invoice_custom_section"),
        view=section_view,
    ),
    Payment: _Logged(
        resource_type="Invoice",
        activities=lambda old, new: ("payment.recorded",) if old is None and new.is_manual else (),
        view=payment_view,
        resource=lambda payment: payment.invoice_id or payment.payment_request_id,
    ),
    PaymentReceipt: _Logged(resource_type="PaymentReceipt", activities=receipt_activities, view=payment_receipt_view),
    PaymentRequest: _Logged(
        resource_type="PaymentRequest",
        activities=lambda old, new: ("payment_request.created",) if old is None else (),
        view=payment_request_view,
    ),
    Plan: _Logged(
        resource_type="Plan", activities=definition_activities("plan", deleted="pending_deletion"), view=_plan
    ),
    SpendLimit: _Logged(
        resource_type="SpendLimit", activities=definition_activities("spend_limit"), view=spend_limit_view
    ),
    Subscription: _Logged(resource_type="Subscription", activities=subscription_activities, view=subscription_view),
    Tax: _Logged(resource_type="Tax", activities=definition_activities("tax"), view=tax_view),
    Wallet: _Logged(
        resource_type="Wallet", activities=record_activities("wallet", ignoring=_BALANCES), view=wallet_view
    ),
    WalletTransaction: _Logged(
        resource_type="Wallet",
        activities=wallet_transaction_activities,
        view=wallet_transaction_view,
        resource=lambda transaction: transaction.wallet_id,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A kind of record that is a part of another: a change of it is an `activity` of that record, in the field `name`.

    Changes of ignored fields alone are not logged.
    """

    whole: type
    whole_id: Callable[[Any], str]
    activity: str
    name: str
    view: View
    ignoring: frozenset[str] = frozenset()

    def is_changed(self, change: Change) -> bool:
        """Whether the change is to be logged."""
        return change.old is None or change.new is None or not changed_fields(change.old, change.new) <= self.ignoring


def _rule(_: Reader, rule: RecurringTransactionRule) -> Mapping[str, Any]:
    return {
        "svc_id": rule.id,
        "status": rule.status,
        "trigger": rule.trigger,
        "method": rule.method,
        "interval": rule.interval,
        "threshold_credits": str(rule.threshold_credits),
        "paid_credits": str(rule.paid_credits),
        "granted_credits": str(rule.granted_credits),
    }


def _entitlement(reader: Reader, entitlement: PlanEntitlement | SubscriptionEntitlement) -> Mapping[str, Any]:
    """An entitlement with the code of its feature and its values."""
    feature = reader.tx.get(Feature, entitlement.feature_id, deleted=True)
    shown: dict[str, Any] = {"code": None if feature is None else feature.code}
    if isinstance(entitlement, PlanEntitlement):
        return {**shown, "privileges": dict(entitlement.values)}
    change = entitlement.change
    return {
        **shown,
        "privileges": dict(change.values),
        "removed": change.is_removed,
        "removed_privileges": list(change.removed_privileges),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Granted:
    """A feature as a plan has it: changes of the feature itself are changes of the plan's entitlements."""

    feature: Feature
    entitlement: PlanEntitlement


def _granted(reader: Reader, granted: _Granted) -> Mapping[str, Any]:
    values, since = granted.entitlement.values, granted.entitlement.created_at
    return {**plan_entitlement_view(reader, PlanFeature(feature=granted.feature, values=values, since=since))}


PARTS: Mapping[type, _Part] = {
    Charge: _Part(
        whole=Plan, whole_id=lambda charge: charge.plan_id, activity="plan.updated", name="charges", view=charge_view
    ),
    FixedCharge: _Part(
        whole=Plan,
        whole_id=lambda charge: charge.plan_id,
        activity="plan.updated",
        name="fixed_charges",
        view=fixed_charge_view,
    ),
    PlanEntitlement: _Part(
        whole=Plan,
        whole_id=lambda entitlement: entitlement.plan_id,
        activity="plan.updated",
        name="entitlements",
        view=_entitlement,
    ),
    SubscriptionEntitlement: _Part(
        whole=Subscription,
        whole_id=lambda entitlement: entitlement.subscription_id,
        activity="subscription.updated",
        name="entitlements",
        view=_entitlement,
    ),
    RecurringTransactionRule: _Part(
        whole=Wallet,
        whole_id=lambda rule: rule.wallet_id,
        activity="wallet.updated",
        name="recurring_transaction_rules",
        view=_rule,
    ),
}

# The parts as stored, and features as plans have them, whose changes follow from those of the feature.
_KINDS_OF_PARTS: Mapping[type, _Part] = {
    **PARTS,
    _Granted: _Part(
        whole=Plan,
        whole_id=lambda granted: granted.entitlement.plan_id,
        activity="plan.updated",
        name="entitlements",
        view=_granted,
    ),
}

# A record by its kind and its id.
_Named = tuple[type, str]


def record(work: Work, changes: Sequence[Change], written_at: datetime) -> None:
    """Log the changes of this unit of work, as of its instant."""
    parts: dict[_Named, list[Change]] = {}
    whole: dict[_Named, Change] = {}
    for change in (*changes, *_changed_features(work, changes)):
        kind = type(change.record)
        if kind in LOGGED:
            whole[kind, change.record.id] = change
        elif kind in _KINDS_OF_PARTS and _KINDS_OF_PARTS[kind].is_changed(change):
            parts.setdefault((_KINDS_OF_PARTS[kind].whole, _KINDS_OF_PARTS[kind].whole_id(change.record)), []).append(
                change
            )
    for kind, id in parts.keys() - whole.keys():
        unchanged = work.tx.get(kind, id, deleted=True)
        if unchanged is not None:
            whole[kind, id] = Change(unchanged, unchanged)
    for named, change in whole.items():
        if isinstance(change.record, Plan) and _follows_its_parent(change, whole):
            continue
        _log(work, change, parts.get(named, ()), written_at)


def _changed_features(reader: Reader, changes: Sequence[Change]) -> Iterator[Change]:
    """Changes of features as changes of each plan that shows them, unless the plan's own values change too."""
    changed_ids = {change.record.id for change in changes if isinstance(change.record, PlanEntitlement)}
    for change in changes:
        if not isinstance(change.record, Feature) or change.old is None or change.new is None:
            continue
        if change.new.deleted_at is not None:
            continue
        for entitlement in reader.tx.find(PlanEntitlement, eq("feature_id", change.new.id)):
            before, after = (_Granted(feature=its, entitlement=entitlement) for its in (change.old, change.new))
            if entitlement.id not in changed_ids and _granted(reader, before) != _granted(reader, after):
                yield Change(before, after)


def _follows_its_parent(change: Change, whole: Mapping[_Named, Change]) -> bool:
    """Whether a change of an override comes with that of its subscription or parent, which is logged instead."""
    plan: Plan = change.record
    return plan.parent_id is not None and (change.old is None or (Plan, plan.parent_id) in whole)


def _log(work: Work, change: Change, parts: Sequence[Change], written_at: datetime) -> None:
    logged = LOGGED[type(change.record)]
    types = tuple(logged.activities(change.old, change.new))
    if parts and not types:
        types = (_KINDS_OF_PARTS[type(parts[0].record)].activity,)
    if not types:
        return
    after = logged.view(work, change.record)
    differences: dict[str, Any] = {}
    if any("updated" in activity for activity in types):
        differences = {**changed_values(logged.view(work, change.old), after), **_changed_parts(work, parts)}
    shown, changed, unchanged = _text(after), _text(differences), "{}"
    customer_id = getattr(change.record, "customer_id", None)
    customer = (
        change.record if isinstance(change.record, Customer) else customer_id and find_customer(work, customer_id)
    )
    for activity in types:
        is_update = "updated" in activity
        if is_update and not differences:
            # Only invisible fields have changed.
            continue
        work.tx.insert(
            ActivityLog(
                id=work.new_id(),
                organization_id=work.organization.id,
                activity_type=activity,
                activity_source=work.actor.source,
                activity_object=shown,
                activity_object_changes=changed if is_update else unchanged,
                resource_id=logged.resource(change.record),
                resource_type=_resource_type(logged, change.record),
                external_customer_id=customer.external_id if customer else None,
                external_subscription_id=_external_subscription_id(change.record),
                api_key_id=None if work.actor.api_key is None else work.actor.api_key.id,
                user_email=work.actor.user_email,
                request_id=work.actor.request_id,
                logged_at=work.now,
                written_at=written_at,
            )
        )


def anonymized(work: Work, customer: Customer) -> None:
    """Log that a customer was anonymized, as it is afterwards."""
    if work.settings.activity_log_days == 0:
        return
    actor = work.actor
    work.tx.insert(
        ActivityLog(
            id=work.new_id(),
            organization_id=work.organization.id,
            activity_type="customer.anonymized",
            activity_source=actor.source,
            activity_object=_text(customer_summary(work, customer)),
            activity_object_changes="{}",
            resource_id=customer.id,
            resource_type=LOGGED[Customer].resource_type,
            external_customer_id=customer.external_id,
            api_key_id=None if actor.api_key is None else actor.api_key.id,
            user_email=actor.user_email,
            request_id=actor.request_id,
            logged_at=work.now,
            written_at=work.now if work.clock is None else work.clock(),
        )
    )


_EMAILED: Mapping[EmailSubject, type] = {
    EmailSubject.INVOICE: Invoice,
    EmailSubject.CREDIT_NOTE: CreditNote,
    EmailSubject.PAYMENT_RECEIPT: PaymentReceipt,
    EmailSubject.PAYMENT_REQUEST: PaymentRequest,
    EmailSubject.USAGE_LEVEL: Alert,
}


def _text(value: Mapping[str, Any]) -> str:
    """The JSON of a record, without the links that would let a reader of the log open its documents."""
    text = encode_json(value).decode()
    return text if _DOCUMENTS not in text else encode_json(without_secrets(value, frozenset())).decode()


def email_sent(work: Work, task: SendEmail, written_at: datetime) -> None:
    """Log that the mail server has accepted an e-mail about a record; the security log has links to sign in."""
    if task.subject in WITH_LINK:
        return
    kind = _EMAILED[task.subject]
    subject = work.tx.get(kind, task.subject_id)
    if work.settings.activity_log_days == 0 or subject is None:
        return
    logged = LOGGED[kind]
    work.tx.insert(
        ActivityLog(
            id=work.new_id(),
            organization_id=work.organization.id,
            activity_type="email.sent",
            activity_source=work.actor.source,
            activity_object=_text(logged.view(work, subject)),
            activity_object_changes="{}",
            resource_id=logged.resource(subject),
            resource_type=logged.resource_type,
            external_customer_id=customer_of(work, subject).external_id,
            logged_at=work.now,
            written_at=written_at,
        )
    )


def _resource_type(logged: _Logged, record: object) -> str:
    if isinstance(record, Payment) and record.invoice_id is None:
        return "PaymentRequest"
    return logged.resource_type


def _changed_parts(work: Work, parts: Sequence[Change]) -> dict[str, list[Any]]:
    """By field, the parts that changed, as they were and as they are."""
    changed: dict[str, list[Any]] = {}
    for change in parts:
        part = _KINDS_OF_PARTS[type(change.record)]
        before, after = changed.setdefault(part.name, [[], []])
        for state, shown in ((change.old, before), (change.new, after)):
            if state is not None and getattr(state, "deleted_at", None) is None:
                shown.append(part.view(work, state))
    return changed


def _external_subscription_id(record: object) -> str | None:
    if isinstance(record, Subscription):
        return record.external_id
    return record.external_subscription_id if isinstance(record, (Alert, SpendLimit)) else None


# Listed


@Input
class ActivityFilters:
    """All filters must match, each with any of its values. The bounds of `logged_at` are inclusive."""

    from_date: Maybe[str] = ABSENT
    to_date: Maybe[str] = ABSENT
    activity_types: Maybe[tuple[str, ...]] = described("Only these types of change.", example=["customer.created"])
    activity_sources: Maybe[tuple[str, ...]] = described(
        "Only changes from these sources.", values=tuple(ActivitySource)
    )
    user_emails: Maybe[tuple[str, ...]] = described("Only changes by users of the console with these addresses.")
    external_customer_id: Maybe[str] = ABSENT
    external_subscription_id: Maybe[str] = ABSENT
    resource_ids: Maybe[tuple[str, ...]] = described("Only those of these records, by id.")
    resource_types: Maybe[tuple[str, ...]] = described("Only those of records of these types.", example=["Invoice"])


def list_all(reader: Reader, options: ActivityFilters, paging: Paging) -> Page[ActivityLog]:
    """The activities of the last `Settings.listed_log_days` days, newest first. Raises `Invalid` for bad dates."""
    conditions = log_span(reader, options.from_date, options.to_date, reader.settings.listed_log_days)
    for column, values in (
        ("activity_type", options.activity_types),
        ("activity_source", options.activity_sources),
        ("resource_id", options.resource_ids),
        ("resource_type", options.resource_types),
        ("user_email", options.user_emails),
    ):
        if values:
            conditions.append(within(column, values))
    if options.external_customer_id:
        conditions.append(eq("external_customer_id", options.external_customer_id))
    if options.external_subscription_id:
        conditions.append(eq("external_subscription_id", options.external_subscription_id))
    return reader.page(ActivityLog, *conditions, paging=paging, order=(desc("logged_at"),))


def get(reader: Reader, activity_id: str) -> ActivityLog:
    """The activity with this id, while it is kept. Raises `NotFound`."""
    activity = reader.tx.get(ActivityLog, activity_id)
    if activity is None:
        raise NotFound("activity_log", activity_id)
    return activity
