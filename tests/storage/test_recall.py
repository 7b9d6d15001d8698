"""What a snapshot has read is taken over by a write only as far as nobody has changed it, whoever writes in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, strategies as st
from tests.postgresql import new_database
from tests.storage.contract import new_tenant

from usagebill.core.taxes import Tax
from usagebill.storage.conditions import eq
from usagebill.storage.ports import Snapshot, Store, Transaction
from usagebill.storage.sqlite import SqliteStore
from usagebill.storage.stores import store_at

Seen = tuple[list[str | None], list[str], bool]


def names(tx: Snapshot, taxes: Sequence[Tax]) -> tuple[list[str | None], list[str]]:
    by_id = [None if (tax := tx.get(Tax, known.id)) is None else tax.name for known in taxes]
    return by_id, [tax.name for tax in tx.find(Tax, eq("rate", taxes[0].rate))]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.second_engine)])
def stores(request: pytest.FixtureRequest) -> Iterator[tuple[Store, Store]]:
    """Two openings of one database, as of two processes."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "billing.db"
        url = str(path) if request.param == "sqlite" else stack.enter_context(new_database())
        opened = store_at(url), store_at(url)
        yield opened
        for store in opened:
            store.close()


@pytest.mark.slow
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["own", "other", "other kind", "failing", "look", "recall"]), st.integers(0, 1))
    )
)
def test_a_write_sees_what_is_there_whatever_it_recalls(
    stores: tuple[Store, Store], steps: list[tuple[str, int]]
) -> None:
    store, other = stores
    tenant = new_tenant(store)
    taxes = [tenant.tax("vat"), tenant.tax("levy")]
    tenant.insert(*taxes)
    snapshot, observation, then = None, None, None
    for number, (step, tax_index) in enumerate(steps):
        renamed = replace(taxes[tax_index], name=f"renamed {number}")

        def rename(tx: Transaction, renamed: Tax = renamed) -> None:
            tx.replace(renamed)

        def fail(tx: Transaction, renamed: Tax = renamed) -> None:
            tx.replace(renamed)
            raise LookupError("undone")

        if step == "own":
            store.write(tenant.id, rename)
        elif step == "other":
            other.write(tenant.id, rename)
        elif step == "other kind":
            other.write(tenant.id, lambda tx: tx.insert(tenant.plan()))
        elif step == "failing":
            with pytest.raises(LookupError):
                store.write(tenant.id, fail)
        elif step == "look":

            def look(tx: Transaction) -> Snapshot:
                names(tx, taxes)
                return tx

            snapshot = store.read(tenant.id, look)
            then, observation = store.read(tenant.id, lambda tx: tx.observed(partial(names, taxes=taxes)))
        elif snapshot is not None and observation is not None:
            recalled, observed = snapshot, observation

            def recall(tx: Transaction) -> Seen:
                tx.recall(recalled)  # noqa: B023
                return *names(tx, taxes), tx.still_holds(observed)  # noqa: B023

            *seen, holds = store.write(tenant.id, recall)
            now = other.read(tenant.id, lambda tx: names(tx, taxes))
            assert tuple(seen) == now
            assert holds is (then == now)


def test_a_write_repeats_only_what_another_process_may_have_changed(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "billing.db")) as store, closing(SqliteStore(tmp_path / "billing.db")) as other:
        tenant = new_tenant(store)
        tax, entity = tenant.tax("vat"), tenant.entity()
        customer = tenant.customer(entity)
        tenant.insert(tax, entity, customer)

        def repeated(written: object) -> list[str]:
            """The queries of taxes repeated after another process has written this."""
            _, observation = store.read(tenant.id, lambda tx: tx.observed(partial(names, taxes=[tax])))
            other.write(tenant.id, lambda tx: tx.insert(written))
            statements: list[str] = []
            store._writer.set_trace_callback(statements.append)
            assert store.write(tenant.id, lambda tx: tx.still_holds(observation))
            store._writer.set_trace_callback(None)
            return [statement for statement in statements if '"taxes"' in statement]

        assert repeated(tenant.plan()) == []
        assert repeated(tenant.invoice(customer, billing_entity_id=entity.id)) == []
        # Once by id, once by rate.
        assert len(repeated(tenant.tax("levy", rate=Decimal(1)))) == 2
        assert repeated(tenant.plan()) == []
