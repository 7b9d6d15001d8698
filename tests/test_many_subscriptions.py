"""A customer with many subscriptions: ending or billing them all blocks no other writer during the computation."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios import plan_fields
from usagebill import Billing
from usagebill.core.bills import Bill
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.operations.invoices import subscription as invoicing
from usagebill.runtime import ahead
from usagebill.runtime.clock import ManualClock
from usagebill.storage.conditions import eq
from usagebill.storage.sqlite import SqliteStore

START = datetime(2024, 1, 1, tzinfo=UTC)
MIDMONTH = datetime(2024, 1, 16, 12, tzinfo=UTC)
FEBRUARY = datetime(2024, 2, 1, 1, tzinfo=UTC)
MANY = 6
MONTH_CENTS = 3100
# The 16th has begun.
HALF_CENTS = MONTH_CENTS * 16 // 31


def filled(file: Path | str) -> Billing:
    """A customer with many subscriptions on one plan in arrears, and another customer on another plan."""
    billing = Billing(file, clock=ManualClock(START), deliver=False)
    for code in ("plan", "other"):
        billing.plans.create(**plan_fields(code=code, amount_cents=MONTH_CENTS))
    for name in ("acme", "quiet"):
        billing.customers.upsert(external_id=name, currency="EUR", billing_configuration={"invoice_grace_period": 3})
    for number in range(MANY):
        billing.subscriptions.create(external_customer_id="acme", plan_code="plan", external_id=f"acme-{number}")
    billing.subscriptions.create(external_customer_id="quiet", plan_code="other", external_id="quiet")
    return billing


class Watch:
    """The bills that were worked out: for how many subscriptions, and whether others could have written meanwhile."""

    def __init__(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bills: list[tuple[int, bool]] = []
        # How many subscriptions each transaction ended.
        self.ended: list[int] = []
        self.meanwhile: Callable[[], None] | None = None
        self._file = file
        for name in ("subscription_bill", "recomputed_bill", "finalized_bill"):
            monkeypatch.setattr(invoicing, name, self._watched(getattr(invoicing, name)))
        write = SqliteStore.write

        def watched_write(store: SqliteStore, organization_id: str | None, work: Callable[[Any], Any]) -> Any:
            before = self._active()
            result = write(store, organization_id, work)
            self.ended.append(before - self._active())
            return result

        monkeypatch.setattr(SqliteStore, "write", watched_write)

    def _watched(self, make: Callable[..., Bill | None]) -> Callable[..., Bill | None]:
        def watched(*args: Any, **fields: Any) -> Bill | None:
            bill = make(*args, **fields)
            self.bills.append((0 if bill is None else len(bill.periods), self._can_write()))
            if self.meanwhile is not None:
                meanwhile, self.meanwhile = self.meanwhile, None
                meanwhile()
            return bill

        return watched

    def _can_write(self) -> bool:
        connection = sqlite3.connect(self._file, timeout=0, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        else:
            connection.execute("ROLLBACK")
            return True
        finally:
            connection.close()

    def _active(self) -> int:
        connection = sqlite3.connect(self._file)
        try:
            (count,) = connection.execute("SELECT count(*) FROM subscriptions WHERE status = 'active'").fetchone()
        finally:
            connection.close()
        return int(count)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "billing.db"


@pytest.fixture
def billing(file: Path) -> Iterator[Billing]:
    with filled(file) as billing:
        yield billing


@pytest.fixture
def watch(billing: Billing, file: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    assert ahead._FEW_BILLED < MANY
    return Watch(file, monkeypatch)


def travel(billing: Billing, instant: datetime) -> None:
    clock = billing.clock
    assert isinstance(clock, ManualClock)
    clock.set(instant)


def customer_deleted(billing: Billing) -> None:
    travel(billing, MIDMONTH)
    billing.customers.delete("acme")
    billing.run_due(strict=True)


def plan_deleted(billing: Billing) -> None:
    travel(billing, MIDMONTH)
    billing.plans.delete("plan")
    billing.run_due(strict=True)


def draft_of_january(billing: Billing) -> str:
    travel(billing, FEBRUARY)
    billing.run_due(strict=True)
    customer = billing.customers.get("acme")
    (draft,) = (item for item in billing.invoices.list(status=["draft"]).items if item.customer_id == customer.id)
    return draft.id


def refreshed(billing: Billing) -> None:
    billing.invoices.refresh(draft_of_january(billing))


def finalized(billing: Billing) -> None:
    billing.invoices.finalize(draft_of_january(billing))


def overdue_run(billing: Billing) -> None:
    """January is billed first, since its run has not come yet."""
    travel(billing, FEBRUARY)
    billing.subscriptions.terminate("acme-0")


def previewed(billing: Billing) -> None:
    names = [f"acme-{number}" for number in range(MANY)]
    shown = billing.invoices.preview(customer={"external_id": "acme"}, subscriptions={"external_ids": names})
    assert shown["total_amount_cents"] == MANY * MONTH_CENTS


@pytest.mark.parametrize("end", [customer_deleted, plan_deleted], ids=lambda end: end.__name__)
def test_many_subscriptions_end_one_by_one(
    billing: Billing, watch: Watch, monkeypatch: pytest.MonkeyPatch, end: Callable[[Billing], None]
) -> None:
    # Each end takes as long as the lock may be held.
    monkeypatch.setattr("usagebill.system._LONGEST", 0)
    monkeypatch.setattr("usagebill.system._OTHERS_WAIT", 0)
    end(billing)
    assert max(watch.ended) == 1, "several subscriptions were ended while the lock of the writer was held"
    assert len(watch.bills) >= MANY
    assert max(subscriptions for subscriptions, _ in watch.bills) == 1
    assert [item.total_amount_cents for item in billing.invoices.list(per_page=100).items] == MANY * [HALF_CENTS]
    assert list(billing.audit().findings) == []


@pytest.mark.parametrize("change", [refreshed, finalized, overdue_run, previewed], ids=lambda change: change.__name__)
def test_one_bill_of_many_subscriptions_is_worked_out_before_the_lock_is_taken(
    billing: Billing, watch: Watch, change: Callable[[Billing], None]
) -> None:
    change(billing)
    large = [free for subscriptions, free in watch.bills if subscriptions == MANY]
    assert large, "nothing was billed"
    assert all(large), "a bill was worked out while the lock of the writer was held"
    assert list(billing.audit().findings) == []


def test_a_price_that_changes_while_a_bill_is_worked_out_is_the_one_that_is_billed(
    billing: Billing, file: Path, watch: Watch
) -> None:
    draft = draft_of_january(billing)

    def meanwhile() -> None:
        with Billing(file, clock=billing.clock, deliver=False) as other:
            other.plans.update("plan", amount_cents=10 * MONTH_CENTS)

    watch.meanwhile = meanwhile
    assert billing.invoices.refresh(draft).total_amount_cents == MANY * 10 * MONTH_CENTS
    assert list(billing.audit().findings) == []


def test_an_end_that_is_interrupted_goes_on_with_the_subscriptions_that_are_left(
    billing: Billing, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    travel(billing, MIDMONTH)
    billing.customers.delete("acme")
    billing._system.run_batch()
    active = billing.reading(lambda reader: reader.tx.count(Subscription, eq("status", SubscriptionStatus.ACTIVE)))
    assert 1 < active < MANY + 1
    # Another process goes on days later, as of the day of the deletion.
    with Billing(file, clock=ManualClock(datetime(2024, 1, 20, tzinfo=UTC)), deliver=False) as other:
        other.run_due(strict=True)
        ended = other.reading(lambda reader: reader.tx.find(Subscription, eq("status", SubscriptionStatus.TERMINATED)))
        assert [item.terminated_at for item in ended] == MANY * [MIDMONTH]
        assert [item.total_amount_cents for item in other.invoices.list().items] == MANY * [HALF_CENTS]
