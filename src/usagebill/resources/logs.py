"""What happened, and who did it."""

from __future__ import annotations

from typing import ClassVar

from usagebill.bindings import Resource, Views, query
from usagebill.core.activity_logs import ActivityLog
from usagebill.operations import activity_logs
from usagebill.views.activity_logs import activity_log_view


class ActivityLogs(Resource):
    """What has changed, by whom, with the values before and after."""

    views: ClassVar[Views] = {ActivityLog: activity_log_view}

    get = query(activity_logs.get)
    list = query(activity_logs.list_all)
