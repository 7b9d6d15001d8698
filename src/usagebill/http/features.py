"""Features over HTTP, with their privileges."""

from __future__ import annotations

from functools import partial

from usagebill.http.endpoints import Endpoint
from usagebill.operations import features
from usagebill.queries.entitlements import feature_by_code
from usagebill.views.entitlements import feature_view

_feature = partial(Endpoint, view=feature_view)

ENDPOINTS = [
    _feature(
        "POST",
        "/features",
        features.create,
        body=features.FeatureInput,
        root="feature",
        returns="feature",
        summary="Create a feature",
    ),
    _feature(
        "GET",
        "/features",
        features.list_all,
        query=features.FeatureFilters,
        paged=True,
        returns="features",
        summary="List features",
    ),
    _feature("GET", "/features/{code}", feature_by_code, returns="feature", summary="Get a feature"),
    _feature(
        "PUT",
        "/features/{code}",
        features.update,
        find=feature_by_code,
        body=features.FeatureInput,
        root="feature",
        returns="feature",
        summary="Change a feature, and add privileges",
    ),
    _feature(
        "DELETE",
        "/features/{code}",
        features.delete,
        returns="feature",
        summary="Delete a feature, also from plans and subscriptions",
    ),
    _feature(
        "DELETE",
        "/features/{code}/privileges/{privilege_code}",
        features.delete_privilege,
        returns="feature",
        summary="Delete a privilege of a feature and all its values",
    ),
]
