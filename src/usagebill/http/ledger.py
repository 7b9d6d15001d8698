"""The ledger over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import ledger
from usagebill.views.ledger import movement_view

ENDPOINTS = [
    Endpoint(
        "GET",
        "/ledger",
        ledger.list_all,
        query=ledger.LedgerFilters,
        paged=True,
        returns="movements",
        view=movement_view,
        summary="List the movements of the ledger",
    ),
]
