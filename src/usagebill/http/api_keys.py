"""API keys over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import api_keys
from usagebill.resources.result_views import issued_key_view
from usagebill.views.api_keys import api_key_view

ENDPOINTS = [
    Endpoint(
        "POST",
        "/api_keys",
        api_keys.issue,
        body=api_keys.ApiKeyInput,
        root="api_key",
        returns="api_key",
        view=issued_key_view,
        secrets=("value",),
        shown_once=("value",),
        summary="Create an API key; its value is shown only now",
    ),
    Endpoint(
        "GET",
        "/api_keys",
        api_keys.list_all,
        paged=True,
        returns="api_keys",
        view=api_key_view,
        summary="List valid API keys",
    ),
    Endpoint(
        "GET",
        "/api_keys/{api_key_id}",
        api_keys.get,
        returns="api_key",
        view=api_key_view,
        summary="Get an API key",
    ),
    Endpoint(
        "PUT",
        "/api_keys/{api_key_id}",
        api_keys.change,
        body=api_keys.ApiKeyInput,
        root="api_key",
        find=api_keys.get,
        returns="api_key",
        view=api_key_view,
        secrets=("value",),
        summary="Change an API key",
    ),
    Endpoint(
        "POST",
        "/api_keys/{api_key_id}/rotate",
        api_keys.replace_key,
        body=api_keys.RotationInput,
        find=api_keys.get,
        returns="api_key",
        view=issued_key_view,
        secrets=("value",),
        shown_once=("value",),
        summary="Replace an API key by a new one; its value is shown only now",
    ),
    Endpoint(
        "DELETE",
        "/api_keys/{api_key_id}",
        api_keys.revoke,
        returns="api_key",
        view=api_key_view,
        secrets=("value",),
        summary="Revoke an API key",
    ),
]
