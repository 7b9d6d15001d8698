"""Operations look up each record once and pass it on: code that looks it up again and again is noticed here.

Views are left out, since each looks up the related records that it shows: there are no listeners, and look-ups of the
activity log are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.scenarios import Scenario, charge_on, fixed_charge_on
from usagebill import Billing
from usagebill.runtime.work import Work
from usagebill.storage.sqlite.transaction import SqliteTransaction

pytestmark = pytest.mark.now("2025-06-01T00:00:00Z")


class Lookups:
    """How often a transaction was asked for each record by its id, and each question about records."""

    def __init__(self) -> None:
        self.records: Counter[Hashable] = Counter()
        self.questions: Counter[Hashable] = Counter()

    def most(self, counts: Counter[Hashable]) -> list[tuple[Hashable, int]]:
        """Look-ups made more than twice, most frequent first."""
        return [(question, times) for question, times in counts.most_common() if times > 2]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], Lookups]:
    """The look-ups made during an action."""
    get, find, count = SqliteTransaction.get, SqliteTransaction.find, SqliteTransaction.count
    log_changes = Work.log_changes

    def watch(act: Callable[[], object]) -> Lookups:
        lookups, uncounted = Lookups(), Lookups()
        counters = [lookups]

        def log_uncounted(work: Work) -> None:
            counters.append(uncounted)
            log_changes(work)
            counters.pop()

        def counted_get(tx: SqliteTransaction, kind: type, id: str, **options: Any) -> Any:
            counters[-1].records[kind.__name__, id] += 1
            return get(tx, kind, id, **options)

        def counted_find(tx: SqliteTransaction, kind: type, *conditions: Any, **options: Any) -> Any:
            counters[-1].questions[kind.__name__, conditions, repr(options)] += 1
            return find(tx, kind, *conditions, **options)

        def counted_count(tx: SqliteTransaction, kind: type, *conditions: Any, **options: Any) -> int:
            counters[-1].questions[kind.__name__, conditions, "count"] += 1
            return count(tx, kind, *conditions, **options)

        with monkeypatch.context() as patch:
            patch.setattr(Work, "log_changes", log_uncounted)
            patch.setattr(SqliteTransaction, "get", counted_get)
            patch.setattr(SqliteTransaction, "find", counted_find)
            patch.setattr(SqliteTransaction, "count", counted_count)
            act()
        return lookups

    return watch


def subscribed(box: Scenario) -> None:
    """A customer that pays for usage of three metrics, two seats and a fee, taxed, with a larger plan to go to."""
    box.tax(20)
    metrics = [box.metric(code) for code in ("gb", "calls", "users")]
    charges = [charge_on(metric, amount="2") for metric in metrics]
    seats = [fixed_charge_on(box.add_on("seats"), amount="5", units="2")]
    box.plan(*charges, amount_cents=3100, fixed_charges=seats)
    box.plan(*charges, code="larger", amount_cents=9900)
    box.customer()
    box.subscribe()
    for code in ("gb", "calls", "users"):
        box.event(code, value=12)


def test_a_month_end_asks_for_each_record_once_or_twice(
    box: Scenario, watched: Callable[[Callable[[], object]], Lookups]
) -> None:
    subscribed(box)
    silent = Billing(box.billing.store, clock=box.clock)
    lookups = watched(lambda: silent.run_due(datetime(2025, 7, 1, 1, tzinfo=UTC)))
    assert len(box.invoices()) == 1
    assert lookups.most(lookups.records) == []
    assert lookups.most(lookups.questions) == []
    assert lookups.records.total() <= 7
    assert lookups.questions.total() <= 28


def test_an_upgrade_asks_for_each_record_once_or_twice(
    box: Scenario, watched: Callable[[Callable[[], object]], Lookups]
) -> None:
    subscribed(box)
    box.travel_to("2025-06-16T00:00:00Z")
    silent = Billing(box.billing.store, clock=box.clock)
    lookups = watched(
        lambda: silent.subscriptions.create(external_customer_id="acme", external_id="sub", plan_code="larger")
    )
    assert len(box.invoices()) == 1
    assert lookups.most(lookups.records) == []
    assert lookups.most(lookups.questions) == []
    assert lookups.records.total() <= 9
    assert lookups.questions.total() <= 42


def test_a_one_off_invoice_asks_as_often_for_many_lines_as_for_few(
    box: Scenario, watched: Callable[[Callable[[], object]], Lookups]
) -> None:
    box.customer()
    box.tax("20", applied_to_organization=False)
    for number in range(30):
        box.add_on(f"part-{number}", 100)

    def questions(lines: int) -> int:
        fees = [{"add_on_code": f"part-{number}", "tax_codes": ["vat"]} for number in range(lines)]
        body = {"external_customer_id": "acme", "currency": "EUR", "fees": fees}
        lookups = watched(lambda: box.post("/invoices", invoice=body))
        asked = [question[0] for question in lookups.questions.elements() if isinstance(question, tuple)]
        return asked.count("AddOn") + asked.count("Tax")

    assert questions(30) == questions(2)
