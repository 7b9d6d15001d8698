"""Metadata of wallet transactions: the transactions of a wallet by an item."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.scenarios import Scenario
from tests.storage.test_lists import WAYS, few, plainly, recounted

from usagebill import Billing
from usagebill.fields import MetadataPair

NOW = datetime(2024, 3, 5, 10, tzinfo=UTC)

GOLD: MetadataPair = {"key": "tier", "value": "gold"}
SILVER: MetadataPair = {"key": "tier", "value": "silver"}
RED: MetadataPair = {"key": "hue", "value": "red"}
# A key may occur with two values, and a pair twice.
METADATA: tuple[list[MetadataPair], ...] = (
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


def test_transactions_by_metadata_are_the_same_whichever_way_they_are_read() -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        wallets = wallets_of(box.billing)
        numbers = []
        for wallet in wallets:
            for metadata in QUESTIONS:
                for more in ("", "&status=settled", "&status=pending", "&transaction_type=inbound"):
                    pairs = "&".join(f"metadata[{key}]={value}" for key, value in metadata.items())
                    address = f"/api/v1/wallets/{wallet}/wallet_transactions?{pairs}{more}"
                    for page in ("&per_page=2", "&per_page=2&page=2"):
                        with plainly():
                            expected = box.request("GET", address + page)
                        assert expected[0] == 200
                        numbers.append(expected[1]["meta"]["total_count"])
                        for way in WAYS:
                            with few(way):
                                assert box.request("GET", address + page) == expected, (address, way)
        assert set(numbers) == {0, 2, 4, 6}
        recounted(box.billing.store._writer)  # type: ignore[attr-defined]
