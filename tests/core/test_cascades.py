"""Which changes of a plan reach its overrides, in tables: what an override has made its own stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import pytest

from usagebill.core.cascades import (
    FixedChargeChange,
    added_charge,
    added_fixed_charge,
    changed_charge,
    changed_fixed_charge,
    copied_filters,
    linked_filters,
    with_amount,
)
from usagebill.core.plans import AppliedPricingUnit, Charge, ChargeFilter, FixedCharge, Plan

D = Decimal
THEN = datetime(2024, 1, 1, tzinfo=UTC)
NOW = THEN + timedelta(days=1)
DECLARED = {"region": ("eu", "us", "asia")}


def plan(amount_cents: int) -> Plan:
    return Plan(
        id="child",
        organization_id="org",
        name="Basic",
        code="basic",
        interval="monthly",
        amount_cents=amount_cents,
        amount_currency="EUR",
        pay_in_advance=False,
        created_at=THEN,
        updated_at=THEN,
        parent_id="plan",
    )


def charge(id: str = "charge", properties: Mapping[str, object] | None = None, **fields: Any) -> Charge:
    known: dict[str, Any] = {
        "id": id,
        "organization_id": "org",
        "plan_id": "plan",
        "billable_metric_id": "metric",
        "code": "calls",
        "charge_model": "standard",
        "properties": {"amount": "1"} if properties is None else properties,
        "created_at": THEN,
        "updated_at": THEN,
    }
    return Charge(**{**known, **fields})


def priced(amount: str, *regions: str, id: str = "filter") -> ChargeFilter:
    return ChargeFilter(
        id=id, values={"region": regions}, properties={"amount": amount}, created_at=THEN, updated_at=THEN
    )


def converted(id: str, rate: str) -> Charge:
    unit = AppliedPricingUnit(pricing_unit_id="u", code="credits", short_name="CR", conversion_rate=D(rate))
    return charge(id, applied_pricing_unit=unit)


def fixed(units: str = "2", amount: str = "5", **fields: Any) -> FixedCharge:
    known: dict[str, Any] = {
        "id": "fixed",
        "organization_id": "org",
        "plan_id": "plan",
        "add_on_id": "support",
        "code": "support",
        "charge_model": "standard",
        "properties": {"amount": amount},
        "units": D(units),
        "created_at": THEN,
        "updated_at": THEN,
    }
    return FixedCharge(**{**known, **fields})


def passed_on(
    copy: Charge, before: Charge, after: Charge, *, sent_model: str | None = None, code_sent: bool = False
) -> Charge:
    numbers = count(1)
    return changed_charge(
        copy,
        before,
        after,
        sent_model=sent_model,
        code_sent=code_sent,
        declared=DECLARED,
        new_id=lambda: f"new-{next(numbers)}",
        now=NOW,
    )


@pytest.mark.parametrize(
    ("override", "before", "after", "becomes"),
    [
        (1000, 1000, 1500, 1500),
        (1000, 1000, 0, 0),
        (800, 1000, 1500, 800),
        (1500, 1000, 1500, 1500),
        (1000, 1000, 1000, 1000),
    ],
    ids=["still the plan's", "made free", "its own", "its own, by chance the new one", "no change"],
)
def test_an_amount_follows_while_it_is_the_plans(override: int, before: int, after: int, becomes: int) -> None:
    changed = with_amount(plan(override), before=before, after=after, now=NOW)
    assert changed.amount_cents == becomes
    assert (changed.updated_at == NOW) is (becomes != override)


@pytest.mark.parametrize(
    ("copy", "before", "after", "becomes"),
    [
        ({"amount": "1"}, {"amount": "1"}, {"amount": "2"}, {"amount": "2"}),
        ({"amount": "1.00"}, {"amount": "1"}, {"amount": "2"}, {"amount": "2"}),
        (
            {"amount": "3"},
            {"amount": "1"},
            {"amount": "1", "pricing_group_keys": ["user"]},
            {"amount": "3", "pricing_group_keys": ["user"]},
        ),
        ({"amount": "3", "pricing_group_keys": ["user"]}, {"amount": "1"}, {"amount": "1"}, {"amount": "3"}),
    ],
    ids=["still the plan's", "the same number", "grouped", "grouped no longer"],
)
def test_prices_follow_while_they_are_the_plans_and_groupings_always(
    copy: Mapping[str, object], before: Mapping[str, object], after: Mapping[str, object], becomes: Mapping[str, object]
) -> None:
    changed = passed_on(charge("copy", copy), charge(properties=before), charge(properties=after))
    assert changed.properties == becomes
    assert changed.updated_at == NOW


def test_a_copy_with_prices_of_its_own_is_the_very_same() -> None:
    copy = charge("copy", {"amount": "3"})
    assert passed_on(copy, charge(), charge(properties={"amount": "2"})) is copy


@pytest.mark.parametrize(
    ("copy_model", "sent_model", "follows"),
    [
        ("standard", None, True),
        ("standard", "standard", True),
        ("package", None, False),
        ("standard", "package", False),
    ],
)
def test_only_copies_of_the_model_that_was_sent_follow(copy_model: str, sent_model: str | None, follows: bool) -> None:
    copy = charge("copy", charge_model=copy_model)
    changed = passed_on(copy, charge(), charge(properties={"amount": "2"}), sent_model=sent_model)
    assert (changed is not copy) is follows


@pytest.mark.parametrize(("code_sent", "code"), [(True, "requests"), (False, "calls")])
def test_a_code_follows_if_it_was_sent(code_sent: bool, code: str) -> None:
    copy = charge("copy", {"amount": "3"})
    assert passed_on(copy, charge(), charge(code="requests"), code_sent=code_sent).code == code


@pytest.mark.parametrize(("rate", "becomes"), [("1", "4"), ("3", "3")], ids=["still the plan's", "its own"])
def test_a_conversion_rate_follows_while_it_is_the_plans(rate: str, becomes: str) -> None:
    changed = passed_on(converted("copy", rate), converted("charge", "1"), converted("charge", "4"))
    assert changed.applied_pricing_unit is not None
    assert changed.applied_pricing_unit.conversion_rate == D(becomes)


EU, EU_DEARER, EU_OWN = priced("1", "eu"), priced("2", "eu"), priced("9", "eu", id="own")
US = priced("5", "us", id="us")


@pytest.mark.parametrize(
    ("copy", "before", "after", "becomes"),
    [
        ([EU], [EU], [EU_DEARER], {("eu",): "2"}),
        ([EU_OWN], [EU], [EU_DEARER], {("eu",): "9"}),
        ([EU_OWN], [EU], [], {}),
        ([EU, US], [EU], [], {("us",): "5"}),
        ([], [EU], [EU_DEARER], {}),
        ([EU], [EU], [EU, US], {("eu",): "1", ("us",): "5"}),
        ([EU, priced("7", "us", id="mine")], [EU], [EU, US], {("eu",): "1", ("us",): "7"}),
        ([EU], [EU], [EU, priced("5", "us", "mars", id="more")], {("eu",): "1", ("us",): "5"}),
        ([EU], [EU], [EU, priced("5", "mars", id="more")], {("eu",): "1"}),
    ],
    ids=[
        "still the plan's",
        "its own price",
        "removed, whatever its price",
        "another stays",
        "removed by the override before",
        "added",
        "added before by the override",
        "added without the values that the metric lacks",
        "none of its values is the metric's",
    ],
)
def test_filters_follow_one_by_one(
    copy: list[ChargeFilter],
    before: list[ChargeFilter],
    after: list[ChargeFilter],
    becomes: dict[tuple[str, ...], str],
) -> None:
    changed = passed_on(
        charge("copy", filters=tuple(copy)), charge(filters=tuple(before)), charge(filters=tuple(after))
    )
    assert {item.values["region"]: item.properties["amount"] for item in changed.filters} == becomes
    assert len({item.id for item in changed.filters}) == len(changed.filters)


def own(link: str | None, *regions: str) -> ChargeFilter:
    return replace(priced("1", *regions, id=f"own-{link}-{regions}"), parent_id=link)


@pytest.mark.parametrize(
    ("copies", "originals", "links"),
    [
        ([own("a", "eu")], [priced("1", "us", id="a"), priced("1", "eu", id="b")], ["a"]),
        ([own(None, "eu")], [priced("1", "us", id="a"), priced("1", "eu", id="b")], ["b"]),
        ([own(None, "eu"), own("a", "eu")], [priced("1", "eu", id="a"), priced("2", "eu", id="b")], ["b", "a"]),
        ([own(None, "eu"), own(None, "eu")], [priced("1", "eu", id="a"), priced("2", "eu", id="b")], ["a", "b"]),
        ([own(None, "eu"), own(None, "eu")], [priced("1", "eu", id="a")], ["a", None]),
        ([own("gone", "eu")], [priced("1", "eu", id="a")], ["a"]),
        ([own("gone", "eu")], [priced("1", "us", id="a")], ["gone"]),
        ([own(None, "asia")], [priced("1", "us", id="a")], [None]),
    ],
    ids=[
        "a link stays",
        "by values",
        "not one that another has",
        "in order",
        "each once",
        "removed and added anew",
        "removed",
        "its own",
    ],
)
def test_a_filter_is_linked_to_the_one_that_it_copies(
    copies: list[ChargeFilter], originals: list[ChargeFilter], links: list[str | None]
) -> None:
    assert [its.parent_id for its in linked_filters(copies, originals)] == links


def test_copies_of_filters_sort_by_age_as_their_originals() -> None:
    numbers = count(1)
    older, newer = priced("1", "eu", id="a"), replace(priced("2", "eu", id="b"), created_at=NOW)
    copies = copied_filters([newer, older], new_id=lambda: f"new-{next(numbers)}")
    assert [(its.id, its.parent_id) for its in copies] == [("new-2", "b"), ("new-1", "a")]


def test_an_added_charge_is_copied_with_filters_of_its_own_and_without_taxes() -> None:
    numbers = count(1)
    added = charge(filters=(EU, US), tax_ids=("vat",))
    copy = added_charge(added, plan(1000), new_id=lambda: f"new-{next(numbers)}", now=NOW)
    assert (copy.plan_id, copy.parent_id, copy.tax_ids) == ("child", "charge", ())
    assert copy.properties == added.properties
    assert {copy.id, *(item.id for item in copy.filters)} == {"new-1", "new-2", "new-3"}


@pytest.mark.parametrize(
    ("copy", "follows"),
    [
        (fixed(), True),
        (fixed(amount="5.0"), True),
        (fixed(units="3"), False),
        (fixed(amount="6"), False),
        (fixed(charge_model="volume"), False),
    ],
    ids=["still the plan's", "the same number", "its own units", "its own price", "its own model"],
)
def test_a_fixed_charge_follows_while_all_of_it_is_the_plans(copy: FixedCharge, follows: bool) -> None:
    after = fixed(units="4", amount="7")
    changed = changed_fixed_charge(replace(copy, id="copy", plan_id="child"), fixed(), after, NOW)
    assert changed.id == "copy"
    assert ((changed.units, changed.properties) == (after.units, after.properties)) is follows


def test_an_added_fixed_charge_is_copied_without_taxes() -> None:
    copy = added_fixed_charge(fixed(tax_ids=("vat",)), plan(1000), new_id=lambda: "new")
    assert (copy.id, copy.plan_id, copy.parent_id, copy.tax_ids) == ("new", "child", "fixed", ())


@pytest.mark.parametrize(
    ("before", "after", "other_units"),
    [
        (None, fixed(), True),
        (fixed(), fixed(units="3"), True),
        (fixed(), fixed(amount="6"), False),
        (fixed(), None, False),
    ],
    ids=["added", "more units", "another price", "removed"],
)
def test_units_change_with_units_alone(
    before: FixedCharge | None, after: FixedCharge | None, other_units: bool
) -> None:
    assert FixedChargeChange(before=before, after=after).other_units is other_units
