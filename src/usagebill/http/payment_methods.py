"""Payment methods of customers over HTTP."""

from __future__ import annotations

from functools import partial

from usagebill.http.endpoints import Endpoint
from usagebill.operations import payment_methods
from usagebill.views.payment_providers import payment_method_view

_method = partial(Endpoint, view=payment_method_view)
_OF_CUSTOMER = "/customers/{external_id}/payment_methods"

ENDPOINTS = [
    _method(
        "GET",
        _OF_CUSTOMER,
        payment_methods.list_of_customer,
        paged=True,
        returns="payment_methods",
        summary="List the payment methods of a customer",
    ),
    _method(
        "PUT",
        f"{_OF_CUSTOMER}/{{payment_method_id}}/set_as_default",
        payment_methods.set_as_default,
        returns="payment_method",
        one_verb=True,
        summary="Make a payment method the customer's default",
    ),
    _method(
        "DELETE",
        f"{_OF_CUSTOMER}/{{payment_method_id}}",
        payment_methods.delete,
        returns="payment_method",
        summary="Delete a payment method of a customer",
    ),
]
