"""A billing run that fails for one customer bills all the others, and says which one failed and why."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner

from tests.money import share
from tests.scenarios import charge_on, plan_fields
from usagebill import Billing
from usagebill.cli import main
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.jobs import Job
from usagebill.http.api import Api, Request
from usagebill.http.app import routes
from usagebill.operations import api_keys
from usagebill.runtime.clock import ManualClock
from usagebill.storage.stores import store_at

START = datetime(2024, 1, 5, tzinfo=UTC)
RUN = datetime(2024, 2, 1, 0, 10, tzinfo=UTC)


@pytest.fixture
def file(empty_database: str) -> str:
    """Three customers on a plan with usage; what the second is charged for can no longer be priced."""
    with Billing(empty_database, clock=ManualClock(START), deliver=False) as billing:
        metric = billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
        for code in ("good", "bad"):
            billing.plans.create(**plan_fields(charge_on(metric.id, amount="2"), code=code, amount_cents=1000))
        for name, plan in (("one", "good"), ("two", "bad"), ("three", "good")):
            billing.subscriptions.create(external_customer_id=name, external_id=name, plan_code=plan)
            billing.events.create(transaction_id=name, code="calls", external_subscription_id=name)
    _price(empty_database, '{"amount": "a lot"}')
    return empty_database


def _execute(file: str, statement: str, *values: object) -> None:
    """Run a statement as another program could."""
    store = store_at(file)
    store.write(None, lambda tx: tx._connection.execute(statement, values))  # type: ignore[attr-defined]
    store.close()


def _price(file: str, properties: str) -> None:
    bad = "SELECT id FROM plans WHERE code = 'bad'"
    _execute(file, f"UPDATE charges SET properties = ? WHERE plan_id = ({bad})", properties)


def _timezone(file: str, name: str | None) -> None:
    """Where the days of every customer begin; it need not exist."""
    _execute(file, "UPDATE customers SET timezone = ?", name)


def _billed(billing: Billing) -> list[str]:
    """Who has an invoice that was issued."""
    names = {customer.id: customer.external_id for customer in billing.customers.list().items}
    issued = billing.invoices.list(status="finalized").items
    return sorted(names[invoice.customer_id] for invoice in issued)


def _failed(billing: Billing) -> list[Invoice]:
    return list(billing.invoices.list(status="failed").items)


def test_the_others_are_billed_and_nothing_is_left_half_made(file: str) -> None:
    failures: list[tuple[Job, Exception]] = []
    with Billing(file, clock=ManualClock(RUN), deliver=False) as billing:
        billing.run_due(on_failure=lambda job, problem: failures.append((job, problem)))
        assert _billed(billing) == ["one", "three"]
        failing_customer = billing.customers.get("two")
        assert [(job.kind, job.subject_id) for job, _ in failures] == [("bill_customer", failing_customer.id)]
        for kind in (BillingPeriod, Fee):
            kept = billing.reading(lambda work, kind=kind: work.tx.find(kind))  # type: ignore[misc]
            assert not [record for record in kept if getattr(record, "customer_id", None) == failing_customer.id]
        assert billing.reading(lambda work: work.tx.count(BillingPeriod)) == 2
        # It is tried again by itself, and still only its own customer waits.
        billing.clock.set(datetime(2024, 2, 1, 0, 11, tzinfo=UTC))  # type: ignore[attr-defined]
        billing.run_due(on_failure=lambda job, problem: failures.append((job, problem)))
        assert len(failures) == 2
        assert billing.audit().findings == ()


def test_what_was_mended_is_billed_as_on_its_day(file: str) -> None:
    with Billing(file, clock=ManualClock(RUN), deliver=False) as billing:
        billing.run_due()
    _price(file, '{"amount": "2"}')
    with Billing(file, clock=ManualClock(datetime(2024, 3, 3, tzinfo=UTC)), deliver=False) as billing:
        billing.run_due()
        invoices = billing.invoices.list_of_customer("two").items
        assert sorted(str(invoice.issuing_date) for invoice in invoices) == ["2024-02-01", "2024-03-01"]
        assert sorted(invoice.total_amount_cents for invoice in invoices) == [1000, share(1000, 27, 31) + 200]
        assert billing.audit().findings == ()


def _cli(*arguments: str, code: int) -> Any:
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_the_command_line_names_the_customer_the_reason_and_the_way_back(file: str) -> None:
    at = ("--at", "2024-02-01T00:10:00Z", "--db", file)
    ran = _cli("run-due", *at, code=1)
    (failed,) = ran["failed"]
    assert (failed["kind"], failed["external_customer_id"]) == ("bill_customer", "two")
    assert failed["error"]
    (listed,) = _cli("jobs", "list", "--db", file, code=0)
    assert (listed["id"], listed["external_customer_id"], listed["error"]) == (failed["id"], "two", failed["error"])
    result = CliRunner().invoke(main, ["jobs", "list", "--db", file])
    assert "two" in result.output
    _price(file, '{"amount": "2"}')
    assert _cli("jobs", "retry", failed["id"], "--db", file, code=0)["retried"] == [failed["id"]]
    again = _cli("run-due", "--db", file, code=0)
    assert again["failed"] == []
    assert _cli("jobs", "list", "--db", file, code=0) == []
    with Billing(file, deliver=False) as billing:
        assert "2024-02-01" in {str(item.issuing_date) for item in billing.invoices.list_of_customer("two").items}


def test_an_invoice_that_could_not_be_made_is_shown_as_failed_with_the_reason(file: str) -> None:
    with Billing(file, clock=ManualClock(RUN), deliver=False) as billing:
        billing.run_due()
        (invoice,) = _failed(billing)
        shown = billing.view(invoice)
        assert shown["customer"]["external_id"] == "two"
        (detail,) = shown["error_details"]
        assert detail["error_code"] == "invoice_generation_error"
        (waiting,) = billing.store.read(None, lambda tx: tx.jobs.failures())
        assert detail["details"] == {"invoice_generation_error": waiting.error}
        assert (shown["number"][-5:], shown["sequential_id"], shown["total_amount_cents"]) == ("DRAFT", None, 0)
        assert (shown["issuing_date"], shown["fees"]) == ("2024-02-01", [])
        # Another failure of the same run is the same invoice.
        billing.clock.set(datetime(2024, 2, 1, 0, 11, tzinfo=UTC))  # type: ignore[attr-defined]
        billing.run_due()
        assert [failed.id for failed in _failed(billing)] == [invoice.id]


def test_a_failed_invoice_is_made_when_it_is_tried_again(file: str) -> None:
    with Billing(file, clock=ManualClock(RUN), deliver=False) as billing:
        billing.run_due()
        (invoice,) = _failed(billing)
        assert billing.invoices.retry(invoice.id).status == "pending"
        billing.run_due()
        assert [failed.id for failed in _failed(billing)] == [invoice.id]
        _price(file, '{"amount": "2"}')
        billing.invoices.retry(invoice.id)
        billing.run_due()
        assert _failed(billing) == []
        (made,) = billing.invoices.list_of_customer("two").items
        assert (made.status, str(made.issuing_date), made.total_amount_cents) == (
            "finalized",
            "2024-02-01",
            share(1000, 27, 31) + 200,
        )
        assert billing.audit().findings == ()


def test_a_run_that_succeeds_by_itself_leaves_no_failed_invoice(file: str) -> None:
    with Billing(file, clock=ManualClock(RUN), deliver=False) as billing:
        billing.run_due()
        assert len(_failed(billing)) == 1
        _price(file, '{"amount": "2"}')
        billing.clock.set(datetime(2024, 2, 1, 0, 12, tzinfo=UTC))  # type: ignore[attr-defined]
        billing.run_due()
        assert _failed(billing) == []
        assert _billed(billing) == ["one", "three", "two"]


def test_what_a_request_catches_up_with_leaves_no_failed_invoice_either(file: str) -> None:
    with Billing(file, clock=ManualClock(RUN), deliver=False) as billing:
        billing.run_due()
        _price(file, '{"amount": "2"}')
        billing.subscriptions.terminate("two")
        assert _failed(billing) == []
        assert len(billing.invoices.list_of_customer("two").items) == 2


def test_a_draft_that_cannot_be_finalized_says_why_until_it_is(file: str) -> None:
    with Billing(file, clock=ManualClock(START), deliver=False) as billing:
        _price(file, '{"amount": "2"}')
        billing.customers.upsert(external_id="two", billing_configuration={"invoice_grace_period": 3})
        billing.run_due(RUN)
        (draft,) = billing.invoices.list(status="draft").items
        _timezone(file, "Nowhere")
        after = datetime(2024, 2, 6, tzinfo=UTC)
        billing.clock.set(after)  # type: ignore[attr-defined]
        billing.run_due()
        kept = billing.invoices.get(draft.id)
        assert [detail.error_code for detail in kept.error_details] == ["invoice_generation_error"]
        assert (kept.status, _failed(billing)) == ("draft", [])
        _timezone(file, None)
        finalized = billing.invoices.finalize(draft.id)
        assert (finalized.status, finalized.error_details) == ("finalized", ())


def test_over_http_the_reason_is_told_and_another_try_taken(file: str) -> None:
    with Billing(file, clock=ManualClock(RUN), deliver=False) as billing:
        billing.run_due()
        api = Api(billing, routes())
        _, key = billing.writing(lambda work: api_keys.create(work))

        def ask(method: str, path: str) -> Any:
            answer = api.answer(
                Request(method=method, path=path, query="", headers={"authorization": f"Bearer {key}"}, body=b"")
            )
            assert answer.status == 200, answer.body
            return json.loads(answer.body)

        (listed,) = [invoice for invoice in ask("GET", "/api/v1/invoices")["invoices"] if invoice["status"] == "failed"]
        shown = ask("GET", f"/api/v1/invoices/{listed['svc_id']}")["invoice"]
        assert shown["error_details"][0]["error_code"] == "invoice_generation_error"
        assert ask("POST", f"/api/v1/invoices/{listed['svc_id']}/retry")["invoice"]["status"] == "pending"


def _travel(billing: Billing, month: int, day: int, hour: int = 0, minute: int = 0) -> None:
    billing.clock.set(datetime(2024, month, day, hour, minute, tzinfo=UTC))  # type: ignore[attr-defined]
    billing.run_due()


def _standing(billing: Billing, customer: str) -> list[tuple[str, str, int]]:
    invoices = billing.invoices.list_of_customer(customer).items
    return [(str(invoice.issuing_date), invoice.status, invoice.total_amount_cents) for invoice in invoices]


def _opened(file: str, month: int, day: int, hour: int = 0, minute: int = 0) -> Billing:
    """The file as another process finds it, which has read no price yet."""
    return Billing(file, clock=ManualClock(datetime(2024, month, day, hour, minute, tzinfo=UTC)), deliver=False)


def test_nothing_is_billed_beyond_an_end_that_has_failed(file: str) -> None:
    with _opened(file, 1, 6) as billing:
        billing.subscriptions.update("two", ending_at="2024-01-20T00:00:00Z")
        for hour in range(20):
            _travel(billing, 1, 20, hour)
        assert _standing(billing, "two") == [("2024-01-20", "failed", 0)]
    _price(file, '{"amount": "2"}')
    # It is not tried any more by itself; the run of the month must not bill what the end will.
    with _opened(file, 2, 1, 0, 10) as billing:
        billing.run_due()
        assert billing.audit().findings == ()
        (failed,) = _failed(billing)
        _travel(billing, 2, 2)
        billing.invoices.retry(failed.id)
        billing.run_due()
        # 16 of the 31 days from the 5th on, and an event.
        assert _standing(billing, "two") == [("2024-01-20", "finalized", share(1000, 16, 31) + 200)]
        _travel(billing, 3, 5)
        assert len(_standing(billing, "two")) == 1
        assert billing.audit().findings == ()


def test_an_end_that_has_failed_keeps_its_day_when_the_time_zone_changes(file: str) -> None:
    with _opened(file, 1, 6) as billing:
        billing.subscriptions.update("two", ending_at="2024-01-20T00:00:00Z")
        _travel(billing, 1, 21)
        _travel(billing, 1, 25)
        billing.customers.upsert(external_id="two", timezone="Asia/Tokyo")
        billing.run_due()
    _price(file, '{"amount": "2"}')
    with _opened(file, 1, 27) as billing:
        billing.run_due()
        assert _standing(billing, "two") == [("2024-01-20", "finalized", share(1000, 16, 31) + 200)]


def test_a_customer_that_cannot_leave_a_deleted_plan_does_not_keep_the_others_on_it(file: str) -> None:
    with _opened(file, 1, 6) as billing:
        _execute(file, "UPDATE customers SET timezone = 'Nowhere' WHERE external_id = 'one'")
        billing.plans.delete("good")
        billing.run_due()
        _travel(billing, 1, 6, 0, 1)
        assert _standing(billing, "three") == [("2024-01-06", "finalized", share(1000, 2, 31) + 200)]
        (waiting,) = billing.store.read(None, lambda tx: tx.jobs.failures())
        assert (waiting.kind, waiting.subject_id) == ("leave_plan", billing.customers.get("one").id)
        assert billing.plans.list().total_count == 1
    _timezone(file, None)
    with _opened(file, 2, 1, 0, 10) as billing:
        billing.run_due()
        assert _standing(billing, "one") == [("2024-01-06", "finalized", share(1000, 2, 31) + 200)]


def test_the_end_of_a_deleted_customer_that_fails_is_shown_too(file: str) -> None:
    with _opened(file, 1, 6) as billing:
        billing.customers.delete("two")
        billing.run_due()
        (failed,) = _failed(billing)
        assert billing.view(failed)["customer"]["external_id"] == "two"
        _travel(billing, 2, 1, 0, 10)
        assert _billed(billing) == ["one", "three"]
    _price(file, '{"amount": "2"}')
    with _opened(file, 2, 3) as billing:
        billing.run_due()
        assert _failed(billing) == []
        ended = [item for item in billing.invoices.list().items if item.customer_id == failed.customer_id]
        assert [(str(invoice.issuing_date), invoice.total_amount_cents) for invoice in ended] == [
            ("2024-01-06", share(1000, 2, 31) + 200)
        ]


def test_a_customer_whose_run_failed_can_have_a_new_subscription(file: str) -> None:
    with _opened(file, 2, 1, 0, 10) as billing:
        billing.run_due()
        billing.subscriptions.create(external_customer_id="two", external_id="new", plan_code="good")
        assert billing.subscriptions.get("new").status == "active"
        # Existing records are changed only after they have been billed as they were.
        with pytest.raises(RuntimeError):
            billing.subscriptions.create(external_customer_id="two", external_id="two", plan_code="good")


def test_usage_billed_at_once_of_one_does_not_wait_for_that_of_another(empty_database: str) -> None:
    with _opened(empty_database, 1, 5) as billing:
        metric = billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
        for code in ("good", "bad"):
            charge = {"charge_model": "standard", "properties": {"amount": "2"}, "pay_in_advance": True}
            billing.plans.create(**plan_fields({"billable_metric_id": metric.id, **charge}, code=code))
            billing.subscriptions.create(external_customer_id=code, external_id=code, plan_code=code)
    _price(empty_database, '{"amount": "a lot"}')
    with _opened(empty_database, 1, 6) as billing:
        sent = [("bad", 1), ("good", 1), ("good", 2)]
        billing.events.ingest(
            {"transaction_id": f"{name}-{number}", "code": "calls", "external_subscription_id": name}
            for name, number in sent
        )
        billing.run_due()
        assert _standing(billing, "good") == []
        _travel(billing, 1, 6, 0, 1)
        assert _standing(billing, "good") == [("2024-01-06", "finalized", 200)] * 2
    _price(empty_database, '{"amount": "2"}')
    with _opened(empty_database, 1, 6, 1) as billing:
        billing.run_due()
        assert _standing(billing, "bad") == [("2024-01-06", "finalized", 200)]
        assert billing.audit().findings == ()


@pytest.mark.parametrize(
    "change", ["UPDATE customers SET timezone = 'Nowhere'", "UPDATE billing_entities SET net_payment_term = 1704067200"]
)
def test_a_failure_shows_whatever_its_cause(file: str, change: str) -> None:
    _execute(file, change)
    with _opened(file, 2, 1, 0, 10) as billing:
        billing.run_due()
        failed = _failed(billing)
        assert len(failed) == 3
        waiting = {job.id: job.error for job in billing.store.read(None, lambda tx: tx.jobs.failures())}
        for invoice in failed:
            (detail,) = invoice.error_details
            assert detail.details == {"invoice_generation_error": waiting[invoice.failed_job_id or ""]}
            assert billing.view(invoice)["status"] == "failed"
