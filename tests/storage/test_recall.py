"""What a snapshot has read is taken over by a write only as far as nobody has changed it, whoever writes in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.contract import new_tenant

from usagebill.core.taxes import Tax
from usagebill.storage.conditions import eq
from usagebill.storage.ports import Snapshot, Transaction
from usagebill.storage.sqlite import SqliteStore

Seen = tuple[list[str | None], list[str], bool]


def names(tx: Snapshot, taxes: Sequence[Tax]) -> tuple[list[str | None], list[str]]:
    by_id = [None if (tax := tx.get(Tax, known.id)) is None else tax.name for known in taxes]
    return by_id, [tax.name for tax in tx.find(Tax, eq("rate", taxes[0].rate))]


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["own", "other", "failing", "look", "recall"]), st.integers(0, 1))))
def test_a_write_sees_what_is_there_whatever_it_recalls(steps: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "billing.db"
        store, other = SqliteStore(path), SqliteStore(path)
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
        store.close()
        other.close()
