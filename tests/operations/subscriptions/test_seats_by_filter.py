"""Seats in advance over an upgrade, by filter, group and charge: what was paid for one seat pays for no other."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on, filter_on

pytestmark = [pytest.mark.now("2024-10-01T00:00:00Z"), pytest.mark.usefixtures("acme")]

REGIONS = [{"key": "region", "values": ["eu", "us", "asia"]}]


def ahead(metric: str, amount: str = "31", **fields: Any) -> dict[str, Any]:
    """A charge in advance, at 1.00 a day of October and of a seat."""
    return charge_on(metric, amount=amount, **{"pay_in_advance": True, "prorated": True, **fields})


def october(box: Scenario, old: list[dict[str, Any]], new: list[dict[str, Any]], *regions: str) -> int:
    aggregation = box.get("/billable_metrics/seats")["billable_metric"]["aggregation_type"]
    """The cents for seats of October, one in each region, from a plan to another on the 16th."""
    box.plan(*old, code="old")
    box.plan(*new, code="new", amount_cents=1000)
    box.subscribe("old")
    for number, region in enumerate(regions):
        box.event("seats", value=1 if aggregation == "sum_agg" else number, region=region)
    box.travel_to("2024-10-16T12:00:00Z")
    box.subscribe("new")
    box.travel_to("2024-10-31T12:00:00Z")
    assert box.billing.audit().findings == ()
    credited = sum(
        int(item["amount_cents"]) for note in box.get("/credit_notes")["credit_notes"] for item in note["items"]
    )
    return sum(int(fee["amount_cents"]) for fee in box.usage_fees()) - credited


@pytest.fixture(params=["sum_agg", "unique_count_agg"])
def seats(request: pytest.FixtureRequest, box: Scenario) -> str:
    return box.metric("seats", request.param, recurring=True, filters=REGIONS)


EU, US = filter_on({"region": ["eu"]}, amount="31"), filter_on({"region": ["us"]}, amount="31")


def charges(metric: str, *terms: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Charges in advance: with filters only those are charged, without (None) every seat."""
    return [ahead(metric) if filters is None else ahead(metric, "0", filters=filters) for filters in terms]


@pytest.mark.parametrize(
    ("old", "new", "days"),
    [
        pytest.param([[EU]], [[EU], [US]], 31 + 16, id="one region, then each in a charge of its own"),
        pytest.param([[EU]], [[US], [EU]], 31 + 16, id="one region, then each in another order"),
        pytest.param([[EU]], [[EU, US]], 31 + 16, id="one region, then both"),
        pytest.param([[EU]], [None], 31 + 16, id="one region, then all"),
        pytest.param([[EU]], [[US]], 31 + 16, id="one region, then the other"),
        pytest.param([[EU], [US]], [None], 31 + 31, id="each in a charge of its own, then all"),
        pytest.param([[EU], [US]], [[US], [EU]], 31 + 31, id="each in a charge of its own, twice"),
        pytest.param([[EU, US]], [[US], [EU]], 31 + 31, id="both, then each in a charge of its own"),
        pytest.param([None], [[EU], [US]], 31 + 31, id="all, then each in a charge of its own"),
        pytest.param([None], [None], 31 + 31, id="all, twice"),
    ],
)
def test_what_was_paid_for_one_region_pays_for_no_other(
    box: Scenario, seats: str, old: list[Any], new: list[Any], days: int
) -> None:
    assert october(box, charges(seats, *old), charges(seats, *new), "eu", "us") == days * 100


@pytest.mark.parametrize(("old", "new", "days"), [(1, 2, 31 + 16), (2, 2, 31 + 31), (2, 1, 31 + 31)])
def test_a_day_that_was_paid_once_pays_for_one_charge(box: Scenario, seats: str, old: int, new: int, days: int) -> None:
    assert october(box, charges(seats, *[None] * old), charges(seats, *[None] * new), "eu") == days * 100


def test_the_charge_of_the_same_code_comes_first(box: Scenario, seats: str) -> None:
    old = [ahead(seats, code="licence")]
    new = [ahead(seats, "62", code="support"), ahead(seats, code="licence")]
    assert october(box, old, new, "eu") == (31 + 32) * 100


@pytest.mark.parametrize(("old", "new"), [([], ["region"]), (["region"], []), (["region"], ["region"])])
def test_groups_are_paid_for_by_others(box: Scenario, seats: str, old: list[str], new: list[str]) -> None:
    grouped = [ahead(seats, pricing_group_keys=keys) for keys in (old, new)]
    assert october(box, grouped[:1], grouped[1:], "eu", "us") == (31 + 31) * 100


def test_seats_in_arrears_beside_those_in_advance_were_not_paid_for(box: Scenario, seats: str) -> None:
    """The seat in the US is paid in arrears for 15 days, and in advance for 16."""
    in_arrears = charge_on(seats, amount="0", prorated=True, filters=[US])
    assert october(box, [*charges(seats, [EU]), in_arrears], charges(seats, [EU], [US]), "eu", "us") == 62_00


def in_arrears(metric: str, *terms: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Charges in arrears, as `charges`."""
    return [
        charge_on(metric, amount="0" if filters else "31", prorated=True, **({"filters": filters} if filters else {}))
        for filters in terms
    ]


@pytest.mark.parametrize(
    ("old", "ahead_then", "arrears_then", "credited"),
    [
        pytest.param([None, None], [], [None], 2 * 2 * 16, id="two charges, then one in arrears"),
        pytest.param([[EU], [US]], [], [None], 2 * 16, id="each in a charge of its own, then all in arrears"),
        pytest.param([[EU], [US]], [[EU]], [[US]], 16, id="then one in advance and the other in arrears"),
        pytest.param([None], [[EU]], [[US]], 16, id="all, then one in advance and the other in arrears"),
        pytest.param([[EU]], [[EU]], [[US]], 0, id="one, then that one in advance and the other in arrears"),
        pytest.param([None, None], [None], [None], 2 * 16, id="two charges, one of them then in arrears"),
    ],
)
def test_only_what_is_billed_again_in_arrears_is_credited(
    box: Scenario, seats: str, old: list[Any], ahead_then: list[Any], arrears_then: list[Any], credited: int
) -> None:
    new = [*charges(seats, *ahead_then), *in_arrears(seats, *arrears_then)]
    billed = 31 * 2 * len(old) if None in old else 31 * len(old)
    assert october(box, charges(seats, *old), new, "eu", "us") == (billed - credited) * 100
