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
        paged=True,
        returns="taxes",
        view=tax_details,
        summary="List taxes",
    ),
    Endpoint(
        "GET",
        "/taxes/{code}",
        taxes.get,
        returns="tax",
        view=tax_details,
        summary="Get a tax",
    ),
    Endpoint(
        "PUT",
        "/taxes/{code}",
        taxes.update,
        find=taxes.get,
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
        returns="tax",
        view=tax_details,
        summary="Delete a tax",
    ),
]
