"""Databases of a time when all organizations signed with one key: each gets a key of its own."""

from __future__ import annotations

from tests.storage.former_versions import make_former

from usagebill import Billing
from usagebill.core.organizations import Organization
from usagebill.operations import organizations

_BEFORE = 53


def before_own_keys(url: str) -> None:
    """Make the one key there is the shared key, as in a database of the version before."""
    make_former(url, _BEFORE, "UPDATE signing_keys SET organization_id = 'installation'")


def key_of(url: str, organization: Organization) -> str:
    with Billing(url, organization=organization.id, deliver=False) as billing:
        return billing.webhooks.public_key()


def test_the_only_organization_keeps_the_key_that_its_receivers_know(url: str) -> None:
    with Billing(url, deliver=False) as billing:
        only, before = billing.organization, billing.webhooks.public_key()
    before_own_keys(url)
    assert key_of(url, only) == before


def test_of_several_organizations_each_gets_a_new_key_and_keeps_it(url: str) -> None:
    with Billing(url, deliver=False) as billing:
        first, shared = billing.organization, billing.webhooks.public_key()
        second = billing.store.write(None, lambda tx: organizations.create(tx, billing.clock.now(), "Hooli"))
    before_own_keys(url)
    # Tests have three keys, in turn.
    keys = [key_of(url, organization) for organization in (first, second)]
    assert len({shared, *keys}) == 3
    assert [key_of(url, organization) for organization in (first, second)] == keys
