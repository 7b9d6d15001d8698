"""Fees over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import fees
from usagebill.queries.fees import fee_by_id
from usagebill.rating.fee_events import events_of_fee
from usagebill.views.explanations import event_of_fee_view
from usagebill.views.fees import fee_view, untaxed_fee_view

ENDPOINTS = [
    Endpoint(
        "GET",
        "/fees",
        fees.list_all,
        query=fees.FeeFilters,
        paged=True,
        returns="fees",
        view=fee_view,
        summary="List fees",
    ),
    Endpoint("GET", "/fees/{fee_id}", fee_by_id, returns="fee", view=fee_view, summary="Get a fee"),
    Endpoint(
        "GET",
        "/fees/{fee_id}/events",
        events_of_fee,
        paged=True,
        returns="events",
        view=event_of_fee_view,
        summary="List the events that a fee counts",
    ),
    Endpoint(
        "PUT",
        "/fees/{fee_id}",
        fees.update,
        find=fee_by_id,
        body=fees.FeeInput,
        root="fee",
        returns="fee",
        view=fee_view,
        summary="Set the payment status of a fee without an invoice",
    ),
    Endpoint(
        "DELETE",
        "/fees/{fee_id}",
        fees.delete,
        returns="fee",
        view=untaxed_fee_view,
        summary="Delete a fee without an invoice",
    ),
]
