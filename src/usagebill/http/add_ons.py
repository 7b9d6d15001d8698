"""Add-ons over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import add_ons
from usagebill.views.add_ons import add_on_view

ENDPOINTS = [
    Endpoint(
        "POST",
        "/add_ons",
        add_ons.create,
        body=add_ons.AddOnInput,
        root="add_on",
        returns="add_on",
        view=add_on_view,
        summary="Create an add-on",
    ),
    Endpoint(
        "GET",
        "/add_ons",
        add_ons.list_all,
        paged=True,
        returns="add_ons",
        view=add_on_view,
        summary="List add-ons",
    ),
    Endpoint(
        "GET",
        "/add_ons/{code}",
        add_ons.get,
        returns="add_on",
        view=add_on_view,
        summary="Get an add-on",
    ),
    Endpoint(
        "PUT",
        "/add_ons/{code}",
        add_ons.update,
        find=add_ons.get,
        body=add_ons.AddOnInput,
        root="add_on",
        returns="add_on",
        view=add_on_view,
        summary="Change an add-on",
    ),
    Endpoint(
        "DELETE",
        "/add_ons/{code}",
        add_ons.delete,
        returns="add_on",
        view=add_on_view,
        summary="Delete an add-on and its fixed charges",
    ),
]
