"""Connections to tax providers, and the customers that are linked to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.provider import Provider
from tests.scenarios import Scenario

from usagebill.core.errors import Invalid, NotFound


@pytest.fixture
def box() -> Iterator[Scenario]:
    with Scenario(now="2024-03-01T12:00:00Z", tax_provider=Provider()) as box:
        box.billing.tax_connections.create(kind="anrok", code="main", name="Anrok", url="https://tax.example/anrok")
        yield box


def link(code: str = "main", kind: str = "anrok", **fields: object) -> dict[str, object]:
    return {"integration_type": kind, "integration_code": code, "sync_with_provider": True, **fields}


def upsert(box: Scenario, **fields: Any) -> Any:
    return box.customer(**fields)


def linked(box: Scenario, *links: dict[str, object], **fields: object) -> list[tuple[str, str, str]]:
    shown = upsert(box, integration_customers=list(links), **fields)["integration_customers"]
    return [(link["type"], link["integration_code"], link["external_customer_id"]) for link in shown]


def test_a_link_is_shown_with_the_customer(box: Scenario) -> None:
    (shown,) = upsert(box, integration_customers=[link()])["integration_customers"]
    assert shown.pop("svc_id")
    assert shown == {
        "type": "anrok",
        "integration_code": "main",
        "code": "main",
        "external_customer_id": "acme",
        "sync_with_provider": True,
        "category": "tax",
        "is_default": True,
    }


def test_what_names_no_connection_is_skipped(box: Scenario) -> None:
    assert linked(box, link("other"), link("main", "avalara"), {"integration_type": "xero"}) == []


def test_a_link_needs_the_providers_name_of_the_customer_unless_we_are_to_make_one(box: Scenario) -> None:
    assert linked(box, link(sync_with_provider=False)) == []
    assert linked(box, link(sync_with_provider=False, external_customer_id="cus_1")) == [("anrok", "main", "cus_1")]


def test_partners_are_linked_to_nobody(box: Scenario) -> None:
    assert linked(box, link(), account_type="partner") == []


def test_one_link_of_each_kind(box: Scenario) -> None:
    body = {"customer": {"external_id": "acme", "integration_customers": [link(), link("second")]}}
    refused = box.ask("POST", "/customers", body, status=422)
    assert refused["error_details"] == {"integration_customers": ["invalid_count_per_integration_type"]}
    box.get("/customers/acme", status=404)


def test_links_stay_until_a_request_leaves_them_out(box: Scenario) -> None:
    (shown,) = upsert(box, integration_customers=[link()])["integration_customers"]
    assert upsert(box, name="Acme")["integration_customers"] == [shown]
    assert upsert(box, integration_customers=[{"id": shown["svc_id"]}])["integration_customers"] == [shown]
    assert upsert(box, integration_customers=[])["integration_customers"] == []


def test_a_link_sent_without_its_id_is_created_again(box: Scenario) -> None:
    (first,) = upsert(box, integration_customers=[link()])["integration_customers"]
    (second,) = upsert(box, integration_customers=[link()])["integration_customers"]
    assert first["svc_id"] != second["svc_id"]


def test_what_a_provider_calls_the_customer_is_changed_for_avalara_alone(box: Scenario) -> None:
    box.billing.tax_connections.create(kind="avalara", code="main", name="Avalara", url="https://tax.example/ava")
    first, second = upsert(box, integration_customers=[link(), link(kind="avalara")])["integration_customers"]
    assert (first["is_default"], second["is_default"]) == (True, False)
    changed = [
        link(kind=kind, id=connection["svc_id"], external_customer_id="new")
        for kind, connection in (("anrok", first), ("avalara", second))
    ]
    assert linked(box, *changed) == [("anrok", "main", "acme"), ("avalara", "main", "new")]


def test_an_end_of_a_connection_undoes_its_links(box: Scenario) -> None:
    upsert(box, integration_customers=[link()])
    box.billing.tax_connections.delete("main")
    assert box.get("/customers/acme")["customer"]["integration_customers"] == []
    with pytest.raises(NotFound, match="tax_connection_not_found"):
        box.billing.tax_connections.get("main")
    # Its code is free again.
    box.billing.tax_connections.create(kind="anrok", code="main", name="Anrok", url="https://tax.example")


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        ({"kind": "xero"}, {"kind": ["value_is_invalid"]}),
        ({"code": ""}, {"code": ["value_is_mandatory"]}),
        ({"name": ""}, {"name": ["value_is_mandatory"]}),
        ({"url": "ftp://tax.example"}, {"url": ["url_is_invalid"]}),
        ({"url": None}, {"url": ["url_is_invalid"]}),
        ({"url": "https://user:secret@tax.example"}, {"url": ["url_is_invalid"]}),
        ({"api_key": "secret\n"}, {"api_key": ["value_is_invalid"]}),
        ({"api_key": "schlüssel"}, {"api_key": ["value_is_invalid"]}),
        ({"api_key": ""}, {"api_key": ["value_is_invalid"]}),
        ({"code": "main"}, {"code": ["value_already_exist"]}),
    ],
)
def test_connections_that_are_refused(box: Scenario, fields: dict[str, Any], problems: dict[str, Any]) -> None:
    settings = {"kind": "anrok", "code": "second", "name": "Second", "url": "https://tax.example", **fields}
    with pytest.raises(Invalid) as refused:
        box.billing.tax_connections.create(**settings)
    assert refused.value.details == problems
    assert [connection.code for connection in box.billing.tax_connections.list()] == ["main"]


def test_a_connection_is_changed_but_for_its_kind_and_code(box: Scenario) -> None:
    changed = box.billing.tax_connections.update("main", api_key="secret", item_codes={"calls": "SW1"})
    assert (changed.kind, changed.code, changed.name, changed.api_key) == ("anrok", "main", "Anrok", "secret")
    kept = box.billing.tax_connections.update("main", kind="avalara", code="other", name="Ours")
    assert (kept.kind, kept.code, kept.name, kept.item_codes) == ("anrok", "main", "Ours", {"calls": "SW1"})
    with pytest.raises(Invalid, match="validation_errors"):
        box.billing.tax_connections.update("main", url="nowhere")


def test_a_connection_is_shown_without_its_key(box: Scenario) -> None:
    connection = box.billing.tax_connections.update("main", api_key="secret")
    shown = box.billing.view(connection)
    assert shown["has_api_key"] is True
    assert "secret" not in str(shown)


def test_the_key_of_a_connection_is_shown_nowhere(box: Scenario) -> None:
    made = box.billing.tax_connections.update("main", api_key="secret-key")
    assert made.api_key == "secret-key"
    assert "secret-key" not in repr(made)
    assert "secret-key" not in str(box.billing.view(made))
