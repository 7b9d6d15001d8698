"""Accounting systems and CRMs over the network: where documents are posted, how, and the job that posts them."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.core.sync_connections import Accepted, Push, PushDocument, SyncConnection, SyncSubject
from usagebill.core.tax_providers import FailureKind, ProviderFailure
from usagebill.core.webhooks import SignatureAlgorithm, header_prefix
from usagebill.operations import synced_documents
from usagebill.outside.bounded_http import Asking
from usagebill.outside.job_host import (
    Bridge as Bridge,
    JobHost,
)
from usagebill.process.json_text import Json, parse_json

_LARGEST_ANSWER = 1024 * 1024
# The path that a document is posted to, below the connection's address.
_PATHS: Mapping[SyncSubject, str] = {
    SyncSubject.CUSTOMER: "customers",
    SyncSubject.INVOICE: "invoices",
    SyncSubject.CREDIT_NOTE: "credit_notes",
    SyncSubject.PAYMENT: "payments",
}
_UNREADABLE = "invalid_response"
# The length to which a system's ids, codes and messages are cut.
_LONGEST_TEXT = 255
_LONGEST_MESSAGE = 1000


class HttpBridge:
    """A system, or a bridge to one, that accepts each document as JSON at the connection's address.

    `docs/connections.md` describes the requests and the expected answers. `timeout` is in seconds for a whole request;
    `id_prefix` begins the names of the signature headers.
    """

    def __init__(self, timeout: float, id_prefix: str) -> None:
        self._asking = Asking(timeout, _LARGEST_ANSWER)
        self._prefix = header_prefix(id_prefix)

    def close(self) -> None:
        self._asking.close()

    def push(self, connection: SyncConnection, push: Push) -> Accepted | ProviderFailure:
        """See `Bridge`. Raises nothing: any error on the way is a failure."""
        headers = {
            "content-type": "application/json",
            "idempotency-key": f"{push.document_id}:{push.version}",
            f"{self._prefix}Signature": push.signature,
            f"{self._prefix}Signature-Algorithm": SignatureAlgorithm.HMAC.value,
        }
        if connection.api_key:
            headers["authorization"] = f"Bearer {connection.api_key}"
        try:
            base = urlsplit(connection.url)
            url = base._replace(path=f"{base.path.rstrip('/')}/{_PATHS[push.subject]}").geturl()
            status, body = self._asking.post(url, headers, push.body)
        except Exception as problem:
            return _unreachable(problem)
        return _answer(status, body)


def _unreachable(problem: Exception) -> ProviderFailure:
    return _failed("network_error", f"{type(problem).__name__}: {problem}", FailureKind.UNREACHABLE)


def _failed(code: str, message: str, kind: FailureKind) -> ProviderFailure:
    return ProviderFailure(code=code[:_LONGEST_TEXT], message=message[:_LONGEST_MESSAGE], kind=kind)


def _answer(status: int, body: bytes) -> Accepted | ProviderFailure:
    try:
        said: Json = parse_json(body) if body else None
    except ValueError:
        said = None
    if not 200 <= status < 300:
        return _refusal(status, said)
    id = said.get("id") if isinstance(said, dict) else None
    if isinstance(id, int) and not isinstance(id, bool):
        id = str(id)
    if not isinstance(id, str) or not 0 < len(id) <= _LONGEST_TEXT:
        # Perhaps a login page answered; a retry may reach the system itself.
        text = f'the answer to a document is {{"id": "..."}}, what it is called there; this one is {body[:100]!r}'
        return _failed(_UNREADABLE, text, FailureKind.UNREACHABLE)
    return Accepted(external_id=id)


def _refusal(status: int, said: Json) -> ProviderFailure:
    error = said.get("error") if isinstance(said, dict) else None
    details = error if isinstance(error, dict) else {}
    # The status alone tells that the key is wrong.
    code = None if status in (401, 403) else details.get("code")
    message = details.get("message")
    if status == 429:
        kind = FailureKind.THROTTLED
    elif status >= 500 or status == 408:
        kind = FailureKind.UNREACHABLE
    else:
        kind = FailureKind.REFUSED
    return _failed(
        code if isinstance(code, str) and code else f"status_{status}",
        message if isinstance(message, str) and message else f"the bridge answered {status}",
        kind,
    )


def push_document(host: JobHost, organization: Organization, job: Job, task: PushDocument) -> None:
    """Post a document to its accounting system or CRM, once, and act on the answer."""
    prepared = host.writing(lambda work: synced_documents.prepare(work, job, task), organization)
    if prepared is None:
        return
    answer = _pushed(host.bridge, prepared)
    host.writing(lambda work: synced_documents.conclude(work, job, prepared, answer), organization)


def _pushed(bridge: Bridge | None, prepared: synced_documents.Prepared) -> Accepted | ProviderFailure:
    if bridge is None:
        return _failed("no_bridge", "documents are not posted from here", FailureKind.UNREACHABLE)
    try:
        return bridge.push(prepared.connection, prepared.push)
    except Exception as problem:
        # A bridge that raises counts as one that does not answer.
        return _unreachable(problem)
