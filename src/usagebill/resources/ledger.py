"""The ledger."""

from __future__ import annotations

from typing import ClassVar

from usagebill.core.ledger import ClosedMonth, Movement
from usagebill.operations import ledger
from usagebill.resources.bindings import Resource, Views, command, query
from usagebill.views.ledger import closed_month_view, movement_view


class Ledger(Resource):
    """Every movement of money and debt, in double entry."""

    permission = "analytic"

    views: ClassVar[Views] = {Movement: movement_view, ClosedMonth: closed_month_view}

    list = query(ledger.list_all)
    close = command(ledger.close)
