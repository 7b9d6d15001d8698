"""Databases of a time when commits counted the kinds of record that they wrote: the counts go, numbers stay."""

from __future__ import annotations

from tests.storage.former_versions import make_former

from usagebill import Billing

_BEFORE = 61


def test_counts_of_writes_are_dropped_and_numbers_of_records_go_on(url: str) -> None:
    with Billing(url, deliver=False) as billing:
        organization_id = billing.organization.id
        first = billing.customers.upsert(external_id="acme", currency="EUR")
    make_former(url, _BEFORE, "INSERT INTO sequences (organization_id, name, value) VALUES ('', 'writes/Plan', 7)")
    with Billing(url, deliver=False) as billing:
        assert billing.store.read("", lambda tx: tx.last_numbers("writes/Plan")) == [0]
        second = billing.customers.upsert(external_id="globex", currency="EUR")
        assert billing.store.read(organization_id, lambda tx: tx.last_numbers("customers")[0]) == 2
    assert [first.sequential_id, second.sequential_id] == [1, 2]
