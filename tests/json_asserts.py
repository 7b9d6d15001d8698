"""Assertions about the API's answers."""

from __future__ import annotations

from typing import Any


def accepted(answer: tuple[int, Any], root: str) -> Any:
    """The value of `root` in a successful answer."""
    status, body = answer
    assert status == 200, body
    return body[root]


def refused(answer: tuple[int, Any]) -> Any:
    """The details of a refusal of values."""
    status, body = answer
    assert (status, body["code"]) == (422, "validation_errors"), body
    return body["error_details"]


def missing(answer: tuple[int, Any]) -> str:
    """The record that a 404 names."""
    status, body = answer
    assert (status, body["error"]) == (404, "Not Found"), body
    code: str = body["code"]
    return code.removesuffix("_not_found")


def for_programs(body: Any) -> Any:
    """The body of a refusal without its messages, which it must have."""
    assert body["message"], body
    return {name: value for name, value in body.items() if name not in ("message", "messages")}
