"""Metadata of wallet transactions: the transactions of a wallet by an item, counted without reading any."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.scenarios import Scenario
from tests.storage.test_lists import GATHER, GUIDED, WALK, plainly, recounted, ways

from usagebill import Billing
from usagebill.clock import ManualClock
from usagebill.storage.sqlite import SqliteStore

NOW = datetime(2024, 3, 5, 10, tzinfo=UTC)

GOLD, SILVER, RED = (
    {"key": key, "value": value} for key, value in (("tier", "gold"), ("tier", "silver"), ("hue", "red"))
)
# A key may occur with two values, and a pair twice.
METADATA: tuple[list[dict[str, str]], ...] = (
    [],
    [GOLD],
    [SILVER, GOLD],
    [GOLD, GOLD],
    [RED, SILVER],
    [{"key": "gold", "value": "tier"}],
)
QUESTIONS = (
    {"tier": "gold"},
    {"tier": "silver"},
    {"hue": "red"},
    {"tier": "none"},
    {"none": "gold"},
    {"tier": "gold", "hue": "red"},
    {"tier": "silver", "hue": "red"},
)


def wallets_of(billing: Billing) -> list[str]:
    """Two wallets with transactions that have metadata."""
    billing.customers.upsert(external_id="acme", name="Acme", currency="EUR")
    wallets = [
        billing.wallets.create(external_customer_id="acme", rate_amount="1", currency="EUR", name=name).id
        for name in ("main", "spare")
    ]
    for number, metadata in enumerate(METADATA * 2):
        for wallet in wallets[: 1 + number % 2]:
            billing.wallet_transactions.create(wallet_id=wallet, granted_credits="5", metadata=metadata)
    return wallets


def test_transactions_by_metadata_are_the_same_whichever_way_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        wallets = wallets_of(box.billing)
        numbers = []
        for wallet in wallets:
            for metadata in QUESTIONS:
                for more in ("", "&status=settled", "&status=pending", "&transaction_type=inbound"):
                    pairs = "&".join(f"metadata[{key}]={value}" for key, value in metadata.items())
                    address = f"/api/v1/wallets/{wallet}/wallet_transactions?{pairs}{more}"
                    for page in ("&per_page=2", "&per_page=2&page=2"):
                        with plainly(monkeypatch):
                            expected = box.request("GET", address + page)
                        assert expected[0] == 200
                        numbers.append(expected[1]["meta"]["total_count"])
                        for way in (WALK, GATHER, GUIDED):
                            with ways(monkeypatch, *way):
                                assert box.request("GET", address + page) == expected, (address, way)
        assert set(numbers) == {0, 2, 4, 6}
        recounted(box.billing.store._writer)  # type: ignore[attr-defined]


def test_no_transaction_is_read_to_count_those_with_an_item() -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        wallet, _ = wallets_of(box.billing)
        statements: list[str] = []
        connection = box.billing.store._writer  # type: ignore[attr-defined]
        connection.set_trace_callback(statements.append)
        try:
            page = box.billing.wallet_transactions.list_of_wallet(wallet, metadata={"tier": "gold"}, per_page=1)
        finally:
            connection.set_trace_callback(None)
        assert (page.total_count, len(page.items)) == (6, 1)
        assert any('"wallet_transactions_metadata_counts"' in statement for statement in statements)
        assert [statement for statement in statements if 'FROM "wallet_transactions" t WHERE t.org' in statement] == []


def test_transactions_of_version_44_are_found_by_metadata(tmp_path: Path) -> None:
    path = tmp_path / "billing.db"
    with Billing(path, clock=ManualClock(NOW), deliver=False) as billing:
        wallet, _ = wallets_of(billing)
    connection = sqlite3.connect(path)
    for table in ("wallet_transactions_metadata", "wallet_transactions_metadata_counts"):
        connection.execute(f"DROP TABLE {table}")
    connection.execute("PRAGMA user_version = 44")
    connection.commit()
    connection.close()

    with Billing(path, clock=ManualClock(NOW), deliver=False) as billing:
        assert billing.wallet_transactions.list_of_wallet(wallet, metadata={"tier": "gold"}).total_count == 6
        store = billing.store
        assert isinstance(store, SqliteStore)
        recounted(store._writer)
