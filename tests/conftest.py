"""Checks all that tests send through `Sandbox` against the reference's shapes, where its description is at hand."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.api_shapes import SHAPES, ShapeChecker

# How long an example takes says more about the machine than about the subject.
settings.register_profile("usagebill", deadline=None)
settings.load_profile("usagebill")


@pytest.fixture(scope="session", autouse=True)
def shapes_of_http_traffic() -> Iterator[None]:
    """Makes `Sandbox.request` and leaving a `Sandbox` fail the test whose responses or webhooks have a wrong shape."""
    if not SHAPES.exists() or importlib.util.find_spec("usagebill.testing") is None:
        yield
        return
    Sandbox = importlib.import_module("usagebill.testing").Sandbox  # noqa: N806
    request, leave = Sandbox.request, Sandbox.__exit__

    def checked_request(box: Any, method: str, path: str, json: Any = None, **rest: Any) -> tuple[int, Any]:
        status, body = request(box, method, path, json=json, **rest)
        problems = ShapeChecker.of_reference().check(method, path, status, body) if 200 <= status < 300 else []
        assert not problems, "\n".join(problems)
        return status, body

    def checked_leave(box: Any, kind: type[BaseException] | None, *rest: Any) -> Any:
        checker = ShapeChecker.of_reference()
        problems = [] if kind else [text for message in box.webhooks for text in checker.check_webhook(message)]
        left = leave(box, kind, *rest)
        assert not problems, "\n".join(problems)
        return left

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sandbox, "request", checked_request)
        patch.setattr(Sandbox, "__exit__", checked_leave)
        yield
