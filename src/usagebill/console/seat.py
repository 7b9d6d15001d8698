"""The library's operations, as one signed-in user may call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

from usagebill.billing import Billing
from usagebill.core.activity_logs import ActivitySource, Actor
from usagebill.core.errors import BillingError, Forbidden
from usagebill.core.users import ROLES
from usagebill.operations.users import SignedIn, acting_as
from usagebill.process.json_text import JsonObject
from usagebill.queries.near_records import is_named, near_record
from usagebill.records import view_of
from usagebill.requests.refusals import word
from usagebill.resources import RESOURCES
from usagebill.resources.bindings import Operation
from usagebill.runtime.work import Reader

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of a list, its records as the API shows them."""

    items: Sequence[JsonObject]
    page: int
    per_page: int
    total: int
    total_is_exact: bool

    @property
    def pages(self) -> int:
        """The number of pages."""
        return -(-self.total // self.per_page)


@cache
def operation_named(name: str) -> Operation[Any]:
    """The operation of the library with this name: `invoices.get`. KeyError if there is none."""
    resource, _, operation = name.partition(".")
    found: Operation[Any] = vars(RESOURCES[resource])[operation]
    return found


def _mode(operation: Operation[Any]) -> str:
    return "write" if operation.changes else "read"


class Seat:
    """The operations of the library, by name, in a user's organization and with the permissions of the user's role.

    Results are what the API shows of them.
    """

    def __init__(self, billing: Billing, who: SignedIn, *, request_id: str | None, client: str | None) -> None:
        self.who = who
        self._billing = billing
        self._permissions = ROLES[who.user.role]
        actor = Actor(source=ActivitySource.FRONT, request_id=request_id, client=client)
        self.actor = acting_as(actor, who.user)

    def may(self, name: str) -> bool:
        """Whether the user's role permits the operation."""
        operation = operation_named(name)
        return self._permits(operation, _mode(operation))

    def require(self, name: str) -> None:
        """Raises `Forbidden` unless the user's role permits the operation."""
        if not self.may(name):
            operation = operation_named(name)
            raise Forbidden(f"{_mode(operation)}_action_not_allowed_for_{operation.permission}")

    def _permits(self, operation: Operation[Any], mode: str) -> bool:
        return operation.permission is not None and mode in self._permissions.get(operation.permission, ())

    def ask(self, name: str, /, *path: str, **fields: object) -> Any:
        """The result of an operation. Raises `Forbidden`, and as the operation does."""
        return self._run(name, path, fields, view_of)

    def listed(self, name: str, /, *path: str, **fields: object) -> Listed:
        """A page of a list. Raises as `ask` does."""

        def shown(reader: Reader, page: Any) -> Listed:
            if not hasattr(page, "items"):
                return Listed(view_of(reader, page), 1, max(1, len(page)), len(page), True)
            items = [view_of(reader, item) for item in page.items]
            return Listed(items, page.page, page.per_page, page.total_count, page.total_count_is_exact)

        return self._run(name, path, fields, shown)

    def file(self, name: str, *path: str) -> bytes:
        """A document. It is made if it does not exist yet, so whoever may read it may have it."""
        content: bytes = self._run(name, path, {}, lambda _, content: content, mode="read")
        return content

    def previewed(self, name: str, /, *path: str, **fields: object) -> Any:
        """What a preview answers. It stores nothing, so whoever may read may ask for it. Raises as `ask` does."""
        return self._run(name, path, fields, view_of, mode="read")

    def tried(
        self, name: str, /, *path: str, then: Sequence[tuple[str, str]], **fields: object
    ) -> tuple[Any, Sequence[JsonObject]]:
        """What a command would answer, and queries, each with the id that it asks for, after it: the command is run,
        and rolled back. Raises as `ask` does.
        """

        def shown(work: Reader, made: Any) -> tuple[Any, Sequence[JsonObject]]:
            answers = [view_of(work, operation_named(query).function(work, id)) for query, id in then]
            return view_of(work, made), answers

        both: tuple[Any, Sequence[JsonObject]] = self._run(
            name, path, fields, shown, around=lambda work, act: work.dry_run(act)
        )
        return both

    def _run(
        self,
        name: str,
        path: Sequence[str],
        fields: Mapping[str, object],
        shown: Callable[[Reader, Any], T],
        *,
        mode: str = "",
        around: Callable[[Any, Callable[[Any], T]], T] = lambda work, act: act(work),
    ) -> T:
        operation = operation_named(name)
        mode = mode or _mode(operation)
        if not self._permits(operation, mode):
            raise Forbidden(f"{mode}_action_not_allowed_for_{operation.permission}")
        organization = self.who.organization
        try:
            arguments = operation.arguments(path, fields)

            def act(work: Any) -> T:
                return around(work, lambda within: shown(within, operation.function(within, **arguments)))

            if operation.changes:
                return self._billing.writing(act, organization, actor=self.actor)
            return self._billing.reading(act, organization)
        except BillingError as problem:
            kind = operation.inputs.get("request") or operation.inputs.get("options")
            near = None
            if is_named(problem):
                near = self._billing.reading(partial(near_record, problem=problem), organization)
            word(problem, fields, kind, path=dict(zip(operation.path, path, strict=False)), near=near)
            raise
