"""Fixed charges on invoices: units, their changes in mid-period, and plan changes, to the cent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.money import share
from tests.scenarios import Scenario, fees_of, price_ranges

RANGES = {"graduated_ranges": price_ranges((0, 3, "2", "1"), (4, None, "1", "0.5"))}
VOLUMES = {"volume_ranges": RANGES["graduated_ranges"]}


class Seats(Scenario):
    """A customer, and the add-on `seat` for the fixed charges of plans."""

    def __init__(self, now: str) -> None:
        super().__init__(now)
        self.customer()
        self.seat = self.add_on("seat", 1000)

    def fixed(self, amount: str = "10", units: int = 10, **fields: Any) -> dict[str, Any]:
        properties = fields.pop("properties", {"amount": amount})
        return {
            "add_on_id": self.seat,
            "code": "seat",
            "charge_model": "standard",
            "units": units,
            "properties": properties,
            **fields,
        }

    def change_units(self, units: int, *, at_once: bool = True, subscription: bool = False) -> None:
        path = "/subscriptions/sub" if subscription else "/plans/basic"
        body = {"fixed_charge": {"units": units, "apply_units_immediately": at_once}}
        self.ask("PUT", f"{path}/fixed_charges/seat", body)

    def fees(self) -> list[list[int]]:
        """Cents of the fixed charges, invoice by invoice, of those that have any."""
        amounts = [[fee["amount_cents"] for fee in fees_of(invoice, "fixed_charge")] for invoice in self.invoices()]
        return [cents for cents in amounts if cents]


@pytest.fixture
def seats() -> Iterator[Seats]:
    with Seats(now="2024-03-01T00:00:00Z") as seats:
        yield seats


def test_units_are_prorated_by_the_days_of_the_whole_month() -> None:
    with Seats(now="2024-02-04T00:00:00Z") as seats:
        seats.plan(fixed_charges=[seats.fixed("200", prorated=True)])
        seats.subscribe()
        seats.travel_to("2024-03-01T01:00:00Z")
        assert seats.fees() == [[share(10 * 20_000, 26, 29)]]


@pytest.mark.parametrize("subscription", [False, True])
@pytest.mark.parametrize(
    ("changes", "billed"), [([15], [5_000]), ([5], [0]), ([5, 15], [0, 5_000]), ([15, 5, 20], [5_000, 0, 5_000])]
)
def test_units_added_at_once_are_billed_once_and_never_given_back(
    seats: Seats, changes: list[int], billed: list[int], subscription: bool
) -> None:
    seats.plan(fixed_charges=[seats.fixed(pay_in_advance=True)])
    seats.subscribe()
    for day, units in enumerate(changes, 10):
        seats.travel_to(f"2024-03-{day}T09:00:00Z")
        seats.change_units(units, subscription=subscription)
    assert seats.fees() == [[10 * 1_000], *([cents] for cents in billed)]


@pytest.mark.parametrize("subscription", [False, True])
def test_prorated_units_added_at_once_are_billed_for_the_days_left(seats: Seats, subscription: bool) -> None:
    seats.plan(fixed_charges=[seats.fixed(pay_in_advance=True, prorated=True)])
    seats.subscribe()
    for day, units in ((20, 15), (25, 20)):
        seats.travel_to(f"2024-03-{day}T05:00:00Z")
        seats.change_units(units, subscription=subscription)
    seats.travel_to("2024-04-01T01:00:00Z")
    assert seats.fees() == [[10 * 1_000], [share(5 * 1_000, 12, 31)], [share(5 * 1_000, 7, 31)], [20 * 1_000]]


@pytest.mark.parametrize("pay_in_advance", [False, True])
def test_units_changed_for_the_next_period_leave_this_one_alone(seats: Seats, pay_in_advance: bool) -> None:
    seats.plan(fixed_charges=[seats.fixed(pay_in_advance=pay_in_advance)])
    seats.subscribe()
    seats.travel_to("2024-03-20T05:00:00Z")
    seats.change_units(15, at_once=False)
    seats.travel_to("2024-05-01T01:00:00Z")
    assert seats.fees() == [[10_000], [15_000], [15_000]][: 3 if pay_in_advance else 2]


@pytest.mark.parametrize(
    ("interval", "start", "added", "cents"),
    [
        ("monthly", "2024-03-01T00:00:00Z", "2024-03-15T09:00:00Z", share(10_000, 17, 31)),
        ("weekly", "2024-03-04T00:00:00Z", "2024-03-07T09:00:00Z", share(10_000, 4, 7)),
        ("yearly", "2024-01-01T00:00:00Z", "2024-07-01T09:00:00Z", share(10_000, 184, 366)),
    ],
)
def test_a_fixed_charge_added_in_mid_period_is_billed_for_the_days_left(
    interval: str, start: str, added: str, cents: int
) -> None:
    with Seats(now=start) as seats:
        seats.plan(interval=interval)
        seats.subscribe()
        seats.travel_to(added)
        charge = seats.fixed(pay_in_advance=True, prorated=True, apply_units_immediately=True)
        seats.post("/plans/basic/fixed_charges", fixed_charge=charge)
        assert seats.fees() == [[cents]]


def test_an_upgrade_deducts_what_the_old_plan_was_paid_for_the_days_left() -> None:
    with Seats(now="2023-08-01T00:00:00Z") as seats:
        seats.plan(fixed_charges=[seats.fixed("15", 1, pay_in_advance=True, prorated=True)])
        seats.subscribe()
        seats.travel_to("2023-08-21T12:00:00Z")
        more = seats.fixed("100", 1, pay_in_advance=True, prorated=True)
        seats.plan(code="pro", fixed_charges=[more], amount_cents=100)
        seats.subscribe("pro")
        assert seats.fees() == [[1_500], [share(10_000 - 1_500, 11, 31)]]


@pytest.mark.parametrize(("given_back", "owed"), [(3_000, 2_000), (500, 500), (0, 0)])
def test_what_a_credit_note_gave_back_pays_for_nothing_after_an_upgrade(given_back: int, owed: int) -> None:
    """30.00 for April, upgrade on the 11th: 20 days are left."""
    with Seats(now="2024-04-01T00:00:00Z") as seats:
        charge = seats.fixed("30", 1, pay_in_advance=True, prorated=True)
        seats.plan(fixed_charges=[charge])
        seats.plan(code="pro", fixed_charges=[charge], amount_cents=100)
        seats.subscribe()
        (invoice,) = seats.invoices()
        if given_back:
            items = [{"fee_id": fees_of(invoice, "fixed_charge")[0]["svc_id"], "amount_cents": given_back}]
            note = {"invoice_id": invoice["svc_id"], "credit_amount_cents": given_back, "items": items}
            seats.post("/credit_notes", credit_note=note)
        seats.travel_to("2024-04-11T12:00:00Z")
        seats.subscribe("pro")
        assert seats.fees() == [[3_000], [owed]]
        assert seats.billing.audit().findings == ()


def test_the_new_plan_bills_the_day_of_an_upgrade_in_arrears() -> None:
    with Seats(now="2023-08-01T00:00:00Z") as seats:
        seats.plan(fixed_charges=[seats.fixed("10", 1, prorated=True)])
        seats.subscribe()
        seats.travel_to("2023-08-21T12:00:00Z")
        seats.plan(code="pro", fixed_charges=[seats.fixed("100", 1, prorated=True)], amount_cents=100)
        seats.subscribe("pro")
        seats.travel_to("2023-09-01T01:00:00Z")
        assert seats.fees() == [[share(1_000, 20, 31)], [share(10_000, 11, 31)]]


@pytest.mark.parametrize(
    ("model", "properties", "whole", "half"),
    [
        ("standard", {"amount": "2"}, 1_000, share(1_000, 15, 31)),
        # 3 at 2.00 and 2 at 1.00, and both flat amounts, which are never prorated.
        ("graduated", RANGES, 950, 537),
        # All 5 units choose the second range: 1.00 each, and its flat amount.
        ("volume", VOLUMES, 550, 292),
    ],
)
def test_models_price_units_of_a_whole_and_of_a_part_of_a_month(
    model: str, properties: dict[str, Any], whole: int, half: int
) -> None:
    with Seats(now="2024-01-17T00:00:00Z") as seats:
        charge = seats.fixed(units=5, charge_model=model, properties=properties, prorated=True)
        seats.plan(fixed_charges=[charge])
        seats.subscribe()
        seats.travel_to("2024-03-01T01:00:00Z")
        assert seats.fees() == [[half], [whole]]
        assert seats.billing.audit().findings == ()


def test_units_of_a_subscription_outlive_changes_of_the_plans(seats: Seats) -> None:
    seats.plan(fixed_charges=[seats.fixed()])
    seats.subscribe()
    seats.change_units(3, subscription=True)
    seats.change_units(20)
    seats.travel_to("2024-04-01T01:00:00Z")
    assert seats.fees() == [[3 * 1_000]]


@pytest.mark.parametrize("at", ["2024-03-01T00:00:00Z", "2024-03-02T00:00:00Z"])
@pytest.mark.parametrize(("units", "billed"), [(15, [5_000, 10_000]), (5, [0, 10_000])])
def test_a_draft_keeps_the_units_it_was_made_with_for_what_is_added_has_its_own_invoice(
    seats: Seats, units: int, billed: list[int], at: str
) -> None:
    seats.customer(invoice_grace_period=3)
    seats.plan(pay_in_advance=True, fixed_charges=[seats.fixed(pay_in_advance=True)])
    seats.subscribe()
    seats.travel_to(at)
    seats.change_units(units)
    seats.travel_to("2024-03-05T00:00:00Z")
    assert sorted(cents for invoice in seats.fees() for cents in invoice) == billed


def on_plans(seats: Seats, *plans: list[dict[str, Any]]) -> None:
    """April on plans of these fixed charges, each prorated and paid in advance; the first is subscribed to."""
    ahead = {"prorated": True, "pay_in_advance": True}
    for place, charges in enumerate(plans):
        fixed = [seats.fixed(**{"amount": "1", **ahead, **charge}) for charge in charges]
        seats.plan(code="basic" if place == 0 else f"plan-{place}", amount_cents=place, fixed_charges=fixed)
    seats.subscribe()


def test_what_was_paid_for_a_month_pays_for_it_after_two_upgrades_too() -> None:
    with Seats(now="2024-04-01T00:00:00Z") as seats:
        on_plans(seats, [{"units": 30}], [{"units": 30}], [{"units": 33}])
        seats.travel_to("2024-04-11T00:00:00Z")
        seats.subscribe("plan-1")
        seats.travel_to("2024-04-21T00:00:00Z")
        seats.subscribe("plan-2")
        assert seats.fees() == [[30 * 100], [0], [share((33 - 30) * 100, 10, 30)]]
        last = seats.invoices()[-1]["svc_id"]
        lines = seats.get(f"/invoices/{last}/explain")["invoice_explanation"]["fees"]
        (line,) = [fee for fee in lines if fee["type"] == "fixed_charge"]
        assert line["arithmetic"][-2:] == [
            "the old plan was paid 20.0 for 20 days, 10 of which are left",
            "less 10.0: 1.0 EUR",
        ]
        assert [str(finding) for finding in seats.billing.audit().findings] == []


def test_each_fee_of_the_old_plan_pays_once_for_the_fixed_charges_of_the_new_one() -> None:
    seats_and_guests: list[dict[str, Any]] = [{"units": 30}, {"units": 6, "code": "guests"}]
    with Seats(now="2024-04-01T00:00:00Z") as seats:
        on_plans(seats, seats_and_guests, seats_and_guests)
        seats.travel_to("2024-04-11T00:00:00Z")
        seats.subscribe("plan-1")
        assert seats.fees() == [[30 * 100, 6 * 100], [0, 0]]
    with Seats(now="2024-04-01T00:00:00Z") as seats:
        on_plans(seats, [{"units": 30}], seats_and_guests)
        seats.travel_to("2024-04-11T00:00:00Z")
        seats.subscribe("plan-1")
        assert seats.fees() == [[30 * 100], [0, share(6 * 100, 20, 30)]]


def test_units_added_before_an_upgrade_are_deducted_with_those_of_the_start() -> None:
    with Seats(now="2024-04-01T00:00:00Z") as seats:
        on_plans(seats, [{"units": 30}], [{"units": 42}])
        seats.travel_to("2024-04-06T00:00:00Z")
        seats.change_units(42)
        seats.travel_to("2024-04-11T00:00:00Z")
        seats.subscribe("plan-1")
        assert seats.fees() == [[30 * 100], [share((42 - 30) * 100, 25, 30)], [0]]
        assert [str(finding) for finding in seats.billing.audit().findings] == []


@pytest.mark.parametrize(
    ("old", "new", "paid"),
    [
        # 30 days at 1.00 on the old plan, the last 20 of them at 2.00 on the new one.
        (True, True, [3_000, 4_000 - 2_000]),
        (True, False, [3_000, 4_000 - 2_000]),
        (False, True, [1_000, 4_000]),
        (False, False, [1_000, 4_000]),
    ],
)
def test_each_day_around_an_upgrade_is_paid_once_in_advance_or_in_arrears(
    old: bool, new: bool, paid: list[int]
) -> None:
    with Seats(now="2024-04-01T00:00:00Z") as seats:
        seats.plan(fixed_charges=[seats.fixed("1", 30, prorated=True, pay_in_advance=old)])
        more = seats.fixed("2", 30, prorated=True, pay_in_advance=new)
        seats.plan(code="pro", amount_cents=1, fixed_charges=[more])
        seats.subscribe()
        seats.travel_to("2024-04-11T12:00:00Z")
        seats.subscribe("pro")
        seats.travel_to("2024-04-30T12:00:00Z")
        seats.unsubscribe()
        assert [cents for invoice in seats.fees() for cents in invoice] == paid
        assert [str(finding) for finding in seats.billing.audit().findings] == []


def test_a_year_paid_in_advance_pays_for_each_month_of_the_new_plan() -> None:
    with Seats(now="2024-01-01T00:00:00Z") as seats:
        seats.plan(interval="yearly", fixed_charges=[seats.fixed("366", 1, prorated=True, pay_in_advance=True)])
        for code, ahead in (("ahead", True), ("arrears", False)):
            monthly = seats.fixed("62", 1, prorated=True, pay_in_advance=ahead)
            seats.plan(code=code, amount_cents=100 + 100 * (not ahead), fixed_charges=[monthly])
        seats.subscribe()
        seats.travel_to("2024-10-11T12:00:00Z")
        seats.subscribe("ahead")
        # 21 of 31 days of October at 2.00, less 21 days at 1.00.
        assert seats.fees() == [[36_600], [share(6_200, 21, 31) - 2_100]]
        seats.travel_to("2024-11-01T03:00:00Z")
        assert seats.fees()[2:] == [[6_200 - 3_000]]
        seats.travel_to("2024-11-21T12:00:00Z")
        seats.subscribe("arrears")
        seats.travel_to("2025-02-01T03:00:00Z")
        # Ten days of November were paid with 62.00, those of December for the year; January was not.
        assert seats.fees()[3:] == [[share(6_200, 10, 30) - share(6_200, 10, 30)], [6_200 - 3_100], [6_200]]
        assert [str(finding) for finding in seats.billing.audit().findings] == []


def test_a_month_paid_in_advance_pays_for_the_first_days_of_a_year() -> None:
    with Seats(now="2023-04-01T00:00:00Z") as seats:
        seats.plan(fixed_charges=[seats.fixed("30", 1, prorated=True, pay_in_advance=True)])
        yearly = seats.fixed("365", 1, prorated=True, pay_in_advance=True)
        seats.plan(code="year", interval="yearly", amount_cents=100, fixed_charges=[yearly])
        seats.subscribe()
        seats.travel_to("2023-04-11T12:00:00Z")
        seats.subscribe("year")
        assert seats.fees() == [[3_000], [(365 - 100) * 100 - 2_000]]


@pytest.mark.parametrize("prorated", [True, False])
def test_an_upgrade_on_the_first_day_of_a_period_leaves_nothing_of_it_to_the_old_plan(prorated: bool) -> None:
    with Seats(now="2024-04-01T00:00:00Z") as seats:
        seats.plan(fixed_charges=[seats.fixed("1", 30, prorated=prorated)])
        seats.plan(code="pro", amount_cents=1, fixed_charges=[seats.fixed("2", 30, prorated=prorated)])
        seats.subscribe()
        seats.travel_to("2024-05-01T12:00:00Z")
        seats.subscribe("pro")
        seats.travel_to("2024-06-01T03:00:00Z")
        assert seats.fees() == [[3_000], [6_000]]
