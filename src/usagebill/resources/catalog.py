"""A seller's catalogue: metrics, plans, add-ons, coupons, taxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import ClassVar

from usagebill.core.add_ons import AddOn
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.coupons import Coupon
from usagebill.core.plans import Charge, FixedCharge, Plan
from usagebill.core.price_comparisons import ComparedSubscription, last_month
from usagebill.core.price_lists import PriceListChange
from usagebill.core.price_versions import PlanVersion
from usagebill.core.pricing_units import PricingUnit
from usagebill.core.taxes import Tax
from usagebill.operations import add_ons, billable_metrics, coupons, plans, price_lists, pricing_units, taxes
from usagebill.operations.price_comparisons import comparisons, drafted_plan, preview_change
from usagebill.queries.plans import plan_by_code
from usagebill.resources.bindings import Message, Messages, Resource, Views, command, exact, query, worded
from usagebill.runtime.work import Reader
from usagebill.views.add_ons import add_on_view
from usagebill.views.billable_metrics import BillableMetricView, billable_metric_view
from usagebill.views.coupons import coupon_view
from usagebill.views.plans import DeletedPlan, PlanSummary, charge_view, fixed_charge_view, plan_version_view, plan_view
from usagebill.views.pricing_units import pricing_unit_view
from usagebill.views.taxes import tax_details


class AddOns(Resource):
    """Items of one-off invoices and fixed charges."""

    permission = "add_on"

    views: ClassVar[Views] = {AddOn: add_on_view}

    create = command(add_ons.create)
    update = command(add_ons.update)
    get = query(add_ons.get)
    list = query(add_ons.list_all)
    delete = command(add_ons.delete)


class BillableMetrics(Resource):
    """How events become units."""

    permission = "billable_metric"

    views: ClassVar[Views] = {BillableMetric: billable_metric_view}
    messages: ClassVar[Messages] = {
        "billable_metric.created": Message("A billable metric was created.", BillableMetricView),
        "billable_metric.updated": Message("A billable metric was updated.", BillableMetricView),
        "billable_metric.deleted": Message("A billable metric was deleted.", BillableMetricView),
    }

    create = command(billable_metrics.create)
    update = command(billable_metrics.update)
    get = query(billable_metrics.get)
    list = query(billable_metrics.list_all)
    delete = command(billable_metrics.delete)
    evaluate_expression = query(billable_metrics.evaluate_expression)


class Coupons(Resource):
    """Discounts on invoices."""

    permission = "coupon"

    views: ClassVar[Views] = {Coupon: coupon_view}

    create = command(coupons.create)
    update = command(coupons.update)
    get = query(coupons.get)
    list = query(coupons.list_all)
    delete = command(coupons.delete)


class Plans(Resource):
    """Price lists, with their charges, filters and fixed charges."""

    permission = "plan"

    views: ClassVar[Views] = {
        Plan: plan_view,
        Charge: charge_view,
        FixedCharge: fixed_charge_view,
        PlanVersion: plan_version_view,
    }
    messages: ClassVar[Messages] = {
        "plan.created": Message("A plan was created.", PlanSummary),
        "plan.updated": Message("A plan was updated.", PlanSummary),
        "plan.version_effective": Message("A day has come for which prices of a plan waited.", PlanSummary),
        "plan.version_scheduled": Message(
            "Prices of a plan wait for a day, or for the next period of each subscription.", PlanSummary
        ),
        "plan.deleted": Message("A plan is being deleted, and its subscriptions are being terminated.", DeletedPlan),
    }

    create = command(plans.create)
    update = command(plans.update)

    def compare(
        self, code: str, other: str | Mapping[str, object], start: date | None = None, end: date | None = None
    ) -> Sequence[ComparedSubscription]:
        """Last month of each subscription of the plan, under its own prices and under those of another plan.

        `other` is a plan's code, or the fields of `create`. `start` and `end` (both inclusive) select other days.
        Amounts are before taxes, coupons and credits; nothing is stored. Raises `NotFound`, and `Invalid` also for
        plans in different currencies.
        """
        with worded(self._runner, other if isinstance(other, Mapping) else {"other": other}, plans.PlanInput):
            new = other if isinstance(other, str) else self._runner.writing(lambda work: drafted_plan(work, other))

            def read(reader: Reader) -> Sequence[ComparedSubscription]:
                first, last = last_month(reader.now.date())
                return tuple(comparisons(reader, code, new, start or first, end or last))

            return self._runner.reading(read)

    preview_change = command(preview_change)
    get = query(plan_by_code)
    list = query(plans.list_all)
    list_versions = query(plans.list_versions)
    update_scheduled_prices = command(plans.update_scheduled_prices)
    delete_scheduled_prices = command(plans.delete_scheduled_prices)
    delete = command(plans.delete)
    create_charge = command(plans.create_charge)
    update_charge = command(plans.update_charge)
    get_charge = query(plans.get_charge)
    list_charges = query(plans.list_charges)
    delete_charge = command(plans.delete_charge)
    create_filter = command(plans.create_filter)
    update_filter = command(plans.update_filter)
    get_filter = query(plans.get_filter)
    list_filters = query(plans.list_filters)
    delete_filter = command(plans.delete_filter)
    create_fixed_charge = command(plans.create_fixed_charge)
    update_fixed_charge = command(plans.update_fixed_charge)
    get_fixed_charge = query(plans.get_fixed_charge)
    list_fixed_charges = query(plans.list_fixed_charges)
    delete_fixed_charge = command(plans.delete_fixed_charge)
    replace_metadata = command(plans.replace_metadata)
    merge_metadata = command(plans.merge_metadata)
    delete_metadata = command(plans.delete_metadata)
    delete_metadata_key = command(plans.delete_metadata_key)


class Prices(Resource):
    """Everything that decides prices as one list, by code: metrics, plans, add-ons, taxes, coupons and features."""

    def pull(self) -> Mapping[str, Sequence[Mapping[str, object]]]:
        """The price list; `apply` takes it. Empty sections and fields are left out."""
        return self._runner.reading(price_lists.pull)

    def diff(self, prices: Mapping[str, object], *, delete: bool = False) -> PriceListChange:
        """What `apply` would change, in fields and in what last month would have cost; changes nothing.

        Raises what `apply` raises, except for a rise.
        """
        return self._written(price_lists.diff, prices, delete=delete)

    def apply(
        self,
        prices: Mapping[str, object],
        *,
        effective: str | None = None,
        delete: bool = False,
        cascade_updates: bool = False,
    ) -> PriceListChange:
        """Make every record that a price list names what it says, all or nothing; what it does not name stays.

        `delete` deletes that, too. `cascade_updates` also changes subscriptions with prices of their own. Without
        `effective` (`immediately`, `next_period`, or a day such as "2026-04-01") it is refused if any subscription
        would have paid more last month, or this month so far. Raises `Invalid` and `NotFound`; `place` and `details`
        name the fields.
        """
        return self._written(
            price_lists.apply, prices, effective=effective, delete=delete, cascade_updates=cascade_updates
        )

    def _written(
        self, operation: Callable[..., PriceListChange], prices: Mapping[str, object], **options: object
    ) -> PriceListChange:
        sent = {str(name): exact(value) for name, value in prices.items()}
        with worded(self._runner, sent, price_lists.PriceListInput):
            return self._runner.writing(
                lambda work: operation(work, sent, price_lists.ApplyOptions(**options))  # type: ignore[arg-type]
            )


class PricingUnits(Resource):
    """The seller's own units of price."""

    views: ClassVar[Views] = {PricingUnit: pricing_unit_view}

    create = command(pricing_units.create)
    list = query(pricing_units.list_all)


class Taxes(Resource):
    """Rates, and where they apply."""

    permission = "tax"

    views: ClassVar[Views] = {Tax: tax_details}

    create = command(taxes.create)
    update = command(taxes.update)
    get = query(taxes.get)
    list = query(taxes.list_all)
    delete = command(taxes.delete)
