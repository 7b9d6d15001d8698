"""Activities as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from usagebill.core.activity_logs import ActivityLog
from usagebill.core.api_logs import without_secrets
from usagebill.process.json_text import parse_json
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text


class ActivityLogView(TypedDict):
    activity_id: Id
    activity_type: str
    activity_source: str
    activity_object: Mapping[str, object]
    activity_object_changes: Mapping[str, object]
    user_email: str | None
    resource_id: Id
    resource_type: str
    organization_id: Id
    external_customer_id: str | None
    external_subscription_id: str | None
    api_key_id: Id | None
    request_id: str | None
    logged_at: Instant
    created_at: Instant


def _without_links(text: str) -> Mapping[str, object]:
    """The stored record without links that open documents, which entries of earlier versions have."""
    kept: Mapping[str, object] = without_secrets(parse_json(text.encode()), frozenset())
    return kept


def activity_log_view(_: Reader, activity: ActivityLog) -> ActivityLogView:
    """An activity, with the record as it was afterwards."""
    return {
        "activity_id": activity.id,
        "activity_type": activity.activity_type,
        "activity_source": activity.activity_source,
        "activity_object": _without_links(activity.activity_object),
        "activity_object_changes": _without_links(activity.activity_object_changes),
        "user_email": activity.user_email,
        "resource_id": activity.resource_id,
        "resource_type": activity.resource_type,
        "organization_id": activity.organization_id,
        "external_customer_id": activity.external_customer_id,
        "external_subscription_id": activity.external_subscription_id,
        "api_key_id": activity.api_key_id,
        "request_id": activity.request_id,
        "logged_at": instant_text(activity.logged_at),
        "created_at": instant_text(activity.written_at),
    }
