"""Asking: an HTTP client for questions to others, whose answers are bounded in time and in length."""

from __future__ import annotations

import time
from collections.abc import Mapping

import httpx

__all__ = ["Asking"]


class Asking:
    """Follows no redirects, and gives up on whoever is slow or says more than `largest` bytes.

    `timeout` is in seconds, for connecting, writing and each wait for a part of the answer; an answer that keeps
    trickling in is given up after twice that long.
    """

    def __init__(self, timeout: float, largest: int) -> None:
        self._patience = 2 * timeout
        self._largest = largest
        self._client = httpx.Client(follow_redirects=False, timeout=timeout)

    def close(self) -> None:
        self._client.close()

    def post(self, url: httpx.URL | str, headers: Mapping[str, str], content: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer. Raises what `httpx` raises, and `ValueError` for one too long."""
        began = time.monotonic()
        with self._client.stream("POST", url, headers=headers, content=content) as answer:
            body = b""
            for part in answer.iter_bytes():
                body += part
                if len(body) > self._largest:
                    raise ValueError("the answer is too long")
                if time.monotonic() - began > self._patience:
                    raise httpx.ReadTimeout("the answer took too long")
            return answer.status_code, body
