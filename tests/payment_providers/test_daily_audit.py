"""Payments are compared with their provider's books every day, and what differs is seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.payment_providers.test_lives import Life, living
from tests.payment_servers.adyen import AdyenServer
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario
from usagebill import Billing
from usagebill.core.monitoring_tasks import CompareWithProviders
from usagebill.core.provider_requests import ProviderErrand
from usagebill.http.metrics import Metrics
from usagebill.operations import provider_audits
from usagebill.operations.standing import Standing, standing
from usagebill.process.settings import Settings
from usagebill.runtime.clock import ManualClock
from usagebill.worker import Worker

pytestmark = pytest.mark.now("2024-03-05T12:00:00Z")


def seen(box: Scenario) -> Standing:
    return standing(box.billing.store, box.now)


def begin(box: Scenario) -> None:
    """What a worker does when it starts."""
    box.billing.writing(provider_audits.schedule)


def charged(life: Life, stripe: StripeServer) -> Any:
    life.notice(stripe.card_added("cus_1", "pm_1"))
    life.invoice()
    return stripe.intents[next(iter(stripe.intents))]


def test_a_difference_is_counted_logged_and_a_problem_until_it_is_gone(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        begin(box)
        intent = charged(life, stripe)
        stripe.intents["pi_stranger"] = {**intent, "amount": 700, "metadata": {}}
        assert (seen(box).provider_audits, seen(box).problems(timedelta(days=1))) == ((), [])
        with capture_logs() as logs:
            box.travel_to("2024-03-06T07:00:00Z")
        (audit,) = seen(box).provider_audits
        assert (audit.connection_code, audit.differences, audit.failure) == ("main", 1, None)
        assert audit.compared_at == datetime(2024, 3, 6, 6, tzinfo=UTC)
        (problem,) = seen(box).problems(timedelta(days=1))
        assert problem == "1 payments differ from main: see `usagebill audit --provider main`"
        (log,) = [entry for entry in logs if entry["event"] == "provider_differs"]
        assert (log["provider_payment"], log["reason"]) == (
            "pi_stranger",
            "700 EUR succeeded there, and are not known here",
        )
        metrics = Metrics(box.billing, "key").text().decode()
        labels = f'{{connection="main",organization="{box.billing.organization.id}"}}'
        assert f"usagebill_provider_differences{labels} 1.0" in metrics
        assert f"usagebill_provider_audit_failed{labels} 0.0" in metrics
        assert f"usagebill_provider_audit_timestamp_seconds{labels} 1.7097048e+09" in metrics
        del stripe.intents["pi_stranger"]
        box.travel_to("2024-03-07T07:00:00Z")
        assert seen(box).provider_audits == (replace(audit, differences=0, compared_at=audit.compared_at + DAY),)
        assert seen(box).problems(timedelta(days=1)) == []


DAY = timedelta(days=1)


def test_books_that_cannot_be_had_are_a_problem_and_are_asked_for_again_the_next_day(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        begin(box)
        charged(life, stripe)
        box.billing.payment_connections.update("main", secret_key="sk_test_revoked")
        box.travel_to("2024-03-06T07:00:00Z")
        (audit,) = seen(box).provider_audits
        assert audit.failure is not None
        assert seen(box).problems(DAY) == [f"payments were not compared with main: {audit.failure}"]
        box.billing.payment_connections.update("main", secret_key=stripe.credentials["secret_key"])
        box.travel_to("2024-03-07T07:00:00Z")
        assert (seen(box).provider_audits[0].failure, seen(box).problems(DAY)) == (None, [])


def test_a_charge_whose_notice_may_be_on_its_way_is_no_difference(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        begin(box)
        life.notice(stripe.card_added("cus_1", "pm_1"))
        box.travel_to("2024-03-06T05:30:00Z")
        stripe.outcomes.append("processing")
        invoice = life.invoice()
        stripe.intents[next(iter(stripe.intents))]["status"] = "succeeded"
        box.travel_to("2024-03-06T06:10:00Z")
        assert [audit.differences for audit in seen(box).provider_audits] == [0]
        assert life.reread(invoice)["payment_status"] == "pending"


def test_what_was_under_way_before_there_were_look_ups_is_looked_up_too(box: Scenario) -> None:
    adyen, stripe = AdyenServer(now=lambda: box.now), StripeServer(now=lambda: box.now)
    with adyen, living(box, stripe) as life:
        begin(box)
        life.notice(stripe.card_added("cus_1", "pm_1"))
        stripe.outcomes.append("processing")
        invoice = life.invoice()
        (payment,) = life.payments()
        key = f"ask_payment_provider:{ProviderErrand.LOOK_UP_CHARGE}:{payment['svc_id']}"
        box.billing.writing(lambda work: work.tx.jobs.cancel(key))
        stripe.intents[next(iter(stripe.intents))]["status"] = "succeeded"
        box.travel_to("2024-03-06T07:00:00Z")
        assert life.reread(invoice)["payment_status"] == "pending"
        box.travel_to("2024-03-07T13:00:00Z")
        life.assert_paid(invoice)


@pytest.mark.parametrize(("days", "is_scheduled"), [(30, True), (0, False)])
def test_a_worker_begins_it_unless_it_is_switched_off(days: int, is_scheduled: bool) -> None:
    clock = ManualClock(datetime(2024, 3, 5, 12, tzinfo=UTC))
    with Billing(clock=clock, settings=Settings(provider_audit_days=days), deliver=False) as billing:
        with Worker(billing):
            pass
        key = CompareWithProviders(organization_id=billing.organization.id).key
        job = billing.store.read(billing.organization.id, lambda tx: tx.jobs.get(key))
        assert (None if job is None else job.due_at) == (datetime(2024, 3, 6, 6, tzinfo=UTC) if is_scheduled else None)
