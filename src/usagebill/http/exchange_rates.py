"""Exchange rates over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import exchange_rates
from usagebill.views.exchange_rates import exchange_rate_view

ENDPOINTS = [
    Endpoint(
        "POST",
        "/exchange_rates",
        exchange_rates.create,
        body=exchange_rates.ExchangeRateInput,
        root="exchange_rate",
        returns="exchange_rate",
        view=exchange_rate_view,
        summary="Set an exchange rate from a day on",
    ),
    Endpoint(
        "GET",
        "/exchange_rates",
        exchange_rates.list_all,
        query=exchange_rates.ExchangeRateFilters,
        paged=True,
        returns="exchange_rates",
        view=exchange_rate_view,
        summary="List exchange rates",
    ),
    Endpoint(
        "DELETE",
        "/exchange_rates/{exchange_rate_id}",
        exchange_rates.delete,
        returns="exchange_rate",
        view=exchange_rate_view,
        summary="Delete an exchange rate",
    ),
]
