"""VAT numbers checked with a registry over HTTP: the requests, and the interpretation of answers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.receiver import Receiver
from usagebill import Billing
from usagebill.core.vat import NotRegistered, Registered, RegistryError, Unavailable, VatNumber
from usagebill.outside.vat_registry import HttpVatRegistry
from usagebill.process.settings import Settings
from usagebill.runtime.clock import ManualClock
from usagebill.worker import Worker

NUMBER = VatNumber(prefix="IT", digits="12345678901")
NOW = datetime(2024, 3, 5, 12, tzinfo=UTC)
VALID = {
    "countryCode": "IT",
    "vatNumber": "12345678901",
    "requestDate": "2024-03-05T12:00:00.000Z",
    "valid": True,
    "requestIdentifier": "",
    "name": "ACME SPA",
    "address": "---",
}


def text(answer: object) -> bytes:
    return json.dumps(answer).encode()


def understood_answer(answer: bytes, status: int = 200) -> Registered | NotRegistered | Unavailable:
    """The adapter's interpretation of a registry's answer."""
    with Receiver(status, answer=answer) as receiver:
        registry = HttpVatRegistry(receiver.url, timeout=5)
        try:
            return registry.check(NUMBER)
        finally:
            registry.close()


def failure(answer: bytes, status: int = 200) -> RegistryError:
    answer_of_registry = understood_answer(answer, status)
    assert isinstance(answer_of_registry, Unavailable)
    assert answer_of_registry.message
    return answer_of_registry.kind


def test_country_and_number_are_asked_for_apart() -> None:
    with Receiver(200, answer=text(VALID)) as receiver:
        registry = HttpVatRegistry(receiver.url, timeout=5)
        registry.check(VatNumber(prefix="EL", digits="123456789"))
        registry.close()
        (request,) = receiver.received
    assert json.loads(request.body) == {"countryCode": "EL", "vatNumber": "123456789"}
    assert request.headers["content-type"] == "application/json"


def test_a_registered_number() -> None:
    assert understood_answer(text(VALID)) == Registered(
        country_code="IT",
        vat_number="12345678901",
        details={"name": "ACME SPA", "request_date": "2024-03-05T12:00:00.000Z"},
    )


def test_a_number_that_is_not_registered() -> None:
    assert understood_answer(text({**VALID, "valid": False})) == NotRegistered()
    assert (
        understood_answer(text({"actionSucceed": False, "errorWrappers": [{"error": "INVALID_INPUT"}]}), 400)
        == NotRegistered()
    )


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("MS_MAX_CONCURRENT_REQ", RegistryError.RATE_LIMIT),
        ("MS_MAX_CONCURRENT_REQ_TIME", RegistryError.RATE_LIMIT),
        ("GLOBAL_MAX_CONCURRENT_REQ", RegistryError.RATE_LIMIT),
        ("GLOBAL_MAX_CONCURRENT_REQ_TIME", RegistryError.RATE_LIMIT),
        ("TIMEOUT", RegistryError.TIMEOUT),
        ("VAT_BLOCKED", RegistryError.BLOCKED),
        ("IP_BLOCKED", RegistryError.BLOCKED),
        ("INVALID_REQUESTER_INFO", RegistryError.INVALID_REQUESTER),
        ("SERVICE_UNAVAILABLE", RegistryError.SERVICE_UNAVAILABLE),
        ("MS_UNAVAILABLE", RegistryError.MEMBER_STATE_UNAVAILABLE),
        ("SOMETHING_NEW", RegistryError.UNKNOWN),
    ],
)
def test_errors_that_the_registry_names(error: str, kind: RegistryError) -> None:
    answer = text({"actionSucceed": False, "errorWrappers": [{"error": error}]})
    assert failure(answer) == failure(answer, 500) == kind


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (403, RegistryError.BLOCKED),
        (408, RegistryError.TIMEOUT),
        (429, RegistryError.RATE_LIMIT),
        (500, RegistryError.SERVICE_UNAVAILABLE),
        (502, RegistryError.SERVICE_UNAVAILABLE),
        (503, RegistryError.SERVICE_UNAVAILABLE),
        (504, RegistryError.TIMEOUT),
        (302, RegistryError.UNKNOWN),
        (418, RegistryError.UNKNOWN),
    ],
)
def test_other_statuses(status: int, kind: RegistryError) -> None:
    assert failure(b"<html>", status) == kind
    # Such an answer is ignored, whatever else it says.
    assert failure(text(VALID), status) == kind


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense",
        b"[]",
        b"null",
        b'{"valid": "true"}',
        b'{"errorWrappers": []}',
        b'{"errorWrappers": [1]}',
        b'{"valid": true, "name": "' + b"x" * 100_000 + b'"}',
    ],
)
def test_answers_that_say_nothing(answer: bytes) -> None:
    assert failure(answer) == RegistryError.UNKNOWN


def test_a_registry_that_is_not_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    registry = HttpVatRegistry(f"http://127.0.0.1:{port}/", timeout=5)
    answered = registry.check(NUMBER)
    registry.close()
    assert isinstance(answered, Unavailable)
    assert answered.kind == RegistryError.SERVICE_UNAVAILABLE


def test_a_registry_that_never_answers() -> None:
    with Receiver(0) as receiver:
        registry = HttpVatRegistry(receiver.url, timeout=0.05)
        answered = registry.check(NUMBER)
        registry.close()
    assert isinstance(answered, Unavailable)
    assert answered.kind == RegistryError.TIMEOUT


def test_an_address_that_is_none() -> None:
    registry = HttpVatRegistry("nowhere", timeout=5)
    assert isinstance(registry.check(NUMBER), Unavailable)
    registry.close()


# Within a billing system


def managed(billing: Billing, **fields: Any) -> None:
    billing.billing_entities.update("default", country="FR", eu_tax_management=True)
    billing.customers.upsert(external_id="acme", country="IT", tax_identification_number="IT12345678901", **fields)


def tax_codes(billing: Billing) -> list[str]:
    return [tax["code"] for tax in billing.view(billing.customers.get("acme"))["taxes"]]


def test_the_registry_of_the_settings_is_asked_outside_any_transaction() -> None:
    clock = ManualClock(NOW)
    with Receiver(503, 200, answer=text(VALID)) as receiver:
        settings = Settings(vat_registry_url=receiver.url, vat_registry_timeout=5)
        with Billing(clock=clock, settings=settings) as billing:
            managed(billing)
            assert (receiver.received, tax_codes(billing)) == ([], [])
            billing.run_due()
            check = billing.customers.get("acme").vat_check
            assert check is not None
            assert (check.attempts, check.last_error, tax_codes(billing)) == (1, "service_unavailable", [])
            clock.set(NOW + timedelta(minutes=5))
            billing.run_due()
            assert (len(receiver.received), tax_codes(billing)) == (2, ["svc_eu_reverse_charge"])


def test_a_worker_checks_numbers_by_itself() -> None:
    checked = threading.Event()

    def hear(message: Mapping[str, object]) -> None:
        if message["webhook_type"] == "customer.vies_check":
            checked.set()

    with Receiver(200, answer=text(VALID)) as receiver:
        settings = Settings(vat_registry_url=receiver.url, vat_registry_timeout=5)
        with Billing(settings=settings, on_message=hear) as billing, Worker(billing):
            managed(billing)
            assert checked.wait(30)
            assert tax_codes(billing) == ["svc_eu_reverse_charge"]


def test_a_check_that_was_cut_short_is_made_again(tmp_path: Any) -> None:
    path = tmp_path / "billing.db"
    clock = ManualClock(NOW)

    class Killed(BaseException):
        """The process ends here."""

    class Dying:
        def check(self, number: VatNumber) -> Registered:
            raise Killed

    with Billing(path, clock=clock, vat_registry=Dying()) as billing:
        managed(billing)
        with pytest.raises(Killed):
            billing.run_due()
    with (
        Receiver(200, answer=text(VALID)) as receiver,
        Billing(path, clock=clock, settings=Settings(vat_registry_url=receiver.url)) as billing,
    ):
        billing.run_due()
        assert receiver.received == []  # another worker may still be waiting for the answer
        clock.set(NOW + timedelta(minutes=5))
        billing.run_due()
        assert (len(receiver.received), tax_codes(billing)) == (1, ["svc_eu_reverse_charge"])
