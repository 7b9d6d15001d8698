"""The one family of errors: why a request is refused, in codes that programs can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = [
    "BadRequest",
    "BillingError",
    "ClockRefused",
    "Forbidden",
    "Invalid",
    "NotAllowed",
    "NotFound",
    "ThirdPartyError",
    "TooManyProviderRequests",
    "TooManyRequests",
    "Unauthorized",
]

type_of_details = Mapping[str, object] | str


class BillingError(Exception):
    """Any refusal. `status` is its HTTP status, `code` the machine-readable reason."""

    status = 500

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class BadRequest(BillingError):
    """The request cannot be read (400). `code` is the whole text of the error."""

    status = 400


class Unauthorized(BillingError):
    """No key, or one that is not valid (401)."""

    status = 401

    def __init__(self) -> None:
        super().__init__("unauthorized")


class Forbidden(BillingError):
    """The key, the organization or the product does not permit it (403)."""

    status = 403


class NotFound(BillingError):
    """A record that does not exist, or belongs to another organization (404). `resource` is its singular name."""

    status = 404

    def __init__(self, resource: str) -> None:
        super().__init__(f"{resource}_not_found")
        self.resource = resource


class NotAllowed(BillingError):
    """The record is in a state that refuses the action (405)."""

    status = 405


class TooManyRequests(BillingError):
    """The key has made as many requests as it may for now (429)."""

    status = 429

    def __init__(self) -> None:
        super().__init__("too_many_requests")


class TooManyProviderRequests(BillingError):
    """An outside provider limits our requests (429); `provider` is its name."""

    status = 429

    def __init__(self, provider: str) -> None:
        super().__init__("too_many_provider_requests")
        self.provider = provider


class ThirdPartyError(BillingError):
    """Somebody else refused what the caller wants (422): whom it was, and what they said.

    `note` is what is to be done about it in a change of its own, since the caller's is rolled back.
    """

    status = 422

    def __init__(self, third_party: str, message: str, note: Callable[[Any], object] | None = None) -> None:
        super().__init__("third_party_error")
        self.details: type_of_details = {"third_party": third_party, "thirdparty_error": message}
        self.note = note

    def __str__(self) -> str:
        return f"third_party_error: {self.details}"


class ClockRefused(BillingError):
    """The clock contradicts the newest instants in the file, so nothing is billed by it (503). `text` is for people."""

    status = 503

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code)
        self.text = text

    def __str__(self) -> str:
        return self.text


class Invalid(BillingError):
    """Values that break a rule (422). `details` maps each field to its codes, in the order they were found.

    A batch maps the position (as text) of each bad item to its own details; a failed expression is a plain text.
    """

    status = 422

    def __init__(self, details: type_of_details | None = None, /, **fields: str | Sequence[str]) -> None:
        super().__init__("validation_errors")
        if isinstance(details, str):
            self.details: type_of_details = details
            return
        merged: dict[str, object] = dict(details or {})
        for field, codes in fields.items():
            merged[field] = [codes] if isinstance(codes, str) else list(codes)
        self.details = merged

    def __str__(self) -> str:
        return f"validation_errors: {self.details}"
