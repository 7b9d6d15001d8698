"""Whatever happens to wallets, no credit is lost, spent twice or invented, and ongoing balances are never stale."""

from __future__ import annotations

import random
from collections import defaultdict
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, strategies as st

from tests.examples import examples
from tests.properties.wallet_lives import ALERT_TYPES, WalletLife, play, wallet_lives
from tests.scenarios import Scenario
from usagebill.core.alerts import Alert
from usagebill.core.audit import Finding
from usagebill.core.invoices.records import Invoice
from usagebill.core.wallet_transactions import TransactionKind, WalletConsumption, WalletTransaction
from usagebill.core.wallets import Wallet, WalletStatus
from usagebill.rating.ongoing_usage import refreshed
from usagebill.runtime.work import Reader

pytestmark = [pytest.mark.slow, pytest.mark.beyond_reference]

_moderate = examples(25, deadline=None, suppress_health_check=[HealthCheck.too_slow])

ZERO = Decimal(0)


def cents(transactions: list[WalletTransaction], *kinds: TransactionKind) -> int:
    return sum(transaction.amount_cents for transaction in transactions if transaction.transaction_status in kinds)


def credits(transactions: list[WalletTransaction], *kinds: TransactionKind) -> Decimal:
    return sum(
        (transaction.credit_amount for transaction in transactions if transaction.transaction_status in kinds), ZERO
    )


IN = (TransactionKind.GRANTED, TransactionKind.PURCHASED)
OUT = (TransactionKind.INVOICED, TransactionKind.VOIDED)


def assert_balances(reader: Reader) -> None:
    """Granted and purchased less consumed and voided is what a wallet has, never less than nothing."""
    for wallet in reader.tx.find(Wallet):
        settled = [t for t in reader.tx.find(WalletTransaction) if t.wallet_id == wallet.id and t.status == "settled"]
        assert cents(settled, *IN) - cents(settled, *OUT) == wallet.balance_cents >= 0
        assert credits(settled, *IN) - credits(settled, *OUT) == wallet.credits_balance >= 0
        returned = [t for t in settled if t.voided_invoice_id is not None]
        assert credits(settled, *OUT) - credits(returned, *IN) == wallet.consumed_credits


def assert_every_use_is_funded_once(reader: Reader) -> None:
    """What went out was drawn from what had come into the same wallet; nothing was drawn on for more than it was."""
    transactions = {transaction.id: transaction for transaction in reader.tx.find(WalletTransaction)}
    used: dict[str, int] = defaultdict(int)
    funded: dict[str, int] = defaultdict(int)
    pairs = set()
    for row in reader.tx.find(WalletConsumption):
        source, use = transactions[row.inbound_id], transactions[row.outbound_id]
        assert source.wallet_id == use.wallet_id == row.wallet_id
        assert source.is_inbound
        assert not use.is_inbound
        assert source.status == "settled"
        assert row.amount_cents > 0
        pairs.add((source.id, use.id))
        used[source.id] += row.amount_cents
        funded[use.id] += row.amount_cents
    assert len(pairs) == reader.tx.count(WalletConsumption)
    for transaction in transactions.values():
        if not transaction.is_inbound:
            assert funded[transaction.id] == transaction.amount_cents
            assert transaction.remaining_amount_cents is None
        elif transaction.status == "settled":
            assert transaction.remaining_amount_cents == transaction.amount_cents - used[transaction.id] >= 0
        else:
            assert transaction.remaining_amount_cents is None


def assert_invoices_are_paid_by_wallets(reader: Reader) -> None:
    """What invoices say was prepaid left the wallets, to the cent."""
    transactions = reader.tx.find(WalletTransaction)
    kinds = {transaction.id: transaction.transaction_status for transaction in transactions}
    rows = reader.tx.find(WalletConsumption)
    for invoice in reader.tx.find(Invoice):
        paying = [t for t in transactions if not t.is_inbound and t.invoice_id == invoice.id]
        assert invoice.prepaid_credit_amount_cents == sum(t.amount_cents for t in paying)
        assert invoice.total_amount_cents >= 0
        ids = {t.id for t in paying}
        split: dict[TransactionKind, int] = defaultdict(int)
        for row in rows:
            if row.outbound_id in ids:
                split[kinds[row.inbound_id]] += row.amount_cents
        assert (invoice.prepaid_granted_credit_amount_cents or 0) == split[TransactionKind.GRANTED]
        assert (invoice.prepaid_purchased_credit_amount_cents or 0) == split[TransactionKind.PURCHASED]
    assert sum(invoice.prepaid_credit_amount_cents for invoice in reader.tx.find(Invoice)) == sum(
        t.amount_cents for t in transactions if t.transaction_status == TransactionKind.INVOICED
    )


def assert_ongoing_balances_are_fresh(reader: Reader) -> None:
    """What is computed on demand is what the worker has stored, now that it is idle."""
    for wallet in reader.tx.find(Wallet):
        if wallet.status == WalletStatus.ACTIVE:
            assert refreshed(reader, wallet) == wallet


def assert_credits_are_accounted_for(reader: Reader) -> None:
    """What holds after every commit, whatever is still to be done."""
    assert_balances(reader)
    assert_every_use_is_funded_once(reader)
    assert_invoices_are_paid_by_wallets(reader)


def assert_alerts_rang_for_each_fall(box: Scenario) -> None:
    """Every movement of a wallet is told of, and each threshold that it took the balance past rang once, then."""
    seen: dict[tuple[str, str], Decimal] = {}
    expected: list[tuple[str, str, list[Decimal]]] = []
    rung: list[tuple[str, str, list[Decimal]]] = []
    values = dict(zip(ALERT_TYPES, ("balance_cents", "credits_balance"), strict=True))
    watched = {
        (alert.wallet_id or "", str(alert.alert_type))
        for alert in box.billing.reading(lambda reader: reader.tx.find(Alert))
    }
    for message in box.webhooks:
        if message["webhook_type"] == "wallet.updated":
            wallet = message["wallet"]
            for alert_type, name in values.items():
                owner = wallet["svc_id"], alert_type
                after = Decimal(wallet[name])
                crossed = falls_past(seen.get(owner, ZERO), after)
                seen[owner] = after
                if crossed and owner in watched:
                    expected.append((*owner, crossed))
        elif message["webhook_type"] == "alert.triggered":
            alert = message["triggered_alert"]
            crossed = [Decimal(threshold["value"]) for threshold in alert["crossed_thresholds"]]
            rung.append((alert["svc_wallet_id"], alert["alert_type"], sorted(crossed)))
    assert rung == expected


def falls_past(before: Decimal, after: Decimal) -> list[Decimal]:
    """What a balance falls to or past of the values of `THRESHOLDS`: 10,000, and every ten below it."""
    values = (Decimal(value) for value in range(0, 10_001, 10))
    return [value for value in values if after <= value < before]


def holds(box: Scenario) -> None:
    box.billing.reading(assert_credits_are_accounted_for)
    box.billing.reading(assert_ongoing_balances_are_fresh)


@_moderate
@given(wallet_lives(24))
def test_every_credit_is_accounted_for_at_every_moment(life: WalletLife) -> None:
    ended: list[Finding] = []

    def check(box: Scenario) -> None:
        holds(box)
        assert_alerts_rang_for_each_fall(box)
        ended[:] = box.billing.audit().findings

    play(life, check, watch=assert_credits_are_accounted_for)
    assert ended == []


@_moderate
@given(wallet_lives(16), st.integers(0, 10_000))
def test_a_process_that_dies_loses_and_repeats_no_credit(life: WalletLife, seed: int) -> None:
    chance = random.Random(seed)
    play(life, holds, watch=assert_credits_are_accounted_for, dies=lambda: chance.random() < 0.3)
