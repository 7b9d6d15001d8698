"""The floor of a billing run: the same invoices priced by the same core, and their rows inserted in bulk.

The usage of many subscriptions is counted by one query a metric, each charge is priced, taxed and added up by the
functions of `core/`, and invoices, fees, periods and logs go into tables with the same indexes, 500 invoices a commit.
It leaves out everything that makes it a service: jobs, numbers, the rules of periods, coupons and credits, the counts
kept for lists, and the check that nothing has changed when it is stored.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import chain
from pathlib import Path

from usagebill import Billing
from usagebill.core.activity_logs import ActivityLog
from usagebill.core.aggregation import AggregateResult
from usagebill.core.aggregation.bucket import usage_of
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.copies import replace
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.invoices.totals import SettlementInputs, settled
from usagebill.core.plans import Charge
from usagebill.core.pricing import Properties, parse_properties, price
from usagebill.core.pricing.fees import fee_amounts
from usagebill.core.subscriptions import Subscription
from usagebill.core.taxes import Tax, taxed_fee
from usagebill.process.ids import new_ids
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import eq
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.event_rows import microseconds
from usagebill.storage.sqlite.rows import codec_of
from usagebill.storage.tables import table_of

Rows = dict[type, list[tuple[object, ...]]]

TOGETHER = 500
SUBUNITS = 2
_MILLIONTHS = {
    "count_agg": "COUNT(*) * 1000000",
    "sum_agg": "SUM(millionths ->> :name)",
    "unique_count_agg": "COUNT(DISTINCT properties ->> :name) * 1000000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A usage charge: its query of events, and the first customer's fee."""

    charge: Charge
    metric: BillableMetric
    properties: Properties
    question: EventQuery
    fee: Fee


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The first customer's invoice, the model for the others."""

    invoice: Invoice
    period: BillingPeriod
    log: ActivityLog
    fees: Sequence[Fee]
    lines: dict[str, Line]
    taxes: Sequence[Tax]
    now: datetime


def copied(file: Path, copy: Path) -> None:
    """Copy an open database."""
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def floor_of_run(ran: Billing, before: Path, now: datetime) -> tuple[float, float]:
    """The CPU seconds per invoice, and those under the lock, for the subscriptions of a file `before` the run. Checks
    every total against the run's.
    """
    model, totals = _model(ran, now), _totals(ran)
    with Billing(before, clock=ran.clock) as billing:
        subscriptions = _subscriptions(billing)
        with closing(sqlite3.connect(before, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            start = time.process_time()
            made: list[Invoice] = []
            held = 0.0
            for first in range(0, len(subscriptions), TOGETHER):
                some, rows = _billed(connection, model, subscriptions[first : first + TOGETHER])
                made += some
                held += _stored(connection, rows)
            spent = time.process_time() - start
    assert {invoice.customer_id: invoice.total_amount_cents for invoice in made} == totals
    return spent / len(made), held / len(made)


def _subscriptions(billing: Billing) -> list[Subscription]:
    return billing.reading(lambda reader: reader.tx.find(Subscription))


def _totals(billing: Billing) -> dict[str, int]:
    invoices = billing.reading(lambda reader: reader.tx.find(Invoice))
    return {invoice.customer_id: invoice.total_amount_cents for invoice in invoices}


def _model(billing: Billing, now: datetime) -> Model:
    def look(reader: Reader) -> Model:
        tx = reader.tx
        (invoice,) = tx.find(Invoice, limit=1)
        fees = tx.find(Fee, eq("invoice_id", invoice.id))
        (period,) = tx.find(BillingPeriod, eq("invoice_id", invoice.id))
        (log,) = tx.find(ActivityLog, eq("resource_id", invoice.id))
        lines = {}
        for fee in fees:
            if fee.charge_id is not None:
                (charge,) = tx.find(Charge, eq("id", fee.charge_id))
                (metric,) = tx.find(BillableMetric, eq("id", charge.billable_metric_id))
                question = EventQuery(
                    code=metric.code,
                    external_subscription_id="",
                    aggregation_type=metric.aggregation_type,
                    field_name=metric.field_name,
                    earliest=fee.charges_from_datetime,
                    latest=fee.charges_to_datetime,
                )
                properties = parse_properties(charge.charge_model, charge.properties, subunits=SUBUNITS)
                lines[fee.id] = Line(
                    charge=charge, metric=metric, properties=properties, question=question, fee=_bare(fee)
                )
        taxes = tx.find(Tax)
        return Model(
            invoice=invoice,
            period=period,
            log=log,
            fees=[fee if fee.id in lines else _bare(fee) for fee in fees],
            lines=lines,
            taxes=taxes,
            now=now,
        )

    return billing.reading(look)


def _bare(fee: Fee) -> Fee:
    return replace(fee, applied_taxes=())


def _tallies(connection: sqlite3.Connection, line: Line, external_ids: Sequence[str]) -> dict[str, AggregateResult]:
    """The usage of each of these subscriptions; of values with at most six decimals."""
    question = line.question
    assert question.earliest is not None
    assert question.latest is not None
    rows = connection.execute(
        f"SELECT external_subscription_id, COUNT(*), {_MILLIONTHS[question.aggregation_type]}"
        " FROM events INDEXED BY events_usage WHERE external_subscription_id IN (SELECT value FROM json_each(:ids))"
        " AND organization_id = :organization AND code = :code AND timestamp BETWEEN :first AND :last"
        " GROUP BY external_subscription_id",
        {
            "organization": line.metric.organization_id,
            "ids": json.dumps(external_ids),
            "code": question.code,
            "first": microseconds(question.earliest),
            "last": microseconds(question.latest),
            "name": question.field_name,
        },
    )
    tallies = dict.fromkeys(external_ids, AggregateResult())
    for id, count, millionths in rows:
        tallies[id] = AggregateResult(units=Decimal(millionths) / 1_000_000, events_count=count)
    return tallies


def _billed(
    connection: sqlite3.Connection, model: Model, subscriptions: Sequence[Subscription]
) -> tuple[list[Invoice], Rows]:
    external_ids = [subscription.external_id for subscription in subscriptions]
    tallies = {id: _tallies(connection, line, external_ids) for id, line in model.lines.items()}
    ids = iter(new_ids(model.now, len(subscriptions) * (4 + 3 * len(model.fees))))
    rows: Rows = {Invoice: [], Fee: [], BillingPeriod: [], ActivityLog: []}
    invoices = []
    for subscription in subscriptions:
        invoice = replace(model.invoice, id=next(ids), customer_id=subscription.customer_id)
        fees = []
        for fee in model.fees:
            line = model.lines.get(fee.id)
            own = replace(
                fee if line is None else _priced(line, tallies[fee.id][subscription.external_id]),
                id=next(ids),
                invoice_id=invoice.id,
                customer_id=subscription.customer_id,
                subscription_id=subscription.id,
                external_subscription_id=subscription.external_id,
            )
            fees.append(taxed_fee(own, model.taxes, model.now, ids.__next__))
        done = settled(invoice, fees, SettlementInputs(now=model.now, new_id=ids.__next__))
        period = replace(
            model.period,
            id=next(ids),
            invoice_id=invoice.id,
            subscription_id=subscription.id,
            external_subscription_id=subscription.external_id,
        )
        log = replace(model.log, id=next(ids), resource_id=invoice.id, external_customer_id=subscription.external_id)
        for record in chain((done.invoice, period, log), done.fees):
            rows[type(record)].append(codec_of(type(record)).row(record))
        invoices.append(done.invoice)
    return invoices, rows


def _stored(connection: sqlite3.Connection, rows: Rows) -> float:
    """The seconds of CPU time that storing the rows holds the lock; the checkpoint comes after it."""
    start = time.thread_time()
    connection.execute("BEGIN IMMEDIATE")
    for kind, some in rows.items():
        connection.executemany(f'INSERT INTO "{table_of(kind).name}" {codec_of(kind).insert}', some)
    connection.execute("COMMIT")
    held = time.thread_time() - start
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    return held


def _priced(line: Line, tally: AggregateResult) -> Fee:
    usage = usage_of(line.metric, tally, running_totals=())
    amounts = fee_amounts(price(line.charge.charge_model, line.properties, usage), usage, line.fee.currency)
    return replace(
        line.fee,
        amount_cents=amounts.amount_cents,
        precise_amount_cents=amounts.precise_amount_cents,
        units=amounts.units,
        total_aggregated_units=amounts.total_aggregated_units,
        unit_amount_cents=amounts.unit_amount_cents,
        precise_unit_amount=amounts.precise_unit_amount,
        events_count=amounts.events_count,
    )
