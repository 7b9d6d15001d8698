"""A key may make as many requests in a minute as the installation allows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st
from tests.json_asserts import for_programs

from usagebill.http.api import Answer, Api, Request
from usagebill.http.app import routes
from usagebill.operations import api_keys
from usagebill.process.rate_limit import RateLimit
from usagebill.process.settings import Settings
from usagebill.testing import Sandbox

START = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox(now=START, settings=Settings(requests_per_minute=3)) as box:
        yield box


@pytest.fixture
def api(box: Sandbox) -> Api:
    return Api(box.billing, routes())


def ask(api: Api, key: str, path: str = "/api/v1/plans") -> Answer:
    return api.answer(Request(method="GET", path=path, headers={"authorization": f"Bearer {key}"}))


def rate_headers(answer: Answer) -> list[str]:
    return [answer.headers[f"x-ratelimit-{name}"] for name in ("limit", "remaining", "reset")]


def test_requests_count_down_and_the_limit_resets_every_minute(box: Sandbox, api: Api) -> None:
    assert rate_headers(ask(api, box.api_key)) == ["3", "2", "60"]
    box.jump_to(START + timedelta(seconds=20.5))
    assert rate_headers(ask(api, box.api_key, "/api/v1/plans/none")) == ["3", "1", "40"]
    assert rate_headers(ask(api, box.api_key)) == ["3", "0", "40"]
    refused = ask(api, box.api_key)
    assert (refused.status, rate_headers(refused)) == (429, ["3", "0", "40"])
    assert for_programs(json.loads(refused.body)) == {"status": 429, "error": "Too Many Requests"}
    assert refused.headers["retry-after"] == "40"
    box.jump_to(START + timedelta(seconds=60))
    assert (ask(api, box.api_key).status, rate_headers(ask(api, box.api_key))) == (200, ["3", "1", "60"])


def test_each_key_has_its_own_count(box: Sandbox, api: Api) -> None:
    _, other = box.billing.writing(lambda work: api_keys.create(work))
    for _ in range(4):
        last = ask(api, box.api_key)
    assert (last.status, ask(api, other).status) == (429, 200)


def test_requests_without_a_key_see_no_rate_limit_headers(api: Api) -> None:
    refused = [ask(api, "nobody") for _ in range(5)]
    assert {answer.status for answer in refused} == {401}
    assert not any(name.startswith("x-ratelimit") for name in refused[-1].headers)


def test_without_the_setting_there_is_no_bound() -> None:
    with Sandbox(now=START) as box:
        answers = [ask(Api(box.billing, routes()), box.api_key) for _ in range(20)]
    assert {answer.status for answer in answers} == {200}
    assert not any(name.startswith("x-ratelimit") for name in answers[-1].headers)


@given(limit=st.integers(1, 5), waits=st.lists(st.integers(0, 90), max_size=40))
def test_no_window_lets_more_through_than_the_limit(limit: int, waits: list[int]) -> None:
    counted = RateLimit(limit)
    now = START
    windows: dict[datetime, int] = {}
    for wait in waits:
        now += timedelta(seconds=wait)
        standing = counted.count("key", now)
        assert timedelta() < standing.resets_in <= timedelta(minutes=1)
        ends = now + standing.resets_in
        windows[ends] = windows.get(ends, 0) + (standing.remaining >= 0)
    assert all(passed <= limit for passed in windows.values())
    assert all(
        later - earlier >= timedelta(minutes=1) for earlier, later in zip(windows, list(windows)[1:], strict=False)
    )
