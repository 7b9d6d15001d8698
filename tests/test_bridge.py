"""Documents posted over HTTP to accounting systems and CRMs: the requests, and the interpretation of answers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.receiver import Receiver
from usagebill import Billing
from usagebill.core.derived_keys import Purpose, derived_key
from usagebill.core.sync_connections import Accepted, Push, SyncConnection, SyncSubject
from usagebill.core.tax_providers import FailureKind, ProviderFailure
from usagebill.core.webhooks import sign_hmac
from usagebill.fields import IntegrationCustomerFields
from usagebill.outside.bridge import HttpBridge
from usagebill.process.settings import Settings
from usagebill.runtime.clock import ManualClock

NOW = datetime(2024, 3, 5, 12, tzinfo=UTC)
PUSH = Push(document_id="d1", version=2, subject=SyncSubject.INVOICE, body=b'{"version":2}', signature="c2ln")


def answer(status: int = 200, content: bytes = b'{"id": "ns-7"}', timeout: float = 5) -> Accepted | ProviderFailure:
    with Receiver(status, answer=content) as receiver:
        bridge = HttpBridge(timeout, "svc_")
        connection = SyncConnection(
            id="c1",
            organization_id="o1",
            kind="netsuite",
            code="books",
            name="Books",
            url=receiver.url,
            created_at=NOW,
            updated_at=NOW,
        )
        try:
            return bridge.push(connection, PUSH)
        finally:
            bridge.close()


@pytest.mark.parametrize("status", [200, 201])
@pytest.mark.parametrize(("content", "id"), [(b'{"id": "ns-7"}', "ns-7"), (b'{"id": 7, "more": 1}', "7")])
def test_an_answer_says_what_the_document_is_called_there(status: int, content: bytes, id: str) -> None:
    assert answer(status, content) == Accepted(external_id=id)


@pytest.mark.parametrize(
    "content", [b"", b"<html>log in</html>", b"[]", b"{}", b'{"id": null}', b'{"id": ""}', b'{"id": true}', b'{"id"']
)
def test_an_answer_without_an_id_is_none(content: bytes) -> None:
    failure = answer(200, content)
    assert isinstance(failure, ProviderFailure)
    assert (failure.code, failure.kind) == ("invalid_response", FailureKind.UNREACHABLE)


@pytest.mark.parametrize(
    ("status", "content", "code", "kind"),
    [
        (400, b"", "status_400", FailureKind.REFUSED),
        (422, b'{"error": {"code": "closed", "message": "the period is closed"}}', "closed", FailureKind.REFUSED),
        (422, b'{"error": "closed"}', "status_422", FailureKind.REFUSED),
        (401, b'{"error": {"code": "nobody"}}', "status_401", FailureKind.REFUSED),
        (302, b"", "status_302", FailureKind.REFUSED),
        (408, b"", "status_408", FailureKind.UNREACHABLE),
        (429, b"", "status_429", FailureKind.THROTTLED),
        (500, b"<html>", "status_500", FailureKind.UNREACHABLE),
        (503, b'{"error": {"code": "deploying"}}', "deploying", FailureKind.UNREACHABLE),
    ],
)
def test_refusals_and_outages_are_distinguished(status: int, content: bytes, code: str, kind: FailureKind) -> None:
    failure = answer(status, content)
    assert isinstance(failure, ProviderFailure)
    assert (failure.code, failure.kind) == (code, kind)


def test_no_answer_in_time_is_an_outage() -> None:
    failure = answer(0, timeout=0.2)
    assert isinstance(failure, ProviderFailure)
    assert (failure.code, failure.kind) == ("network_error", FailureKind.UNREACHABLE)


def started(billing: Billing, url: str) -> None:
    """A customer linked to these books, who was invoiced."""
    billing.sync_connections.create(kind="xero", code="books", url=url, api_key="bridge-key")
    link: IntegrationCustomerFields = {
        "integration_type": "xero",
        "integration_code": "books",
        "sync_with_provider": True,
    }
    billing.customers.upsert(external_id="acme", currency="EUR", integration_customers=[link])
    billing.add_ons.create(name="Setup", code="setup", amount_cents=500, amount_currency="EUR")
    billing.invoices.create_one_off(external_customer_id="acme", fees=[{"add_on_code": "setup"}])


def statuses(billing: Billing) -> dict[str, str]:
    return {document.subject.value: document.status.value for document in billing.synced_documents.list().items}


def test_documents_are_posted_signed_outside_of_any_transaction() -> None:
    clock = ManualClock(NOW)
    settings = Settings(id_prefix="lago_")
    with (
        Receiver(503, 200, answer=b'{"id": "x-1"}') as receiver,
        Billing(clock=clock, settings=settings) as billing,
    ):
        started(billing, receiver.url)
        assert (receiver.received, statuses(billing)) == ([], {"customer": "pending", "invoice": "pending"})
        billing.run_due()
        assert statuses(billing) == {"customer": "retrying", "invoice": "pending"}
        clock.set(NOW + timedelta(seconds=15))
        billing.run_due()
        assert statuses(billing) == {"customer": "synced", "invoice": "synced"}
        first, second, third = receiver.received
        assert [request.path for request in receiver.received] == [
            "/hook/customers?from=billing",
            "/hook/customers?from=billing",
            "/hook/invoices?from=billing",
        ]
        assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
        assert third.headers["idempotency-key"] != second.headers["idempotency-key"]
        for request in receiver.received:
            key = derived_key(billing.organization.root_key, Purpose.BRIDGE_CALL).encode()
            signature = base64.b64encode(hmac.new(key, request.body, hashlib.sha256).digest()).decode()
            assert request.headers["x-lago-signature"] == signature
            # Receivers of webhooks know another key.
            assert signature != sign_hmac(billing.organization.hmac_key, request.body)
            assert request.headers["x-lago-signature-algorithm"] == "hmac"
            assert request.headers["authorization"] == "Bearer bridge-key"
        body = json.loads(third.body)
        assert (body["object_type"], body["external_customer_id"]) == ("invoice", "x-1")
        assert body["invoice"]["fees"][0]["lago_invoice_id"] == body["invoice"]["lago_id"]
        assert request.headers["idempotency-key"] == f"{body['lago_document_id']}:{body['version']}"


def test_a_push_that_was_cut_short_is_made_again_with_the_same_key(tmp_path: Path) -> None:
    path = tmp_path / "billing.db"
    clock = ManualClock(NOW)

    class Killed(BaseException):
        """The process ends here."""

    class Dying(HttpBridge):
        def push(self, connection: SyncConnection, push: Push) -> Any:
            super().push(connection, push)
            raise Killed

    with Receiver(200, answer=b'{"id": "x-1"}') as receiver:
        with Billing(path, clock=clock, bridge=Dying(5, "svc_")) as billing:
            started(billing, receiver.url)
            with pytest.raises(Killed):
                billing.run_due()
            assert len(receiver.received) == 1
        with Billing(path, clock=clock) as billing:
            billing.run_due()
            assert len(receiver.received) == 1  # another worker may still be waiting for the answer
            clock.set(NOW + timedelta(minutes=5))
            billing.run_due()
            assert statuses(billing) == {"customer": "synced", "invoice": "synced"}
        keys = [request.headers["idempotency-key"] for request in receiver.received]
        assert (len(keys), keys[0] == keys[1], len(set(keys))) == (3, True, 2)


def test_nothing_is_lost_where_nobody_posts(tmp_path: Path) -> None:
    path = tmp_path / "billing.db"
    clock = ManualClock(NOW)
    with Receiver(200, answer=b'{"id": "x-1"}') as receiver:
        with Billing(path, clock=clock, deliver=False) as billing:
            started(billing, receiver.url)
            billing.run_due()
            assert statuses(billing) == {"customer": "retrying", "invoice": "pending"}
        clock.set(NOW + timedelta(minutes=1))
        with Billing(path, clock=clock) as billing:
            billing.run_due()
            assert statuses(billing) == {"customer": "synced", "invoice": "synced"}
