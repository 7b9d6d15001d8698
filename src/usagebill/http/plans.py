"""Plans over HTTP, with their metadata, charges, filters and fixed charges."""

from __future__ import annotations

from collections.abc import Mapping

from usagebill.core.metadata import Metadata
from usagebill.core.plans import Plan
from usagebill.http.endpoints import Endpoint
from usagebill.operations import plans
from usagebill.operations.price_comparisons import PreviewedMonth, preview_change
from usagebill.queries.plans import plan_by_code
from usagebill.resources.result_views import shown_filter
from usagebill.runtime.work import Reader, Work
from usagebill.views.plans import charge_view, fixed_charge_view, plan_summary, plan_version_view, plan_view
from usagebill.views.price_comparisons import change_preview_view

_CHARGE = "/plans/{code}/charges/{charge_code}"
_FILTER = _CHARGE + "/filters/{filter_id}"
_SCHEDULED = "/plans/{code}/scheduled_prices/{version}"
_FIXED_CHARGE = "/plans/{code}/fixed_charges/{fixed_charge_code}"


def _metadata_view(_: Work, metadata: Metadata | None) -> Mapping[str, str | None] | None:
    return metadata


def _previewed_plan(reader: Reader, code: str, options: PreviewedMonth) -> Plan:
    # Of whichever month.
    return plan_by_code(reader, code)


ENDPOINTS: list[Endpoint] = [
    Endpoint(
        "POST",
        "/plans",
        plans.create,
        body=plans.PlanInput,
        root="plan",
        returns="plan",
        view=plan_view,
        summary="Create a plan",
    ),
    Endpoint("GET", "/plans", plans.list_all, paged=True, returns="plans", view=plan_summary, summary="List plans"),
    Endpoint("GET", "/plans/{code}", plan_by_code, returns="plan", view=plan_view, summary="Get a plan"),
    Endpoint(
        "PUT",
        "/plans/{code}",
        plans.update,
        find=plan_by_code,
        body=plans.PlanUpdate,
        root="plan",
        returns="plan",
        view=plan_view,
        summary="Change a plan",
    ),
    Endpoint(
        "GET",
        "/plans/{code}/versions",
        plans.list_versions,
        paged=True,
        returns="versions",
        view=plan_version_view,
        summary="List the versions of a plan",
    ),
    Endpoint(
        "PUT",
        _SCHEDULED,
        plans.update_scheduled_prices,
        body=plans.ScheduledPricesUpdate,
        root="scheduled_prices",
        returns="plan",
        view=plan_view,
        summary="Have scheduled prices of a plan wait for another day",
    ),
    Endpoint(
        "DELETE",
        _SCHEDULED,
        plans.delete_scheduled_prices,
        returns="plan",
        view=plan_view,
        summary="Take back scheduled prices of a plan",
    ),
    Endpoint("DELETE", "/plans/{code}", plans.delete, returns="plan", view=plan_view, summary="Delete a plan"),
    Endpoint(
        "POST",
        "/plans/{code}/preview_change",
        preview_change,
        opens=("subscription:read", "customer_usage:read"),
        find=_previewed_plan,
        body=plans.PlanUpdate,
        root="plan",
        query=PreviewedMonth,
        returns="change_preview",
        view=change_preview_view,
        summary="Preview what a change of a plan would cost its subscriptions; changes nothing",
    ),
    Endpoint(
        "POST",
        "/plans/{code}/metadata",
        plans.replace_metadata,
        body=plans.MetadataInput,
        returns="metadata",
        view=_metadata_view,
        summary="Replace the metadata of a plan",
    ),
    Endpoint(
        "PUT",
        "/plans/{code}/metadata",
        plans.merge_metadata,
        body=plans.MetadataInput,
        returns="metadata",
        view=_metadata_view,
        summary="Set keys of the metadata of a plan",
    ),
    Endpoint(
        "DELETE",
        "/plans/{code}/metadata",
        plans.delete_metadata,
        returns="metadata",
        view=_metadata_view,
        summary="Remove the metadata of a plan",
    ),
    Endpoint(
        "DELETE",
        "/plans/{code}/metadata/{key}",
        plans.delete_metadata_key,
        returns="metadata",
        view=_metadata_view,
        summary="Remove one key of the metadata of a plan",
    ),
    Endpoint(
        "POST",
        "/plans/{code}/charges",
        plans.create_charge,
        find=plan_by_code,
        found_first=True,
        body=plans.ChargeInput,
        root="charge",
        returns="charge",
        view=charge_view,
        summary="Add a charge to a plan",
    ),
    Endpoint(
        "GET",
        "/plans/{code}/charges",
        plans.list_charges,
        paged=True,
        returns="charges",
        view=charge_view,
        summary="List the charges of a plan",
    ),
    Endpoint("GET", _CHARGE, plans.get_charge, returns="charge", view=charge_view, summary="Get a charge of a plan"),
    Endpoint(
        "PUT",
        _CHARGE,
        plans.update_charge,
        find=plans.get_charge,
        found_first=True,
        body=plans.ChargeUpdate,
        root="charge",
        returns="charge",
        view=charge_view,
        summary="Change a charge of a plan",
    ),
    Endpoint(
        "DELETE",
        _CHARGE,
        plans.delete_charge,
        query=plans.ChargeOptions,
        returns="charge",
        view=charge_view,
        summary="Delete a charge of a plan",
    ),
    Endpoint(
        "POST",
        _CHARGE + "/filters",
        plans.create_filter,
        find=plans.get_charge,
        found_first=True,
        body=plans.ChargeFilterInput,
        root="filter",
        returns="filter",
        view=shown_filter,
        summary="Add a filter to a charge",
    ),
    Endpoint(
        "GET",
        _CHARGE + "/filters",
        plans.list_filters,
        paged=True,
        returns="filters",
        view=shown_filter,
        summary="List the filters of a charge",
    ),
    Endpoint("GET", _FILTER, plans.get_filter, returns="filter", view=shown_filter, summary="Get a filter of a charge"),
    Endpoint(
        "PUT",
        _FILTER,
        plans.update_filter,
        find=plans.get_filter,
        found_first=True,
        body=plans.ChargeFilterUpdate,
        root="filter",
        returns="filter",
        view=shown_filter,
        summary="Change a filter of a charge",
    ),
    Endpoint(
        "DELETE",
        _FILTER,
        plans.delete_filter,
        query=plans.FilterOptions,
        returns="filter",
        view=shown_filter,
        summary="Delete a filter of a charge",
    ),
    Endpoint(
        "POST",
        "/plans/{code}/fixed_charges",
        plans.create_fixed_charge,
        find=plan_by_code,
        found_first=True,
        body=plans.FixedChargeInput,
        root="fixed_charge",
        returns="fixed_charge",
        view=fixed_charge_view,
        summary="Add a fixed charge to a plan",
    ),
    Endpoint(
        "GET",
        "/plans/{code}/fixed_charges",
        plans.list_fixed_charges,
        paged=True,
        returns="fixed_charges",
        view=fixed_charge_view,
        summary="List the fixed charges of a plan",
    ),
    Endpoint(
        "GET",
        _FIXED_CHARGE,
        plans.get_fixed_charge,
        returns="fixed_charge",
        view=fixed_charge_view,
        summary="Get a fixed charge of a plan",
    ),
    Endpoint(
        "PUT",
        _FIXED_CHARGE,
        plans.update_fixed_charge,
        find=plans.get_fixed_charge,
        found_first=True,
        body=plans.FixedChargeUpdate,
        root="fixed_charge",
        returns="fixed_charge",
        view=fixed_charge_view,
        summary="Change a fixed charge of a plan",
    ),
    Endpoint(
        "DELETE",
        _FIXED_CHARGE,
        plans.delete_fixed_charge,
        query=plans.FixedChargeOptions,
        returns="fixed_charge",
        view=fixed_charge_view,
        summary="Delete a fixed charge of a plan",
    ),
]
