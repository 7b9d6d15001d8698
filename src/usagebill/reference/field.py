"""The description of a field of a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """The meaning of a field. `unit` is that of its number, `default` the value if it is not sent, in words.

    `values` are all permitted values (of each item, in a list); `example` is a valid value.
    `nullable`: null is a value even if the field is required.
    """

    about: str
    values: Sequence[str] = ()
    default: str | None = None
    unit: str | None = None
    example: object = None
    nullable: bool = False
