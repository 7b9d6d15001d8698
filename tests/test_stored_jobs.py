"""Jobs as stored in files: every later version can read and run them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from usagebill import Billing
from usagebill.core.documents.files import DocumentKind, DocumentSubject
from usagebill.core.emails import Email, EmailSubject
from usagebill.core.jobs import Job
from usagebill.core.monitoring_tasks import CompareWithProviders, CountUnbilledEvents
from usagebill.core.payment_tasks import AskPaymentProvider, CollectPayment, ExpireActivation, SettleActivation
from usagebill.core.provider_requests import PayableType, ProviderErrand
from usagebill.core.sync_connections import PushDocument
from usagebill.core.tasks import (
    ActivateSubscription,
    AnnounceTermination,
    AskTaxProvider,
    BillCustomer,
    BillFixedChargeUnits,
    ChangeEuRates,
    ChaseCustomer,
    CheckAlerts,
    CheckReceivedEvents,
    CheckSpendLimits,
    CheckUsageThresholds,
    CheckVatNumber,
    CleanLogs,
    CleanWebhookMessages,
    DeliverWebhook,
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
    GenerateDocuments,
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
    SendEmail,
    SettleTopUp,
    Task,
    TaxWaitingInvoices,
    TopUpAtInterval,
    TopUpWallet,
    UpgradeNow,
)
from usagebill.core.tax_providers import Purpose, TaxSubject
from usagebill.operations.jobs import HANDLERS
from usagebill.outside.handlers import CALLS, OUTSIDE
from usagebill.runtime.clock import ManualClock
from usagebill.storage.jobs import job_of, task_of

DUE = datetime(2024, 2, 1, 10, tzinfo=UTC)
OF_SUBSCRIPTION = {"customer_id": "cus", "subscription_id": "sub"}
OF_INVOICE = {"customer_id": "cus", "invoice_id": "inv"}

TOP_UP: Mapping[str, object] = {
    "paid": "10",
    "granted": "0",
    "source": "threshold",
    "rule_id": "rule",
    "ignore_limits": False,
    "requires_payment": True,
    "priority": 50,
    "name": None,
    "metadata": [],
    "purchase_order_number": None,
    "payment_method": None,
    "sections": {"skip": False, "section_ids": []},
}

# A task, and the subject, key, payload and lane that its job has in stored files. These never change.
STORED: list[tuple[Task, str, str, str, str]] = [
    (
        ActivateSubscription(**OF_SUBSCRIPTION),
        "cus",
        "activate_subscription:sub",
        '{"subscription_id":"sub"}',
        "",
    ),
    (EndSubscription(**OF_SUBSCRIPTION), "cus", "end_subscription:sub", '{"subscription_id":"sub"}', ""),
    (EndTrial(**OF_SUBSCRIPTION), "cus", "end_trial:sub", '{"subscription_id":"sub"}', ""),
    (AnnounceTermination(**OF_SUBSCRIPTION), "cus", "announce_termination:sub", '{"subscription_id":"sub"}', ""),
    (
        BillFixedChargeUnits(
            **OF_SUBSCRIPTION, fixed_charge_ids=("one", "two"), timestamp=datetime(2024, 1, 15, 12, 0, 0, 5000, UTC)
        ),
        "cus",
        "bill_fixed_charge_units:sub:job",
        '{"subscription_id":"sub","fixed_charge_ids":["one","two"],"timestamp":"2024-01-15T12:00:00.005000+00:00"}',
        "",
    ),
    (
        UpgradeNow(**OF_SUBSCRIPTION, plan_id="plan"),
        "cus",
        "upgrade_now:sub",
        '{"plan_id":"plan","subscription_id":"sub"}',
        "",
    ),
    (CheckUsageThresholds(subscription_id="sub"), "sub", "check_usage_thresholds:sub", "{}", ""),
    (
        CheckUsageThresholds(subscription_id="sub", thresholds_changed=True),
        "sub",
        "check_usage_thresholds:sub:thresholds",
        '{"thresholds_changed":true}',
        "",
    ),
    (CheckAlerts(subscription_id="sub"), "sub", "check_alerts:sub", "{}", ""),
    (
        CheckAlerts(subscription_id="sub", period_start=datetime(2024, 2, 1, tzinfo=UTC)),
        "sub",
        "check_alerts:sub:2024-02-01T00:00:00+00:00",
        '{"period_start":"2024-02-01T00:00:00+00:00"}',
        "",
    ),
    (
        ExpireActivation(customer_id="cus", subscription_id="sub"),
        "cus",
        "expire_activation:sub",
        '{"subscription_id":"sub"}',
        "",
    ),
    (
        SettleActivation(customer_id="cus", invoice_id="inv", payment_status="succeeded"),
        "cus",
        "settle_activation:inv:succeeded",
        '{"invoice_id":"inv","payment_status":"succeeded"}',
        "",
    ),
    (BillCustomer(customer_id="cus"), "cus", "bill_customer:cus:2024-02-01T10:00:00Z", "{}", ""),
    (EndCustomer(customer_id="cus"), "cus", "end_customer:cus", "{}", ""),
    (PostPast(customer_id="cus"), "cus", "post_past:cus", "{}", ""),
    (RescheduleCustomer(customer_id="cus"), "cus", "reschedule_customer:cus", "{}", ""),
    (RescheduleEntity(billing_entity_id="ent"), "ent", "reschedule_entity:ent", "{}", ""),
    (
        RefreshWallets(wallet_id="wal", customer_id="cus"),
        "wal",
        "refresh_wallets:cus",
        '{"customer_id":"cus"}',
        "",
    ),
    (
        RefreshWallets(wallet_id="wal", customer_id="cus", as_of=datetime(2024, 2, 1, tzinfo=UTC)),
        "wal",
        "refresh_wallets:cus:2024-02-01T00:00:00+00:00",
        '{"customer_id":"cus","as_of":"2024-02-01T00:00:00+00:00"}',
        "",
    ),
    (
        TopUpWallet(customer_id="cus", wallet_id="wal", source="threshold", top_up=TOP_UP),
        "cus",
        "top_up_wallet:wal:threshold",
        '{"wallet_id":"wal","source":"threshold","top_up":{"paid":"10","granted":"0","source":"threshold",'
        '"rule_id":"rule","ignore_limits":false,"requires_payment":true,"priority":50,"name":null,"metadata":[],'
        '"purchase_order_number":null,"payment_method":null,"sections":{"skip":false,"section_ids":[]}}}',
        "",
    ),
    (
        TopUpAtInterval(customer_id="cus", wallet_id="wal", rule_id="rule"),
        "cus",
        "top_up_at_interval:rule",
        '{"wallet_id":"wal","rule_id":"rule"}',
        "",
    ),
    (
        InvoiceTopUp(customer_id="cus", wallet_transaction_id="tra"),
        "cus",
        "invoice_top_up:tra",
        '{"wallet_transaction_id":"tra"}',
        "",
    ),
    (
        SettleTopUp(customer_id="cus", invoice_id="inv", payment_status="succeeded"),
        "cus",
        "settle_top_up:inv:succeeded",
        '{"invoice_id":"inv","payment_status":"succeeded"}',
        "",
    ),
    (CheckSpendLimits(customer_id="cus"), "cus", "check_spend_limits:cus:None", "{}", ""),
    (
        CheckSpendLimits(customer_id="cus", resets_at=datetime(2024, 3, 1, tzinfo=UTC)),
        "cus",
        "check_spend_limits:cus:2024-03-01T00:00:00+00:00",
        '{"resets_at":"2024-03-01T00:00:00+00:00"}',
        "",
    ),
    (ExpireHold(customer_id="cus", hold_id="hold"), "cus", "expire_hold:hold", '{"hold_id":"hold"}', ""),
    (ExpireWallet(customer_id="cus", wallet_id="wal"), "cus", "expire_wallet:wal", '{"wallet_id":"wal"}', ""),
    (
        CheckVatNumber(customer_id="cus", check_id="check"),
        "cus",
        "check_vat_number:cus",
        '{"check_id":"check"}',
        "check_vat_number",
    ),
    (
        PlanAmountChanged(plan_id="plan", old_amount_cents=500),
        "plan",
        "plan_amount_changed:plan:job",
        '{"old_amount_cents":500}',
        "",
    ),
    (
        PricesTakeEffect(plan_id="plan", day="2024-04-01"),
        "plan",
        "prices_take_effect:plan:2024-04-01",
        '{"day":"2024-04-01"}',
        "",
    ),
    (EndPlan(plan_id="plan"), "plan", "end_plan:plan", "{}", ""),
    (LeavePlan(customer_id="cus", plan_id="plan"), "cus", "leave_plan:plan:cus", '{"plan_id":"plan"}', ""),
    (ExpireCoupon(coupon_id="cou"), "cou", "expire_coupon:cou", "{}", ""),
    (FinalizeInvoice(**OF_INVOICE), "cus", "finalize_invoice:inv", '{"invoice_id":"inv"}', ""),
    (RefreshInvoice(**OF_INVOICE), "cus", "refresh_invoice:inv", '{"invoice_id":"inv"}', ""),
    (MarkOverdue(**OF_INVOICE), "cus", "mark_overdue:inv", '{"invoice_id":"inv"}', ""),
    (TaxWaitingInvoices(customer_id="cus"), "cus", "tax_waiting_invoices:cus", "{}", ""),
    (RetryLimitedTaxes(invoice_id="inv"), "inv", "retry_limited_taxes:inv", "{}", ""),
    (
        AskTaxProvider(subject=TaxSubject.INVOICE, subject_id="inv", request_id="request", attempts=2, purpose=None),
        "inv",
        "ask_tax_provider:invoice:inv",
        '{"subject":"invoice","request_id":"request","attempts":2,"purpose":null}',
        "ask_tax_provider",
    ),
    (
        AskTaxProvider(subject=TaxSubject.VOID, subject_id="inv", request_id=None, attempts=0, purpose=Purpose.NEGATE),
        "inv",
        "ask_tax_provider:void:inv",
        '{"subject":"void","request_id":null,"attempts":0,"purpose":"negate"}',
        "ask_tax_provider",
    ),
    (
        CollectPayment(payable_type=PayableType.INVOICE, payable_id="inv", method_kind="provider", method_id="pm"),
        "inv",
        "collect_payment:inv",
        '{"payable_type":"Invoice","method_kind":"provider","method_id":"pm"}',
        "collect_payment",
    ),
    (
        AskPaymentProvider(errand=ProviderErrand.CREATE_CUSTOMER, subject_id="cus", request_key="key", attempts=2),
        "cus",
        "ask_payment_provider:create_customer:cus",
        '{"errand":"create_customer","request_key":"key","attempts":2}',
        "ask_payment_provider",
    ),
    (
        AskPaymentProvider(
            errand=ProviderErrand.RELEASE_HOLD,
            subject_id="auth-cus-r1",
            connection_id="con",
            provider_customer_id="cus_1",
            provider_payment_id="pi_1",
            since=DUE,
        ),
        "auth-cus-r1",
        "ask_payment_provider:release_hold:auth-cus-r1",
        '{"errand":"release_hold","connection_id":"con","provider_customer_id":"cus_1","provider_payment_id":"pi_1",'
        '"since":"2024-02-01T10:00:00+00:00"}',
        "ask_payment_provider",
    ),
    (
        GenerateDocuments(
            subject=DocumentSubject.CREDIT_NOTE, subject_id="note", kinds=(DocumentKind.XML, DocumentKind.PDF)
        ),
        "note",
        "generate_documents:note:xml+pdf",
        '{"subject":"credit_note","kinds":["xml","pdf"]}',
        "generate_documents",
    ),
    (
        SendEmail(subject=EmailSubject.INVOICE, subject_id="inv", message_id="<m@example.com>", asked=False),
        "inv",
        "send_email:inv",
        '{"subject":"invoice","message_id":"<m@example.com>","asked":false}',
        "send_email",
    ),
    (
        SendEmail(
            subject=EmailSubject.CREDIT_NOTE,
            subject_id="note",
            message_id="<m@example.com>",
            asked=True,
            to=("a@example.com",),
            cc=("b@example.com",),
            bcc=("c@example.com",),
            reached=("b@example.com",),
        ),
        "note",
        "send_email:note:job",
        '{"subject":"credit_note","message_id":"<m@example.com>","asked":true,"to":["a@example.com"],'
        '"cc":["b@example.com"],"bcc":["c@example.com"],"reached":["b@example.com"]}',
        "send_email",
    ),
    (
        ProcessEvents(event_id="event", events={"acme": ("one", "two"), "zeta": ("three",)}),
        "event",
        "process_events:event",
        '{"events":{"acme":["one","two"],"zeta":["three"]}}',
        "",
    ),
    (
        CheckReceivedEvents(organization_id="org", hour=datetime(2024, 2, 1, 9, tzinfo=UTC)),
        "org",
        "check_received_events:2024-02-01T09:00:00+00:00",
        '{"hour":"2024-02-01T09:00:00+00:00"}',
        "",
    ),
    (DeliverWebhook(message_id="message"), "message", "deliver_webhook:message", "{}", "deliver_webhook/endpoint"),
    (PushDocument(document_id="document"), "document", "push_document:document", "{}", "push_document"),
    (
        EraseTraces(customer_id="cus", external_ids=("acme", "sub"), provider_ids=("cus_1",), log=2, after="log"),
        "cus",
        "erase_traces:cus",
        '{"external_ids":["acme","sub"],"provider_ids":["cus_1"],"log":2,"after":"log"}',
        "",
    ),
    (
        EraseProperties(
            customer_id="cus",
            external_subscription_id="sub",
            code="calls",
            names=("user",),
            start=DUE,
            end=DUE,
            since=DUE,
        ),
        "cus",
        "erase_properties:sub:calls:2024-02-01T10:00:00+00:00",
        '{"external_subscription_id":"sub","code":"calls","names":["user"]'
        ',"start":"2024-02-01T10:00:00+00:00","end":"2024-02-01T10:00:00+00:00","since":"2024-02-01T10:00:00+00:00"}',
        "",
    ),
    (EraseDocuments(organization_id="org", after="cus"), "org", "erase_documents:org", '{"after":"cus"}', ""),
    (CleanLogs(organization_id="org"), "org", "clean_logs:org", "{}", ""),
    (ForgetAnswers(organization_id="org"), "org", "forget_answers:org", "{}", ""),
    (
        RemoveEvents(organization_id="org", before=DUE, since=DUE, after="period", removed=3, again=DUE),
        "org",
        "remove_events:org",
        '{"before":"2024-02-01T10:00:00+00:00","since":"2024-02-01T10:00:00+00:00","after":"period","removed":3'
        ',"again":"2024-02-01T10:00:00+00:00"}',
        "",
    ),
    (
        CountUnbilledEvents(organization_id="org"),
        "org",
        "count_unbilled_events:org",
        "{}",
        "count_unbilled_events",
    ),
    (
        CountUnbilledEvents(organization_id="org", counted={"property_missing": 2}),
        "org",
        "count_unbilled_events:org",
        '{"counted":{"property_missing":2}}',
        "count_unbilled_events",
    ),
    (
        CompareWithProviders(organization_id="org", compared_at=DUE, differences={"main": 2}, failures={"gc": "no"}),
        "org",
        "compare_with_providers:org",
        '{"compared_at":"2024-02-01T10:00:00+00:00","differences":{"main":2},"failures":{"gc":"no"}}',
        "compare_with_providers",
    ),
    (CleanWebhookMessages(organization_id="org"), "org", "clean_webhook_messages:org", "{}", ""),
    (ChangeEuRates(organization_id="org"), "org", "change_eu_rates:org", "{}", ""),
    (ChaseCustomer(customer_id="cus"), "cus", "chase_customer:cus", "{}", ""),
    (
        ReviewDunning(organization_id="org", after="cus"),
        "org",
        "review_dunning:org:cus",
        '{"after":"cus"}',
        "",
    ),
]
NAMED = {f"{row[0].kind}-{position}": row for position, row in enumerate(STORED)}


class Nobody:
    """A mailer that nothing is given to."""

    def send(self, email: Email) -> Mapping[str, str]:
        raise AssertionError(email)


def opened(file: Path) -> Billing:
    return Billing(file, clock=ManualClock(DUE), mailer=Nobody())


def keep(file: Path, organization_id: str, *rows: tuple[Task, str, str, str, str]) -> None:
    with sqlite3.connect(file) as connection:
        connection.executemany(
            "INSERT INTO jobs (id, organization_id, kind, subject_id, key, due_at, run_at, created_at, immediate, lane,"
            " payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)",
            [
                (f"job-{number}", organization_id, task.kind, subject_id, key, *[DUE.isoformat()] * 3, lane, payload)
                for number, (task, subject_id, key, payload, lane) in enumerate(rows)
            ],
        )
    connection.close()


def test_a_stored_row_of_every_kind_is_known() -> None:
    assert {row[0].kind for row in STORED} == {*HANDLERS, *OUTSIDE, *CALLS, DeliverWebhook.kind}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Billing]]:
    file = tmp_path_factory.mktemp("jobs") / "billing.db"
    with opened(file) as billing:
        yield file, billing


@pytest.fixture
def idle(shared: tuple[Path, Billing]) -> tuple[Path, Billing]:
    """A file without jobs, and what has it open."""
    with closing(sqlite3.connect(shared[0])) as connection, connection:
        connection.execute("DELETE FROM jobs")
    return shared


@pytest.mark.parametrize("name", NAMED)
def test_a_stored_job_is_read_as_its_task(idle: tuple[Path, Billing], name: str) -> None:
    file, billing = idle
    row = NAMED[name]
    organization_id = billing.organization.id
    keep(file, organization_id, row)
    job = billing.store.read(organization_id, lambda tx: tx.jobs.get(row[2]))
    assert job is not None
    assert task_of(type(row[0]), job) == row[0]


@pytest.mark.parametrize("name", NAMED)
def test_a_task_is_stored_as_it_always_was(idle: tuple[Path, Billing], name: str) -> None:
    file, billing = idle
    task, subject_id, key, payload, lane = NAMED[name]
    organization_id = billing.organization.id
    job = job_of(
        task,
        id="job",
        organization_id=organization_id,
        due_at=DUE,
        created_at=DUE,
        lane=lane if isinstance(task, DeliverWebhook) else None,
    )
    billing.store.write(organization_id, lambda tx: tx.jobs.add(job))
    with closing(sqlite3.connect(file)) as connection:
        columns = "kind, subject_id, key, lane, payload"
        ((*plain, stored),) = connection.execute(f"SELECT {columns} FROM jobs").fetchall()
    assert plain == [task.kind, subject_id, key, lane]
    assert json.loads(stored) == json.loads(payload)


def test_stored_jobs_of_every_kind_run_and_are_done_where_nothing_is_left_to_do(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    # Wallets and their transactions stay for ever: for these, something is always left to do.
    # Unbilled events are counted every day, and payments compared.
    lasting = (TopUpWallet, InvoiceTopUp, TopUpAtInterval, ExpireWallet, CountUnbilledEvents, CompareWithProviders)
    with opened(file) as billing:
        keep(file, billing.organization.id, *(row for row in STORED if not isinstance(row[0], lasting)))
        billing.run_due(strict=True)
        assert billing.next_due() is None


def test_a_payload_that_is_none_of_its_kind_is_refused_by_name() -> None:
    job = Job(
        id="job",
        organization_id="org",
        kind="mark_overdue",
        subject_id="cus",
        key="mark_overdue:inv",
        due_at=DUE,
        run_at=DUE,
        created_at=DUE,
        payload={"invoice_id": 5},
    )
    with pytest.raises(ValueError, match=r"the payload of a mark_overdue job: .*invoice_id"):
        task_of(MarkOverdue, job)
