"""The contract of every storage engine for writes that are deferred and stored together: the delay is invisible."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from tests.storage.contract import Contract, Tenant, second

from usagebill.core.taxes import Tax
from usagebill.storage.conditions import eq
from usagebill.storage.ports import Duplicate, Transaction


class _Fails(Exception):
    pass


def fail_after(tx: Transaction, *records: object) -> None:
    tx.insert(*records)
    raise _Fails


class UncheckedContract(Contract):
    def test_what_waits_is_read_by_the_same_transaction(self, tenant: Tenant) -> None:
        vat = tenant.tax("vat")
        other = tenant.tax("other")

        def change(tx: Transaction) -> tuple[int, str]:
            tx.unchecked(lambda: tx.insert(vat, other))
            tx.unchecked(lambda: tx.replace(replace(vat, name="VAT")))
            stored = tx.first(Tax, eq("code", "vat"))
            assert stored is not None
            return tx.count(Tax), stored.name

        assert tenant.write(change) == (2, "VAT")
        assert tenant.read(lambda tx: (tx.count(Tax), tx.get(Tax, vat.id))) == (2, replace(vat, name="VAT"))

    @pytest.mark.parametrize("is_read_before", [False, True])
    def test_a_savepoint_undoes_what_has_waited_since(self, tenant: Tenant, is_read_before: bool) -> None:
        kept, undone, after = tenant.tax("kept"), tenant.tax("undone"), tenant.tax("after")

        def fail(tx: Transaction) -> None:
            tx.insert(undone)
            tx.next_number("invoices")
            if is_read_before:
                assert tx.count(Tax) == 2
            raise _Fails

        def change(tx: Transaction) -> list[int]:
            def store() -> list[int]:
                tx.insert(kept)
                numbers = [tx.next_number("invoices")]
                with pytest.raises(_Fails):
                    tx.savepoint(partial(fail, tx))
                tx.savepoint(partial(tx.insert, after))
                return [*numbers, tx.next_number("invoices")]

            return tx.unchecked(store)

        assert tenant.write(change) == [1, 2]
        assert tenant.read(lambda tx: {tax.code for tax in tx.find(Tax)}) == {"kept", "after"}
        assert tenant.read(lambda tx: tx.last_numbers("invoices")[0]) == 2

    def test_savepoints_within_each_other_undo_their_own(self, tenant: Tenant) -> None:
        outer, inner, last = tenant.tax("outer"), tenant.tax("inner"), tenant.tax("last")

        def nested(tx: Transaction) -> None:
            tx.insert(outer)
            with pytest.raises(_Fails):
                tx.savepoint(partial(fail_after, tx, inner))
            assert tx.count(Tax) == 1
            tx.insert(last)

        tenant.write(lambda tx: tx.unchecked(lambda: tx.savepoint(partial(nested, tx))))
        assert tenant.read(lambda tx: {tax.code for tax in tx.find(Tax)}) == {"outer", "last"}

    def test_a_change_that_fails_leaves_nothing(self, tenant: Tenant) -> None:
        with pytest.raises(_Fails):
            tenant.write(lambda tx: tx.unchecked(partial(fail_after, tx, tenant.tax("vat"))))
        assert tenant.read(lambda tx: tx.count(Tax)) == 0

    def test_a_rule_that_one_breaks_is_said_and_nothing_is_stored(self, tenant: Tenant) -> None:
        tenant.insert(tenant.tax("vat"))
        with pytest.raises(Duplicate) as refused:
            tenant.write(lambda tx: tx.unchecked(lambda: tx.insert(tenant.tax("levy"), tenant.tax("vat"))))
        assert refused.value.columns == ("code",)
        assert tenant.read(lambda tx: tx.count(Tax)) == 1

    def test_one_of_several_that_breaks_a_rule_is_undone_alone(self, tenant: Tenant) -> None:
        tenant.insert(tenant.tax("vat"))
        refused: list[str] = []

        def change(tx: Transaction) -> None:
            refused.clear()
            for code in ("levy", "vat", "duty"):
                try:
                    tx.savepoint(partial(tx.unchecked, partial(tx.insert, tenant.tax(code))))
                except Duplicate:
                    refused.append(code)

        tenant.write(change)
        assert refused == ["vat"]
        assert tenant.read(lambda tx: {tax.code for tax in tx.find(Tax)}) == {"vat", "levy", "duty"}

    def test_numbers_go_on_from_those_that_were_taken_before(self, tenant: Tenant) -> None:
        tenant.write(lambda tx: tx.next_number("invoices", 5))

        def change(tx: Transaction) -> list[int]:
            waiting = tx.unchecked(lambda: [tx.next_number("invoices"), tx.next_number("invoices")])
            return [*waiting, tx.next_number("invoices"), *tx.unchecked(lambda: [tx.next_number("invoices")])]

        assert tenant.write(change) == [6, 7, 8, 9]
        assert tenant.write(lambda tx: tx.next_number("invoices")) == 10

    def test_jobs_that_wait_are_there_and_those_done_are_gone(self, tenant: Tenant) -> None:
        first, later = tenant.job("first"), tenant.job("later", at=second(5))
        tenant.write(lambda tx: tx.jobs.add(first))

        def change(tx: Transaction) -> object:
            tx.unchecked(lambda: tx.jobs.complete(first))
            tx.unchecked(lambda: tx.jobs.add(later))
            return tx.jobs.get("first"), tx.jobs.get("later")

        assert tenant.write(change) == (None, later)
        assert tenant.read(lambda tx: (tx.jobs.get("first"), tx.jobs.get("later"))) == (None, later)

    def test_a_job_that_was_added_and_is_cancelled_is_gone(self, tenant: Tenant) -> None:
        def change(tx: Transaction) -> None:
            tx.unchecked(lambda: tx.jobs.add(tenant.job("one")))
            tx.unchecked(lambda: tx.jobs.cancel("one"))

        tenant.write(change)
        assert tenant.read(lambda tx: tx.jobs.get("one")) is None

    def test_a_job_whose_key_is_taken_is_not_added_twice(self, tenant: Tenant) -> None:
        there = tenant.job("one")
        tenant.write(lambda tx: tx.jobs.add(there))
        added: list[bool] = []
        tenant.write(lambda tx: added.append(tx.unchecked(lambda: tx.jobs.add(tenant.job("one")))))
        assert added[-1] is False
        assert tenant.read(lambda tx: tx.jobs.get("one")) == there
