"""Every operation answers in the shape that our own description gives it, and in that of the reference."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from tests.api_shapes import SHAPES, ShapeChecker
from tests.sample_records import NEVER, VERBS, in_order, invoiced, path_of, request_of, world
from tests.scenarios import Scenario
from tests.service import ROOT

from usagebill.core.webhooks import OBJECT_TYPES
from usagebill.http.app import endpoints
from usagebill.http.openapi import document

# Our own additions, and what the reference's description leaves out.
OWN = {
    ("GET", "/customers/{external_id}/archive"),
    ("POST", "/customers/{external_id}/anonymize"),
    ("GET", "/invoices/{invoice_id}/explain"),
    ("POST", "/invoices/preview/all"),
    ("POST", "/invoices/preview/explain"),
    ("GET", "/plans/{code}/versions"),
    ("PUT", "/plans/{code}/scheduled_prices/{version}"),
    ("PATCH", "/plans/{code}/scheduled_prices/{version}"),
    ("DELETE", "/plans/{code}/scheduled_prices/{version}"),
    ("GET", "/fees/{fee_id}/events"),
    ("PUT", "/invoices/{invoice_id}/lose_dispute"),
    ("GET", "/organizations"),
    ("GET", "/security_logs"),
    ("GET", "/security_logs/{log_id}"),
    ("POST", "/api_keys"),
    ("GET", "/api_keys"),
    ("GET", "/api_keys/{api_key_id}"),
    ("PUT", "/api_keys/{api_key_id}"),
    ("PATCH", "/api_keys/{api_key_id}"),
    ("POST", "/api_keys/{api_key_id}/rotate"),
    ("DELETE", "/api_keys/{api_key_id}"),
    ("POST", "/invoices/{invoice_id}/resend_email"),
    ("POST", "/credit_notes/{credit_note_id}/resend_email"),
    ("POST", "/payment_receipts/{payment_receipt_id}/download"),
    ("GET", "/ledger"),
    ("POST", "/exchange_rates"),
    ("GET", "/exchange_rates"),
    ("DELETE", "/exchange_rates/{exchange_rate_id}"),
    ("POST", "/dunning_campaigns"),
    ("GET", "/dunning_campaigns"),
    ("GET", "/dunning_campaigns/{code}"),
    ("PUT", "/dunning_campaigns/{code}"),
    ("PATCH", "/dunning_campaigns/{code}"),
    ("DELETE", "/dunning_campaigns/{code}"),
    ("POST", "/payment_receipts/{payment_receipt_id}/resend_email"),
    ("GET", "/synced_documents"),
    ("GET", "/synced_documents/{synced_document_id}"),
    ("POST", "/synced_documents/{synced_document_id}/resend"),
    ("POST", "/invoices/{invoice_id}/sync"),
    ("POST", "/events/cloudevents"),
    ("GET", "/event_sources"),
    ("GET", "/refused_events"),
    ("GET", "/refused_events/{refused_event_id}"),
    ("POST", "/refused_events/{refused_event_id}/retry"),
    ("DELETE", "/refused_events/{refused_event_id}"),
    ("POST", "/payments/{payment_id}/refund"),
    ("POST", "/credit_notes/{credit_note_id}/retry_refund"),
    ("GET", "/webhooks"),
    ("GET", "/webhooks/{id}"),
    ("POST", "/plans/{code}/preview_change"),
    ("POST", "/webhook_endpoints/{id}/rotate_secret"),
    ("DELETE", "/webhook_endpoints/{id}/old_secret"),
    ("POST", "/webhooks/rotate_key"),
    ("DELETE", "/webhooks/old_key"),
    ("POST", "/webhooks/{id}/resend"),
    ("POST", "/webhooks/resend_failed"),
    ("POST", "/customers/{external_id}/spend_limits"),
    ("GET", "/customers/{external_id}/spend_limits"),
    ("GET", "/customers/{external_id}/spend_limits/{spend_limit_code}"),
    ("PUT", "/customers/{external_id}/spend_limits/{spend_limit_code}"),
    ("PATCH", "/customers/{external_id}/spend_limits/{spend_limit_code}"),
    ("DELETE", "/customers/{external_id}/spend_limits/{spend_limit_code}"),
    ("POST", "/subscriptions/{external_id}/spend_limits"),
    ("GET", "/subscriptions/{external_id}/spend_limits"),
    ("GET", "/subscriptions/{external_id}/spend_limits/{spend_limit_code}"),
    ("PUT", "/subscriptions/{external_id}/spend_limits/{spend_limit_code}"),
    ("PATCH", "/subscriptions/{external_id}/spend_limits/{spend_limit_code}"),
    ("DELETE", "/subscriptions/{external_id}/spend_limits/{spend_limit_code}"),
    ("POST", "/plans/{code}/spend_limits"),
    ("GET", "/plans/{code}/spend_limits"),
    ("GET", "/plans/{code}/spend_limits/{spend_limit_code}"),
    ("PUT", "/plans/{code}/spend_limits/{spend_limit_code}"),
    ("PATCH", "/plans/{code}/spend_limits/{spend_limit_code}"),
    ("DELETE", "/plans/{code}/spend_limits/{spend_limit_code}"),
    ("POST", "/checks"),
    ("POST", "/holds"),
    ("GET", "/holds"),
    ("GET", "/holds/{hold_id}"),
    ("POST", "/holds/{hold_id}/capture"),
    ("POST", "/holds/{hold_id}/release"),
}
# Messages that the reference's description has no shape of.
UNSHOWN = {
    # It is ours.
    "customer.anonymized",
    "hold.expired",
    *("plan.version_effective", "plan.version_scheduled"),
    *("limit.reached", "limit.reset"),
    *("credit_note.provider_refund_failure", "invoice.overpaid", "invoice.payment_dispute_won"),
    *("payment.refund_failure", "payment.returned"),
    *("payment_receipt.created", "payment_receipt.generated"),
}


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[tuple[str, str], tuple[str, Any]]]:
    """Of every operation, what it was asked and answered once, where it succeeded."""
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        known = world(box)
        invoiced(box, known)
        answered: dict[tuple[str, str], tuple[str, Any]] = {}
        for verb, endpoint in sorted(VERBS, key=in_order):
            if (verb, endpoint.path) in NEVER:
                continue
            parameters = known
            if "{filter_id}" in endpoint.path:
                # Changes of a charge give it other filters; on a subscription, a plan of its own too.
                parent = "/plans/basic" if endpoint.path.startswith("/plans") else "/subscriptions/sub"
                filters = box.get(f"{parent}/charges/{known['charge_code']}/filters")["filters"]
                parameters = {**known, "filter_id": filters[0]["svc_id"]}
            path, body = request_of(verb, endpoint, parameters)
            status, answer = box.request(verb, path, json=body)
            assert status == 200, (verb, path, body, answer)
            answered[verb, endpoint.path] = (path, answer)
        yield answered


def test_every_operation_was_asked(answers: dict[tuple[str, str], tuple[str, Any]]) -> None:
    assert set(answers) | NEVER == {(verb, endpoint.path) for verb, endpoint in VERBS}


# Fields that an answer may leave out.
OPTIONAL = {
    *(
        "old_key_expires_at",
        "old_secret_expires_at",
        "from_date",
        "to_date",
        "metadata",
        "minimum_commitment",
        "scheduled_prices",
        "usage_thresholds",
        "applied_usage_thresholds",
    ),
    "held_amount_cents",
    "projected_amount_cents",
}


def records(answer: Any) -> Iterator[dict[str, Any]]:
    """The records of an answer: under its root, in its list, or itself."""
    for nested in [value for name, value in answer.items() if name != "meta"] if len(answer) <= 2 else [answer]:
        if isinstance(nested, dict):
            yield nested
        elif isinstance(nested, list) and nested and isinstance(nested[0], dict):
            yield nested[0]


def with_change(answer: Any, position: int, field: str, value: object) -> Any:
    """A copy of the answer whose record at `position` has another value in `field`, or, for `...`, none."""
    changed = copy.deepcopy(answer)
    record = list(records(changed))[position]
    if value is ...:
        del record[field]
    else:
        record[field] = value
    return changed


def unfound(checker: ShapeChecker, verb: str, path: str, answer: Any, value: object) -> tuple[int, set[str]]:
    """How many changes of one field the checker found, and the fields whose change it did not find."""
    noticed, missed = 0, set()
    for position, record in enumerate(records(answer)):
        for field in record:
            if not checker.accepts(verb, path, 200, with_change(answer, position, field, value)):
                noticed += 1
            else:
                missed.add(field)
    return noticed, missed


@pytest.mark.slow
def test_a_field_missing_or_of_another_type_differs_from_the_description(
    answers: dict[tuple[str, str], tuple[str, Any]],
) -> None:
    described = ShapeChecker.of_description()
    for (verb, template), (path, answer) in answers.items():
        if not isinstance(answer, dict) or answer == {"metadata": None}:
            continue
        assert described.check(verb, path, 200, {}), (verb, template)
        is_free = "metadata" in answer  # what callers keep there is theirs
        for value in (..., [[1]]):
            noticed, missed = unfound(described, verb, path, answer, value)
            assert missed <= (OPTIONAL if value is ... else set()) or is_free, (verb, template, missed)
            assert noticed or is_free or not list(records(answer)), (verb, template)


@pytest.mark.skipif(not SHAPES.exists(), reason="the reference's shapes are not beside this checkout")
@pytest.mark.slow
def test_a_field_missing_or_of_another_type_differs_from_the_reference(
    answers: dict[tuple[str, str], tuple[str, Any]],
) -> None:
    reference = ShapeChecker.of_reference()
    for (verb, template), (path, answer) in answers.items():
        assert (reference.operation(verb, path) is None) == ((verb, template) in OWN), (verb, template)
        if (verb, template) in OWN or not isinstance(answer, dict) or answer == {"metadata": None}:
            continue
        assert reference.check(verb, path, 200, {}), (verb, template)
        if "metadata" not in answer and list(records(answer)):
            assert unfound(reference, verb, path, answer, ...)[0], (verb, template)
            assert unfound(reference, verb, path, answer, [[1]])[0], (verb, template)


@pytest.mark.skipif(not SHAPES.exists(), reason="the reference's shapes are not beside this checkout")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 422])
def test_every_operation_refuses_in_one_shape(status: int) -> None:
    for checker in (ShapeChecker.of_reference(), ShapeChecker.of_description()):
        for verb, endpoint in VERBS:
            path = path_of(endpoint, {}, {})
            if checker.operation(verb, path) is not None and (status != 405 or verb != "GET"):
                assert checker.check(verb, path, status, {"status": status}), (verb, endpoint.path)


def test_every_message_that_is_sent_has_a_shape_to_be_checked_against() -> None:
    package = ROOT / "src" / "usagebill"
    # The message that announces an invoice depends on its origin.
    files = [*(package / "operations").rglob("*.py"), package / "core" / "invoice_triggers.py"]
    source = "".join(file.read_text("utf-8") for file in files)
    sent = {name for name in OBJECT_TYPES if f'"{name}"' in source}
    assert sent == set(document(endpoints())["webhooks"])
    checkers = [ShapeChecker.of_description(), *([ShapeChecker.of_reference()] if SHAPES.exists() else [])]
    for name in sent:
        body = {"webhook_type": name, "object_type": OBJECT_TYPES[name]}
        # The reference names these messages, and shows none.
        for checker in checkers[:1] if name in UNSHOWN else checkers:
            assert checker.check_webhook(body), name


@pytest.mark.slow
def test_a_message_with_a_part_missing_or_too_much_differs_from_the_description() -> None:
    described = ShapeChecker.of_description()
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        invoiced(box, world(box))
        assert len({message["webhook_type"] for message in box.webhooks}) > 8
        for message in box.webhooks:
            assert described.check_webhook(message) == []
            shown = message[message["object_type"]]
            assert described.check_webhook({**message, message["object_type"]: {**shown, "colour": "red"}})
            for field in shown.keys() - OPTIONAL - {"from_date", "to_date"}:
                rest = {name: value for name, value in shown.items() if name != field}
                assert described.check_webhook({**message, message["object_type"]: rest}), field
