"""The gateway of docs/guides/llm-gateway.md, as a program of its own: what is allowed, what is refused, and what stands
once callers leave or the program dies.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.outages.servers import eventually
from tests.test_docs import ROOT, blocks
from usagebill import Billing
from usagebill.runtime.clock import ManualClock

pytestmark = pytest.mark.slow

PROGRAM = ROOT / "examples" / "llm_gateway.py"
LONG = " ".join(f"word-{number}" for number in range(400))


@contextmanager
def gateway(database: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    """The gateway, served by uvicorn; any warning of a blocked event loop ends it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "llm_gateway:app", "--app-dir", str(PROGRAM.parent), "--port", "0"],
        env={**os.environ, "GATEWAY_DB": database, "PYTHONWARNINGS": "error::RuntimeWarning"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = ""
        while "running on" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        address = said.rpartition("running on ")[2].split()[0]
        with httpx.Client(base_url=address, timeout=60) as client:
            yield client, process
    finally:
        process.kill()
        process.communicate()


def ask(client: httpx.Client, key: str, prompt: str = "the quick brown fox", **fields: Any) -> httpx.Response:
    return client.post(**question(key, prompt, **fields))


def question(key: str, prompt: str, **fields: Any) -> dict[str, Any]:
    body = {"model": "large", "messages": [{"content": prompt}], "max_tokens": 100, **fields}
    return {"url": "/v1/chat/completions", "json": body, "headers": {"Authorization": f"Bearer {key}"}}


def error_of(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 402, answer.text
    error: dict[str, Any] = answer.json()["error"]
    return error


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("gateway") / "gateway.db")


@pytest.fixture(scope="module")
def client(database: str) -> Iterator[httpx.Client]:
    with gateway(database) as (client, _):
        yield client


@pytest.fixture
def billing(client: httpx.Client, database: str) -> Iterator[Billing]:
    """What the gateway has stored, from outside."""
    assert client
    with Billing(database, deliver=False) as billing:
        yield billing


def test_an_answer_costs_what_it_was_and_cached_tokens_half(client: httpx.Client, billing: Billing) -> None:
    first, again = (ask(client, "sk-acme-app", "one two three").json() for _ in range(2))
    assert first["choices"][0]["message"]["content"] == "one two three"
    assert first["usage"] == {"prompt_tokens": 12, "cached_tokens": 0, "completion_tokens": 3}
    assert again["usage"] == {"prompt_tokens": 12, "cached_tokens": 12, "completion_tokens": 3}
    costs = [billing.holds.get(answer["id"]) for answer in (first, again)]
    # Of 2.50 dollars for a million: 12 + 4 * 3 tokens, and 6 + 4 * 3; held were 13 + 4 * 100.
    assert [hold.captured_amount_cents for hold in costs] == [Decimal("0.006"), Decimal("0.0045")]
    assert [hold.amount_cents for hold in costs] == [Decimal("0.10325")] * 2
    assert {hold.status for hold in costs} == {"captured"}


def test_an_answer_is_streamed_and_captured_at_its_end(client: httpx.Client, billing: Billing) -> None:
    answer = ask(client, "sk-acme-app", "a b c d", stream=True)
    *words, done = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert done == "[DONE]"
    told = [json.loads(word) for word in words]
    assert [word["choices"][0]["delta"]["content"] for word in told] == ["a", "b", "c", "d"]
    hold = billing.holds.get(told[0]["id"])
    assert (hold.status, billing.events.get(hold.id).properties["output"]) == ("captured", 4)


def test_more_than_was_held_is_billed_and_said(client: httpx.Client, billing: Billing) -> None:
    """The provider adds tokens of its own to a short prompt."""
    hold = billing.holds.get(ask(client, "sk-acme-app", "a", max_tokens=1).json()["id"])
    assert hold.exceeds
    assert billing.events.get(hold.id).properties["input"] == 9


def test_credits_refuse_what_they_do_not_pay_for(client: httpx.Client, billing: Billing) -> None:
    error = error_of(ask(client, "sk-acme-app", max_tokens=1_000_000))
    assert error["code"] == "insufficient_credits"
    assert error["message"].startswith("This call may cost $10.00, and $")
    assert error["message"].endswith("of your credits is left. Buy more, or ask for fewer tokens.")
    assert billing.holds.list(status="held").total_count == 0


def test_a_key_is_capped_and_the_others_go_on(client: httpx.Client) -> None:
    error = error_of(ask(client, "sk-acme-tests", max_tokens=150_000))
    assert error["code"] == "spend_limit_reached"
    assert error["message"].startswith(
        "This call may cost $1.50, and this key may spend $1.00 more. It starts over on "
    )
    assert ask(client, "sk-acme-tests", max_tokens=90_000).status_code == 200
    assert ask(client, "sk-acme-app", max_tokens=150_000).status_code == 200


def test_the_free_plan_has_a_quota(client: httpx.Client) -> None:
    error = error_of(ask(client, "sk-sam", max_tokens=300_000))
    assert error["code"] == "quota_reached"
    assert "your plan has 1.0 of 1.0 million tokens left. It starts over on " in error["message"]
    assert ask(client, "sk-sam", max_tokens=1_000).status_code == 200
    assert ask(client, "sk-nobody").status_code == 401


def test_who_leaves_in_the_middle_pays_what_was_streamed(client: httpx.Client, billing: Billing) -> None:
    with client.stream("POST", **question("sk-acme-app", LONG, max_tokens=500, stream=True)) as answer:
        lines = answer.iter_lines()
        read = [next(lines) for _ in range(5)]
    held = json.loads(read[0].removeprefix("data: "))["id"]
    eventually(lambda: billing.holds.get(held).status != "held")
    assert billing.holds.get(held).status == "captured"
    output = billing.events.get(held).properties["output"]
    assert isinstance(output, int)
    assert 3 <= output < 400


def test_what_a_killed_gateway_held_is_free_again_after_ten_minutes(tmp_path: Path) -> None:
    database = str(tmp_path / "killed.db")
    asked = question("sk-acme-tests", LONG, max_tokens=90_000, stream=True)
    with gateway(database) as (client, process), client.stream("POST", **asked) as answer:
        next(answer.iter_lines())
        process.kill()
        process.wait()
    with Billing(database, deliver=False) as billing:
        (hold,) = billing.holds.list()
        assert hold.status == "held"
    with gateway(database) as (client, _):
        error = error_of(ask(client, "sk-acme-tests", max_tokens=90_000))
        assert (error["code"], Decimal(error["limit"]["held"])) == ("spend_limit_reached", hold.amount_cents)
    told: list[Any] = []
    with Billing(
        database, clock=ManualClock(hold.created_at + timedelta(minutes=10)), on_message=told.append, deliver=False
    ) as billing:
        usage = billing.usage.current("acme", external_subscription_id="acme-api")
        assert (usage.amount_cents, usage.held_amount_cents) == (0, 0)
        assert billing.spend_limits.check(external_subscription_id="acme-api", amount_cents=0).allowed
        billing.run_due()
        assert [message["webhook_type"] for message in told if message["webhook_type"].startswith("hold")] == [
            "hold.expired"
        ]


def test_the_guide_shows_the_program() -> None:
    """Each of its blocks stands in the program, word by word."""
    program = PROGRAM.read_text(encoding="utf-8")
    guide = (ROOT / "docs" / "guides" / "llm-gateway.md").read_text(encoding="utf-8")
    shown = [part.strip() for block in blocks(guide, "py") for part in block.text.split("\n\n\n")]
    assert shown
    assert [part for part in shown if part not in program] == []
