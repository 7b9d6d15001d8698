"""A file with any number of rows of each kind, realistically distributed, written directly to the tables.

One record of each kind is created through the library; the rest are copies, whose ids, dates, amounts, names and states
follow from their number. Indexes and counts are built afterwards, as for a file of an older version.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from usagebill import Billing
from usagebill.core.api_logs import ApiLog
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_requests import PaymentRequest
from usagebill.operations import api_keys
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Work
from usagebill.storage.sqlite import schema
from usagebill.storage.sqlite.engine import functions
from usagebill.storage.tables import TABLES

NOW = datetime(2024, 7, 1, 12, tzinfo=UTC)
_BATCH = 100_000
_FIRST_WEEK = "'2021-07-01'"
_NAMES = ("Alba", "Borealis", "Cygnus", "Delta", "Eskimo", "Fjord", "Granit", "Helios", "Indigo", "Juniper")
_TRADES = ("Logistics", "Software", "Energy", "Foods", "Media", "Robotics", "Travel", "Health", "Capital", "Textiles")
_COUNTRIES = ("DE", "FR", "US", "GB", "IT", "ES", "NL", "SE", "JP", "MT")


def _pick(values: tuple[str, ...], number: str) -> str:
    cases = " ".join(f"WHEN {place} THEN '{value}'" for place, value in enumerate(values))
    return f"CASE ({number}) % {len(values)} {cases} END"


def _id(kind: int, number: str = "i") -> str:
    """A random id, like real ones."""
    return f"printf('%08x-%04x-4000-8000-%012x', (({number}) * 2654435761) & 4294967295, {kind}, {number})"


def _instant(seconds: str) -> str:
    return f"strftime('%Y-%m-%dT%H:%M:%S', {_FIRST_WEEK}, ({seconds}) || ' seconds') || '.000000+00:00'"


# The first of one of 36 months, at 01:00, as from a billing run.
_MONTH = "((i * 7) % 36)"
_RUN = f"strftime('%Y-%m-01T01:00:00', {_FIRST_WEEK}, {_MONTH} || ' months') || '.000000+00:00'"
_SOME_TIME = _instant("(i * 94607 + i / 7) % 94600000")
# Within the last four weeks, up to half a second apart.
_LATELY = (
    "strftime('%Y-%m-%dT%H:%M:%S', '2024-06-03', (i * 2419200 / :rows) || ' seconds')"
    " || printf('.%06d+00:00', i * 48271 % 1000000)"
)
_COMMON = {"created_at": _SOME_TIME, "updated_at": _SOME_TIME}
_CENTS = "100 + (i * 48271) % 250000"
_CUSTOMER = "(i * 7919) % :rows"

_METADATA = (
    """json_array(json_object('id', 'm', 'key', 'tier', 'value', CASE WHEN i % 100 = 0 THEN 'gold' ELSE 'silver' END,"""
    """ 'created_at', '2024-01-01T00:00:00Z'))"""
)

# The columns that differ from a table's first record, in SQL over the number `i`.
_SHAPES: dict[str, dict[str, str]] = {
    "customers": {
        **_COMMON,
        "id": _id(1),
        "external_id": "'cust-' || i",
        "sequential_id": "i + 10",
        "slug": "'ACM-' || i",
        "name": f"{_pick(_NAMES, 'i')} || ' ' || {_pick(_TRADES, 'i / 10')} || ' ' || i",
        "legal_name": f"{_pick(_NAMES, 'i')} || ' ' || {_pick(_TRADES, 'i / 10')} || ' GmbH'",
        "email": "'billing' || i || '@' || (i % 5000) || '.example'",
        "country": _pick(_COUNTRIES, "i * i"),
        "state": "'S' || (i % 200)",
        "zipcode": "printf('%05d', i % 20000)",
        "currency": _pick(("EUR", "EUR", "EUR", "USD", "GBP"), "i / 3"),
        "customer_type": "CASE WHEN i % 5 = 0 THEN NULL WHEN i % 3 = 0 THEN 'individual' ELSE 'company' END",
        "account_type": "CASE WHEN i % 1000 = 0 THEN 'partner' ELSE 'customer' END",
        "tax_identification_number": "CASE WHEN i % 3 = 0 THEN 'DE' || i END",
        "metadata": f"CASE WHEN i % 10 = 0 THEN {_METADATA} ELSE '[]' END",
        "deleted_at": f"CASE WHEN i % 50 = 49 THEN {_SOME_TIME} END",
    },
    "plans": {
        **_COMMON,
        "id": _id(2),
        "code": "CASE WHEN i % 2 = 0 THEN 'plan-' || i ELSE 'plan-' || (i % 100 - 1) END",
        "name": "'Plan ' || i",
        "amount_currency": _pick(("EUR", "EUR", "EUR", "USD", "GBP"), "i / 20"),
        "parent_id": f"CASE WHEN i % 2 = 1 THEN {_id(2, '(i % 100 - 1)')} END",
    },
    "add_ons": {**_COMMON, "id": _id(3), "code": "'add-on-' || i", "name": "'Add-on ' || i"},
    "billable_metrics": {**_COMMON, "id": _id(4), "code": "'metric-' || i", "name": "'Metric ' || i"},
    "taxes": {**_COMMON, "id": _id(5), "code": "'tax-' || i", "name": "'Tax ' || (i * 7919 % :rows)"},
    "coupons": {
        **_COMMON,
        "id": _id(6),
        "code": "'coupon-' || i",
        "status": "CASE WHEN i % 4 = 0 THEN 'terminated' ELSE 'active' END",
        "expiration": "CASE WHEN i % 3 = 0 THEN 'time_limit' ELSE 'no_expiration' END",
        "expiration_at": f"CASE WHEN i % 3 = 0 THEN {_instant('94600000 + i * 60 % 94600000')} END",
    },
    "subscriptions": {
        **_COMMON,
        "id": _id(7),
        "external_id": "'sub-' || i",
        "customer_id": _id(1, "i"),
        "plan_id": f"CASE WHEN i % 10 = 0 THEN {_id(2, '(i / 2 * 2 + 1) % :rows')} ELSE {_id(2, 'i % 50 * 2')} END",
        "status": "CASE WHEN i % 100 < 90 THEN 'active' WHEN i % 100 < 99 THEN 'terminated' ELSE 'canceled' END",
        "subscription_at": _SOME_TIME,
        "started_at": _SOME_TIME,
    },
    "invoices": {
        "created_at": _RUN,
        "updated_at": _RUN,
        "id": _id(8),
        "customer_id": _id(1, _CUSTOMER),
        "number": "printf('ACM-%05d-%03d', i % 100000, i / 100000)",
        "issuing_date": f"substr({_RUN}, 1, 10)",
        "payment_due_date": f"substr({_RUN}, 1, 10)",
        "status": "CASE WHEN i % 1000 < 970 THEN 'finalized' WHEN i % 1000 < 980 THEN 'voided'"
        " WHEN i % 1000 = 999 THEN 'generating' ELSE 'draft' END",
        "payment_status": "CASE WHEN i % 20 = 0 THEN 'failed' WHEN i % 20 < 4 THEN 'pending' ELSE 'succeeded' END",
        "payment_overdue": f"{_MONTH} < 10 AND i % 20 < 4",
        "payment_dispute_lost_at": f"CASE WHEN i % 5000 = 7 THEN {_RUN} END",
        "invoice_type": "CASE WHEN i % 50 = 0 THEN 'one_off' ELSE 'subscription' END",
        "self_billed": "i % 1000 = 0",
        "currency": _pick(("EUR", "EUR", "EUR", "USD", "GBP"), "i / 3"),
        "total_amount_cents": _CENTS,
        "total_paid_amount_cents": f"CASE WHEN i % 20 < 3 THEN 0 WHEN i % 20 = 3 THEN 50 ELSE {_CENTS} END",
        "total_offset_amount_cents": "CASE WHEN i % 700 = 0 THEN 10 ELSE 0 END",
        "purchase_order_number": "CASE WHEN i % 50 = 0 THEN 'PO-' || i END",
        "metadata": f"CASE WHEN i % 20 = 0 THEN {_METADATA} ELSE '[]' END",
    },
    "fees": {
        "created_at": f"CASE WHEN i % 5 = 0 THEN {_SOME_TIME} ELSE {_RUN} END",
        "updated_at": _RUN,
        "id": _id(9),
        "customer_id": _id(1, _CUSTOMER),
        "invoice_id": f"CASE WHEN i % 5 = 0 THEN NULL ELSE {_id(8)} END",
        "fee_type": _pick(("charge", "charge", "charge", "subscription", "fixed_charge"), "i"),
        "billable_metric_id": f"CASE WHEN i % 5 < 3 THEN {_id(4, 'i % 10')} END",
        "currency": _pick(("EUR", "EUR", "EUR", "USD", "GBP"), "i / 3"),
        "external_subscription_id": f"'sub-' || {_CUSTOMER}",
        "event_transaction_id": "CASE WHEN i % 5 = 0 THEN 'tx-' || i END",
        "payment_status": "CASE WHEN i % 50 = 0 THEN 'succeeded' ELSE 'pending' END",
        "succeeded_at": f"CASE WHEN i % 50 = 0 THEN {_SOME_TIME} END",
        "failed_at": f"CASE WHEN i % 100 = 5 THEN {_SOME_TIME} END",
        "refunded_at": f"CASE WHEN i % 500 = 5 THEN {_SOME_TIME} END",
    },
    "credit_notes": {
        **_COMMON,
        "id": _id(10),
        "customer_id": _id(1, _CUSTOMER),
        "invoice_id": _id(8),
        "number": "printf('ACM-%05d-%03d-CN001', i % 100000, i / 100000)",
        "issuing_date": f"substr({_SOME_TIME}, 1, 10)",
        "status": "CASE WHEN i % 100 = 99 THEN 'draft' ELSE 'finalized' END",
        "credit_status": "CASE WHEN i % 20 = 0 THEN 'voided' WHEN i % 3 = 0 THEN 'available' ELSE 'consumed' END",
        "refund_status": "CASE WHEN i % 10 = 0 THEN 'succeeded' WHEN i % 1000 = 1 THEN 'failed' END",
        "reason": _pick(("duplicated_charge", "product_unsatisfactory", "order_change", "fraudulent_charge"), "i / 7"),
        "currency": _pick(("EUR", "EUR", "EUR", "USD", "GBP"), "i / 3"),
        "total_amount_cents": _CENTS,
        "credit_amount_cents": f"CASE WHEN i % 10 = 0 THEN 0 ELSE {_CENTS} END",
        "refund_amount_cents": f"CASE WHEN i % 10 = 0 THEN {_CENTS} ELSE 0 END",
        "self_billed": "i % 1000 = 0",
        "purchase_order_number": "CASE WHEN i % 50 = 0 THEN 'PO-' || i END",
    },
    "applied_coupons": {
        **_COMMON,
        "id": _id(11),
        "customer_id": _id(1),
        "coupon_id": _id(6, "CASE WHEN i % 2 = 0 THEN i % 20 ELSE i END"),
        "status": "CASE WHEN i % 4 = 0 THEN 'terminated' ELSE 'active' END",
    },
    "payments": {
        **_COMMON,
        "id": _id(12),
        "customer_id": _id(1, _CUSTOMER),
        "invoice_id": _id(8),
        "amount_cents": _CENTS,
        "reference": "'bank-' || i",
    },
    "payment_receipts": {
        **_COMMON,
        "id": _id(15),
        "customer_id": _id(1, _CUSTOMER),
        "payment_id": _id(12),
        "sequential_id": "i + 10",
        "number": "'RCPT-' || i",
    },
    "payment_requests": {
        **_COMMON,
        "id": _id(16),
        "customer_id": _id(1, _CUSTOMER),
        "amount_cents": _CENTS,
        "currency": _pick(("EUR", "EUR", "EUR", "USD", "GBP"), "i / 3"),
        "payment_status": "CASE WHEN i % 20 = 0 THEN 'failed' WHEN i % 20 < 4 THEN 'pending' ELSE 'succeeded' END",
    },
    "wallets": {
        **_COMMON,
        "id": _id(17),
        "customer_id": _id(1, _CUSTOMER),
        "code": "'wallet-' || i",
        "currency": _pick(("EUR", "EUR", "EUR", "USD", "GBP"), "i / 3"),
    },
    # All of one wallet, the first one.
    "wallet_transactions": {
        **_COMMON,
        "id": _id(18),
        "status": "CASE WHEN i % 100 = 0 THEN 'failed' WHEN i % 100 < 3 THEN 'pending' ELSE 'settled' END",
        "transaction_type": "CASE WHEN i % 10 = 0 THEN 'inbound' ELSE 'outbound' END",
        "transaction_status": "CASE WHEN i % 10 = 0 THEN 'granted' ELSE 'invoiced' END",
        "amount_cents": _CENTS,
        "metadata": """CASE WHEN i % 100 = 7 THEN '[{"key":"tier","value":"gold"}]' ELSE '[]' END""",
    },
    "features": {
        **_COMMON,
        "id": _id(19),
        "code": "'feature-' || i",
        "name": f"{_pick(_TRADES, 'i')} || ' ' || i",
        "description": f"'Access to ' || {_pick(_NAMES, 'i / 10')}",
    },
    # All to one endpoint.
    "webhook_messages": {
        "id": _id(20),
        "created_at": _LATELY,
        "updated_at": _LATELY,
        "webhook_type": _pick(("invoice.created", "invoice.payment_status_updated", "fee.created", "event.error"), "i"),
        "object_id": _id(8),
        "payload": "'{}'",
        "status": "CASE WHEN i % 100 = 0 THEN 'failed' WHEN i % 100 = 1 THEN 'retrying' ELSE 'succeeded' END",
        "http_status": "CASE WHEN i % 200 = 0 THEN NULL WHEN i % 100 < 2 THEN 503 ELSE 200 END",
    },
    "activity_logs": {
        "id": _id(21),
        "logged_at": _LATELY,
        "activity_type": _pick(("invoice.created", "customer.updated", "subscription.started"), "i"),
        "activity_source": "CASE WHEN i % 4 = 0 THEN 'api' ELSE 'system' END",
        "resource_type": _pick(("Invoice", "Customer", "Subscription"), "i"),
        "resource_id": _id(8, _CUSTOMER),
        "external_customer_id": f"'cust-' || {_CUSTOMER}",
        "external_subscription_id": f"CASE WHEN i % 3 = 2 THEN 'sub-' || {_CUSTOMER} END",
    },
    "api_logs": {
        "id": _id(22),
        "logged_at": _LATELY,
        "request_id": _id(23),
        "http_method": _pick(("post", "post", "post", "put", "delete"), "i"),
        "http_status": "CASE WHEN i % 100 = 0 THEN 422 WHEN i % 1000 = 1 THEN 500 ELSE 200 END",
        "request_path": "'/api/v1/customers/cust-' || (i % 1000)",
    },
    "security_logs": {
        "id": _id(24),
        "logged_at": _LATELY,
        "log_type": "CASE WHEN i % 100 = 0 THEN 'webhook_endpoint' ELSE 'api_key' END",
        "log_event": "CASE WHEN i % 100 = 0 THEN 'webhook_endpoint.created' ELSE 'api_key.rotated' END",
    },
}
_CODES = ("api_calls", "storage", "seats", "messages", "rare")


def _price_list(billing: Billing) -> str:
    """One record of every kind, and the value of a key to ask with."""
    billing.webhook_endpoints.create(webhook_url="https://acme.example/webhooks")
    billing.features.create(code="seats", name="Seats", description="Access")
    metric = billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
    billing.add_ons.create(name="Seat", code="seat", amount_cents=100, amount_currency="EUR")
    billing.taxes.create(name="VAT", code="vat", rate=20)
    billing.plans.create(
        name="Basic",
        code="basic",
        interval="monthly",
        amount_cents=4900,
        amount_currency="EUR",
        pay_in_advance=True,
        charges=[{"billable_metric_id": metric.id, "charge_model": "standard", "properties": {"amount": "1"}}],
    )
    billing.coupons.create(
        name="Ten",
        code="ten",
        coupon_type="percentage",
        percentage_rate="10",
        frequency="forever",
        expiration="no_expiration",
    )
    billing.customers.upsert(external_id="acme", currency="EUR", name="Acme")
    billing.applied_coupons.apply(external_customer_id="acme", coupon_code="ten")
    billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="acme")
    invoice = billing.invoices.create_one_off(external_customer_id="acme", fees=[{"add_on_code": "seat", "units": 2}])
    fee = billing.fees.list(fee_type="add_on").items[0]
    billing.payments.create(invoice_id=invoice.id, amount_cents=5, reference="bank")
    billing.credit_notes.create(
        invoice_id=invoice.id, credit_amount_cents=10, items=[{"fee_id": fee.id, "amount_cents": 10}]
    )
    wallet = billing.wallets.create(external_customer_id="acme", rate_amount="1", currency="EUR")
    billing.wallet_transactions.create(wallet_id=wallet.id, granted_credits="10")
    billing.writing(_insert_others)
    return billing.writing(lambda work: api_keys.create(work))[1]


def _insert_others(work: Work) -> None:
    """One record of each kind that only an overdue invoice or a request to the service would make."""
    invoice = work.tx.find(Invoice)[0]
    request = PaymentRequest(
        id=work.new_id(),
        organization_id=work.organization.id,
        customer_id=invoice.customer_id,
        billing_entity_id=invoice.billing_entity_id,
        amount_cents=100,
        currency="EUR",
        created_at=NOW,
        updated_at=NOW,
    )
    entry = ApiLog(
        id=work.new_id(),
        organization_id=work.organization.id,
        request_id=work.new_id(),
        api_key_id=work.new_id(),
        client="curl",
        http_method="post",
        http_status=200,
        request_origin="https://acme.example",
        request_path="/api/v1/customers",
        request_body="{}",
        request_response="{}",
        duration=1,
        logged_at=NOW,
        api_version="v1",
    )
    work.tx.insert(request)
    work.tx.insert(entry)


def _names(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]


def fill(path: Path, rows: int, events: int) -> None:
    """Make the file, and beside it a file with the value of an API key of its organization."""
    with Billing(path, clock=ManualClock(NOW)) as billing:
        key = _price_list(billing)
    connection = sqlite3.connect(path, isolation_level=None)
    functions(connection)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -262144")
    for kind, name in connection.execute(
        "SELECT type, name FROM sqlite_schema WHERE type = 'trigger' OR (type = 'index' AND sql IS NOT NULL)"
    ).fetchall():
        connection.execute(f'DROP {kind.upper()} "{name}"')
    organization = connection.execute("SELECT id FROM organizations").fetchone()[0]
    for table, shape in _SHAPES.items():
        names = _names(connection, table)
        first = connection.execute(f'SELECT * FROM "{table}" LIMIT 1').fetchone()
        bound = {f"c_{name}": value for name, value in zip(names, first, strict=True) if name not in shape}
        chosen = ", ".join(shape.get(name, f":c_{name}") for name in names)
        for start in range(0, rows, _BATCH):
            connection.execute(
                "WITH RECURSIVE numbers (i) AS (VALUES (:start) UNION ALL SELECT i + 1 FROM numbers WHERE i < :last)"
                f' INSERT INTO "{table}" SELECT {chosen} FROM numbers',
                {**bound, "start": start, "last": min(start + _BATCH, rows) - 1, "rows": rows},
            )
    _fill_events(connection, organization, events)
    # As for a file from before counts of events existed.
    # Missing indexes and counts are made and filled, as in a file of the previous version.
    for listed in TABLES:
        connection.execute(f'DROP TABLE IF EXISTS "{listed.name}_counts"')
    connection.execute(f"PRAGMA user_version = {schema.VERSION - 1}")
    schema.bring_forward(connection)
    connection.close()
    with Billing(path, clock=ManualClock(NOW)) as billing:
        while billing._system.roll_up_usage():
            pass
    path.with_suffix(".key").write_text(key)


def _fill_events(connection: sqlite3.Connection, organization: str, events: int) -> None:
    """Nine of ten events belong to one subscription, over a year; the others to a thousand more."""
    step = 365 * 86_400 * 1_000_000 // max(events, 1)
    start = int((NOW.timestamp() - 365 * 86_400) * 1_000_000)
    code = f"CASE WHEN i % 50000 = 0 THEN '{_CODES[4]}' ELSE {_pick(_CODES[:4], 'i * i')} END"
    at = f"{start} + i * {step}"
    for first in range(0, events, _BATCH):
        connection.execute(
            "WITH RECURSIVE numbers (i) AS (VALUES (:first) UNION ALL SELECT i + 1 FROM numbers WHERE i < :last)"
            " INSERT INTO events (id, organization_id, transaction_id, code, external_subscription_id, timestamp,"
            " properties, precise_total_amount_cents, created_at, texts, millionths, long_numbers)"
            f" SELECT {_id(13)}, :organization, {_id(14)}, {code},"
            " CASE WHEN i % 10 = 9 THEN 'sub-' || (i / 10 % 1000) ELSE 'busy' END,"
            f""" {at}, '{{"amount":"1.5"}}', NULL, {at} + 1000000, NULL, '{{"amount":1500000}}', NULL FROM numbers""",
            {"first": first, "last": min(first + _BATCH, events) - 1, "organization": organization},
        )


def open_filled(path: Path) -> tuple[Billing, str]:
    """The file and the value of its key."""
    return Billing(path, clock=ManualClock(NOW)), path.with_suffix(".key").read_text()
