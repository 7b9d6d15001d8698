"""Delivery of webhook messages to a real HTTP server: signatures, attempts, and their records."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import jwt
import pytest
from structlog.testing import capture_logs

from tests.receiver import Received, Receiver
from usagebill import Billing
from usagebill.core.errors import NotAllowed, NotFound
from usagebill.core.tasks import DeliverWebhook
from usagebill.core.vat import RegistryError, Unavailable
from usagebill.core.webhooks import WebhookEndpoint, WebhookMessage
from usagebill.operations import customers, organizations, webhooks
from usagebill.process.settings import Settings
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Work

NOW = datetime(2024, 3, 5, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def billing(clock: ManualClock) -> Iterator[Billing]:
    with Billing(clock=clock, settings=Settings(webhook_attempts=3)) as billing:
        yield billing


def listen(billing: Billing, receiver: Receiver, **fields: Any) -> WebhookEndpoint:
    return billing.webhook_endpoints.create(webhook_url=receiver.url, **fields)


def happen(billing: Billing, external_id: str = "acme") -> None:
    """Cause a message to listeners."""
    billing.customers.upsert(external_id=external_id)


def messages(billing: Billing, endpoint: WebhookEndpoint) -> list[WebhookMessage]:
    return list(billing.webhooks.list_of_endpoint(endpoint.id).items)


def message(billing: Billing, endpoint: WebhookEndpoint) -> WebhookMessage:
    (only,) = messages(billing, endpoint)
    return only


def pass_time(billing: Billing, clock: ManualClock, seconds: str) -> None:
    clock.set(clock.now() + timedelta(milliseconds=int(seconds.replace(".", "")) * 10))
    billing.run_due()


def test_message_arrives_as_compact_json_with_its_envelope(billing: Billing) -> None:
    with Receiver() as receiver:
        endpoint = listen(billing, receiver)
        happen(billing)
        assert receiver.received == []
        billing.run_due()
        (delivery,) = receiver.received
        body = json.loads(delivery.body)
        assert list(body) == ["webhook_type", "object_type", "organization_id", "customer"]
        assert (body["webhook_type"], body["object_type"]) == ("customer.created", "customer")
        assert body["organization_id"] == billing.organization.id
        assert body["customer"]["external_id"] == "acme"
        assert b'": ' not in delivery.body
        assert delivery.path == "/hook?from=billing"
        assert delivery.headers["content-type"] == "application/json"
        kept = message(billing, endpoint)
        assert (kept.status, kept.retries, kept.http_status, kept.response) == ("succeeded", 0, 200, "thanks")
        assert kept.payload.encode() == delivery.body
        assert delivery.headers["x-svc-unique-key"] == kept.id
        assert billing.next_due(leased=True) is None


def test_hmac_signature_is_that_of_the_exact_body(billing: Billing) -> None:
    with Receiver() as receiver:
        listen(billing, receiver, signature_algo="hmac")
        happen(billing)
        billing.run_due()
        (delivery,) = receiver.received
        digest = hmac.new(billing.organization.hmac_key.encode(), delivery.body, hashlib.sha256).digest()
        assert delivery.headers["x-svc-signature"] == base64.b64encode(digest).decode()
        assert delivery.headers["x-svc-signature-algorithm"] == "hmac"


def signed_with(secret: str, body: bytes) -> str:
    return base64.b64encode(hmac.new(secret.encode(), body, hashlib.sha256).digest()).decode()


def test_while_a_secret_is_changed_messages_have_a_signature_by_each_the_oldest_first(
    billing: Billing, clock: ManualClock
) -> None:
    first = billing.organization.hmac_key
    with Receiver() as receiver, Receiver() as neighbour:
        endpoint = listen(billing, receiver, signature_algo="hmac")
        listen(billing, neighbour, signature_algo="hmac")

        def signatures(secrets: list[str]) -> bool:
            happen(billing, f"customer-{len(receiver.received)}")
            billing.run_due()
            delivery, other = receiver.received[-1], neighbour.received[-1]
            # Each endpoint has secrets of its own.
            assert other.headers["x-svc-signature"] == signed_with(first, other.body)
            return delivery.headers["x-svc-signature"].split(",") == [signed_with(s, delivery.body) for s in secrets]

        assert signatures([first])
        second = billing.webhook_endpoints.rotate_secret(endpoint.id).secret
        assert signatures([first, second])
        clock.set(NOW + timedelta(hours=23, minutes=59))
        assert signatures([first, second])
        clock.set(NOW + timedelta(hours=24))
        assert signatures([second])
        ends = NOW + timedelta(days=3)
        third = billing.webhook_endpoints.rotate_secret(endpoint.id, old_secret_expires_at=ends.isoformat()).secret
        assert signatures([second, third])
        billing.webhook_endpoints.end_old_secret(endpoint.id)
        assert signatures([third])
        fourth = billing.webhook_endpoints.rotate_secret(endpoint.id, old_secret_expires_at=None).secret
        assert signatures([fourth])
        assert len({first, second, third, fourth}) == 4


def test_while_the_key_pair_is_changed_messages_have_a_signature_by_each_the_oldest_first(
    billing: Billing, clock: ManualClock
) -> None:
    with Receiver() as receiver:
        listen(billing, receiver)

        def signed_by(*keys: str) -> bool:
            happen(billing, f"customer-{len(receiver.received)}")
            billing.run_due()
            signatures = receiver.received[-1].headers["x-svc-signature"].split(",")
            assert len({jwt.get_unverified_header(one)["kid"] for one in signatures}) == len(keys)
            # Raises if one is not by its key.
            data = [
                jwt.decode(one, base64.b64decode(key), algorithms=["RS256"])["data"]
                for one, key in zip(signatures, keys, strict=True)
            ]
            return {text.encode() for text in data} == {receiver.received[-1].body}

        first = billing.webhooks.public_key()
        assert signed_by(first)
        billing.webhooks.rotate_key()
        second = billing.webhooks.public_key()
        assert signed_by(first, second)
        clock.set(NOW + timedelta(hours=23, minutes=59))
        assert signed_by(first, second)
        clock.set(NOW + timedelta(hours=24))
        assert signed_by(second)
        billing.webhooks.rotate_key(old_key_expires_at=(NOW + timedelta(days=3)).isoformat())
        third = billing.webhooks.public_key()
        assert signed_by(second, third)
        billing.webhooks.end_old_key()
        assert signed_by(third)
        billing.webhooks.rotate_key(old_key_expires_at=None)
        fourth = billing.webhooks.public_key()
        assert signed_by(fourth)
        assert all(one != next_one for one, next_one in pairwise((first, second, third, fourth)))


def test_what_failed_before_a_rotation_is_signed_anew(billing: Billing, clock: ManualClock) -> None:
    with Receiver(500, 200) as receiver:
        endpoint = listen(billing, receiver, signature_algo="hmac")
        happen(billing)
        billing.run_due()
        secret = billing.webhook_endpoints.rotate_secret(endpoint.id, old_secret_expires_at=None).secret
        pass_time(billing, clock, "4.00")
        before, after = receiver.received
        assert before.headers["x-svc-signature"] == signed_with(billing.organization.hmac_key, before.body)
        assert after.headers["x-svc-signature"] == signed_with(secret, after.body)


def verified(billing: Billing, delivery: Received) -> dict[str, object]:
    public_key = base64.b64decode(billing.webhooks.public_key())
    signature = delivery.headers["x-svc-signature"]
    header = jwt.get_unverified_header(signature)
    assert set(header) == {"alg", "kid", "aud"}
    assert (header["alg"], header["aud"]) == ("RS256", billing.organization.id)
    # As by receivers that know nothing of `kid` and `aud`.
    claims: dict[str, object] = jwt.decode(
        signature, public_key, algorithms=["RS256"], issuer=billing.settings.public_url
    )
    return claims


def test_jwt_signature_is_verified_with_the_public_key(clock: ManualClock) -> None:
    with Billing(clock=clock, settings=Settings(public_url="https://billing.example")) as billing, Receiver() as to:
        listen(billing, to)
        happen(billing)
        billing.run_due()
        (delivery,) = to.received
        assert delivery.headers["x-svc-signature-algorithm"] == "jwt"
        assert verified(billing, delivery) == {"data": delivery.body.decode(), "iss": "https://billing.example"}


def test_a_message_of_one_organization_does_not_verify_at_the_receiver_of_another(tmp_path: Path) -> None:
    url, settings = tmp_path / "billing.db", Settings(private_networks="allowed")
    with Billing(url, settings=settings) as acme, Receiver() as to_acme, Receiver() as to_hooli:
        created = acme.store.write(None, lambda tx: organizations.create(tx, acme.clock.now(), "Hooli"))
        with Billing(url, organization=created.id, settings=settings) as hooli:
            for billing, receiver in ((acme, to_acme), (hooli, to_hooli)):
                listen(billing, receiver)
                happen(billing)
            acme.run_due()
            pairs = [(acme, to_acme.received[0]), (hooli, to_hooli.received[0])]
            for billing, delivery in pairs:
                assert verified(billing, delivery)["data"] == delivery.body.decode()
            for (billing, _), (_, delivery) in zip(pairs, reversed(pairs), strict=True):
                key = base64.b64decode(billing.webhooks.public_key())
                with pytest.raises(jwt.InvalidSignatureError):
                    jwt.decode(delivery.headers["x-svc-signature"], key, algorithms=["RS256"])
    headers = [jwt.get_unverified_header(delivery.headers["x-svc-signature"]) for _, delivery in pairs]
    assert len({header["kid"] for header in headers}) == 2
    assert [header["aud"] for header in headers] == [acme.organization.id, created.id]


def test_messages_are_signed_and_keys_made_while_no_transaction_is_open(
    billing: Billing, monkeypatch: pytest.MonkeyPatch
) -> None:
    within: list[tuple[str, bool]] = []

    def watch(name: str) -> None:
        act: Callable[..., object] = getattr(webhooks, name)

        def watched(*arguments: object) -> object:
            within.append((name, billing.store._writer.in_transaction))  # type: ignore[attr-defined]
            return act(*arguments)

        monkeypatch.setattr(webhooks, name, watched)

    watch("signed_headers")
    watch("_new_private_key")
    webhooks._parsed.cache_clear()
    with Receiver() as receiver:
        listen(billing, receiver)
        for external_id in ("acme", "bolt", "core"):
            happen(billing, external_id)
        billing.run_due()
        assert len(receiver.received) == 3
    assert within == [("_new_private_key", False), *[("signed_headers", False)] * 3]
    assert webhooks._parsed.cache_info().misses == 1
    with Billing() as other:
        other.webhooks.public_key()
    assert within[4:] == [("_new_private_key", False)]


def test_headers_follow_the_prefix_of_ids(clock: ManualClock) -> None:
    with Billing(clock=clock, settings=Settings(id_prefix="acme_")) as billing, Receiver() as receiver:
        listen(billing, receiver)
        happen(billing)
        billing.run_due()
        (delivery,) = receiver.received
        assert {name for name in delivery.headers if name.startswith("x-")} == {
            "x-acme-signature",
            "x-acme-signature-algorithm",
            "x-acme-unique-key",
        }
        assert "acme_id" in json.loads(delivery.body)["customer"]


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_these_answers_are_successes(billing: Billing, status: int) -> None:
    with Receiver(status) as receiver:
        endpoint = listen(billing, receiver)
        happen(billing)
        billing.run_due()
        kept = message(billing, endpoint)
        assert (kept.status, kept.http_status, kept.retries) == ("succeeded", status, 0)


@pytest.mark.parametrize("status", [203, 206, 301, 302, 307, 400, 403, 404, 410, 429, 500, 503])
def test_every_other_answer_is_a_failure_and_redirects_are_not_followed(billing: Billing, status: int) -> None:
    with Receiver(status) as receiver:
        endpoint = listen(billing, receiver)
        happen(billing)
        billing.run_due()
        kept = message(billing, endpoint)
        assert (kept.status, kept.http_status, kept.retries) == ("retrying", status, 1)
        assert (kept.response, kept.last_retried_at) == ("thanks", NOW)
        assert [delivery.path for delivery in receiver.received] == ["/hook?from=billing"]


def test_three_attempts_are_made_with_growing_waits(billing: Billing, clock: ManualClock) -> None:
    with Receiver(403) as receiver:
        endpoint = listen(billing, receiver)
        happen(billing)
        billing.run_due()
        pass_time(billing, clock, "2.99")
        assert len(receiver.received) == 1
        pass_time(billing, clock, "0.16")
        kept = message(billing, endpoint)
        assert (kept.status, kept.retries, len(receiver.received)) == ("retrying", 2, 2)
        pass_time(billing, clock, "17.99")
        assert len(receiver.received) == 2
        pass_time(billing, clock, "2.41")
        kept = message(billing, endpoint)
        assert (kept.status, kept.retries, kept.http_status) == ("failed", 3, 403)
        assert kept.last_retried_at == clock.now()
        pass_time(billing, clock, "3600.00")
        assert len(receiver.received) == 3
        # Each attempt carried the same body, signature and key.
        assert (
            len(
                {
                    (delivery.body, delivery.headers["x-svc-unique-key"], delivery.headers["x-svc-signature"])
                    for delivery in receiver.received
                }
            )
            == 1
        )


def test_failure_then_success(billing: Billing, clock: ManualClock) -> None:
    with Receiver(500, 200) as receiver:
        endpoint = listen(billing, receiver)
        happen(billing)
        billing.run_due()
        pass_time(billing, clock, "3.15")
        kept = message(billing, endpoint)
        assert (kept.status, kept.retries, kept.http_status) == ("succeeded", 1, 200)
        assert len({delivery.headers["x-svc-unique-key"] for delivery in receiver.received}) == 1
        assert len(receiver.received) == 2


def test_nobody_there_is_a_failure_without_a_status(billing: Billing) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        endpoint = billing.webhook_endpoints.create(webhook_url=f"http://127.0.0.1:{port}/")
        happen(billing)
        billing.run_due()
    kept = message(billing, endpoint)
    assert (kept.status, kept.retries, kept.http_status) == ("retrying", 1, None)
    assert kept.response is not None
    assert kept.response.startswith("ConnectionRefusedError")


def test_silence_is_a_failure(clock: ManualClock) -> None:
    with Receiver(0) as receiver, Billing(clock=clock, settings=Settings(webhook_timeout=0.05)) as billing:
        endpoint = listen(billing, receiver)
        happen(billing)
        billing.run_due()
        kept = message(billing, endpoint)
        assert (kept.status, kept.retries, kept.http_status) == ("retrying", 1, None)
        assert kept.response is not None
        assert kept.response.startswith("TimeoutError")


def test_status_of_an_earlier_answer_stays_when_nobody_answers_later(clock: ManualClock) -> None:
    settings = Settings(webhook_timeout=0.05)
    with Receiver(500, 0) as receiver, Billing(clock=clock, settings=settings) as billing:
        endpoint = listen(billing, receiver)
        happen(billing)
        billing.run_due()
        pass_time(billing, clock, "3.15")
        kept = message(billing, endpoint)
        assert (kept.retries, kept.http_status) == (2, 500)


def test_long_and_odd_answers_are_kept_in_part(billing: Billing) -> None:
    with Receiver(500, answer=b"\xff\0" + b"x" * 100_000) as receiver:
        endpoint = listen(billing, receiver)
        happen(billing)
        billing.run_due()
        kept = message(billing, endpoint).response
        assert kept is not None
        assert len(kept) == 10_000
        assert kept.startswith("�x")


def test_address_and_algorithm_are_those_of_the_endpoint_at_each_attempt(billing: Billing, clock: ManualClock) -> None:
    with Receiver(500) as old, Receiver(200) as new:
        endpoint = listen(billing, old)
        happen(billing)
        billing.run_due()
        billing.webhook_endpoints.update(
            endpoint.id, webhook_url=new.url, signature_algo="hmac", event_types=["invoice.voided"]
        )
        pass_time(billing, clock, "3.15")
        (delivery,) = new.received
        assert delivery.headers["x-svc-signature-algorithm"] == "hmac"
        assert delivery.headers["x-svc-unique-key"] == old.received[0].headers["x-svc-unique-key"]
        assert message(billing, endpoint).endpoint == new.url


def test_each_endpoint_gets_its_own_message_of_the_events_it_asked_for(billing: Billing) -> None:
    with Receiver() as everything, Receiver() as nothing, Receiver() as some:
        listen(billing, everything)
        listen(billing, nothing, event_types=[])
        listen(billing, some, event_types=["customer.updated"])
        happen(billing)
        happen(billing)
        billing.run_due()

        def types(receiver: Receiver) -> list[str]:
            return sorted(json.loads(delivery.body)["webhook_type"] for delivery in receiver.received)

        assert types(everything) == ["customer.created", "customer.updated"]
        assert types(nothing) == []
        assert types(some) == ["customer.updated"]
        keys = [delivery.headers["x-svc-unique-key"] for to in (everything, some) for delivery in to.received]
        assert len(set(keys)) == 3


def test_refused_operation_sends_nothing(billing: Billing) -> None:
    with Receiver() as receiver:
        endpoint = listen(billing, receiver)

        def fail(work: Work) -> None:
            customers.upsert(work, customers.CustomerInput(external_id="acme"))
            raise RuntimeError("changed my mind")

        with pytest.raises(RuntimeError):
            billing.writing(fail)
        billing.run_due()
        assert (receiver.received, messages(billing, endpoint)) == ([], [])


def test_events_before_the_endpoint_existed_are_not_sent(billing: Billing) -> None:
    with Receiver() as receiver:
        happen(billing)
        listen(billing, receiver)
        billing.run_due()
        assert receiver.received == []


def test_deleted_endpoint_loses_what_was_not_sent(billing: Billing) -> None:
    with Receiver() as receiver:
        endpoint = listen(billing, receiver)
        happen(billing)
        billing.webhook_endpoints.delete(endpoint.id)
        billing.run_due()
        assert receiver.received == []
        with pytest.raises(NotFound):
            billing.webhooks.list_of_endpoint(endpoint.id)
        assert billing.reading(lambda work: work.tx.find(WebhookMessage)) == []


def test_resend_tries_once_more(billing: Billing, clock: ManualClock) -> None:
    with Receiver(500, 500, 500, 500, 200) as receiver:
        endpoint = listen(billing, receiver)
        happen(billing)
        billing.run_due()
        pass_time(billing, clock, "3.15")
        pass_time(billing, clock, "20.40")
        failed = message(billing, endpoint)
        assert (failed.status, failed.retries) == ("failed", 3)
        billing.webhooks.resend(failed.id)
        billing.run_due()
        again = message(billing, endpoint)
        assert (again.status, again.retries, len(receiver.received)) == ("failed", 4, 4)
        pass_time(billing, clock, "3600.00")
        assert len(receiver.received) == 4
        billing.webhooks.resend(failed.id)
        billing.run_due()
        assert message(billing, endpoint).status == "succeeded"
        with pytest.raises(NotAllowed, match="is_succeeded"):
            billing.webhooks.resend(failed.id)
        with pytest.raises(NotFound, match="webhook_not_found"):
            billing.webhooks.resend("00000000-0000-0000-0000-000000000000")


@pytest.mark.beyond_reference
def test_a_receiver_that_is_down_for_two_days_loses_nothing(clock: ManualClock) -> None:
    with Billing(clock=clock) as billing, Receiver(503) as receiver, capture_logs() as logs:
        endpoint = listen(billing, receiver)
        happen(billing)
        billing.run_due()
        pauses = []
        while clock.now() < NOW + timedelta(days=2):
            due = billing.next_due(leased=True)
            assert due is not None
            pauses.append(due - clock.now())
            clock.set(due)
            billing.run_due(due)
        assert pauses[:9] == sorted(pauses[:9])
        assert timedelta(hours=6) <= max(pauses) <= timedelta(hours=7)
        assert message(billing, endpoint).status == "retrying"
        # One line an hour at most, not one for each attempt of each message.
        assert {line["event"] for line in logs} == {"webhook_failing"}
        receiver.statuses = [200]
        clock.set(billing.next_due(leased=True) or clock.now())
        billing.run_due()
        assert message(billing, endpoint).status == "succeeded"
        assert len({delivery.body for delivery in receiver.received}) == 1


@pytest.mark.beyond_reference
def test_a_message_is_given_up_after_three_days_with_a_warning(clock: ManualClock) -> None:
    with Billing(clock=clock) as billing, Receiver(503) as receiver, capture_logs() as logs:
        endpoint = listen(billing, receiver)
        happen(billing)
        while message(billing, endpoint).status != "failed":
            clock.set(max(clock.now(), billing.next_due(leased=True) or clock.now()))
            billing.run_due()
        assert timedelta(days=3) < clock.now() - NOW < timedelta(days=4)
        assert len(receiver.received) == 24
        assert [(line["event"], line["attempts"]) for line in logs][-1] == ("webhook_given_up", 24)


@pytest.mark.beyond_reference
def test_failed_messages_of_all_endpoints_are_listed_and_resent_together(billing: Billing, clock: ManualClock) -> None:
    with Receiver(500) as down, Receiver(200) as up:
        endpoint = listen(billing, down)
        listen(billing, up)
        for external_id in ("a", "b"):
            happen(billing, external_id)
        billing.run_due()
        pass_time(billing, clock, "3.15")
        pass_time(billing, clock, "20.40")
        failed = billing.webhooks.list(statuses=["failed"])
        assert (failed.total_count, {message.webhook_endpoint_id for message in failed.items}) == (2, {endpoint.id})
        assert billing.webhooks.list(webhook_endpoint_id=endpoint.id).total_count == 2
        assert billing.webhooks.list().total_count == 4
        down.statuses = [200]
        # Narrowed to what is not there, nothing is resent.
        for none in (
            {"event_types": ["invoice.created"]},
            {"to_date": NOW},
            {"from_date": NOW + timedelta(days=1)},
        ):
            assert billing.webhooks.resend_failed(**none).count == 0
        with pytest.raises(NotFound, match="webhook_endpoint"):
            billing.webhooks.resend_failed(webhook_endpoint_id="none")
        resent = billing.webhooks.resend_failed(webhook_endpoint_id=endpoint.id, event_types=["customer.created"])
        assert (resent.count, billing.view(resent)) == (2, {"resent_count": 2})
        billing.run_due()
        assert billing.webhooks.list(statuses=["failed"]).items == []
        assert billing.webhooks.resend_failed().count == 0
        assert len(up.received) == 2


def test_resend_does_not_wait_for_the_retry_that_waits(billing: Billing, clock: ManualClock) -> None:
    with Receiver(500, 200) as receiver:
        endpoint = listen(billing, receiver)
        happen(billing)
        billing.run_due()
        billing.webhooks.resend(message(billing, endpoint).id)
        billing.run_due()
        assert message(billing, endpoint).status == "succeeded"
        pass_time(billing, clock, "3600.00")
        assert len(receiver.received) == 2


def test_history_is_listed_by_how_it_went(billing: Billing, clock: ManualClock) -> None:
    with Receiver(200, 404, 503) as receiver:
        endpoint = listen(billing, receiver)
        for external_id in ("a", "b", "c"):
            happen(billing, external_id)
            billing.run_due()
            clock.set(clock.now() + timedelta(seconds=1))

        def listed(**filters: Any) -> list[str]:
            messages = billing.webhooks.list_of_endpoint(endpoint.id, **filters).items
            return [json.loads(message.payload)["customer"]["external_id"] for message in messages]

        assert listed() == ["c", "b", "a"]
        assert listed(statuses=["succeeded"]) == ["a"]
        assert listed(statuses=["retrying", "failed"]) == ["c", "b"]
        assert listed(event_types=["customer.updated"]) == []
        assert listed(http_statuses=["404"]) == ["b"]
        assert listed(http_statuses=["5xx", "200"]) == ["c", "a"]
        assert listed(http_statuses=["400-503"]) == ["c", "b"]
        assert listed(http_statuses=["timeout"]) == []
        assert listed(http_statuses=["nonsense"]) == []
        assert listed(from_date="2024-03-05T12:00:01Z", to_date="2024-03-05T12:00:01Z") == ["b"]
        customer = billing.customers.get("c")
        assert listed(search_term=customer.id) == ["c"]
        assert listed(per_page=1, page=2) == ["b"]
        (first, *_) = messages(billing, endpoint)
        assert billing.webhooks.get(first.id) == first
        assert billing.view(first)["svc_id"] == first.id


def test_messages_are_kept_for_ninety_days_after_their_last_attempt(billing: Billing, clock: ManualClock) -> None:
    with Receiver() as receiver:
        endpoint = listen(billing, receiver)
        happen(billing)
        billing.run_due()
        clock.set(datetime(2024, 6, 3, 1, tzinfo=UTC))
        billing.run_due()
        assert len(messages(billing, endpoint)) == 1
        clock.set(datetime(2024, 6, 4, 1, tzinfo=UTC))
        billing.run_due()
        assert messages(billing, endpoint) == []
        assert billing.next_due() == datetime(2024, 6, 5, 1, tzinfo=UTC)


def test_what_was_never_attempted_is_kept_however_old_it_is(billing: Billing, clock: ManualClock) -> None:
    with Receiver() as receiver:
        endpoint = listen(billing, receiver)
        happen(billing)
        waiting = message(billing, endpoint)
        clock.set(datetime(2024, 7, 1, 1, tzinfo=UTC))
        # Nothing was delivered meanwhile: the worker was down, or the endpoint took all its time for others.
        while billing._system.run_batch():
            pass
        assert messages(billing, endpoint) == [waiting]
        billing.run_due()
        assert message(billing, endpoint).status == "succeeded"
        assert [delivery.headers["x-svc-unique-key"] for delivery in receiver.received] == [waiting.id]


def test_what_is_given_up_is_said_in_the_log_and_removed_after_ninety_days(
    billing: Billing, clock: ManualClock
) -> None:
    with Receiver(503) as receiver, capture_logs() as logs:
        endpoint = listen(billing, receiver)
        happen(billing)
        billing.run_due()
        pass_time(billing, clock, "3.15")
        pass_time(billing, clock, "20.40")
        given_up = message(billing, endpoint)
        endpoint_fields = {
            "log_level": "warning",
            "message": given_up.id,
            "webhook_type": "customer.created",
            "endpoint": endpoint.id,
            "http_status": 503,
        }
        assert logs[0] == {"event": "webhook_failing", "attempts": 1, **endpoint_fields}
        assert logs[-1] == {"event": "webhook_given_up", "attempts": 3, **endpoint_fields}
        clock.set(datetime(2024, 6, 4, 1, tzinfo=UTC))
        billing.run_due()
        assert messages(billing, endpoint) == []


def test_messages_that_nobody_was_to_deliver_are_removed_too(clock: ManualClock) -> None:
    with Billing(clock=clock, deliver=False) as billing, Receiver() as receiver:
        endpoint = listen(billing, receiver)
        happen(billing)
        billing.run_due()
        assert len(messages(billing, endpoint)) == 1
        clock.set(datetime(2024, 6, 4, 1, tzinfo=UTC))
        billing.run_due()
        assert messages(billing, endpoint) == []


def test_without_delivery_nothing_is_sent(clock: ManualClock) -> None:
    with Billing(clock=clock, deliver=False) as billing, Receiver() as receiver:
        endpoint = listen(billing, receiver)
        happen(billing)
        billing.run_due()
        assert receiver.received == []
        assert message(billing, endpoint).status == "pending"
        assert billing.next_due(leased=True) is None


def test_an_attempt_that_fails_after_another_has_arrived_changes_nothing(billing: Billing) -> None:
    with Receiver() as receiver:
        endpoint = listen(billing, receiver)
        happen(billing)
        waiting = message(billing, endpoint)
        job = billing.writing(lambda work: work.tx.jobs.get(DeliverWebhook(message_id=waiting.id).key))
        slow = billing.writing(lambda work: webhooks.prepare(work, DeliverWebhook(message_id=waiting.id)))
        assert job is not None
        assert slow is not None
        billing.webhooks.resend(waiting.id)
        billing.run_due()
        assert message(billing, endpoint).status == "succeeded"
        billing.writing(lambda work: webhooks.note_attempt(work, job, slow, None, "ReadTimeout"))
        billing.run_due()
        assert (message(billing, endpoint).status, len(receiver.received)) == ("succeeded", 1)


def test_a_lease_begins_when_the_job_does_however_long_ago_the_run_of_jobs_began(clock: ManualClock) -> None:
    names = ("one", "two")
    with Billing(clock=clock, settings=Settings(vat_registry_timeout=200)) as billing:
        leased: list[timedelta] = []

        class Slow:
            def check(self, number: object) -> Unavailable:
                customer = billing.customers.get(names[len(leased)])
                job = billing.reading(lambda work: work.tx.jobs.waiting("check_vat_number", customer.id))
                assert job is not None
                leased.append(job.run_at - clock.now())
                clock.set(clock.now() + timedelta(minutes=10))
                return Unavailable(kind=RegistryError.TIMEOUT, message="")

        billing._system.vat_registry = Slow()
        billing.billing_entities.update("default", country="FR", eu_tax_management=True)
        for name in names:
            billing.customers.upsert(external_id=name, country="DE", tax_identification_number="DE136695976")
        billing.run_due(NOW)
        # No other worker takes either while it may still be in flight.
        assert leased == [timedelta(seconds=400)] * 2
