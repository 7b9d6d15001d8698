"""Who asks is looked up at each try of a request: what was known of a key before decides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.asgi import send
from tests.provider import Provider
from tests.scenarios import Scenario

from usagebill.http.app import create_app


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def box(provider: Provider) -> Iterator[Scenario]:
    with Scenario(now="2024-03-01T12:00:00Z", tax_provider=provider) as box:
        box.billing.tax_connections.create(kind="anrok", code="main", name="Anrok", url="https://tax.example/anrok")
        link = {"integration_type": "anrok", "integration_code": "main", "sync_with_provider": True}
        box.customer(integration_customers=[link])
        box.plan(amount_cents=3100)
        box.subscribe()
        yield box


PREVIEW = {"customer": {"external_id": "acme"}, "subscriptions": {"external_ids": ["sub"]}}


class Client:
    """Requests with one key to one app, which remembers its callers."""

    def __init__(self, box: Scenario) -> None:
        self._app = create_app(box.billing)
        self.key = box.billing.api_keys.create(name="shop")
        self._headers = {"authorization": f"Bearer {self.key.value}"}

    def preview(self) -> tuple[int, Any]:
        answer = send(self._app, "POST", "/api/v1/invoices/preview", json=PREVIEW, headers=self._headers)
        return answer.status_code, answer.json()


@pytest.fixture
def client(box: Scenario) -> Client:
    client = Client(box)
    # From now on the caller is known, and the use of its key is noted.
    assert [client.preview()[0] for _ in range(2)] == [200, 200]
    return client


def test_a_key_that_changes_while_its_request_waits_is_looked_up_again(
    box: Scenario, provider: Provider, client: Client
) -> None:
    provider.meanwhile = lambda: box.billing.api_keys.update(client.key.svc_id, name="renamed")
    status, body = client.preview()
    assert (status, body["invoice"]["total_amount_cents"]) == (200, 3410)


def test_an_organization_that_changes_while_a_request_waits_is_looked_up_again(
    box: Scenario, provider: Provider, client: Client
) -> None:
    provider.meanwhile = lambda: box.put("/organizations", organization={"webhook_url": "https://new.example"})
    assert client.preview()[0] == 200


def test_a_key_that_is_revoked_while_its_request_waits_is_refused(
    box: Scenario, provider: Provider, client: Client
) -> None:
    provider.meanwhile = lambda: box.billing.api_keys.revoke(client.key.svc_id)
    assert client.preview()[0] == 401


def test_a_key_that_loses_its_permission_while_its_request_waits_is_refused(
    box: Scenario, provider: Provider, client: Client
) -> None:
    provider.meanwhile = lambda: box.billing.api_keys.update(client.key.svc_id, permissions={"invoice": ["read"]})
    status, body = client.preview()
    assert (status, body.get("code")) == (403, "write_action_not_allowed_for_invoice")
