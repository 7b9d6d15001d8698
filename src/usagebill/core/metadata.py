"""Metadata: data that callers keep with a record, as an object of text keys and text or null values."""

from __future__ import annotations

from collections.abc import Mapping

from usagebill.core.blank import is_blank
from usagebill.core.errors import Invalid

Metadata = Mapping[str, str | None]

_MOST_KEYS = 50
_LONGEST_KEY = 100
_LONGEST_VALUE = 255


def checked_metadata(sent: object) -> dict[str, str | None]:
    """The metadata that was sent, as it is stored.

    Raises `Invalid` for what is no map, too much of it, or values that are neither text nor null.
    """
    if is_blank(sent):
        return {}
    if not isinstance(sent, Mapping):
        raise Invalid(metadata="invalid_type")
    if errors := _errors(sent):
        raise Invalid(value=errors)
    return dict(sent)


def _errors(metadata: Mapping[str, object]) -> list[str]:
    """Errors in `metadata`, in words, in the order found; empty if there are none."""
    errors: list[str] = []
    if len(metadata) > _MOST_KEYS:
        errors.append(f"cannot have more than {_MOST_KEYS} keys")
    for key, value in metadata.items():
        if len(key) > _LONGEST_KEY:
            errors.append(f"key '{key[:20]}...' is longer than {_LONGEST_KEY} characters")
        if value is None:
            continue
        if not isinstance(value, str):
            errors.append(f"value of '{key[:20]}' must be a text or null")
        elif len(value) > _LONGEST_VALUE:
            errors.append(f"value of '{key[:20]}' is longer than {_LONGEST_VALUE} characters")
    return errors


def merged_metadata(stored: Metadata | None, sent: Metadata) -> Metadata | None:
    """`stored` with the keys of `sent` set; None stays None if nothing is sent."""
    if stored is None and not sent:
        return None
    return {**(stored or {}), **sent}
