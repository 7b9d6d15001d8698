"""What was paid."""

from __future__ import annotations

from typing import ClassVar

from usagebill.bindings import Resource, Views, command, query
from usagebill.core.payments import Payment
from usagebill.operations import payments
from usagebill.views.payments import payment_view


class Payments(Resource):
    """What was paid of invoices."""

    views: ClassVar[Views] = {Payment: payment_view}

    create = command(payments.create)
    get = query(payments.get)
    list = query(payments.list_all)
    list_of_customer = query(payments.list_of_customer)
