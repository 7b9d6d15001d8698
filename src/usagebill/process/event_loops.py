"""A warning to programs that would stand still: a blocking call where an event loop runs."""

from __future__ import annotations

import sys
import warnings
from typing import Final

_PACKAGE: Final = __name__.partition(".")[0]
# Whether this process has been warned.
_is_told = False


class BlockingCallWarning(RuntimeWarning):
    """A call of `Billing` in the thread of a running event loop: until it is answered, no other task goes on."""


def warn_if_blocking() -> None:
    """Warn once per process if an event loop runs in this thread. Costs 0.1 µs."""
    global _is_told
    # A program that has not imported it has no loop, and should not pay for importing it.
    asyncio = sys.modules.get("asyncio")
    if _is_told or asyncio is None or asyncio._get_running_loop() is None:
        return
    _is_told = True
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        depth, frame = depth + 1, frame.f_back
    warnings.warn(
        "a call of usagebill blocks the event loop of this thread: use `await billing.aio...`, or call it in a thread"
        " (said once per process)",
        BlockingCallWarning,
        stacklevel=depth,
    )
