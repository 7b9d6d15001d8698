"""The header `Idempotency-Key`: a POST that is sent again is done once."""

from __future__ import annotations

from collections.abc import Callable

from usagebill.core.api_logs import without_secrets
from usagebill.core.idempotency import check_key, fingerprint
from usagebill.operations.idempotency import store_answer, stored_answer
from usagebill.process.json_text import Json, encode_json, parse_json
from usagebill.runtime.work import Work

HEADER = "Idempotency-Key"
# The header of an answer that was given before.
REPLAYED = "idempotent-replayed"


class Once:
    """A request with a key, which is done once. `shown_once` names the fields of its answer that are stored nowhere."""

    def __init__(
        self, key: str, *, method: str, path: str, query: str, body: bytes, shown_once: frozenset[str]
    ) -> None:
        """Raises `Invalid` for what cannot be a key."""
        check_key(key)
        self._key = key
        self._fingerprint = fingerprint(method, path, query, body)
        self._shown_once = shown_once
        # Whether it had been done before.
        self.is_repeat = False

    def answer(self, work: Work, act: Callable[[Work], Json]) -> Json:
        """What `act` answers, or has answered before."""
        stored = stored_answer(work, self._key, self._fingerprint)
        self.is_repeat = stored is not None
        if stored is not None:
            return parse_json(stored.encode()) if stored else b""
        answer = act(work)
        kept = without_secrets(answer, self._shown_once) if self._shown_once else answer
        store_answer(work, self._key, self._fingerprint, "" if kept == b"" else encode_json(kept).decode())
        return answer
