"""The ledger, and the exchange rates by which it converts."""

from __future__ import annotations

from typing import ClassVar

from usagebill.core.exchange_rates import ExchangeRate
from usagebill.core.ledger import ClosedMonth, Movement
from usagebill.operations import exchange_rates, ledger
from usagebill.resources.bindings import Resource, Views, command, query
from usagebill.views.exchange_rates import exchange_rate_view
from usagebill.views.ledger import closed_month_view, movement_view


class Ledger(Resource):
    """Every movement of money and debt, in double entry."""

    permission = "analytic"

    views: ClassVar[Views] = {Movement: movement_view, ClosedMonth: closed_month_view}

    list = query(ledger.list_all)
    close = command(ledger.close)


class ExchangeRates(Resource):
    """What other currencies are worth in that of a billing entity's books."""

    permission = "billing_entity"

    views: ClassVar[Views] = {ExchangeRate: exchange_rate_view}

    create = command(exchange_rates.create)
    delete = command(exchange_rates.delete)
    list = query(exchange_rates.list_all)
