"""`billing.aio`: every operation in a program with an event loop, none half done, none that stops the loop."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from tests.scenarios import charge_on, plan_fields
from usagebill import Billing
from usagebill.aio import Aio
from usagebill.core.errors import Invalid, NotFound
from usagebill.fields import EventFields
from usagebill.process import event_loops
from usagebill.process.event_loops import BlockingCallWarning
from usagebill.resources import RESOURCES

ROOT = Path(__file__).parents[1]


@pytest.fixture
def billing(tmp_path: Path) -> Iterator[Billing]:
    with Billing(tmp_path / "billing.db", deliver=False) as opened:
        metric = opened.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
        opened.customers.upsert(external_id="acme", currency="EUR")
        opened.plans.create(**plan_fields(charge_on(metric.id, amount="1"), code="pro"))
        opened.subscriptions.create(external_customer_id="acme", plan_code="pro", external_id="acme-pro")
        yield opened


def call(number: int) -> EventFields:
    return {"transaction_id": str(number), "code": "calls", "external_subscription_id": "acme-pro"}


def test_a_life_is_the_same_as_in_the_library(billing: Billing) -> None:
    async def life() -> None:
        made = await asyncio.gather(*(billing.aio.events.create(**call(number)) for number in range(40)))
        assert [event.transaction_id for event in made] == [str(number) for number in range(40)]
        usage = await billing.aio.usage.current("acme", external_subscription_id="acme-pro")
        assert usage.amount_cents == 4000
        with pytest.raises(NotFound, match="customer_not_found"):
            await billing.aio.customers.get("nobody")
        with pytest.raises(Invalid, match="value_already_exist"):
            await billing.aio.events.create(**call(0))
        with pytest.raises(TypeError, match="did you mean external_id"):
            await billing.aio.customers.upsert(exernal_id="acme")  # type: ignore[call-arg]
        customer = await billing.aio.customers.get("acme")
        assert (await billing.aio.view(customer))["external_id"] == "acme"
        assert await billing.aio.run(lambda: customer.applicable_timezone) == "UTC"

    asyncio.run(life())


def test_every_resource_and_verb_is_there(billing: Billing) -> None:
    for name, kind in RESOURCES.items():
        resource = getattr(billing.aio, name)
        verbs = [verb for verb in vars(kind) if not verb.startswith("_") and callable(getattr(kind, verb))]
        assert set(verbs) <= set(dir(resource))
        for verb in verbs:
            method, mine = getattr(getattr(billing, name), verb), getattr(resource, verb)
            assert inspect.signature(mine) == inspect.signature(method)
            assert mine.__doc__ == method.__doc__
            assert inspect.iscoroutinefunction(mine) or verb == "hold", f"{name}.{verb}"


def test_lists_go_on_by_themselves(billing: Billing) -> None:
    billing.events.ingest([call(number) for number in range(25)])

    async def met() -> list[str]:
        page = await billing.aio.events.list(per_page=10)
        assert len(page.items) == 10
        return [event.transaction_id async for event in page]

    assert sorted(asyncio.run(met()), key=int) == [str(number) for number in range(25)]


def test_usage_is_held_for_the_time_of_a_block(billing: Billing) -> None:
    async def hold(amount: int | None) -> None:
        async with billing.aio.holds.hold("acme-pro", code="calls") as usage:
            if amount is None:
                raise LookupError("nothing came of it")
            await usage.capture(transaction_id="captured")
            assert usage.is_captured

    asyncio.run(hold(1))
    with pytest.raises(LookupError, match="nothing came of it"):
        asyncio.run(hold(None))
    assert [event.transaction_id for event in billing.events.list()] == ["captured"]
    assert sorted(hold.status for hold in billing.holds.list()) == ["captured", "released"]


@pytest.mark.parametrize("at", ["hold", "block", "capture"])
def test_a_hold_ends_although_its_task_is_cancelled_again_and_again(billing: Billing, at: str) -> None:
    """As by a server whose caller has left: its scope cancels whatever its tasks await from then on."""

    async def use(scope: anyio.CancelScope) -> None:
        if at == "hold":
            scope.cancel()
        async with billing.aio.holds.hold("acme-pro", code="calls") as usage:
            try:
                scope.cancel()
                await anyio.sleep_forever()
            finally:
                if at == "capture":
                    await usage.capture(transaction_id="left")

    async def serve() -> None:
        with anyio.CancelScope() as scope:
            await use(scope)
        while not [hold async for hold in await billing.aio.holds.list() if hold.status != "held"]:
            await asyncio.sleep(0)

    asyncio.run(serve())
    assert [hold.status for hold in billing.holds.list()] == ["captured" if at == "capture" else "released"]
    assert [event.transaction_id for event in billing.events.list()] == (["left"] if at == "capture" else [])


def test_the_loop_goes_on_meanwhile(billing: Billing) -> None:
    """While another transaction keeps the file from being written."""
    entered, leave = threading.Event(), threading.Event()

    def keep() -> None:
        def wait(_: object) -> None:
            entered.set()
            assert leave.wait(30)

        billing.writing(wait)

    async def life() -> None:
        writer = threading.Thread(target=keep)
        writer.start()
        await asyncio.to_thread(entered.wait, 30)
        waiting = asyncio.create_task(billing.aio.events.create(**call(1)))
        ticks = 0
        while ticks < 20:
            await asyncio.sleep(0)
            ticks += 1
        assert not waiting.done()
        leave.set()
        assert (await waiting).transaction_id == "1"
        writer.join()

    asyncio.run(life())


class _Cancelled:
    """An operation that is cancelled: while it waits for a thread, or once it has begun."""

    def __init__(self, billing: Billing) -> None:
        self.billing = billing
        self.begun, self.go_on = threading.Event(), threading.Event()

    def blocked(self, _: object) -> None:
        self.begun.set()
        assert self.go_on.wait(30)

    async def cancelled_once_begun(self, make: Callable[[Aio], Coroutine[Any, Any, object]]) -> None:
        """Cancel what `make` gives, after it got its thread and before it got its transaction."""
        aio = Aio(self.billing, threads=1)
        writer = threading.Thread(target=self.billing.writing, args=[self.blocked])
        writer.start()
        await asyncio.to_thread(self.begun.wait, 30)
        task = asyncio.create_task(make(aio))
        while not threading_has_begun(aio):
            await asyncio.sleep(0)
        waiting = asyncio.create_task(aio.events.create(**call(2)))
        await asyncio.sleep(0)
        for cancelled in (task, waiting):
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
        self.go_on.set()
        writer.join()
        await asyncio.to_thread(aio.stop)


def threading_has_begun(aio: Aio) -> bool:
    pool: Any = getattr(aio, "_pool")  # noqa: B009
    return pool._work_queue.empty() and bool(pool._threads)


def test_a_cancelled_call_is_made_whole_or_never(billing: Billing) -> None:
    made = _Cancelled(billing)
    asyncio.run(made.cancelled_once_begun(lambda aio: aio.events.create_batch([call(0), call(1)])))
    assert sorted(event.transaction_id for event in billing.events.list()) == ["0", "1"]


def test_a_cancelled_call_that_fails_is_told_to_the_log(billing: Billing) -> None:
    made = _Cancelled(billing)
    with capture_logs() as logs:
        asyncio.run(made.cancelled_once_begun(lambda aio: aio.customers.upsert(external_id="acme", currency="XXX")))
    (told,) = [entry for entry in logs if entry["event"] == "cancelled_call_failed"]
    assert "currency" in told["reason"]
    assert list(billing.events.list()) == []


def test_closing_waits_for_what_has_begun(tmp_path: Path) -> None:
    async def life() -> None:
        billing = Billing(tmp_path / "closed.db", deliver=False)
        made = [asyncio.create_task(billing.aio.customers.upsert(external_id=str(number))) for number in range(5)]
        await asyncio.gather(*made)
        await billing.aio.close()
        with pytest.raises(RuntimeError, match="shutdown"):
            await billing.aio.customers.list()

    asyncio.run(life())
    with Billing(tmp_path / "closed.db") as again:
        assert again.customers.list().total_count == 5


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loops, "_is_told", False)


@pytest.mark.usefixtures("untold")
@pytest.mark.parametrize(
    "act",
    [lambda billing: billing.customers.get("acme"), lambda billing: billing.customers.upsert(external_id="b")],
    ids=["query", "command"],
)
def test_a_blocking_call_in_a_loop_warns_once(billing: Billing, act: Callable[[Billing], object]) -> None:
    async def serve() -> None:
        act(billing)
        act(billing)

    with pytest.warns(BlockingCallWarning, match=r"await billing\.aio") as told:
        asyncio.run(serve())
    (warning,) = told
    assert Path(warning.filename) == Path(__file__)


@pytest.mark.usefixtures("untold")
def test_no_other_call_warns(billing: Billing) -> None:
    async def serve() -> None:
        await billing.aio.customers.get("acme")
        await asyncio.to_thread(billing.customers.get, "acme")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(serve())
        billing.customers.get("acme")


def test_the_library_does_not_import_asyncio() -> None:
    code = "import sys, usagebill.billing; sys.exit('asyncio' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
