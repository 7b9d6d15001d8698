"""The deadline of a request: what is still being computed for it then is ended, and changes nothing.

It belongs to the context of the thread that answers the request. Readers and units of work check it at each step, and
the engines end a statement that runs past it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

from usagebill.core.errors import DeadlinePassed

# In seconds of the monotonic clock.
_ENDS = ContextVar[float | None]("usagebill_deadline", default=None)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What is done inside has to be done in so many seconds."""
    with until(monotonic() + seconds):
        yield


@contextmanager
def until(ends: float | None) -> Iterator[None]:
    """What is done inside has this deadline (`current`), and not that of the thread."""
    token = _ENDS.set(ends)
    try:
        yield
    finally:
        _ENDS.reset(token)


def current() -> float | None:
    """The deadline, for `until`; None if there is none."""
    return _ENDS.get()


def lift() -> None:
    """From here on there is none: an outside service has been asked, and its answer must not be lost."""
    _ENDS.set(None)


def seconds_left() -> float | None:
    """The seconds until the deadline; None if there is none."""
    ends = _ENDS.get()
    return None if ends is None else ends - monotonic()


def is_past() -> bool:
    """Whether the deadline has passed."""
    ends = _ENDS.get()
    return ends is not None and monotonic() > ends


def check() -> None:
    """Raises `DeadlinePassed` once the deadline has passed."""
    if is_past():
        raise DeadlinePassed
