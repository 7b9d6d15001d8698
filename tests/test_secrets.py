"""Keys and customers' data are in no log, no `repr` and no traceback, however these are printed."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from rich.pretty import pretty_repr
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.asgi import send
from usagebill import Billing
from usagebill.core.api_keys import ApiKey
from usagebill.core.organizations import Organization
from usagebill.core.sync_connections import SyncConnection
from usagebill.core.tax_providers import TaxConnection
from usagebill.core.webhooks import SigningKey
from usagebill.http.app import create_app
from usagebill.operations import api_keys
from usagebill.operations.webhooks import signing_key
from usagebill.process.settings import Settings
from usagebill.storage.ports import Transaction

PACKAGE = str(Path(__file__).parents[1] / "src" / "usagebill")
CUSTOMER = {"customer": {"external_id": "acme", "name": "Hidden Holdings", "email": "boss@hidden.example"}}
PROVIDER_KEY = "provider-key-4711"


@pytest.fixture
def billing(tmp_path: Path) -> Iterator[Billing]:
    with Billing(tmp_path / "billing.db", deliver=False) as billing:
        yield billing


@pytest.fixture
def key(billing: Billing) -> str:
    return billing.writing(lambda work: api_keys.create(work))[1]


@pytest.fixture
def as_structlog_comes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """structlog with its defaults: on the console, tracebacks with the values of variables."""
    before = structlog.get_config()
    structlog.reset_defaults()
    yield
    structlog.configure(**before)


def broken(*_: object, **__: object) -> Any:
    raise RuntimeError("the disk is on fire")


def shown(problem: BaseException) -> str:
    """All that a traceback with the values of variables can print of our frames, texts in full."""
    pages = []
    cause: BaseException | None = problem
    while cause is not None:
        for frame, _ in traceback.walk_tb(cause.__traceback__):
            if frame.f_code.co_filename.startswith(PACKAGE):
                pages.append(pretty_repr(frame.f_locals))
                pages.append(repr(frame.f_locals))
        cause = cause.__cause__ or cause.__context__
    return "\n".join(pages)


@pytest.mark.usefixtures("as_structlog_comes")
@pytest.mark.parametrize("breaks", ["read", "write"])
def test_an_embedded_app_that_breaks_logs_neither_keys_nor_customers(
    billing: Billing, key: str, breaks: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host = Starlette(routes=[Mount("/billing", create_app(billing, log_requests=True))])
    monkeypatch.setattr(billing.store, breaks, broken)
    answer = send(
        host,
        "POST",
        "/billing/api/v1/customers?search_term=hidden@query.example",
        json=CUSTOMER,
        headers={"Authorization": f"Bearer {key}"},
    )
    assert answer.status_code == 500
    written = "".join(capsys.readouterr())
    assert "request_failed" in written
    assert "RuntimeError: the disk is on fire" in written
    assert "api.py" in written
    for secret in (key, billing.organization.hmac_key, "hidden", "Hidden"):
        assert secret not in written


@pytest.mark.usefixtures("as_structlog_comes")
def test_a_broken_description_of_the_api_tells_no_key_either(
    billing: Billing, key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("usagebill.http.app.document", broken)
    assert send(create_app(billing), "GET", "/openapi.json", headers={"Authorization": f"Bearer {key}"}).is_error
    written = "".join(capsys.readouterr())
    assert "the disk is on fire" in written
    assert key not in written


@pytest.mark.parametrize("breaks", ["read", "write"])
def test_no_frame_of_a_request_that_broke_holds_the_key(
    billing: Billing, key: str, breaks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems: list[BaseException] = []

    def note(problem: BaseException) -> str:
        problems.append(problem)
        return ""

    monkeypatch.setattr("usagebill.http.api.plain_traceback", note)
    monkeypatch.setattr(billing.store, breaks, broken)
    send(create_app(billing), "POST", "/api/v1/customers", json=CUSTOMER, headers={"Authorization": f"Bearer {key}"})
    problem = problems[0]
    text = shown(problem)
    assert "_authenticated" in "".join(traceback.format_exception(problem)) or breaks == "write"
    assert "/api/v1/customers" in text
    assert key not in text
    assert billing.organization.hmac_key not in text


def _connection(billing: Billing) -> object:
    return billing.tax_connections.create(kind="anrok", code="a", url="https://tax.example", api_key=PROVIDER_KEY)


def _books(billing: Billing) -> object:
    return billing.sync_connections.create(kind="xero", code="b", url="https://books.example", api_key=PROVIDER_KEY)


def _payments(billing: Billing) -> object:
    return billing.payment_connections.create(kind="stripe", code="p", secret_key=PROVIDER_KEY)


@pytest.mark.parametrize(
    ("act", "method"),
    [
        (_payments, "insert"),
        (_connection, "insert"),
        (_books, "insert"),
        (lambda billing: billing.tax_connections.update("known", api_key=PROVIDER_KEY), "replace"),
        (lambda billing: billing.writing(lambda work: api_keys.create(work)), "insert"),
        (lambda billing: billing.writing(lambda work: api_keys.rotate(work, api_keys.list_live(work)[0].id)), "insert"),
    ],
    ids=["payment connection", "connection", "sync connection", "changed connection", "key", "rotated key"],
)
def test_no_frame_holds_a_key_that_could_not_be_stored(
    billing: Billing, key: str, act: Callable[[Billing], object], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    billing.tax_connections.create(kind="anrok", code="known", url="https://tax.example", api_key="earlier-key-0815")
    made: list[str] = []

    def made_up(_: int) -> str:
        made.append(f"made-up-key-{len(made)}")
        return made[-1]

    monkeypatch.setattr(api_keys, "token_hex", made_up)
    monkeypatch.setattr(f"usagebill.storage.sqlite.transaction.SqliteTransaction.{method}", broken)
    with pytest.raises(RuntimeError) as caught:
        act(billing)
    text = shown(caught.value)
    assert "organization" in text
    for secret in (PROVIDER_KEY, "earlier-key-0815", billing.organization.hmac_key, *made):
        assert secret not in text


@pytest.mark.parametrize(
    "url", ["ftp://user:s3cret@mail.example", "smtp://user:s3cret@mail.example/x", "smtp://user:s3cret@mail:port"]
)
def test_no_frame_holds_the_password_of_a_mail_server_that_cannot_be(url: str) -> None:
    with pytest.raises(ValueError, match="mail server") as caught:
        Settings(smtp_url=url)
    assert "s3cret" not in shown(caught.value)


def test_no_record_shows_its_secret(billing: Billing, key: str) -> None:
    _connection(billing)
    _books(billing)
    billing.writing(signing_key)

    def secrets_of(tx: Transaction) -> list[tuple[object, str | None]]:
        pairs: list[tuple[object, str | None]] = []
        for kind, name in (
            (Organization, "hmac_key"),
            (Organization, "root_key"),
            (ApiKey, "value_hash"),
            (TaxConnection, "api_key"),
            (SyncConnection, "api_key"),
            (SigningKey, "private_key"),
        ):
            pairs += [(record, getattr(record, name)) for record in tx.find(kind)]
        return pairs

    pairs = billing.store.read(None, secrets_of)
    assert {type(record) for record, _ in pairs} == {Organization, ApiKey, TaxConnection, SyncConnection, SigningKey}
    for record, secret in pairs:
        assert secret
        assert secret not in repr(record)
        assert secret not in pretty_repr(record)
