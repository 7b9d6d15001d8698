"""The charges, filters and fixed charges of single subscriptions over HTTP."""

from __future__ import annotations

from functools import partial

from usagebill.http.endpoints import Endpoint
from usagebill.operations import subscription_charges
from usagebill.operations.plans import ChargeFilterInput, ChargeInput, FixedChargeInput
from usagebill.operations.subscription_charges import WhichSubscription
from usagebill.resources.result_views import shown_filter
from usagebill.views.plans import charge_view, fixed_charge_view

_of_subscription = partial(Endpoint, query=WhichSubscription)
_writing = partial(_of_subscription, found_first=True)
_CHARGES = "/subscriptions/{external_id}/charges"
_CHARGE = _CHARGES + "/{charge_code}"
_FILTERS = _CHARGE + "/filters"
_FILTER = _FILTERS + "/{filter_id}"
_FIXED_CHARGES = "/subscriptions/{external_id}/fixed_charges"
_FIXED_CHARGE = _FIXED_CHARGES + "/{fixed_charge_code}"

ENDPOINTS: list[Endpoint] = [
    _of_subscription(
        "GET",
        _CHARGES,
        subscription_charges.list_charges,
        paged=True,
        returns="charges",
        view=charge_view,
        summary="List the charges of a subscription",
    ),
    _of_subscription(
        "GET",
        _CHARGE,
        subscription_charges.get_charge,
        returns="charge",
        view=charge_view,
        summary="Get a charge of a subscription",
    ),
    _writing(
        "PUT",
        _CHARGE,
        subscription_charges.update_charge,
        find=subscription_charges.get_charge,
        body=ChargeInput,
        root="charge",
        returns="charge",
        view=charge_view,
        summary="Change a charge for one subscription",
    ),
    _of_subscription(
        "GET",
        _FILTERS,
        subscription_charges.list_filters,
        paged=True,
        returns="filters",
        view=shown_filter,
        summary="List the filters of a charge of a subscription",
    ),
    _writing(
        "POST",
        _FILTERS,
        subscription_charges.create_filter,
        find=subscription_charges.get_charge,
        body=ChargeFilterInput,
        root="filter",
        returns="filter",
        view=shown_filter,
        summary="Add a filter to a charge for one subscription",
    ),
    _of_subscription(
        "GET",
        _FILTER,
        subscription_charges.get_filter,
        returns="filter",
        view=shown_filter,
        summary="Get a filter of a charge of a subscription",
    ),
    _writing(
        "PUT",
        _FILTER,
        subscription_charges.update_filter,
        find=subscription_charges.get_filter,
        body=ChargeFilterInput,
        root="filter",
        returns="filter",
        view=shown_filter,
        summary="Change a filter of a charge for one subscription",
    ),
    _of_subscription(
        "DELETE",
        _FILTER,
        subscription_charges.delete_filter,
        returns="filter",
        view=shown_filter,
        summary="Delete a filter of a charge for one subscription",
    ),
    _of_subscription(
        "GET",
        _FIXED_CHARGES,
        subscription_charges.list_fixed_charges,
        paged=True,
        returns="fixed_charges",
        view=fixed_charge_view,
        summary="List the fixed charges of a subscription",
    ),
    _of_subscription(
        "GET",
        _FIXED_CHARGE,
        subscription_charges.get_fixed_charge,
        returns="fixed_charge",
        view=fixed_charge_view,
        summary="Get a fixed charge of a subscription",
    ),
    _writing(
        "PUT",
        _FIXED_CHARGE,
        subscription_charges.update_fixed_charge,
        find=subscription_charges.get_fixed_charge,
        body=FixedChargeInput,
        root="fixed_charge",
        returns="fixed_charge",
        view=fixed_charge_view,
        summary="Change a fixed charge for one subscription",
    ),
]
