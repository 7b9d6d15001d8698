"""An accounting system or CRM with answers chosen by the test."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from usagebill.core.sync_connections import Accepted, Push, SyncConnection
from usagebill.core.tax_providers import FailureKind, ProviderFailure


def refused(code: str = "account_closed", message: str = "the account is closed") -> ProviderFailure:
    return ProviderFailure(code=code, message=message)


def away() -> ProviderFailure:
    return ProviderFailure(code="network_error", message="no route", kind=FailureKind.UNREACHABLE)


class Books:
    """Keeps each document once by its key, as a bridge must. `failures` are its next answers, one after another.

    `meanwhile` is done once, between a push and its answer.
    """

    def __init__(self) -> None:
        self.pushed: list[tuple[str, str, dict[str, Any]]] = []
        self.kept: dict[tuple[str, int], dict[str, Any]] = {}
        self.failures: list[ProviderFailure] = []
        self.meanwhile: Callable[[], object] | None = None

    def push(self, connection: SyncConnection, push: Push) -> Accepted | ProviderFailure:
        body = json.loads(push.body)
        self.pushed.append((connection.code, push.subject.value, body))
        if self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            act()
        if self.failures:
            return self.failures.pop(0)
        self.kept[push.document_id, push.version] = body
        return Accepted(external_id=f"{connection.code}-{push.subject.value}-{body['svc_document_id'][-4:]}")

    def subjects(self, code: str = "books") -> list[str]:
        """The subjects pushed to a connection, in order."""
        return [subject for connection, subject, _ in self.pushed if connection == code]

    def bodies(self, subject: str, code: str = "books") -> list[dict[str, Any]]:
        return [
            body for connection, pushed_subject, body in self.pushed if (connection, pushed_subject) == (code, subject)
        ]
