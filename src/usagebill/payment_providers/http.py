"""HTTP to payment providers: JSON or forms, one deadline, and what goes wrong on the way as a `ProviderFailure`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from usagebill.bounded_http import Asking
from usagebill.core.provider_requests import FailureKind, ProviderFailed, ProviderFailure
from usagebill.json_text import Json, encode_json, parse_json

__all__ = ["LONGEST_MESSAGE", "ProviderHttp", "Said", "failed"]

_LARGEST_ANSWER = 16 * 1024 * 1024
LONGEST_MESSAGE = 1000
_LONGEST_CODE = 255


@dataclass(frozen=True, slots=True)
class Said:
    """An answer: status, body, the body as JSON (null if it is none), and headers by their names in lower case."""

    status: int
    body: bytes
    json: Json
    headers: Mapping[str, str]

    @property
    def is_good(self) -> bool:
        """Whether the status is one of success (2xx)."""
        return 200 <= self.status < 300


class ProviderHttp:
    """The client that all adapters share. `timeout` is in seconds, for all of one request."""

    def __init__(self, timeout: float) -> None:
        self._asking = Asking(timeout, _LARGEST_ANSWER)

    def close(self) -> None:
        """Give up what is on its way."""
        self._asking.close()

    def ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | Mapping[str, object] | None = None,
    ) -> Said:
        """The answer, whatever its status, except 429, 408 and 5xx: those raise `ProviderFailed`, as does no answer.

        A mapping is sent as JSON; bytes as they are, with the content type that `headers` name.
        """
        sent = dict(headers)
        if isinstance(content, Mapping):
            sent["content-type"] = "application/json"
            content = encode_json(dict(content))
        try:
            answer = self._asking.request(method, url, sent, content or b"")
        except Exception as problem:
            # The words of the problem may repeat headers: only its kind is told.
            text = f"no answer: {type(problem).__name__}"
            raise failed(FailureKind.UNREACHABLE, "network_error", text) from None
        try:
            json = parse_json(answer.body) if answer.body else None
        except ValueError:
            json = None
        status = answer.status
        if status == 429:
            raise failed(FailureKind.THROTTLED, "status_429", "the provider is asked too often")
        if status >= 500 or status == 408:
            raise failed(FailureKind.UNREACHABLE, f"status_{status}", f"the provider answered {status}")
        return Said(status, answer.body, json, answer.headers)


def failed(kind: FailureKind, code: str | None, message: str) -> ProviderFailed:
    """A failure with texts no longer than what is kept."""
    return ProviderFailed(
        ProviderFailure(
            kind=kind, code=None if code is None else code[:_LONGEST_CODE], message=message[:LONGEST_MESSAGE]
        )
    )
