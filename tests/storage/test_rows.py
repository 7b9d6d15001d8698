"""Which columns a changed record is written to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tests.sample_records import world
from tests.scenarios import Scenario

from usagebill.core.wallets import Wallet, WalletStatus
from usagebill.storage.sqlite.rows import codec_of
from usagebill.storage.tables import TABLES

NOW = datetime(2024, 2, 1, tzinfo=UTC)
WALLET = Wallet(
    id="wallet",
    organization_id="org",
    customer_id="acme",
    code="prepaid",
    currency="EUR",
    rate_amount=Decimal("1.0"),
    created_at=NOW,
    updated_at=NOW,
)


def stored(box: Scenario, kind: type[Any]) -> list[Any]:
    return box.billing.store.read(None, lambda tx: list(tx.each(kind)))


def test_a_record_read_twice_differs_in_no_column() -> None:
    kinds = set()
    with Scenario(NOW) as box:
        world(box)
        for kind in (table.kind for table in TABLES):
            for once, again in zip(stored(box, kind), stored(box, kind), strict=True):
                assert once is not again
                assert codec_of(kind).changes(once, again) == ([], [])
                kinds.add(kind)
    assert len(kinds) > 30


def test_only_what_differs_is_written() -> None:
    later = replace(WALLET, status=WalletStatus.TERMINATED, balance_cents=2**70, credits_balance=Decimal("1.5"))
    names, values = codec_of(Wallet).changes(WALLET, later)
    written = dict(zip(names, values, strict=True))
    assert written.keys() == {"status", "balance_cents", "credits_balance"}
    assert (written["status"], written["credits_balance"]) == ("terminated", "1.5")


def test_a_decimal_stays_as_it_was_written_last() -> None:
    assert codec_of(Wallet).changes(WALLET, replace(WALLET, rate_amount=Decimal("1.00"))) == (["rate_amount"], ["1.00"])
