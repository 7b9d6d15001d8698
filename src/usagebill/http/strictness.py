"""Strictness: fields that a request sends and nothing reads are refused on demand, and logged otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from usagebill.core.errors import Invalid
from usagebill.http.endpoints import Endpoint
from usagebill.process.logs import Log
from usagebill.process.throttle import Throttle
from usagebill.requests.sent_fields import UNKNOWN, Slip, field_names, slips

_LOG_EVERY = timedelta(hours=1)
_MOST_LOGGED = 20
# Names are compared with all fields, which takes long.
_MOST_SUGGESTED = 20
_PAGING = frozenset({"page", "per_page"})
# Where prices are changed, `effective` promises that open periods keep theirs: a change that would not is refused.
_PRICED = ("/plans", "/subscriptions")
_EFFECTIVE = "effective"
_log = Log("usagebill.http")


class Strictness:
    """The rule of one process: `always`, or for requests with the header `Usagebill-Strict: true`."""

    def __init__(self, *, always: bool) -> None:
        self._always = always
        self._logged = Throttle(_LOG_EVERY)

    def check(
        self,
        endpoint: Endpoint,
        headers: Mapping[str, str],
        body: object,
        parameters: Mapping[str, object],
        key_id: str,
        now: datetime,
    ) -> None:
        """Raises `Invalid`, naming each field, if the request is strict and sends what would be ignored or cut, and if
        any sends `effective` with a change of prices that cannot wait.

        If it is not strict, they are logged once an hour for each key, operation and set of fields.
        """
        slips = list(_slips(endpoint, body, parameters))
        if not slips:
            return
        if endpoint.path.startswith(_PRICED):
            _refuse_effective(slips)
        wish = headers.get("usagebill-strict", "").strip().lower()
        if wish in ("true", "1") or (self._always and wish not in ("false", "0")):
            near = {slip.path: slip.near for slip in slips[:_MOST_SUGGESTED]}
            meant = {path: f"is not a field; did you mean {name}?" for path, name in near.items() if name is not None}
            raise Invalid({slip.path: [slip.code] for slip in slips}, reasons=meant)
        name = (key_id, endpoint.path, tuple(sorted(slip.path for slip in slips)[:_MOST_LOGGED]))
        if not self._logged.passes(name, now):
            return
        _log.warning(
            "ignored_fields",
            method=endpoint.method,
            path=endpoint.path,
            api_key=key_id,
            fields=[slip.path for slip in slips if slip.code == UNKNOWN][:_MOST_LOGGED],
            cut_to_integers=[slip.path for slip in slips if slip.code != UNKNOWN][:_MOST_LOGGED],
        )


def _refuse_effective(slips: Sequence[Slip]) -> None:
    promised = [slip.path for slip in slips if slip.path.rpartition(".")[2] == _EFFECTIVE]
    if promised:
        reason = "only a PUT of a plan, charge, filter or fixed charge has it, for all that it changes"
        raise Invalid({path: [UNKNOWN] for path in promised}, reasons=dict.fromkeys(promised, reason))


def _slips(endpoint: Endpoint, body: object, parameters: Mapping[str, object]) -> Iterator[Slip]:
    if endpoint.many is not None and not (isinstance(body, Mapping) and endpoint.many in body):
        # One of them, or all, without the key.
        body = {endpoint.many: body if isinstance(body, list) else [body]}
    options = frozenset[str]() if endpoint.query is None else field_names(endpoint.query)
    if endpoint.paged:
        options |= _PAGING
    yield from (Slip(name, UNKNOWN) for name in parameters if name not in options)
    if not isinstance(body, Mapping):
        return
    if endpoint.body is None:
        # Parameters of lists may also be in the body.
        yield from (Slip(name, UNKNOWN) for name in body if name not in options)
        if endpoint.query is not None:
            yield from slips(endpoint.query, {name: value for name, value in body.items() if name in options - _PAGING})
    elif endpoint.root is None:
        yield from (slip for slip in slips(endpoint.body, body) if slip.path not in options)
    else:
        yield from (Slip(name, UNKNOWN) for name in body if name != endpoint.root and name not in options)
        if endpoint.query is not None:
            yield from slips(endpoint.query, {name: value for name, value in body.items() if name in options - _PAGING})
        root = body.get(endpoint.root)
        if isinstance(root, Mapping):
            yield from slips(endpoint.body, root)
