"""Databases of a time when organizations had no root keys: each gets one of its own."""

from __future__ import annotations

from tests.storage.former_versions import make_former

from usagebill import Billing
from usagebill.core.derived_keys import Purpose, derived_key
from usagebill.core.organizations import Organization
from usagebill.operations import organizations

_BEFORE = 52


def before_root_keys(url: str) -> None:
    """Take the root keys away, as in a database of the version before."""
    make_former(url, _BEFORE, "ALTER TABLE organizations DROP COLUMN root_key")


def organizations_of(url: str) -> list[Organization]:
    with Billing(url, deliver=False) as billing:
        return billing.store.read(None, organizations.find_all)


def test_every_organization_gets_a_root_key_of_its_own_and_keeps_it(url: str) -> None:
    with Billing(url, deliver=False) as billing:
        billing.store.write(None, lambda tx: organizations.create(tx, billing.clock.now(), "Hooli"))
        before = billing.store.read(None, organizations.find_all)
    before_root_keys(url)
    first, second = organizations_of(url)
    assert len({key for known in (first, second, *before) for key in (known.root_key, known.hmac_key)}) == 6
    for known in (first, second):
        assert derived_key(known.root_key, Purpose.PORTAL_LINK)
    assert [known.hmac_key for known in (first, second)] == [known.hmac_key for known in before]
    assert [known.root_key for known in organizations_of(url)] == [first.root_key, second.root_key]
