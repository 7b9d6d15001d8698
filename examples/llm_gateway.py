"""A gateway to language models that is paid in advance: credits, a cap for each key, a free plan.

`uvicorn llm_gateway:app` serves it; `python llm_gateway.py` shows a few calls. docs/guides/llm-gateway.md explains it.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal

import httpx
from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field

from usagebill import Billing, PaymentRequired
from usagebill.worker import Worker

# Dollars for a million tokens of input. Cached input costs half of it, output four times as much.
PRICES = {"small": "0.15", "large": "2.50"}
MILLIONS = "(event.properties.input + event.properties.cached * 0.5 + event.properties.output * 4) / 1000000"
# Longer than any answer takes. If this process dies, what it held is free again after that.
HOLD_SECONDS = 600


@dataclass(frozen=True)
class Key:
    """An API key of the gateway: who calls, and for which subscription."""

    id: str
    customer: str
    subscription: str


# Wherever you keep yours.
KEYS = {
    "sk-acme-app": Key("acme-app", "acme", "acme-api"),
    "sk-acme-tests": Key("acme-tests", "acme", "acme-api"),
    "sk-sam": Key("sam", "sam", "sam-free"),
}


def set_up(billing: Billing) -> None:
    """The price list, a customer with credits and a cap on one of its keys, and one on the free plan."""
    billing.billable_metrics.create(
        name="Tokens",
        code="tokens",
        aggregation_type="sum_agg",
        field_name="millions",
        expression=MILLIONS,
        filters=[{"key": "model", "values": list(PRICES)}],
    )
    billing.plans.create(
        name="API",
        code="api",
        interval="monthly",
        amount_cents=0,
        amount_currency="USD",
        pay_in_advance=False,
        charges=[
            {
                "billable_metric_code": "tokens",
                "charge_model": "standard",
                "invoice_display_name": "Tokens (millions)",
                "properties": {"amount": max(PRICES.values(), key=Decimal)},
                "filters": [
                    {"values": {"model": [model]}, "invoice_display_name": model, "properties": {"amount": amount}}
                    for model, amount in PRICES.items()
                ],
            }
        ],
    )
    billing.customers.upsert(external_id="acme", currency="USD")
    billing.subscriptions.create(external_customer_id="acme", plan_code="api", external_id="acme-api")
    billing.wallets.create(
        external_customer_id="acme",
        name="Credits",
        rate_amount="1",
        currency="USD",
        granted_credits="10",
        hard_stop=True,
    )
    billing.spend_limits.create_of_customer(
        "acme", code="acme-tests", amount_cents=100, interval="month", group={"api_key": ["acme-tests"]}
    )
    billing.features.create(
        code="llm",
        name="Language models",
        privileges=[{"code": "millions", "value_type": "integer", "billable_metric_code": "tokens"}],
    )
    billing.plans.create(
        name="Free", code="free", interval="monthly", amount_cents=0, amount_currency="USD", pay_in_advance=False
    )
    billing.entitlements.replace_of_plan("free", entitlements={"llm": {"millions": 1}})
    billing.customers.upsert(external_id="sam", currency="USD")
    billing.subscriptions.create(external_customer_id="sam", plan_code="free", external_id="sam-free")


billing = Billing(os.environ.get("GATEWAY_DB", "gateway.db"))
if not billing.plans.list().items:
    set_up(billing)


@dataclass
class Completion:
    """A call of the model, and what it has counted so far. This one repeats the prompt, word by word."""

    prompt: str
    most: int
    input: int = 0
    cached: int = 0
    output: int = 0
    seen: set[str] = field(default_factory=set)

    async def words(self) -> AsyncIterator[str]:
        # A provider frames each prompt with some tokens of its own, and counts what it remembers apart.
        count = math.ceil(len(self.prompt) / 4) + 8
        self.input, self.cached = (0, count) if self.prompt in self.seen else (count, 0)
        self.seen.add(self.prompt)
        for word in self.prompt.split()[: self.most]:
            await asyncio.sleep(0.01)
            self.output += 1
            yield word


REMEMBERED: dict[str, set[str]] = {key.customer: set() for key in KEYS.values()}


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    with Worker(billing):
        yield
    await billing.aio.close()


app = FastAPI(lifespan=lifespan)


def key_of(authorization: Annotated[str, Header()]) -> Key:
    key = KEYS.get(authorization.removeprefix("Bearer "))
    if key is None:
        raise HTTPException(401, "unknown key")
    return key


class Message(BaseModel):
    role: str = "user"
    content: str


class Chat(BaseModel):
    model: Literal["small", "large"]
    messages: list[Message]
    max_tokens: int = Field(default=1_000, ge=1, le=1_000_000)
    stream: bool = False


@app.post("/v1/chat/completions")
async def chat(asked: Chat, key: Annotated[Key, Depends(key_of)]) -> Any:
    prompt = "\n".join(message.content for message in asked.messages)
    # The most that it can cost: no token is shorter than a byte, no answer longer than was asked for.
    most = {
        "model": asked.model,
        "api_key": key.id,
        "input": len(prompt.encode()),
        "cached": 0,
        "output": asked.max_tokens,
    }
    call = Completion(prompt, asked.max_tokens, seen=REMEMBERED[key.customer])
    stack = AsyncExitStack()
    hold = billing.aio.holds.hold(key.subscription, "tokens", most, seconds=HOLD_SECONDS)
    held = await stack.enter_async_context(hold)
    words = answered(stack, held, call, most)
    if asked.stream:
        return StreamingResponse(streamed(words, held), media_type="text/event-stream")
    async with aclosing(words):
        text = " ".join([word async for word in words])
    return {"id": held.hold.id, "choices": [{"message": {"role": "assistant", "content": text}}], "usage": used(call)}


async def answered(
    stack: AsyncExitStack, held: Any, call: Completion, most: dict[str, object]
) -> AsyncGenerator[str, None]:
    """The words of the answer. However it ends, what there was of it is captured; if nothing was, it is released."""
    async with stack:
        try:
            async for word in call.words():
                yield word
        finally:
            if call.input or call.cached:
                await held.capture({**most, "input": call.input, "cached": call.cached, "output": call.output})


async def streamed(words: AsyncGenerator[str, None], held: Any) -> AsyncIterator[str]:
    """The answer as server-sent events."""
    async with aclosing(words):
        async for word in words:
            yield f"data: {json.dumps({'id': held.hold.id, 'choices': [{'delta': {'content': word}}]})}\n\n"
    yield "data: [DONE]\n\n"


def used(call: Completion) -> dict[str, int]:
    return {"prompt_tokens": call.input + call.cached, "cached_tokens": call.cached, "completion_tokens": call.output}


@app.exception_handler(PaymentRequired)
async def refused(_: Request, problem: PaymentRequired) -> JSONResponse:
    limit: Any = problem.details["limit"]
    error = {"type": "payment_required", "code": problem.code, "message": in_words(problem.code, limit), "limit": limit}
    return JSONResponse({"error": error}, 402)


def in_words(code: str, limit: dict[str, Any]) -> str:
    """What the user of the gateway reads."""
    resets = f" It starts over on {limit['resets_at'][:10]}." if limit["resets_at"] else ""
    if code == "quota_reached":
        plan = f"your plan has {limit['remaining']} of {limit['limit']} million tokens left"
        return f"This call may take {limit['adds']}, and {plan}.{resets}"
    left, adds = (f"${Decimal(limit[name]) / 100:.2f}" for name in ("remaining", "adds"))
    if code == "insufficient_credits":
        return f"This call may cost {adds}, and {left} of your credits is left. Buy more, or ask for fewer tokens."
    return f"This call may cost {adds}, and this key may spend {left} more.{resets}"


async def try_it() -> None:
    """Call the gateway as its users would."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as client:
        for key, model, most in (
            ("sk-acme-app", "large", 100),
            ("sk-acme-app", "large", 100),
            ("sk-acme-tests", "large", 150_000),
            ("sk-sam", "small", 300_000),
        ):
            asked = {"model": model, "messages": [{"content": "the quick brown fox"}], "max_tokens": most}
            answer = await client.post("/v1/chat/completions", json=asked, headers={"Authorization": f"Bearer {key}"})
            print(answer.status_code, answer.json().get("usage") or answer.json()["error"]["message"])
    await billing.aio.close()


if __name__ == "__main__":
    asyncio.run(try_it())
