"""Entitlements that a program reads are never stale: not after its own changes, and not long after others'."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.examples import examples
from tests.scenarios import Scenario, plan_fields
from usagebill import Billing
from usagebill.core.errors import NotFound
from usagebill.fields import PrivilegeFields
from usagebill.operations import organizations
from usagebill.resources.entitlement_cache import EntitlementCache
from usagebill.system import System

SEATS: list[PrivilegeFields] = [
    {"code": "max", "value_type": "integer"},
    {"code": "root", "value_type": "boolean"},
    {"code": "level", "value_type": "select", "config": {"select_options": ["basic", "gold"]}},
]


def fill(billing: Billing, most: int = 5) -> None:
    """The plan `basic` gives `most` seats to the subscription `sub`, `other` gives 50."""
    billing.customers.upsert(external_id="acme", currency="EUR")
    billing.features.create(code="seats", privileges=SEATS)
    for code, number in (("basic", most), ("other", 50)):
        billing.plans.create(**plan_fields(code=code))
        billing.entitlements.replace_of_plan(code, entitlements={"seats": {"max": number, "root": True}})
    subscribe(billing)


def subscribe(billing: Billing, plan: str = "basic") -> None:
    billing.subscriptions.create(external_customer_id="acme", external_id="sub", plan_code=plan)


def restart(billing: Billing) -> None:
    billing.subscriptions.terminate("sub")
    subscribe(billing)


class Seconds:
    """A clock for the cache; `reads` counts the looks at the file."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Counted:
    """A runner that counts how often the file is read."""

    def __init__(self, system: System) -> None:
        self._system = system
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._system, name)

    def reading(self, question: Callable[[Any], Any]) -> Any:
        self.reads += 1
        return self._system.reading(question)


def test_values_have_their_types_and_cannot_be_changed() -> None:
    with Billing() as billing:
        fill(billing)
        billing.entitlements.change_of_subscription("sub", entitlements={"seats": {"level": "gold"}})
        entitled = billing.entitlements.of("sub")
        assert entitled == {"seats": {"max": 5, "root": True, "level": "gold"}}
        assert [type(value) for value in entitled["seats"].values()] == [int, bool, str]
        with pytest.raises(TypeError):
            entitled["seats"]["max"] = 6  # type: ignore[index]
        with pytest.raises(TypeError):
            entitled["sso"] = {}  # type: ignore[index]


def test_there_are_none_without_an_active_subscription() -> None:
    with Billing() as billing:
        fill(billing)
        with pytest.raises(NotFound, match="subscription_not_found"):
            billing.entitlements.of("none")
        assert billing.entitlements.of("sub")
        billing.subscriptions.terminate("sub")
        with pytest.raises(NotFound, match="subscription_not_found"):
            billing.entitlements.of("sub")


CHANGES: dict[str, Callable[[Billing, int], object]] = {
    "the plan is given another set": lambda billing, number: billing.entitlements.replace_of_plan(
        "basic", entitlements={"seats": {"max": number}}
    ),
    "a value of the plan": lambda billing, number: billing.entitlements.merge_of_plan(
        "basic", entitlements={"seats": {"max": number, "level": "basic"}}
    ),
    "a value of the subscription": lambda billing, number: billing.entitlements.change_of_subscription(
        "sub", entitlements={"seats": {"max": number}}
    ),
    "a feature is taken from the plan": lambda billing, _: billing.entitlements.replace_of_plan(
        "basic", entitlements={}
    ),
    "a feature is taken away": lambda billing, _: billing.entitlements.remove_from_subscription("sub", "seats"),
    "a privilege is taken away": lambda billing, _: billing.entitlements.remove_privilege_from_subscription(
        "sub", "seats", "root"
    ),
    "another plan": lambda billing, number: subscribe(billing, "other" if number % 2 else "basic"),
    "it ends and begins again": lambda billing, _: restart(billing),
    "a feature is made anew": lambda billing, _: (
        billing.features.delete("seats"),
        billing.features.create(code="seats", privileges=SEATS),
    ),
    "nothing that matters": lambda billing, number: billing.customers.upsert(external_id="acme", name=str(number)),
}


@given(st.lists(st.tuples(st.sampled_from(sorted(CHANGES)), st.integers(1, 9)), max_size=8))
@examples(40)
def test_after_every_change_of_this_process_it_is_what_a_list_shows(changes: list[tuple[str, int]]) -> None:
    with Billing() as billing:
        fill(billing)
        for name, number in changes:
            billing.entitlements.of("sub")
            CHANGES[name](billing, number)
            shown = billing.entitlements.list_of_subscription("sub")
            assert billing.entitlements.of("sub") == {
                item["code"]: {privilege["code"]: privilege["value"] for privilege in item["privileges"]}
                for item in map(billing.view, shown)
            }


def test_a_job_that_ends_a_subscription_is_seen_at_once() -> None:
    with Scenario(now="2025-01-10T09:00:00Z") as box:
        fill(box.billing)
        box.put("/subscriptions/sub", subscription={"ending_at": "2025-02-01T00:00:00Z"})
        assert box.billing.entitlements.of("sub")
        box.travel_to("2025-02-02T00:00:00Z")
        with pytest.raises(NotFound):
            box.billing.entitlements.of("sub")


def test_while_nothing_changes_the_file_is_not_read_but_once_a_second(empty_database: str) -> None:
    with Billing(empty_database) as billing:
        fill(billing)
        seconds, counted = Seconds(), Counted(billing._system)
        cache = EntitlementCache(counted, seconds)
        first = cache.of("sub")
        before = counted.reads
        billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
        billing.events.create(transaction_id="t", code="calls", external_subscription_id="sub")
        assert [cache.of("sub") for _ in range(100)] == [first] * 100
        assert counted.reads == before
        seconds.now += 1
        assert cache.of("sub") is first
        assert cache.of("sub") is first
        assert counted.reads == before + 1


def test_a_change_through_another_opening_of_the_file_is_seen_at_once(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    with Billing(tmp_path / "billing.db") as billing:
        fill(billing)
        link.symlink_to(tmp_path / "billing.db")
        with Billing(link) as other:
            assert billing.entitlements.of("sub")["seats"]["max"] == 5
            other.entitlements.change_of_subscription("sub", entitlements={"seats": {"max": 6}})
            assert billing.entitlements.of("sub")["seats"]["max"] == 6


@pytest.mark.slow
def test_a_change_by_another_process_is_seen_after_a_second(empty_database: str) -> None:
    with Billing(empty_database) as billing:
        fill(billing)
        seconds = Seconds()
        cache = EntitlementCache(billing._system, seconds)
        assert cache.of("sub")["seats"]["max"] == 5
        program = (
            "from usagebill import Billing\n"
            f"with Billing({empty_database!r}) as billing:\n"
            "    billing.entitlements.change_of_subscription('sub', entitlements={'seats': {'max': 6}})"
        )
        subprocess.run([sys.executable, "-c", program], check=True)
        assert cache.of("sub")["seats"]["max"] == 5
        seconds.now += 1
        assert cache.of("sub")["seats"]["max"] == 6


def test_organizations_have_their_own(empty_database: str) -> None:
    with Billing(empty_database) as billing:
        fill(billing)
        created = billing.store.write(None, lambda tx: organizations.create(tx, billing.clock.now(), "Other"))
        with Billing(empty_database, organization=created.id) as other:
            with pytest.raises(NotFound):
                other.entitlements.of("sub")
            fill(other, most=7)
            assert other.entitlements.of("sub")["seats"]["max"] == 7
            assert billing.entitlements.of("sub")["seats"]["max"] == 5


def test_what_is_undone_leaves_everything_as_it_was() -> None:
    with Billing() as billing:
        fill(billing)
        before = billing.entitlements.of("sub")

        def change(work: Any) -> None:
            raise RuntimeError

        with pytest.raises(RuntimeError):
            billing.writing(change)
        assert billing.entitlements.of("sub") is before
        billing.invoices.preview(customer={"external_id": "acme"}, plan_code="other")
        assert billing.entitlements.of("sub") is before


@pytest.mark.slow
def test_threads_that_ask_while_others_change_never_see_what_was_before_the_last_change(empty_database: str) -> None:
    with Billing(empty_database) as billing:
        fill(billing)
        done = threading.Event()
        # Every later caller must see this.
        least = [0]
        wrong: list[tuple[int, object]] = []

        def ask() -> None:
            for _ in cycle([0]):
                promised = least[0]
                seen = billing.entitlements.of("sub")["seats"]["max"]
                if int(seen) < promised:
                    wrong.append((promised, seen))
                if done.is_set():
                    return

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(10, 30):
            billing.entitlements.change_of_subscription("sub", entitlements={"seats": {"max": number}})
            least[0] = number
        done.set()
        for thread in threads:
            thread.join()
        assert wrong == []
