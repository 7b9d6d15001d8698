"""Metering, with the real frameworks: what is answered well is usage of whoever asked, and nothing else is."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fastapi import Depends, FastAPI, HTTPException, Request
from flask import Flask, request as flask_request
from structlog.testing import capture_logs

from tests.asgi import send
from tests.test_docs import blocks
from usagebill import Billing
from usagebill.metering import FlaskMetering, Metering, MeteringMiddleware, RequestUsage

ROOT = Path(__file__).parents[1]
Noted = list[tuple[str | None, str, Mapping[str, object]]]


class Kept:
    """What was noted: whose, of which code, with which properties."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def add(self, **event: Any) -> None:
        self.events.append(event)

    async def add_async(self, **event: Any) -> None:
        self.events.append(event)

    @property
    def noted(self) -> Noted:
        return [(event["external_subscription_id"], event["code"], event["properties"]) for event in self.events]


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture(params=["thread", "awaited"])
def metering(kept: Kept, request: pytest.FixtureRequest) -> Metering:
    return Metering(kept.add if request.param == "thread" else kept.add_async)


def test_a_function_is_metered_by_its_result(kept: Kept) -> None:
    metering = Metering(kept.add, field="tokens")

    @metering.metered(code="llm", units=lambda text: len(text), subscription=lambda account, **_: f"{account}-pro")
    def complete(account: str, *, prompt: str) -> str:
        """Say it twice."""
        return prompt * 2

    @metering.metered(code="calls")
    def fail() -> None:
        raise KeyError("no")

    @metering.metered(code="calls", units=lambda found: {"rows": found} if found else None)
    def search(found: int) -> int:
        return found

    assert complete("acme", prompt="abc") == "abcabc"
    assert complete.__doc__ == "Say it twice."
    with metering.subscription("beta"):
        with pytest.raises(KeyError):
            fail()
        search(0)
        search(3)
    assert kept.noted == [("acme-pro", "llm", {"tokens": 6}), ("beta", "calls", {"rows": 3})]
    assert len({event["transaction_id"] for event in kept.events}) == 2
    with pytest.raises(TypeError, match="generator"):

        @metering.metered(code="calls")
        def stream() -> Iterator[int]:
            yield 1


def test_a_coroutine_function_is_metered(kept: Kept, metering: Metering) -> None:
    @metering.metered(code="calls", units=Decimal)
    async def work(amount: str) -> str:
        await asyncio.sleep(0)
        return amount

    async def life() -> None:
        async def of(account: str, amount: str) -> None:
            with metering.subscription(account):
                await work(amount)

        await asyncio.gather(*(of(f"a{number}", f"{number}.5") for number in range(20)))

    asyncio.run(life())
    assert sorted(kept.noted, key=str) == sorted(
        [(f"a{number}", "calls", {"units": Decimal(f"{number}.5")}) for number in range(20)], key=str
    )


def test_what_cannot_be_noted_is_said_and_stops_nothing(kept: Kept) -> None:
    failed: list[object] = []

    def refuse(**_: object) -> None:
        raise OSError("disk full")

    metering = Metering(refuse, on_failure=lambda event, problem: failed.append((event["code"], str(problem))))

    @metering.metered(code="calls")
    def work() -> int:
        return 7

    with capture_logs() as logs:
        assert work() == 7
        with metering.subscription("acme"):
            assert work() == 7
    assert [entry["event"] for entry in logs] == ["usage_not_noted"] * 2
    assert "was not said" in logs[0]["reason"]
    assert (logs[1]["external_subscription_id"], logs[1]["reason"]) == ("acme", "disk full")
    assert len(failed) == 2
    with pytest.raises(TypeError, match="note_async"):
        Metering(kept.add_async).note("calls")


def test_it_bills(tmp_path: Path) -> None:
    with Billing(tmp_path / "billing.db", deliver=False) as billing:
        metering = Metering(billing.events.create)
        metering.note("calls", 3, subscription="acme")
        asyncio.run(Metering(billing.aio.events.create).note_async("calls", 4, subscription="acme"))
        assert sorted(str(event.properties["units"]) for event in billing.events.list()) == ["3", "4"]


def account_of(request: Any) -> str | None:
    account = request.headers.get("x-account")
    return None if account is None else str(account)


def test_fastapi(kept: Kept, metering: Metering) -> None:
    app = FastAPI()
    app.add_middleware(MeteringMiddleware, metering=metering, code="requests", subscription=account_of)
    uses = Depends(metering.of_request(account_of))

    @metering.metered(code="inside")
    async def inner() -> None: ...

    @app.get("/tokens/{count}")
    async def tokens(count: int, usage: RequestUsage = uses) -> int:
        usage.add("tokens", {"units": count, "model": "large"})
        if count > 100:
            raise HTTPException(413)
        await inner()
        return count

    @app.get("/broken")
    def broken(request: Request) -> None:
        raise HTTPException(500)

    assert send(app, "GET", "/tokens/20", headers={"x-account": "acme"}).json() == 20
    assert send(app, "GET", "/tokens/200", headers={"x-account": "acme"}).status_code == 413
    assert send(app, "GET", "/broken", headers={"x-account": "acme"}).status_code == 500
    assert send(app, "GET", "/nowhere", headers={"x-account": "acme"}).status_code == 404
    assert sorted(kept.noted, key=lambda row: row[1]) == [
        ("acme", "inside", {"units": 1}),
        ("acme", "requests", {"units": 1}),
        ("acme", "tokens", {"units": 20, "model": "large"}),
    ]


def test_flask(kept: Kept) -> None:
    metering = Metering(kept.add)
    app = Flask("metered")
    FlaskMetering(app, metering=metering, code="requests", subscription=account_of)

    @metering.metered(code="inside")
    def inner() -> None: ...

    @app.get("/fine")
    def fine() -> str:
        inner()
        return str(flask_request.method)

    client = app.test_client()
    assert client.get("/fine", headers={"x-account": "acme"}).text == "GET"
    assert client.get("/missing", headers={"x-account": "acme"}).status_code == 404
    assert kept.noted == [("acme", "inside", {"units": 1}), ("acme", "requests", {"units": 1})]


def test_application_of_the_guide_meters_its_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    guide = (ROOT / "docs" / "guides" / "metering.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    start, _, fastapi, django, flask = blocks(guide, "python")
    for block in (start, fastapi, django):
        exec(block.text, names)
    exec(flask.text.replace("billing.close()", ""), names)

    assert send(names["app"], "GET", "/search?text=abc", headers={"x-account": "acme"}).json() == {"found": "abc"}
    assert send(names["app"], "GET", "/search?text=abc").status_code == 200
    assert names["site"].test_client().get("/", headers={"x-account": "acme"}).status_code == 404
    with names["billing"] as billing:
        noted = sorted(
            (event.code, event.external_subscription_id, event.properties) for event in billing.events.list()
        )
    assert noted == [("llm", "acme", {"tokens": 3, "model": "small"}), ("requests", "acme", {"tokens": 1})]


DJANGO = """
import asyncio
import sys

from django.conf import settings

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="for a test", MIDDLEWARE=["__main__.metered"])
import django

django.setup()
from django.http import HttpResponse
from django.test import AsyncClient, Client
from django.urls import path

from usagebill.metering import Metering, django_middleware

noted = []
metering = Metering(lambda **event: noted.append((event["external_subscription_id"], event["code"])))
metered = django_middleware(metering, code="requests", subscription=lambda request: request.headers.get("x-account"))
inner = metering.metered(code="inside")(lambda: None)


def view(request):
    inner()
    return HttpResponse("ok")


async def view_async(request):
    await metering.note_async("inside")
    return HttpResponse("ok")


urlpatterns = [path("sync/", view), path("async/", view_async)]
assert Client().get("/sync/", headers={"x-account": "acme"}).status_code == 200
assert Client().get("/none/", headers={"x-account": "acme"}).status_code == 404
assert asyncio.run(AsyncClient().get("/async/", headers={"x-account": "beta"})).status_code == 200
assert asyncio.run(AsyncClient().get("/sync/", headers={"x-account": "gamma"})).status_code == 200
print(noted)
"""


@pytest.mark.slow
def test_django(tmp_path: Path) -> None:
    """Its settings are those of a whole process."""
    (tmp_path / "program.py").write_text(DJANGO, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    both = [(account, code) for account in ("acme", "beta", "gamma") for code in ("inside", "requests")]
    assert done.stdout.splitlines()[-1] == str(both)
