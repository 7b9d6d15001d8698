"""The unit of work: what it commits, and that a dry run leaves nothing."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from tests.scenarios import Scenario
from usagebill.core.customers import Customer
from usagebill.core.tasks import DeliverWebhook, EndCustomer, EndPlan, LeavePlan
from usagebill.core.webhooks import WebhookMessage
from usagebill.operations import customers
from usagebill.operations.customers import CustomerInput
from usagebill.process.json_text import with_prefix
from usagebill.runtime.work import Work

pytestmark = pytest.mark.now("2024-01-31T00:00:00Z")


def test_a_job_of_a_kind_waits_once_for_its_subject(box: Scenario) -> None:
    def act(work: Work) -> list[bool]:
        soon, late = work.now + timedelta(days=1), work.now + timedelta(days=2)
        return [
            work.schedule(EndPlan(plan_id="one"), late),
            work.schedule(EndPlan(plan_id="one"), soon),
            work.schedule(EndPlan(plan_id="two"), late),
            work.schedule(EndCustomer(customer_id="one"), late),
            work.schedule(LeavePlan(customer_id="one", plan_id="a"), soon),
            work.schedule(LeavePlan(customer_id="one", plan_id="b"), soon),
        ]

    assert box.billing.writing(act) == [True, False, True, True, True, True]
    assert box.billing.next_due() == box.now + timedelta(days=1)


def test_only_what_is_due_at_this_very_instant_is_immediate(box: Scenario) -> None:
    def act(work: Work, delay: timedelta) -> bool:
        work.schedule(EndPlan(plan_id=str(delay)), work.now + delay)
        return bool(work.immediate_kinds)

    assert not box.billing.writing(lambda work: act(work, timedelta(microseconds=1)))
    assert box.billing.writing(lambda work: act(work, timedelta(0)))


def test_what_is_undone_leaves_nothing_but_its_result(box: Scenario) -> None:
    box.billing.webhook_endpoints.create(webhook_url="https://example.com/hooks")

    def tried(work: Work) -> tuple[str | None, int, int]:
        made = work.dry_run(lambda trial: customers.upsert(trial, CustomerInput(external_id="acme", name="Acme")))
        return made.name, work.tx.count(Customer), work.tx.count(WebhookMessage)

    assert box.billing.writing(tried) == ("Acme", 0, 0)
    assert box.webhooks == []


def test_what_goes_wrong_while_it_is_tried_goes_on(box: Scenario) -> None:
    def broken(work: Work) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        box.billing.writing(lambda work: work.dry_run(broken))


def test_messages_are_kept_for_those_who_listen(box: Scenario) -> None:
    def messages() -> int:
        return box.billing.reading(lambda work: work.tx.count(WebhookMessage))

    box.billing.customers.upsert(external_id="one")
    assert messages() == 0
    box.billing.webhook_endpoints.create(webhook_url="https://example.com/all")
    box.billing.webhook_endpoints.create(webhook_url="https://example.com/some", event_types=["invoice.created"])
    box.billing.customers.upsert(external_id="two")
    assert messages() == 1


def test_the_prefix_is_renamed_everywhere_but_in_what_callers_own() -> None:
    body = {"svc_id": "1", "items": [{"svc_plan_id": "2", "metadata": {"svc_id": "mine"}}]}
    assert with_prefix(body, "svc_", "my_") == {
        "my_id": "1",
        "items": [{"my_plan_id": "2", "metadata": {"svc_id": "mine"}}],
    }


def test_what_takes_long_is_drawn_while_no_transaction_is_open_and_once(box: Scenario) -> None:
    billing = box.billing
    drawn: list[str] = []

    def draw(name: str) -> bytes:
        # Waits for ever where the transaction that wants it is still open.
        billing.customers.upsert(external_id=f"made-meanwhile-{len(drawn)}")
        drawn.append(name)
        return name.encode()

    def change(work: Work) -> bytes:
        work.schedule(DeliverWebhook(message_id="x"), work.now + timedelta(days=1))
        return b"".join(work.drawn(name, partial(partial, draw, name)) for name in ("a", "b", "a"))

    assert billing.writing(change) == b"aba"
    assert drawn == ["a", "b"]
    assert billing.customers.list().total_count == 2
    assert billing.next_due() == box.now + timedelta(days=1)
