"""Billable metrics: definitions that make sense, and what changing or deleting one does to charges and drafts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.builders import add_charge, add_draft, add_period, add_plan
from tests.json_asserts import for_programs, missing, refused
from tests.scenarios import Scenario

from usagebill.core.invoices.records import Invoice
from usagebill.core.plans import Charge, ChargeFilter
from usagebill.operations import customers
from usagebill.runtime.work import Work

NOW = datetime(2024, 3, 5, tzinfo=UTC)

pytestmark = pytest.mark.now(NOW)


def metric(**fields: object) -> dict[str, object]:
    return {
        "billable_metric": {
            "name": "Storage",
            "code": "storage",
            "aggregation_type": "sum_agg",
            "field_name": "gb",
            **fields,
        }
    }


def create(box: Scenario, **fields: object) -> dict[str, Any]:
    shown: dict[str, Any] = box.ask("POST", "/billable_metrics", metric(**fields))["billable_metric"]
    return shown


def put_on_a_plan(box: Scenario, metric_id: str, *filters: dict[str, tuple[str, ...]], draft: bool = False) -> Charge:
    """A plan with one charge on the metric, with a filter for each of `filters`; a draft that bills it, if asked."""

    def act(work: Work) -> Charge:
        plan = add_plan(work)
        stored = {"properties": {"amount": "2"}, "created_at": work.now, "updated_at": work.now}
        made = tuple(ChargeFilter(id=work.new_id(), values=values, **stored) for values in filters)  # type: ignore[arg-type]
        charge = add_charge(work, plan_id=plan.id, billable_metric_id=metric_id, filters=made)
        if draft:
            customer = customers.upsert(work, customers.CustomerInput(external_id="acme"))
            add_period(work, add_draft(work, customer), plan.id)
        return charge

    return box.billing.writing(act)


def charge_of(box: Scenario, id: str) -> Charge | None:
    return box.billing.reading(lambda work: work.tx.get(Charge, id))


def filters_of(box: Scenario, id: str) -> list[dict[str, tuple[str, ...]]]:
    charge = charge_of(box, id)
    assert charge is not None
    return [dict(charge_filter.values) for charge_filter in charge.filters]


def drafts_to_refresh(box: Scenario) -> list[str]:
    return box.billing.reading(
        lambda work: [invoice.number for invoice in work.tx.find(Invoice) if invoice.refresh_wanted]
    )


def test_created_metric_is_shown_as_sent_and_announced(box: Scenario) -> None:
    shown = create(
        box,
        description="GB stored",
        recurring=True,
        rounding_function="ceil",
        rounding_precision=-2,
        expression="event.properties.gb * 2",
        filters=[{"key": "region", "values": ["us", "eu", "us"]}, {"key": "cloud", "values": ["gcp", "aws"]}],
    )
    assert {key: shown[key] for key in ("name", "code", "description", "field_name", "recurring", "expression")} == {
        "name": "Storage",
        "code": "storage",
        "description": "GB stored",
        "field_name": "gb",
        "recurring": True,
        "expression": "event.properties.gb * 2",
    }
    assert (shown["rounding_function"], shown["rounding_precision"]) == ("ceil", -2)
    assert shown["created_at"] == "2024-03-05T00:00:00Z"
    assert shown["filters"] == [{"key": "cloud", "values": ["aws", "gcp"]}, {"key": "region", "values": ["eu", "us"]}]
    assert [message["webhook_type"] for message in box.webhooks] == ["billable_metric.created"]
    assert box.webhooks[0]["billable_metric"] == shown
    assert box.send("GET", "/billable_metrics/storage") == (200, {"billable_metric": shown})


def test_count_forgets_the_field_it_was_sent(box: Scenario) -> None:
    assert create(box, aggregation_type="count_agg")["field_name"] is None


@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ({"name": ""}, {"name": ["value_is_mandatory"]}),
        ({"code": None}, {"code": ["value_is_mandatory"]}),
        ({"aggregation_type": "average_agg"}, {"aggregation_type": ["value_is_invalid"]}),
        ({"aggregation_type": None}, {"aggregation_type": ["value_is_invalid"]}),
        ({"field_name": None}, {"field_name": ["value_is_mandatory"]}),
        (
            {"aggregation_type": "count_agg", "recurring": True},
            {"recurring": ["not_compatible_with_aggregation_type"]},
        ),
        ({"aggregation_type": "max_agg", "recurring": True}, {"recurring": ["not_compatible_with_aggregation_type"]}),
        (
            {"aggregation_type": "latest_agg", "recurring": True},
            {"recurring": ["not_compatible_with_aggregation_type"]},
        ),
        ({"aggregation_type": "weighted_sum_agg"}, {"weighted_interval": ["value_is_invalid"]}),
        (
            {"aggregation_type": "weighted_sum_agg", "weighted_interval": "minutes"},
            {"weighted_interval": ["value_is_invalid"]},
        ),
        ({"rounding_function": "truncate"}, {"rounding_function": ["value_is_invalid"]}),
        ({"rounding_precision": "two"}, {"rounding_precision": ["is not a number"]}),
        ({"expression": "event.properties."}, {"expression": ["invalid_expression"]}),
        ({"filters": [{"key": "region", "values": []}]}, {"values": ["value_is_mandatory"]}),
        ({"filters": [{"key": "region"}]}, {"values": ["value_is_mandatory"]}),
        ({"filters": [{"key": " ", "values": ["us"]}]}, {"key": ["value_is_mandatory"]}),
    ],
)
def test_definition_that_makes_no_sense_is_refused(
    box: Scenario, fields: dict[str, object], details: dict[str, list[str]]
) -> None:
    assert refused(box.send("POST", "/billable_metrics", metric(**fields))) == details
    assert box.send("GET", "/billable_metrics")[1]["billable_metrics"] == []


def test_weighted_sum_by_the_second_may_recur(box: Scenario) -> None:
    shown = create(box, aggregation_type="weighted_sum_agg", weighted_interval="seconds", recurring=True)
    assert (shown["weighted_interval"], shown["recurring"]) == ("seconds", True)


def test_custom_aggregations_are_not_available(box: Scenario) -> None:
    status, body = box.send("POST", "/billable_metrics", metric(aggregation_type="custom_agg"))
    assert (status, body["code"]) == (403, "feature_unavailable")
    status, body = box.send("PUT", "/billable_metrics/unknown", {"billable_metric": {"aggregation_type": "custom_agg"}})
    assert (status, body["code"]) == (403, "feature_unavailable")


def test_code_is_unique_until_its_metric_is_deleted(box: Scenario) -> None:
    create(box)
    again = box.send("POST", "/billable_metrics", metric())
    assert refused(again) == {"code": ["value_already_exist"]}
    box.delete("/billable_metrics/storage")
    create(box)


@pytest.mark.parametrize("body", [{}, {"billable_metric": {}}, {"billable_metric": "x"}, {"billable_metric": {"a": 1}}])
def test_body_without_a_metric_is_a_bad_request(box: Scenario, body: dict[str, object]) -> None:
    status, answer = box.send("POST", "/billable_metrics", body)
    error = "BadRequest: param is missing or the value is empty or invalid: billable_metric"
    assert (status, for_programs(answer)) == (400, {"status": 400, "error": error})


def test_of_one_filter_key_sent_twice_the_last_counts(box: Scenario) -> None:
    shown = create(box, filters=[{"key": "region", "values": ["us"]}, {"key": "region", "values": ["eu"]}])
    assert shown["filters"] == [{"key": "region", "values": ["eu"]}]


def test_unused_metric_changes_in_every_field_that_is_sent(box: Scenario) -> None:
    created = create(box, rounding_function="round", rounding_precision=2, description="old")
    status, body = box.send(
        "PUT",
        "/billable_metrics/storage",
        {
            "billable_metric": {
                "code": "peak",
                "aggregation_type": "max_agg",
                "field_name": "peak_gb",
                "rounding_function": None,
                "description": None,
            }
        },
    )
    assert status == 200
    assert body["billable_metric"] == {
        **created,
        "code": "peak",
        "aggregation_type": "max_agg",
        "field_name": "peak_gb",
        "rounding_function": None,
        "description": None,
    }
    assert box.webhooks[-1]["webhook_type"] == "billable_metric.updated"
    assert box.send("GET", "/billable_metrics/storage")[0] == 404


def test_priced_metric_keeps_its_meaning(box: Scenario) -> None:
    created = create(box)
    put_on_a_plan(box, created["svc_id"])
    status, body = box.send(
        "PATCH",
        "/billable_metrics/storage",
        metric(
            name="New name",
            code="other",
            aggregation_type="max_agg",
            field_name="x",
            expression="1",
            filters=[{"key": "region", "values": ["us"]}],
        ),
    )
    assert status == 200
    assert body["billable_metric"] == {
        **created,
        "name": "New name",
        "filters": [{"key": "region", "values": ["us"]}],
    }


def test_refused_change_leaves_the_filters_as_they_were(box: Scenario) -> None:
    create(box, filters=[{"key": "region", "values": ["us"]}])
    change = {"billable_metric": {"name": "", "filters": [{"key": "cloud", "values": ["aws"]}]}}
    assert refused(box.send("PUT", "/billable_metrics/storage", change)) == {"name": ["value_is_mandatory"]}
    shown = box.send("GET", "/billable_metrics/storage")[1]["billable_metric"]
    assert shown["filters"] == [{"key": "region", "values": ["us"]}]


def test_charge_filters_lose_the_values_that_the_metric_no_longer_declares(box: Scenario) -> None:
    # The worked example W12 of the catalog.
    created = create(
        box,
        filters=[
            {"key": "image_size", "values": ["1024x1024", "512x152"]},
            {"key": "steps", "values": ["0-25", "26-50"]},
            {"key": "model_name", "values": ["llama-1", "llama-2"]},
        ],
    )
    charge = put_on_a_plan(
        box,
        created["svc_id"],
        {"image_size": ("512x152",), "steps": ("0-25",), "model_name": ("llama-2",)},
        {"image_size": ("512x152",), "steps": ("0-25",)},
        {"image_size": ("__ALL_FILTER_VALUES__",), "steps": ("__ALL_FILTER_VALUES__",)},
        {"image_size": ("__ALL_FILTER_VALUES__",)},
        {"image_size": ("512x152",)},
        {"image_size": ("512x152", "1024x1024")},
        draft=True,
    )
    change = {
        "billable_metric": {
            "filters": [
                {"key": "image_size", "values": ["1024x1024", "512x512"]},
                {"key": "steps", "values": ["0-25", "26-50"]},
                {"key": "model_name", "values": ["llama-1", "llama-2"]},
            ]
        }
    }
    box.ask("PUT", "/billable_metrics/storage", change)
    assert filters_of(box, charge.id) == [
        {"steps": ("0-25",), "model_name": ("llama-2",)},
        {"steps": ("0-25",)},
        {"image_size": ("__ALL_FILTER_VALUES__",), "steps": ("__ALL_FILTER_VALUES__",)},
        {"image_size": ("__ALL_FILTER_VALUES__",)},
        {"image_size": ("1024x1024",)},
    ]
    assert drafts_to_refresh(box) == ["acme-DRAFT"]


def test_removing_a_key_takes_its_wildcards_and_removing_all_filters_takes_everything(box: Scenario) -> None:
    declared = [{"key": "region", "values": ["us"]}, {"key": "cloud", "values": ["aws"]}]
    created = create(box, filters=declared)
    charge = put_on_a_plan(
        box,
        created["svc_id"],
        {"region": ("__ALL_FILTER_VALUES__",), "cloud": ("aws",)},
        {"region": ("__ALL_FILTER_VALUES__",)},
    )
    box.put("/billable_metrics/storage", billable_metric={"filters": declared[1:]})
    assert filters_of(box, charge.id) == [{"cloud": ("aws",)}]
    _, body = box.send("PUT", "/billable_metrics/storage", {"billable_metric": {"filters": []}})
    assert body["billable_metric"]["filters"] == []
    assert filters_of(box, charge.id) == []


def test_changing_anything_else_leaves_filters_alone(box: Scenario) -> None:
    created = create(box, filters=[{"key": "region", "values": ["us"]}])
    charge = put_on_a_plan(box, created["svc_id"], {"region": ("us",)})
    box.put("/billable_metrics/storage", billable_metric={"name": "x", "filters": None})
    assert filters_of(box, charge.id) == [{"region": ("us",)}]
    assert drafts_to_refresh(box) == []


def test_deleting_takes_the_charges_along_and_refreshes_drafts(box: Scenario) -> None:
    created = create(box)
    charge = put_on_a_plan(box, created["svc_id"], draft=True)
    status, body = box.send("DELETE", "/billable_metrics/storage")
    assert (status, body["billable_metric"]["svc_id"]) == (200, created["svc_id"])
    assert charge_of(box, charge.id) is None
    assert drafts_to_refresh(box) == ["acme-DRAFT"]
    assert box.webhooks[-1]["webhook_type"] == "billable_metric.deleted"
    assert missing(box.send("DELETE", "/billable_metrics/storage")) == "billable_metric"


def test_list_is_newest_first(box: Scenario) -> None:
    create(box, code="a")
    box.jump_to("2024-03-06T00:00:00Z")
    create(box, code="b")
    _, body = box.send("GET", "/billable_metrics?per_page=1")
    assert [metric["code"] for metric in body["billable_metrics"]] == ["b"]
    assert body["meta"] == {
        "current_page": 1,
        "next_page": 2,
        "prev_page": None,
        "total_pages": 2,
        "total_count": 2,
    }


def evaluate(box: Scenario, body: dict[str, object]) -> tuple[int, Any]:
    return box.send("POST", "/billable_metrics/evaluate_expression", body)


@pytest.mark.parametrize(
    ("expression", "event", "value"),
    [
        ("round(event.properties.value)", {"code": "c", "properties": {"value": "2.4"}}, "2.0"),
        ("event.properties.a + event.properties.b", {"properties": {"a": 1, "b": "2"}}, "3.0"),
        ("concat(event.code, '-', event.properties.on)", {"code": "c", "properties": {"on": True}}, "c-true"),
        ("event.timestamp", {"timestamp": 1709600000.9}, "1709600000.0"),
        ("event.timestamp", {}, "1709596800.0"),
        ("1 + 2", None, "3.0"),
    ],
)
def test_expression_is_evaluated_for_an_event(
    box: Scenario, expression: str, event: dict[str, object] | None, value: str
) -> None:
    assert evaluate(box, {"expression": expression, "event": event}) == (200, {"expression_result": {"value": value}})


@pytest.mark.parametrize(
    ("body", "details"),
    [
        ({"expression": " "}, {"expression": ["value_is_mandatory"]}),
        ({}, {"expression": ["value_is_mandatory"]}),
        ({"expression": "1 +"}, {"expression": ["invalid_expression"]}),
        ({"expression": "event.properties.a"}, {"event": ["invalid_event"]}),
        ({"expression": "1 / 0"}, {"event": ["invalid_event"]}),
        ({"expression": "1", "event": {"timestamp": "noon"}}, {"event": ["invalid_event"]}),
        ({"expression": "1", "event": {"timestamp": 1e30}}, {"event": ["invalid_event"]}),
    ],
)
def test_expression_without_a_value_says_why(
    box: Scenario, body: dict[str, object], details: dict[str, object]
) -> None:
    assert refused(evaluate(box, body)) == details
