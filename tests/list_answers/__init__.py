"""What every address of `benchmarks.lists` answers: its total, and the records of its first, second and last page.

    python -m tests.list_answers 30000            # compare with the answers in 30000.json
    python -m tests.list_answers 30000 --freeze   # write them there

They were frozen from an implementation that kept counts and sets of everything, so they say what a list returns,
however it is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl

from benchmarks.list_rows import fill, open_filled
from benchmarks.lists import FILTERS, HISTORY, LISTS, SEARCHES

from usagebill import Billing
from usagebill.http.api import Api, Request
from usagebill.http.app import routes
from usagebill.process import ids

PER_PAGE = 20
# A total, and a digest of the ids of each page.
Answer = list[Any]


def filled(path: Path, rows: int) -> tuple[Billing, str]:
    """A file with so many rows of each kind, whose ids are the same in each run, and the value of its key."""
    numbers = count()
    ids._lasts.clear()

    def token_hex(size: int) -> str:
        return (sha256(str(next(numbers)).encode()).hexdigest() * size)[: 2 * size]

    with patch("usagebill.process.ids.secrets.token_hex", token_hex):
        fill(path, rows, rows)
    return open_filled(path)


def frozen(rows: int) -> Path:
    """The file with the answers of so many rows of each kind."""
    return Path(__file__).parent / f"{rows}.json"


def answers(billing: Billing, key: str) -> Iterator[tuple[str, Answer]]:
    """Each address with what it answers now."""
    api = Api(billing, routes())
    headers = {"authorization": f"Bearer {key}"}

    def ask(target: str, query: str) -> Any:
        request = Request(method="GET", path=f"/api/v1/{target}", query=query.replace(" ", "%20"), headers=headers)
        answer = api.answer(request)
        assert answer.status == 200, (target, query, answer.body)
        return json.loads(answer.body)

    names = {name: ask(f"{name}s", "per_page=1")[f"{name}s"][0]["svc_id"] for name in ("wallet", "webhook_endpoint")}

    def page_of(target: str, query: str, page: int) -> tuple[int, bool, list[str]]:
        """The total, whether that is exact, and the ids of a page."""
        if target == HISTORY:
            filters: dict[str, Any] = dict(parse_qsl(query))
            for name in {"statuses", "event_types", "http_statuses"} & filters.keys():
                filters[name] = [filters[name]]
            messages = billing.webhooks.list_of_endpoint(
                names["webhook_endpoint"], **filters, page=page, per_page=PER_PAGE
            )
            return messages.total_count, getattr(messages, "is_exact", True), [message.id for message in messages.items]
        paged = f"{query}{'&' if query else ''}per_page={PER_PAGE}&page={page}"
        body = ask(target.format(**names), paged)
        found = [_id(item) for item in next(value for name, value in body.items() if name != "meta")]
        return body["meta"]["total_count"], body["meta"].get("total_count_is_exact", True), found

    for address in dict.fromkeys((*LISTS, *FILTERS, *SEARCHES)):
        target, _, query = address.replace("{n}", "421").partition("?")
        total, is_exact, first = page_of(target, query, 1)
        others = (page for page in dict.fromkeys((2, -(-total // PER_PAGE))) if page > 1)
        pages = [first, *(page_of(target, query, page)[2] for page in others)]
        yield address, [total if is_exact else f"{total} or more", *map(_digest, pages)]


def differing(expected: dict[str, Answer], found: dict[str, Answer]) -> dict[str, tuple[Answer, Answer]]:
    """The addresses with another answer than expected; a total that stopped need only be reached."""
    different = {}
    for address, answer in expected.items():
        now = found.get(address, [])
        if now and isinstance(now[0], str):
            least = int(now[0].split()[0])
            # The last page that is known is another one.
            if answer[0] > least and now[1:3] == answer[1:3]:
                continue
        if now != answer:
            different[address] = answer, now
    return different


def _id(item: dict[str, Any]) -> str:
    return str(next(item[name] for name in ("svc_id", "activity_id", "log_id", "request_id", "code") if name in item))


def _digest(ids: list[str]) -> str:
    return f"{len(ids)} {sha256(' '.join(ids).encode()).hexdigest()[:12]}"
