"""Usage that a program holds while it does what it reserved it for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from usagebill.core.holds import Hold


class HeldUsage:
    """Usage that is held within `billing.holds.hold(...)`: `capture` it once it has happened."""

    def __init__(self, capture: Callable[..., Hold], hold: Hold) -> None:
        self._capture = capture
        self.hold = hold
        self.is_captured = False

    def capture(self, properties: Mapping[str, object] | None = None, **fields: object) -> Hold:
        """Store what was used, with the fields of `holds.capture`, and end the hold. It may be more than was held."""
        sent = fields if properties is None else {**fields, "properties": properties}
        captured = self._capture(self.hold.id, **sent)
        self.is_captured = True
        return captured
