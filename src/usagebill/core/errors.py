"""The family of errors: why a request is refused, in codes that programs can read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Literal

type_of_details = Mapping[str, object] | str
# The most fields or items that the text of an error names.
_MOST_SHOWN = 10


class BillingError(Exception):
    """Any refusal. `status` is its HTTP status, `code` the machine-readable reason.

    `place` is the part of the request that caused it, such as `charges[2]`; empty for the request itself. `message` is
    for people: what is wrong where, and what to do about it. It is empty until code that knows the request has written
    it (`usagebill.requests.refusals`).
    """

    status = 500

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code
        self.place = ""
        self.message = ""

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else self.code


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Refusals raised inside concern this part of the request: `charges[2]`, or `[2]` within an outer place."""
    try:
        yield
    except BillingError as problem:
        problem.place = joined_place(place, problem.place)
        raise


def joined_place(outer: str, inner: str) -> str:
    """`charges` and `[2].properties` as one place."""
    return f"{outer}.{inner}" if outer and inner and not inner.startswith("[") else outer + inner


class BadRequest(BillingError):
    """The request cannot be read (400). `code` is the whole text of the error; `reason` explains it to people."""

    status = 400

    def __init__(self, code: str, reason: str | None = None) -> None:
        super().__init__(code)
        self.reason = reason


class BodyTooLong(BadRequest):
    """The body is longer than any request may be (413)."""

    status = 413

    def __init__(self, reason: str) -> None:
        super().__init__("Content Too Large", reason)


class Unauthorized(BillingError):
    """No key, or an invalid one (401)."""

    status = 401

    def __init__(self) -> None:
        super().__init__("unauthorized")


class PaymentRequired(BillingError):
    """The usage is more than a limit, a quota or prepaid credits leave (402). `details` say which, and what is left."""

    status = 402

    def __init__(self, code: str, details: Mapping[str, object]) -> None:
        super().__init__(code)
        self.details = details

    def __str__(self) -> str:
        return f"{self.code}: {self.message or self.details}"


class Forbidden(BillingError):
    """The key, the organization or the product does not permit it (403)."""

    status = 403


class NotFound(BillingError):
    """A record that does not exist, or belongs to another organization (404).

    `resource` is its singular name, `sought` the id or code that was looked up, if one was sent.
    """

    status = 404

    def __init__(self, resource: str, sought: object = None) -> None:
        super().__init__(f"{resource}_not_found")
        self.resource = resource
        self.sought = sought if isinstance(sought, str) and sought else None


class NotAllowed(BillingError):
    """The record is in a state that refuses the action (405). `state` is its current state."""

    status = 405

    def __init__(self, code: str, state: str | None = None) -> None:
        super().__init__(code)
        self.state = state


class TooManyRequests(BillingError):
    """The `caller` (`key` or `organization`) has reached its limit of requests for now (429)."""

    status = 429

    def __init__(self, caller: Literal["key", "organization"] = "key") -> None:
        super().__init__("too_many_requests")
        self.caller = caller


class DeadlinePassed(BillingError):
    """The answer took longer to compute than a request may (503). Nothing was changed."""

    status = 503

    def __init__(self) -> None:
        super().__init__("deadline_passed")


class DatabaseFailed(BillingError):
    """The database failed, not the request, which can be sent again. `reason` is the database's own, for logs.

    `retry_after` is the number of seconds after which it is worth trying.
    """

    status = 503
    retry_after = 5

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(code)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.code}: {self.message or self.reason}"


class DatabaseUnavailable(DatabaseFailed):
    """The database does not answer, or takes no more connections (503). Nothing was changed."""

    def __init__(self, reason: str) -> None:
        super().__init__("database_unavailable", reason)


class OutcomeUnknown(DatabaseFailed):
    """The connection to the database broke while a change was committed, so it was made, or not (503)."""

    def __init__(self, reason: str) -> None:
        super().__init__("outcome_unknown", reason)


class StorageFull(DatabaseFailed):
    """The database has no room left on its disk (507). Nothing was changed."""

    status = 507
    retry_after = 60

    def __init__(self, reason: str) -> None:
        super().__init__("storage_full", reason)


class SchemaIsNewer(DatabaseFailed):
    """A newer usagebill has brought the database to a schema that this process does not know (503). Nothing was
    changed: it goes on once it is restarted as that version.
    """

    retry_after = 30

    def __init__(self, found: int, known: int) -> None:
        super().__init__("schema_is_newer", f"the database has schema {found}, this process knows {known}")


class DatabaseMoved(DatabaseFailed):
    """The file was moved into another database while this process had it open (503). Nothing was changed: it goes on
    once it is restarted on that one.
    """

    retry_after = 30

    def __init__(self, target: str) -> None:
        super().__init__("database_moved", f"it was moved to {target}")


class TooManyProviderRequests(BillingError):
    """An outside provider limits our requests (429); `provider` is its name."""

    status = 429

    def __init__(self, provider: str) -> None:
        super().__init__("too_many_provider_requests")
        self.provider = provider


class ThirdPartyError(BillingError):
    """A third party refused what the caller wants (422): its name, and its own words.

    `note` is a follow-up to be done in a change of its own, since the caller's is rolled back.
    """

    status = 422

    def __init__(self, third_party: str, message: str, note: Callable[[Any], object] | None = None) -> None:
        super().__init__("third_party_error")
        self.details: type_of_details = {"third_party": third_party, "thirdparty_error": message}
        self.note = note

    def __str__(self) -> str:
        return f"third_party_error: {self.message or self.details}"


class ClockRefused(BillingError):
    """The clock contradicts the newest instants in the file, so nothing is billed by it (503). `text` is for people."""

    status = 503

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code)
        self.text = text

    def __str__(self) -> str:
        return self.text


class Invalid(BillingError):
    """Values that break a rule (422). `details` maps each field to its codes, in the order of the checks.

    A batch maps the position (as text) of each bad item to its own details. A failed expression is about no field: its
    one code, under `base`, is the whole text of the failure, which over HTTP stands alone (`answered`).
    `reasons` explain some fields in words if the code does not suffice. `messages` are the texts for people, by field
    and in the same order as in `details`; empty until they are written.
    """

    status = 422

    def __init__(
        self,
        details: type_of_details | None = None,
        /,
        *,
        reasons: Mapping[str, str] | None = None,
        **fields: str | Sequence[str],
    ) -> None:
        super().__init__("validation_errors")
        self.reasons = reasons or {}
        self.messages: Mapping[str, Sequence[str]] = {}
        self.answered: type_of_details
        if isinstance(details, str):
            self.details: Mapping[str, object] = {"base": [details]}
            self.answered = details
            return
        merged: dict[str, object] = dict(details or {})
        for field, codes in fields.items():
            merged[field] = [codes] if isinstance(codes, str) else list(codes)
        self.details = self.answered = merged

    def __str__(self) -> str:
        details = self.details
        if len(details) > _MOST_SHOWN:
            details = {**dict(islice(details.items(), _MOST_SHOWN)), "...": [f"and {len(details) - _MOST_SHOWN} more"]}
        return f"validation_errors: {details}" + (f"\n{self.message}" if self.message else "")
