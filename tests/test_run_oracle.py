"""Every row that a billing run writes, for customers of ten kinds on six price lists, as digests frozen once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios import charge_on, fixed_charge_on, plan_fields, price_ranges
from usagebill import Billing
from usagebill.core.api_keys import ApiKey
from usagebill.core.invoices.records import Invoice
from usagebill.core.organizations import Organization
from usagebill.core.running_usage import RunningFront, RunningUsage, RunningValue
from usagebill.core.tasks import DeliverWebhook
from usagebill.core.usage_ceiling import NewUsage, UsageCount
from usagebill.core.webhooks import SigningKey
from usagebill.operations.jobs import HANDLERS
from usagebill.runtime.clock import ManualClock
from usagebill.storage.ports import Snapshot
from usagebill.storage.tables import TABLES

START = datetime(2024, 1, 1, 9, tzinfo=UTC)
MONTHS = (datetime(2024, 2, 1, 1, tzinfo=UTC), datetime(2024, 3, 1, 1, tzinfo=UTC))
LISTS = ("plain", "filters", "graduated", "advance", "groups", "fixed")
KINDS = (
    "plain",
    "coupon",
    "wallet",
    "grace",
    "email",
    "units",
    "second",
    "zone",
    "threshold",
    "upgrade",
)
# Random, or a cache of counts that no paper shows.
LEFT_OUT = {ApiKey, SigningKey, Organization, RunningFront, RunningUsage, RunningValue, NewUsage, UsageCount}
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
# Who comes first in a run is left open, and with that places in sequences that customers share. The organization's
# prefix is part of its random id. A field without a value says nothing, so another such field changes no digest;
# nor do the settings of the portal and the texts of e-mails, which no bill depends on.
_PORTAL = (
    r", portal_frame_origins=\(\)|, (?:offered_in_portal|portal_spend_limits)=False\b"
    r"|\"(?:offered_in_)?portal\w*\":(?:false|null|\[\]),"
)
_TEXTS = r"|, email_texts=\(\)|\"email_texts\":\[\],"
_EMPTY = r", (?:removed|price_steps|scheduled_prices)=\(\)|[\"']phases[\"']: ?\[\], ?"
_NO_VALUE = rf", \w+=None\b|\"prices_from\":null,|{_EMPTY}"
_LEFT_OPEN = re.compile(rf"(?<=entity_sequential_id=)\d+|(?<=DEF-)[0-9A-F]{{4}}|{_NO_VALUE}|" + _PORTAL + _TEXTS)
FROZEN = Path(__file__).with_suffix(".json")


def price_lists(billing: Any) -> None:
    metrics = {
        code: billing.billable_metrics.create(name=code, code=code, aggregation_type=aggregation, **fields).id
        for code, aggregation, fields in (
            ("sum", "sum_agg", {"field_name": "value"}),
            ("max", "max_agg", {"field_name": "value"}),
            ("count", "count_agg", {}),
            ("unique", "unique_count_agg", {"field_name": "value"}),
            (
                "zones",
                "sum_agg",
                {"field_name": "value", "filters": [{"key": "zone", "values": ["eu", "us", "asia"]}]},
            ),
        )
    }
    support = billing.add_ons.create(name="Support", code="support", amount_cents=1000, amount_currency="EUR")
    billing.taxes.create(name="VAT", code="vat", rate="19", applied_to_organization=True)
    billing.taxes.create(name="City", code="city", rate="1.5")
    ranges = price_ranges((0, 10, "0.105", "1"), (11, None, "0.05", "0"))
    filters = [
        {"values": {"zone": ["eu"]}, "properties": {"amount": "0.7"}},
        {"values": {"zone": ["us"]}, "properties": {"amount": "0.4"}},
    ]
    charges: dict[str, tuple[dict[str, Any], ...]] = {
        "plain": (charge_on(metrics["sum"], amount="0.333"), charge_on(metrics["max"], amount="0.1")),
        "filters": (charge_on(metrics["zones"], amount="1.1") | {"filters": filters},),
        "graduated": (
            charge_on(metrics["sum"], "graduated", graduated_ranges=ranges),
            charge_on(metrics["unique"], "volume", volume_ranges=ranges),
            charge_on(metrics["count"], "package", amount="5", package_size=3, free_units=1),
        ),
        "advance": (charge_on(metrics["count"], amount="0.25") | {"pay_in_advance": True},),
        "groups": (charge_on(metrics["zones"], amount="0.2", pricing_group_keys=["zone"]),),
        "fixed": (),
    }
    for code in LISTS:
        billing.plans.create(
            **plan_fields(
                *charges[code],
                code=code,
                amount_cents=3100,
                pay_in_advance=code == "advance",
                fixed_charges=[fixed_charge_on(support.id, units=2, amount="3")] if code == "fixed" else [],
            )
        )
    billing.plans.create(**plan_fields(charge_on(metrics["sum"], amount="0.2"), code="upgraded", amount_cents=9900))
    billing.coupons.create(
        name="Off",
        code="off",
        coupon_type="percentage",
        percentage_rate="15",
        frequency="recurring",
        frequency_duration=2,
        expiration="no_expiration",
    )


def sign_up(billing: Any, name: str, plan: str, kind: str) -> None:
    settings: dict[str, dict[str, Any]] = {
        "grace": {"billing_configuration": {"invoice_grace_period": 2}},
        "zone": {"timezone": "America/New_York", "tax_codes": ["city"]},
        "email": {"email": f"{name}@acme.example"},
    }
    billing.customers.upsert(external_id=name, name=name.title(), currency="EUR", **settings.get(kind, {}))
    thresholds = {"usage_thresholds": [{"amount_cents": 1000}]} if kind == "threshold" else {}
    billing.subscriptions.create(external_customer_id=name, plan_code=plan, external_id=f"{name} main", **thresholds)
    if kind == "coupon":
        billing.applied_coupons.apply(external_customer_id=name, coupon_code="off")
    if kind == "wallet":
        billing.wallets.create(external_customer_id=name, rate_amount="1", currency="EUR", granted_credits="40")
    if kind == "second":
        billing.subscriptions.create(external_customer_id=name, plan_code="fixed", external_id=f"{name} more")
    if kind == "units" and plan == "fixed":
        billing.subscriptions.update_fixed_charge(f"{name} main", "support", units=5)


def use(billing: Billing, name: str, number: int, since: datetime) -> None:
    codes = ("sum", "max", "count", "unique", "zones")
    billing.events.ingest(
        [
            {
                "transaction_id": f"{name} {since:%m} {place}",
                "code": codes[(place + number) % len(codes)],
                "external_subscription_id": f"{name} main",
                "timestamp": (since + timedelta(days=3 * place, hours=number % 20)).timestamp(),
                "properties": {"value": (7 * number + 3 * place) % 23, "zone": ("eu", "us", "asia")[place % 3]},
            }
            for place in range(8)
        ]
    )


def digests(records: Mapping[str, str]) -> dict[str, str]:
    """What each record says, by its id, with the ids within it replaced by what the records of these ids say."""
    known = dict.fromkeys(records, "")
    for _ in range(4):
        known = {id: digest(text, known) for id, text in records.items()}
    return known


def digest(text: str, known: Mapping[str, str]) -> str:
    return sha256(_UUID.sub(lambda match: known.get(match[0], "?"), text).encode()).hexdigest()[:16]


def stored(tx: Snapshot) -> dict[str, str]:
    """The number of rows of each table, and one digest of them that does not depend on ids or on their order."""
    texts: dict[str, dict[str, str]] = {}
    for table in TABLES:
        if table.kind not in LEFT_OUT:
            kind: Any = table.kind
            texts[table.name] = {record.id: repr(record) for record in tx.each(kind, deleted=True)}
    later = MONTHS[-1] + timedelta(days=3650)
    leased = [tx.jobs.get(DeliverWebhook(message_id=id).key) for id in texts["webhook_messages"]]
    jobs = (*tx.jobs.overdue_of(tuple(HANDLERS), later), *filter(None, leased))
    texts["jobs"] = {job.id: repr(job) for job in jobs}
    texts["lanes"] = {lane.lane: repr(lane.due) for lane in tx.jobs.state(later).backlog}
    plain = {id: _LEFT_OPEN.sub("", text) for rows in texts.values() for id, text in rows.items()}
    known = digests(plain)
    return {
        name: f"{len(rows)} {sha256(' '.join(sorted(known[id] for id in rows)).encode()).hexdigest()[:16]}"
        for name, rows in texts.items()
        if rows
    }


@pytest.mark.parametrize("hears", [False, True], ids=["unheard", "webhooks"])
def test_every_row_of_a_run_is_the_frozen_one(empty_database: str, hears: bool) -> None:
    mailer: Any = object()
    with Billing(empty_database, clock=ManualClock(START), deliver=False, mailer=mailer) as billing:
        clock: Any = billing.clock
        (entity,) = billing.billing_entities.list()
        billing.billing_entities.update(entity.code, email="b@lumen.example", email_settings=["invoice.finalized"])
        if hears:
            billing.webhook_endpoints.create(webhook_url="https://acme.example/1")
        price_lists(billing)
        customers = [(f"{plan}-{kind}", plan, kind) for plan in LISTS for kind in KINDS]
        for number, (name, plan, kind) in enumerate(customers):
            clock.set(START + timedelta(minutes=number))
            sign_up(billing, name, plan, kind)
            use(billing, name, number, START)
        clock.set(START + timedelta(days=2))
        run(billing)
        for name, _, kind in customers:
            if kind == "upgrade":
                clock.set(MONTHS[0] - timedelta(hours=3))
                billing.subscriptions.create(
                    external_customer_id=name, plan_code="upgraded", external_id=f"{name} main"
                )
        for month in MONTHS:
            clock.set(month)
            run(billing)
            for number, (name, _, _) in enumerate(customers):
                use(billing, name, number, month)
        found = billing.reading(lambda reader: stored(reader.tx))
        invoices = billing.reading(lambda reader: reader.tx.find(Invoice))
        numbers = sorted(invoice.entity_sequential_id for invoice in invoices if invoice.entity_sequential_id)
        assert numbers == list(range(1, len(numbers) + 1))
        assert list(billing.audit().findings) == []
    assert found == json.loads(FROZEN.read_text())["webhooks" if hears else "unheard"]


def run(billing: Billing) -> None:
    """Run what is due, but nothing that reaches out."""
    while billing._system.run_batch(strict=True):
        pass
