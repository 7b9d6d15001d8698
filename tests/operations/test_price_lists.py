"""Price lists as files: what is pulled is what is applied, all or nothing, and no rise goes unseen."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.scenarios import Scenario, fees_of

from usagebill.core.errors import BillingError, Invalid, NotFound
from usagebill.core.price_lists import change_text
from usagebill.testing import Sandbox

pytestmark = pytest.mark.now("2024-02-01T00:00:00Z")

RANGES = [
    {"from_value": 0, "to_value": 10, "per_unit_amount": "1", "flat_amount": "0"},
    {"from_value": 11, "to_value": None, "per_unit_amount": "0.5", "flat_amount": "2"},
]
# One of everything, with every field that can be set beside the others.
EVERYTHING: dict[str, Any] = {
    "taxes": [{"name": "VAT", "code": "vat", "rate": "20.5", "applied_to_organization": True}],
    "billable_metrics": [
        {
            "name": "Calls",
            "code": "calls",
            "aggregation_type": "sum_agg",
            "field_name": "n",
            "recurring": False,
            "rounding_function": "ceil",
            "rounding_precision": 2,
            "filters": [{"key": "region", "values": ["eu", "us"]}],
        },
        {
            "name": "Seats",
            "code": "seats",
            "aggregation_type": "unique_count_agg",
            "field_name": "id",
            "recurring": True,
        },
    ],
    "features": [
        {"code": "more"},
        {
            "code": "support",
            "name": "Support",
            "privileges": [
                {"code": "hours", "value_type": "integer"},
                {"code": "level", "value_type": "select", "config": {"select_options": ["basic", "gold"]}},
            ],
        },
    ],
    "add_ons": [
        {"name": "Setup", "code": "setup", "amount_cents": 5000, "amount_currency": "EUR", "tax_codes": ["vat"]}
    ],
    "plans": [
        {
            "name": "Pro",
            "code": "pro",
            "interval": "yearly",
            "description": "For teams",
            "amount_cents": 1000,
            "amount_currency": "EUR",
            "trial_period": "2.5",
            "pay_in_advance": False,
            "bill_charges_monthly": True,
            "bill_fixed_charges_monthly": False,
            "offered_in_portal": True,
            "tax_codes": ["vat"],
            "minimum_commitment": {"amount_cents": 500, "invoice_display_name": "Minimum", "tax_codes": ["vat"]},
            "charges": [
                {
                    "code": "calls",
                    "billable_metric_code": "calls",
                    "charge_model": "graduated",
                    "invoice_display_name": "Calls made",
                    "pay_in_advance": False,
                    "prorated": False,
                    "invoiceable": True,
                    "min_amount_cents": 100,
                    "accepts_target_wallet": False,
                    "properties": {"graduated_ranges": RANGES, "pricing_group_keys": ["team"]},
                    "filters": [
                        {
                            "invoice_display_name": "America",
                            "properties": {"graduated_ranges": RANGES},
                            "values": {"region": ["us"]},
                        }
                    ],
                    "tax_codes": ["vat"],
                },
                {
                    "code": "seats",
                    "billable_metric_code": "seats",
                    "charge_model": "standard",
                    "pay_in_advance": True,
                    "prorated": True,
                    "invoiceable": False,
                    "regroup_paid_fees": "invoice",
                    "min_amount_cents": 0,
                    "accepts_target_wallet": False,
                    "properties": {"amount": "3"},
                },
            ],
            "fixed_charges": [
                {
                    "code": "setup",
                    "add_on_code": "setup",
                    "units": 2,
                    "charge_model": "standard",
                    "pay_in_advance": False,
                    "prorated": False,
                    "properties": {"amount": "3"},
                    "tax_codes": ["vat"],
                }
            ],
            "usage_thresholds": [
                {"amount_cents": 1000, "threshold_display_name": "First", "recurring": False},
                {"amount_cents": 500, "recurring": True},
            ],
            "metadata": {"tier": "gold"},
            "entitlements": {"support": {"hours": 5, "level": "gold"}},
        }
    ],
    "coupons": [
        {
            "name": "Welcome",
            "code": "welcome",
            "coupon_type": "percentage",
            "percentage_rate": "10.5",
            "frequency": "recurring",
            "frequency_duration": 3,
            "expiration": "time_limit",
            "expiration_at": "2030-01-01T00:00:00Z",
            "reusable": False,
            "applies_to": {"plan_codes": ["pro"]},
        }
    ],
}


def everything() -> dict[str, Any]:
    return copy.deepcopy(EVERYTHING)


def simple() -> dict[str, Any]:
    """A metric and a plan that charges 10.00 a month and 0.50 a call."""
    charge = {
        "code": "calls",
        "billable_metric_code": "calls",
        "charge_model": "standard",
        "properties": {"amount": "0.5"},
    }
    plan = {"name": "Pro", "code": "pro", "interval": "monthly", "amount_cents": 1000, "amount_currency": "EUR"}
    return {
        "billable_metrics": [{"name": "Calls", "code": "calls", "aggregation_type": "sum_agg", "field_name": "n"}],
        "plans": [{**plan, "pay_in_advance": False, "charges": [charge]}],
    }


def use(box: Scenario) -> None:
    """February of a subscription with 20 calls, seen from 5 March."""
    subscribe(box)
    box.travel_to("2024-03-05T00:00:00Z")


def subscribe(box: Scenario) -> None:
    """A subscription with 20 calls."""
    box.customer("acme")
    box.subscribe(external_customer_id="acme", plan_code="pro", external_id="acme")
    box.event("calls", "acme", n=20)


def words(box: Scenario, prices: dict[str, Any], **options: Any) -> list[str]:
    return [change_text(change) for change in box.billing.prices.diff(prices, **options).changes]


def test_what_is_applied_is_what_is_pulled(box: Scenario) -> None:
    box.billing.prices.apply(EVERYTHING)
    pulled = box.billing.prices.pull()
    assert pulled == EVERYTHING
    with Sandbox(now="2024-02-01T00:00:00Z") as other:
        other.billing.prices.apply(pulled)
        assert other.billing.prices.pull() == pulled


def test_applied_again_it_changes_nothing(box: Scenario) -> None:
    prices = simple()
    assert len(box.billing.prices.apply(prices).changes) == 2
    box.travel_to("2024-02-02T00:00:00Z")
    before = box.get("/plans/pro"), len(box.webhooks)
    assert box.billing.prices.apply(prices).changes == ()
    assert box.billing.prices.apply(box.billing.prices.pull()).changes == ()
    assert (box.get("/plans/pro"), len(box.webhooks)) == before
    assert box.billing.plans.get("pro").updated_at < box.billing.clock.now()


CHANGES: list[tuple[str, list[Any], object]] = [
    ("taxes[0]", ["rate"], 21),
    ("billable_metrics[0]", ["name"], "Requests"),
    ("billable_metrics[0]", ["description"], "All of them"),
    ("features[0]", ["name"], "More"),
    ("add_ons[0]", ["amount_cents"], 1),
    ("add_ons[0]", ["tax_codes"], None),
    ("plans[0]", ["amount_cents"], 900),
    ("plans[0]", ["description"], None),
    ("plans[0]", ["trial_period"], None),
    ("plans[0]", ["bill_charges_monthly"], False),
    ("plans[0]", ["tax_codes"], None),
    ("plans[0]", ["minimum_commitment"], None),
    ("plans[0]", ["minimum_commitment", "invoice_display_name"], None),
    ("plans[0]", ["minimum_commitment", "tax_codes"], None),
    ("plans[0]", ["usage_thresholds"], None),
    ("plans[0]", ["metadata"], None),
    ("plans[0]", ["offered_in_portal"], False),
    ("plans[0]", ["entitlements"], None),
    ("plans[0]", ["entitlements", "support", "hours"], 8),
    ("plans[0]", ["entitlements", "more"], {}),
    ("plans[0]", ["charges", 0, "filters"], None),
    ("plans[0]", ["charges", 0, "filters", 0, "invoice_display_name"], None),
    ("plans[0]", ["charges", 0, "min_amount_cents"], 0),
    ("plans[0]", ["charges", 0, "tax_codes"], None),
    ("plans[0]", ["charges", 0, "invoice_display_name"], None),
    ("plans[0]", ["charges", 1, "properties", "amount"], "2.5"),
    ("plans[0]", ["fixed_charges", 0, "units"], 3),
    ("plans[0]", ["fixed_charges", 0, "tax_codes"], None),
    ("coupons[0]", ["percentage_rate"], "5.0"),
    ("coupons[0]", ["applies_to"], None),
    ("coupons[0]", ["reusable"], True),
]


@pytest.mark.parametrize(("record", "path", "value"), CHANGES)
def test_each_field_becomes_what_the_list_says(box: Scenario, record: str, path: list[Any], value: object) -> None:
    box.billing.prices.apply(EVERYTHING)
    prices = everything()
    section = record.partition("[")[0]
    inner: Any = prices[section][0]
    for name in path[:-1]:
        inner = inner[name]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    changes = box.billing.prices.diff(prices).changes
    assert {(change.section, change.code) for change in changes} == {(section, prices[section][0]["code"])}
    box.billing.prices.apply(prices)
    assert box.billing.prices.pull() == prices


def test_what_is_written_in_another_way_is_the_same(box: Scenario) -> None:
    prices = everything()
    prices["coupons"][0]["expiration_at"] = "2030-01-01"
    del prices["plans"][0]["charges"][0]["properties"]["graduated_ranges"][1]["to_value"]
    del prices["plans"][0]["charges"][0]["prorated"], prices["plans"][0]["charges"][0]["invoiceable"]
    prices["billable_metrics"][0]["filters"][0]["values"] = ["us", "eu"]
    prices["taxes"][0]["rate"] = "20.50"
    box.billing.prices.apply(prices)
    assert box.billing.prices.pull() == EVERYTHING
    assert box.billing.prices.apply(prices).changes == ()


def test_a_list_is_applied_as_a_whole_or_not_at_all(box: Scenario) -> None:
    prices = simple()
    prices["plans"].append(
        {**prices["plans"][0], "code": "other", "charges": [{"code": "x", "charge_model": "standard"}]}
    )
    with pytest.raises(NotFound):
        box.billing.prices.apply(prices)
    assert box.billing.prices.pull() == {}


def test_a_rise_needs_a_word_and_is_named_with_its_number_and_amount(box: Scenario) -> None:
    box.billing.prices.apply(simple())
    use(box)
    prices = simple()
    prices["plans"][0]["charges"][0]["properties"]["amount"] = "0.75"
    # 20 calls: 20.00 before, 25.00 after.
    found = box.billing.prices.diff(prices)
    assert [change_text(change) for change in found.changes] == [
        "plans pro: charges[calls].properties.amount 0.5 -> 0.75"
    ]
    assert (found.effects["pro"].old_cents, found.effects["pro"].new_cents) == (2000, 2500)
    with pytest.raises(Invalid, match=r"1 of 1 subscriptions of plan pro would have paid 5.00 EUR more for last month"):
        box.billing.prices.apply(prices)
    assert words(box, simple()) == []
    box.billing.prices.apply(prices, effective="immediately")
    assert words(box, simple()) == ["plans pro: charges[calls].properties.amount 0.75 -> 0.5"]
    # A fall needs no word.
    box.billing.prices.apply(simple())


def test_a_rise_for_subscriptions_of_this_month_is_one_too(box: Scenario) -> None:
    box.billing.prices.apply(simple())
    box.travel_to("2024-02-20T00:00:00Z")
    box.customer("new")
    box.subscribe(external_customer_id="new", plan_code="pro", external_id="new")
    prices = simple()
    prices["plans"][0]["amount_cents"] = 2900
    with pytest.raises(Invalid, match="more for this month so far"):
        box.billing.prices.apply(prices)
    with pytest.raises(Invalid) as refused:
        box.billing.prices.apply(prices, effective="some day")
    assert refused.value.details == {"effective": ["value_is_invalid"]}


def costs(box: Scenario) -> list[tuple[str, int]]:
    """The first day of each line of usage, and its cents."""
    return [
        (str(fee["from_date"])[:10], fee["amount_cents"])
        for invoice in box.invoices()
        for fee in fees_of(invoice, "charge")
    ]


@pytest.mark.parametrize(
    ("effective", "february"), [("immediately", 1500), ("next_period", 1000), ("2024-03-15", 1000)]
)
def test_a_list_counts_from_when_it_says(box: Scenario, effective: str, february: int) -> None:
    box.billing.prices.apply(simple())
    subscribe(box)
    box.travel_to("2024-02-10T00:00:00Z")
    prices = simple()
    prices["plans"][0]["charges"][0]["properties"]["amount"] = "0.75"
    changed = box.billing.prices.apply(prices, effective=effective)
    assert [change_text(change) for change in changed.changes] == [
        "plans pro: charges[calls].properties.amount 0.5 -> 0.75"
    ]
    assert box.billing.prices.apply(prices, effective=effective).changes == ()
    for day in ("2024-03-10", "2024-04-10"):
        box.travel_to(f"{day}T00:00:00Z")
        box.event("calls", "acme", n=20)
    assert words(box, prices) == []
    box.travel_to("2024-05-02T00:00:00Z")
    march = 1000 if effective == "2024-03-15" else 1500
    assert costs(box)[-3:] == [("2024-02-01", february), ("2024-03-01", march), ("2024-04-01", 1500)]
    assert box.billing.audit().findings == ()


def test_a_list_for_a_day_comes_after_what_waits_already(box: Scenario) -> None:
    box.billing.prices.apply(simple())
    use(box)
    prices = simple()
    prices["plans"][0]["amount_cents"] = 1200
    box.billing.prices.apply(prices, effective="2024-04-01")
    prices["plans"][0]["amount_cents"] = 1900
    changed = box.billing.prices.apply(prices, effective="2024-05-01")
    assert [change_text(change) for change in changed.changes] == ["plans pro: amount_cents 1200 -> 1900"]
    assert words(box, simple()) == []
    box.travel_to("2024-05-01T00:10:00Z")
    assert words(box, prices) == []


def test_what_cannot_wait_is_refused_with_its_name_and_changes_nothing(box: Scenario) -> None:
    box.billing.prices.apply(simple())
    use(box)
    charge, tax = simple(), simple()
    charge["plans"][0]["charges"].append({**charge["plans"][0]["charges"][0], "code": "more"})
    tax["taxes"] = [{"name": "VAT", "code": "vat", "rate": 20, "applied_to_organization": True}]
    box.billing.prices.apply(tax)
    before = box.billing.prices.pull()
    rate = {**tax, "taxes": [{**tax["taxes"][0], "rate": 21}]}
    for prices, named in (
        (charge, "plan pro: more than prices"),
        (rate, "tax vat: it changes at once"),
    ):
        for effective in ("next_period", "2024-04-01"):
            with pytest.raises(Invalid, match=named) as refused:
                box.billing.prices.apply(prices, effective=effective)
            assert refused.value.details == {"effective": ["only_prices_can_wait"]}
    with pytest.raises(Invalid) as refused:
        box.billing.prices.apply(tax, effective="2024-01-01")
    assert refused.value.details == {"effective": ["cannot_be_in_past"]}
    assert box.billing.prices.pull() == before


def test_subscriptions_with_prices_of_their_own_follow_cascades(box: Scenario) -> None:
    box.billing.prices.apply(simple())
    use(box)
    box.billing.subscriptions.update("acme", plan_overrides={"name": "Own"})
    prices = simple()
    prices["plans"][0]["amount_cents"] = 1500
    box.billing.prices.apply(prices)
    assert box.get("/subscriptions/acme")["subscription"]["plan_amount_cents"] == 1000
    prices["plans"][0]["amount_cents"] = 1000
    box.billing.prices.apply(prices)
    prices["plans"][0]["amount_cents"] = 2000
    with pytest.raises(Invalid, match=r"would have paid 10\.00 EUR more"):
        box.billing.prices.apply(prices, cascade_updates=True)
    box.billing.prices.apply(prices, cascade_updates=True, effective="immediately")
    assert box.get("/subscriptions/acme")["subscription"]["plan_amount_cents"] == 2000


def test_what_is_not_named_is_kept_unless_deletion_is_asked_for(box: Scenario) -> None:
    box.billing.prices.apply(EVERYTHING)
    prices = everything()
    del prices["coupons"], prices["plans"][0]["charges"][1], prices["features"][1]["privileges"][1]
    del prices["plans"][0]["entitlements"]["support"]["level"]
    found = box.billing.prices.apply(prices)
    assert found.kept == (("plans pro: charges", "seats"), ("coupons", "welcome"))
    kept = box.billing.prices.pull()
    assert [charge["code"] for charge in kept["plans"][0]["charges"]] == ["calls", "seats"]
    assert kept["coupons"] == EVERYTHING["coupons"]
    assert words(box, prices, delete=True) == [
        "features support: privileges[level] removed",
        "plans pro: charges[seats] removed",
        "coupons welcome: deleted",
    ]
    box.billing.prices.apply(prices, delete=True)
    assert box.billing.prices.pull() == prices


def test_a_list_is_refused_that_deletes_what_it_names(box: Scenario) -> None:
    box.billing.prices.apply(simple())
    prices = simple()
    del prices["billable_metrics"]
    with pytest.raises(Invalid) as refused:
        box.billing.prices.apply(prices, delete=True)
    assert "plans[0].charges[0].billable_metric_code" in refused.value.details
    assert words(box, simple(), delete=True) == []


def test_no_plan_is_deleted_from_under_its_subscriptions(box: Scenario) -> None:
    box.billing.prices.apply(simple())
    use(box)
    prices = {**simple(), "plans": []}
    with pytest.raises(Invalid, match="plan pro is not in the list, but has 1 subscriptions"):
        box.billing.prices.apply(prices, delete=True)
    assert words(box, simple()) == []


@pytest.mark.parametrize(
    ("path", "value", "details"),
    [
        (["interval"], "yearly", {"plans[0].interval": ["value_is_not_editable"]}),
        (["charges", 0, "pay_in_advance"], True, {"plans[0].charges[0].pay_in_advance": ["value_is_not_editable"]}),
        (["charges", 0, "prorated"], True, None),
        (["charges", 0, "id"], "x", {"plans[0].charges[0].id": ["unknown_field"]}),
        (["cascade_updates"], True, {"plans[0].cascade_updates": ["unknown_field"]}),
        (["amount"], 1, {"plans[0].amount": ["unknown_field"]}),
        (["charges", 0, "code"], None, {"plans[0].charges[0].code": ["value_is_mandatory"]}),
        (["amount_cents"], "x", {"amount_cents": ["is not a number"]}),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    box: Scenario, path: list[Any], value: object, details: object
) -> None:
    box.billing.prices.apply(simple())
    use(box)
    prices = simple()
    inner: Any = prices["plans"][0]
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    with pytest.raises(BillingError) as refused:
        box.billing.prices.apply(prices, effective="immediately")
    if details is not None:
        assert isinstance(refused.value, Invalid)
        assert refused.value.details == details
    assert words(box, simple()) == []


def test_a_code_is_there_once(box: Scenario) -> None:
    prices = simple()
    prices["plans"].append(prices["plans"][0])
    with pytest.raises(Invalid) as refused:
        box.billing.prices.apply(prices)
    assert refused.value.details == {"plans[1].code": ["value_already_exist"]}
