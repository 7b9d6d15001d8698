"""Taxes over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import taxes
from usagebill.views.taxes import tax_details

ENDPOINTS = [
    Endpoint(
        "POST",
        "/taxes",
        taxes.create,
        permission="tax",
        body=taxes.TaxInput,
        root="tax",
        returns="tax",
        view=tax_details,
        summary="Create a tax",
    ),
    Endpoint(
        "GET",
        "/taxes",
        taxes.list_all,
        permission="tax",
        paged=True,
        returns="taxes",
        view=tax_details,
        summary="List taxes",
    ),
    Endpoint(
        "GET",
        "/taxes/{code}",
        taxes.get,
        permission="tax",
        returns="tax",
        view=tax_details,
        summary="Get a tax",
    ),
    Endpoint(
        "PUT",
        "/taxes/{code}",
        taxes.update,
        find=taxes.get,
        permission="tax",
        body=taxes.TaxInput,
        root="tax",
        returns="tax",
        view=tax_details,
        summary="Change a tax",
    ),
    Endpoint(
        "DELETE",
        "/taxes/{code}",
        taxes.delete,
        permission="tax",
        returns="tax",
        view=tax_details,
        summary="Delete a tax",
    ),
]
