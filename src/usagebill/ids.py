"""Ids: time-ordered UUIDs (version 7), made in this one place."""

from __future__ import annotations

import secrets
import threading
from datetime import UTC, datetime, timedelta

__all__ = ["new_id"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_turn = threading.Lock()
_last = 0


def new_id(now: datetime) -> str:
    """A UUID (RFC 9562, version 7) of the instant `now`; ids of one process and one instant sort as they were made."""
    global _last
    stamp = max(0, (now - _EPOCH) // _MILLISECOND) << 12
    with _turn:
        # 48 bits of milliseconds and a 12-bit counter, which starts anew with each millisecond.
        _last = _last + 1 if _last >> 12 == stamp >> 12 else stamp
        value = _last
    bits = (value >> 12) << 80 | 0x7 << 76 | (value & 0xFFF) << 64 | 0x2 << 62 | secrets.randbits(62)
    text = f"{bits & (1 << 128) - 1:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
