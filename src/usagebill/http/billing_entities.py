"""Billing entities and the organization over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import billing_entities, organizations
from usagebill.views.billing_entities import billing_entities_view, billing_entity_details
from usagebill.views.organizations import organization_view

ENDPOINTS = [
    Endpoint(
        "GET",
        "/billing_entities",
        billing_entities.list_all,
        returns="billing_entities",
        view=billing_entities_view,
        summary="List billing entities",
    ),
    Endpoint(
        "POST",
        "/billing_entities",
        billing_entities.create,
        body=billing_entities.BillingEntityInput,
        root="billing_entity",
        returns="billing_entity",
        view=billing_entity_details,
        summary="Create a billing entity",
    ),
    Endpoint(
        "GET",
        "/billing_entities/{code}",
        billing_entities.get,
        returns="billing_entity",
        view=billing_entity_details,
        summary="Get a billing entity",
    ),
    Endpoint(
        "PUT",
        "/billing_entities/{code}",
        billing_entities.update,
        body=billing_entities.BillingEntityInput,
        root="billing_entity",
        find=billing_entities.get,
        found_first=True,
        returns="billing_entity",
        view=billing_entity_details,
        summary="Change a billing entity",
    ),
    Endpoint(
        "GET",
        "/organizations",
        organizations.get,
        returns="organization",
        view=organization_view,
        summary="Get the organization",
    ),
    Endpoint(
        "PUT",
        "/organizations",
        organizations.update,
        body=organizations.OrganizationInput,
        root="organization",
        one_verb=True,
        returns="organization",
        view=organization_view,
        summary="Change the organization",
    ),
]
