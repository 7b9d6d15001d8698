"""The contract of every storage engine for observations: whether a result computed from a snapshot is still valid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.storage.contract import NOW, Contract, Tenant
from tests.storage.events_contract import START, event

from usagebill.core.taxes import Tax
from usagebill.storage.conditions import eq
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.ports import Observation, Snapshot, Transaction


def observed(tenant: Tenant, question: Callable[[Snapshot], object]) -> Observation:
    return tenant.read(lambda tx: tx.observed(question)[1])


def holds(tenant: Tenant, observation: Observation) -> bool:
    return tenant.write(lambda tx: tx.still_holds(observation))


class ObservationsContract(Contract):
    def test_what_nobody_has_touched_holds(self, tenant: Tenant) -> None:
        tenant.insert(tenant.tax("vat"))
        assert holds(tenant, observed(tenant, lambda tx: (tx.find(Tax, eq("code", "vat")), tx.count(Tax))))

    def test_the_answer_is_given_with_the_observation(self, tenant: Tenant) -> None:
        tenant.insert(tenant.tax("vat"), tenant.tax("levy"))
        answer, _ = tenant.read(lambda tx: tx.observed(lambda seen: seen.count(Tax)))
        assert answer == 2

    def test_a_record_that_was_read_and_has_changed_does_not_hold(self, tenant: Tenant) -> None:
        vat = tenant.tax("vat")
        tenant.insert(vat)
        by_id = observed(tenant, lambda tx: tx.get(Tax, vat.id))
        by_code = observed(tenant, lambda tx: tx.first(Tax, eq("code", "vat")))
        tenant.write(lambda tx: tx.replace(replace(vat, name="VAT of 2025")))
        assert not holds(tenant, by_id)
        assert not holds(tenant, by_code)

    def test_a_record_that_would_have_been_found_does_not_hold(self, tenant: Tenant) -> None:
        none_yet = observed(tenant, lambda tx: tx.first(Tax, eq("code", "levy")))
        counted = observed(tenant, lambda tx: tx.count(Tax))
        tenant.insert(tenant.tax("levy"))
        assert not holds(tenant, none_yet)
        assert not holds(tenant, counted)

    def test_what_changes_beside_it_does_not_matter(self, tenant: Tenant) -> None:
        vat = tenant.tax("vat")
        tenant.insert(vat)
        seen = observed(tenant, lambda tx: tx.find(Tax, eq("code", "vat")))
        tenant.insert(tenant.tax("levy"))
        assert holds(tenant, seen)

    def test_what_the_same_transaction_wrote_before_counts_too(self, tenant: Tenant) -> None:
        vat = tenant.tax("vat")
        tenant.insert(vat)
        seen = observed(tenant, lambda tx: tx.get(Tax, vat.id))

        def change(tx: Transaction) -> list[bool]:
            answers = [tx.still_holds(seen), tx.still_holds(seen)]
            tx.replace(replace(vat, rate=vat.rate + 1))
            answers.append(tx.still_holds(seen))
            tx.replace(vat)
            answers.append(tx.still_holds(seen))
            return answers

        assert tenant.write(change) == [True, True, False, True]

    def test_what_was_undone_does_not_count(self, tenant: Tenant) -> None:
        vat = tenant.tax("vat")
        tenant.insert(vat)
        changed = replace(vat, rate=vat.rate + 1)

        def change(tx: Transaction) -> list[bool]:
            answers: list[bool] = []

            def attempt() -> None:
                tx.replace(changed)
                answers.append(tx.still_holds(seen_changed))
                raise LookupError("undone")

            with pytest.raises(LookupError):
                tx.savepoint(attempt)
            answers += [tx.still_holds(seen_changed), tx.still_holds(seen)]
            return answers

        seen = observed(tenant, lambda tx: tx.get(Tax, vat.id))
        tenant.write(lambda tx: tx.replace(changed))
        seen_changed = observed(tenant, lambda tx: tx.get(Tax, vat.id))
        tenant.write(lambda tx: tx.replace(vat))
        assert tenant.write(change) == [True, False, True]

    def test_events_that_the_question_is_about_do_not_hold(self, tenant: Tenant) -> None:
        tenant.write(lambda tx: tx.events.append([event(tenant.id, 1)]))
        question = EventQuery(code="calls", external_subscription_id="sub", latest=START + timedelta(days=1))
        counted = observed(tenant, lambda tx: tx.events.tallies(question))
        scanned = observed(tenant, lambda tx: list(tx.events.scan(question)))
        assert holds(tenant, counted)
        assert holds(tenant, scanned)
        tenant.write(lambda tx: tx.events.append([event(tenant.id, 2, at=START + timedelta(hours=1))]))
        assert not holds(tenant, counted)
        assert not holds(tenant, scanned)

    def test_events_that_it_is_not_about_hold(self, tenant: Tenant, other: Tenant) -> None:
        known_at = NOW + timedelta(days=400)
        question = EventQuery(
            code="calls", external_subscription_id="sub", latest=START + timedelta(days=1), known_at=known_at
        )
        counted = observed(tenant, lambda tx: tx.events.tallies(question))
        tenant.write(
            lambda tx: tx.events.append(
                [
                    event(tenant.id, 11, subscription="another"),
                    event(tenant.id, 12, code="storage"),
                    event(tenant.id, 13, at=START + timedelta(days=2)),
                    event(tenant.id, 14, received=known_at + timedelta(seconds=1)),
                ]
            )
        )
        other.write(lambda tx: tx.events.append([event(other.id, 15)]))
        assert holds(tenant, counted)

    def test_an_observation_of_questions_holds_until_one_of_their_events_comes(self, tenant: Tenant) -> None:
        tenant.write(lambda tx: tx.events.append([event(tenant.id, 1)]))
        question = EventQuery(code="calls", external_subscription_id="sub", latest=START + timedelta(days=1))
        watching = tenant.read(lambda tx: tx.watching([question]))
        tenant.write(lambda tx: tx.events.append([event(tenant.id, 2, code="storage")]))
        assert holds(tenant, watching)
        tenant.write(lambda tx: tx.events.append([event(tenant.id, 3)]))
        assert not holds(tenant, watching)

    def test_what_a_snapshot_has_read_is_recalled_as_it_is_now(self, tenant: Tenant) -> None:
        vat, levy = tenant.tax("vat"), tenant.tax("levy")
        tenant.insert(vat, levy)
        is_vat = eq("code", "vat")

        def look(tx: Snapshot) -> Snapshot:
            tx.get(Tax, vat.id)
            tx.find(Tax, is_vat)
            return tx

        def recall(tx: Transaction) -> list[object]:
            tx.recall(snapshot)
            return [tx.get(Tax, vat.id), *tx.find(Tax, is_vat)]

        snapshot = tenant.read(look)
        assert tenant.write(recall) == [vat, vat]
        changed = replace(vat, name="VAT of 2025")
        tenant.write(lambda tx: tx.replace(changed))
        assert tenant.write(recall) == [changed, changed]

        def change_first(tx: Transaction) -> list[object]:
            tx.replace(vat)
            return recall(tx)

        snapshot = tenant.read(look)
        assert tenant.write(change_first) == [vat, vat]
