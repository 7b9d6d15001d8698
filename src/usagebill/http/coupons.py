"""Coupons, and coupons applied to customers, over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import applied_coupons, coupons
from usagebill.views.coupons import applied_coupon_view, coupon_view, listed_applied_coupon_view

ENDPOINTS = [
    Endpoint(
        "POST",
        "/coupons",
        coupons.create,
        body=coupons.CouponInput,
        root="coupon",
        returns="coupon",
        view=coupon_view,
        summary="Create a coupon",
    ),
    Endpoint(
        "GET",
        "/coupons",
        coupons.list_all,
        paged=True,
        returns="coupons",
        view=coupon_view,
        summary="List coupons",
    ),
    Endpoint(
        "GET",
        "/coupons/{code}",
        coupons.get,
        returns="coupon",
        view=coupon_view,
        summary="Get a coupon",
    ),
    Endpoint(
        "PUT",
        "/coupons/{code}",
        coupons.update,
        find=coupons.get,
        body=coupons.CouponInput,
        root="coupon",
        returns="coupon",
        view=coupon_view,
        summary="Change a coupon",
    ),
    Endpoint(
        "DELETE",
        "/coupons/{code}",
        coupons.delete,
        returns="coupon",
        view=coupon_view,
        summary="Delete a coupon, and end it for every customer",
    ),
    Endpoint(
        "POST",
        "/applied_coupons",
        applied_coupons.apply,
        body=applied_coupons.AppliedCouponInput,
        root="applied_coupon",
        returns="applied_coupon",
        view=applied_coupon_view,
        summary="Apply a coupon to a customer",
    ),
    Endpoint(
        "GET",
        "/applied_coupons",
        applied_coupons.list_all,
        query=applied_coupons.AppliedCouponFilters,
        paged=True,
        returns="applied_coupons",
        view=listed_applied_coupon_view,
        summary="List applied coupons",
    ),
    Endpoint(
        "GET",
        "/customers/{external_id}/applied_coupons",
        applied_coupons.list_of_customer,
        query=applied_coupons.AppliedCouponFilters,
        paged=True,
        returns="applied_coupons",
        view=listed_applied_coupon_view,
        summary="List the coupons of a customer",
    ),
    Endpoint(
        "DELETE",
        "/customers/{external_id}/applied_coupons/{applied_coupon_id}",
        applied_coupons.terminate,
        returns="applied_coupon",
        view=applied_coupon_view,
        summary="End a coupon for a customer",
    ),
]
