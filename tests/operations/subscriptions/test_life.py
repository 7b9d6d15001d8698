"""The life of a subscription: created, billed, changed, ended, as a caller of the API sees it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.money import share
from tests.scenarios import Scenario, charge_on, fixed_charge_on, windows


def webhooks(box: Scenario, *prefixes: str) -> list[str]:
    wanted = prefixes or ("subscription.", "invoice.created", "invoice.drafted")
    return [message["webhook_type"] for message in box.webhooks if message["webhook_type"].startswith(wanted)]


def test_arrears_bill_the_days_of_the_first_month_and_then_whole_months() -> None:
    with Scenario(now="2024-02-04T10:00:00Z") as box:
        box.plan(amount_cents=5_000_000)
        assert box.subscribe()["status"] == "active"
        assert box.invoices() == []
        box.travel_to("2024-04-01T00:10:00Z")
        first, second = box.invoices()
        assert first["fees_amount_cents"] == share(5_000_000, 26, 29)
        assert first["issuing_date"] == "2024-03-01"
        assert windows(first) == [("2024-02-04T00:00:00Z", "2024-02-29T23:59:59Z")]
        assert first["billing_periods"][0]["charges_from_datetime"] == "2024-02-04T10:00:00Z"
        assert second["fees_amount_cents"] == 5_000_000
        assert webhooks(box) == ["subscription.started", "invoice.created", "invoice.created"]


def test_in_advance_bills_at_the_start_and_at_each_renewal() -> None:
    with Scenario(now="2024-01-17T10:00:00Z") as box:
        box.plan(amount_cents=10_000, pay_in_advance=True)
        box.subscribe()
        (first,) = box.invoices()
        assert first["fees_amount_cents"] == share(10_000, 15, 31)
        assert first["billing_periods"][0]["invoicing_reason"] == "subscription_starting"
        box.travel_to("2024-02-01T00:10:00Z")
        second = box.invoices()[1]
        assert windows(second) == [("2024-02-01T00:00:00Z", "2024-02-29T23:59:59Z")]
        assert second["billing_periods"][0]["charges_to_datetime"] == "2024-01-31T23:59:59Z"


def test_a_future_subscription_waits_for_its_local_date() -> None:
    with Scenario(now="2023-08-20T00:00:00Z") as box:
        box.customer(timezone="America/Bogota")
        box.plan(amount_cents=10_000, pay_in_advance=True)
        assert box.subscribe(subscription_at="2023-08-25T10:00:00Z")["status"] == "pending"
        box.get("/subscriptions/sub", status=404)
        box.travel_to("2023-08-25T04:59:00Z")
        assert box.get("/subscriptions/sub?status=pending")["subscription"]["started_at"] is None
        box.travel_to("2023-08-25T05:00:00Z")
        shown = box.get("/subscriptions/sub")["subscription"]
        assert shown["started_at"] == "2023-08-25T05:00:00.000Z"
        assert len(box.invoices()) == 1


def test_a_past_start_is_billed_by_the_next_run_only() -> None:
    with Scenario(now="2024-03-10T00:00:00Z") as box:
        box.plan(amount_cents=10_000)
        assert box.subscribe(subscription_at="2023-11-15T00:00:00Z")["started_at"] == "2023-11-15T00:00:00.000Z"
        box.travel_to("2024-03-31T23:00:00Z")
        assert box.invoices() == []
        box.travel_to("2024-04-01T00:10:00Z")
        assert [windows(invoice) for invoice in box.invoices()] == [[("2024-03-01T00:00:00Z", "2024-03-31T23:59:59Z")]]


def test_the_same_plan_again_changes_nothing() -> None:
    with Scenario(now="2024-01-17T10:00:00Z") as box:
        box.plan(amount_cents=10_000)
        first = box.subscribe()
        assert box.subscribe(name="Other")["svc_id"] == first["svc_id"]
        assert webhooks(box) == ["subscription.started"]


def test_an_upgrade_ends_the_old_plan_the_day_before() -> None:
    with Scenario(now="2023-08-01T00:00:00Z") as box:
        box.plan(amount_cents=100)
        box.plan(code="pro", amount_cents=100)
        box.subscribe()
        box.travel_to("2023-08-21T12:00:00Z")
        upgraded = box.subscribe("pro")
        assert (upgraded["plan_code"], upgraded["previous_plan_code"]) == ("pro", "basic")
        (closing,) = box.invoices()
        assert closing["fees_amount_cents"] == 65
        assert webhooks(box) == [
            "subscription.started",
            "subscription.terminated",
            "subscription.started",
            "invoice.created",
        ]
        box.travel_to("2023-09-01T00:10:00Z")
        assert box.invoices()[1]["fees_amount_cents"] == 35


def test_an_upgrade_before_the_run_of_its_day_keeps_the_closed_period() -> None:
    with Scenario(now="2024-05-10T00:00:00Z") as box:
        box.plan(amount_cents=3100)
        box.plan(code="pro", amount_cents=6200)
        box.subscribe()
        box.jump_to("2024-06-01T00:04:00Z")
        box.subscribe("pro")
        (change,) = box.invoices()
        assert windows(change) == [("2024-05-10T00:00:00Z", "2024-05-31T23:59:59Z")]
        assert change["fees_amount_cents"] == share(3100, 22, 31)
        box.travel_to("2024-07-01T00:10:00Z")
        assert box.invoices()[1]["fees_amount_cents"] == 6200


@pytest.mark.parametrize("grace", [0, 3])
def test_nothing_is_due_in_advance_for_a_period_that_an_upgrade_leaves_to_the_new_plan(grace: int) -> None:
    """Fee of 31.00 and fixed charges of 31.00 a month in advance, 100.00 at least; from 1 June on 62.00 in arrears."""
    with Scenario(now="2024-05-01T00:00:00Z") as box:
        box.customer(billing_configuration={"invoice_grace_period": grace})
        seat = {**fixed_charge_on(box.add_on("seat", 1000), amount="31", units=1), "prorated": True}
        least = {"amount_cents": 10000}
        box.plan(
            amount_cents=3100,
            pay_in_advance=True,
            fixed_charges=[{**seat, "pay_in_advance": True}],
            minimum_commitment=least,
        )
        box.plan(code="pro", amount_cents=6200, minimum_commitment=least, fixed_charges=[seat])
        box.subscribe()
        box.jump_to("2024-06-01T00:04:00Z")
        box.subscribe("pro")
        box.travel_to("2024-07-10T00:00:00Z")
        start, change, july = box.invoices()
        assert [invoice["fees_amount_cents"] for invoice in (start, change, july)] == [6200, 3800, 10000]
        assert box.get("/credit_notes")["credit_notes"] == []
        assert box.billing.audit().findings == ()


def test_nothing_is_due_in_advance_either_while_the_run_of_a_start_entered_that_day_is_to_come() -> None:
    """Fixed charges of 31.00 a month in advance, usage of November for 5.00; entered on 1 December at 09:20, with its
    run at 10:10.
    """
    with Scenario(now="2024-12-01T09:20:00Z") as box:
        box.customer()
        seat = fixed_charge_on(box.add_on("seat", 1000), amount="31", units=1)
        calls = charge_on(box.metric("calls", "count_agg"), amount="5")
        box.plan(calls, amount_cents=0, fixed_charges=[{**seat, "pay_in_advance": True}])
        box.plan(code="pro", amount_cents=6200)
        box.subscribe(subscription_at="2024-11-10T00:00:00Z")
        box.events("calls", {"at": datetime(2024, 11, 20, tzinfo=UTC).timestamp()})
        box.jump_to("2024-12-01T09:30:00Z")
        box.subscribe("pro")
        box.travel_to("2025-01-01T00:10:00Z")
        change, january = box.invoices()
        assert [(fee["item"]["type"], fee["amount_cents"]) for fee in change["fees"] if fee["amount_cents"]] == [
            ("charge", 500)
        ]
        assert january["fees_amount_cents"] == 6200
        assert box.get("/credit_notes")["credit_notes"] == []
        assert box.billing.audit().findings == ()


def test_a_downgrade_waits_for_the_end_of_the_period() -> None:
    with Scenario(now="2024-05-10T00:00:00Z") as box:
        box.plan(amount_cents=6200)
        box.plan(code="small", amount_cents=3000, pay_in_advance=True)
        box.subscribe()
        current = box.subscribe("small")
        assert (current["plan_code"], current["next_plan_code"]) == ("basic", "small")
        assert current["downgrade_plan_date"] == "2024-06-01"
        box.travel_to("2024-06-01T00:10:00Z")
        (invoice,) = box.invoices()
        reasons = {
            period["invoicing_reason"]: period["subscription_from_datetime"] for period in invoice["billing_periods"]
        }
        assert reasons == {
            "subscription_terminating": "2024-05-10T00:00:00Z",
            "subscription_starting": "2024-06-01T00:00:00Z",
        }
        assert sorted(fee["amount_cents"] for fee in invoice["fees"]) == [3000, share(6200, 22, 31)]
        assert box.get("/subscriptions/sub")["subscription"]["plan_code"] == "small"


def test_a_canceled_downgrade_never_happens() -> None:
    with Scenario(now="2024-05-10T00:00:00Z") as box:
        box.plan(amount_cents=10_000)
        box.plan(code="small", amount_cents=3000)
        box.subscribe()
        box.subscribe("small")
        canceled = box.delete("/subscriptions/sub?status=pending")["subscription"]
        assert canceled["status"] == "canceled"
        box.travel_to("2024-06-01T00:10:00Z")
        assert box.get("/subscriptions/sub")["subscription"]["plan_code"] == "basic"


def test_a_termination_bills_the_used_days() -> None:
    with Scenario(now="2022-03-01T00:00:00Z") as box:
        box.plan(amount_cents=100)
        box.subscribe()
        box.travel_to("2022-03-20T12:00:00Z")
        assert box.delete("/subscriptions/sub")["subscription"]["status"] == "terminated"
        (invoice,) = box.invoices()
        assert invoice["fees_amount_cents"] == 65
        assert invoice["billing_periods"][0]["invoicing_reason"] == "subscription_terminating"
        box.travel_to("2022-06-01T00:00:00Z")
        assert len(box.invoices()) == 1


def test_a_termination_without_an_invoice() -> None:
    with Scenario(now="2022-03-01T00:00:00Z") as box:
        box.plan(amount_cents=10_000)
        box.subscribe()
        box.travel_to("2022-03-20T12:00:00Z")
        box.delete("/subscriptions/sub?on_termination_invoice=skip")
        assert box.invoices() == []


@pytest.mark.parametrize(("zone", "issued"), [("Europe/Paris", "2023-09-06"), ("America/Bogota", "2023-09-05")])
def test_an_ending_date_ends_the_subscription_on_that_local_date(zone: str, issued: str) -> None:
    with Scenario(now="2023-09-05T00:00:00Z") as box:
        box.customer(timezone=zone)
        box.plan(amount_cents=1000)
        box.subscribe(billing_time="anniversary", ending_at="2023-09-06T00:00:00Z")
        box.travel_to("2023-09-07T00:00:00Z")
        (invoice,) = box.invoices()
        assert (invoice["fees_amount_cents"], invoice["issuing_date"]) == (67, issued)


def test_an_ending_date_on_a_boundary_bills_exactly_the_closed_period() -> None:
    with Scenario(now="2023-09-05T00:00:00Z") as box:
        box.customer(timezone="Europe/Paris")
        box.plan(amount_cents=1000)
        box.subscribe(billing_time="anniversary", ending_at="2023-10-05T00:00:00Z")
        box.travel_to("2023-10-09T00:00:00Z")
        (invoice,) = box.invoices()
        assert (invoice["fees_amount_cents"], invoice["issuing_date"]) == (1000, "2023-10-05")


def test_a_month_without_a_worker_gives_the_same_invoices() -> None:
    def live(days_apart: bool) -> list[tuple[object, ...]]:
        with Scenario(now="2024-01-17T10:00:00Z") as box:
            box.plan(amount_cents=10_000, pay_in_advance=True)
            box.subscribe()
            if days_apart:
                for day in range(1, 29):
                    box.travel_to(f"2024-02-{day:02d}T12:00:00Z")
            box.jump_to("2024-03-01T12:00:00Z")
            box.run_due()
            return [
                (invoice["number"].rpartition("-")[2], invoice["issuing_date"], invoice["created_at"], windows(invoice))
                for invoice in box.invoices()
            ]

    assert live(days_apart=True) == live(days_apart=False)


def test_what_was_due_while_no_worker_ran_is_billed_before_an_end() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.plan(amount_cents=10_000)
        box.subscribe()
        box.jump_to("2024-03-10T00:00:00Z")
        box.delete("/subscriptions/sub")
        assert [(invoice["issuing_date"], invoice["fees_amount_cents"]) for invoice in box.invoices()] == [
            ("2024-02-01", 10_000),
            ("2024-03-01", 10_000),
            ("2024-03-10", share(10_000, 10, 31)),
        ]


def test_a_trial_is_free_and_its_end_is_billed() -> None:
    with Scenario(now="2024-03-05T12:12:00Z") as box:
        box.plan(amount_cents=5_000_000, pay_in_advance=True, trial_period=10)
        box.subscribe()
        assert box.invoices() == []
        box.travel_to("2024-03-15T13:00:00Z")
        (invoice,) = box.invoices()
        assert invoice["fees_amount_cents"] == share(5_000_000, 17, 31)
        assert box.get("/subscriptions/sub")["subscription"]["trial_ended_at"] == "2024-03-15T12:12:00Z"
        assert "subscription.trial_ended" in webhooks(box)


def test_a_grace_period_keeps_the_invoice_a_draft() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.plan(amount_cents=10_000)

        box.subscribe()
        _set_grace_period(box, 3)
        box.travel_to("2024-02-01T00:10:00Z")
        (draft,) = box.invoices()
        assert (draft["status"], draft["issuing_date"], draft["sequential_id"]) == ("draft", "2024-02-04", None)
        assert draft["number"].endswith("-DRAFT")
        box.travel_to("2024-02-04T00:20:00Z")
        (final,) = box.invoices()
        assert (final["status"], final["issuing_date"], final["sequential_id"]) == ("finalized", "2024-02-04", 1)
        assert [kind for kind in webhooks(box, "invoice.") if "overdue" not in kind] == [
            "invoice.drafted",
            "invoice.ready_to_finalize",
            "invoice.created",
        ]


def _set_grace_period(box: Scenario, days: int) -> None:
    from dataclasses import replace
    from typing import Any

    from usagebill.core.customers import Customer

    def change(work: Any) -> None:
        customer = work.tx.first(Customer)
        work.tx.replace(replace(customer, invoice_grace_period=days))

    box.billing.writing(change)


@pytest.mark.parametrize(
    ("fields", "status", "details"),
    [
        ({"plan_code": "none"}, 404, None),
        ({"billing_entity_code": "none"}, 404, None),
        ({"subscription_at": "soon"}, 422, {"subscription_at": ["invalid_date"]}),
        ({"subscription_at": 12}, 422, {"subscription_at": ["invalid_date"]}),
        ({"ending_at": "2024-01-17T23:00:00Z"}, 422, {"ending_at": ["invalid_date"]}),
        ({"external_customer_id": " "}, 422, {"external_customer_id": ["value_is_mandatory"]}),
        ({"external_id": ""}, 422, {"external_id": ["value_is_mandatory"]}),
        ({"billing_time": "sometimes"}, 422, {"billing_time": ["value_is_invalid"]}),
        ({"billing_time": ""}, 422, {"billing_time": ["value_is_mandatory"]}),
        ({"payment_method": {"payment_method_type": "cash"}}, 422, {"payment_method": ["invalid_payment_method"]}),
        ({"activation_rules": "payment"}, 422, {"activation_rules": ["invalid_format"]}),
        ({"activation_rules": [{"type": "luck"}]}, 422, {"activation_rules": ["invalid_type"]}),
        ({"activation_rules": [{"type": "payment"}] * 2}, 422, {"activation_rules": ["duplicated_type"]}),
        (
            {"activation_rules": [{"type": "payment", "timeout_hours": -1}]},
            422,
            {"timeout_hours": ["value_must_be_positive_or_zero"]},
        ),
        ({"activation_rules": [{"type": "payment"}]}, 422, {"customer": ["no_linked_payment_provider"]}),
        ({"external_customer_id": "other"}, 422, {"external_id": ["value_already_exist"]}),
    ],
)
def test_requests_that_are_refused(fields: dict[str, object], status: int, details: object) -> None:
    with Scenario(now="2024-01-17T10:00:00Z") as box:
        box.plan(amount_cents=10_000)
        box.subscribe()
        body = {"external_customer_id": "acme", "external_id": "sub", "plan_code": "basic"}
        if "billing_time" in fields or "ending_at" in fields:
            body["external_id"] = "another"
        answer = box.post("/subscriptions", status=status, subscription={**body, **fields})
        assert answer.get("error_details") == details
