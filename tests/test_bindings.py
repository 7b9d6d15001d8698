"""The arguments of library callers, and their interpretation."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import attrs
import pytest

from tests.scenarios import Scenario
from usagebill import Billing
from usagebill.core.errors import Invalid, NotFound
from usagebill.fields import EventFields
from usagebill.requests.inputs import Input
from usagebill.resources.bindings import exact


def test_keyword_arguments_are_the_fields_of_the_input() -> None:
    with Billing() as billing:
        made = billing.customers.upsert(external_id="acme", name="Acme", currency="EUR")
        assert (made.external_id, made.name, made.currency) == ("acme", "Acme", "EUR")
        assert billing.customers.get("acme") == made
        assert billing.customers.get(external_id="acme") == made
        assert billing.customers.upsert(external_id="acme", name=None).name is None


def test_lists_come_in_pages() -> None:
    with Billing() as billing:
        for number in range(5):
            billing.customers.upsert(external_id=f"c{number}", name="even" if number % 2 == 0 else "odd")
        page = billing.customers.list(page=2, per_page=2, search_term="even")
        assert (len(page.items), page.total_count) == (1, 3)
        assert billing.customers.list().total_count == 5


def test_unknown_arguments_are_named() -> None:
    with Billing() as billing:
        with pytest.raises(TypeError, match="unknown argument exernal_id; did you mean external_id"):
            billing.customers.upsert(exernal_id="acme")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="external_id is missing"):
            billing.customers.get()  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="takes 1 positional arguments"):
            billing.customers.get("acme", "other")  # type: ignore[call-arg]
        assert billing.customers.list().total_count == 0


def test_refusals_are_the_same_errors_as_over_http() -> None:
    with Billing() as billing:
        with pytest.raises(NotFound) as missing:
            billing.customers.get("nobody")
        assert missing.value.code == "customer_not_found"
        with pytest.raises(Invalid) as refused:
            billing.customers.upsert(external_id="acme", currency="XXX1")
        assert "currency" in refused.value.details


def test_view_is_what_the_api_shows() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        made = box.billing.customers.upsert(external_id="acme", name="Acme")
        _, body = box.send("GET", "/customers/acme")
        assert box.billing.view(made) == body["customer"]
        assert [item["external_id"] for item in box.billing.view(box.billing.customers.list())] == ["acme"]


@pytest.mark.parametrize(
    ("value", "understood"),
    [
        (0.1, Decimal("0.1")),
        (1e22, Decimal("1E+22")),
        (Decimal("1.10"), Decimal("1.10")),
        (date(2024, 2, 29), "2024-02-29"),
        (datetime(2024, 2, 29, tzinfo=UTC), "2024-02-29T00:00:00+00:00"),
        ({"ranges": ({"to": None, "price": 2.5},)}, {"ranges": [{"to": None, "price": Decimal("2.5")}]}),
        (True, True),
    ],
)
def test_values_are_taken_as_json_would_bring_them(value: object, understood: object) -> None:
    assert exact(value) == understood
    assert type(exact(value)) is type(understood)


def test_inputs_may_be_given_as_such() -> None:
    @Input
    class Address:
        city: str = "Ghent"

    assert attrs.asdict(exact(Address())) == {"city": "Ghent"}  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("-Infinity"), Decimal("1e9999999"), 10**400])
def test_infinities_and_monsters_are_no_numbers(value: object) -> None:
    with pytest.raises(ValueError, match="no number that can be billed"):
        exact({"amount": value})


def test_what_json_has_no_word_for_is_refused() -> None:
    with pytest.raises(TypeError, match="a set cannot be sent"):
        exact({"tags": {"a"}})


def test_events_take_datetimes_and_floats() -> None:
    named: EventFields = {"transaction_id": "a", "code": "storage", "external_subscription_id": "acme"}
    with Billing() as billing:
        happened = datetime(2024, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC)
        [event] = billing.events.ingest([{**named, "timestamp": happened, "properties": {"gb": 0.1}}])
        assert event.timestamp == happened
        assert event.properties == {"gb": Decimal("0.1")}
        assert billing.events.create(transaction_id="b", code="storage", timestamp=happened).timestamp == happened
        with pytest.raises(Invalid) as refused:
            billing.events.ingest([named, {**named, "transaction_id": "c"}])
        assert refused.value.details == {"0": {"transaction_id": ["value_already_exist"]}}
        assert billing.events.list().total_count == 2
