"""Logs of changes, requests and security events."""

from __future__ import annotations

from typing import ClassVar

from usagebill.core.activity_logs import ActivityLog
from usagebill.core.api_logs import ApiLog
from usagebill.core.security_logs import SecurityLog
from usagebill.operations import activity_logs, api_logs, security_logs
from usagebill.resources.bindings import Resource, Views, query
from usagebill.views.activity_logs import activity_log_view
from usagebill.views.api_logs import api_log_view
from usagebill.views.security_logs import security_log_view


class ActivityLogs(Resource):
    """The log of changes: the actor, and the values before and after."""

    permission = "activity_log"

    views: ClassVar[Views] = {ActivityLog: activity_log_view}

    get = query(activity_logs.get)
    list = query(activity_logs.list_all)


class ApiLogs(Resource):
    """Requests that change something, and their answers."""

    permission = "api_log"

    views: ClassVar[Views] = {ApiLog: api_log_view}

    get = query(api_logs.get)
    list = query(api_logs.list_all)


class SecurityLogs(Resource):
    """The log of keys, endpoints, connections and billing entities."""

    permission = "security_log"

    views: ClassVar[Views] = {SecurityLog: security_log_view}

    get = query(security_logs.get)
    list = query(security_logs.list_all)
