"""Webhooks as rules: the catalogue, endpoints, signatures, attempts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from usagebill.core.errors import Invalid
from usagebill.core.webhooks import (
    ENDPOINTS_AT_MOST,
    OBJECT_TYPES,
    MessageStatus,
    WebhookEndpoint,
    WebhookMessage,
    WebhookSecret,
    after_attempt,
    endpoint_after_attempt,
    endpoint_errors,
    endpoint_problems,
    event_types_errors,
    header_prefix,
    listens_to,
    normalized_event_types,
    public_key_text,
    retry_milliseconds,
    sent_event_types,
    sign_hmac,
    valid_secrets,
    with_new_secret,
)

NOW = datetime(2024, 3, 5, tzinfo=UTC)
ENDPOINT = WebhookEndpoint(
    id="e", organization_id="o", webhook_url="https://example.com/hook", created_at=NOW, updated_at=NOW
)
MESSAGE = WebhookMessage(
    id="m",
    organization_id="o",
    webhook_endpoint_id="e",
    webhook_type="customer.created",
    object_type="customer",
    object_id="c",
    payload="{}",
    endpoint="https://example.com/hook",
    created_at=NOW,
    updated_at=NOW,
)


def test_catalogue_has_the_75_names_of_the_interface_and_ten_of_ours() -> None:
    ours = {
        "customer.anonymized",
        "hold.expired",
        "limit.reached",
        "limit.reset",
        "plan.version_effective",
        "plan.version_scheduled",
        "invoice.overpaid",
        "invoice.payment_dispute_won",
        "payment.refund_failure",
        "payment.returned",
    }
    assert len(OBJECT_TYPES.keys() - ours) == 75
    assert len(OBJECT_TYPES) == 85


def test_hmac_of_the_documented_example() -> None:
    body = (
        b'{"webhook_type":"customer.created","object_type":"customer",'
        b'"organization_id":"1a901a90-1a90-1a90-1a90-1a901a901a90","customer":{"external_id":"cus_1"}}'
    )
    assert len(body) == 152
    signature = sign_hmac("b7c9a0f2-3d64-4e19-8f0a-5c1d2e3f4a5b", body)
    assert signature == "iuy2N0yXsxjFnGo87zaaVsFHFj/vms6vvb/3QhmYhc0="


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "http://localhost:8080/hook",
        "https://user:secret@example.com/a/b?c=d&e=%20#f",
        "http://[::1]:9000/",
        "https://example.com?a=b",
        "http://10.0.0.1",
    ],
)
def test_addresses_are_http_with_a_host(url: str) -> None:
    assert endpoint_errors(replace(ENDPOINT, webhook_url=url)) == {}


@pytest.mark.parametrize(
    "url", ["foobar", "ftp://example.com", "https://", "http:///path", "https://exa mple.com", "javascript:x", "//a.b"]
)
def test_other_addresses_are_refused(url: str) -> None:
    assert endpoint_errors(replace(ENDPOINT, webhook_url=url)) == {"webhook_url": ["url_is_invalid"]}


def test_missing_address_is_both_missing_and_no_url() -> None:
    assert endpoint_errors(replace(ENDPOINT, webhook_url="")) == {
        "webhook_url": ["value_is_mandatory", "url_is_invalid"]
    }


@pytest.mark.parametrize(
    ("facts", "problems"),
    [
        ({}, {}),
        ({"url": "foobar"}, {"webhook_url": ["url_is_invalid"]}),
        ({"is_private": True}, {"webhook_url": ["address_not_public"]}),
        ({"is_private": True, "before": ENDPOINT}, {}),
        (
            {"is_private": True, "before": replace(ENDPOINT, webhook_url="https://a.com")},
            {"webhook_url": ["address_not_public"]},
        ),
        ({"url": "foobar", "is_private": True}, {"webhook_url": ["url_is_invalid"]}),
        ({"same_url": ENDPOINT, "before": ENDPOINT}, {}),
        ({"same_url": replace(ENDPOINT, id="other")}, {"webhook_url": ["value_already_exist"]}),
        ({"endpoints": ENDPOINTS_AT_MOST - 1}, {}),
        ({"endpoints": ENDPOINTS_AT_MOST}, {"base": ["Maximum number of webhook endpoints was reached"]}),
        ({"endpoints": ENDPOINTS_AT_MOST, "before": ENDPOINT}, {}),
    ],
)
def test_which_endpoints_are_not_stored(facts: dict[str, Any], problems: dict[str, list[str]]) -> None:
    known = {"before": None, "same_url": None, "is_private": False, "endpoints": 0, **facts}
    endpoint = replace(ENDPOINT, webhook_url=known.pop("url", ENDPOINT.webhook_url))
    assert endpoint_problems(endpoint, **known) == problems


@pytest.mark.parametrize(
    ("sent", "stored"),
    [(None, None), ([], ()), (["*"], None), (["invoice.drafted", None], ("invoice.drafted",))],
)
def test_event_types_of_a_request(sent: object, stored: tuple[str, ...] | None) -> None:
    assert sent_event_types(sent) == stored


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ("invoice.drafted", "must_be_array"),
        (7, "must_be_array"),
        ({"a": 1}, "must_be_array"),
        (["coffee.made"], 'contains invalid types: ["coffee.made"]'),
    ],
)
def test_event_types_that_are_refused(sent: object, code: str) -> None:
    with pytest.raises(Invalid) as refused:
        sent_event_types(sent)
    assert refused.value.details == {"event_types": [code]}


def test_unknown_algorithm_is_refused() -> None:
    assert endpoint_errors(replace(ENDPOINT, signature_algo="rot13")) == {"signature_algo": ["value_is_invalid"]}


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (
            [" Customer.Created ", "invoice.drafted ", " Invoice.DRAFTED", ""],
            ("customer.created", "invoice.drafted"),
        ),
        (["*"], None),
        ([" * ", "*"], None),
        ([], ()),
        ([""], ()),
        (["*", "customer.created"], ("*", "customer.created")),
    ],
)
def test_event_types_are_tidied(sent: list[str], kept: tuple[str, ...] | None) -> None:
    assert normalized_event_types(sent) == kept


def test_event_types_outside_the_catalogue_are_named() -> None:
    assert event_types_errors(("customer.created", "wrong.type")) == ['contains invalid types: ["wrong.type"]']
    assert event_types_errors(("*", "customer.created", "a")) == ['contains invalid types: ["*", "a"]']
    assert event_types_errors(tuple(OBJECT_TYPES)) == []


def test_endpoints_listen_to_all_some_or_no_events() -> None:
    event_types = [None, (), ("invoice.voided",)]
    heard = [listens_to(replace(ENDPOINT, event_types=types), "invoice.created") for types in event_types]
    assert heard == [True, False, False]


@pytest.mark.parametrize(("prefix", "headers"), [("svc_", "X-Svc-"), ("my_app_", "X-My-App-"), ("", "X-")])
def test_headers_are_named_after_the_prefix_of_ids(prefix: str, headers: str) -> None:
    assert header_prefix(prefix) == headers


def test_public_key_is_broken_into_lines_of_sixty() -> None:
    assert public_key_text("a" * 60) == "YWFh" * 15 + "\n" + "YWFh" * 5 + "\n"
    assert public_key_text("a" * 45) == "YWFh" * 15 + "\n"


@given(st.integers(0, 1000))
def test_waits_lie_within_their_bounds(jitter: int) -> None:
    assert 3000 <= retry_milliseconds(1, jitter) <= 3150
    assert 18000 <= retry_milliseconds(2, jitter) <= 20400
    assert 6 * 3_600_000 < retry_milliseconds(100, jitter) <= 7 * 3_600_000


@given(
    st.lists(st.sampled_from([None, 200, 201, 202, 204, 206, 301, 404, 500]), min_size=1, max_size=6), st.integers(1, 7)
)
def test_message_fails_after_as_many_failures_as_there_are_attempts(answers: list[int | None], attempts: int) -> None:
    message = MESSAGE
    for number, status in enumerate(answers, start=1):
        message = after_attempt(message, NOW, status, "text", MESSAGE.endpoint, attempts)
        if status in (200, 201, 202, 204):
            assert (message.status, message.retries, message.http_status) == ("succeeded", number - 1, status)
            return
        assert message.retries == number
        assert message.status == ("retrying" if number < attempts else "failed")
    given_statuses = [status for status in answers if status is not None]
    assert message.http_status == (given_statuses[-1] if given_statuses else None)


@pytest.mark.parametrize(
    ("failing_since", "status", "url", "after"),
    [
        (None, "succeeded", ENDPOINT.webhook_url, None),
        (None, "retrying", ENDPOINT.webhook_url, NOW),
        (None, "failed", ENDPOINT.webhook_url, NOW),
        # Its address has changed since.
        (None, "failed", "https://example.com/former", None),
        (NOW - timedelta(days=1), "retrying", ENDPOINT.webhook_url, NOW - timedelta(days=1)),
        (NOW - timedelta(days=1), "succeeded", ENDPOINT.webhook_url, None),
    ],
)
def test_an_endpoint_fails_from_the_first_failure_to_the_next_success(
    failing_since: datetime | None, status: MessageStatus, url: str, after: datetime | None
) -> None:
    message = replace(MESSAGE, status=status, endpoint=url, updated_at=NOW)
    endpoint = replace(ENDPOINT, failing_since=failing_since)
    assert endpoint_after_attempt(endpoint, message) == replace(ENDPOINT, failing_since=after)


def secret(value: str, hours: int | None = None) -> WebhookSecret:
    return WebhookSecret(value=value, expires_at=None if hours is None else NOW + timedelta(hours=hours))


@pytest.mark.parametrize(
    ("secrets", "valid"),
    [
        ((), ["shared"]),
        ((secret("b"),), ["b"]),
        ((secret("a", 1), secret("b")), ["a", "b"]),
        ((secret("a", 0), secret("b")), ["b"]),
        ((secret("a", -1), secret("b")), ["b"]),
    ],
)
def test_secrets_are_valid_until_they_expire(secrets: tuple[WebhookSecret, ...], valid: list[str]) -> None:
    endpoint = replace(ENDPOINT, secrets=secrets)
    assert [one.value for one in valid_secrets(endpoint, "shared", NOW)] == valid


@pytest.mark.parametrize(
    ("before", "hours", "after"),
    [
        ((), 5, (secret("shared", 5), secret("new"))),
        ((), None, (secret("new"),)),
        ((secret("b"),), 5, (secret("b", 5), secret("new"))),
        ((secret("a", 0), secret("b")), 5, (secret("b", 5), secret("new"))),
    ],
)
def test_the_present_secret_becomes_the_old_one(
    before: tuple[WebhookSecret, ...], hours: int | None, after: tuple[WebhookSecret, ...]
) -> None:
    endpoint = replace(ENDPOINT, signature_algo="hmac", secrets=before)
    ends = None if hours is None else NOW + timedelta(hours=hours)
    assert with_new_secret(endpoint, "shared", "new", NOW, ends).secrets == after
