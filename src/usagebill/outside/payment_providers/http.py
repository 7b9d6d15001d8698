"""HTTP to payment providers: JSON or forms, one deadline per request, and transport errors as `ProviderFailure`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from usagebill.core.provider_requests import FailureKind, ProviderFailed, ProviderFailure
from usagebill.outside.bounded_http import Asking
from usagebill.process.json_text import Json, encode_json, parse_json

_LARGEST_ANSWER = 16 * 1024 * 1024
LONGEST_MESSAGE = 1000
_LONGEST_CODE = 255


@dataclass(frozen=True, slots=True)
class Said:
    """An answer: status, body, the body as JSON (null if it is not JSON), and headers by lower-case name."""

    status: int
    body: bytes
    json: Json
    headers: Mapping[str, str]

    @property
    def is_good(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


class ProviderHttp:
    """The client shared by all adapters. `timeout` is in seconds, for a whole request."""

    def __init__(self, timeout: float) -> None:
        self._asking = Asking(timeout, _LARGEST_ANSWER)

    def close(self) -> None:
        """Abort the requests in flight."""
        self._asking.close()

    def ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | Mapping[str, object] | None = None,
    ) -> Said:
        """The answer. Statuses 408, 429 and 5xx, and no answer at all, raise `ProviderFailed`.

        A mapping is sent as JSON; bytes as they are, with the content type that `headers` name.
        """
        sent = dict(headers)
        if isinstance(content, Mapping):
            sent["content-type"] = "application/json"
            content = encode_json(dict(content))
        try:
            answer = self._asking.request(method, url, sent, content or b"")
        except Exception as problem:
            # The message may contain headers: only the kind of error is passed on.
            text = f"no answer: {type(problem).__name__}"
            raise failed(FailureKind.UNREACHABLE, "network_error", text) from None
        try:
            json = parse_json(answer.body) if answer.body else None
        except ValueError:
            json = None
        status = answer.status
        if status == 429:
            raise failed(FailureKind.THROTTLED, "status_429", "the provider limits our requests")
        if status >= 500 or status == 408:
            raise failed(FailureKind.UNREACHABLE, f"status_{status}", f"the provider answered {status}")
        return Said(status, answer.body, json, answer.headers)


def failed(kind: FailureKind, code: str | None, message: str) -> ProviderFailed:
    """A failure, its texts cut to what is stored."""
    return ProviderFailed(
        ProviderFailure(
            kind=kind, code=None if code is None else code[:_LONGEST_CODE], message=message[:LONGEST_MESSAGE]
        )
    )
