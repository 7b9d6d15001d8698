"""Holds and enforced events of many programs at once: exactly as many succeed as their limit has room for, also if some
are killed.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal

import httpx
import pytest

from tests.scenarios import plan_fields
from tests.service import ENVIRONMENT, Service
from usagebill import Billing
from usagebill.operations import customers
from usagebill.runtime.work import Work

pytestmark = pytest.mark.slow

PROGRAMS = 4
EACH = 250
HOLD = {"external_subscription_id": "sub", "code": "calls", "expires_in": 86_400}
EVENT = {"external_subscription_id": "sub", "code": "calls"}
# Holds of 0.10, events of 0.10 that must fit, or batches of ten of them, until it is done; says what becomes of each.
PROGRAM = f"""
import sys
from usagebill import Billing
from usagebill.core.errors import PaymentRequired

def hold(billing, name):
    billing.holds.create(**{HOLD!r})
    return 1, 0

def hold_and_capture(billing, name):
    held = billing.holds.create(**{HOLD!r})
    billing.holds.capture(held.id, transaction_id=name)
    return 1, 0

def send(billing, name):
    billing.events.create(transaction_id=name, **{EVENT!r}, enforce=True)
    return 1, 0

def send_batch(billing, name):
    sent = [dict(transaction_id=f"{{name}}-{{number}}", **{EVENT!r}) for number in range(10)]
    batch = billing.events.create_batch(sent, enforce=True)
    return len(batch.events), len(batch.refused)

with Billing(sys.argv[1]) as billing:
    act = dict(hold=hold, hold_and_capture=hold_and_capture, send=send, send_batch=send_batch)[sys.argv[3]]
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[2])):
        try:
            held, refused = act(billing, f"{{sys.argv[4]}}-{{number}}")
        except PaymentRequired:
            held, refused = 0, 1
        print("held " * held + "refused " * refused, flush=True)
"""


def set_up(billing: Billing) -> None:
    """A subscription to calls at 0.10, with a limit of 5.00."""
    billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
    charge = {"billable_metric_code": "calls", "charge_model": "standard", "properties": {"amount": "0.1"}}
    billing.plans.create(**plan_fields(charge))
    billing.customers.upsert(external_id="acme")
    billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="sub")
    billing.spend_limits.create_of_customer("acme", code="cap", amount_cents=500)


@contextmanager
def programs(
    database: str, each: int, acts: Sequence[str] = ("hold",) * PROGRAMS
) -> Iterator[list[subprocess.Popen[str]]]:
    """Programs that begin once told to, one for each act."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, database, str(each), act, f"{act}-{place}"],
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for place, act in enumerate(acts)
    ]
    try:
        for program in started:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
        yield started
    finally:
        for program in started:
            program.kill()
            program.communicate()


def outcome(database: str, each: int, acts: Sequence[str]) -> Counter[str]:
    """How much the programs held, and how much was refused, once all are done."""
    answers: Counter[str] = Counter()
    with programs(database, each, acts) as started:
        for program in started:
            assert program.stdin is not None
            program.stdin.write("\n")
            program.stdin.flush()
        for program in started:
            output, _ = program.communicate(timeout=300)
            answers.update(output.split())
    return answers


def left(billing: Billing) -> tuple[int, str, str]:
    """The number of open holds, and what the limit says is held and remains."""
    check = billing.spend_limits.check(external_subscription_id="sub", code="calls", amount_cents=0)
    (limit,) = check.limits
    return billing.holds.list(status="held").total_count, limit["held"], limit["remaining"]


def test_a_check_waits_for_no_writer(database: str) -> None:
    with Billing(database) as billing, ThreadPoolExecutor() as other:
        set_up(billing)

        def change(work: Work) -> Decimal:
            customers.upsert(work, customers.CustomerInput(external_id="new"))
            asked = other.submit(billing.spend_limits.check, external_subscription_id="sub", code="calls")
            return asked.result(timeout=60).addition.units

        assert billing.writing(change) == 1


def test_of_a_thousand_holds_by_four_programs_exactly_fifty_succeed(database: str) -> None:
    with Billing(database) as billing:
        set_up(billing)
        answers = outcome(database, EACH, ("hold",) * PROGRAMS)
        assert answers == {"held": 50, "refused": PROGRAMS * EACH - 50}
        assert left(billing) == (50, "500.0", "0.0")
        assert list(billing.audit().findings) == []


@pytest.mark.parametrize(
    ("acts", "each", "sent"),
    [(("send",) * PROGRAMS, 25, 25), (("send_batch",) * PROGRAMS, 3, 30), (("hold", "send") * 2, 25, 25)],
    ids=["events", "batches", "holds and events"],
)
def test_of_enforced_events_by_several_programs_exactly_fifty_are_stored(
    database: str, acts: Sequence[str], each: int, sent: int
) -> None:
    with Billing(database) as billing:
        set_up(billing)
        assert outcome(database, each, acts) == {"held": 50, "refused": len(acts) * sent - 50}
        holds, held, remaining = left(billing)
        assert (Decimal(held), remaining) == (10 * holds, "0.0")
        usage = billing.usage.current("acme", external_subscription_id="sub")
        assert usage.amount_cents == 500 - 10 * holds
        assert billing.events.list().total_count == 50 - holds
        assert list(billing.audit().findings) == []


@pytest.mark.parametrize("act", ["hold", "hold_and_capture"])
def test_killed_in_the_middle_they_leave_whole_holds_and_the_rest_of_the_room(database: str, act: str) -> None:
    with Billing(database) as billing:
        set_up(billing)
        with programs(database, EACH, (act,) * PROGRAMS) as started:
            for program in started:
                assert program.stdin is not None
                program.stdin.write("\n")
                program.stdin.flush()
            assert started[0].stdout is not None
            for _ in range(5):
                started[0].stdout.readline()
            # As a power cut would, in whatever they are at.
            for program in started[:2]:
                program.kill()
            for program in started[2:]:
                program.communicate(timeout=300)
        holds, held, remaining = left(billing)
        captured = billing.holds.list(status="captured").total_count
        assert (holds + captured, Decimal(held), remaining) == (50, 10 * holds, "0.0")
        assert billing.events.list().total_count == captured
        assert list(billing.audit().findings) == []


def test_over_http_exactly_fifty_succeed_and_captures_stay_within_the_limit(database: str) -> None:
    with Billing(database) as billing:
        set_up(billing)
        key = billing.api_keys.create(name="programs").value
    statuses: Counter[int] = Counter()
    held: list[str] = []

    def ask(url: str) -> None:
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=120) as client:
            for _ in range(EACH):
                answer = client.post("/api/v1/holds", json={"hold": HOLD})
                statuses[answer.status_code] += 1
                if answer.status_code == 200:
                    held.append(answer.json()["hold"]["svc_id"])

    with Service(database, key=key) as first, Service(database, key=key) as second:
        threads = [
            threading.Thread(target=ask, args=(service.announced["url"],)) for service in (first, second, first, second)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses == {200: 50, 402: PROGRAMS * EACH - 50}
        for hold_id in held:
            answer = first.client.post(f"/api/v1/holds/{hold_id}/capture", json={"event": {"transaction_id": hold_id}})
            assert answer.status_code == 200, answer.text
    with Billing(database) as billing:
        usage = billing.usage.current("acme", external_subscription_id="sub")
        assert usage.amount_cents == 500
        assert left(billing) == (0, "0.0", "0.0")
