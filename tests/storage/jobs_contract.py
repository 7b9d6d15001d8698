"""What every storage engine does with jobs. Engines' tests subclass it."""

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
    def claim(own: Tenant, now: datetime = NOW, **how: Any) -> str | None:
        def act(tx: Transaction) -> str | None:
            job = tx.jobs.claim(now, **how)
            if job is not None:
                tx.jobs.complete(job)
            return None if job is None else job.key

        return own.write(act)

    @staticmethod
    def add(own: Tenant, *jobs: Job) -> list[bool]:
        return own.write(lambda tx: [tx.jobs.add(job) for job in jobs])

    def test_a_job_comes_back_equal(self, own: Tenant) -> None:
        job = own.job("k", payload={"exact": Decimal("0.10"), "list": [1, None, "é"]}, immediate=True)
        assert self.add(own, job) == [True]
        assert own.read(lambda tx: tx.jobs.get("k")) == job

    def test_a_key_is_taken_until_its_job_is_done(self, own: Tenant, other: Tenant) -> None:
        first = own.job("k")
        assert self.add(own, first) == [True]
        assert self.add(own, own.job("k", at=second(5))) == [False]
        assert own.read(lambda tx: tx.jobs.get("k")) == first
        assert self.add(other, other.job("k")) == [True]
        own.write(lambda tx: tx.jobs.complete(first))
        assert self.add(own, own.job("k")) == [True]

    def test_due_jobs_are_claimed_in_order_of_due_at_then_of_writing(self, own: Tenant) -> None:
        self.add(
            own,
            own.job("late", at=second(-1)),
            own.job("first", at=second(-9)),
            own.job("tied", at=second(-1)),
            own.job("now"),
            own.job("future", at=NOW + timedelta(microseconds=1)),
        )
        assert [self.claim(own) for _ in range(5)] == ["first", "late", "tied", "now", None]
        assert self.claim(own, second(1)) == "future"

    def test_an_unfinished_claim_leaves_the_job(self, own: Tenant) -> None:
        self.add(own, own.job("k"))

        def fail(tx: Transaction) -> None:
            job = tx.jobs.claim(NOW)
            assert job is not None
            tx.jobs.complete(job)
            raise ArithmeticError

        with pytest.raises(ArithmeticError):
            own.write(fail)
        assert self.claim(own) == "k"

    def test_immediate_ones_can_be_claimed_alone(self, own: Tenant) -> None:
        self.add(own, own.job("old", at=second(-5)), own.job("new", immediate=True))
        assert self.claim(own, immediate=True) == "new"
        assert self.claim(own, immediate=True) is None
        assert self.claim(own) == "old"

    @staticmethod
    def lease(own: Tenant, lane: str, now: datetime = NOW, *, until: datetime, **how: Any) -> list[Job]:
        return own.write(lambda tx: tx.jobs.lease(lane, now, until, **how))

    def test_leased_jobs_are_hidden_until_the_lease_ends(self, own: Tenant) -> None:
        self.add(own, own.job("plain"), own.job("leased", lane="lane"))
        assert [job.key for job in self.lease(own, "lane", until=second(60))] == ["leased"]
        assert self.lease(own, "lane", second(59), until=second(90)) == []
        assert [job.key for job in self.lease(own, "lane", second(60), until=second(120))] == ["leased"]
        assert self.claim(own) == "plain"
        assert self.claim(own, second(1000)) is None

    def test_several_jobs_of_one_lane_are_leased_together_in_order(self, own: Tenant) -> None:
        lane = "several"
        late, first, future = own.job(lane=lane, at=second(-1)), own.job(lane=lane, at=second(-9)), second(1)
        now = own.job(lane=lane, immediate=True)
        self.add(own, late, first, now, own.job(lane=lane, at=future), own.job(lane="other"))
        assert [job.id for job in self.lease(own, lane, until=second(60), at_most=2)] == [first.id, late.id]
        (leased,) = self.lease(own, lane, until=second(60), at_most=9, immediate=True)
        assert (leased.id, leased.run_at) == (now.id, second(60))
        assert self.lease(own, lane, until=second(60), at_most=9) == []

    def test_what_is_given_back_is_ready_again_unless_its_lease_has_passed_to_another(self, own: Tenant) -> None:
        lane = "given back"
        self.add(own, own.job("a", lane=lane), own.job("b", lane=lane))
        first = self.lease(own, lane, until=second(60), at_most=2)
        (second_lease,) = self.lease(own, lane, second(60), until=second(120))
        assert second_lease.key == "a"
        own.write(lambda tx: tx.jobs.give_back(first))
        assert [job.key for job in self.lease(own, lane, second(60), until=second(120), at_most=9)] == ["b"]

    def test_lanes_are_those_that_jobs_wait_in_with_the_earliest_instant_of_each(self, own: Tenant) -> None:
        self.add(
            own,
            own.job(lane="mail/b", at=second(5)),
            own.job(lane="mail/b", at=second(3)),
            own.job(lane="mail/a", at=second(-2)),
            own.job(lane="mail"),
            own.job(lane="main"),
            own.job(),
        )
        assert own.read(lambda tx: tx.jobs.lanes("mail/")) == {"mail/a": second(-2), "mail/b": second(3)}
        assert own.read(lambda tx: tx.jobs.lanes("mail")).keys() == {"mail", "mail/a", "mail/b"}
        assert "" not in own.read(lambda tx: tx.jobs.lanes())
        self.lease(own, "mail/a", until=second(60))
        assert own.read(lambda tx: tx.jobs.lanes("mail/"))["mail/a"] == second(60)
        (leased,) = self.lease(own, "mail/b", second(3), until=second(60))
        own.write(lambda tx: tx.jobs.complete(leased))
        assert own.read(lambda tx: tx.jobs.lanes("mail/"))["mail/b"] == second(5)

    def test_a_retry_whose_time_has_come_goes_before_what_was_due_later(self, own: Tenant) -> None:
        retried = own.job("retried", at=second(-9))
        self.add(own, retried, own.job("next", at=second(-1)))
        own.write(lambda tx: tx.jobs.postpone(retried, second(60), "x", failed=False))
        assert self.claim(own, second(60)) == "retried"
        assert self.claim(own, second(60)) == "next"

    def test_a_postponed_job_waits_and_a_failed_one_is_not_tried_again(self, own: Tenant) -> None:
        job = own.job("k")
        self.add(own, job)
        own.write(lambda tx: tx.jobs.postpone(job, second(60), "first", failed=False))
        assert self.claim(own) is None
        stored = own.read(lambda tx: tx.jobs.get("k"))
        assert stored is not None
        assert (stored.attempts, stored.error, stored.run_at, stored.due_at) == (1, "first", second(60), NOW)
        own.write(lambda tx: tx.jobs.postpone(job, second(90), "second", failed=True))
        assert self.claim(own, second(1000)) is None
        assert [(job.key, job.attempts, job.error) for job in own.read(lambda tx: tx.jobs.failures())] == [
            ("k", 2, "second")
        ]
        assert own.write(lambda tx: tx.jobs.retry(job.id, second(5)))
        assert self.claim(own, second(5)) == "k"
        assert not own.write(lambda tx: tx.jobs.retry(job.id, second(5)))

    def test_nothing_waits_to_be_tried_before_it_is_due(self, own: Tenant) -> None:
        # A clock that was set back would find it over and over again.
        job = own.job("k", at=second(60))
        self.add(own, job)
        own.write(lambda tx: tx.jobs.retry(job.id, NOW))
        stored = own.read(lambda tx: tx.jobs.get("k"))
        assert stored is not None
        assert stored.run_at == second(60)

    def test_overdue_names_the_first_of_a_subject_failed_or_not(self, own: Tenant) -> None:
        failed = own.job("failed", at=second(-5), subject_id="s")
        self.add(own, failed, own.job("b", at=second(-1), subject_id="s"), own.job("c", at=second(-9)))
        own.write(lambda tx: tx.jobs.postpone(failed, second(90), "x", failed=True))

        def key(subject: str | None, now: datetime) -> str | None:
            job = own.read(lambda tx: tx.jobs.overdue(subject, now))
            return None if job is None else job.key

        assert key("s", NOW) == "failed"
        assert key(None, NOW) == "c"
        assert key("s", second(-6)) is None

    def test_canceled_jobs_are_gone(self, own: Tenant, other: Tenant) -> None:
        self.add(own, own.job("k"))
        self.add(other, other.job("k"))
        own.write(lambda tx: tx.jobs.cancel("k"))
        own.write(lambda tx: tx.jobs.cancel("unknown"))
        assert self.claim(own) is None
        assert self.claim(other) == "k"

    def test_the_jobs_of_another_organization_are_out_of_reach(self, own: Tenant, other: Tenant) -> None:
        theirs = other.job("k", at=second(-9))
        self.add(other, theirs)
        assert self.claim(own) is None
        assert own.read(lambda tx: tx.jobs.get("k")) is None
        assert own.read(lambda tx: tx.jobs.overdue(None, NOW)) is None
        assert not own.write(lambda tx: tx.jobs.retry(theirs.id, NOW))
        forged = replace(theirs, organization_id=own.id)
        changes: list[Callable[[Transaction], object]] = [
            lambda tx: tx.jobs.add(other.job("more")),
            lambda tx: tx.jobs.complete(theirs),
            lambda tx: tx.jobs.postpone(theirs, NOW, "x", failed=True),
        ]
        for change in changes:
            with pytest.raises(PermissionError):
                own.write(change)
        own.write(lambda tx: tx.jobs.complete(forged))
        own.write(lambda tx: tx.jobs.postpone(forged, NOW, "x", failed=True))
        assert other.read(lambda tx: tx.jobs.get("k")) == theirs
        assert self.claim(other) == "k"

    def test_the_next_due_is_the_earliest_that_waits(self, own: Tenant) -> None:
        # Other tests leave jobs in the store; those of this one come before all of theirs.
        early, asked = NOW - timedelta(days=400), {"at": NOW - timedelta(days=399), "lane": "lane"}
        plain, leased = own.job("plain", at=early), own.job("leased", **asked)
        self.add(own, leased, plain)
        assert own.read(lambda tx: tx.jobs.next_due()) == early
        assert own.read(lambda tx: tx.jobs.next_due(leased=False)) == early
        assert own.read(lambda tx: tx.jobs.next_due(leased=True)) == asked["at"]
        own.write(lambda tx: tx.jobs.postpone(plain, second(60), "later", failed=False))
        assert own.read(lambda tx: tx.jobs.next_due()) == asked["at"]
        own.write(lambda tx: tx.jobs.postpone(leased, second(60), "never", failed=True))
        assert own.read(lambda tx: tx.jobs.next_due()) != asked["at"]

    def test_the_job_that_waits_for_a_subject(self, own: Tenant, other: Tenant) -> None:
        late, soon = own.job(kind="end", at=second(9)), own.job(kind="end", at=second(5))
        self.add(own, late, soon, own.job(kind="begin"), own.job(kind="end", subject_id="else"))
        assert own.read(lambda tx: tx.jobs.waiting("end", "subject")) == soon
        assert own.read(lambda tx: tx.jobs.waiting("pause", "subject")) is None
        assert other.read(lambda tx: tx.jobs.waiting("end", "subject")) is None
