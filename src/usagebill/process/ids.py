"""Ids: time-ordered UUIDs (version 7), made only here."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_VARIANT = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
_turn = threading.Lock()
# The last id of each recent instant: late jobs take ids of earlier instants in between.
_lasts: OrderedDict[int, int] = OrderedDict()
_REMEMBERED = 10_000


def new_id(now: datetime) -> str:
    """A UUID (RFC 9562, version 7) of the instant `now`; ids of one process and one instant sort as they were made."""
    return new_ids(now, 1)[0]


@lru_cache(maxsize=64)
def _stamp(now: datetime) -> int:
    return max(0, (now - _EPOCH) // _MILLISECOND) << 12


def new_ids(now: datetime, count: int) -> list[str]:
    """As many ids of one instant, in the order they sort."""
    stamp = _stamp(now)
    with _turn:
        # 48 bits of milliseconds and a 12-bit counter, which continues that of the millisecond.
        first = _lasts.pop(stamp, stamp - 1) + 1
        _lasts[stamp] = first + count - 1
        if len(_lasts) > _REMEMBERED:
            _lasts.popitem(last=False)
    random = secrets.token_hex(8 * count)
    ids, millisecond, lead = [], -1, ""
    for place in range(count):
        value = first + place
        if value >> 12 != millisecond:
            millisecond = value >> 12
            lead = f"{millisecond >> 16:08x}-{millisecond & 0xFFFF:04x}-7"
        tail = random[16 * place : 16 * place + 16]
        # The variant takes the two highest bits of the tail's first digit.
        ids.append(f"{lead}{value & 0xFFF:03x}-{_VARIANT[tail[0]]}{tail[1:4]}-{tail[4:]}")
    return ids


class Ids:
    """The ids of a change, the same in each of its runs as long as these take the same course."""

    def __init__(self) -> None:
        self._taken: list[tuple[datetime, list[str]]] = []
        self._place = 0

    def begin(self) -> None:
        """Begin another run."""
        self._place = 0

    def take(self, now: datetime, count: int) -> list[str]:
        """This many ids of the instant `now`, all different within a run."""
        place, self._place = self._place, self._place + 1
        if place < len(self._taken):
            instant, ids = self._taken[place]
            if instant == now and len(ids) == count:
                return ids
            # From here on, this run takes another course.
            del self._taken[place:]
        self._taken.append((now, new_ids(now, count)))
        return self._taken[place][1]
