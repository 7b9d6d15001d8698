"""The contract of every storage engine for versions: whether a result computed from a snapshot may still be used."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.storage.contract import NOW, Contract, Tenant
from tests.storage.events_contract import START, event

from usagebill.core.progressive_billing import LifetimeUsage
from usagebill.storage.ports import Transaction
from usagebill.storage.versions import versions_of


class VersionsContract(Contract):
    def test_a_write_raises_the_version_of_its_customer_alone(self, tenant: Tenant, other: Tenant) -> None:
        entity = tenant.entity()
        acme, globex = tenant.customer(entity), tenant.customer(entity)
        tenant.insert(entity, acme, globex)
        before = self.versions(tenant, acme.id), self.versions(tenant, globex.id)
        tenant.write(lambda tx: tx.replace(replace(acme, name="Acme")))
        assert self.versions(tenant, acme.id) == (before[0][0] + 1, before[0][1])
        assert self.versions(tenant, globex.id) == before[1]
        assert self.versions(other, acme.id) == (0, 0)

    def test_what_belongs_to_a_subscription_raises_the_version_of_its_customer(self, tenant: Tenant) -> None:
        entity, plan = tenant.entity(), tenant.plan()
        acme = tenant.customer(entity)
        tenant.insert(entity, acme, plan)
        before = self.versions(tenant, acme.id)
        subscription = tenant.subscription(acme, plan)
        tenant.insert(subscription)
        usage = LifetimeUsage(
            id="usage",
            organization_id=tenant.id,
            subscription_id=subscription.id,
            external_subscription_id=subscription.external_id,
            created_at=NOW,
            updated_at=NOW,
        )
        tenant.insert(usage)
        assert self.versions(tenant, acme.id) == (before[0] + 2, before[1])

    def test_what_all_customers_share_raises_every_version(self, tenant: Tenant) -> None:
        entity, vat = tenant.entity(), tenant.tax("vat")
        acme = tenant.customer(entity)
        tenant.insert(entity, acme)
        before = self.versions(tenant, acme.id)
        tenant.insert(vat)
        tenant.write(lambda tx: tx.replace(replace(vat, rate=vat.rate + 1)))
        tenant.write(lambda tx: tx.delete(vat))
        assert self.versions(tenant, acme.id) == (before[0], before[1] + 3)

    def test_a_transaction_knows_whom_it_has_written_for(self, tenant: Tenant) -> None:
        entity = tenant.entity()
        acme, globex = tenant.customer(entity), tenant.customer(entity)
        tenant.insert(entity, acme, globex)

        def change(tx: Transaction) -> list[bool]:
            said = [tx.has_written_for(acme.id)]
            tx.replace(replace(acme, name="Acme"))
            said += [tx.has_written_for(acme.id), tx.has_written_for(globex.id)]
            tx.insert(tenant.tax("vat"))
            return [*said, tx.has_written_for(globex.id)]

        before = self.versions(tenant, acme.id)
        assert tenant.write(change) == [False, True, False, True]
        assert tenant.write(lambda tx: tx.has_written_for(acme.id)) is False
        assert self.versions(tenant, acme.id) == (before[0] + 1, before[1] + 1)

    def test_what_was_rolled_back_raises_nothing(self, tenant: Tenant) -> None:
        entity = tenant.entity()
        acme = tenant.customer(entity)
        tenant.insert(entity, acme)
        before = self.versions(tenant, acme.id)

        def fail(tx: Transaction) -> None:
            tx.replace(replace(acme, name="Acme"))
            raise LookupError("undone")

        with pytest.raises(LookupError):
            tenant.write(fail)
        assert self.versions(tenant, acme.id) == before

    def test_the_events_since_a_sequence_number_are_those_of_the_subscriptions(
        self, tenant: Tenant, other: Tenant
    ) -> None:
        tenant.write(lambda tx: tx.events.append([event(tenant.id, 1)]))
        latest = tenant.read(lambda tx: tx.events.latest())
        assert self.since(tenant, latest) == []
        late = START - timedelta(days=9)
        tenant.write(
            lambda tx: tx.events.append([event(tenant.id, 2, at=late), event(tenant.id, 3, subscription="another")])
        )
        other.write(lambda tx: tx.events.append([event(other.id, 4)]))
        assert self.since(tenant, latest) == [late]

    @staticmethod
    def versions(tenant: Tenant, customer_id: str) -> tuple[int, int]:
        return tenant.read(lambda tx: versions_of(tx, customer_id))

    @staticmethod
    def since(tenant: Tenant, sequence: int) -> list[object]:
        return tenant.read(
            lambda tx: [
                event.timestamp for _, event in tx.events.stored_since(sequence, external_ids=["sub", "nobody"])
            ]
        )
