"""Estimates of fees over HTTP."""

from __future__ import annotations

from collections.abc import Iterable

from usagebill.http.endpoints import Endpoint
from usagebill.operations import estimates
from usagebill.operations.events import EventInput, EventsInput
from usagebill.resources.result_views import instant_fee_details
from usagebill.runtime.work import Work
from usagebill.views.estimates import InstantFeeView, estimated_fees_view


def _instant_fees_view(work: Work, fees: Iterable[estimates.InstantFee]) -> list[InstantFeeView]:
    return [instant_fee_details(work, fee) for fee in fees]


ENDPOINTS = [
    Endpoint(
        "POST",
        "/events/estimate_fees",
        estimates.estimate_fees,
        permission="event",
        body=EventInput,
        root="event",
        returns="fees",
        view=estimated_fees_view,
        summary="Estimate the fees of an event on top of current usage",
    ),
    Endpoint(
        "POST",
        "/events/estimate_instant_fees",
        estimates.estimate_instant_fees,
        permission="event",
        body=EventInput,
        root="event",
        returns="fees",
        view=_instant_fees_view,
        summary="Estimate the price of an event by itself",
    ),
    Endpoint(
        "POST",
        "/events/batch_estimate_instant_fees",
        estimates.estimate_batch_instant_fees,
        permission="event",
        body=EventsInput,
        returns="fees",
        view=_instant_fees_view,
        summary="Estimate the price of each of several events by itself",
    ),
]
