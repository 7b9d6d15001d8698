"""Dunning campaigns over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import dunning_campaigns
from usagebill.queries.dunning import campaign_by_code
from usagebill.views.dunning_campaigns import dunning_campaign_view

# Campaigns make payment requests, and so need the permission for those.
ENDPOINTS = [
    Endpoint(
        "POST",
        "/dunning_campaigns",
        dunning_campaigns.create,
        body=dunning_campaigns.DunningCampaignInput,
        root="dunning_campaign",
        returns="dunning_campaign",
        view=dunning_campaign_view,
        summary="Create a dunning campaign",
    ),
    Endpoint(
        "GET",
        "/dunning_campaigns",
        dunning_campaigns.list_all,
        paged=True,
        returns="dunning_campaigns",
        view=dunning_campaign_view,
        summary="List dunning campaigns",
    ),
    Endpoint(
        "GET",
        "/dunning_campaigns/{code}",
        campaign_by_code,
        returns="dunning_campaign",
        view=dunning_campaign_view,
        summary="Get a dunning campaign",
    ),
    Endpoint(
        "PUT",
        "/dunning_campaigns/{code}",
        dunning_campaigns.update,
        body=dunning_campaigns.DunningCampaignInput,
        root="dunning_campaign",
        find=campaign_by_code,
        returns="dunning_campaign",
        view=dunning_campaign_view,
        summary="Change a dunning campaign",
    ),
    Endpoint(
        "DELETE",
        "/dunning_campaigns/{code}",
        dunning_campaigns.delete,
        returns="dunning_campaign",
        view=dunning_campaign_view,
        summary="Delete a dunning campaign",
    ),
]
