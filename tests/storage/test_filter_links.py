"""Files of a time when filters of overrides had no link to the plan's: they get one, by their values and order."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import psycopg

from usagebill import Billing
from usagebill.fields import MetricFilterFields


def filters_of(billing: Billing) -> Any:
    return billing.subscriptions.list_charges("sub").items[0].filters


def before_links(url: str) -> None:
    """Take the links away, as in a file of the version before."""
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            rows = connection.execute("SELECT id, filters FROM charges").fetchall()
            for id, filters in rows:
                connection.execute("UPDATE charges SET filters = %s WHERE id = %s", (_without_links(filters), id))
            connection.execute("UPDATE usagebill_schema SET records = 46")
        return
    with closing(sqlite3.connect(url)) as file:
        for id, filters in file.execute("SELECT id, filters FROM charges").fetchall():
            file.execute("UPDATE charges SET filters = ? WHERE id = ?", (_without_links(filters), id))
        file.execute("PRAGMA user_version = 46")
        file.commit()


def _without_links(filters: str) -> str:
    return json.dumps(
        [{name: value for name, value in its.items() if name != "parent_id"} for its in json.loads(filters)]
    )


def test_filters_of_overrides_are_linked_by_their_values_and_in_their_order(url: str) -> None:
    declared: list[MetricFilterFields] = [{"key": "region", "values": ["us", "eu", "asia"]}]
    sent = [(["us", "eu"], "2"), (["eu", "asia"], "3"), (["asia"], "4"), (["asia"], "5")]
    filters: list[Any] = [{"values": {"region": regions}, "properties": {"amount": amount}} for regions, amount in sent]
    with Billing(url, deliver=False) as billing:
        metric = billing.billable_metrics.create(name="C", code="c", aggregation_type="count_agg", filters=declared)
        billing.plans.create(
            name="Basic",
            code="basic",
            interval="monthly",
            amount_cents=0,
            amount_currency="EUR",
            pay_in_advance=False,
            charges=[
                {
                    "billable_metric_id": metric.id,
                    "charge_model": "standard",
                    "properties": {"amount": "1"},
                    "filters": filters[:3],
                }
            ],
        )
        billing.plans.create_filter("basic", "c", **filters[3])
        billing.customers.upsert(external_id="acme")
        billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="sub")
        billing.subscriptions.update("sub", plan_overrides={"name": "Mine"})
        added: dict[str, Any] = {"values": {"region": ["us"]}, "properties": {"amount": "9"}}
        billing.subscriptions.create_filter("sub", "c", **added)
        links = [its.parent_id for its in filters_of(billing)]
        originals = [its.id for its in billing.plans.list_charges("basic").items[0].filters]
        # The one that the subscription got for itself copies none.
        assert links == [*originals, None]
    before_links(url)
    with Billing(url, deliver=False) as billing:
        assert [its.parent_id for its in filters_of(billing)] == links
