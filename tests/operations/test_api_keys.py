"""API keys: made, listed, changed, rotated and revoked; which of them open anything, and when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import pytest
from tests.scenarios import Scenario

from usagebill.core.api_keys import MODES, RESOURCES, ApiKey
from usagebill.core.errors import Invalid, NotFound
from usagebill.operations import api_keys
from usagebill.runtime.work import Work

pytestmark = pytest.mark.now("2024-03-05T00:00:00Z")

T = TypeVar("T")


def do(box: Scenario, change: Callable[[Work], T]) -> T:
    return box.billing.writing(change)


def live(box: Scenario) -> list[ApiKey]:
    return box.billing.reading(api_keys.list_live)


def status(box: Scenario, value: str, method: str = "GET", path: str = "/api/v1/taxes") -> int:
    return box.request(method, path, headers={"authorization": f"Bearer {value}"})[0]


def test_new_key_may_do_everything_and_its_value_is_not_kept(box: Scenario) -> None:
    key, value = do(box, lambda work: api_keys.create(work, "ci"))
    assert key.permissions == dict.fromkeys(RESOURCES, MODES)
    assert (key.name, key.expires_at, key.value_ending) == ("ci", None, value[-3:])
    assert value not in repr(key)
    assert status(box, value) == 200


@pytest.mark.parametrize(
    ("permissions", "codes"),
    [
        ({}, ["value_is_mandatory"]),
        ({"add_on": ("read",), "moon": ("read",)}, ["contains forbidden keys: ['moon']"]),
        ({"add_on": ("read", "eat")}, ["forbidden_values"]),
    ],
)
def test_permissions_name_known_resources_and_modes(
    box: Scenario, permissions: dict[str, tuple[str, ...]], codes: list[str]
) -> None:
    before = live(box)
    with pytest.raises(Invalid) as problem:
        do(box, lambda work: api_keys.create(work, permissions=permissions))
    assert problem.value.details == {"permissions": codes}
    with pytest.raises(Invalid) as problem:
        do(box, lambda work: api_keys.update(work, before[0].id, permissions=permissions))
    assert problem.value.details == {"permissions": codes}
    assert live(box) == before


def test_changed_permissions_replace_the_whole_map(box: Scenario) -> None:
    key, value = do(box, lambda work: api_keys.create(work, permissions={"tax": MODES, "plan": ("read",)}))
    do(box, lambda work: api_keys.update(work, key.id, name="narrow", permissions={"plan": ("read",)}))
    changed = live(box)[1]
    assert (changed.name, changed.permissions) == ("narrow", {"plan": ("read",)})
    assert status(box, value) == 403
    do(box, lambda work: api_keys.update(work, key.id, name=None))
    assert (live(box)[1].name, live(box)[1].permissions) == (None, {"plan": ("read",)})


def test_rotated_key_ends_at_once_and_its_successor_may_do_the_same(box: Scenario) -> None:
    old, old_value = do(box, lambda work: api_keys.create(work, "old", {"add_on": ("read",)}))
    new, new_value = do(box, lambda work: api_keys.rotate(work, old.id))
    assert (new.name, new.permissions, new.expires_at) == ("old", {"add_on": ("read",)}, None)
    assert (status(box, old_value, path="/api/v1/add_ons"), status(box, new_value, path="/api/v1/add_ons")) == (
        401,
        200,
    )
    assert status(box, new_value) == 403
    assert old.id not in {key.id for key in live(box)}
    renamed, _ = do(box, lambda work: api_keys.rotate(work, new.id, "new"))
    assert renamed.name == "new"


def test_scheduled_rotation_leaves_both_keys_valid_until_then(box: Scenario) -> None:
    old, old_value = do(box, lambda work: api_keys.create(work))
    ends = box.now + timedelta(days=10)
    _, new_value = do(box, lambda work: api_keys.rotate(work, old.id, "new", ends))
    box.jump_to(ends - timedelta(microseconds=1))
    assert (status(box, old_value), status(box, new_value)) == (200, 200)
    box.jump_to(ends)
    assert (status(box, old_value), status(box, new_value)) == (401, 200)
    with pytest.raises(NotFound, match="api_key_not_found"):
        do(box, lambda work: api_keys.rotate(work, old.id))


def test_revoked_key_opens_nothing(box: Scenario) -> None:
    key, value = do(box, lambda work: api_keys.create(work))
    do(box, lambda work: api_keys.revoke(work, key.id))
    assert status(box, value) == 401
    with pytest.raises(NotFound):
        do(box, lambda work: api_keys.revoke(work, key.id))


def test_last_key_without_an_end_cannot_be_revoked(box: Scenario) -> None:
    (first,) = live(box)
    other, _ = do(box, lambda work: api_keys.create(work))
    do(box, lambda work: api_keys.rotate(work, other.id, expires_at=box.now + timedelta(days=1)))
    successor = live(box)[-1]
    do(box, lambda work: api_keys.revoke(work, first.id))
    # What remains beside the successor ends tomorrow.
    with pytest.raises(Invalid) as problem:
        do(box, lambda work: api_keys.revoke(work, successor.id))
    assert problem.value.details == {"base": ["last_non_expiring_api_key"]}
    do(box, lambda work: api_keys.revoke(work, other.id))
    assert [key.id for key in live(box)] == [successor.id]


def test_keys_are_listed_oldest_first(box: Scenario) -> None:
    for day in (6, 7):
        box.jump_to(f"2024-03-0{day}T00:00:00Z")
        do(box, lambda work: api_keys.create(work, str(work.now.day)))
    assert [key.name for key in live(box)] == [None, "6", "7"]


def test_use_is_noted_once_an_hour(box: Scenario) -> None:
    key, value = do(box, lambda work: api_keys.create(work, "k"))

    def used() -> str:
        (rotated,) = [live_key for live_key in live(box) if live_key.id == key.id]
        return "" if rotated.last_used_at is None else rotated.last_used_at.strftime("%H:%M")

    assert used() == ""
    status(box, value)
    assert used() == "00:00"
    box.jump_to("2024-03-05T00:59:00Z")
    status(box, value)
    assert used() == "00:00"
    box.jump_to("2024-03-05T01:00:00Z")
    status(box, value)
    assert used() == "01:00"


def test_noting_use_revives_nothing(box: Scenario) -> None:
    key, value = do(box, lambda work: api_keys.create(work))
    do(box, lambda work: api_keys.revoke(work, key.id))
    # As a request does that looked the key up right before it was revoked.
    do(box, lambda work: api_keys.note_use(work, key))
    assert status(box, value) == 401


def test_keys_of_one_organization_are_unknown_to_another(box: Scenario) -> None:
    (key,) = live(box)
    assert box.billing.reading(lambda work: work.tx.scoped("another").get(ApiKey, key.id)) is None
