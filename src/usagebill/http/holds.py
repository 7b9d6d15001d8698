"""Holds over HTTP."""

from __future__ import annotations

from functools import partial

from usagebill.http.endpoints import Endpoint
from usagebill.operations import holds
from usagebill.views.holds import hold_view

_shown = partial(Endpoint, returns="hold", view=hold_view)

ENDPOINTS = [
    _shown(
        "POST",
        "/holds",
        holds.create,
        body=holds.HoldInput,
        root="hold",
        any_json=("properties",),
        summary="Reserve usage before it happens",
    ),
    Endpoint(
        "GET",
        "/holds",
        holds.list_all,
        query=holds.HoldFilters,
        paged=True,
        returns="holds",
        view=hold_view,
        summary="List holds",
    ),
    _shown("GET", "/holds/{hold_id}", holds.get, summary="Get a hold"),
    _shown(
        "POST",
        "/holds/{hold_id}/capture",
        holds.capture,
        body=holds.CaptureInput,
        root="event",
        any_json=("properties",),
        find=holds.get,
        summary="Store the usage that was held, and end the hold",
    ),
    _shown("POST", "/holds/{hold_id}/release", holds.release, summary="End a hold whose usage does not come"),
]
