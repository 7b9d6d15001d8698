"""The contract of every storage engine for jobs. Engines' tests subclass it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.storage.contract import NOW, Contract, Tenant, second

from usagebill.core.jobs import Job
from usagebill.storage.ports import Transaction


class JobsContract(Contract):
    @staticmethod
    def claim(tenant: Tenant, now: datetime = NOW, **how: Any) -> str | None:
        def act(tx: Transaction) -> str | None:
            job = tx.jobs.claim(now, **how)
            if job is not None:
                tx.jobs.complete(job)
            return None if job is None else job.key

        return tenant.write(act)

    @staticmethod
    def add(tenant: Tenant, *jobs: Job) -> list[bool]:
        return tenant.write(lambda tx: [tx.jobs.add(job) for job in jobs])

    def test_a_job_comes_back_equal(self, tenant: Tenant) -> None:
        job = tenant.job("k", payload={"exact": Decimal("0.10"), "list": [1, None, "é"]}, immediate=True)
        assert self.add(tenant, job) == [True]
        assert tenant.read(lambda tx: tx.jobs.get("k")) == job

    def test_a_key_is_taken_until_its_job_is_done(self, tenant: Tenant, other: Tenant) -> None:
        first = tenant.job("k")
        assert self.add(tenant, first) == [True]
        assert self.add(tenant, tenant.job("k", at=second(5))) == [False]
        assert tenant.read(lambda tx: tx.jobs.get("k")) == first
        assert self.add(other, other.job("k")) == [True]
        tenant.write(lambda tx: tx.jobs.complete(first))
        assert self.add(tenant, tenant.job("k")) == [True]

    def test_many_are_added_and_completed_together(self, tenant: Tenant) -> None:
        jobs = [tenant.job(key) for key in "abc"]
        assert tenant.write(lambda tx: tx.jobs.add(*jobs))
        assert not tenant.write(lambda tx: tx.jobs.add(tenant.job("d"), tenant.job("b")))
        tenant.write(lambda tx: tx.jobs.complete(*jobs[:2]))
        assert tenant.read(lambda tx: [job.key for job in tx.jobs.ready(NOW, 9)]) == ["c", "d"]

    def test_due_jobs_are_claimed_in_order_of_due_at_then_of_writing(self, tenant: Tenant) -> None:
        self.add(
            tenant,
            tenant.job("late", at=second(-1)),
            tenant.job("first", at=second(-9)),
            tenant.job("tied", at=second(-1)),
            tenant.job("now"),
            tenant.job("future", at=NOW + timedelta(microseconds=1)),
        )
        assert [self.claim(tenant) for _ in range(5)] == ["first", "late", "tied", "now", None]
        assert self.claim(tenant, second(1)) == "future"

    def test_an_unfinished_claim_leaves_the_job(self, tenant: Tenant) -> None:
        self.add(tenant, tenant.job("k"))

        def fail(tx: Transaction) -> None:
            job = tx.jobs.claim(NOW)
            assert job is not None
            tx.jobs.complete(job)
            raise ArithmeticError

        with pytest.raises(ArithmeticError):
            tenant.write(fail)
        assert self.claim(tenant) == "k"

    def test_immediate_ones_can_be_claimed_alone(self, tenant: Tenant) -> None:
        self.add(tenant, tenant.job("old", at=second(-5)), tenant.job("new", immediate=True))
        assert self.claim(tenant, immediate=True) == "new"
        assert self.claim(tenant, immediate=True) is None
        assert self.claim(tenant) == "old"

    @staticmethod
    def lease(tenant: Tenant, lane: str, now: datetime = NOW, *, until: datetime, **how: Any) -> list[Job]:
        return tenant.write(lambda tx: tx.jobs.lease(lane, now, until, **how))

    def test_leased_jobs_are_hidden_until_the_lease_ends(self, tenant: Tenant) -> None:
        self.add(tenant, tenant.job("plain"), tenant.job("leased", lane="lane"))
        assert [job.key for job in self.lease(tenant, "lane", until=second(60))] == ["leased"]
        assert self.lease(tenant, "lane", second(59), until=second(90)) == []
        assert [job.key for job in self.lease(tenant, "lane", second(60), until=second(120))] == ["leased"]
        assert self.claim(tenant) == "plain"
        assert self.claim(tenant, second(1000)) is None

    def test_several_jobs_of_one_lane_are_leased_together_in_order(self, tenant: Tenant) -> None:
        lane = "several"
        late, first, future = tenant.job(lane=lane, at=second(-1)), tenant.job(lane=lane, at=second(-9)), second(1)
        now = tenant.job(lane=lane, immediate=True)
        self.add(tenant, late, first, now, tenant.job(lane=lane, at=future), tenant.job(lane="other"))
        assert [job.id for job in self.lease(tenant, lane, until=second(60), at_most=2)] == [first.id, late.id]
        (leased,) = self.lease(tenant, lane, until=second(60), at_most=9, immediate=True)
        assert (leased.id, leased.run_at) == (now.id, second(60))
        assert self.lease(tenant, lane, until=second(60), at_most=9) == []

    def test_what_is_given_back_is_ready_again_unless_its_lease_has_passed_to_another(self, tenant: Tenant) -> None:
        lane = "given back"
        self.add(tenant, tenant.job("a", lane=lane), tenant.job("b", lane=lane))
        first = self.lease(tenant, lane, until=second(60), at_most=2)
        (second_lease,) = self.lease(tenant, lane, second(60), until=second(120))
        assert second_lease.key == "a"
        tenant.write(lambda tx: tx.jobs.give_back(first))
        assert [job.key for job in self.lease(tenant, lane, second(60), until=second(120), at_most=9)] == ["b"]

    def test_lanes_are_those_that_jobs_wait_in_with_the_earliest_instant_of_each(self, tenant: Tenant) -> None:
        self.add(
            tenant,
            tenant.job(lane="mail/b", at=second(5)),
            tenant.job(lane="mail/b", at=second(3)),
            tenant.job(lane="mail/a", at=second(-2)),
            tenant.job(lane="mail"),
            tenant.job(lane="main"),
            tenant.job(),
        )
        assert tenant.read(lambda tx: tx.jobs.lanes("mail/")) == {"mail/a": second(-2), "mail/b": second(3)}
        assert tenant.read(lambda tx: tx.jobs.lanes("mail")).keys() == {"mail", "mail/a", "mail/b"}
        assert "" not in tenant.read(lambda tx: tx.jobs.lanes())
        lanes = ["mail", "mail/b", "nothing waits here"]
        assert tenant.read(lambda tx: tx.jobs.earliest(lanes)) == {"mail": NOW, "mail/b": second(3)}
        self.lease(tenant, "mail/a", until=second(60))
        assert tenant.read(lambda tx: tx.jobs.lanes("mail/"))["mail/a"] == second(60)
        assert tenant.read(lambda tx: tx.jobs.earliest(["mail/a"])) == {"mail/a": second(60)}
        (leased,) = self.lease(tenant, "mail/b", second(3), until=second(60))
        tenant.write(lambda tx: tx.jobs.complete(leased))
        assert tenant.read(lambda tx: tx.jobs.lanes("mail/"))["mail/b"] == second(5)

    def test_a_retry_whose_time_has_come_goes_before_what_was_due_later(self, tenant: Tenant) -> None:
        retried = tenant.job("retried", at=second(-9))
        self.add(tenant, retried, tenant.job("next", at=second(-1)))
        tenant.write(lambda tx: tx.jobs.postpone(retried, second(60), "x", failed=False))
        assert self.claim(tenant, second(60)) == "retried"
        assert self.claim(tenant, second(60)) == "next"

    def test_a_postponed_job_waits_and_a_failed_one_is_not_tried_again(self, tenant: Tenant) -> None:
        job = tenant.job("k")
        self.add(tenant, job)
        tenant.write(lambda tx: tx.jobs.postpone(job, second(60), "first", failed=False))
        assert self.claim(tenant) is None
        stored = tenant.read(lambda tx: tx.jobs.get("k"))
        assert stored is not None
        assert (stored.attempts, stored.error, stored.run_at, stored.due_at) == (1, "first", second(60), NOW)
        tenant.write(lambda tx: tx.jobs.postpone(job, second(90), "second", failed=True))
        assert self.claim(tenant, second(1000)) is None
        assert [(job.key, job.attempts, job.error) for job in tenant.read(lambda tx: tx.jobs.failures())] == [
            ("k", 2, "second")
        ]
        assert tenant.write(lambda tx: tx.jobs.retry(job.id, second(5)))
        assert self.claim(tenant, second(5)) == "k"
        assert not tenant.write(lambda tx: tx.jobs.retry(job.id, second(5)))

    def test_failures_are_counted_and_read_page_by_page(self, tenant: Tenant, other: Tenant) -> None:
        def failing(owner: Tenant, job: Job) -> Job:
            self.add(owner, job)
            owner.write(lambda tx: tx.jobs.postpone(job, NOW, "broken", failed=True))
            return job

        def keys(**which: Any) -> list[str]:
            return [job.key for job in tenant.read(lambda tx: tx.jobs.failures(**which))]

        theirs = failing(other, other.job("theirs"))
        jobs = [failing(tenant, tenant.job(f"k{place}", at=second(-place))) for place in range(5)]
        self.add(tenant, tenant.job("well"))
        assert tenant.read(lambda tx: tx.jobs.count_failures()) == 5
        assert keys() == ["k4", "k3", "k2", "k1", "k0"]
        assert [keys(at_most=2, skipped=skipped) for skipped in (0, 2, 4, 6)] == [
            ["k4", "k3"],
            ["k2", "k1"],
            ["k0"],
            [],
        ]
        assert (keys(job_id=jobs[3].id), keys(job_id=theirs.id)) == (["k3"], [])

    def test_what_is_to_come_is_read_page_by_page_in_the_order_it_is_due(self, tenant: Tenant, other: Tenant) -> None:
        def keys(**which: Any) -> list[str]:
            return [job.key for job in tenant.read(lambda tx: tx.jobs.to_come(**which))]

        def count(subject_id: str | None = None, at_most: int = 99) -> int:
            return tenant.read(lambda tx: tx.jobs.count_to_come(subject_id=subject_id, at_most=at_most))

        self.add(other, other.job("theirs"))
        self.add(tenant, *(tenant.job(f"k{place}", at=second(place)) for place in (3, 1, 5)))
        self.add(tenant, *(replace(tenant.job(f"k{place}", at=second(place)), lane="webhooks") for place in (4, 2)))
        self.add(tenant, replace(tenant.job("k6", at=second(6)), subject_id="else"))
        lost = tenant.job("lost", at=second(0))
        self.add(tenant, lost)
        tenant.write(lambda tx: tx.jobs.postpone(lost, NOW, "broken"))
        every = ["k1", "k2", "k3", "k4", "k5", "k6"]
        assert keys(subject_id=None, at_most=9) == every
        pages = [keys(subject_id=None, at_most=2, skipped=skipped) for skipped in (0, 2, 4, 6)]
        assert pages == [every[:2], every[2:4], every[4:], []]
        assert keys(subject_id="else", at_most=9) == ["k6"]
        assert (count(), count(at_most=4), count("else")) == (6, 4, 1)

    def test_nothing_waits_to_be_tried_before_it_is_due(self, tenant: Tenant) -> None:
        # With a clock that was set back, it would be found over and over again.
        job = tenant.job("k", at=second(60))
        self.add(tenant, job)
        tenant.write(lambda tx: tx.jobs.retry(job.id, NOW))
        stored = tenant.read(lambda tx: tx.jobs.get("k"))
        assert stored is not None
        assert stored.run_at == second(60)

    def test_overdue_names_the_first_of_a_subject_failed_or_not(self, tenant: Tenant) -> None:
        failed = tenant.job("failed", at=second(-5), subject_id="s")
        self.add(tenant, failed, tenant.job("b", at=second(-1), subject_id="s"), tenant.job("c", at=second(-9)))
        tenant.write(lambda tx: tx.jobs.postpone(failed, second(90), "x", failed=True))

        def key(subject: str | None, now: datetime) -> str | None:
            job = tenant.read(lambda tx: tx.jobs.overdue(None if subject is None else (subject,), now))
            return None if job is None else job.key

        assert key("s", NOW) == "failed"
        assert key(None, NOW) == "c"
        assert key("s", second(-6)) is None

    def test_overdue_names_the_first_of_several_subjects(self, tenant: Tenant) -> None:
        self.add(tenant, tenant.job("a", at=second(-1), subject_id="a"), tenant.job("b", at=second(-5), subject_id="b"))
        job = tenant.read(lambda tx: tx.jobs.overdue(("a", "b", "c"), NOW))
        assert job is not None
        assert job.key == "b"

    def test_overdue_jobs_of_a_kind_are_listed_in_order(self, tenant: Tenant, other: Tenant) -> None:
        jobs = [tenant.job(key, at=second(at)) for key, at in (("late", -1), ("first", -5), ("later", 5))]
        self.add(tenant, *jobs)
        self.add(other, other.job("theirs", at=second(-9)))
        kinds = (jobs[0].kind, "another")
        assert [job.key for job in tenant.read(lambda tx: tx.jobs.overdue_of(kinds, NOW))] == ["first", "late"]
        assert tenant.read(lambda tx: tx.jobs.overdue_of(("another",), NOW)) == []

    def test_canceled_jobs_are_gone(self, tenant: Tenant, other: Tenant) -> None:
        self.add(tenant, tenant.job("k"))
        self.add(other, other.job("k"))
        tenant.write(lambda tx: tx.jobs.cancel("k"))
        tenant.write(lambda tx: tx.jobs.cancel("unknown"))
        assert self.claim(tenant) is None
        assert self.claim(other) == "k"

    def test_the_jobs_of_another_organization_are_out_of_reach(self, tenant: Tenant, other: Tenant) -> None:
        theirs = other.job("k", at=second(-9))
        self.add(other, theirs)
        assert self.claim(tenant) is None
        assert tenant.read(lambda tx: tx.jobs.get("k")) is None
        assert tenant.read(lambda tx: tx.jobs.overdue(None, NOW)) is None
        assert not tenant.write(lambda tx: tx.jobs.retry(theirs.id, NOW))
        forged = replace(theirs, organization_id=tenant.id)
        changes: list[Callable[[Transaction], object]] = [
            lambda tx: tx.jobs.add(other.job("more")),
            lambda tx: tx.jobs.complete(theirs),
            lambda tx: tx.jobs.postpone(theirs, NOW, "x", failed=True),
        ]
        for change in changes:
            with pytest.raises(PermissionError):
                tenant.write(change)
        tenant.write(lambda tx: tx.jobs.complete(forged))
        tenant.write(lambda tx: tx.jobs.postpone(forged, NOW, "x", failed=True))
        assert other.read(lambda tx: tx.jobs.get("k")) == theirs
        assert self.claim(other) == "k"

    def test_the_next_due_is_the_earliest_that_waits(self, tenant: Tenant) -> None:
        # Other tests leave jobs in the store; those of this one come before all of theirs.
        early, leasable = NOW - timedelta(days=400), {"at": NOW - timedelta(days=399), "lane": "lane"}
        plain, leased = tenant.job("plain", at=early), tenant.job("leased", **leasable)
        self.add(tenant, leased, plain)
        assert tenant.read(lambda tx: tx.jobs.next_due()) == early
        assert tenant.read(lambda tx: tx.jobs.next_due(leased=False)) == early
        assert tenant.read(lambda tx: tx.jobs.next_due(leased=True)) == leasable["at"]
        tenant.write(lambda tx: tx.jobs.postpone(plain, second(60), "later", failed=False))
        assert tenant.read(lambda tx: tx.jobs.next_due()) == leasable["at"]
        tenant.write(lambda tx: tx.jobs.postpone(leased, second(60), "never", failed=True))
        assert tenant.read(lambda tx: tx.jobs.next_due()) != leasable["at"]

    def test_the_job_that_waits_for_a_subject(self, tenant: Tenant, other: Tenant) -> None:
        late, soon = tenant.job(kind="end", at=second(9)), tenant.job(kind="end", at=second(5))
        self.add(tenant, late, soon, tenant.job(kind="begin"), tenant.job(kind="end", subject_id="else"))
        assert tenant.read(lambda tx: tx.jobs.waiting("end", "subject")) == soon
        assert tenant.read(lambda tx: tx.jobs.waiting("pause", "subject")) is None
        assert other.read(lambda tx: tx.jobs.waiting("end", "subject")) is None
